"""The three streams: the events of one run, those of many, and what a run has printed."""

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from inspan.client.checks import refuse_future
from inspan.client.operations import Operation, convert_params
from inspan.client.place import Place
from inspan.errors import BadInput, HarnessFault, InspanError, StateUnusable
from inspan.runs.find import find_run_folder
from inspan.runs.list_all import list_ended
from inspan.stores.run_folder import RunFolder, open_folder, run_path

from .access import PREFIX
from .bodies import parse_query
from .cursor import Cursor, decode_cursor, encode_cursor
from .follower import Follower, Left
from .frames import End, format_cursor, format_event
from .hub import Hub
from .problems import Refusal
from .tail import CHUNK_BYTES, OUTPUTS, Kinds, Tail
from .values import ManyParams, OutputParams, StreamedEvent, StreamedText, StreamParams

MOST_RUNS = 200
_LARGEST_NUMBER = 1 << 53
# An ended run is named in cursors for so long, and looked for so far back.
_REMEMBER_S, _SLACK_S = 30.0, 10.0


class RunStream:
    """`GET /runs/{run}/stream`."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        params = _read(scope, _RUN)
        kinds, after = _choose_kinds(params.kinds), _choose_number(scope, "after", params.after)
        tail = await self._hub.hold(await _find(self._hub, scope))
        try:
            _refuse_future("after", after, tail.last, of=f"run {tail.run_id} has {tail.last} events")
            async with self._hub.enter(Follower(scope, send)) as follower:
                await _follow_run(follower, tail, after, kinds)
        finally:
            self._hub.release(tail)


async def _follow_run(follower: Follower, tail: Tail, after: int, kinds: Kinds) -> None:
    tail.wakes.add(follower.wake)
    try:
        await follower.begin()
        while True:
            await follower.wait_for_room()
            end = tail.over
            try:
                upto = await _send_records(follower, tail, after, kinds)
            except StateUnusable as error:
                end, upto = tail.build_end(error), after
            if upto == after and end:
                await follower.send(format_event("end", end))
                return await follower.end()
            if upto == after:
                await follower.beat_or_wait()
            after = upto
    except Left:
        return await follower.end()
    finally:
        tail.wakes.discard(follower.wake)


async def _send_records(follower: Follower, tail: Tail, after: int, kinds: Kinds) -> int:
    """Sends what comes next; gives the number up to which the client has heard everything."""
    chunk = tail.take(after, kinds=kinds)
    if chunk.data:
        await follower.send(chunk.data)
    return chunk.upto


class OutputStream:
    """`GET /runs/{run}/output/{name}`."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        params, name = _read(scope, _OUTPUT), scope["path_params"]["name"]
        if name not in OUTPUTS:
            raise Refusal(404, "not_found", f"A run has no output {name!r}.", next_step="There are stdout and stderr.")
        offset = _choose_number(scope, "offset", params.offset)
        tail = await self._hub.hold(await _find(self._hub, scope))
        try:
            size = tail.measure_output(name)
            _refuse_future("offset", offset, size, of=f"{name} of run {tail.run_id} has {size} bytes")
            async with self._hub.enter(Follower(scope, send)) as follower:
                await _follow_output(follower, tail, name, offset)
        finally:
            self._hub.release(tail)


async def _follow_output(follower: Follower, tail: Tail, name: str, offset: int) -> None:
    tail.output_wakes.add(follower.wake)
    try:
        await follower.begin()
        while True:
            await follower.wait_for_room()
            end = tail.over
            upto = await _send_text(follower, tail, name, offset)
            if upto == offset and end:
                await follower.send(format_event("end", end))
                return await follower.end()
            if upto == offset:
                await follower.beat_or_wait()
            offset = upto
    except Left:
        return await follower.end()
    finally:
        tail.output_wakes.discard(follower.wake)


async def _send_text(follower: Follower, tail: Tail, name: str, offset: int) -> int:
    text = tail.read_output(name, offset)
    if text.data:
        await follower.send(text.data)
    return text.upto


class ManyStream:
    """`GET /stream`."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        params = _read(scope, _MANY)
        kinds = _choose_kinds(params.kinds)
        word = _last_event_id(scope) or params.after
        cursor = decode_cursor(word) if word else None
        if len(params.run) > MOST_RUNS:
            raise Refusal(400, "bad_input", f"run: at most {MOST_RUNS} at once.", field="run")
        named = [
            await self._hub.threads.call(lambda name=name: find_run_folder(self._hub.state, name))
            for name in params.run
        ]
        follower = Follower(scope, send)
        following = _Following(self._hub, follower, kinds, watches=not named)
        try:
            await following.start(named, cursor)
            async with self._hub.enter(follower):
                await following.follow()
        finally:
            following.close()


class _Following:
    """The runs that one client follows, and what it has heard of each."""

    def __init__(self, hub: Hub, follower: Follower, kinds: Kinds, *, watches: bool) -> None:
        self._hub = hub
        self._follower = follower
        self._kinds = kinds
        self._watches = watches
        self._tails: dict[str, Tail] = {}
        self._heard: dict[str, int] = {}
        self._left: dict[str, float] = {}
        self._begun = 0

    async def start(self, named: list[RunFolder], cursor: Cursor | None) -> None:
        """Takes up what is to be followed: from what is new on, or from where the cursor stands."""
        if self._watches:
            self._begun = await self._hub.watch_living(self._follower.wake)
        folders: dict[str, RunFolder] = {folder.run_id: folder for folder in named}
        if not named:
            folders |= self._hub.living
        if cursor and not named:
            folders |= await self._hub.threads.call(lambda: _find_missed(self._hub.state, cursor, known=folders))
        for folder in folders.values():
            await self._add(folder, after=None if cursor is None else cursor.heard.get(folder.run_id, 0))

    async def follow(self) -> None:
        """Until the client leaves, or all runs that it named are over."""
        try:
            await self._follower.begin()
            # So that a client that hears nothing can still go on from here.
            await self._follower.send(self._format_cursor())
            while True:
                await self._follower.wait_for_room()
                if await self._send_new():
                    continue
                await self._leave_ended()
                if not self._watches and not self._tails:
                    await self._follower.send(format_event("end", End(run_id="", why="ended")))
                    break
                if not await self._add_new():
                    await self._follower.beat_or_wait()
        except Left:
            pass
        await self._follower.end()

    def close(self) -> None:
        """Lets go of every run."""
        self._hub.unwatch_living(self._follower.wake)
        for run_id in tuple(self._tails):
            self._drop(run_id)

    async def _add(self, folder: RunFolder, *, after: int | None) -> None:
        try:
            tail = await self._hub.hold(folder)
        except InspanError:
            if not self._watches:
                raise
            return  # One of many that cannot be read is no hindrance to the others.
        if folder.run_id in self._tails:
            self._hub.release(tail)
            return
        self._tails[folder.run_id] = tail
        tail.wakes.add(self._follower.wake)
        after = tail.last if after is None else after
        _refuse_future("after", after, tail.last, of=f"run {tail.run_id} has {tail.last} events")
        self._heard[folder.run_id] = after

    async def _add_new(self) -> bool:
        """Takes up the runs that have begun; says whether there were any."""
        if not self._watches:
            return False
        begun, self._begun = self._hub.list_begun(self._begun)
        new = [folder for folder in begun if folder.run_id not in self._heard]
        for folder in new:
            await self._add(folder, after=0)
            self._heard.setdefault(folder.run_id, 0)
        return bool(new)

    async def _send_new(self) -> bool:
        """One round over all runs; says whether anything was new."""
        parts, size, moved = list[bytes](), 0, False
        for run_id, tail in self._tails.items():
            try:
                chunk = tail.take(self._heard[run_id], kinds=self._kinds, ids=False)
            except StateUnusable as error:
                tail.fail(error)
                continue
            if chunk.upto > self._heard[run_id]:
                moved = True
                self._heard[run_id] = chunk.upto
            if chunk.data:
                parts.append(chunk.data)
                size += len(chunk.data)
            if size >= CHUNK_BYTES:
                break
        if parts:
            await self._follower.send(b"".join([*parts, self._format_cursor()]))
        return moved

    async def _leave_ended(self) -> None:
        for run_id, tail in tuple(self._tails.items()):
            if tail.over and self._heard[run_id] >= tail.tip:
                self._drop(run_id)
                self._left[run_id] = asyncio.get_running_loop().time()
                await self._follower.send(format_event("left", tail.over) + self._format_cursor())

    def _drop(self, run_id: str) -> None:
        tail = self._tails.pop(run_id)
        tail.wakes.discard(self._follower.wake)
        self._hub.release(tail)

    def _format_cursor(self) -> bytes:
        now = asyncio.get_running_loop().time()
        for run_id, left_at in tuple(self._left.items()):
            if now - left_at > _REMEMBER_S and run_id not in self._hub.living:
                del self._left[run_id], self._heard[run_id]
        return format_cursor(encode_cursor(self._heard))


def _find_missed(state: str, cursor: Cursor, *, known: Mapping[str, RunFolder]) -> dict[str, RunFolder]:
    """Runs that the cursor follows, or that ended after it, and that are not among those that live."""
    found: dict[str, RunFolder] = {}
    for row in list_ended(state, limit=MOST_RUNS):
        is_later = row.started_at + row.duration_s >= cursor.at - _SLACK_S
        if row.run_id not in known and (row.run_id in cursor.heard or is_later):
            path = run_path(state, project=row.project, task=row.task, run_id=row.run_id)
            try:
                found[row.run_id] = open_folder(path)
            except InspanError:
                continue  # It was removed meanwhile.
    return found


def _call_nothing(_: Place, __: Any) -> Any:
    raise HarnessFault("A stream is not called: it is followed.")


def _describe(name: str, path: str, params: type[Any], result: type[Any], about: str) -> Operation:
    return Operation(name=name, method="GET", path=path, params=params, result=result, act=_call_nothing, about=about)


_RUN = _describe("runs.stream", "/runs/{run}/stream", StreamParams, StreamedEvent, "The events of a run as they come.")
_MANY = _describe("stream", "/stream", ManyParams, StreamedEvent, "The events of many runs as they come.")
_OUTPUT = _describe(
    "runs.output", "/runs/{run}/output/{name}", OutputParams, StreamedText, "What a run prints as it comes."
)
STREAMS = (_RUN, _MANY, _OUTPUT)
"""The streams as rows of a table of operations; nothing is called for them."""


def build_stream_routes(hub: Hub) -> list[BaseRoute]:
    """A route for each stream."""
    endpoints = {_RUN.name: RunStream(hub), _MANY.name: ManyStream(hub), _OUTPUT.name: OutputStream(hub)}
    return [Route(PREFIX + each.path, endpoints[each.name], methods=["GET"]) for each in STREAMS]


async def _find(hub: Hub, scope: Scope) -> RunFolder:
    name: str = scope["path_params"]["run"]
    return await hub.threads.call(lambda: find_run_folder(hub.state, name))


def _read(scope: Scope, operation: Operation) -> Any:
    if scope["method"] == "HEAD":
        raise Refusal(405, "method_not_allowed", "A stream has no end to be told.", headers={"allow": "GET"})
    named = dict[str, str](scope["path_params"])
    return convert_params(operation, {**parse_query(scope, operation.params, given=named), **named}, strict=False)


def _last_event_id(scope: Scope) -> str:
    return Headers(scope=scope).get("last-event-id", "")


def _choose_number(scope: Scope, field: str, given: int) -> int:
    """Where to go on: a browser that comes back says it in a header, which counts more than the address."""
    word = _last_event_id(scope)
    if word and not (word.isascii() and word.isdecimal() and len(word) <= 16):
        raise Refusal(400, "bad_input", "Last-Event-ID: it is no id of this stream.", field="Last-Event-ID", value=word)
    number = int(word) if word else given
    if not 0 <= number < _LARGEST_NUMBER:
        raise Refusal(400, "bad_input", f"{field}: it is out of range.", field=field, value=number)
    return number


def _refuse_future(field: str, given: int, last: int, *, of: str) -> None:
    try:
        refuse_future(field, given, last, of=of)
    except BadInput as error:
        code, step = "from_the_future", error.next_step
        raise Refusal(400, code, error.message, next_step=step, field=field, value=given) from error


def _choose_kinds(given: tuple[str, ...]) -> Kinds:
    return frozenset(given) if given else None
