"""What an agent asks to be done with files, as values: a dialect asks for it, whoever holds the run does it."""

import msgspec

from inspan.protocol.events import Change


class ReadText(msgspec.Struct, frozen=True, kw_only=True):
    """Read a text file: whole, or `limit` lines from `line` on (the first line is 1)."""

    id: str
    path: str
    line: int = 1
    limit: int | None = None


class WriteText(msgspec.Struct, frozen=True, kw_only=True):
    """Make a text file hold exactly this."""

    id: str
    path: str
    text: str


FileRequest = ReadText | WriteText


class FileResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: the `text` read, or the `change` made to the file at `path`; or a `problem`, in a sentence.

    `denied` says that it was not allowed, `missing` that there is no such file.
    """

    id: str
    path: str = ""
    text: str = ""
    change: Change | None = None
    problem: str = ""
    denied: bool = False
    missing: bool = False
