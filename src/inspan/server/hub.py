"""All that is followed at this moment: one tail for each run, the list of living runs, and who follows them."""

import asyncio
import logging
import os
from collections import deque
from collections.abc import AsyncGenerator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import NamedTuple

from inspan.errors import StateUnusable
from inspan.protocol.ids import RunId
from inspan.runs.list_all import list_ended
from inspan.stores.paths import make_private_folder
from inspan.stores.run_folder import RunFolder, active_runs, run_path
from inspan.stores.watch import FolderWatch

from .connection import count_descriptors
from .follower import Follower
from .log_blocks import FrameCache
from .problems import Refusal
from .tail import Tail, Wake
from .threads import Threads
from .token_file import TokenFile

logger = logging.getLogger("inspan.server")

MOST_FOLLOWERS = 5000
HEARTBEAT_S = 15.0
LONGEST_SILENCE_S = 60.0
_TICK_S = 1.0
# A tail is kept for those who come back at once.
_LINGER_S = 5.0
_LOOK_S = 2.0
# Looking up a run mostly reads a file: a crowd that comes back at once is served in turn.
_MOST_LOOKUPS = 8
# More runs than that do not begin and end between two looks; and no follower stands still while so many begin.
_MOST_ENDED = 200
_MOST_BEGUN = 10_000


class _Held:
    def __init__(self, tail: Tail) -> None:
        self.tail = tail
        self.users = 0
        self.left_at = 0.0
        self.opened: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None


class _Look(NamedTuple):
    """What one look at the state folder has found: runs that live, and the newest of those that have ended, where the
    index can be read."""

    living: dict[str, RunFolder]
    ended: dict[str, RunFolder] | None


class Hub:
    """Lives as long as its server: `open` is entered once, and everything that it began is over when it is left."""

    def __init__(self, state: str, *, tokens: TokenFile) -> None:
        self.state = state
        self._tokens = tokens
        self.threads = Threads(_MOST_LOOKUPS)
        self.living: dict[str, RunFolder] = {}
        self._held: dict[str, _Held] = {}
        self._cache = FrameCache()
        self._followers: set[Follower] = set()
        self._watchers: set[Wake] = set()
        self._tasks: asyncio.TaskGroup | None = None
        self._watching: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()
        # Nothing is known while nobody watches: what is found then has begun before.
        self._known: set[str] | None = None
        self._knows_ended = False
        self._oldest = ""
        self._begun: deque[RunFolder] = deque(maxlen=_MOST_BEGUN)
        self._begun_count = 0
        self._is_closed = False

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """While this is entered runs can be followed."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            ticking = tasks.create_task(self._tick())
            try:
                yield
            finally:
                self.close()
                ticking.cancel()
                for held in self._held.values():
                    if held.task:
                        held.task.cancel()
                if self._watching:
                    self._watching.cancel()

    def close(self) -> None:
        """Sends every follower away; those who come now are sent away, too."""
        self._is_closed = True
        for follower in tuple(self._followers):
            follower.dismiss()

    @asynccontextmanager
    async def enter(self, follower: Follower) -> AsyncGenerator[Follower]:
        """Counts a follower while it follows; refuses one too many."""
        if follower.is_one_too_many:
            problem = f"This server has at most {count_descriptors()} open files, of which some are for requests."
            raise _too_many(problem, step="Try again in a moment, or start it with more of them (`ulimit -n`).")
        if self._is_closed or len(self._followers) >= MOST_FOLLOWERS:
            raise _too_many(f"This server has {len(self._followers)} followers.", step="Try again in a moment.")
        self._followers.add(follower)
        try:
            with follower:
                yield follower
        finally:
            self._followers.discard(follower)

    async def hold(self, folder: RunFolder) -> Tail:
        """The tail of a run, read up to its end as it is now; whoever asks gives it back by `release`."""
        held = self._held.get(folder.path)
        if held is None or (held.tail.over and held.tail.over.why == "unreadable"):
            # What could not be read is looked at again for each who asks.
            held = self._held[folder.path] = _Held(Tail(self.state, folder, self._cache))
            held.opened = asyncio.get_running_loop().create_future()
            held.opened.add_done_callback(lambda opened: opened.exception())  # Nobody has to have waited for it.
            self._start(self._run(held))
        held.users += 1
        try:
            assert held.opened
            await asyncio.shield(held.opened)
        except BaseException:
            self.release(held.tail)
            raise
        return held.tail

    def release(self, tail: Tail) -> None:
        """Gives a tail back; after a moment without users it is forgotten."""
        held = self._held.get(tail.folder.path)
        if held and held.tail is tail:
            held.users -= 1
            held.left_at = asyncio.get_running_loop().time()

    async def watch_living(self, wake: Wake) -> int:
        """Wakes whenever a run has begun; gives how many have by now. Raises `StateUnusable`."""
        make_private_folder(os.path.join(make_private_folder(self.state), "active"))
        self._watchers.add(wake)
        await self._look_for_new()
        if self._watching is None or self._watching.done():
            self._watching = self._start(self._watch())
        return self._begun_count

    def list_begun(self, after: int) -> tuple[list[RunFolder], int]:
        """The runs that have begun behind this number, however short they were, and the number of the last."""
        missing = min(self._begun_count - after, len(self._begun))
        return list(self._begun)[len(self._begun) - missing :] if missing else [], self._begun_count

    def unwatch_living(self, wake: Wake) -> None:
        """Wakes no more."""
        self._watchers.discard(wake)

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        assert self._tasks, "the hub is not open"
        return self._tasks.create_task(work)

    async def _run(self, held: _Held) -> None:
        assert held.opened
        held.task = asyncio.current_task()
        try:
            await held.tail.open()
        except Exception as error:  # Whoever waits for it gets it.
            self._held.pop(held.tail.folder.path, None)
            held.opened.set_exception(error)
            return
        held.opened.set_result(None)
        await held.tail.run()

    async def _tick(self) -> None:
        """Once a second: heartbeats, clients that do not read or whose token is replaced, tails that nobody follows."""
        loop = asyncio.get_running_loop()
        beat_at = loop.time() + HEARTBEAT_S
        while True:
            await asyncio.sleep(_TICK_S)
            now = loop.time()
            beats = now >= beat_at
            if beats:
                beat_at = now + HEARTBEAT_S
            try:
                self._look_after(now, beats=beats)
            except Exception as error:  # A bug in here must not take all streams with it.
                logger.error("looking after followers: %r", error, exc_info=error)

    def _look_after(self, now: float, *, beats: bool) -> None:
        token = self._tokens.token
        for follower in tuple(self._followers):
            if follower.token != token:
                follower.dismiss()
            follower.tick(now, beats=beats, longest_s=LONGEST_SILENCE_S)
        for path, held in tuple(self._held.items()):
            if not held.users and held.opened and held.opened.done() and now - held.left_at > _LINGER_S:
                del self._held[path]
                held.tail.close()
                if held.task:
                    held.task.cancel()

    async def _watch(self) -> None:
        """Looks for new runs while somebody wants to know of them, whatever breaks meanwhile."""
        problem = ""
        while self._watchers:
            try:
                with FolderWatch(os.path.join(self.state, "active")) as watch:
                    while self._watchers:
                        await self._look_for_new()
                        problem = ""
                        await watch.wait_async(_LOOK_S)
            except Exception as error:  # No descriptor is left, the folder is none: it is tried again until it works.
                if str(error) != problem:
                    problem = str(error)
                    logger.warning("looking for new runs: %s", error)
                await asyncio.sleep(_LOOK_S)
        self._known = None

    async def _look_for_new(self) -> None:
        async with self._looking:
            look = await self.threads.call(self._look)
            self.living = look.living
            ended = look.ended or {}
            if len(ended) >= _MOST_ENDED:
                # What is older comes into sight only where newer ones were removed.
                self._oldest = max(self._oldest, min(ended))
            ended = {run_id: folder for run_id, folder in ended.items() if run_id >= self._oldest}
            if self._known is not None:
                found = (ended if self._knows_ended else {}) | look.living
                self._tell(found[run_id] for run_id in sorted(found.keys() - self._known))
            kept = {run_id for run_id in self._known or () if run_id >= self._oldest}
            self._known = kept | ended.keys() | look.living.keys()
            self._knows_ended = look.ended is not None

    def _tell(self, begun: Iterable[RunFolder]) -> None:
        before = self._begun_count
        for folder in begun:
            self._begun.append(folder)
            self._begun_count += 1
        if self._begun_count > before:
            for wake in tuple(self._watchers):
                wake()

    def _look(self) -> _Look:
        """The living first: one that ends in between is among the ended."""
        folders = active_runs(self.state)
        living = {str(folder.run_id): folder for folder in folders if os.path.exists(folder.file("run.json"))}
        try:
            rows = list_ended(self.state, limit=_MOST_ENDED)
        except StateUnusable:
            return _Look(living, None)  # Those that live can be followed all the same.
        paths = {
            row.run_id: run_path(self.state, project=row.project, task=row.task, run_id=row.run_id) for row in rows
        }
        return _Look(living, {run_id: RunFolder(run_id=RunId(run_id), path=path) for run_id, path in paths.items()})


def _too_many(problem: str, *, step: str) -> Refusal:
    return Refusal(
        503, "too_many_followers", problem, next_step=step, headers={"retry-after": "1", "connection": "close"}
    )
