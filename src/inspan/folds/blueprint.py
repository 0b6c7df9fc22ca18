"""Where a blueprint stands, by its log alone: whoever reads it knows what was about to run."""

import msgspec

from inspan.protocol.blueprint import Blueprint
from inspan.protocol.events import (
    NodeEnded,
    NodeStarted,
    QuestionAnswered,
    QuestionAsked,
    RunEnded,
    RunStarted,
)
from inspan.protocol.wire import Record

from .live_state import LiveState
from .loop import find_heard_at


class NodeRun(msgspec.Struct, frozen=True, kw_only=True):
    """One round of a node; a node that is in no loop has one. A node that is skipped never started."""

    started: NodeStarted | None = None
    started_at: float = 0.0
    ended: NodeEnded | None = None
    ended_at: float = 0.0


class BlueprintState(msgspec.Struct, frozen=True, kw_only=True):
    """Every node that began or ended, by name and round; the nodes of what this one continues are among them.
    `more_rounds` is what the loops of the blueprint were granted beside their own, by name."""

    nodes: dict[str, dict[int, NodeRun]] = {}
    more_rounds: dict[str, int] = {}
    active_s: float = 0.0
    began_at: float = 0.0
    ended: RunEnded | None = None

    def find(self, node: str, round: int) -> NodeRun | None:
        """One round of a node."""
        return self.nodes.get(node, {}).get(round)

    def find_last(self, node: str) -> NodeRun | None:
        """The last round that a node has begun."""
        rounds = self.nodes.get(node)
        return rounds[max(rounds)] if rounds else None


class BlueprintFold:
    """Feed it every record in order, those of a continued blueprint first.

    What has failed before is forgotten where somebody goes on with a blueprint that had ended, and a loop whose rounds
    are spent gets as many again; what was lost goes on as it was.
    """

    def __init__(self, blueprint: Blueprint) -> None:
        self._blueprint = blueprint
        self._nodes: dict[str, dict[int, NodeRun]] = {}
        self._more_rounds: dict[str, int] = {}
        self._before_s = 0.0
        self._began_at = 0.0
        self._heard_at = 0.0
        self._ended: RunEnded | None = None

    @property
    def state(self) -> BlueprintState:
        active_s = self._before_s + max(0.0, self._heard_at - self._began_at)
        nodes = {name: dict(rounds) for name, rounds in self._nodes.items()}
        more = dict(self._more_rounds)
        return BlueprintState(
            nodes=nodes, more_rounds=more, active_s=active_s, began_at=self._began_at, ended=self._ended
        )

    def add(self, record: Record) -> None:
        event = record.event
        match event:
            case RunStarted():
                self._begin(record)
            case NodeStarted():
                self._nodes.setdefault(event.node, {})[event.round] = NodeRun(started=event, started_at=record.at)
            case NodeEnded():
                rounds = self._nodes.setdefault(event.node, {})
                before = rounds.get(event.round, NodeRun(started_at=record.at))
                rounds[event.round] = msgspec.structs.replace(before, ended=event, ended_at=record.at)
            case RunEnded():
                self._ended = event
            case _:
                pass
        self._heard_at = find_heard_at(record, began_at=self._began_at, before=self._heard_at)

    def _begin(self, record: Record) -> None:
        if self._ended and self._ended.outcome != "lost":
            self._grant_rounds()
            self._forget_failures()
        self._before_s, self._began_at, self._ended = self.state.active_s, record.at, None

    def _grant_rounds(self) -> None:
        """What was given in the last round is there for the next one, as in every other."""
        for loop, part in self._blueprint.loops.items():
            last = max(self._nodes.get(part.until, {0: NodeRun()}))
            ended = self._nodes[part.until][last].ended if last else None
            if ended and last == self._count_rounds(loop) and _has_judged(ended) and not self._may_fail(part.until):
                self._more_rounds[loop] = self._more_rounds.get(loop, 0) + part.rounds

    def _forget_failures(self) -> None:
        """What is to be tried again: what failed for good, and what was not run for that."""
        for name, rounds in list(self._nodes.items()):
            last = max(rounds)
            ended = rounds[last].ended
            if ended and ended.error and not self._is_settled(name, last, ended):
                del rounds[last]
            if not rounds:
                del self._nodes[name]

    def _is_settled(self, name: str, round: int, ended: NodeEnded) -> bool:
        loops = self._blueprint.loops.items()
        again = any(part.until == name and round < self._count_rounds(loop) for loop, part in loops)
        return ended.status == "failed" and ((again and _has_judged(ended)) or self._may_fail(name))

    def _count_rounds(self, loop: str) -> int:
        return self._blueprint.loops[loop].rounds + self._more_rounds.get(loop, 0)

    def _may_fail(self, name: str) -> bool:
        node = self._blueprint.nodes.get(name)
        return node is not None and node.allow_failure


def _has_judged(ended: NodeEnded) -> bool:
    """Whether a check that failed came to its end, and was not stopped or kept from running."""
    return ended.status == "failed" and (ended.reason is None or ended.timed_out)


class BlueprintLiveFold:
    """What a living blueprint is doing, as `LiveStateFold` tells it of a run."""

    def __init__(self) -> None:
        self._running: dict[str, NodeStarted] = {}
        self._questions: dict[str, QuestionAsked] = {}
        self._since = 0.0

    def add(self, record: Record) -> None:
        event = record.event
        match event:
            case RunStarted():
                self._questions.clear()  # Those that are still open are asked again.
            case NodeStarted():
                self._running[event.node] = event
            case NodeEnded():
                self._running.pop(event.node, None)
            case QuestionAsked():
                self._questions[event.id] = event
            case QuestionAnswered():
                self._questions.pop(event.id, None)
            case _:
                return
        self._since = record.at

    @property
    def state(self) -> LiveState:
        if self._questions:
            asked = next(iter(self._questions.values()))
            return LiveState(
                status="waiting",
                questions=tuple(self._questions),
                subject=asked.questions[0].text if asked.questions else "",
                asks_for="answer",
                since=self._since,
            )
        subject = ", ".join(f"{each.node} ({each.type})" for each in self._running.values())
        return LiveState(status="working" if subject else "starting", subject=subject, since=self._since)
