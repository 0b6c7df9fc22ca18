"""Runs the cells of a comparison, so many at a time; each is a loop that goes on without this process."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import msgspec

from inspan.errors import InspanError, RunNotFound
from inspan.loop.prepare import prepare_loop
from inspan.loop.recover import continue_loop
from inspan.loop.results import LoopResult, follow_loop
from inspan.loop.start import Children, start_loop
from inspan.protocol.commands import Cancel
from inspan.protocol.events import BudgetRefused, Event, WorktreeLeft
from inspan.protocol.usage import Usage
from inspan.runs.find import find_run_folder, refresh_summary, stop
from inspan.stores.event_log import iter_log
from inspan.stores.git import SnapshotError
from inspan.stores.run_folder import RunFolder, is_locked
from inspan.stores.snapshot import changes_between, count_lines
from inspan.system.cancellation import run_to_end

from .prepare import build_cell
from .store import CompareStore
from .values import CellKey, CellResult, CellStarted

_POLL_S = 1.0
_MOST_DEATHS = 3
_BY_SOMEBODY = ("interrupted", "stopped", "killed")
# A cell has a task of its own: only the budget of the project is for several of them.
_BUDGET_OF, _SHARED = "The budget of ", "project "


class CompareWorker:
    """Takes the cells of a store to their results. `on_started` and `on_result` hear of each."""

    def __init__(
        self,
        store: CompareStore,
        *,
        state: str,
        env: dict[str, str],
        jobs: int,
        on_started: Callable[[CellStarted], None],
        on_result: Callable[[CellResult], None],
    ) -> None:
        self._store = store
        self._comparison = store.comparison
        self._state = state
        self._env = env
        self._jobs = asyncio.Semaphore(jobs)
        self._on_started = on_started
        self._on_result = on_result
        self._living: dict[CellKey, RunFolder] = {}
        self._children = Children()

    async def run(self) -> None:
        """Ends when every cell has its result; where it is cancelled, the loops that it follows are stopped."""
        known = self._store.results
        todo = [key for key in self._comparison.cells if key not in known or known[key].problem]
        try:
            async with asyncio.TaskGroup() as group:
                for key in todo:
                    group.create_task(self._run_cell(key))
        except BaseException:
            await asyncio.to_thread(self._stop_all)
            raise

    async def _run_cell(self, key: CellKey) -> None:
        async with self._jobs:
            result, left = await self._try_cell(key), _MOST_DEATHS
            while result.outcome == "lost" and (left := left - 1):  # What a process died of says nothing of the agent.
                result = await self._try_cell(key)
            self._store.append(result)
            self._on_result(result)

    async def _try_cell(self, key: CellKey) -> CellResult:
        """What came of the loop of a cell."""
        try:
            # Whoever ends this meanwhile has to know the loop that is being started.
            folder = await run_to_end(asyncio.to_thread(self._find_loop, key))
        except InspanError as error:
            task, agent, repeat = key
            return CellResult(task=task, agent=agent, repeat=repeat, problem=str(error))
        result = await self._follow(key, folder)
        del self._living[key]
        return result

    def _find_loop(self, key: CellKey) -> RunFolder:
        folder = self._living[key] = self._choose_loop(key)
        return folder

    def _choose_loop(self, key: CellKey) -> RunFolder:
        """The loop of a cell: the one that it has, what goes on with that if it was lost, or else a new one."""
        started = self._store.started.get(key)
        if not started or key in self._store.results:  # With a result, it is one that could not be judged.
            return self._start_loop(key)
        try:
            folder = find_run_folder(self._state, started)
        except RunNotFound:
            return self._start_loop(key)
        ended = refresh_summary(self._state, folder).ended
        if ended is None or is_locked(folder):
            return folder
        if ended.outcome == "lost":
            return self._recover(key, folder)
        return self._start_loop(key) if ended.reason in _BY_SOMEBODY else folder

    def _start_loop(self, key: CellKey) -> RunFolder:
        name, agent, _ = key
        task, policy = build_cell(self._comparison, self._comparison.find_task(name), agent)
        # It is the comparison's to go on with: nobody knows of one that was lost before it was noted.
        task = msgspec.structs.replace(task, parent=self._comparison.id)
        prepared = prepare_loop(task, policy, explicit=self._comparison.explicit, env=self._env)
        self._note_loop(key, str(prepared.plan.run_id))
        self._children.add(start_loop(prepared))
        return prepared.folder

    def _recover(self, key: CellKey, lost: RunFolder) -> RunFolder:
        new = continue_loop(self._state, lost, env=self._env)
        self._note_loop(key, new)
        return find_run_folder(self._state, new)

    def _note_loop(self, key: CellKey, loop: str) -> None:
        task, agent, repeat = key
        started = CellStarted(task=task, agent=agent, repeat=repeat, loop=loop)
        self._store.append(started)
        self._on_started(started)

    async def _follow(self, key: CellKey, folder: RunFolder) -> CellResult:
        result = await follow_loop(self._state, folder, poll_s=_POLL_S)
        return await asyncio.to_thread(self._build_result, key, result)

    def _build_result(self, key: CellKey, found: LoopResult) -> CellResult:
        task, agent, repeat = key
        ended = found.ended
        result = CellResult(
            task=task,
            agent=agent,
            repeat=repeat,
            loop=found.run_id,
            runs=list(found.runs),
            passed=ended.reason == "done",
            outcome=ended.outcome,
            reason=ended.reason,
            message=ended.message,
            attempts=len(found.runs),
            wall_s=found.active_s,
            usage=ended.usage or Usage(),
            cost=found.cost,
            model_calls=ended.model_calls,
            problem=ended.message if self._says_nothing(found) else "",
        )
        for run in found.runs:
            result = self._add_run(result, run)
        left = (
            [each for each in self._list_events(found.runs[-1]) if isinstance(each, WorktreeLeft)] if found.runs else []
        )
        return msgspec.structs.replace(result, ignored=left[-1].ignored if left else 0)

    def _says_nothing(self, found: LoopResult) -> bool:
        """Whether the end of a loop says nothing of its agent: its tests could not be put in, or a budget that is not
        its own had nothing left."""
        if found.ended.reason == "no_verdict":
            return True
        return found.ended.reason == "budget" and self._find_refusing(found).startswith(_SHARED)

    def _find_refusing(self, found: LoopResult) -> str:
        """The budget that refused the last call; where no run was begun, the one that the message names."""
        events = self._list_events(found.runs[-1]) if found.runs else []
        refused = [each.node for each in events if isinstance(each, BudgetRefused)]
        return refused[-1] if refused else found.ended.message.partition(_BUDGET_OF)[2]

    def _list_events(self, run: str) -> list[Event]:
        """What a run told; nothing where its log cannot be read."""
        with suppress(InspanError):
            return [record.event for record in iter_log(find_run_folder(self._state, run).log)]
        return []

    def _add_run(self, result: CellResult, run: str) -> CellResult:
        """With the files, lines and denied calls of one of its attempts; what cannot be read adds nothing."""
        try:
            folder = find_run_folder(self._state, run)
            lines = count_lines(folder.path).values()
            files = [each.path for each in changes_between(folder.path)]
            ended = refresh_summary(self._state, folder).ended
        except (InspanError, SnapshotError):
            return result
        return msgspec.structs.replace(
            result,
            files=list(dict.fromkeys([*result.files, *files])),
            lines_added=result.lines_added + sum(added for added, _ in lines),
            lines_removed=result.lines_removed + sum(removed for _, removed in lines),
            denied_calls=result.denied_calls + (len(ended.denied) if ended else 0),
        )

    def _stop_all(self) -> None:
        for folder in self._living.values():
            stop(folder, command=Cancel(by="interrupted"))
