"""What a run came to, from its events alone."""

from inspan.folds.summary import Summary, summarize
from inspan.protocol.events import (
    Event,
    FileChanged,
    ModelCallEnded,
    RateLimited,
    TextSaid,
    ThreadStarted,
    ToolFailed,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from inspan.protocol.usage import Usage
from tests.protocol.examples import ENDED, EXAMPLES, STARTED


def test_a_run_without_events_came_to_nothing() -> None:
    assert vars(summarize([])) == vars(Summary())


def test_every_kind_of_event_can_be_folded() -> None:
    found = summarize(EXAMPLES)
    assert (found.started, found.ended) == (STARTED, ENDED)


def test_tokens_and_cost_of_turns_add_up() -> None:
    turns: list[Event] = [
        TurnStarted(),
        TurnCompleted(usage=Usage(input=1, output=2), cost_usd=0.25),
        TurnStarted(),
        TurnCompleted(usage=Usage(input=10, output=20), cost_usd=0.5),
    ]
    found = summarize(turns)
    assert (found.usage, found.cost_usd) == (Usage(input=11, output=22), 0.75)


def test_a_cost_that_nobody_told_is_unknown_and_not_zero() -> None:
    assert summarize([TurnCompleted(usage=Usage(input=1))]).cost_usd is None
    assert summarize([TurnCompleted(cost_usd=0.0)]).cost_usd == 0.0


def test_the_gateways_count_stands_above_the_agents() -> None:
    calls: list[Event] = [ModelCallEnded(call=number, wire="chat", usage=Usage(input=number)) for number in (1, 2)]
    found = summarize([*calls, ModelCallEnded(call=3, wire="chat"), TurnCompleted(usage=Usage(input=100))])
    assert (found.calls, found.spent) == (3, Usage(input=3))
    assert summarize([TurnCompleted(usage=Usage(input=100))]).spent == Usage(input=100)


def test_the_last_words_are_the_agents_own_and_not_a_subagents() -> None:
    words: list[Event] = [TextSaid(text="first"), TextSaid(text="last"), TextSaid(text="of another", parent="tool_1")]
    assert summarize(words).text == "last"


def test_a_turn_that_starts_again_takes_back_the_failure_and_the_success_before_it() -> None:
    failed = TurnFailed(failure="network", message="cut")
    assert summarize([TurnStarted(), failed]).failure == failed
    assert summarize([TurnStarted(), failed, TurnStarted()]).failure is None
    assert summarize([TurnStarted(), TurnCompleted(), TurnStarted()]).turn_done is False


def test_files_are_listed_once_in_the_order_of_their_first_change() -> None:
    paths = ["b", "a", "b", "c", "a"]
    assert summarize(FileChanged(path=path, change="modified") for path in paths).files_changed == ["b", "a", "c"]


def test_only_denied_tools_are_listed_as_denied() -> None:
    events: list[Event] = [
        ToolFailed(id="1", name="shell"),
        ToolFailed(id="2", name="write", denied=True),
        ToolFailed(id="3", denied=True),
    ]
    assert summarize(events).denied == ["write", "3"]


def test_the_session_is_the_one_that_the_agent_opened_or_else_the_one_that_was_planned() -> None:
    assert summarize([STARTED]).session_id == "s"
    assert summarize([STARTED, ThreadStarted(session_id="")]).session_id == "s"
    assert summarize([STARTED, ThreadStarted(session_id="t")]).session_id == "t"


def test_the_last_rate_limit_is_kept() -> None:
    limits = [RateLimited(message="one"), RateLimited(message="two", resets_at=5.0)]
    assert summarize(limits).rate_limit == limits[1]
