"""The life of a blueprint: begins each node as soon as it can, and writes down what became of it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import msgspec

from inspan.errors import InspanError, StateUnusable
from inspan.folds.blueprint import BlueprintFold, BlueprintState
from inspan.loop.ending import build_work_end, find_reason
from inspan.loop.run_places import find_run_cwd, leave_worktrees
from inspan.loop.work_log import WorkLog
from inspan.protocol.blueprint import AgentNode, ApplyNode, CommandNode, Node, PersonNode
from inspan.protocol.commands import ACCEPTED, Answer, Cancel, Command, Ping, Reply, refuse
from inspan.protocol.events import Event, NodeEnded, NodeOutput, RunEnded
from inspan.protocol.outcome import Reason
from inspan.protocol.wire import Record
from inspan.redaction import Gate, SecretSet
from inspan.stores.event_log import RunLog
from inspan.stores.run_folder import open_folder

from .agent_node import run_agent_node
from .apply_node import run_apply_node
from .command_node import run_command_node
from .decide import End, FailNode, SkipNode, StartNode, Step, collect_values, decide
from .graph import kind_of
from .node_context import NodeContext
from .person_node import OpenQuestions, run_person_node
from .plan import BlueprintPlan

_RunNode = Callable[[NodeContext, StartNode], Awaitable[NodeEnded]]


class BlueprintWorker:
    """Runs a blueprint whose log it alone writes; `before` holds what the logs have told that this one continues."""

    def __init__(self, plan: BlueprintPlan, log: RunLog, *, before: BlueprintFold) -> None:
        self._plan = plan
        self._graph = plan.build_graph()
        self._fold = before
        gate = Gate(SecretSet.get_shared(plan.secrets))
        self._log = WorkLog(open_folder(plan.folder).log, log, gate=gate, add=before.add)
        self._before_s = before.state.active_s
        self._began_at = time.monotonic()
        self._ending: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._slots = asyncio.Semaphore(plan.jobs)
        self._living: dict[str, asyncio.Task[None]] = {}
        self._questions = OpenQuestions(self._record)
        self._context = NodeContext(
            plan,
            self._graph,
            record=self._record,
            gate=gate,
            ending=self._ending,
        )
        self._fold.add(Record(1, plan.created_at, plan.started))

    @property
    def state(self) -> BlueprintState:
        """Where the blueprint stands; how long it was at it is by a clock that nobody sets."""
        active_s = self._before_s + time.monotonic() - self._began_at
        return msgspec.structs.replace(self._fold.state, active_s=active_s)

    def handle_command(self, command: Command) -> Reply:
        """What somebody asks of the blueprint over its control socket."""
        match command:
            case Ping():
                return ACCEPTED
            case Cancel():
                self.cancel(command)
                return ACCEPTED
            case Answer():
                return self._questions.answer(command)
            case _:
                return refuse("a blueprint takes no messages; its runs do")

    def cancel(self, command: Cancel) -> None:
        """Ends the blueprint and all that it has going."""
        self._end_early(End(reason=command.by))

    async def run(self) -> RunEnded:
        """Takes steps until the blueprint has ended; gives its last event, which is in the log.

        Where the disk takes no more, that is the end: raises `OSError` if not even that can be written.
        """
        limit_s = self._plan.time_limit_s
        timer = self._limit_time(limit_s - self._before_s) if limit_s is not None else None
        try:
            async with self._log.keep_alive(limit_s=limit_s):
                end = await self._take_steps()
            await asyncio.to_thread(self._leave_worktrees)
            ended = self._build_end(end)
            self._record(ended)
        except StateUnusable as error:
            return self._end_by_disk(error)
        finally:
            if timer:
                timer.cancel()
        return ended

    async def _take_steps(self) -> End:
        while True:
            steps = self._decide()
            for step in steps:
                if isinstance(step, End):
                    return step
                self._take(step)
            if self._living:
                await self._wait_for_node()

    def _decide(self) -> list[Step]:
        if not self._ending.done():
            return decide(self._graph, self.state, self._plan.inputs, living=self._living)
        return [] if self._living else [self._ending.result()]

    def _take(self, step: StartNode | SkipNode | FailNode) -> None:
        kind = kind_of(self._graph.blueprint.nodes[step.node])
        match step:
            case StartNode():
                self._living[step.node] = asyncio.create_task(self._run_node(step))
            case SkipNode():
                self._record(NodeEnded(node=step.node, type=kind, round=step.round, status="skipped", error=step.why))
            case FailNode():
                self._record(NodeEnded(node=step.node, type=kind, round=step.round, status="failed", error=step.why))

    async def _run_node(self, step: StartNode) -> None:
        node = self._graph.blueprint.nodes[step.node]
        if isinstance(node, PersonNode):
            await self._run_to_end(step, node)  # Whoever waits for a person takes nobody's turn.
            return
        async with self._slots:
            if not self._ending.done():
                await self._run_to_end(step, node)

    async def _run_to_end(self, step: StartNode, node: Node) -> None:
        values = collect_values(self._graph, self.state, self._plan.inputs, node=step.node)
        began_at = time.monotonic()
        try:
            ended = await self._choose(node)(self._context.for_node(values, self.state), step)
        except InspanError as error:
            if find_reason(error) == "store":
                raise  # The log itself takes no more.
            ended = _build_failed(node, step, str(error), find_reason(error))
        except Exception as error:  # A fault of inspan's own, or no more processes: the other nodes go on.
            ended = _build_failed(node, step, f"inspan broke: {error!r}.", "harness")
        self._record(msgspec.structs.replace(ended, duration_s=round(time.monotonic() - began_at, 3)))

    def _choose(self, node: Node) -> _RunNode:
        match node:
            case CommandNode():
                return partial(run_command_node, node)
            case AgentNode():
                return partial(run_agent_node, node)
            case PersonNode():
                return partial(run_person_node, node, self._questions)
            case ApplyNode():
                return partial(run_apply_node, node)

    async def _wait_for_node(self) -> None:
        """Until one of the living has ended; what keeps it from writing that down is raised here."""
        await asyncio.wait(self._living.values(), return_when=asyncio.FIRST_COMPLETED)
        for name, task in list(self._living.items()):
            if task.done():
                del self._living[name]
                task.result()

    def _leave_worktrees(self) -> None:
        """Where agents changed nothing, and where nothing else was left for later nodes, nothing stays."""
        nodes = [run.ended for rounds in self.state.nodes.values() for run in rounds.values() if run.ended]
        cwds: list[str] = []
        for run in (run for each in nodes for run in each.runs):
            with suppress(InspanError):
                cwds.append(find_run_cwd(self._plan.state, run))
        leave_worktrees(self._plan.state, cwds, by=self._plan.run_id)

    def _build_end(self, end: End) -> RunEnded:
        nodes = [run.ended for rounds in self.state.nodes.values() for run in rounds.values() if run.ended]
        files = list(dict.fromkeys(path for each in nodes for path in each.files_changed))
        duration_s = time.monotonic() - self._began_at
        return build_work_end(end.reason, end.message, parts=nodes, files=files, duration_s=duration_s)

    def _limit_time(self, left_s: float) -> asyncio.TimerHandle:
        message = f"the {self._plan.time_limit_s:g} s of the blueprint are over."
        end = End(reason="run_timeout", message=message)
        return asyncio.get_running_loop().call_later(max(0.0, left_s), self._end_early, end)

    def _end_early(self, end: End) -> None:
        if not self._ending.done():
            self._ending.set_result(end)

    def _end_by_disk(self, error: StateUnusable) -> RunEnded:
        """In the room that was kept for it; what goes on meanwhile is found by whoever goes on with this."""
        ended = self._build_end(End(reason="store", message=str(error)))
        self._log.record_on_full_disk(ended)
        return ended

    def _record(self, event: Event) -> None:
        # Nothing follows from what a node puts out.
        self._log.record(event, synced=not isinstance(event, NodeOutput))


def _build_failed(node: Node, step: StartNode, error: str, reason: Reason | None) -> NodeEnded:
    return NodeEnded(node=step.node, type=kind_of(node), round=step.round, status="failed", error=error, reason=reason)
