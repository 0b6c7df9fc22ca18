"""Why a run ended: each row is a story, and the reason it must be told with."""

from typing import Any

import pytest

from inspan.agents import registry
from inspan.folds.summary import summarize
from inspan.protocol.events import Event, ModelCallEnded, TurnCompleted, TurnFailed, TurnStarted
from inspan.protocol.outcome import Reason
from inspan.protocol.reasons import REASONS
from inspan.protocol.usage import Usage
from inspan.running.verdict import Facts, judge

_DONE: list[Event] = [TurnStarted(), TurnCompleted()]
_SPENT: list[Event] = [TurnStarted(), TurnCompleted(usage=Usage(input=3, output=4))]
_FAILED: list[Event] = [TurnStarted(), TurnFailed(failure="context_too_long", message="too long")]


def _call(**fields: Any) -> ModelCallEnded:
    return ModelCallEnded(call=1, wire="responses", **fields)


def _facts(events: list[Event], **fields: Any) -> Facts:
    usual: dict[str, Any] = {"exit_code": 0, "signal": None, "stderr": ""}
    return Facts(driver=registry.find_driver("codex"), summary=summarize(events), **{**usual, **fields})


_STORIES: list[tuple[str, Facts, tuple[Reason, str]]] = [
    ("a finished turn", _facts(_DONE), ("done", "")),
    ("no turn at all", _facts([]), ("crashed", "Codex exited without finishing its turn")),
    ("an unfinished turn", _facts([TurnStarted()]), ("crashed", "Codex exited without finishing its turn")),
    ("a failed turn", _facts(_FAILED), ("context_too_long", "too long")),
    ("a failed turn and a bad exit", _facts(_FAILED, exit_code=1), ("context_too_long", "too long")),
    ("a failed turn after a retry", _facts([*_FAILED, *_DONE]), ("done", "")),
    ("a failed turn that the gateway saw", _facts(_FAILED, last_call=_call(status=429)), ("rate_limit", "too long")),
    ("a bad exit after a finished turn", _facts(_DONE, exit_code=3), ("crashed", "Codex ended with exit code 3")),
    ("a finished turn, and an exit that nobody saw", _facts(_DONE, exit_code=None), ("done", "")),
    ("an exit that nobody saw", _facts([], exit_code=None), ("crashed", "Codex ended with an unknown exit code")),
    ("a signal", _facts([], exit_code=137, signal=9), ("crashed", "Codex ended with signal 9")),
    (
        "a killed agent that had spoken of other trouble",
        _facts([], exit_code=137, stderr="hit its rate limit\n"),
        ("crashed", "Codex ended with exit code 137: hit its rate limit"),
    ),
    (
        "an agent that was killed at a limit before its first call",
        _facts([], exit_code=137, exhausted="--memory", mismatch="Call 1 of 2 was never asked for."),
        ("environment", "Codex ended with exit code 137 (the run had reached its limit --memory)"),
    ),
    ("a limit that only a tool had reached", _facts(_DONE, exhausted="--pids"), ("done", "")),
    (
        "a script that did not fit, and a limit that only a tool had reached",
        _facts(_DONE, exhausted="--pids", mismatch="Call 2 of 2 was never asked for."),
        ("script", "Call 2 of 2 was never asked for."),
    ),
    (
        "a bad exit with words",
        _facts([], exit_code=1, stderr="first\nerror loading config\n"),
        ("environment", "Codex ended with exit code 1: error loading config"),
    ),
    (
        "a bad exit with words that mean nothing",
        _facts([], exit_code=1, stderr="oh\n\n"),
        ("crashed", "Codex ended with exit code 1: oh"),
    ),
    (
        "a bad exit that the gateway explains",
        _facts([], exit_code=1, stderr="error loading config", last_call=_call(status=401)),
        ("authentication", "Codex ended with exit code 1: error loading config"),
    ),
    ("a refused key", _facts(_FAILED, last_call=_call(status=403)), ("authentication", "too long")),
    ("no such model", _facts(_FAILED, last_call=_call(status=404)), ("model_not_found", "too long")),
    ("a busy provider", _facts(_FAILED, last_call=_call(status=529)), ("overloaded", "too long")),
    ("a cut stream", _facts(_FAILED, last_call=_call(status=200, problem="cut")), ("network", "too long")),
    ("a stall", _facts(_FAILED, last_call=_call(problem="stalled")), ("network", "too long")),
    ("garbage", _facts(_FAILED, last_call=_call(problem="garbage")), ("invalid_response", "too long")),
    ("a last call that was fine", _facts(_FAILED, last_call=_call(status=200)), ("context_too_long", "too long")),
    ("a failed last call of a finished turn", _facts(_DONE, last_call=_call(status=500)), ("done", "")),
    ("a scenario that does not fit", _facts(_DONE, mismatch="a call too many"), ("script", "a call too many")),
    (
        "a finished turn of which the prompt was not read",
        _facts(_DONE, prompt_was_read=False),
        ("crashed", "Codex says that it is done, but never read its prompt"),
    ),
    ("a finished turn of which the prompt was read", _facts(_DONE, prompt_was_read=True), ("done", "")),
    ("an unread prompt, and a failure", _facts(_FAILED, prompt_was_read=False), ("context_too_long", "too long")),
    (
        "tokens, and no call at the gateway",
        _facts(_SPENT, calls_seen=0),
        ("environment", "Codex says that it is done, but its calls bypassed the gateway"),
    ),
    ("tokens, and a call at the gateway", _facts(_SPENT, calls_seen=1), ("done", "")),
    ("tokens, and no gateway", _facts(_SPENT), ("done", "")),
    ("neither tokens nor a call", _facts(_DONE, calls_seen=0), ("done", "")),
    ("tokens elsewhere, and a failure", _facts([*_SPENT, *_FAILED], calls_seen=0), ("context_too_long", "too long")),
    ("our own ending", _facts(_DONE, stop_request=("stopped", "asked to stop")), ("stopped", "asked to stop")),
    (
        "our own ending of a run that also failed",
        _facts(_FAILED, exit_code=143, mismatch="x", stop_request=("run_timeout", "too slow")),
        ("run_timeout", "too slow"),
    ),
]


@pytest.mark.parametrize(("facts", "expected"), [row[1:] for row in _STORIES], ids=[row[0] for row in _STORIES])
def test_the_reason_of(facts: Facts, expected: tuple[Reason, str]) -> None:
    verdict = judge(facts)
    assert (verdict.reason, verdict.message) == expected
    assert verdict.next_step == (verdict.step or REASONS[verdict.reason].next_step)


def test_nothing_is_done_without_a_finished_turn() -> None:
    done = [facts for _, facts, expected in _STORIES if expected[0] == "done"]
    assert [facts.summary.turn_done for facts in done] == [True] * len(done)
    assert {facts.exit_code for facts in done} <= {0, None}


_WANTED = {"done", "interrupted", "stopped", "killed"}
_NOT_YET = {"budget", "guard"}


@pytest.mark.parametrize("reason", sorted(set(REASONS) - _WANTED - _NOT_YET))
def test_every_unwanted_end_comes_with_a_next_step(reason: Reason) -> None:
    assert REASONS[reason].next_step.endswith(".")
