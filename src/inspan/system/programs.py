"""Programs on PATH, and which of its folders are not to be trusted: those that an agent could have written to.

An agent that works in a project can put a `git` into its `.venv/bin` or `node_modules/.bin`. Whoever has these on PATH
would start it, outside of every sandbox.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from inspan.system.paths import find_home, is_within

# Of some project, whichever it is: no program of the system is ever in there.
_PROJECT_FOLDERS = frozenset({".venv", "venv", ".direnv", ".tox", ".nox", "node_modules"})
_HELPERS = ("git", "bwrap", "unshare", "setpriv", "podman", "docker")
# Whoever lets an agent write these has no other programs to start.
_SYSTEM = ("/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin")
_MAX_LINKS = 40
_MAX_KEPT = 500
# The folder that inspan is imported from.
OWN_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_exposed: dict[str, None] = {}
_found: dict[tuple[str, ...], str] = {}
_paths: dict[tuple[str, ...], str] = {}
_tops: dict[str, tuple[str, ...]] = {}
_places: dict[str, tuple[str, ...]] = {}


def find_program(name: str, *, path: str | None = None, avoid: Sequence[str] = ()) -> str:
    """The first executable of this name on PATH, or an empty string.

    With folders to `avoid`, none that lies in them or is reached through them, and none by a relative entry.
    """
    path = path if path is not None else os.environ.get("PATH", os.defpath)
    # A program that starts many runs looks for the same ones each time; what has gone since is looked for anew.
    key = (name, path, *avoid)
    known = _found.get(key, "")
    if not known or not os.access(known, os.X_OK):
        _make_room(_found)
        known = _found[key] = _search_path(name, path, avoid)
    return known


def find_helper(name: str, *, path: str | None = None, avoid: Sequence[str] = ()) -> str:
    """A program that inspan itself starts, outside of every sandbox: git, bubblewrap, podman. Empty if there is none.

    It is taken from no folder that an agent could write, as far as this process knows: not from the current folder and
    its work tree, not from what was exposed, not from a project's own programs.
    """
    return find_program(name, path=helper_path(path, avoid=avoid), avoid=_list_avoided(avoid))


def helper_path(path: str | None = None, *, avoid: Sequence[str] = ()) -> str:
    """PATH as such a program gets it, for it starts others: without the folders that those are not taken from."""
    path = path if path is not None else os.environ.get("PATH", os.defpath)
    avoided = _list_avoided(avoid)
    key = (path, *avoided)
    if key not in _paths:
        _make_room(_paths)
        entries = (entry for entry in path.split(os.pathsep) if _PROJECT_FOLDERS.isdisjoint(entry.split(os.sep)))
        _paths[key] = os.pathsep.join(_keep_trusted(entries, avoided))
    return _paths[key]


def strip_path(path: str, *, avoid: Sequence[str]) -> str:
    """PATH without what is relative, lies in one of these folders or is reached through them."""
    return os.pathsep.join(_keep_trusted(path.split(os.pathsep), avoid)) if avoid else path


def list_exposed_folders(*folders: str) -> tuple[str, ...]:
    """What is open to an agent that works in these folders: they, by both of their names, and the work tree around.

    That of a whole home is left out: few of its files are a project's. So are the
    system's own folders of programs, and what they lie in.
    """
    found = dict.fromkeys(each for folder in folders for each in _list_around(folder))
    return tuple(folder for folder in found if not _is_systems(folder))


def _is_systems(folder: str) -> bool:
    return any(is_within(each, folder) for each in _SYSTEM)


def expose_folders(folders: Iterable[str]) -> None:
    """From now on this process takes no helper from these folders: an agent may write there.

    Those that PATH does not lead to now are not kept: a program may start runs in very many.
    """
    folders = [folder for folder in folders if not _is_systems(folder)]
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    ways = [*filter(os.path.isabs, entries), *filter(None, map(find_program, _HELPERS))]
    _exposed.update(dict.fromkeys(folder for folder in folders if any(leads_through(way, (folder,)) for way in ways)))


def list_kept_exposed() -> list[str]:
    """The folders of `expose_folders` that were kept, for another process that does the same work."""
    return list(_exposed)


def list_trusted_modules(folders: Sequence[str]) -> list[str]:
    """Where Python may look for modules while an agent writes to these folders: not in them.

    The current folder is among the places if Python was started with `-m`, and a variable can name others. What inspan
    itself is made of stays: a sandbox keeps it from being written.
    """
    own = (sys.prefix, OWN_ROOT)
    places = [os.path.abspath(place) for place in sys.path if place]
    return [
        place for place in places if any(is_within(place, each) for each in own) or not leads_through(place, folders)
    ]


def leads_through(path: str, folders: Sequence[str]) -> bool:
    """Whether a path lies in one of the folders, or a link on its way does: whoever writes there decides what it is."""
    if not folders:
        return False
    if path not in _places:
        _make_room(_places)
        _places[path] = tuple(trace_path(path))
    return any(is_within(place, folder) for place in _places[path] for folder in folders)


def leads_out(path: str, folders: Sequence[str]) -> bool:
    """Whether a link in one of the folders leads to it, and it lies in none of them."""
    real = os.path.realpath(path)
    return leads_through(path, folders) and not any(is_within(real, folder) for folder in folders)


def _search_path(name: str, path: str, avoid: Sequence[str]) -> str:
    for folder in path.split(os.pathsep):
        candidate = os.path.join(folder, name)
        if not folder or not os.path.isfile(candidate) or not os.access(candidate, os.X_OK):
            continue
        if not avoid or (os.path.isabs(folder) and not leads_through(candidate, avoid)):
            return candidate
    return ""


def _keep_trusted(entries: Iterable[str], avoid: Sequence[str]) -> Iterator[str]:
    yield from (entry for entry in entries if os.path.isabs(entry) and not leads_through(entry, avoid))


def _list_avoided(more: Sequence[str]) -> tuple[str, ...]:
    try:
        here = (os.getcwd(),)
    except FileNotFoundError:
        here = ()
    return tuple(dict.fromkeys((*list_exposed_folders(*here, *more), *_exposed)))


def _list_around(folder: str) -> tuple[str, ...]:
    if folder not in _tops:
        _make_room(_tops)
        names = dict.fromkeys((os.path.abspath(folder), os.path.realpath(folder)))
        _tops[folder] = tuple(dict.fromkeys(each for name in names for each in (name, _find_top(name))))
    return _tops[folder]


def _find_top(folder: str) -> str:
    """The top of the work tree around a folder, unless it is that of a whole home; the folder itself where it is in
    none.
    """
    home, top = find_home(os.environ), folder
    while not os.path.lexists(os.path.join(top, ".git")):
        if top == os.path.dirname(top):
            return folder
        top = os.path.dirname(top)
    return folder if is_within(home, top) else top


def _make_room(known: "dict[Any, Any]") -> None:
    """A program that works in ever new folders must not grow by them."""
    if len(known) > _MAX_KEPT:
        known.clear()


def trace_path(path: str) -> Iterator[str]:
    """Every place on the way to what a path names, through all links."""
    place, rest, links = "", path.split(os.sep)[::-1], 0
    while rest:
        part = rest.pop()
        if part in ("", os.curdir):
            continue
        if part == os.pardir:
            place = os.path.dirname(place).rstrip(os.sep)
            continue
        place = f"{place}{os.sep}{part}"
        yield place
        try:
            target = os.readlink(place)
        except OSError:
            continue  # No link, or not there.
        links += 1
        if links > _MAX_LINKS:
            return
        rest += target.split(os.sep)[::-1]
        place = "" if target.startswith(os.sep) else os.path.dirname(place).rstrip(os.sep)
