"""The last minute of a run, for who has no status line."""

import pytest

from inspan.protocol.events import Event, MessageSent, PermissionAnswered, PermissionAsked, ThreadStarted, TurnStarted
from inspan.protocol.wire import Record
from inspan.reporters.run_clock import LastMinute

BEGAN = 1000.0


def watch(timeout_s: float | None, *events: tuple[float, Event], stays_open: bool = False) -> LastMinute:
    watched = LastMinute(timeout_s, stays_open=stays_open, prompted=True)
    for at, event in ((BEGAN, ThreadStarted(session_id="s")), (BEGAN, TurnStarted()), *events):
        watched.add(Record(number=1, at=at, event=event))
    return watched


def test_it_is_told_once_a_minute_before() -> None:
    watched = watch(600.0)
    assert watched.warn(BEGAN + 539.9) == ""
    assert watched.warn(BEGAN + 540.2) == "◷ a minute left: the run is ended after 10m00s (--timeout)"
    assert watched.warn(BEGAN + 550.0) == ""


def test_who_comes_late_is_told_what_is_left() -> None:
    assert watch(600.0).warn(BEGAN + 570.0) == "◷ 30.0s left: the run is ended after 10m00s (--timeout)"


@pytest.mark.parametrize("timeout_s", [None, 60.0, 2.0])
def test_a_short_limit_and_none_need_no_warning(timeout_s: float | None) -> None:
    assert [watch(timeout_s).warn(BEGAN + late) for late in (0.0, 1.0, 59.0, 500.0)] == [""] * 4


def test_the_time_that_people_take_does_not_count() -> None:
    asked = (BEGAN + 500, PermissionAsked(id="q", tool="bash", input="ls"))
    assert watch(600.0, asked).warn(BEGAN + 590) == ""
    answered = (BEGAN + 590, PermissionAnswered(id="q", allowed=True, by="person"))
    watched = watch(600.0, asked, answered)
    assert watched.warn(BEGAN + 629) == ""
    assert watched.warn(BEGAN + 631) != ""


def test_each_message_of_a_session_has_its_own_minute() -> None:
    watched = watch(600.0, stays_open=True)
    assert watched.warn(BEGAN + 545) != ""
    watched.add(Record(number=2, at=BEGAN + 560, event=MessageSent(id="m", text="go on")))
    watched.add(Record(number=3, at=BEGAN + 560, event=TurnStarted()))
    assert watched.warn(BEGAN + 600) == ""
    assert watched.warn(BEGAN + 1101) != ""
