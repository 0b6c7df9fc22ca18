"""A result says what a run came to: in figures, in words, and in errors that were not raised."""

import json

import msgspec
import pytest

from inspan import AgentResult, Cost, Event, RunEnded, Task, Usage
from inspan.api.result import RateLimit, build_result, merge_results
from inspan.errors import AgentEnvironmentError, RateLimitError, ToolPermissionError
from inspan.folds.summary import DeniedCall, summarize
from inspan.protocol.events import FileChanged, RateLimited, TextSaid, ToolFailed, ToolStarted
from inspan.protocol.ids import RunId
from inspan.stores.run_folder import RunFolder

_DENIED = DeniedCall(id="1", name="Bash", input={"command": "rm"}, message="not allowed")
_FOLDER = RunFolder(run_id=RunId("r-1"), path="/runs/r-1")
_TASK = Task(prompt="x", cwd="/", agent="anyone")


def test_everything_that_a_log_tells_is_in_the_result() -> None:
    events: list[Event] = [
        ToolStarted(id="1", name="Bash", input={"command": "rm"}),
        ToolFailed(id="1", name="Bash", output="not allowed", denied=True),
        FileChanged(path="/a", change="added"),
        RateLimited(message="slow down", resets_at=5.0),
        TextSaid(text="Done."),
        RunEnded(
            outcome="completed",
            reason="done",
            exit_code=0,
            duration_s=1.5,
            session_id="s-1",
            usage=Usage(input=1, output=2, cache_read=3, cache_write=4, reasoning=1),
            cost_usd=0.0123,
            model_calls=2,
            files_changed=["/a"],
            resets_at=5.0,
            denied=["Bash"],
        ),
    ]
    assert build_result(_FOLDER, _TASK, summarize(events)) == AgentResult(
        run_id="r-1",
        agent="anyone",
        outcome="completed",
        reason="done",
        message="Done.",
        tokens_used=Usage(input=1, output=2, cache_read=3, cache_write=4, reasoning=1),
        cost_cents=1.23,
        cost=Cost(kind="paid", usd=0.0123),
        rate_limit_hit=RateLimit(reason="slow down", resets_at=5.0),
        session_id="s-1",
        files_changed=("/a",),
        denied=(_DENIED,),
        exit_code=0,
        model_calls=2,
        duration_s=1.5,
        folder="/runs/r-1",
        attempts=("r-1",),
    )


def test_a_log_without_an_end_is_a_lost_run_and_a_cost_that_nobody_told_is_none() -> None:
    result = build_result(_FOLDER, _TASK, summarize([TextSaid(text="so far")]))
    assert (result.outcome, result.reason, result.ok, result.message) == ("lost", "supervisor_lost", False, "so far")
    assert (result.cost_cents, result.tokens_used, result.rate_limit_hit) == (None, Usage(), None)


@pytest.mark.parametrize(("cost_usd", "cents"), [(None, None), (0.0, 0.0), (0.1 + 0.2, 30.0), (1e-9, 1e-7)])
def test_cents_are_as_exact_as_what_was_reported(cost_usd: float | None, cents: float | None) -> None:
    ended = RunEnded(outcome="completed", reason="done", cost_usd=cost_usd)
    assert build_result(_FOLDER, _TASK, summarize([ended])).cost_cents == cents


def test_a_rate_limit_is_told_even_where_only_the_end_of_the_run_names_it() -> None:
    ended = RunEnded(outcome="limited", reason="rate_limit", message="usage limit reached", resets_at=7.0)
    result = build_result(_FOLDER, _TASK, summarize([ended]))
    assert result.rate_limit_hit == RateLimit(reason="usage limit reached", resets_at=7.0)


def test_attempts_at_one_answer_are_counted_together() -> None:
    earlier = AgentResult(
        run_id="r-1",
        agent="anyone",
        outcome="failed",
        reason="unfit_answer",
        tokens_used=Usage(input=1, output=2),
        cost_cents=0.1,
        cost=Cost(kind="paid", usd=0.001),
        rate_limit_hit=RateLimit(reason="slow down"),
        files_changed=("/a", "/b"),
        denied=(_DENIED,),
        model_calls=1,
        duration_s=1.1,
        attempts=("r-1",),
    )
    later = AgentResult(
        run_id="r-2",
        agent="anyone",
        outcome="completed",
        reason="done",
        message="7",
        answer=7,
        tokens_used=Usage(input=10, reasoning=1),
        cost_cents=0.2,
        cost=Cost(kind="paid", usd=0.002),
        files_changed=("/b", "/c"),
        model_calls=2,
        duration_s=2.2,
        attempts=("r-2",),
    )
    assert merge_results(earlier, later) == msgspec.structs.replace(
        later,
        tokens_used=Usage(input=11, output=2, reasoning=1),
        cost_cents=0.3,
        cost=Cost(kind="paid", usd=0.003),
        rate_limit_hit=RateLimit(reason="slow down"),
        files_changed=("/a", "/b", "/c"),
        denied=(_DENIED,),
        model_calls=3,
        duration_s=3.3,
        attempts=("r-1", "r-2"),
    )
    free = msgspec.structs.replace(later, cost_cents=None, cost=Cost(kind="unknown", unknown_runs=1))
    both = merge_results(earlier, free)
    assert (both.cost_cents, both.cost) == (0.1, Cost(kind="partial", usd=0.001, unknown_runs=1))
    assert merge_results(free, free).cost_cents is None


def test_a_result_can_be_sent_as_json() -> None:
    result = AgentResult(run_id="r-1", agent="anyone", outcome="completed", reason="done", denied=(_DENIED,))
    sent = msgspec.json.encode(result)
    assert json.loads(sent)["cost_cents"] is None
    assert msgspec.json.decode(sent, type=AgentResult) == result


def test_a_run_that_completed_has_no_errors_and_gives_itself_when_checked() -> None:
    result = AgentResult(run_id="r-1", agent="anyone", outcome="completed", reason="done")
    assert (result.ok, result.status, result.errors) == (True, "success", ())
    assert result.check() is result


def test_a_failure_without_words_still_has_a_sentence() -> None:
    result = AgentResult(run_id="r-1", agent="anyone", outcome="failed", reason="crashed")
    (error,) = result.errors
    assert (error.message, error.came_back) == ("The run ended failed (crashed).", "failed (crashed)")


def test_a_rate_limit_says_until_when() -> None:
    limit = RateLimit(reason="slow down", resets_at=5.0)
    result = AgentResult(run_id="r-1", agent="anyone", outcome="limited", reason="rate_limit", rate_limit_hit=limit)
    (error,) = result.errors
    assert isinstance(error, RateLimitError)
    assert (error.resets_at, error.retry_helps) == (5.0, True)


def test_denied_calls_are_an_error_of_a_run_that_went_well_too() -> None:
    result = AgentResult(
        run_id="r-1", agent="anyone", outcome="completed", reason="done", denied=(_DENIED, DeniedCall(id="tool-2"))
    )
    (error,) = result.errors
    assert isinstance(error, ToolPermissionError)
    assert (error.denied, error.message, error.came_back, error.reason) == (
        result.denied,
        "Tool calls that were denied: 2 (Bash, tool-2).",
        "not allowed",
        "tool_permission",
    )
    assert result.check() is result


def test_a_run_that_failed_for_a_denied_tool_has_one_error_with_the_calls() -> None:
    result = AgentResult(run_id="r-1", agent="anyone", outcome="failed", reason="tool_permission", denied=(_DENIED,))
    (error,) = result.errors
    assert isinstance(error, ToolPermissionError)
    assert error.denied == (_DENIED,)


def test_a_run_that_failed_after_denied_calls_has_both_errors() -> None:
    result = AgentResult(run_id="r-1", agent="anyone", outcome="failed", reason="crashed", denied=(_DENIED,))
    assert [type(error) for error in result.errors] == [AgentEnvironmentError, ToolPermissionError]
