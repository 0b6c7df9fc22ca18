"""Files of which an agent told and which a comparison of its work tree does not show."""

import os
from collections.abc import Iterable, Iterator

from inspan.protocol.events import Event, FileChanged

_SHOWN = 5
_WHY = "outside of the work tree, ignored by git, in another repository, or as they were before"


def explain_unseen(events: Iterable[Event], *, top: str, changed: Iterable[str], what: str) -> Iterator[str]:
    """A sentence about the files that the agent reported and that are not among `changed`, which are relative to `top`.

    `what` says how it is with them. Nothing where there are none: then the comparison shows all that is known.
    """
    shown = {_write_out(os.path.join(top, path)) for path in changed}
    told = dict.fromkeys(event.path for event in events if isinstance(event, FileChanged))
    unseen = [path for path in told if not {_write_out(path), _write_out(_resolve(path))} & shown]
    if unseen:
        more = f" and {len(unseen) - _SHOWN} more" if len(unseen) > _SHOWN else ""
        yield f"The agent reported files {what} ({_WHY}): {', '.join(unseen[:_SHOWN])}{more}."


def _write_out(path: str) -> str:
    """A name as events have it: a byte of it that is no text is written out."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _resolve(path: str) -> str:
    """The same place without links in the folders above it; git names a file so."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
