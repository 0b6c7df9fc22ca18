"""Recording: an upstream that answers as another one does, and keeps each call in a cassette."""

import contextlib
import os
from collections.abc import Callable, Mapping

import msgspec

from inspan.gateway.cassettes import file as cassette_file
from inspan.gateway.cassettes.cassette import Chunk, Ending, Exchange, ResponseEnd, ResponseStart
from inspan.gateway.http.encodings import Decoder
from inspan.gateway.upstream import Reply, Request, Upstream
from inspan.gateway.wires import BY_NAME

from .chunks import split_chunks
from .comparison import RequestNormalizer
from .path_placeholders import PathPlaceholders
from .scrub import scrub_chunks
from .volatile_ids import VolatileIds

LONGEST_ANSWER_BYTES = 64 * 1024 * 1024
_KEPT_HEADERS = ("content-type", "retry-after", "retry-after-ms", "x-should-retry")
# Events that may stand after the last one that matters.
_TRAILING_CHUNKS = 3


class RecordUpstream:
    """Answers as `upstream` does and appends each call, once it is over, to a new file; to be closed.

    Raises `BadInput` for a path that cannot be recorded to. `about` is what the first line says beside the version. A
    file that cannot be written to any more ends the recording, never a call: `problem` then says so.
    """

    def __init__(
        self,
        upstream: Upstream,
        *,
        file: str | os.PathLike[str],
        redact: Callable[[str], str],
        folders: Mapping[str, str],
        about: Mapping[str, str],
    ) -> None:
        self._upstream = upstream
        self._file = cassette_file.open_recording(file)
        self._redact = redact
        self._placeholders = PathPlaceholders(folders)
        self._normalizer = RequestNormalizer(redact=redact, placeholders=self._placeholders)
        self._volatile_ids = VolatileIds()
        self._request_count = 0
        self._recorded_calls = 0
        self._is_closed = False
        self.problem = ""
        self._append(cassette_file.encode_header({key: self._redact(value) for key, value in about.items()}))

    async def answer(self, request: Request, reply: Reply) -> None:
        # What is neither a call nor about models is about the account, and no replay asks for it.
        if request.purpose == "other":
            return await self._upstream.answer(request, reply)
        self._request_count += 1
        number, recording_reply = self._request_count, _RecordingReply(reply)
        try:
            return await self._upstream.answer(request, recording_reply)
        except Exception as error:
            recording_reply.on_error(error)
            raise
        finally:
            self._record(request, number, recording_reply)

    def close(self) -> None:
        """Writes the last line; calls that are still under way are not in the cassette. Idempotent."""
        if not self._is_closed:
            self._append(cassette_file.encode_footer(self._recorded_calls))
            self._is_closed = True
            self._file.close()

    def _record(self, request: Request, number: int, reply: "_RecordingReply") -> None:
        if self.problem or self._is_closed:
            return
        try:
            lines = cassette_file.encode_exchange(self._build_exchange(request, number, reply))
        except Exception as error:  # Whatever a provider may send: it ends the recording, never a call.
            self._stop_recording(f"the answer to call {number} cannot be kept: {error}")
        else:
            self._append(lines)
            self._recorded_calls += 0 if self.problem else 1

    def _build_exchange(self, request: Request, number: int, reply: "_RecordingReply") -> Exchange:
        pieces = split_chunks(reply.decode_body(), is_stream=reply.is_stream)
        end = reply.ending or ("whole" if _is_complete(request, pieces) else "left")
        asked, names = self._normalizer.normalize_request(request, number=number)
        self._volatile_ids.register(number, names)
        return Exchange(
            request=asked,
            start=ResponseStart(status=reply.status, headers=self._select_headers(reply.headers)),
            chunks=tuple(
                scrub_chunks(
                    pieces, redact=self._redact, placeholders=self._placeholders, volatile_ids=self._volatile_ids
                )
            ),
            ending=ResponseEnd(
                end=end, call=number, note=self._placeholders.to_placeholders(self._redact(reply.noted_problem))
            ),
        )

    def _select_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Those that an agent may act upon."""
        return {
            name: self._redact(value)
            for name, value in headers.items()
            if (name in _KEPT_HEADERS or "ratelimit" in name) and value and value.isascii() and value.isprintable()
        }

    def _append(self, lines: bytes) -> None:
        """All of the lines or none; the first failure is the last attempt."""
        if self.problem:
            return
        before = os.fstat(self._file.fileno()).st_size
        try:
            left = memoryview(lines)
            while left:
                left = left[self._file.write(left) or 0 :]
        except OSError as error:
            self._stop_recording(error.strerror or str(error))
            with contextlib.suppress(OSError):
                os.ftruncate(self._file.fileno(), before)

    def _stop_recording(self, reason: str) -> None:
        self.problem = (
            f"The recording stopped after {self._recorded_calls} calls: {reason}. The cassette is not finished."
        )


class _RecordingReply:
    """A reply that keeps what is sent through it."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._chunks: list[bytes] = []
        self._length = 0
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}
        self.noted_problem = ""
        self.ending: Ending | None = None

    @property
    def is_stream(self) -> bool:
        return "text/event-stream" in self.headers.get("content-type", "")

    @property
    def _is_too_long(self) -> bool:
        return self._length > LONGEST_ANSWER_BYTES

    def decode_body(self) -> bytes:
        """The answer without its content encoding, as far as it came; raises `ValueError` for one that is not read."""
        if self._is_too_long:
            raise ValueError(f"it has more than {LONGEST_ANSWER_BYTES} bytes")
        return Decoder(self.headers.get("content-encoding", "")).feed(b"".join(self._chunks))

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        self.headers = {name.lower(): value.strip() for name, value in headers.items()}
        await self._reply.start(status, headers)

    async def write(self, data: bytes) -> None:
        self._length += len(data)
        if self._is_too_long:
            self._chunks.clear()
        else:
            self._chunks.append(data)
        await self._reply.write(data)

    async def finish(self) -> None:
        self.ending = "whole"
        await self._reply.finish()

    def cut(self) -> None:
        self.ending = "cut"
        self._reply.cut()

    def note(self, problem: str) -> None:
        # A stall that ends is none.
        self.ending = "stalled" if problem == "stalled" else None
        self.noted_problem = "" if problem == "stalled" else problem
        self._reply.note(problem)

    def on_error(self, error: Exception) -> None:
        """The upstream failed in a way that it did not foresee."""
        if self.ending is None and not isinstance(error, ConnectionError):
            self.ending = "cut"


def _is_complete(request: Request, pieces: list[Chunk]) -> bool:
    """Whether the answer came to its end as its wire sees it: agents hang up on the last event."""
    return any(_is_final(request, piece) for piece in pieces[-_TRAILING_CHUNKS:])


def _is_final(request: Request, piece: Chunk) -> bool:
    if isinstance(piece.data, msgspec.Raw):
        value = msgspec.json.decode(piece.data)
        return isinstance(value, dict) and BY_NAME[request.wire].read_event(value).final  # pyright: ignore[reportUnknownArgumentType] (JSON)
    return isinstance(piece.text, str) and "data: [DONE]" in piece.text
