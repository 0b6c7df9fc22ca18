"""From events to calls: the order, the result, several runs told to one reporter, and a reporter that raises."""

from collections.abc import Callable
from typing import Any

import pytest

from inspan.contracts.reporter import NodeReport, NodeResult, Reporter, RunReport
from inspan.protocol.cost import Cost
from inspan.protocol.events import AnswerGiven, Event, RunEnded, TextDelta, TextSaid, ThreadStarted
from inspan.protocol.outcome import OUTCOMES, Outcome
from inspan.protocol.usage import Usage
from inspan.reporters.events import report_events
from inspan.reporters.safe_reporter import SafeReporter

from .sample_events import ENDED, run_started


class Notes:
    """A reporter that writes down how it was called; `fails_in` names a method that raises instead."""

    def __init__(self, fails_in: str = "") -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._fails_in = fails_in

    def node_start(self, name: str, type: str, /) -> None:
        self._note("node_start", name, type)

    def node_output(self, name: str, chunk: str, /) -> None:
        self._note("node_output", name, chunk)

    def node_complete(self, name: str, result: NodeResult, /) -> None:
        self._note("node_complete", name, result)

    def run_complete(self, report: RunReport, /) -> None:
        self._note("run_complete", report)

    def _note(self, *call: Any) -> None:
        if call[0] == self._fails_in:
            raise ValueError("secret words")
        self.calls.append(call)


HEAD = "▶ anyone 1.2 · /w\n  run hkb3 (20260101-000000000-1)\n"
RESULT = NodeResult(
    status="success",
    output="Done.",
    duration_s=1.5,
    usage=Usage(input=3, output=2),
    cost_usd=0.5,
    cost_kind="paid",
    session_id="s-1",
    outcome="completed",
    reason="done",
    files_changed=("/w/a",),
)
STORY: tuple[Event, ...] = (run_started(), ThreadStarted(session_id="s-1"), TextSaid(text="Done."), ENDED)


def report_all(reporter: Reporter, *events: Event, name: str = "fix", ends_run: bool = True) -> NodeResult | None:
    told = report_events(reporter, name, ends_run=ends_run)
    for event in events:
        told.show(event)
    return told.result


def test_a_run_is_told_as_one_node() -> None:
    notes = Notes()
    assert report_all(notes, *STORY) == RESULT
    node = NodeReport(name="fix", type="agent", result=RESULT)
    assert notes.calls == [
        ("node_start", "fix", "agent"),
        ("node_output", "fix", HEAD),
        ("node_output", "fix", "Done.\n"),
        ("node_complete", "fix", RESULT),
        ("run_complete", RunReport(nodes=(node,), status="success", duration_s=1.5)),
    ]


def test_a_node_without_a_name_has_the_name_of_its_agent() -> None:
    notes = Notes()
    report_all(notes, *STORY, name="")
    assert notes.calls[0] == ("node_start", "anyone", "agent")


def test_a_run_that_is_part_of_a_larger_one_does_not_end_it() -> None:
    notes = Notes()
    results = [report_all(notes, *STORY, name=name, ends_run=False) for name in ("fix", "check")]
    assert results == [RESULT, RESULT]
    assert [call[:2] for call in notes.calls if call[0] != "node_output"] == [
        ("node_start", "fix"),
        ("node_complete", "fix"),
        ("node_start", "check"),
        ("node_complete", "check"),
    ]


def test_a_node_has_started_before_it_says_anything() -> None:
    notes = Notes()
    report_all(notes, TextDelta(block="1", text="w"), name="")
    assert notes.calls == [("node_start", "agent", "agent"), ("node_output", "agent", "w")]


def test_nothing_is_told_after_the_end() -> None:
    notes = Notes()
    report_all(notes, *STORY, TextSaid(text="late"), ENDED)
    assert [call[0] for call in notes.calls][-1] == "run_complete"
    assert len(notes.calls) == 5


def test_an_answer_that_was_given_is_the_output() -> None:
    result = report_all(Notes(), run_started(), TextSaid(text="Here:"), AnswerGiven(text="{}"), ENDED)
    assert result and result.output == "{}"


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_only_a_completed_run_is_a_success(outcome: Outcome) -> None:
    result = report_all(Notes(), run_started(), RunEnded(outcome=outcome, reason="unknown", message="why", next="then"))
    assert result == NodeResult(
        status="success" if outcome == "completed" else "failed",
        error="why",
        cost_kind="unknown",
        outcome=outcome,
        reason="unknown",
        next_step="then",
    )


def test_a_cost_that_nobody_paid_says_so() -> None:
    priced = report_all(Notes(), run_started(model_from="script:/s"), ENDED)
    played = report_all(Notes(), run_started(model_from="replay:/s"), RunEnded(outcome="completed", reason="done"))
    assert priced and priced.cost == Cost(kind="not_paid", not_paid_usd=0.5)
    assert played and played.cost == Cost(kind="not_paid")
    assert [(each.cost_usd, each.cost_note) for each in (priced, played)] == [(None, "nothing was paid")] * 2


def test_a_cost_of_which_a_part_is_unknown_says_so() -> None:
    ended = RunEnded(outcome="completed", reason="done", cost_usd=0.5, calls_without_cost=1, model_calls=3)
    result = report_all(Notes(), run_started(), ended)
    assert result and result.cost == Cost(kind="partial", usd=0.5, unknown_calls=1)
    assert result.cost_note == "unknown for 1 of 3 calls"


@pytest.mark.parametrize("method", ["node_start", "node_output", "node_complete", "run_complete"])
def test_a_reporter_that_raises_is_reported_once_and_not_called_again(method: str) -> None:
    notes, faults = Notes(fails_in=method), list[str]()
    result = report_all(SafeReporter(notes, on_fault=faults.append), *STORY, *STORY)
    assert result == RESULT
    (fault,) = faults
    assert fault.startswith("the reporter raised ValueError in ")
    assert fault.endswith(" and is not called again")
    assert "secret words" not in fault
    assert notes.calls == _until(method)


def _until(method: str) -> list[tuple[Any, ...]]:
    notes = Notes()
    report_all(notes, *STORY)
    names = [call[0] for call in notes.calls]
    return notes.calls[: names.index(method)]


def test_a_fault_that_nobody_asked_for_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    report_all(SafeReporter(Notes(fails_in="node_output")), *STORY)
    assert capsys.readouterr().err.count("inspan: the reporter raised ValueError in ") == 1


def test_a_fault_is_no_fault_of_the_run_where_there_is_no_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    assert report_all(SafeReporter(Notes(fails_in="node_start")), *STORY) == RESULT


def test_a_guarded_reporter_gets_every_call() -> None:
    guarded, plain = Notes(), Notes()
    faults: Callable[[str], None] = pytest.fail
    report_all(SafeReporter(guarded, on_fault=faults), *STORY)
    report_all(plain, *STORY)
    assert guarded.calls == plain.calls
