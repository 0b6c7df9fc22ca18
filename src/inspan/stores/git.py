"""Calls of the git program as values, so that one owner can wait for them and another can await them.

Their input and output are files: no pipe has to be read while git runs.
"""

import errno
import os
import threading
import time
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from inspan.system.programs import find_helper, find_program, helper_path

from .git_obstacles import find_deep_obstacle, find_git_dirs, find_obstacle

if TYPE_CHECKING:
    import subprocess

_KEPT_VARIABLES = ("HOME", "XDG_CONFIG_HOME")
_USERS_CONFIGURATION = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM")
_MESSAGE_CHARACTERS = 300
_PATH_CHARACTERS = 120
PATIENCE_S = 5.0
"""After so long it is looked whether git waits for a pipe that lies deeper in the work tree."""
_SLICE_S = 0.2
_STOPPED = "It was given up."
_EXCLUDES = "--exclude-standard"
# Git's words for an object that is not there, in the language that it is called in (`LC_ALL`).
_LACKS_OBJECT = ("bad object", "unable to read", "missing object")
QUIET_SETTINGS = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("submodule.recurse", "false"),
)
"""No hooks and no background jobs, whatever a repository says."""
_DURABLE = (("core.fsync", "objects,reference"), ("core.fsyncMethod", "batch"))
# For commits of ours: who uses the repository need not have a name there.
_IDENTITY = {f"GIT_{role}_{name}": "inspan" for role in ("AUTHOR", "COMMITTER") for name in ("NAME", "EMAIL")}
T = TypeVar("T")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One call of git; its three files are paths."""

    argv: list[str]
    env: dict[str, str]
    stdin: str
    stdout: str
    stderr: str

    @property
    def folder(self) -> str:
        """Where it is started."""
        return self.argv[2]


# Yields steps, is sent their exit codes, returns what they came to; a yielded `None` lets the owner do other things.
Steps = Generator[Step | None, int, T]


class SnapshotError(Exception):
    """Why there is no snapshot, or none that can be used: one sentence."""


class Git(msgspec.Struct, frozen=True, kw_only=True):
    """Git in a git directory of ours over the work tree `top`; by `run_id` its processes are found, where it is set.

    `scratch` is a folder in there for an index and for what passes between steps: two who look at once have one each.
    `here` is the folder that paths are relative to, if it is not the top. What is written goes to `objects`, if it is
    set, and is then on the disk when git returns.
    """

    git_dir: str
    top: str
    run_id: str
    scratch: str = "owner"
    here: str = ""
    objects: str = ""

    def step(self, *arguments: str, stdin: str = "", stdout: str = "", index: str = "index") -> Step:
        """A call that reads no configuration but ours. Files are named as they lie in `scratch`.

        Raises `SnapshotError` for a pipe in the work tree that git would wait for, as the other calls do.
        """
        _refuse_obstacle(find_obstacle(self.top, ignores=_EXCLUDES in arguments))
        env = _base_environment(self.top) | {
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_DIR": self.git_dir,
            "GIT_INDEX_FILE": self.file(index),
            "GIT_WORK_TREE": self.top,
            "JRUN_ID": self.run_id,
        }
        if self.objects:
            env |= {"GIT_OBJECT_DIRECTORY": self.objects, **format_settings(_DURABLE)}
        return self._step(arguments, env, stdin=stdin, stdout=stdout)

    def config_step(self, git_dir: str, *arguments: str, stdout: str) -> Step:
        """A call that reads somebody's own configuration; for `git config`, which runs nothing that is named there."""
        _refuse_obstacle(find_obstacle(self.top, [git_dir], ignores=False))
        theirs = {name: os.environ[name] for name in _USERS_CONFIGURATION if name in os.environ}
        env = _base_environment(self.top) | theirs | {"GIT_DIR": git_dir, "JRUN_ID": self.run_id}
        return self._step(arguments, env, stdin="", stdout=stdout)

    def file(self, name: str) -> str:
        """A file in `scratch`."""
        return os.path.join(self.git_dir, self.scratch, name)

    def clear_scratch(self) -> None:
        """Removes `scratch` with all that is in it; doing it twice is no error."""
        try:
            for entry in os.scandir(self.file("")):
                os.unlink(entry.path)
            os.rmdir(self.file(""))
        except FileNotFoundError:
            pass

    def _step(self, arguments: tuple[str, ...], env: dict[str, str], *, stdin: str, stdout: str) -> Step:
        return Step(
            argv=[find_git(self.top), "-C", self.here or self.top, *arguments],
            env=env,
            stdin=self.file(stdin) if stdin else os.devnull,
            stdout=self.file(stdout) if stdout else os.devnull,
            stderr=self.file("complaints"),
        )


class UserGit(msgspec.Struct, frozen=True, kw_only=True):
    """Git in somebody's own repository, with its configuration and filters but none of its hooks and background jobs.

    `folder` is a work tree in which git itself looks for the repository, or, with `git_dir`, its top. `scratch` is a
    folder for what passes between steps. `settings` stand above all that is configured; `index` is used instead of the
    repository's own.
    """

    folder: str
    scratch: str
    git_dir: str = ""
    index: str = ""
    settings: tuple[tuple[str, str], ...] = ()

    def step(self, *arguments: str, stdin: str = "", stdout: str = "") -> Step:
        """A call; files are named as they lie in `scratch`."""
        git_dirs = [self.git_dir] if self.git_dir else find_git_dirs(self.folder)
        _refuse_obstacle(find_obstacle(self.folder, git_dirs))
        theirs = {name: os.environ[name] for name in _USERS_CONFIGURATION if name in os.environ}
        env = _base_environment(self.folder) | theirs | _IDENTITY
        env |= format_settings((*QUIET_SETTINGS, *_DURABLE, *self.settings))
        if self.git_dir:
            env |= {"GIT_DIR": self.git_dir, "GIT_WORK_TREE": self.folder}
        if self.index:
            env |= {"GIT_INDEX_FILE": self.index}
        return Step(
            argv=[find_git(self.folder), "-C", self.folder, *arguments],
            env=env,
            stdin=self.file(stdin) if stdin else os.devnull,
            stdout=self.file(stdout) if stdout else os.devnull,
            stderr=self.file("complaints"),
        )

    def file(self, name: str) -> str:
        """A file in `scratch`."""
        return os.path.join(self.scratch, name)


def find_git(folder: str) -> str:
    """The git program for work in this folder, which is none that an agent could have put there.

    Raises `FileNotFoundError`, as starting it would.
    """
    program = find_helper("git", avoid=(folder,))
    if not program:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "git")
    return program


def read_steps(git: "Git | UserGit", *arguments: str) -> Steps[str]:
    """Takes a step and gives what it printed, without the line's end; raises `SnapshotError` when git fails."""
    yield from check_step(git.step(*arguments, stdout="said"))
    return os.fsdecode(read_file(git.file("said"))).strip()


def try_steps(git: "Git | UserGit", *arguments: str) -> Steps[str]:
    """The same, but empty when git fails."""
    code = yield git.step(*arguments, stdout="said")
    return "" if code else os.fsdecode(read_file(git.file("said"))).strip()


def check_step(step: Step) -> Steps[None]:
    """Takes a step; raises `SnapshotError` when git fails."""
    if (yield step):
        raise SnapshotError(failure_message(step.argv, read_file(step.stderr)))


def failure_message(argv: Sequence[str], stderr: bytes) -> str:
    """A sentence from the last line that a call left on stderr; for what an agent can easily do, one of our own."""
    lines = stderr.decode(errors="replace").strip().splitlines()
    said = lines[-1][:_MESSAGE_CHARACTERS] if lines else "it did not say why"
    if any(words in said for words in _LACKS_OBJECT):
        return "The repository does not have all of its objects any more: its .git was deleted, replaced or damaged."
    return f"`git {argv[3]}` failed: {said.rstrip('.')}."


def run_steps(steps: Steps[T], *, limit_s: float, stop: threading.Event | None = None) -> T:
    """Takes the steps one after the other, here and now; raises `SnapshotError`, also when time is up, and soon after
    somebody sets `stop`."""
    deadline = time.monotonic() + limit_s
    stop = stop or threading.Event()
    try:
        step = next(steps)
        while True:
            if stop.is_set():
                raise SnapshotError(_STOPPED)
            step = steps.send(_run_step(step, limit_s=deadline - time.monotonic(), stop=stop) if step else 0)
    except StopIteration as done:
        return done.value
    except TimeoutError:
        raise SnapshotError(timeout_message(limit_s)) from None
    except OSError as error:
        raise SnapshotError(os_error_message(error)) from error
    finally:
        steps.close()


def timeout_message(limit_s: float) -> str:
    """The sentence for a snapshot that was given up."""
    return f"A snapshot took longer than {limit_s:g} s."


def os_error_message(error: OSError) -> str:
    """The sentence for what the system did not allow."""
    if isinstance(error, FileNotFoundError) and error.filename == "git":
        found = find_program("git")
        if found:
            return f"{found} is not started: it lies where an agent could have put it. There is no other git on PATH."
        return "There is no git program on PATH."
    return f"{error.filename or 'The system'}: {error.strerror or error}."


def shorten_path(path: str) -> str:
    """A path as a sentence can hold it."""
    return path if len(path) <= _PATH_CHARACTERS else f"{path[:_PATH_CHARACTERS]}…"


def read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def write_file(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


def _run_step(step: Step, *, limit_s: float, stop: threading.Event) -> int:
    import subprocess  # Start-up time: a supervisor does not wait like this.

    with open(step.stdin, "rb") as stdin, open(step.stdout, "wb") as stdout, open(step.stderr, "wb") as stderr:
        process = subprocess.Popen(step.argv, env=step.env, stdin=stdin, stdout=stdout, stderr=stderr)
        try:
            return _wait(process, step, limit_s=limit_s, stop=stop)
        except BaseException:  # Also Ctrl-C: whoever is told that it failed goes on without it.
            process.kill()
            process.wait()
            raise


def _wait(process: "subprocess.Popen[bytes]", step: Step, *, limit_s: float, stop: threading.Event) -> int:
    """The exit code; raises `SnapshotError` where somebody sets `stop`, or git seems to wait for what never comes."""
    import subprocess  # Start-up time: as above.

    begun, is_looked_for = time.monotonic(), False
    while True:
        waited_s = time.monotonic() - begun
        try:
            return process.wait(max(0.0, min(_SLICE_S, limit_s - waited_s)))
        except subprocess.TimeoutExpired:
            pass
        if stop.is_set():
            raise SnapshotError(_STOPPED)
        if waited_s > PATIENCE_S and not is_looked_for:
            is_looked_for = True
            _refuse_obstacle(find_deep_obstacle(step.folder))
        if waited_s >= limit_s:
            raise TimeoutError


def _refuse_obstacle(found: str) -> None:
    if found:
        raise SnapshotError(found)


def format_settings(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Settings as variables: on the command line they would stand before the name of what failed."""
    pairs = {
        f"GIT_CONFIG_{kind}_{number}": word
        for number, pair in enumerate(settings)
        for kind, word in zip(("KEY", "VALUE"), pair, strict=True)
    }
    return {"GIT_CONFIG_COUNT": str(len(settings)), **pairs}


def _base_environment(folder: str) -> dict[str, str]:
    return {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ} | {
        "PATH": helper_path(avoid=(folder,)),  # It starts others by that.
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
