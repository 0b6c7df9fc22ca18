"""What a run's sandbox lets its agent see, write and reach."""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from inspan.config.locations import list_project_files
from inspan.contracts.sandbox import Box, GitFolders
from inspan.errors import BadInput, SandboxUnusable
from inspan.protocol.network import NetworkPolicy
from inspan.stores.git_settings import read_git_sources
from inspan.stores.nested_repositories import NestedRepositories, find_nested_repositories
from inspan.stores.paths import (
    ROOTS_VARIABLE,
    cache_home,
    data_home,
    make_private_folder,
    runtime_home,
    state_home,
)
from inspan.stores.repository import (
    Repository,
    find_git_data_around,
    find_repository,
    is_own_git_data,
    is_whole,
    read_bare_repository,
    read_plain_file,
)
from inspan.system.paths import find_home, is_below, is_within
from inspan.system.programs import OWN_ROOT, leads_out, list_exposed_folders

from .image_programs import list_shown
from .own_places import find_own_places, list_exposed_names
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
    writable = (task.cwd, *(task.extra_dirs if works else ()))
    protected = _find_protected(writable, always=choice.private, besides=task.read)
    pinned = _pin(protected, writable, env, own_code=choice.private and works)
    home = os.path.realpath(find_home(env))
    folders = (task.cwd, *task.extra_dirs)
    started = (choice.program.path, *reads)
    if choice.sandbox.container:
        programs = _list_image_programs(started, env, home=home, folders=folders)
    else:
        programs = _list_programs(started, env, home=home, folders=folders) if choice.private else ()
    below_tmp = _list_below_tmp(*started, home=home, folders=folders)
    wholes = _find_wholes(protected.repositories, folders, home=home if choice.private else "")
    return Box(
        cwd=task.cwd,
        real=_resolve_folders(folders, env, state=state),
        read_only=not works,
        writable=(*kept, *(task.extra_dirs if works else ())),
        hidden=_list_both_names(state, make_private_folder(runtime_home())),  # What is not there yet cannot be hidden.
        readable=(*below_tmp, *wholes.shown, *(() if works else task.extra_dirs), *task.read),
        root=choice.root,
        private=choice.private,
        home=home if choice.private else "",
        programs=_select_shown(programs, home=home, folders=folders),
        repositories=wholes.repositories,
        git_data=protected.data,
        pinned=pinned.paths,
        made_files=pinned.made_files,
        made_folders=pinned.made_folders,
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
    protected = _find_protected((cwd,), always=True, besides=read)
    pinned = _pin(protected, (cwd,), env, own_code=True)
    home = os.path.realpath(find_home(env))
    programs = _list_programs((), env, home=home, folders=(cwd,))
    wholes = _find_wholes(protected.repositories, (cwd,), home=home)
    return Box(
        cwd=cwd,
        real=_resolve_folders((cwd,), env, state=state_home(env)),
        hidden=_list_both_names(state_home(env), runtime_home(env)),
        readable=(*wholes.shown, *read),
        root=root,
        private=True,
        home=home,
        programs=_select_shown(programs, home=home, folders=(cwd,)),
        repositories=wholes.repositories,
        git_data=protected.data,
        pinned=pinned.paths,
        made_files=pinned.made_files,
        made_folders=pinned.made_folders,
        network=network,
    )


def _resolve_folders(folders: Iterable[str], env: Mapping[str, str], *, state: str) -> dict[str, str]:
    """Where the folders really are, looked up once: from here on a link in the way to one of them is refused. So is one
    that leads out of the roots which runs are held to, but for inspan's own worktrees.
    """
    roots = [os.path.realpath(root) for root in env.get(ROOTS_VARIABLE, "").split(os.pathsep) if root]
    real = {folder: os.path.realpath(folder) for folder in folders}
    for folder, place in real.items():
        if roots and not is_within(folder, state) and not any(is_within(place, root) for root in roots):
            step = f"Work below one of these: {', '.join(roots)}; {ROOTS_VARIABLE} names them."
            raise BadInput("cwd", folder, f"it is {place}, outside of where runs may work.", next_step=step)
    return real


class _Protected(NamedTuple):
    """Repositories of which a box writes the git data; of others, the files and folders of hooks that git obeys. `data`
    is the git data of all that were found, those included that are a project's own files.
    """

    repositories: tuple[GitFolders, ...] = ()
    files: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    data: tuple[str, ...] = ()


class _Wholes(NamedTuple):
    """The repositories that a box has, and the work trees that are `shown` since a box works in a part of them."""

    repositories: tuple[GitFolders, ...]
    shown: tuple[str, ...]


class _Pinned(NamedTuple):
    paths: tuple[str, ...]
    made_files: tuple[str, ...]
    made_folders: tuple[str, ...]


def _find_protected(folders: Sequence[str], *, always: bool, besides: Sequence[str]) -> _Protected:
    """The git data of each folder that a box may write, which it may commit to, and what git obeys in its work trees of
    git data elsewhere; unless `always`, only where the git data is not in the folder anyway. `besides` are read-only.
    """
    found: dict[str, GitFolders] = {}
    others: list[GitFolders] = []
    data: dict[str, None] = {}
    for folder in folders:
        _refuse_git_data(folder)
        nested = find_nested_repositories(folder, besides=besides) if always else NestedRepositories()
        all_found = (*_find_around(folder), *nested.found, *nested.unprotected)
        data |= {path: None for each in all_found for path in (each.git_dir, each.common)}
        others += [_list_obeyed(each, folders) for each in nested.found if not is_whole(each)]
        for repository in (*_find_around(folder), *filter(is_whole, nested.found)):
            if not os.path.isfile(os.path.join(repository.common, "config")):
                continue
            if always or not is_below(repository.common, folder):
                _require_own(repository)
                exposed = (*folders, repository.git_dir)  # Of a linked worktree, other git data is read-only.
                found.setdefault(repository.git_dir, _list_git_folders(repository, exposed))
    files = (path for each in others for path in each.files)
    hooks = (path for each in others for path in each.hooks)
    return _Protected(tuple(found.values()), tuple(files), tuple(hooks), tuple(data))


def _find_wholes(repositories: tuple[GitFolders, ...], folders: Sequence[str], *, home: str) -> _Wholes:
    """What a box that sees nothing else needs where it works in a part of a work tree: the rest of that, or git would
    take it for deleted, and commit so. One that is a whole home is not shown, and there is no git there then.

    Without a `home` the box sees all there is.
    """
    parts = [git for git in repositories if home and _has_part_alone(git, folders)]
    wide = [git for git in parts if _is_too_wide(git.top, home)]
    kept = tuple(git for git in repositories if git not in wide)
    return _Wholes(kept, tuple(dict.fromkeys(git.top for git in parts if git not in wide)))


def _has_part_alone(git: GitFolders, folders: Sequence[str]) -> bool:
    return git.top != git.common and not any(is_within(git.top, folder) for folder in folders)


def _find_around(folder: str) -> Iterator[Repository]:
    """The repository that a folder is in, and the one that it is itself."""
    if repository := find_repository(folder):
        yield repository
    if repository := read_bare_repository(folder):
        yield repository


def _refuse_git_data(folder: str) -> None:
    """Whoever may write there decides what git runs, and what it shows."""
    if data := find_git_data_around(folder):
        raise SandboxUnusable(
            f"{folder} is a part of the git data {data}: an agent that works there decides what git runs.",
            next_step="Work in the repository itself.",
        )


def _pin(protected: _Protected, writable: Sequence[str], env: Mapping[str, str], *, own_code: bool) -> _Pinned:
    """What stays as it is though it lies in folders that a box may write; what is not there yet, and would be obeyed,
    is made.
    """
    own = find_own_places(writable, env, asks_git=not protected.repositories)
    files, folders = (*protected.files, *own.files), (*protected.hooks, *own.folders)
    code = _list_own_code(writable, env) if own_code else ()
    return _Pinned(
        tuple(dict.fromkeys((*files, *folders, *_list_settings(writable), *code))),
        tuple(path for path in files if not os.path.lexists(path)),
        tuple(path for path in folders if not os.path.lexists(path)),
    )


def _list_both_names(*paths: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for path in paths for each in (path, os.path.realpath(path))))


def _list_settings(folders: Sequence[str]) -> list[str]:
    """The files of inspan's settings that count in these folders and lie in one of them.

    One that is not there yet can be made, and a link replaced: what such a file says is not trusted.
    """
    found = (each for folder in folders for above in _list_upward(folder) for each in list_project_files(above))
    plain = (path for path in found if os.path.isfile(path) and not os.path.islink(path))
    return list(dict.fromkeys(path for path in plain if any(is_below(path, folder) for folder in folders)))


def _list_upward(folder: str) -> Iterator[str]:
    yield folder
    if (above := os.path.dirname(folder)) != folder:
        yield from _list_upward(above)


def _require_own(repository: Repository) -> None:
    """Whoever writes a work tree can name any git data in its `.git`: it is the tree's if it names the tree in turn."""
    if not is_own_git_data(repository):
        raise SandboxUnusable(
            f"{repository.top}/.git names the git data {repository.git_dir}, which does not name {repository.top}.",
            next_step="Was it written by an agent? If it is yours: `git worktree repair`, or set core.worktree there.",
        )


def _list_obeyed(repository: Repository, writable: Sequence[str]) -> GitFolders:
    """What a work tree obeys whose git data lies elsewhere; of one that was led there, `.git` alone."""
    if is_own_git_data(repository):
        return _list_git_folders(repository, writable)
    pointer = os.path.join(repository.top, ".git")
    return GitFolders(top=repository.top, git_dir=repository.git_dir, common=repository.common, files=(pointer,))


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
    """Those that a box could write, but for what is protected in all git data."""
    protected = [os.path.join(repository.common, name) for name in ("config", "hooks")]
    for path in list_exposed_names(paths, writable):
        is_own = is_below(path, repository.git_dir) or is_below(path, repository.top)
        if (is_own or not is_below(path, repository.common)) and not any(is_within(path, each) for each in protected):
            yield path


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
    for path in _list_both_names(*filter(os.path.exists, own)):
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
