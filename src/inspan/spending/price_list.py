"""Asking the list of prices, in a process of its own that is given little and not waited for long."""

import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeAlias

import msgspec

from inspan.folds.prices import PriceCard
from inspan.protocol.known_types import know_type
from inspan.protocol.wire import DECODE_ERRORS
from inspan.transports.process import Spawned, spawn

PriceQuery: TypeAlias = tuple[str, str]

_PACKAGE = "genai_prices-"
_ANSWER_S = 20.0
_CHUNK_BYTES = 65536


class ListAge(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How new the list is: the newest day on which one of its prices began. `until` the next one begins."""

    newest: str = ""
    until: float | None = None


class PriceAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A card for each model that was asked for, None where the list has none, and the list's age."""

    table: ListAge
    cards: list[PriceCard | None]


def find_list_version() -> str:
    """The version of genai-prices that is installed beside us, or an empty text; nothing of it is loaded."""
    for folder in sys.path:
        with suppress(OSError):
            for name in os.listdir(folder or "."):
                if name.startswith(_PACKAGE) and name.endswith(".dist-info"):
                    return name.removeprefix(_PACKAGE).removesuffix(".dist-info")
    return ""


def query_list(asks: Sequence[PriceQuery], *, now: float, limit_s: float = _ANSWER_S) -> PriceAnswer | None:
    """What the list says, or None where it cannot be asked or does not answer in time."""
    child = _start_query(asks, now=now)
    if child is None:
        return None
    heard, deadline, poll = bytearray(), time.monotonic() + limit_s, select.poll()
    poll.register(child.stdout, select.POLLIN)
    try:
        while (left_s := deadline - time.monotonic()) > 0:
            if poll.poll(left_s * 1000) and _read_chunk(child.stdout, heard):
                return _decode_answer(heard)
        return None
    finally:
        _end_query(child)


async def query_list_async(asks: Sequence[PriceQuery], *, now: float, limit_s: float = _ANSWER_S) -> PriceAnswer | None:
    """The same for a loop that goes on; whoever cancels it leaves no process behind."""
    import asyncio  # Start-up time: the command line asks without a loop.

    child = _start_query(asks, now=now)
    if child is None:
        return None
    loop, heard = asyncio.get_running_loop(), bytearray()
    closed: asyncio.Future[None] = loop.create_future()

    def on_readable() -> None:
        if _read_chunk(child.stdout, heard) and not closed.done():
            closed.set_result(None)

    loop.add_reader(child.stdout, on_readable)
    try:
        await asyncio.wait({closed}, timeout=limit_s)
        return _decode_answer(heard) if closed.done() else None
    finally:
        loop.remove_reader(child.stdout)
        _end_query(child)


def _start_query(asks: Sequence[PriceQuery], *, now: float) -> Spawned | None:
    script = os.path.join(os.path.dirname(__file__), "price_cards.py")
    try:
        given = {"path": [os.path.abspath(path) for path in sys.path if path], "now": now, "asks": asks}
        # Without the site's start-up files: what they add to the path is in what it is given.
        argv = [sys.executable, "-I", "-S", script]
        return spawn(argv, {}, stdin=msgspec.json.encode(given), liveness_pipe=False)
    except OSError:
        return None


def _read_chunk(fd: int, heard: bytearray) -> bool:
    """Takes what is there to read; says whether that was the end."""
    try:
        chunk = os.read(fd, _CHUNK_BYTES)
    except BlockingIOError:
        return False
    heard += chunk
    return not chunk


def _decode_answer(heard: bytearray) -> PriceAnswer | None:
    try:
        return msgspec.json.decode(heard, type=know_type(PriceAnswer))
    except DECODE_ERRORS:
        return None


def _end_query(child: Spawned) -> None:
    """It has said all, or too little in its time: nothing that it would do now is of use."""
    os.close(child.stdout)
    os.close(child.stderr)
    with suppress(ChildProcessError):  # A stranger's program that embeds us may have taken its status.
        if os.waitpid(child.pid, os.WNOHANG) == (0, 0):
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
