"""Finding somebody's git repository by looking at files alone, and a git directory of our own over its work tree.

Ours has no hooks, no filters and no remotes, and the repository's configuration is not in force in it: all of these can
make git run programs, and whoever writes to a work tree can often write to its `.git` too.
"""

import os
from collections.abc import Mapping, Sequence

import msgspec

from inspan.system.paths import is_below, is_within
from inspan.system.platform import copy_content

from .git import Git, write_file
from .settings_file import find_file_setting

_POINTER_BYTES = 4096
_POINTER = b"gitdir: "
# What decides how a file becomes an object, and which files are looked at; none of it names a program.
COPIED_SETTINGS = (
    "attributesfile",
    "autocrlf",
    "checkstat",
    "eol",
    "excludesfile",
    "filemode",
    "ignorecase",
    "precomposeunicode",
    "sparsecheckout",
    "sparsecheckoutcone",
    "symlinks",
    "trustctime",
)
_FIXED_SETTINGS = {
    "bare": "false",
    "compression": "1",
    "looseCompression": "0",
    "fsmonitor": "false",
    "fsync": "none",
    "hooksPath": "/dev/null",
    "protectHFS": "false",
    "protectNTFS": "false",
    "quotePath": "false",
    "safecrlf": "false",
    "splitIndex": "false",
    "untrackedCache": "false",
}
# What git itself makes in git data.
_GIT_FOLDERS = ("branches", "hooks", "info", "logs", "modules", "objects", "refs", "remotes", "worktrees")
_OBJECT_FORMAT = "extensions.objectformat"
_GLOB_CHARACTERS = "\\*?[ "


class Repository(msgspec.Struct, frozen=True, kw_only=True):
    """A work tree and where its git data lies: `common` is `git_dir`, but for a linked worktree."""

    top: str
    git_dir: str
    common: str


def find_repository(folder: str) -> Repository | None:
    """The repository whose work tree holds this folder; no program is run, nothing is followed that is not a file."""
    top = folder
    while True:
        if found := read_work_tree(top):
            return found
        parent = os.path.dirname(top)
        if parent == top:
            return None
        top = parent


def read_work_tree(folder: str) -> Repository | None:
    """The repository of which this folder itself is the work tree."""
    git_dir = _find_git_dir(os.path.join(folder, ".git"))
    return Repository(top=folder, git_dir=git_dir, common=_find_common_dir(git_dir)) if git_dir else None


def read_bare_repository(folder: str) -> Repository | None:
    """The repository without a work tree that this folder itself is."""
    if not is_bare_repository(folder):
        return None
    return Repository(top=folder, git_dir=folder, common=_find_common_dir(folder))


def read_inode(folder: str) -> int:
    """What a folder keeps when it is moved; 0 where nobody knows."""
    try:
        return os.stat(folder).st_ino
    except OSError:
        return 0


def is_whole(repository: Repository) -> bool:
    """Whether all of the git data lies where the repository does: in `.git`, in another folder of the work tree that
    `.git` names, or, without a work tree, in the folder itself.
    """
    top, data = repository.top, repository.git_dir
    if repository.common != data or data in (top, os.path.join(top, ".git")):
        return repository.common == data
    inside = os.path.join(os.path.realpath(top), os.path.relpath(data, top))
    return is_within(data, top) and os.path.realpath(data) == inside


def is_own_git_data(repository: Repository) -> bool:
    """Whether the git data is of this work tree by its own word, too: it lies in there, is of a worktree whose record
    names the tree, or of a submodule whose settings do.
    """
    pointer = os.path.join(repository.top, ".git")
    if repository.common == repository.git_dir:
        named = _read_work_tree_setting(repository.common)
        return is_whole(repository) or (
            bool(named) and _is_same(os.path.join(repository.common, named), repository.top)
        )
    back = os.fsdecode(read_plain_file(os.path.join(repository.git_dir, "gitdir"), limit_bytes=_POINTER_BYTES)).strip()
    in_common = _is_same(os.path.dirname(repository.git_dir), os.path.join(repository.common, "worktrees"))
    return in_common and bool(back) and _is_same(os.path.join(repository.git_dir, back), pointer)


def _is_same(path: str, other: str) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)


def find_bare_repository(folder: str) -> str:
    """The repository without a work tree that this folder is, or lies in; empty where there is none."""
    while not is_bare_repository(folder):
        parent = os.path.dirname(folder)
        if parent == folder:
            return ""
        folder = parent
    return folder


def find_git_data_around(folder: str) -> str:
    """The git data that a folder is a part of, being in one of the folders that git itself makes; empty for any other,
    and in a work tree that lies in there.
    """
    data, tree = find_bare_repository(folder), find_repository(folder)
    part = os.path.relpath(folder, data).partition(os.sep)[0] if data else ""
    return data if part in _GIT_FOLDERS and not (tree and is_below(tree.top, data)) else ""


def is_bare_repository(folder: str) -> bool:
    """Whether a folder is git data itself, and no `.git` of a work tree is needed for git to use it.

    `HEAD` may be a link to a branch that is not there yet, as git has made it in former times.
    """
    if not os.path.lexists(os.path.join(folder, "HEAD")):
        return False
    common = _find_common_dir(folder)
    return _holds(common, "objects") and _holds(common, "refs")


def find_repository_folder(top: str) -> str:
    """The folder that stands for the repository of a work tree, whichever of its worktrees that is.

    Of a linked worktree it is the main one, or the repository itself where that is bare; of any other it is `top`: of
    a submodule, and where `.git` leads nowhere.
    """
    git_dir = _find_git_dir(os.path.join(top, ".git"))
    common = _find_common_dir(git_dir) if git_dir else ""
    if common == git_dir:
        return top
    if os.path.basename(common) == ".git":
        return os.path.realpath(os.path.dirname(common))
    named = _read_work_tree_setting(common)  # Of a submodule, whose git data lies in the repository around it.
    return os.path.realpath(os.path.join(common, named))


def list_linked_worktrees(common: str) -> dict[str, str]:
    """The git directory of each worktree that is linked to a repository, and its top, whether that is there or not."""
    folder = os.path.join(common, "worktrees")
    try:
        git_dirs = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    except OSError:
        return {}
    return {git_dir: top for git_dir in git_dirs if (top := _read_linked_top(git_dir))}


def fill_git_dir(git: Git, repository: Repository, *, settings: Mapping[str, str], hidden: Sequence[str]) -> None:
    """Fills our git directory: the repository's objects to read from, a copy of its index, its lists of ignored files.

    `settings` are what the repository's own git would use; `hidden` are folders that are never looked into.
    """
    path = git.git_dir
    write_file(os.path.join(path, "config"), _format_config(settings))
    write_file(os.path.join(path, "HEAD"), b"ref: refs/heads/none\n")
    write_file(
        os.path.join(path, "objects/info/alternates"), _quote_path(os.path.join(repository.common, "objects")) + b"\n"
    )
    copy_file(os.path.join(repository.common, "info/attributes"), os.path.join(path, "info/attributes"))
    copy_file(os.path.join(repository.git_dir, "info/sparse-checkout"), os.path.join(path, "info/sparse-checkout"))
    ignored = read_plain_file(os.path.join(repository.common, "info/exclude"))
    write_file(os.path.join(path, "info/exclude"), ignored + b"\n" + _format_ignores(repository.top, hidden))
    copy_index(git, repository, name="index")


def copy_index(git: Git, repository: Repository, *, name: str) -> None:
    """Copies the index of a repository into our git directory, under this name in its scratch."""
    copy_file(os.path.join(repository.git_dir, "index"), git.file(name))
    for shared in _list_shared_indexes(repository.git_dir):
        copy_file(os.path.join(repository.git_dir, shared), os.path.join(git.git_dir, shared))


def make_git_folders(git: Git) -> None:
    """The folders of our git directory."""
    for name in ("", "info", "objects", "objects/info", "objects/pack", "refs", git.scratch):
        os.makedirs(os.path.join(git.git_dir, name), mode=0o700, exist_ok=True)


def copy_file(source: str, target: str) -> None:
    """Copies a file, if it is one, with its time: by that git knows which entries of an index it must not trust."""
    if not os.path.isfile(source):
        return
    with open(source, "rb") as read, open(target, "wb") as written:
        found = os.fstat(read.fileno())
        copy_content(read.fileno(), written.fileno(), found.st_size)
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))


def _find_git_dir(path: str) -> str:
    if os.path.isfile(path):
        pointer = read_plain_file(path, limit_bytes=_POINTER_BYTES)
        if not pointer.startswith(_POINTER):
            return ""
        target = os.fsdecode(pointer.removeprefix(_POINTER).rstrip(b"\r\n"))
        path = _follow(os.path.dirname(path), target)
    whole = os.path.lexists(os.path.join(path, "HEAD")) and _holds(_find_common_dir(path), "objects")
    return path if whole else ""


def _find_common_dir(git_dir: str) -> str:
    target = read_plain_file(os.path.join(git_dir, "commondir"), limit_bytes=_POINTER_BYTES).rstrip(b"\r\n")
    return _follow(git_dir, os.fsdecode(target)) if target else git_dir


def _follow(folder: str, target: str) -> str:
    """What a path leads to from a folder; where a link comes before `..`, that is not what it says."""
    path = os.path.join(folder, target)
    plain = os.path.normpath(path)
    return plain if _is_same(path, plain) else os.path.realpath(path)


def _holds(git_dir: str, name: str) -> bool:
    """Whether git data has what git looks for, as git does: a file that can be executed will do."""
    return os.access(os.path.join(git_dir, name), os.X_OK)


def _read_linked_top(git_dir: str) -> str:
    target = read_plain_file(os.path.join(git_dir, "gitdir"), limit_bytes=_POINTER_BYTES).rstrip(b"\r\n")
    return os.path.dirname(os.path.normpath(os.path.join(git_dir, os.fsdecode(target)))) if target else ""


def _read_work_tree_setting(common: str) -> str:
    """`core.worktree` of a repository's own configuration; empty where it is not set."""
    return find_file_setting(os.path.join(common, "config"), "core.worktree")


def read_plain_file(path: str, *, limit_bytes: int = -1) -> bytes:
    """What is in a file; nothing, where there is none or it is no file: reading from a pipe could wait for ever."""
    try:
        if not os.path.isfile(path):
            return b""
        with open(path, "rb") as file:
            return file.read(limit_bytes)
    except OSError:
        return b""


def _list_shared_indexes(git_dir: str) -> list[str]:
    try:
        return [name for name in os.listdir(git_dir) if name.startswith("sharedindex.")]
    except OSError:
        return []


def _format_config(settings: Mapping[str, str]) -> bytes:
    carried = {name: settings[f"core.{name}"] for name in COPIED_SETTINGS if f"core.{name}" in settings}
    object_format = settings.get(_OBJECT_FORMAT, "")
    lines = ["[core]", f"\trepositoryformatversion = {1 if object_format else 0}"]
    lines += [f"\t{name} = {_quote_setting(value)}" for name, value in {**carried, **_FIXED_SETTINGS}.items()]
    if object_format:
        lines += ["[extensions]", f"\tobjectFormat = {_quote_setting(object_format)}"]
    return ("\n".join(lines) + "\n").encode(errors="surrogateescape")


def _quote_setting(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _quote_path(path: str) -> bytes:
    """A line of an alternates file, in the one spelling that takes any name."""
    escaped = "".join(f"\\{ord(character):03o}" if character in '"\\\n' else character for character in path)
    return os.fsencode(f'"{escaped}"')


def _format_ignores(top: str, hidden: Sequence[str]) -> bytes:
    """Patterns for the folders below `top` that are not looked into."""
    real_top = os.path.realpath(top)
    inside = [os.path.relpath(os.path.realpath(path), real_top) for path in hidden]
    lines = [f"/{_escape_glob(path)}/\n" for path in inside if path.partition("/")[0] not in (".", "..")]
    return os.fsencode("".join(lines))


def _escape_glob(path: str) -> str:
    return "".join(f"\\{character}" if character in _GLOB_CHARACTERS else character for character in path)
