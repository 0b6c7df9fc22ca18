"""What work that has runs tells of itself, as lines: attempts, checks, second opinions, waits, nodes."""

import time
from collections.abc import Callable
from typing import Any, Literal

from inspan.protocol.events import (
    AttemptEnded,
    AttemptStarted,
    CheckEnded,
    NodeEnded,
    NodeOutput,
    NodeStarted,
    RunStarted,
    VerdictGiven,
    VerifierStarted,
    WaitStarted,
)
from inspan.protocol.ids import make_short_name

from .states import NODE_MARKS, format_outcome
from .text import format_duration, one_line, shorten_home

_GLYPHS = {"loop": "↻", "blueprint": "◇"}
WorkLine = tuple[str, Literal["start", "note", "output", "failure", "warning"]]


def describe_work(event: RunStarted) -> list[str]:
    """The first lines of a loop or a blueprint."""
    name = event.name or make_short_name(event.run_id)
    limits = [f"{node}'s budget {limit}" for node, limit in event.budgets.items()]
    limits += [f"ends after {format_duration(event.timeout_s)}"] if event.timeout_s else []
    continued = [f"goes on with {make_short_name(event.continues)}"] if event.continues else []
    return [
        f"{_GLYPHS[event.work]} {event.work} · {one_line(event.agent)} · {one_line(shorten_home(event.cwd))}",
        "  " + " · ".join((f"{event.work} {name} ({event.run_id})", *continued, *limits)),
    ]


def _on_attempt_started(event: AttemptStarted) -> list[WorkLine]:
    how = f" · goes on with {make_short_name(event.resumes)}" if event.resumes else ""
    return [(f"↻ attempt {event.attempt} · {event.agent} · run {make_short_name(event.run_id)}{how}", "start")]


def _on_attempt_ended(event: AttemptEnded) -> list[WorkLine]:
    words = f"  attempt {event.attempt}: {format_outcome(event.outcome, event.reason)}"
    return [(words, "note" if event.reason == "done" else "failure")]


def _on_check_ended(event: CheckEnded) -> list[WorkLine]:
    took = f" ({format_duration(event.duration_s)})" if event.duration_s else ""
    if event.passed:
        return [(f"✔ check {one_line(event.check)}{took}", "note")]
    how = "took too long" if event.timed_out else "failed"
    code = f" with exit code {event.exit_code}" if event.exit_code and not event.timed_out else ""
    said: list[WorkLine] = [(f"  {line}", "output") for line in event.output.strip().splitlines()]
    return [(f"✘ check {one_line(event.check)} {how}{code}{took}", "failure"), *said]


def _on_verifier_started(event: VerifierStarted) -> list[WorkLine]:
    return [(f"↻ {event.agent} verifies attempt {event.attempt} · run {make_short_name(event.run_id)}", "start")]


def _on_verdict_given(event: VerdictGiven) -> list[WorkLine]:
    if event.agreed:
        return [(f"✔ {event.agent} agrees that the task is done", "note")]
    says = "says that the task is not done" if event.agreed is False else f"gave no verdict ({event.reason})"
    return [(f"✘ {event.agent} {says}", "failure")]


def _on_wait_started(event: WaitStarted) -> list[WorkLine]:
    wait_s = event.until - time.time()
    how_long = f" {format_duration(wait_s)}" if wait_s > 0 else ""
    return [(f"◷ waits{how_long}: {event.why}", "note")]


def _on_node_started(event: NodeStarted) -> list[WorkLine]:
    loop = f" · loop {make_short_name(event.run_id)}" if event.run_id else ""
    return [(f"▸ {_name_round(event)} ({event.type}){loop}", "start")]


def _on_node_output(event: NodeOutput) -> list[WorkLine]:
    return [(f"  {line}", "output") for line in event.text.rstrip("\n").split("\n")]


def _on_node_ended(event: NodeEnded) -> list[WorkLine]:
    why = f": {one_line(event.error)}" if event.error else ""
    took = f" in {format_duration(event.duration_s)}" if event.status != "skipped" else ""
    words = f"{NODE_MARKS[event.status]} {_name_round(event)}: {event.status}{took}{why}"
    return [(words, "failure" if event.status == "failed" else "note")]


def _name_round(event: NodeStarted | NodeEnded) -> str:
    return f"{event.node}, round {event.round}" if event.round > 1 else event.node


WORK_LINES: dict[type, Callable[[Any], list[WorkLine]]] = {
    NodeStarted: _on_node_started,
    NodeOutput: _on_node_output,
    NodeEnded: _on_node_ended,
    AttemptStarted: _on_attempt_started,
    AttemptEnded: _on_attempt_ended,
    CheckEnded: _on_check_ended,
    VerifierStarted: _on_verifier_started,
    VerdictGiven: _on_verdict_given,
    WaitStarted: _on_wait_started,
}
