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
from inspan.system.paths import find_home, is_within
from inspan.system.programs import helper_path

from .git import find_git
from .git_obstacles import find_obstacle
from .git_programs import Kind, find_kind, list_variables
from .repository import Repository

_LONGEST_S = 20.0
_MOST_FILES = 100
_INCLUDE = re.compile(r"include(if\..*)?\.path", re.DOTALL)
# Of a path that counts from the top of a work tree, what this leads to is nowhere.
_NO_REPOSITORY = Repository(top=os.sep, git_dir=os.devnull, common=os.devnull)
# Husky's folder of hooks: each of its programs runs the file of the same name in the folder around it.
_HUSKY = "_"
_SHELL_MARK = "!"
# What a command follows in a line for a shell, what may stand before a program, and who runs the file that comes first.
_PUNCTUATION, _REDIRECTIONS = frozenset("();<>|&"), frozenset("<>")
_KEYWORDS = frozenset(("{", "}", "!", "if", "then", "elif", "else", "do", "while", "until"))
_PREFIXES = frozenset(("exec", "env", "command", "nohup", "time", "nice"))
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "ash"))
_INTERPRETERS = _SHELLS | frozenset(("python", "python3", "node", "bun", "deno", "ruby", "perl", "php", "source", "."))
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
# A path with neither a pattern nor a variable in it, and no address.
_PLAIN_PATH = re.compile(r"[^*?\[$`:\\]*/[^/*?\[$`:\\]*\w[^/*?\[$`:\\]*")


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
    return _read_sources(repository)


def read_user_sources() -> GitSources:
    """The same of what git reads outside of every repository, but for paths that count from one; with the files of
    settings that are not there yet.
    """
    found = _read_sources(_NO_REPOSITORY)
    return GitSources(files=tuple(dict.fromkeys((*list_user_files(), *found.files))), hooks=found.hooks)


def list_user_files() -> tuple[str, ...]:
    """The files of the user's own settings, whether they are there or not."""
    if named := os.environ.get("GIT_CONFIG_GLOBAL"):
        return (os.path.abspath(named),)
    home = find_home(os.environ)
    settings = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    return (os.path.join(home, ".gitconfig"), os.path.join(settings, "git", "config"))


def _read_sources(repository: Repository) -> GitSources:
    files: dict[str, None] = {}
    hooks: dict[str, None] = {}
    named: list[tuple[Kind, str]] = []
    waiting = [""]
    while waiting and len(files) < _MOST_FILES:
        for setting in _list_settings(repository, file=waiting.pop()):
            files.setdefault(setting.origin)
            if _INCLUDE.fullmatch(setting.key):
                included = _resolve(setting.value, os.path.dirname(setting.origin))
                waiting += [included] if included not in files and os.path.isfile(included) else []
                files.setdefault(included)
            else:
                named.append((find_kind(setting.key), setting.value))
    for kind, value in (*named, *list_variables(os.environ)):
        files.update(dict.fromkeys(_find_named(kind, value, repository.top)))
        hooks.update(dict.fromkeys(_find_folders(kind, value, repository.top)))
    files.pop("", None)
    return GitSources(files=tuple(files), hooks=tuple(hooks))


def _list_settings(repository: Repository, *, file: str) -> Iterator[_Setting]:
    """Of one file, or of all that git reads for the repository; with what they include."""
    if obstacle := find_obstacle(repository.top, [repository.git_dir], ignores=False):
        raise _refuse(repository, obstacle)
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


def _list_hook_folders(folder: str, top: str) -> Iterator[str]:
    """A folder of hooks, and the one around it where its hooks are husky's; the top itself is none."""
    yield folder
    around = os.path.dirname(folder)
    if os.path.basename(folder) == _HUSKY and not is_within(top, around):
        yield around


def _find_folders(kind: Kind, value: str, top: str) -> Iterator[str]:
    """The folders of hooks or programs that a value names."""
    folder = _resolve(value, top)
    if kind == "hooks":
        yield from _list_hook_folders(folder, top)
    elif kind in ("folder", "template") and not is_within(top, folder):
        yield folder
        if kind == "template" and os.path.isdir(hooks := os.path.join(folder, "hooks")):
            yield hooks


def _find_named(kind: Kind, value: str, top: str) -> Iterator[str]:
    """The files that a value names, by paths from the top: those that are there, and of those that are not, the ones
    that a command would start. A command without such a word names a program on PATH.
    """
    if kind not in ("command", "marked", "files"):
        return
    command = value.removeprefix(_SHELL_MARK)
    words = (value, *(word.partition("=")[2] or word for word in _split(command)))
    paths = (_resolve(word, top) for word in words if "/" in word)
    yield from (path for path in paths if os.path.isfile(path))
    if kind == "command" or (kind == "marked" and command != value):
        paths = (_resolve(word, top) for word in _find_started(command) if _PLAIN_PATH.fullmatch(word))
        yield from (path for path in paths if not os.path.exists(path))


def _find_started(command: str) -> Iterator[str]:
    """The words of a command that name what it starts: programs, and the scripts of interpreters."""
    is_expected, runner, before = True, "", ""
    for word in _split(command, punctuation=True):
        if _PUNCTUATION.issuperset(word) or word in _KEYWORDS:
            is_expected, runner = _REDIRECTIONS.isdisjoint(word), ""
        elif runner in _SHELLS and before == "-c":
            yield from _find_started(word)
            runner = ""
        elif not word.startswith("-") and (runner or is_expected) and not _ASSIGNMENT.match(word):
            yield word
            name = os.path.basename(word)
            runner = name if is_expected and name in _INTERPRETERS else ""
            is_expected = is_expected and name in _PREFIXES
        before = word


def _split(command: str, *, punctuation: bool = False) -> list[str]:
    """The words of a command as a shell has them, with the punctuation between them as words of their own if asked."""
    words = shlex.shlex(command, posix=True, punctuation_chars=punctuation)
    words.whitespace_split, words.commenters = True, ""
    try:
        return list(words)
    except ValueError:
        return command.split()
