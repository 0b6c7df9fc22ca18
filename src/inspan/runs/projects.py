"""Which project a folder belongs to, and which runs are of it: one rule for new runs, for `@last` and for deleting."""

import os
import zlib

import msgspec

from inspan.errors import RunNotFound
from inspan.system.paths import is_within

# Names of runs that are not ids: the last of this folder's project, and the last of all.
LAST = "@last"
LAST_ANYWHERE = "@last-anywhere"
# The longest name of a folder is 255 bytes, and nine are for the hash.
_NAME_BYTES = 246


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Whose runs are meant: those of a project. With `top`, its folder, also those that worked there, or in one of its
    `linked` git worktrees, under another name (`--project`)."""

    project: str
    top: str = ""
    linked: tuple[str, ...] = ()

    def matches(self, project: str, cwd: str) -> bool:
        """Whether a run of this project, in this working folder, is meant."""
        if project == self.project:
            return True
        # Below the top there may be repositories of their own, and those are other projects.
        return bool(cwd) and any(is_within(cwd, top) for top in self.tops) and project_of(cwd) == self.project

    @property
    def tops(self) -> tuple[str, ...]:
        """The folders below which its runs work."""
        return (self.top, *self.linked) if self.top else ()


def project_of(cwd: str) -> str:
    """The default project: the git top level's name and a short hash of its path, or the folder's own.

    Every worktree of a repository is of one project. Of a long name it has the beginning, and control characters are
    left out of it: it is a folder's name too.
    """
    return _name_project(top_of(cwd))


def _name_project(top: str) -> str:
    return f"{_plain(os.path.basename(top)) or 'root'}-{zlib.crc32(top.encode(errors='surrogateescape')):08x}"


def _plain(name: str) -> str:
    if not name.isprintable():
        name = "".join("_" if ord(letter) < 32 or 127 <= ord(letter) < 160 else letter for letter in name)
    data = os.fsencode(name)
    return name if len(data) <= _NAME_BYTES else data[:_NAME_BYTES].decode(errors="ignore")


def top_of(cwd: str) -> str:
    """The folder of a project, as its real path: the git top level above a folder, else that folder alone.

    Of a linked worktree it is that of the repository: its main worktree, or the bare repository itself.
    """
    here = top = os.path.realpath(cwd)
    while not os.path.exists(pointer := os.path.join(top, ".git")):
        parent = os.path.dirname(top)
        if parent == top:
            return here
        top = parent
    if os.path.isdir(pointer):
        return top
    from inspan.stores.repository import find_repository_folder  # Start-up time: most work trees are the main one.

    return find_repository_folder(top)


def scope_of(cwd: str) -> Scope:
    """The runs of the project to which a folder belongs."""
    top = top_of(cwd)
    return Scope(project=_name_project(top), top=top, linked=_list_linked(top))


def _list_linked(top: str) -> tuple[str, ...]:
    common = next((path for path in (os.path.join(top, ".git"), top) if os.path.isdir(f"{path}/worktrees")), "")
    if not common:
        return ()
    from inspan.stores.repository import list_linked_worktrees  # Start-up time: most repositories have none.

    return tuple(list_linked_worktrees(common).values())


def current_scope() -> Scope:
    """The runs of the current folder's project; raises `RunNotFound` where that folder has been deleted."""
    try:
        return scope_of(os.getcwd())
    except OSError as error:
        raise RunNotFound(
            "The current folder is gone, so it has no project.",
            next_step="Change to a folder that is there, or name the run by its id; @last-anywhere is the last of all.",
        ) from error
