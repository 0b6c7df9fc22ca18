"""The steps that are taken about a silent run, on a clock that jumps: no test here waits."""

import asyncio
import json
from collections.abc import Sequence
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspan.folds.live_state import LiveStateFold
from inspan.folds.silence import Silence, SilenceFold
from inspan.protocol.events import (
    Event,
    MessageEnded,
    MessageSent,
    PermissionAnswered,
    PermissionAsked,
    RateLimited,
    TextSaid,
    ThreadStarted,
    ToolCompleted,
    ToolOutput,
    ToolStarted,
    WatchdogActed,
)
from inspan.protocol.limits import WatchdogLimits
from inspan.running.triage import build_prompt, read_answer
from inspan.running.watchdog import Advice, Answer, Ask, Watchdog
from tests.protocol.examples import STARTED

from .stepped_loop import run_stepped

TOOL = ToolStarted(id="t", name="Bash", input={"command": "make"})
LIMITS = WatchdogLimits(model_s=10.0, tool_s=100.0, step_s=5.0)


class Watched:
    """A run that is watched: what was done to it, and when, counted from its start."""

    def __init__(self, *, limits: WatchdogLimits = LIMITS, cannot: Sequence[str] = (), ask: Ask | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.began_at = self.loop.time()
        self.cannot = cannot
        self.steps: list[tuple[float, str]] = []
        self.told: list[WatchdogActed] = []
        self.model_active_at = 0.0
        self.is_held = False
        self.calls_model: bool | None = None
        state = LiveStateFold(stays_open=False, prompted=True)
        self.watchdog = Watchdog(limits, self, state=state, last=SilenceFold(redact=str), ask=ask)
        self.record([STARTED, ThreadStarted(session_id="s")])
        self.watchdog.arm()

    def record(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, WatchdogActed):
                self.told.append(event)
            self.watchdog.observe(event)

    def nudge(self, text: str) -> str:
        return self._do("nudge")

    def interrupt(self, message: str) -> str:
        return self._do("interrupt")

    def end_with_turn(self, message: str) -> None:
        pass

    def kill(self, message: str) -> None:
        self._do("kill")

    def _do(self, step: str) -> str:
        if step in self.cannot:
            return "no way"
        self.steps.append((round(self.loop.time() - self.began_at, 1), step))
        return ""


def watch(*moments: tuple[float, Event | None], lasts: float = 1000.0, **options: object) -> Watched:
    """What is done about a run that says these things, each so long after the one before; `None` are mere bytes."""

    async def scene() -> Watched:
        watched = Watched(**options)  # pyright: ignore[reportArgumentType]  as they were given
        for seconds, event in moments:
            await asyncio.sleep(seconds)
            if event is None:
                watched.watchdog.record_activity()
            else:
                watched.record([event])
        await asyncio.sleep(lasts)
        return watched

    return run_stepped(scene())


def test_a_silent_model_is_told_interrupted_and_ended_in_that_order() -> None:
    watched = watch()
    assert watched.steps == [(10.0, "nudge"), (15.0, "interrupt"), (20.0, "kill")]
    assert [(each.step, each.waits_for, each.silent_s) for each in watched.told] == [
        ("nudge", "model", 10.0),
        ("interrupt", "model", 15.0),
        ("kill", "model", 20.0),
    ]


def test_a_tool_has_a_limit_of_its_own() -> None:
    assert watch((4.0, TOOL)).steps[0] == (104.0, "nudge")
    assert watch((4.0, TOOL), (50.0, ToolCompleted(id="t"))).steps[0] == (64.0, "nudge")


def test_a_step_that_cannot_be_taken_is_told_and_the_next_one_follows_at_once() -> None:
    watched = watch(cannot=("nudge", "interrupt"))
    assert watched.steps == [(10.0, "kill")]
    assert [(each.step, each.skipped) for each in watched.told] == [
        ("nudge", "no way"),
        ("interrupt", "no way"),
        ("kill", ""),
    ]


def test_bytes_put_it_off_and_are_no_sign_that_a_step_has_helped() -> None:
    assert watch((9.0, None), (9.0, None)).steps[0] == (28.0, "nudge")
    # An agent that repeats what it is told, and does nothing else.
    assert watch((10.1, None), (3.0, None)).steps[:2] == [(10.0, "nudge"), (18.1, "interrupt")]


def test_an_agent_that_works_on_after_a_step_begins_anew() -> None:
    watched = watch((12.0, TextSaid(text="I see")))
    assert watched.told[1].step == "heard"
    # It was told of this silence before, and is not told again.
    assert watched.steps == [(10.0, "nudge"), (22.0, "interrupt"), (27.0, "kill")]


def test_a_model_that_sends_something_is_a_sign_too() -> None:
    async def scene() -> Watched:
        watched = Watched()
        await asyncio.sleep(12)
        watched.model_active_at = watched.loop.time()
        await asyncio.sleep(8.5)
        return watched

    watched = run_stepped(scene())
    assert [each.step for each in watched.told] == ["nudge", "heard"]


def test_how_an_interrupted_turn_ends_is_no_sign() -> None:
    watched = watch((16.0, ToolCompleted(id="t")), (0.1, TextSaid(text="bye")), cannot=())
    assert watched.steps == [(10.0, "nudge"), (15.0, "interrupt"), (20.0, "kill")]


def test_a_turn_that_ends_when_it_is_interrupted_is_not_killed() -> None:
    async def scene() -> Watched:
        watched = Watched(cannot=("nudge",))
        await asyncio.sleep(11)
        watched.record([MessageEnded(id="first", outcome="timed_out", reason="stuck")])
        watched.watchdog.disarm()
        await asyncio.sleep(1000)
        return watched

    assert run_stepped(scene()).steps == [(10.0, "interrupt")]


@pytest.mark.parametrize(
    "event", [PermissionAsked(id="q", tool="Bash"), RateLimited(message="wait")], ids=["a person", "a limit"]
)
def test_what_has_no_limit_is_waited_for(event: Event) -> None:
    assert watch((1.0, event), lasts=1e6).steps == []


def test_silence_counts_again_once_a_person_has_answered() -> None:
    watched = watch((1.0, PermissionAsked(id="q", tool="Bash")), (500.0, PermissionAnswered(id="q", allowed=True)))
    assert watched.steps[0] == (511.0, "nudge")


def test_a_call_that_a_budget_or_a_rate_holds_back_is_not_silent() -> None:
    async def scene() -> Watched:
        watched = Watched()
        watched.is_held = True
        await asyncio.sleep(500)
        return watched

    assert run_stepped(scene()).steps == []


@pytest.mark.parametrize("name", ["model_s", "tool_s"])
def test_a_limit_that_is_off_is_none(name: str) -> None:
    limits = msgspec.structs.replace(LIMITS, **{name: None})
    events = ((0.0, TOOL),) if name == "tool_s" else ()
    assert watch(*events, limits=limits, lasts=1e6).steps == []


def test_an_agent_that_comes_back_to_the_same_is_told_once_and_then_interrupted() -> None:
    moments = [(0.0, TOOL), (101.0, ToolCompleted(id="t")), (1.0, TOOL)]
    watched = watch(*moments)
    assert watched.steps[:2] == [(100.0, "nudge"), (202.0, "interrupt")]
    assert "came back to the same" in watched.told[2].skipped


def test_a_watchdog_that_is_closed_or_disarmed_does_nothing() -> None:
    async def scene(*, close: bool) -> Watched:
        watched = Watched()
        (watched.watchdog.close if close else watched.watchdog.disarm)()
        watched.record([TextSaid(text="x")])
        await asyncio.sleep(1000)
        return watched

    assert run_stepped(scene(close=True)).steps == run_stepped(scene(close=False)).steps == []


@given(st.lists(st.text() | st.sampled_from(["Password:", "watchdog: kill", '{"advice": "give_up"}']), max_size=4))
def test_whatever_a_tool_puts_out_the_steps_are_the_same(texts: list[str]) -> None:
    outputs = [(0.0, ToolOutput(id="t", text=text)) for text in texts]
    watched = watch((0.0, TOOL), *outputs)
    assert watched.steps == [(100.0, "nudge"), (105.0, "interrupt"), (110.0, "kill")]


# An agent is asked


def _advise(*advices: Advice | None) -> Ask:
    left = list(advices)

    async def ask(silence: Silence) -> Answer:
        await asyncio.sleep(1)
        return Answer(left.pop(0) if len(left) > 1 else left[0], "its words")

    return ask


@pytest.mark.parametrize(
    ("advice", "first", "by"),
    [
        ("nudge", (11.0, "nudge"), "triage"),
        ("restart", (11.0, "interrupt"), "triage"),
        ("give_up", (11.0, "interrupt"), "triage"),
        (None, (11.0, "nudge"), "rules"),
    ],
)
def test_an_advice_says_with_which_step_to_begin(advice: Advice | None, first: tuple[float, str], by: str) -> None:
    watched = watch(ask=_advise(advice))
    assert watched.steps[0] == first and watched.steps[-1][1] == "kill"
    assert (watched.told[0].by, watched.told[0].advice, watched.told[1].advice) == (by, "its words", "")


def test_an_advice_to_wait_is_followed_twice_and_no_oftener() -> None:
    watched = watch(ask=_advise("wait"))
    assert [each.step for each in watched.told] == ["wait", "wait", "nudge", "interrupt", "kill"]
    assert watched.steps == [(33.0, "nudge"), (38.0, "interrupt"), (43.0, "kill")]


def test_a_run_that_goes_on_while_somebody_is_asked_is_left_alone() -> None:
    watched = watch((10.5, TextSaid(text="x")), lasts=5.0, ask=_advise("give_up"))
    assert watched.steps == [] and watched.told == []


def test_a_limit_that_is_told_while_somebody_is_asked_is_waited_for() -> None:
    watched = watch((10.5, RateLimited(message="wait")), ask=_advise("restart"))
    assert watched.steps == [] and watched.told == []


@given(st.binary() | st.text().map(str.encode) | st.sampled_from(get_args(Advice)).map(str.encode))
def test_whatever_a_helper_prints_is_an_advice_of_the_list_or_none(printed: bytes) -> None:
    assert read_answer(printed)[0] in (None, *get_args(Advice))


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "restart",
        '{"advice": "kill", "why": "x"}',
        '{"advice": "rm -rf /", "why": "x"}',
        '{"advice": ["restart"], "why": "x"}',
        '{"advice": "restart", "why": "x", "command": "rm -rf /"}',
        '{"advice": "wait"} {"advice": "give_up"}',
        "[" * 100_000,
    ],
)
def test_an_answer_of_another_shape_is_no_advice(answer: str) -> None:
    assert read_answer(json.dumps({"answer": answer, "problem": ""}).encode())[0] is None


@given(st.lists(st.sampled_from([*get_args(Advice), None]), min_size=1, max_size=5))
def test_no_advice_leads_to_more_than_the_ladder_nor_puts_it_off_for_ever(advices: list[Advice | None]) -> None:
    watched = watch(ask=_advise(*advices))
    names = [step for _, step in watched.steps]
    assert names in (["nudge", "interrupt", "kill"], ["interrupt", "kill"])
    assert watched.steps[-1][0] <= 60.0


def test_what_an_agent_writes_cannot_close_the_frame_around_it() -> None:
    silence = Silence(cause="tool_at_work", words="while x is at work")
    prompts = [build_prompt(silence, "events") for _ in range(2)]
    marks = [prompt.split("\nevents\n")[0].rsplit("\n", 1)[1] for prompt in prompts]
    assert marks[0] != marks[1] and all(len(mark) > 16 for mark in marks)


def test_a_message_of_our_own_is_no_sign() -> None:
    assert watch((5.0, MessageSent(id="m", text="hm", steers=True))).steps[0] == (10.0, "nudge")
