"""Which files decide what git runs: settings that are read from elsewhere, folders of hooks, programs that they name.

Whoever can write one of them has a program of theirs run the next time somebody uses git there.
"""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from inspan.errors import SandboxUnusable
from inspan.system.programs import helper_path

from .git import find_git
from .repository import Repository

_LONGEST_S = 20.0
_MOST_FILES = 100
_INCLUDE = re.compile(r"include(if\..*)?\.path", re.DOTALL)
_HOOKS = "core.hookspath"
# Their values are commands, which may name a file among those that are worked on.
_COMMAND = re.compile(
    r"core\.(fsmonitor|sshcommand|editor|pager|askpass|gitproxy)|sequence\.editor|diff\.external"
    r"|filter\..*\.(clean|smudge|process)|diff\..*\.(command|textconv)|merge\..*\.driver|(merge|diff)tool\..*\.cmd"
    r"|credential\.(.*\.)?helper|gpg\.(.*\.)?program|interactive\.difffilter|(pager|alias|trailer|remote)\..*",
    re.DOTALL,
)


class GitSources(msgspec.Struct, frozen=True, kw_only=True):
    """Files and folders of hooks, by their whole paths, whether they are there or not."""

    files: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()


class _Setting(NamedTuple):
    origin: str
    key: str
    value: str


def read_git_sources(repository: Repository) -> GitSources:
    """Asks git, which runs nothing for it; raises `SandboxUnusable` where git cannot read its own settings.

    Settings that are in force only sometimes, such as on one branch, count as well.
    """
    files: dict[str, None] = {}
    hooks: dict[str, None] = {}
    waiting = [""]
    while waiting and len(files) < _MOST_FILES:
        for setting in _list_settings(repository, file=waiting.pop()):
            files.setdefault(setting.origin)
            if _INCLUDE.fullmatch(setting.key):
                included = _resolve(setting.value, os.path.dirname(setting.origin))
                waiting += [included] if included not in files and os.path.isfile(included) else []
                files.setdefault(included)
            elif setting.key == _HOOKS:
                hooks.setdefault(_resolve(setting.value, repository.top))
            elif _COMMAND.fullmatch(setting.key):
                files.update(dict.fromkeys(_find_named(setting.value, repository.top)))
    files.pop("", None)
    return GitSources(files=tuple(files), hooks=tuple(hooks))


def _list_settings(repository: Repository, *, file: str) -> Iterator[_Setting]:
    """Of one file, or of all that git reads for the repository; with what they include."""
    argv = ["config", "--null", "--show-origin", "--includes", "--list", *(("--file", file) if file else ())]
    env = {**os.environ, "GIT_DIR": repository.git_dir, "GIT_WORK_TREE": repository.top, "LC_ALL": "C"}
    env["PATH"] = helper_path(avoid=(repository.top,))
    try:
        done = subprocess.run(
            [find_git(repository.top), *argv],
            cwd=repository.top,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LONGEST_S,
            check=False,
        )
    except FileNotFoundError:
        return  # Nobody uses git here.
    except subprocess.TimeoutExpired:
        raise _refuse(repository, f"no answer within {_LONGEST_S:g} s") from None
    if done.returncode:
        raise _refuse(repository, done.stderr.decode(errors="replace").strip())
    words = os.fsdecode(done.stdout).split("\0")
    for origin, setting in zip(words[::2], words[1::2], strict=False):
        key, _, value = setting.partition("\n")
        kind, _, path = origin.partition(":")
        yield _Setting(_resolve(path, repository.top) if kind == "file" else "", key, value)


def _refuse(repository: Repository, problem: str) -> SandboxUnusable:
    message = f"What git would run in {repository.top} cannot be told: git cannot read its settings ({problem})."
    return SandboxUnusable(message, next_step="Mend them: `git config --list` shows the fault.")


def _resolve(path: str, folder: str) -> str:
    return os.path.normpath(os.path.join(folder, os.path.expanduser(path)))


def _find_named(command: str, top: str) -> Iterator[str]:
    """The files that a command names, by paths from the top; a command without such a word names a program on PATH."""
    try:
        words = shlex.split(command.removeprefix("!"))
    except ValueError:
        words = command.split()
    paths = (_resolve(word.partition("=")[2] or word, top) for word in words if "/" in word)
    yield from (path for path in paths if os.path.isfile(path))
