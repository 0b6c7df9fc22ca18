"""How much of a text a reader gets to see, and how: cut, harmless to a terminal, coloured where that is wanted.

Whoever cuts must have redacted before: half a secret is none that could be found.
"""

import json
import os
import sys
from typing import Literal, NamedTuple, TextIO

MAX_OUTPUT_BYTES = 50 * 1024
"""The most that a reporter shows of one thing."""


class Cut(NamedTuple):
    """Where a text is cut, and the command that shows what is cut off, if there is one."""

    limit_bytes: int = MAX_OUTPUT_BYTES
    command: str = ""


CUT = Cut()
WHOLE = Cut(limit_bytes=sys.maxsize)

Style = Literal["", "dim", "bold", "italic", "red", "green", "yellow", "cyan"]

_CODES: dict[str, str] = {
    "dim": "2",
    "bold": "1",
    "italic": "3",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
}
# Characters that cannot be seen, and change what is seen: they turn text around (`rm` reads as `mr`), break lines, or
# make two names look like one. Joiners and variation selectors stay: emoji and scripts are written with them.
_HIDDEN = (
    *range(127, 160),
    0x00AD,
    0x034F,
    0x061C,
    *range(0x115F, 0x1161),
    *range(0x17B4, 0x17B6),
    0x180E,
    0x200B,
    *range(0x200E, 0x2010),
    *range(0x2028, 0x202F),
    *range(0x2060, 0x2070),
    0x3164,
    0xFEFF,
    0xFFA0,
    *range(0xFFF9, 0xFFFC),
    *range(0xE0000, 0xE0080),
)
# What an agent prints must not move the reader's cursor, or worse: control characters are shown, not obeyed.
_VISIBLE = {
    **{code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"},
    **dict.fromkeys(_HIDDEN, "\N{REPLACEMENT CHARACTER}"),
}
_JSON_ESCAPES = {code: json.dumps(chr(code))[1:-1] if code > 127 else "\\u007f" for code in _HIDDEN}

_BREAKS = {ord(letter): chr(0x2400 + ord(letter)) for letter in "\n\t"}


def escape_controls(text: str) -> str:
    """The text with every control character but newline and tab, and all that is invisible, as a mark that can be
    seen."""
    return text.translate(_VISIBLE)


def escape_json(text: str) -> str:
    """The same JSON for a terminal, which would obey some characters that JSON may have as they are."""
    return text if text.isascii() and "\x7f" not in text else text.translate(_JSON_ESCAPES)


def one_line(text: str) -> str:
    """The same, newlines and tabs too, for a cell of a table or the middle of a sentence."""
    return text if text.isascii() and text.isprintable() else escape_controls(text).translate(_BREAKS)


def replace_surrogates(text: str) -> str:
    """The text with a `?` for each half of a character, which no stream could take."""
    try:
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def truncate_bytes(text: str, limit_bytes: int = MAX_OUTPUT_BYTES) -> tuple[str, int]:
    """The beginning of a text, in whole characters, and how many bytes are left out."""
    data = text.encode(errors="replace")
    if len(data) <= limit_bytes:
        return text, 0
    kept = data[:limit_bytes].decode(errors="ignore")
    return kept, len(data) - len(kept.encode())


def truncate(text: str, cut: Cut = CUT) -> str:
    """At most so much of a text, and how much is missing."""
    kept, missing_bytes = truncate_bytes(text, cut.limit_bytes)
    return f"{kept}\n{truncation_note(missing_bytes, cut)}" if missing_bytes else kept


class Truncator:
    """Cuts a text that comes in pieces as `truncate_bytes` cuts a whole one; `missing_bytes` is what was left out so
    far.
    """

    def __init__(self, cut: Cut = CUT) -> None:
        self._room_bytes = cut.limit_bytes
        self.missing_bytes = 0

    def truncate(self, piece: str) -> str:
        """What may be shown of the next piece."""
        kept, missing_bytes = truncate_bytes(piece, self._room_bytes)
        self._room_bytes = 0 if missing_bytes else self._room_bytes - len(kept.encode(errors="replace"))
        self.missing_bytes += missing_bytes
        return kept


def truncation_note(missing_bytes: int, cut: Cut = CUT) -> str:
    """The words for what was cut off, with what shows it."""
    return f"[… {missing_bytes} more bytes{cut.command and ': '}{cut.command}]"


def wants_colour(stream: TextIO) -> bool:
    """NO_COLOR says no, FORCE_COLOR says yes, else a terminal does that is not dumb and has a name."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def apply_style(text: str, style: str, *, colour: bool) -> str:
    """The text in a colour, where there are colours."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if colour and style else text


def format_duration(seconds: float) -> str:
    """A length of time in two units at the most."""
    if seconds < 60:
        return f"{seconds:.1f}s" if seconds > 0 else "0.0s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"


def describe_timeout(timeout_s: float | None) -> str:
    """What the first lines of a run say about its end; nothing where it has no limit."""
    if timeout_s is None:
        return ""
    minutes, rest = divmod(timeout_s, 60)
    length = f"{minutes:.0f} min" if minutes and not rest else format_duration(timeout_s)
    return f"ends after {length} (--timeout)"


def shorten_home(path: str) -> str:
    """A path with `~` for the user's home folder, where there is one."""
    home = os.environ.get("HOME", "").rstrip("/")
    if home.startswith("/") and (path == home or path.startswith(f"{home}/")):
        return "~" + path[len(home) :]
    return path
