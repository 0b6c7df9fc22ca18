"""What a run changed, whoever changed it: a snapshot of the work tree beside the agent's start, another after its end.

An agent tells of the files that its own tools wrote. What its shell commands did, only the files themselves can tell.
"""

import asyncio
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from inspan.errors import InspanError
from inspan.protocol.events import FileChanged
from inspan.stores.git import PATIENCE_S, SnapshotError, Step, Steps, os_error_message, timeout_message
from inspan.stores.git_obstacles import find_deep_obstacle
from inspan.stores.repository import Repository, find_repository
from inspan.stores.snapshot import ChangedFile, Snapshot, VersionPair, list_changed_files, save_snapshot
from inspan.stores.snapshot_steps import (
    LIMIT_S,
    ForgedSnapshot,
    find_held_steps,
    first_snapshot_steps,
    pack_steps,
    second_snapshot_steps,
)
from inspan.system.platform import open_exit_fd
from inspan.system.threads import call_in_thread
from inspan.transports.process import DEFAULT_SIGNALS

MAX_REPORTED = 1000
_MODES = frozenset({"exec", "review"})
_READY_S = 5.0
_IS_OFF = "INSPAN_SNAPSHOT is off, so no snapshot was taken."
_KILL_S = 2.0
T = TypeVar("T")


class ChangeTracker:
    """Takes the two snapshots of a run. Nothing here raises, keeps the agent waiting or outlives `finish`.

    Whatever fails becomes a sentence in the run folder's `snapshot.json`, and `failure`: then nobody knows what was
    changed. `unchanged` are files of which something was told, and which are as they were. `hidden` are folders that
    are left out, `checkout` is the work tree that a worktree of the run's own was made from.
    """

    def __init__(
        self,
        folder: str,
        *,
        cwd: str,
        mode: str = "exec",
        hidden: Sequence[str] = (),
        checkout: str = "",
        env: Mapping[str, str] = os.environ,
        settle_s: float = 5.0,
    ) -> None:
        self._folder = folder
        self._cwd = cwd
        self._hidden = hidden
        self._settle_s = settle_s
        self._checkout = checkout
        self._snapshot = Snapshot()
        self._first: asyncio.Task[None] | None = None
        self._began_at = 0.0
        self._saw_all = False
        self._limit_s, self._refusal = _parse_limit(env.get("INSPAN_SNAPSHOT", ""))
        self._is_mistaken = mode in _MODES and bool(self._refusal) and self._refusal != _IS_OFF
        if mode not in _MODES:
            self._refusal = f"The mode {mode} changes no files, so no snapshot was taken."
        self.omitted = 0
        self.unchanged: list[str] = []
        self.failure = ""

    def begin(self) -> None:
        """Starts the first snapshot, in the background of the running loop."""
        repository = None if self._refusal else find_repository(self._cwd)
        if repository:
            loop = asyncio.get_running_loop()
            self._began_at = loop.time()
            self._first = loop.create_task(self._begin(repository))
        elif self._is_mistaken:
            self._note_failure(self._refusal)
        else:
            self._note_problem(self._refusal or f"{self._cwd} is in no git work tree, so no snapshot was taken.")

    async def wait_until_ready(self) -> None:
        """Waits for the first snapshot, but not past five seconds after its start; the snapshot itself may go on."""
        if self._first and not self._first.done():
            left_s = self._began_at + _READY_S - asyncio.get_running_loop().time()
            await asyncio.wait({self._first}, timeout=max(0.0, left_s))
        self._saw_all = bool(self._first and self._first.done())

    async def end_first_snapshot(self) -> None:
        """Waits for the first snapshot, a few seconds at the most; from then on none of its processes lives."""
        if self._first is None:
            return
        await asyncio.wait({self._first}, timeout=self._settle_s)
        if not self._first.done():
            self._first.cancel()
            await asyncio.wait({self._first})
            self._note_failure("The run was over before its first snapshot was complete.")

    async def finish(self, reported: Iterable[str] = (), *, limit_s: float | None = None) -> list[FileChanged]:
        """Takes the second snapshot once the agent is gone; gives the changed files that are not among those
        `reported`.

        Of very many it gives the first `MAX_REPORTED`; `omitted` says how many more there are.
        """
        await self.end_first_snapshot()
        if not self._snapshot.before:
            return []
        limit_s = limit_s or self._limit_s
        deadline = asyncio.get_running_loop().time() + limit_s
        told = {path: _normalize_path(os.path.join(self._cwd, path)) for path in reported}
        taken = await self._take(self._compare(set(told.values())), limit_s=limit_s)
        if taken is None:
            return []
        both, pairs, unchanged = taken
        self._save(both)
        # If this fails, everything stays where it is: larger than it need be, and it needs the repository.
        packing = _pack(self._folder, both, pairs)
        forged, _ = await _try_steps(packing, limit_s=deadline - asyncio.get_running_loop().time())
        if forged:
            self.failure = forged
            self._save(Snapshot(top=both.top, problem=forged))
        elif self._saw_all:
            self.unchanged = [path for path, place in told.items() if place in unchanged]
        changes = _select_unreported(list_changed_files(pairs), both.top, known=set(told.values()))
        self.omitted = max(0, len(changes) - MAX_REPORTED)
        return changes[:MAX_REPORTED]

    def _compare(self, told: set[str]) -> Steps[tuple[Snapshot, list[VersionPair], set[str]]]:
        """Both snapshots, where they differ, and which of these files they show to be as they were."""
        both, pairs = yield from second_snapshot_steps(self._folder, self._snapshot)
        changed = {_normalize_path(os.path.join(both.top, pair.path)) for pair in pairs} if told else set[str]()
        # What lies behind a link is another file.
        quiet = [path for path in told - changed if not os.path.islink(path)]
        return both, pairs, set((yield from find_held_steps(self._folder, both, quiet)))

    async def _begin(self, repository: Repository) -> None:
        steps = first_snapshot_steps(self._folder, repository, hidden=self._hidden)
        first = await self._take(steps, limit_s=self._limit_s)
        if first:
            self._save(msgspec.structs.replace(first, checkout=self._checkout))

    async def _take(self, steps: Steps[T], *, limit_s: float) -> T | None:
        taken, problem = await _try_steps(steps, limit_s=limit_s)
        if problem:
            self._note_failure(problem)
        return taken

    def _note_failure(self, problem: str) -> None:
        self.failure = problem
        self._note_problem(problem)

    def _note_problem(self, problem: str) -> None:
        self._save(msgspec.structs.replace(self._snapshot, problem=problem))

    def _save(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        try:
            save_snapshot(self._folder, snapshot)
        except (InspanError, OSError, ValueError):
            pass  # A disk that takes nothing: without the file, `inspan diff` says that there is no snapshot.


def _pack(folder: str, both: Snapshot, pairs: Sequence[VersionPair]) -> Steps[str]:
    """Packs what differs; gives the sentence why nothing of it can be believed, if so."""
    try:
        yield from pack_steps(folder, both, pairs)
    except ForgedSnapshot as error:
        return str(error)
    return ""


def _parse_limit(given: str) -> tuple[float, str]:
    """The seconds that a snapshot may take, or why there is none."""
    if given == "off":
        return LIMIT_S, _IS_OFF
    try:
        limit_s = float(given or LIMIT_S)
    except ValueError:
        limit_s = 0.0
    if 0 < limit_s < float("inf"):
        return limit_s, ""
    return LIMIT_S, f"INSPAN_SNAPSHOT is {given!r}, neither `off` nor a number of seconds, so no snapshot was taken."


def _select_unreported(changed: Sequence[ChangedFile], top: str, *, known: set[str]) -> list[FileChanged]:
    events = [FileChanged(path=os.path.join(top, each.path), change=each.change) for each in changed]
    return [event for event in events if _normalize_path(event.path) not in known] if known else events


def _normalize_path(path: str) -> str:
    """A path in the one spelling that is compared; a link stays one."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


async def _try_steps(steps: Steps[T], *, limit_s: float) -> tuple[T | None, str]:
    """What the steps came to, or the sentence why they did not."""
    try:
        async with asyncio.timeout(limit_s):
            return await _run_steps(steps), ""
    except SnapshotError as error:
        return None, str(error)
    except TimeoutError:
        return None, timeout_message(limit_s)
    except OSError as error:
        return None, os_error_message(error)
    except Exception as error:  # A git that prints what none has printed before must not end the run.
        return None, f"A snapshot cannot be read: {error!r}."


async def _run_steps(steps: Steps[T]) -> T:
    """Takes the steps one after the other without keeping the loop."""
    try:
        step = next(steps)
        while True:
            step = steps.send(await _run_step(step) if step else await asyncio.sleep(0, 0))
    except StopIteration as done:
        return done.value
    finally:
        steps.close()


async def _run_step(step: Step) -> int:
    """Runs git to its end and gives its exit code; a caller that is cancelled leaves none behind."""
    pid = _spawn_git(step)
    loop = asyncio.get_running_loop()
    exited: asyncio.Future[None] = loop.create_future()
    exit_fd = _open_exit_fd(pid)
    loop.add_reader(exit_fd, lambda: exited.done() or exited.set_result(None))
    try:
        await asyncio.wait({exited}, timeout=PATIENCE_S)
        if not exited.done() and (obstacle := await call_in_thread(partial(find_deep_obstacle, step.folder))):
            raise SnapshotError(obstacle)
        await asyncio.wait({exited})
    finally:
        if not exited.done():
            os.kill(pid, signal.SIGKILL)  # It is our child, and not yet reaped: the number is its own.
            await asyncio.wait({exited}, timeout=_KILL_S)
        loop.remove_reader(exit_fd)
        os.close(exit_fd)
        code = _reap(pid)
    return code


def _spawn_git(step: Step) -> int:
    written = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, step.stdin, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, step.stdout, written, 0o600),
        (os.POSIX_SPAWN_OPEN, 2, step.stderr, written, 0o600),
    ]
    return os.posix_spawn(
        step.argv[0],
        step.argv,
        step.env,
        file_actions=actions,
        setsid=True,
        setsigdef=DEFAULT_SIGNALS,
        setsigmask=(),
    )


def _open_exit_fd(pid: int) -> int:
    try:
        return open_exit_fd(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def _reap(pid: int) -> int:
    """The exit code; that of a failure if somebody else's watcher has taken it or the process will not die."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return -1
    return os.waitstatus_to_exitcode(status) if found else -1
