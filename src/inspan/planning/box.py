"""What a run's sandbox lets its agent see, write and reach."""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from inspan.config.locations import list_project_files
from inspan.contracts.sandbox import Box, GitFolders
from inspan.errors import SandboxUnusable
from inspan.protocol.network import NetworkPolicy
from inspan.stores.git_settings import read_git_sources
from inspan.stores.paths import data_home, make_private_folder, runtime_home, state_home
from inspan.stores.repository import (
    Repository,
    find_nested_repositories,
    find_repository,
    is_own_git_data,
    read_plain_file,
)

from .image_programs import list_shown
from .resolve import Choice

# Where languages keep their programs in a home; none of it holds credentials.
_TOOL_PATHS = [
    ".asdf",
    ".bun/bin",
    ".cargo/bin",
    ".deno/bin",
    ".dotnet",
    ".elan",
    ".fnm",
    ".ghcup/bin",
    ".jenv",
    ".juliaup",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/uv/python",
    ".local/share/uv/tools",
    ".mise",
    ".nodenv",
    ".nvm",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman/candidates",
    ".volta",
    "bin",
    "go/bin",
    ".config/git/config",
    ".config/git/ignore",
    ".config/git/attributes",
    ".gitconfig",
]
_TOOL_VARIABLES = [
    "ASDF_DATA_DIR",
    "CONDA_PREFIX",
    "GOROOT",
    "JAVA_HOME",
    "MISE_DATA_DIR",
    "NVM_DIR",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "RUSTUP_HOME",
    "VIRTUAL_ENV",
    "VOLTA_HOME",
]
_GIT_CONFIGS = (".gitconfig", ".config/git/config")
# An address with a password, or a header with one.
_HOLDS_SECRET = re.compile(r"://[^/\s@]*:[^/\s@]+@|extraheader|authorization|password|token", re.IGNORECASE)
_SUBMODULE_PATH = re.compile(r"^\s*path\s*=\s*\"?(.+?)\"?\s*$", re.IGNORECASE | re.MULTILINE)
_CONFIG_BYTES = 1024 * 1024
_BELOW_WHICH_PACKAGES_LIE = ("site-packages", "node_modules")


def build_box(
    choice: Choice, *, env: Mapping[str, str], reads: tuple[str, ...], kept: tuple[str, ...], state: str
) -> Box:
    """The box of a run. `reads` are files that its launch needs, `kept` the folders that are the run's own."""
    task = choice.task
    works = task.mode == "exec"
    protected = _find_protected((task.cwd, *(task.extra_dirs if works else ())), always=choice.private)
    home = os.path.realpath(env.get("HOME") or os.path.expanduser("~"))
    started = (choice.program.path, *reads)
    if choice.sandbox.container:
        programs = _list_image_programs(started, env, home=home, cwd=task.cwd)
    else:
        programs = _list_programs(started, env, home=home) if choice.private else ()
    return Box(
        cwd=task.cwd,
        read_only=not works,
        writable=(*kept, *(task.extra_dirs if works else ())),
        hidden=(state, make_private_folder(runtime_home())),  # Made now: what is not there yet cannot be hidden.
        readable=(*_list_below_tmp(choice.program.path, *reads), *(() if works else task.extra_dirs), *task.read),
        root=choice.root,
        private=choice.private,
        home=home if choice.private else "",
        programs=_keep_existing(programs),
        repositories=protected.repositories,
        pinned=(*protected.pinned, *_list_settings((task.cwd, *(task.extra_dirs if works else ())))),
        network=choice.network,
        image=task.image,
        nesting=not works,  # Only there an agent's own sandbox is left on.
    )


def build_command_box(
    cwd: str,
    *,
    env: Mapping[str, str],
    read: tuple[str, ...],
    network: NetworkPolicy,
    root: bool,
) -> Box:
    """The box of a sandbox in which commands are run, not an agent."""
    protected = _find_protected((cwd,), always=True)
    home = os.path.realpath(env.get("HOME") or os.path.expanduser("~"))
    return Box(
        cwd=cwd,
        hidden=(state_home(env), runtime_home(env)),
        readable=read,
        root=root,
        private=True,
        home=home,
        programs=_keep_existing(_list_programs((), env, home=home)),
        repositories=protected.repositories,
        pinned=(*protected.pinned, *_list_settings((cwd,))),
        network=network,
    )


def _keep_existing(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path for path in paths if os.path.exists(path)))


class _Protected(NamedTuple):
    repositories: tuple[GitFolders, ...] = ()
    pinned: tuple[str, ...] = ()


def _find_protected(folders: Sequence[str], *, always: bool) -> _Protected:
    """The git data of each folder that a box may write, which it may commit to, and the pointers of work trees in it to
    git data elsewhere; unless `always`, only where the git data is not in the folder anyway.
    """
    found: dict[str, GitFolders] = {}
    pointers: list[str] = []
    for folder in folders:
        nested = find_nested_repositories(folder) if always else []
        pointers += [os.path.join(each.top, ".git") for each in nested if not _is_whole(each)]
        for repository in (find_repository(folder), *filter(_is_whole, nested)):
            if repository is None or not os.path.isfile(os.path.join(repository.common, "config")):
                continue
            if always or not _is_within(repository.common, folder):
                _require_own(repository)
                found.setdefault(repository.git_dir, _list_git_folders(repository, folders))
    return _Protected(tuple(found.values()), tuple(pointers))


def _list_settings(folders: Sequence[str]) -> list[str]:
    """The files of inspan's settings that count in these folders and lie in one of them.

    One that is not there yet can be made, and a link replaced: what such a file says is not trusted.
    """
    found = (each for folder in folders for above in _list_upward(folder) for each in list_project_files(above))
    plain = (path for path in found if os.path.isfile(path) and not os.path.islink(path))
    return list(dict.fromkeys(path for path in plain if any(_is_within(path, folder) for folder in folders)))


def _list_upward(folder: str) -> Iterator[str]:
    yield folder
    if (above := os.path.dirname(folder)) != folder:
        yield from _list_upward(above)


def _is_whole(repository: Repository) -> bool:
    """Whether the git data lies in the work tree, as in a repository that stands for itself."""
    return repository.common == repository.git_dir == os.path.join(repository.top, ".git")


def _require_own(repository: Repository) -> None:
    """Whoever writes a work tree can name any git data in its `.git`: it is the tree's if it names the tree in turn."""
    if not is_own_git_data(repository):
        raise SandboxUnusable(
            f"{repository.top}/.git names the git data {repository.git_dir}, which does not name {repository.top}.",
            next_step="Was it written by an agent? If it is yours: `git worktree repair`, or set core.worktree there.",
        )


def _list_git_folders(repository: Repository, writable: Sequence[str]) -> GitFolders:
    sources = read_git_sources(repository)
    trees = (repository.top, *_list_submodules(repository.top))
    pointers = [path for tree in trees if os.path.isfile(path := os.path.join(tree, ".git"))]
    return GitFolders(
        top=repository.top,
        git_dir=repository.git_dir,
        common=repository.common,
        files=tuple(_keep_exposed((*pointers, *sources.files), repository, writable)),
        hooks=tuple(_keep_exposed(sources.hooks, repository, writable)),
    )


def _keep_exposed(paths: Iterable[str], repository: Repository, writable: Sequence[str]) -> Iterator[str]:
    """Those that a box could write, but for what lies in the git data: that is protected as a whole.

    A link counts where it lies and where it leads to.
    """
    both_names = dict.fromkeys(each for path in paths for each in (path, os.path.realpath(path)))
    for path in both_names:
        if any(_is_within(path, folder) for folder in writable) and not _is_within(path, repository.common):
            yield path


def _is_within(path: str, folder: str) -> bool:
    return path.startswith(f"{folder.rstrip('/')}/")


def _list_submodules(top: str) -> Iterator[str]:
    for path in _SUBMODULE_PATH.findall(_read_text(os.path.join(top, ".gitmodules"))):
        tree = os.path.realpath(os.path.join(top, path))
        if tree.startswith(f"{top.rstrip('/')}/"):
            yield tree


def _list_programs(started: tuple[str, ...], env: Mapping[str, str], *, home: str) -> Iterator[str]:
    """The folders of what the box may start: on PATH, of languages, of what is `started`, of Python with inspan."""
    yield from _list_home_tools(home)
    yield from (env[name] for name in _TOOL_VARIABLES if os.path.isabs(env.get(name, "")))
    yield from (sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
    yield os.path.join(data_home(env))
    folders = (os.path.join(folder, "program") for folder in env.get("PATH", "").split(os.pathsep) if folder)
    for path in (*started, *folders):
        for each in dict.fromkeys((os.path.abspath(path), os.path.realpath(path))):
            yield _find_program_root(each, home=home)


def _list_image_programs(started: tuple[str, ...], env: Mapping[str, str], *, home: str, cwd: str) -> Iterator[str]:
    """What a container is shown beside its image: the agent's program, those that inspan has installed, and how the
    user commits.
    """
    paths = [each for path in started for each in dict.fromkeys((os.path.abspath(path), os.path.realpath(path)))]
    roots = (*(_find_program_root(path, home=home) for path in paths), data_home(env))
    yield from (path for path in list_shown(paths, roots) if not f"{path}/".startswith(f"{cwd.rstrip('/')}/"))
    yield from (path for path in _list_home_tools(home) if "/git/" in path or path.endswith(".gitconfig"))


def _list_home_tools(home: str) -> Iterator[str]:
    for name in _TOOL_PATHS:
        path = os.path.join(home, name)
        if os.path.exists(path) and not (name in _GIT_CONFIGS and _HOLDS_SECRET.search(_read_text(path))):
            yield path


def _find_program_root(path: str, *, home: str) -> str:
    """The folder that a program needs beside itself: of its package, or the one with its `bin`; never a whole home."""
    folder = os.path.dirname(path)
    parts = folder.split("/")
    marker = next((parts.index(name) for name in _BELOW_WHICH_PACKAGES_LIE if name in parts), 0)
    if marker:
        root = "/".join(parts[:marker])
        while os.path.basename(root).startswith(("python3", "lib")):
            root = os.path.dirname(root)
    else:
        root = os.path.dirname(folder) if os.path.basename(folder) in ("bin", "sbin") else folder
    return folder if _is_too_wide(root, home=home) else root


def _is_too_wide(root: str, *, home: str) -> bool:
    return f"{home}/".startswith(f"{root.rstrip('/')}/") or root in ("/tmp", "/var", f"{home}/.local")


def _list_below_tmp(*programs: str) -> tuple[str, ...]:
    """The folders that programs need when a private /tmp would hide them: their own and the one above."""
    # By both of its names: the link of a virtual environment is what is started.
    paths = dict.fromkeys(find(each) for each in programs for find in (os.path.realpath, os.path.abspath))
    return tuple(dict.fromkeys(_program_folder(path) for path in paths if path.startswith("/tmp/")))


def _program_folder(program: str) -> str:
    own, above = os.path.dirname(program), os.path.dirname(os.path.dirname(program))
    return next((folder for folder in (above, own) if folder not in ("/", "/tmp")), program)


def _read_text(path: str) -> str:
    """What is in a file; nothing, where it is none: a pipe that somebody has put there would be waited for."""
    return read_plain_file(path, limit_bytes=_CONFIG_BYTES).decode(errors="replace")
