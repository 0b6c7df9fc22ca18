"""What a run changed, whoever changed it: a snapshot of the work tree beside the agent's start, another after its end.

An agent tells of the files that its own tools wrote. What its shell commands did, only the files themselves can tell.
"""

import asyncio
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from inspan.errors import InspanError
from inspan.protocol.events import FileChanged
from inspan.stores.git import NoSnapshot, Step, Steps, refused, too_long
from inspan.stores.repository import Repository, find_repository
from inspan.stores.snapshot import Changed, Snapshot, files_of, save
from inspan.stores.taking import LIMIT_S, first_steps, keep_steps, second_steps
from inspan.transports.spawn import DEFAULTS

MOST_TOLD = 1000
_MODES = frozenset({"exec", "review"})
_READY_S = 2.0
_KILL_S = 2.0
T = TypeVar("T")


class Changes:
    """Takes the two snapshots of a run. Nothing here raises, keeps the agent waiting or outlives `finish`.

    Whatever fails becomes a sentence in the run folder's `snapshot.json`. `hidden` are folders that are left out.
    """

    def __init__(
        self,
        folder: str,
        *,
        cwd: str,
        mode: str = "exec",
        hidden: Sequence[str] = (),
        env: Mapping[str, str] = os.environ,
        settle_s: float = 5.0,
    ) -> None:
        self._folder = folder
        self._cwd = cwd
        self._hidden = hidden
        self._settle_s = settle_s
        self._snapshot = Snapshot()
        self._first: asyncio.Task[None] | None = None
        self._began_at = 0.0
        self._limit_s, self._refusal = _limit(env.get("INSPAN_SNAPSHOT", ""))
        if mode not in _MODES:
            self._refusal = f"The mode {mode} changes no files, so no snapshot was taken."
        self.left_out = 0

    def begin(self) -> None:
        """Starts the first snapshot, in the background of the running loop."""
        repository = None if self._refusal else find_repository(self._cwd)
        if repository:
            loop = asyncio.get_running_loop()
            self._began_at = loop.time()
            self._first = loop.create_task(self._begin(repository))
        else:
            self._note(self._refusal or f"{self._cwd} is in no git work tree, so no snapshot was taken.")

    async def ready(self) -> None:
        """Waits for the first snapshot, but not past two seconds after its start; the snapshot itself may go on."""
        if self._first and not self._first.done():
            left_s = self._began_at + _READY_S - asyncio.get_running_loop().time()
            await asyncio.wait({self._first}, timeout=max(0.0, left_s))

    async def settle(self) -> None:
        """Waits for the first snapshot, a few seconds at the most; from then on none of its processes lives."""
        if self._first is None:
            return
        await asyncio.wait({self._first}, timeout=self._settle_s)
        if not self._first.done():
            self._first.cancel()
            await asyncio.wait({self._first})
            self._note("The run was over before its first snapshot was complete.")

    async def finish(self, told: Iterable[str] = (), *, limit_s: float | None = None) -> list[FileChanged]:
        """Takes the second snapshot once the agent is gone; gives the changed files that are not among those `told`.

        Of very many it gives the first `MOST_TOLD`; `left_out` says how many more there are.
        """
        await self.settle()
        if not self._snapshot.before:
            return []
        limit_s = limit_s or self._limit_s
        deadline = asyncio.get_running_loop().time() + limit_s
        taken = await self._taken(second_steps(self._folder, self._snapshot), limit_s=limit_s)
        if taken is None:
            return []
        both, pairs = taken
        self._remember(both)
        # If this fails, everything stays where it is: larger than it need be, and it needs the repository.
        await _attempt(keep_steps(self._folder, both, pairs), limit_s=deadline - asyncio.get_running_loop().time())
        changes = _untold(files_of(pairs), both.top, told=[os.path.join(self._cwd, path) for path in told])
        self.left_out = max(0, len(changes) - MOST_TOLD)
        return changes[:MOST_TOLD]

    async def _begin(self, repository: Repository) -> None:
        steps = first_steps(self._folder, repository, hidden=self._hidden)
        first = await self._taken(steps, limit_s=self._limit_s)
        if first:
            self._remember(first)

    async def _taken(self, steps: Steps[T], *, limit_s: float) -> T | None:
        taken, problem = await _attempt(steps, limit_s=limit_s)
        if problem:
            self._note(problem)
        return taken

    def _note(self, problem: str) -> None:
        self._remember(msgspec.structs.replace(self._snapshot, problem=problem))

    def _remember(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        try:
            save(self._folder, snapshot)
        except (InspanError, OSError, ValueError):
            pass  # A disk that takes nothing: without the file, `inspan diff` says that there is no snapshot.


def _limit(given: str) -> tuple[float, str]:
    """The seconds that a snapshot may take, or why there is none."""
    if given == "off":
        return LIMIT_S, "INSPAN_SNAPSHOT is off, so no snapshot was taken."
    try:
        limit_s = float(given or LIMIT_S)
    except ValueError:
        limit_s = 0.0
    if 0 < limit_s < float("inf"):
        return limit_s, ""
    return LIMIT_S, f"INSPAN_SNAPSHOT is {given!r}, neither `off` nor a number of seconds, so no snapshot was taken."


def _untold(changed: Sequence[Changed], top: str, *, told: Iterable[str]) -> list[FileChanged]:
    known = {_same(path) for path in told}
    events = [FileChanged(path=os.path.join(top, each.path), change=each.change) for each in changed]
    return [event for event in events if _same(event.path) not in known] if known else events


def _same(path: str) -> str:
    """A path in the one spelling that is compared; a link stays one."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


async def _attempt(steps: Steps[T], *, limit_s: float) -> tuple[T | None, str]:
    """What the steps came to, or the sentence why they did not."""
    try:
        async with asyncio.timeout(limit_s):
            return await _walk(steps), ""
    except NoSnapshot as error:
        return None, str(error)
    except TimeoutError:
        return None, too_long(limit_s)
    except OSError as error:
        return None, refused(error)
    except Exception as error:  # A git that prints what none has printed before must not end the run.
        return None, f"A snapshot cannot be read: {error!r}."


async def _walk(steps: Steps[T]) -> T:
    """Takes the steps one after the other without keeping the loop."""
    try:
        step = next(steps)
        while True:
            step = steps.send(await _run(step) if step else await asyncio.sleep(0, 0))
    except StopIteration as done:
        return done.value
    finally:
        steps.close()


async def _run(step: Step) -> int:
    """Runs git to its end and gives its exit code; a caller that is cancelled leaves none behind."""
    pid = _start(step)
    loop = asyncio.get_running_loop()
    exited: asyncio.Future[None] = loop.create_future()
    pidfd = _opened(pid)
    loop.add_reader(pidfd, lambda: exited.done() or exited.set_result(None))
    try:
        await asyncio.wait({exited})
    finally:
        if not exited.done():
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            await asyncio.wait({exited}, timeout=_KILL_S)
        loop.remove_reader(pidfd)
        os.close(pidfd)
        code = _reaped(pid)
    return code


def _start(step: Step) -> int:
    written = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, step.stdin, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, step.stdout, written, 0o600),
        (os.POSIX_SPAWN_OPEN, 2, step.stderr, written, 0o600),
    ]
    return os.posix_spawnp("git", step.argv, step.env, file_actions=actions, setsid=True, setsigdef=DEFAULTS)


def _opened(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def _reaped(pid: int) -> int:
    """The exit code; that of a failure if somebody else's watcher has taken it or the process will not die."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return -1
    return os.waitstatus_to_exitcode(status) if found else -1
