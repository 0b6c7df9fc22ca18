"""What the server itself is asked and answers, beside the operations of the table."""

import msgspec

from inspan.protocol.events import Event


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a server is, and where it lets runs start."""

    version: str
    schema: int
    read_only: bool
    roots: list[str]
    pid: int
    started_at: float


class LoginRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The token that `inspan serve` prints."""

    token: str


class LoginKey(msgspec.Struct, frozen=True, kw_only=True):
    """What a page sends as `X-Inspan-Key` with each request that changes something: the cookie alone only reads."""

    key: str


class Nothing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For what needs to know nothing."""


class StreamParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run: what comes behind the number `after`, of these `kinds` or of all. The header Last-Event-ID, which a
    browser that comes back sends, counts more than `after`."""

    run: str
    after: int = 0
    kinds: tuple[str, ...] = ()


class ManyParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """These runs, or without any all of them, new ones too. `after` is the id of an event of this stream; without one,
    it begins with what is new."""

    run: tuple[str, ...] = ()
    after: str = ""
    kinds: tuple[str, ...] = ()


class OutputParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run prints to `stdout` or `stderr`, from a byte on."""

    run: str
    name: str
    offset: int = 0


class StreamedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The data of an event of a run; the name of the event is its kind."""

    run_id: str
    n: int
    t: float
    event: Event


class StreamedText(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The data of a piece of output, which begins at a byte of the file. Of one that is not UTF-8, the `text` has
    characters in place of what cannot be read, and `base64` has the bytes."""

    offset: int
    text: str
    base64: str = ""
