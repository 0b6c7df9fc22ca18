"""Names that a run makes up and its model then uses: the number of a session, a hash, the name of a temporary file.

They are other ones each time. An answer that was recorded with such a name is played with the name that stands in the
same place of this run's requests.
"""

import re
from collections.abc import Sequence

_UUID = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
# Shorter ones might be anything, unless they are called an id: sessions in a terminal are numbered from 1000 on.
_SHORT = r'(?:(?<=_id":)|(?<=_id": )|(?<=_id:)|(?<=_id: ))\d{4}'
_TOKEN = re.compile(rf"(?<!\w)(?:{_UUID}|\w{{5,}}|{_SHORT})(?!\w)")
_PLACEHOLDER = re.compile(r"\{\{id (\d+)\.(\d+)\}\}")
_MAX_IDS = 100_000


class VolatileIds:
    """The names in the requests so far, by the number of the call and their place in it."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[int, int]] = {}
        self._names: dict[tuple[int, int], str] = {}

    def register(self, call: int, names: Sequence[str]) -> None:
        """These stand in the request of a call, in this order."""
        if len(self._names) + len(names) > _MAX_IDS:
            return
        for place, name in enumerate(names, start=1):
            self._places.setdefault(name, (call, place))
            self._names[call, place] = name

    def to_placeholders(self, text: str) -> str:
        """The text with placeholders for the names; the same object when there is none."""
        return _TOKEN.sub(self._to_placeholder, text) if self._places else text

    def from_placeholders(self, text: str) -> str:
        """The text with the names where placeholders stand; one that is not known stays."""
        return _PLACEHOLDER.sub(self._from_placeholder, text) if "{{id " in text else text

    def _to_placeholder(self, found: re.Match[str]) -> str:
        place = self._places.get(found[0])
        return found[0] if place is None else f"{{{{id {place[0]}.{place[1]}}}}}"

    def _from_placeholder(self, found: re.Match[str]) -> str:
        return self._names.get((int(found[1]), int(found[2])), found[0])
