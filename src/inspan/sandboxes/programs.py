"""Finding the system's helper programs without importing what a start does not need."""

import os

_bundled_bwrap = ""


def find(name: str, *, path: str | None = None) -> str:
    """The first executable of this name on PATH, or an empty string."""
    for folder in (path if path is not None else os.environ.get("PATH", os.defpath)).split(os.pathsep):
        candidate = os.path.join(folder, name)
        if folder and os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    return ""


def offer_bwrap(path: str) -> None:
    """Names a bubblewrap that some package carries, for machines that have none of their own."""
    global _bundled_bwrap
    _bundled_bwrap = path


def bwrap() -> str:
    """The system's bubblewrap, else the one that was offered, else an empty string."""
    return find("bwrap") or _bundled_bwrap
