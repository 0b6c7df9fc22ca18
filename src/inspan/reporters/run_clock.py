"""How long a run has left: its limit counts from its last message on, and not while a person is waited for."""

from inspan.folds.live_state import LiveStateFold
from inspan.protocol.events import MessageSent, MessageStarted
from inspan.protocol.wire import Record

from .text import format_duration

LAST_MINUTE_S = 60.0
_COUNTED = ("starting", "working", "rate_limited", "stuck")


class RunClock:
    """Show it every record in order, each after `state` has seen it."""

    def __init__(self, timeout_s: float | None, state: LiveStateFold) -> None:
        self._timeout_s = timeout_s
        self._state = state
        self._waited_before_s = 0.0
        self.began_at = 0.0

    def add(self, record: Record) -> None:
        """Takes the next record in."""
        if not self.began_at or _begins_turn(record):
            self.began_at, self._waited_before_s = record.at, self._state.waited_s

    @property
    def ends_at(self) -> float | None:
        """When the time is over, if nobody is waited for from now on; `None` without a limit."""
        if self._timeout_s is None:
            return None
        return self.began_at + self._timeout_s + self._state.waited_s - self._waited_before_s


class LastMinute:
    """Says once for each message that a minute is left, to who has no status line. A limit of a minute or less has been
    told by the first lines of the run."""

    def __init__(self, timeout_s: float | None, *, stays_open: bool, prompted: bool) -> None:
        self._timeout_s = timeout_s
        self._state = LiveStateFold(stays_open=stays_open, prompted=prompted)
        self._clock = RunClock(timeout_s, self._state)
        self._warned_of = 0.0

    def add(self, record: Record) -> None:
        """Takes the next record in."""
        self._state.add(record)
        self._clock.add(record)

    def warn(self, now: float) -> str:
        """The sentence, where it is time for it."""
        ends_at, began_at = self._clock.ends_at, self._clock.began_at
        if self._timeout_s is None or ends_at is None or not began_at or self._timeout_s <= LAST_MINUTE_S:
            return ""
        if now < ends_at - LAST_MINUTE_S or self._warned_of == began_at or self._state.state.status not in _COUNTED:
            return ""
        self._warned_of = began_at
        left = format_duration(max(0.0, ends_at - now)) if ends_at - now < LAST_MINUTE_S - 1 else "a minute"
        return f"◷ {left} left: the run is ended after {format_duration(self._timeout_s)} (--timeout)"


def _begins_turn(record: Record) -> bool:
    event = record.event
    if isinstance(event, MessageSent):
        return not (event.queued or event.steers)
    return isinstance(event, MessageStarted)
