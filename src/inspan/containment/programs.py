"""Finding bubblewrap: the machine's own, or one that some package carries."""

from inspan.system.programs import find_helper

_bundled_bwrap = ""


def set_bundled_bwrap(path: str) -> None:
    """Names a bubblewrap that some package carries, for machines that have none of their own."""
    global _bundled_bwrap
    _bundled_bwrap = path


def find_bwrap() -> str:
    """The system's bubblewrap, else the one that was offered, else an empty string."""
    return find_helper("bwrap") or _bundled_bwrap
