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
from inspan.stores.paths import cache_home, data_home, make_private_folder, runtime_home, state_home
from inspan.stores.repository import (
    Repository,
    find_nested_repositories,
    find_repository,
    is_own_git_data,
    read_plain_file,
)
from inspan.system.programs import OWN_ROOT, is_within, leads_out, list_exposed_folders

from .image_programs import list_shown
from .resolve import Choice

# Where languages keep their programs and packages in a home; none of it holds credentials.
_TOOL_PATHS = [
    ".asdf",
    ".bun/bin",
    ".cargo/bin",
    ".cargo/config.toml",
    ".cargo/registry",
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
    "go/pkg/mod",
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
    "VOLTA_HOME",
]
_SETTINGS = (".gitconfig", ".config/git/config", ".cargo/config.toml")
# An address with a password, or a header with one.
_HOLDS_SECRET = re.compile(r"://[^/\s@]*:[^/\s@]+@|extraheader|authorization|password|token", re.IGNORECASE)
_SUBMODULE_PATH = re.compile(r"^\s*path\s*=\s*\"?(.+?)\"?\s*$", re.IGNORECASE | re.MULTILINE)
_CONFIG_BYTES = 1024 * 1024
_PACKAGES = ("site-packages", "node_modules")


def build_box(
    choice: Choice, *, env: Mapping[str, str], reads: tuple[str, ...], kept: tuple[str, ...], state: str
) -> Box:
    """The box of a run. `reads` are files that its launch needs, `kept` the folders that are the run's own."""
    task = choice.task
    works = task.mode == "exec"
    protected = _find_protected((task.cwd, *(task.extra_dirs if works else ())), always=choice.private)
    home = os.path.realpath(env.get("HOME") or os.path.expanduser("~"))
    folders = (task.cwd, *task.extra_dirs)
    started = (choice.program.path, *reads)
    if choice.sandbox.container:
        programs = _list_image_programs(started, env, home=home, folders=folders)
    else:
        programs = _list_programs(started, env, home=home, folders=folders) if choice.private else ()
    below_tmp = _list_below_tmp(*started, home=home, folders=folders)
    return Box(
        cwd=task.cwd,
        read_only=not works,
        writable=(*kept, *(task.extra_dirs if works else ())),
        hidden=(state, make_private_folder(runtime_home())),  # Made now: what is not there yet cannot be hidden.
        readable=(*below_tmp, *(() if works else task.extra_dirs), *task.read),
        root=choice.root,
        private=choice.private,
        home=home if choice.private else "",
        programs=_select_shown(programs, home=home, folders=folders),
        repositories=protected.repositories,
        pinned=(
            *protected.pinned,
            *_list_settings((task.cwd, *(task.extra_dirs if works else ()))),
            *(_list_own_code(folders, env) if choice.private and works else ()),
        ),
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
    programs = _list_programs((), env, home=home, folders=(cwd,))
    return Box(
        cwd=cwd,
        hidden=(state_home(env), runtime_home(env)),
        readable=read,
        root=root,
        private=True,
        home=home,
        programs=_select_shown(programs, home=home, folders=(cwd,)),
        repositories=protected.repositories,
        pinned=(*protected.pinned, *_list_settings((cwd,)), *_list_own_code((cwd,), env)),
        network=network,
    )


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


def _list_programs(
    started: tuple[str, ...], env: Mapping[str, str], *, home: str, folders: Sequence[str]
) -> Iterator[str]:
    """What holds the programs that the box may start: on PATH, of languages, of what is `started`, of Python and inspan
    itself. Not all of it may be shown.
    """
    yield from _list_home_tools(home)
    yield from (env[name] for name in _TOOL_VARIABLES if os.path.isabs(env.get(name, "")))
    for prefix in (sys.prefix, sys.base_prefix):
        yield from (os.path.join(prefix, name) for name in ("bin", "lib")) if _is_too_wide(prefix, home) else (prefix,)
    yield OWN_ROOT
    yield data_home(env)
    entries = [*env.get("PATH", "").split(os.pathsep), os.path.join(env.get("VIRTUAL_ENV", ""), "bin")]
    on_path = (os.path.join(entry, "program") for entry in entries if os.path.isabs(entry))
    yield from _list_beside((*started, *on_path), home=home, folders=folders)


def _list_image_programs(
    started: tuple[str, ...], env: Mapping[str, str], *, home: str, folders: Sequence[str]
) -> Iterator[str]:
    """What a container is shown beside its image: the agent's program, those that inspan has installed, and how the
    user commits.
    """
    exposed = list_exposed_folders(*folders)
    kept = [path for path in started if not leads_out(path, exposed)]
    paths = [each for path in kept for each in dict.fromkeys((os.path.abspath(path), os.path.realpath(path)))]
    yield from list_shown(paths, (*_list_beside(kept, home=home, folders=folders), data_home(env)))
    yield from (path for path in _list_home_tools(home) if "/git/" in path or path.endswith(".gitconfig"))


def _list_own_code(folders: Sequence[str], env: Mapping[str, str]) -> Iterator[str]:
    """What inspan itself is made of and starts, where it lies in folders that a box may write; raises `SandboxUnusable`
    where it cannot be kept from that.

    Its process goes on outside of the box, and loads and starts from there, today and the next time.
    """
    own = (sys.prefix, sys.base_prefix, OWN_ROOT, data_home(env), cache_home(env))
    for path in dict.fromkeys(filter(os.path.exists, own)):
        for folder in folders:
            if path == folder or is_within(folder, os.path.join(OWN_ROOT, "inspan")):
                raise _refuse_own_code(f"inspan itself is a part of {folder}")
            if is_within(path, folder):
                if os.path.realpath(path) != os.path.join(os.path.realpath(folder), os.path.relpath(path, folder)):
                    raise _refuse_own_code(f"inspan was started by {path}, to which a link in {folder} leads")
                yield path


def _refuse_own_code(problem: str) -> SandboxUnusable:
    return SandboxUnusable(
        f"{problem}: an agent that works there could change what runs outside of its sandbox.",
        next_step="Install inspan elsewhere, such as with `uv tool install inspan`, and start that one.",
    )


def _list_home_tools(home: str) -> Iterator[str]:
    for name in _TOOL_PATHS:
        path = os.path.join(home, name)
        if os.path.exists(path) and not (name in _SETTINGS and _HOLDS_SECRET.search(_read_text(path))):
            yield path


def _list_beside(programs: Iterable[str], *, home: str, folders: Sequence[str]) -> Iterator[str]:
    """What programs need, by both of their names; nothing for one that a link in the `folders` decides on."""
    exposed = list_exposed_folders(*folders)
    for path in programs:
        if not leads_out(path, exposed):
            for each in dict.fromkeys((os.path.realpath(path), os.path.abspath(path))):
                yield from _list_parts(each, home)


def _list_parts(program: str, home: str) -> Iterator[str]:
    """What a program needs: its folder, the packages that it is one of, and the prefix of a language around its `bin`.

    The folder around any other `bin` is somebody's project, or holds the credentials that the program was given.
    """
    folder = os.path.dirname(program)
    yield program if _is_too_wide(folder, home) else folder
    parts = folder.split(os.sep)
    marker = next((parts.index(name) + 1 for name in _PACKAGES if name in parts), 0)
    if marker:
        yield os.sep.join(parts[:marker])
    around = os.path.dirname(folder)
    if os.path.basename(folder) in ("bin", "sbin") and _is_prefix(around, home):
        yield around


def _is_prefix(folder: str, home: str) -> bool:
    """Whether a folder is that of a virtual environment, of conda, or of a language or a package manager."""
    if os.path.basename(folder) in _TOOL_PATHS and os.path.basename(folder).startswith("."):
        return True  # Of another home than this one.
    if _is_too_wide(folder, home) or os.path.lexists(os.path.join(folder, ".git")):
        return False
    if any(os.path.exists(os.path.join(folder, name)) for name in ("pyvenv.cfg", "conda-meta")):
        return True
    return os.path.isdir(os.path.join(folder, "lib")) and not _is_in_work_tree(folder, home)


def _is_in_work_tree(folder: str, home: str) -> bool:
    """One that is a whole home does not count: few of its files are a project's."""
    while folder != os.path.dirname(folder) and not is_within(home, folder):
        if os.path.lexists(os.path.join(folder, ".git")):
            return True
        folder = os.path.dirname(folder)
    return False


def _is_too_wide(folder: str, home: str) -> bool:
    return is_within(home, folder) or folder in ("/tmp", "/var", "/var/tmp", f"{home}/.local", f"{home}/.config")


def _select_shown(paths: Iterable[str], *, home: str, folders: Sequence[str]) -> tuple[str, ...]:
    """Those that are there and can be shown, each by its real path first, in which a link by another name ends.

    What lies in the `folders` that are worked in is there anyway. Nothing in them is followed to somewhere else: an
    earlier run may have put a link there for the next one to be shown what it leads to.
    """
    found: dict[str, None] = {}
    exposed = list_exposed_folders(*folders)
    own = [name for folder in folders for name in (folder, os.path.realpath(folder))]
    for path in paths:
        real = os.path.realpath(path)
        if not os.path.exists(real) or any(is_within(each, folder) for each in (path, real) for folder in own):
            continue
        if not leads_out(path, exposed):
            found |= {each: None for each in (real, path) if not _is_too_wide(each, home)}
    return tuple(found)


def _list_below_tmp(*programs: str, home: str, folders: Sequence[str]) -> tuple[str, ...]:
    """What programs need when a private /tmp would hide it."""
    shown = _select_shown(_list_beside(programs, home=home, folders=folders), home=home, folders=folders)
    return tuple(path for path in shown if path.startswith("/tmp/"))


def _read_text(path: str) -> str:
    """What is in a file; nothing, where it is none: a pipe that somebody has put there would be waited for."""
    return read_plain_file(path, limit_bytes=_CONFIG_BYTES).decode(errors="replace")
