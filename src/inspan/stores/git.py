"""Calls of the git program as values, so that one owner can wait for them and another can await them.

Their input and output are files: no pipe has to be read while git runs.
"""

import os
import time
from collections.abc import Generator, Sequence
from typing import TypeVar

import msgspec

_KEPT_VARIABLES = ("PATH", "HOME", "XDG_CONFIG_HOME")
_USERS_CONFIGURATION = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM")
_MESSAGE_CHARACTERS = 300
T = TypeVar("T")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One call of git; its three files are paths."""

    argv: list[str]
    env: dict[str, str]
    stdin: str
    stdout: str
    stderr: str


# Yields steps, is sent their exit codes, returns what they came to; a yielded `None` lets the owner do other things.
Steps = Generator[Step | None, int, T]


class SnapshotError(Exception):
    """Why there is no snapshot, or none that can be used: one sentence."""


class Git(msgspec.Struct, frozen=True, kw_only=True):
    """Git in a git directory of ours over the work tree `top`; by `run_id` its processes are found, where it is set.

    `scratch` is a folder in there for an index and for what passes between steps: two who look at once have one each.
    `here` is the folder that paths are relative to, if it is not the top.
    """

    git_dir: str
    top: str
    run_id: str
    scratch: str = "owner"
    here: str = ""

    def step(self, *arguments: str, stdin: str = "", stdout: str = "", index: str = "index") -> Step:
        """A call that reads no configuration but ours. Files are named as they lie in `scratch`."""
        env = _base_environment() | {
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_DIR": self.git_dir,
            "GIT_INDEX_FILE": self.file(index),
            "GIT_WORK_TREE": self.top,
            "JRUN_ID": self.run_id,
        }
        return self._step(arguments, env, stdin=stdin, stdout=stdout)

    def config_step(self, git_dir: str, *arguments: str, stdout: str) -> Step:
        """A call that reads somebody's own configuration; for `git config`, which runs nothing that is named there."""
        theirs = {name: os.environ[name] for name in _USERS_CONFIGURATION if name in os.environ}
        env = _base_environment() | theirs | {"GIT_DIR": git_dir, "JRUN_ID": self.run_id}
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
            argv=["git", "-C", self.here or self.top, *arguments],
            env=env,
            stdin=self.file(stdin) if stdin else os.devnull,
            stdout=self.file(stdout) if stdout else os.devnull,
            stderr=self.file("complaints"),
        )


def check_step(step: Step) -> Steps[None]:
    """Takes a step; raises `SnapshotError` when git fails."""
    if (yield step):
        raise SnapshotError(failure_message(step.argv, read_file(step.stderr)))


def failure_message(argv: Sequence[str], stderr: bytes) -> str:
    """A sentence from the last line that a call left on stderr."""
    lines = stderr.decode(errors="replace").strip().splitlines()
    said = lines[-1][:_MESSAGE_CHARACTERS] if lines else "it did not say why"
    return f"`git {argv[3]}` failed: {said.rstrip('.')}."


def run_steps(steps: Steps[T], *, limit_s: float) -> T:
    """Takes the steps one after the other, here and now; raises `SnapshotError`, also when time is up."""
    deadline = time.monotonic() + limit_s
    try:
        step = next(steps)
        while True:
            step = steps.send(_run_step(step, limit_s=deadline - time.monotonic()) if step else 0)
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
        return "There is no git program on PATH."
    return f"{error.filename or 'The system'}: {error.strerror or error}."


def read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def write_file(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


def _run_step(step: Step, *, limit_s: float) -> int:
    import subprocess  # Start-up time: a supervisor does not wait like this.

    with open(step.stdin, "rb") as stdin, open(step.stdout, "wb") as stdout, open(step.stderr, "wb") as stderr:
        process = subprocess.Popen(step.argv, env=step.env, stdin=stdin, stdout=stdout, stderr=stderr)
        try:
            return process.wait(max(0.0, limit_s))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise TimeoutError from None


def _base_environment() -> dict[str, str]:
    return {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ} | {
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
