"""Watches for silence: a run that says nothing for longer than it may is told so, interrupted and at last ended.

Time is that of the event loop, which nobody sets. Loaded only where a run is watched.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple, Protocol

from inspan.folds.live_state import LiveStateFold
from inspan.folds.silence import Silence, SilenceFold
from inspan.protocol.events import (
    EndingBegan,
    ErrorReported,
    Event,
    MessageEnded,
    MessageSent,
    MessageStarted,
    RateLimited,
    RunEnded,
    TurnInterrupted,
    Unrecognized,
    WatchdogActed,
)
from inspan.protocol.limits import WatchdogLimits
from inspan.protocol.outcome import WatchdogStep
from inspan.protocol.session import WaitsFor
from inspan.protocol.wire import Record

_LADDER: tuple[WatchdogStep, ...] = ("nudge", "interrupt", "kill")
# Of these none shows that the agent works on: some are our own, others an agent sends whatever it does.
_NO_SIGNS = (
    *(WatchdogActed, EndingBegan, ErrorReported, MessageEnded, MessageSent, MessageStarted),
    *(RateLimited, RunEnded, TurnInterrupted, Unrecognized),
)
# For one message. Some agents leave what they are told to leave, and begin the same again.
_MOST_NUDGES = 3
# An agent that was asked may put it off this often for one message, whatever it was shown.
_MOST_WAITS = 2
_TICK_S = 0.001  # Timers of the loop may come this much too early.

Advice = Literal["wait", "nudge", "restart", "give_up"]
# What follows from an advice: no word of an agent leads to more than the ladder does by itself.
_FIRST_STEPS: dict[Advice, WatchdogStep] = {"nudge": "nudge", "restart": "interrupt", "give_up": "interrupt"}


class Answer(NamedTuple):
    """What an agent that was asked advises, or nothing of use; `words` are its own, or say what was wrong."""

    advice: Advice | None
    words: str


Ask = Callable[[Silence], Awaitable[Answer]]


class WatchdogHost(Protocol):
    """What a watchdog needs of the run that it watches."""

    def record(self, events: list[Event]) -> None: ...

    def nudge(self, text: str) -> str:
        """Says something into the running turn; gives why that cannot be."""
        ...

    def interrupt(self, message: str) -> str:
        """Ends the running turn; gives why that cannot be."""
        ...

    def end_with_turn(self, message: str) -> None:
        """The turn was interrupted: a run that has no other ends with it."""
        ...

    def kill(self, message: str) -> None:
        """Ends the run."""
        ...

    @property
    def model_active_at(self) -> float:
        """When the model was last heard of."""
        ...

    @property
    def is_held(self) -> bool:
        """Whether a model call waits for a limit."""
        ...

    @property
    def calls_model(self) -> bool | None: ...


class Watchdog:
    """Hears of every event and of every byte of a run; while it is armed, silence counts.

    `ask` asks an agent what to do, given the rules' own finding; it never raises.
    """

    def __init__(
        self,
        limits: WatchdogLimits,
        host: WatchdogHost,
        *,
        state: LiveStateFold,
        last: SilenceFold,
        ask: Ask | None = None,
    ) -> None:
        self._limits = limits
        self._host = host
        self._state = state
        self._last = last
        self._ask = ask
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._asking: asyncio.Task[None] | None = None
        self._armed = False
        self._closed = False
        self._waits_for: WaitsFor = ""
        self._active_at = self._sign_at = self._stepped_at = self._fell_silent_at = self._loop.time()
        # The place of the next step; 0 while the run is not known to be stuck.
        self._next = 0
        self._interrupted = False
        self._nudged: list[Silence] = []
        self._waits = 0

    def observe(self, event: Event) -> None:
        """Takes in what has happened, after it was recorded."""
        self._state.add(Record(0, self._loop.time(), event))
        self._last.add(event)
        if isinstance(event, MessageEnded):
            self._last.end_turn()
        if not isinstance(event, _NO_SIGNS):
            self._active_at = self._sign_at = self._loop.time()
            self._note_sign()
        if self._state.waits_for != self._waits_for:
            self._waits_for = self._state.waits_for
            self._count()

    def record_activity(self) -> None:
        """Something came from the agent, whatever it was."""
        self._active_at = self._loop.time()

    def arm(self) -> None:
        """Silence counts from now on."""
        self._armed = True
        self._active_at = self._sign_at = self._loop.time()
        self._next, self._interrupted = 0, False
        self._count()

    def begin_message(self) -> None:
        """What was done about the message before it does not count any more."""
        self._nudged.clear()
        self._waits = 0
        self.arm()

    def disarm(self) -> None:
        """Nothing is waited for but a person, or nothing at all."""
        self._armed = False
        self._cancel_timer()
        if self._asking:
            self._asking.cancel()
            self._asking = None

    def close(self) -> None:
        """The run ends: no other step is taken."""
        self._closed = True
        self.disarm()

    def _count(self) -> None:
        """Sets the timer for when the next step is due, as far as is known now."""
        self._cancel_timer()
        if self._armed and not self._closed and not self._asking and (due_at := self._due_at) is not None:
            self._timer = self._loop.call_later(max(0.0, due_at - self._loop.time()), self._look)

    def _look(self) -> None:
        """Acts where it is time to; what came since the timer was set puts it off."""
        self._timer = None
        if self._host.is_held:
            self._active_at = self._loop.time()  # A limit is waited for, however long it takes.
        if self._next and self._host.model_active_at > max(self._sign_at, self._stepped_at):
            self._sign_at = self._host.model_active_at
            self._note_sign()
        due_at = self._due_at
        if due_at is None or due_at - self._loop.time() > _TICK_S:
            self._count()
        else:
            self._act()

    def _act(self) -> None:
        silence = self._last.classify(calls_model=self._host.calls_model)
        if not self._next:
            self._fell_silent_at = self._silent_since
        if self._next or not self._ask:
            self._climb(silence)
            return
        self._asking = self._loop.create_task(self._ask_first(self._ask, silence))

    async def _ask_first(self, ask: Ask, silence: Silence) -> None:
        answer = await ask(silence)
        self._asking = None
        if self._silent_since > self._fell_silent_at or self._due_at is None or self._host.is_held:
            self._count()  # It went on meanwhile, or waits for what has no limit.
        elif answer.advice == "wait" and self._waits < _MOST_WAITS:
            self._waits += 1
            self._tell("wait", silence, by="triage", advice=answer.words)
            self._active_at = self._loop.time()
            self._count()
        else:
            step = _FIRST_STEPS.get(answer.advice) if answer.advice else None
            self._next = _LADDER.index(step) if step else 0
            self._climb(silence, by="triage" if step else "rules", advice=answer.words)

    def _climb(self, silence: Silence, *, by: Literal["rules", "triage"] = "rules", advice: str = "") -> None:
        """Takes the next step, and those behind it where one cannot be taken."""
        message = self._describe(silence)
        while True:
            step = _LADDER[self._next]
            self._next += 1
            self._stepped_at = self._loop.time()
            skipped = self._take(step, silence, message)
            self._tell(step, silence, skipped=skipped, by=by, advice=advice)
            advice = ""  # It is told once.
            if not skipped:
                break
        self._interrupted, self._closed = step == "interrupt", step == "kill"
        if self._closed:
            self._host.kill(message)
        elif self._interrupted:
            self._host.end_with_turn(message)
        self._count()

    def _take(self, step: WatchdogStep, silence: Silence, message: str) -> str:
        """Takes a step that may help; gives why it cannot be taken."""
        if step != "nudge":
            return self._host.interrupt(message) if step == "interrupt" else ""
        if silence in self._nudged:
            return "it was told so before, and came back to the same"
        if len(self._nudged) >= _MOST_NUDGES:
            return f"it was told so {_MOST_NUDGES} times already"
        self._nudged.append(silence)
        return self._host.nudge(f"{message}. If you can, end what you wait for, and go on in another way.")

    def _tell(
        self,
        step: WatchdogStep,
        silence: Silence,
        *,
        skipped: str = "",
        by: Literal["rules", "triage"] = "rules",
        advice: str = "",
    ) -> None:
        told = WatchdogActed(
            step=step,
            cause=silence.cause,
            message=self._describe(silence),
            waits_for=self._state.waits_for,
            silent_s=round(self._silent_s, 3),
            skipped=skipped,
            by=by,
            advice=advice,
        )
        self._host.record([told])

    def _note_sign(self) -> None:
        """The agent works on: the next silence begins anew. How it ends a turn that was interrupted is no such sign."""
        if not self._next or self._interrupted or self._closed:
            return
        silence = self._last.classify(calls_model=self._host.calls_model)
        self._next = 0
        self._host.record([WatchdogActed(step="heard", cause=silence.cause, waits_for=self._state.waits_for)])
        self._count()

    def _describe(self, silence: Silence) -> str:
        return f"Nothing was heard for {self._silent_s:.3g} s, {silence.words}"

    @property
    def _due_at(self) -> float | None:
        """When the next step is to be taken if nothing else comes; `None` where what is waited for has no limit."""
        if self._interrupted:
            return self._stepped_at + self._limits.step_s
        waits_for = self._state.waits_for
        if waits_for in ("person", "limit"):
            return None
        if self._next:
            return max(self._silent_since, self._stepped_at) + self._limits.step_s
        limit_s = self._limits.tool_s if waits_for == "tool" else self._limits.model_s
        return None if limit_s is None else self._silent_since + limit_s

    @property
    def _silent_since(self) -> float:
        return max(self._active_at, self._host.model_active_at)

    @property
    def _silent_s(self) -> float:
        return self._loop.time() - self._fell_silent_at

    def _cancel_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
