"""One connection of a client, as uvicorn has it, with bounds that it does not set, and word of its end."""

import asyncio
import resource
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast
from weakref import WeakKeyDictionary

import msgspec
from starlette.types import Scope
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from .problems import MEDIA_TYPE, Refusal, describe_refusal
from .request_ids import make_request_id

LARGEST_HEAD_BYTES = 64 * 1024
# What a client has not taken yet is kept for it up to here; then its follower waits, and reads on from the file.
_UNSENT_BYTES = 4 * 1024
_SYSTEM_BYTES = 128 * 1024
_MOST_DISCARDED = 32 << 20
_DISCARD_S = 5.0
_LINGER_S = 2.0
# Those without a token get half of the descriptors that there are. Who follows leaves a quarter of them free, and
# whoever comes an eighth: for requests, and for the files that they need.
_SHARE_OF_STRANGERS = 2
_FREE_OF_FOLLOWERS, _FREE_OF_ALL = 4, 8
_strangers: WeakKeyDictionary[ServerState, "dict[Connection, None]"] = WeakKeyDictionary()
_EXTENSION = "inspan.connection"


class Connection(HttpToolsProtocol):
    """`on_lost` is called once when the client is gone, however it went."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.on_lost: Callable[[], object] | None = None
        self.is_lost = False
        self.opened_at = self.loop.time()
        self._head_bytes = 0
        self._unfinished_bytes = 0
        self._is_in_head = False
        self._discarded = 0
        self._is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn has it.
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=_UNSENT_BYTES)
        strangers = self._list_strangers()
        strangers[self] = None
        if len(strangers) > count_descriptors() // _SHARE_OF_STRANGERS or self._leaves_less_than(_FREE_OF_ALL):
            oldest = next(iter(strangers))
            if oldest is not self:
                oldest.greet()
                oldest.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.is_lost = True
        self.greet()
        if self.on_lost:
            self.on_lost()
            self.on_lost = None

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes, self._unfinished_bytes, self._is_in_head = 0, 0, True
        cast(Scope, self.scope)["extensions"] = {_EXTENSION: self}

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        super().on_headers_complete()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def send_400_response(self, msg: str) -> None:
        if self._head_bytes > LARGEST_HEAD_BYTES:
            refusal = Refusal(
                431, "head_too_large", f"The head of a request has at most {LARGEST_HEAD_BYTES // 1024} kB."
            )
        else:
            refusal = Refusal(400, "bad_request", "This is not an HTTP request.")
        problem = describe_refusal(refusal, request_id=make_request_id())
        body = msgspec.json.encode(problem)
        head = (
            f"HTTP/1.1 {problem.status} {problem.title}\r\ncontent-type: {MEDIA_TYPE}\r\n"
            f"content-length: {len(body)}\r\nx-request-id: {problem.request_id}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self._is_refused = True
        # Closed at once, what it still sends would have the system throw the answer away.
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_LINGER_S, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            self._discard(len(data))
            return
        super().data_received(data)
        if self._is_in_head and not self._is_refused:
            # A line of a head is told of only once it is whole.
            self._unfinished_bytes += len(data)
            if self._unfinished_bytes > LARGEST_HEAD_BYTES:
                self._head_bytes = self._unfinished_bytes
                self.send_400_response("")

    def on_body(self, body: bytes) -> None:
        if self.cycle.response_complete:
            self._discard(len(body))
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if self._discarded:
            self.transport.close()

    def is_idle_since(self, moment: float) -> bool:
        """Whether it has been open since then and has never sent a whole request."""
        return self.opened_at < moment and not hasattr(self.cycle, "scope")  # It is `None` until then.

    @property
    def is_one_too_many(self) -> bool:
        """Whether it may not stay to follow, so that descriptors are left for requests."""
        return self._leaves_less_than(_FREE_OF_FOLLOWERS)

    def greet(self) -> None:
        """It is no stranger any more: whoever is there has the token. Of strangers the oldest leaves where they are too
        many."""
        self._list_strangers().pop(self, None)

    def narrow(self) -> None:
        """The system keeps less for it, too: one that follows and does not read would have megabytes there."""
        found: socket.socket | None = self.transport.get_extra_info("socket")
        if found is not None:
            with suppress(OSError, ValueError):  # It has left already.
                found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SYSTEM_BYTES)

    def abort(self) -> None:
        """Ends it at once, whatever is still to be sent."""
        self.transport.abort()

    def _leaves_less_than(self, share: int) -> bool:
        """Whether less than this part of the descriptors was free when it came: its own was the lowest of them."""
        found: socket.socket | None = self.transport.get_extra_info("socket")
        most = count_descriptors()
        return found is not None and found.fileno() >= most - most // share

    def _list_strangers(self) -> "dict[Connection, None]":
        return _strangers.setdefault(self.server_state, {})

    def _discard(self, size: int) -> None:
        """What is left of a request that was refused: read, so that its sender gets to the answer, and not kept."""
        if not self._discarded:
            self.loop.call_later(_DISCARD_S, self.transport.abort)
        self._discarded += size
        if self._discarded > _MOST_DISCARDED:
            self.transport.abort()

    def _count(self, more: int) -> None:
        self._head_bytes += more
        if self._head_bytes > LARGEST_HEAD_BYTES:
            raise ValueError("the head is too large")


def count_descriptors() -> int:
    """How many this process may have at once."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def connection_of(scope: Scope) -> Connection:
    """The connection that a request came by."""
    return scope["extensions"][_EXTENSION]
