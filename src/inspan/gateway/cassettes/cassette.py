"""What a cassette holds: calls to a model and their answers, as values. `file.py` reads and writes them."""

from typing import Annotated, Literal

import msgspec

from inspan.gateway.upstream import Purpose

VERSION = 1

Ending = Literal["whole", "cut", "stalled", "left"]
PartKind = Literal["text", "result", "media"]
_HeaderName = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9!#$%&'*+.^_`|~-]+$")]
_HeaderValue = Annotated[str, msgspec.Meta(pattern=r"^[\x21-\x7e]([\t\x20-\x7e]*[\x21-\x7e])?$")]


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user's text, what a tool gave back, or the size and fingerprint of an image or a document."""

    kind: PartKind
    text: str


class RecordedRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a request is compared by; `asks` is the newest part of the conversation.

    `answers_to` are the ids of the tool calls whose results these are. They choose between calls that are alike in
    everything that is compared, and nothing else hangs on them.
    """

    call: Annotated[int, msgspec.Meta(ge=1)]
    wire: str
    purpose: Purpose
    model: str = ""
    stream: bool = False
    asks: tuple[Part, ...] = ()
    answers_to: tuple[str, ...] = ()


class ResponseStart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How an answer began; `status` is None when none did."""

    status: Annotated[int, msgspec.Meta(ge=200, le=599)] | None
    headers: dict[_HeaderName, _HeaderValue] = {}


class Chunk(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A piece of an answer, in one of four forms.

    A server-sent event whose `data` is JSON, under the name `event` or between the texts of `around`; a `body` that is
    JSON; any other `text`; in `base64` what is no UTF-8.
    """

    event: str | msgspec.UnsetType = msgspec.UNSET
    around: tuple[str, str] | msgspec.UnsetType = msgspec.UNSET
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    body: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    text: str | msgspec.UnsetType = msgspec.UNSET
    base64: bytes | msgspec.UnsetType = msgspec.UNSET


class ResponseEnd(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How an answer ended: whole, cut by the provider, in silence, or because the agent left.

    `note` is the problem that the call was reported with, where the upstream named one.
    """

    end: Ending
    call: int
    note: str = ""


class Footer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The end of a finished cassette: how many calls it has."""

    calls: int


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One request and its answer."""

    request: RecordedRequest
    start: ResponseStart
    chunks: tuple[Chunk, ...]
    ending: ResponseEnd


class Cassette(msgspec.Struct, frozen=True, kw_only=True):
    """A whole cassette; its calls stand in the order in which they were asked for."""

    about: dict[str, str]
    calls: tuple[Exchange, ...]
