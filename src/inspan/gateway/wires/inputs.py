"""What a request gives to the model that its size does not tell: pictures, what it only refers to, searches.

Told by the wire's own fields, never by how a text looks: a text that begins like a picture is a text.
"""

import re

from inspan.gateway.upstream import Inputs
from inspan.gateway.wires.wire import find_largest

# How pictures begin in base64: PNG, JPEG, GIF, WebP.
_PICTURES = ("iVBORw0KGg", "/9j/", "R0lGOD", "UklGR")
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_DATA_URL = re.compile(r"data:image/[\w.+-]{1,40};base64,", re.IGNORECASE)
# With the date behind them that some of these have.
_DATED = r"(_preview)?(_\d+)*"
_SEARCHES = re.compile(r"(web_?|google_?|enterprise_?web_?|x_?)search(_?retrieval)?" + _DATED, re.IGNORECASE)
# Tools by which a provider gives its model as much as it finds.
_FETCHES = re.compile(
    r"(web_?fetch|url_?context|file_?search|retrieval|google_?maps|mcp(_?toolset|_?servers)?"
    r"|code_?execution|code_?interpreter)" + _DATED,
    re.IGNORECASE,
)
# For a request that sets no limit to them.
_USUAL_SEARCHES = 3
_MOST_SEARCHES = 10**6
_NAME_SHOWN = 60


class InputReader:
    """Told of each input that a wire finds in a request; `inputs` is what it came to."""

    def __init__(self) -> None:
        self._pictures: list[int] = []
        self._unsized: dict[str, None] = {}
        self._searches = 0

    @property
    def inputs(self) -> Inputs:
        return Inputs(pictures=tuple(self._pictures), unsized=tuple(self._unsized), searches=self._searches)

    def add_picture(self, data: object, *, name: str) -> None:
        """What stands in a field for pictures, in base64 or as a data URL; everything else there is not sized."""
        text = data if isinstance(data, str) else ""
        head = _DATA_URL.match(text)
        if _is_picture(text[head.end() :] if head else text):
            self._pictures.append(len(text))
        else:
            self.add_unsized(name)

    def add_unsized(self, name: str) -> None:
        """An input of this name, of which nobody here can tell how large it is."""
        self._unsized[name[:_NAME_SHOWN]] = None

    def add_tool(self, name: str, *, most_uses: object = None) -> None:
        """A tool that the provider may know; those that only the agent runs add nothing."""
        if _SEARCHES.fullmatch(name):
            self._searches = min(self._searches + (find_largest(most_uses) or _USUAL_SEARCHES), _MOST_SEARCHES)
        elif _FETCHES.fullmatch(name):
            self.add_unsized(name)


def _is_picture(text: str) -> bool:
    """Whether all of it is base64; by translation, which is the fastest way over 30 MB."""
    return text.startswith(_PICTURES) and text.isascii() and not text.encode().translate(None, _BASE64)
