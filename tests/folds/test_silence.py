"""What a silent run is stuck on, by its last events alone."""

import pytest

from inspan.folds.silence import SilenceFold
from inspan.protocol.events import Event, TextSaid, ToolCompleted, ToolFailed, ToolOutput, ToolStarted
from inspan.protocol.wire import encode


def _call(identity: str, command: str = "make test", *, name: str = "Bash") -> ToolStarted:
    return ToolStarted(id=identity, name=name, input={"command": command})


def _classify(events: list[Event], *, calls_model: bool | None = None) -> tuple[str, str]:
    fold = SilenceFold(redact=str)
    for event in events:
        fold.add(event)
    found = fold.classify(calls_model=calls_model)
    return found.cause, found.words


_SAME: list[Event] = [each for name in "abc" for each in (_call(name), ToolFailed(id=name))]


@pytest.mark.parametrize(
    ("events", "calls_model", "cause", "words"),
    [
        ([_call("a")], None, "tool_at_work", "while Bash (make test) is at work"),
        (
            [_call("a"), _call("b", "ls"), ToolCompleted(id="b")],
            None,
            "tool_at_work",
            "while Bash (make test) is at work",
        ),
        (
            [_call("a"), ToolOutput(id="a", text="Continue? [y/N] ")],
            None,
            "needs_input",
            "while Bash (make test) waits for",
        ),
        ([_call("a"), ToolOutput(id="a", text="Password:")], None, "needs_input", "while Bash (make test) waits for"),
        ([_call("a"), ToolOutput(id="a", text="12 passed")], None, "tool_at_work", "while Bash (make test) is at work"),
        ([ToolStarted(id="a", name="AskUserQuestion")], None, "needs_input", "while AskUserQuestion waits for input"),
        (_SAME, True, "same_calls", "after 3 same calls of Bash"),
        ([*_SAME, _call("d", "ls"), ToolFailed(id="d")], True, "model_silent", "while the model is waited for"),
        ([], None, "model_silent", "while the model is waited for"),
        (
            [_call("a"), ToolCompleted(id="a")],
            False,
            "agent_silent",
            "with no tool at work and no model call on its way",
        ),
    ],
)
def test_the_first_rule_that_applies_says_what_it_is_stuck_on(
    events: list[Event], calls_model: bool | None, cause: str, words: str
) -> None:
    found = _classify(events, calls_model=calls_model)
    assert found[0] == cause and found[1].startswith(words)


def test_a_turn_that_is_over_has_no_tool_at_work() -> None:
    fold = SilenceFold(redact=str)
    fold.add(_call("a"))
    fold.end_turn()
    assert fold.classify(calls_model=True).cause == "model_silent"


def test_a_secret_is_taken_out_before_a_command_is_cut() -> None:
    fold = SilenceFold(redact=lambda text: text.replace("top-secret", "[REDACTED]"))
    fold.add(_call("a", "x" * 195 + "top-secret"))
    assert "top-" not in fold.classify(calls_model=None).words


def test_the_last_events_are_described_newest_last_and_no_longer_than_allowed() -> None:
    fold = SilenceFold(redact=str, keeps=True)
    for number in range(100):
        fold.add(TextSaid(text=f"{number} " + "x" * 1000))
    lines = fold.describe_events(encode, most=1000).split("\n")
    assert [line.partition('"text":"')[2][:3] for line in lines] == ["97 ", "98 ", "99 "]
    assert sum(map(len, lines)) <= 1000


def test_nothing_is_kept_that_nobody_wants_described() -> None:
    fold = SilenceFold(redact=str)
    fold.add(TextSaid(text="x"))
    assert fold.describe_events(encode, most=1000) == ""
