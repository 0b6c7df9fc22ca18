"""What of the host's programs a container is shown: the agent's, beside those of its image and never in their place."""

import os
import sys
from collections.abc import Iterable, Iterator

# What an image has of its own; whatever holds one of these would hide it.
_IMAGES_OWN = ("/bin", "/etc", "/lib", "/lib64", "/opt", "/sbin", "/usr/bin", "/usr/lib", "/usr/local/bin", "/var/lib")
_OWN_FOLDER = os.path.dirname(os.path.dirname(__file__))


def list_shown(started: Iterable[str], roots: Iterable[str]) -> Iterator[str]:
    """The `roots` that can be shown; of what is `started` from a folder that cannot, the file itself. Python and inspan
    are among them, for what of an agent is run by them.
    """
    yield from (root for root in roots if not _hides_image(root))
    yield from (path for path in started if _hides_image(os.path.dirname(path)))
    if not is_systems_python():
        yield from (sys.prefix, sys.base_prefix, _OWN_FOLDER)


def is_systems_python() -> bool:
    """Whether inspan runs by a Python that lies among the system's programs."""
    return _hides_image(sys.base_prefix)


def _hides_image(folder: str) -> bool:
    return any(f"{own}/".startswith(f"{folder.rstrip('/')}/") for own in _IMAGES_OWN)
