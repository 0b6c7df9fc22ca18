"""Where a loop stands, by its log alone: whoever reads it knows what it was about to do."""

import msgspec

from inspan.protocol.events import (
    AttemptEnded,
    AttemptStarted,
    CheckEnded,
    CheckStarted,
    RunEnded,
    RunStarted,
    VerdictGiven,
    VerifierStarted,
    WaitStarted,
)
from inspan.protocol.ids import make_short_name
from inspan.protocol.wire import Record

from .live_state import LiveState


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a loop's agent, and what was found of it afterwards. `wait` is what the loop does before the next, for
    as long as `wait_s`; `verifier` is asked and has not answered."""

    started: AttemptStarted
    ended: AttemptEnded | None = None
    ended_at: float = 0.0
    checking: str = ""
    checks: tuple[CheckEnded, ...] = ()
    verifier: VerifierStarted | None = None
    verdicts: tuple[VerdictGiven, ...] = ()
    verdict_at: float = 0.0
    wait: WaitStarted | None = None
    wait_s: float = 0.0

    @property
    def failed_check(self) -> CheckEnded | None:
        """The check that it did not pass; no other is run after that."""
        return self.checks[-1] if self.checks and not self.checks[-1].passed else None

    @property
    def verdict(self) -> VerdictGiven | None:
        """What was said last of whether the task is done."""
        return self.verdicts[-1] if self.verdicts else None


class LoopState(msgspec.Struct, frozen=True, kw_only=True):
    """All attempts so far, and for how long loops were at it; those of a loop that this one continues are counted, of
    which there are so many `inherited` attempts."""

    attempts: tuple[Attempt, ...] = ()
    inherited: int = 0
    active_s: float = 0.0
    ended: RunEnded | None = None

    @property
    def last(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None


class LoopFold:
    """Feed it every record in order, those of a continued loop first."""

    def __init__(self) -> None:
        self._attempts: list[Attempt] = []
        self._inherited = 0
        self._before_s = 0.0
        self._began_at = 0.0
        self._heard_at = 0.0
        self._ended: RunEnded | None = None

    @property
    def state(self) -> LoopState:
        active_s = self._before_s + max(0.0, self._heard_at - self._began_at)
        attempts, inherited = tuple(self._attempts), self._inherited
        return LoopState(attempts=attempts, inherited=inherited, active_s=active_s, ended=self._ended)

    def add(self, record: Record) -> None:
        event = record.event
        if isinstance(event, RunStarted):
            self._before_s, self._began_at, self._ended = self.state.active_s, record.at, None
            self._inherited = len(self._attempts)
        self._heard_at = find_heard_at(record, began_at=self._began_at, before=self._heard_at)
        if isinstance(event, AttemptStarted):
            self._attempts.append(Attempt(started=event))
        elif isinstance(event, RunEnded):
            self._ended = event
        elif self._attempts:
            self._attempts[-1] = _add_to_attempt(self._attempts[-1], record)


def find_heard_at(record: Record, *, began_at: float, before: float) -> float:
    """Until when the process was there: whoever found that it had died, perhaps days later, has written how long."""
    event = record.event
    if isinstance(event, RunEnded) and event.outcome == "lost":
        return max(before, began_at + event.duration_s)
    return record.at


class LoopLiveFold:
    """What a living loop is doing, as `LiveStateFold` tells it of a run."""

    def __init__(self) -> None:
        self._loop = LoopFold()
        self._since = 0.0

    def add(self, record: Record) -> None:
        self._loop.add(record)
        self._since = record.at

    @property
    def state(self) -> LiveState:
        last = self._loop.state.last
        if last is None:
            return LiveState(status="starting", since=self._since)
        waits = last.wait is not None and last.wait.until > self._since
        limited = waits and _is_limited(last)
        return LiveState(
            status="rate_limited" if limited else "working",
            subject=_describe_work(last),
            since=self._since,
            resets_at=last.wait.until if limited and last.wait else None,
        )


def _is_limited(last: Attempt) -> bool:
    """Whether it was a limit that ended the run before a wait: the verifier's, where that was asked."""
    ended = last.verdict or last.ended
    return ended is not None and ended.reason == "rate_limit"


def _describe_work(last: Attempt) -> str:
    number = last.started.attempt
    if last.ended is None:
        return f"attempt {number}, run {make_short_name(last.started.run_id)}"
    if last.checking:
        return f"attempt {number}, check {last.checking}"
    if last.verifier:
        return f"attempt {number}, {last.verifier.agent} verifies"
    return f"waits after attempt {number}" if last.wait else f"attempt {number}"


def _add_to_attempt(attempt: Attempt, record: Record) -> Attempt:
    match record.event:
        case AttemptEnded() as event:
            return msgspec.structs.replace(attempt, ended=event, ended_at=record.at)
        case CheckStarted() as event:
            return msgspec.structs.replace(attempt, checking=event.check)
        case CheckEnded() as event:
            return msgspec.structs.replace(attempt, checking="", checks=(*attempt.checks, event))
        case VerifierStarted() as event:
            return msgspec.structs.replace(attempt, verifier=event, wait=None)
        case VerdictGiven() as event:
            verdicts = (*attempt.verdicts, event)
            return msgspec.structs.replace(attempt, verifier=None, verdicts=verdicts, verdict_at=record.at)
        case WaitStarted() as event:
            return msgspec.structs.replace(attempt, wait=event, wait_s=max(0.0, event.until - record.at))
        case _:
            return attempt
