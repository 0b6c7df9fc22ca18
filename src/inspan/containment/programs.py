"""Finding the system's helper programs without importing what a start does not need."""

import os

_bundled_bwrap = ""
_paths: dict[tuple[str, str], str] = {}


def find_program(name: str, *, path: str | None = None) -> str:
    """The first executable of this name on PATH, or an empty string."""
    path = path if path is not None else os.environ.get("PATH", os.defpath)
    # A program that starts many runs looks for the same ones each time; what has gone since is looked for anew.
    known = _paths.get((name, path), "")
    if not known or not os.access(known, os.X_OK):
        known = _paths[name, path] = _search_path(name, path)
    return known


def _search_path(name: str, path: str) -> str:
    for folder in path.split(os.pathsep):
        candidate = os.path.join(folder, name)
        if folder and os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    return ""


def set_bundled_bwrap(path: str) -> None:
    """Names a bubblewrap that some package carries, for machines that have none of their own."""
    global _bundled_bwrap
    _bundled_bwrap = path


def find_bwrap() -> str:
    """The system's bubblewrap, else the one that was offered, else an empty string."""
    return find_program("bwrap") or _bundled_bwrap
