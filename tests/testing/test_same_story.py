"""Two channels of an agent tell one story, but for what a table names."""

from typing import Any

import pytest

from inspan.agents.registry import load_drivers
from inspan.contracts.driver import Driver
from inspan.testing.channel_comparison import COMPARED, find_differences, format_table, normalize_events

_USUAL: list[dict[str, Any]] = [
    {"kind": "run_started", "run_id": "1"},
    {"kind": "text_said", "text": "Looking."},
    {"kind": "tool_started", "id": "a", "name": "write", "input": {"path": "x"}},
    {"kind": "tool_completed", "id": "a", "name": "write", "output": "done"},
    {"kind": "file_changed", "id": "a", "path": "/x", "change": "added"},
    {"kind": "turn_completed", "usage": {"input": 3}},
    {"kind": "run_ended", "outcome": "completed", "reason": "done", "duration_s": 1.0},
]
# The same, as another channel tells it: other ids, other order within a call, and more on the way.
_OTHER: list[dict[str, Any]] = [
    {"kind": "text_said", "text": "Looking."},
    {"kind": "tool_started", "id": "b", "name": "write", "input": {"path": "x"}},
    {"kind": "permission_asked", "id": "b", "tool": "write"},
    {"kind": "file_changed", "id": "b", "path": "/x", "change": "added"},
    {"kind": "tool_completed", "id": "b", "name": "write", "output": "done"},
    {"kind": "turn_completed", "usage": {"input": 3}},
    {"kind": "run_ended", "outcome": "completed", "reason": "done", "duration_s": 9.0},
]


def _change_event(place: int, **fields: Any) -> list[dict[str, Any]]:
    return [{**event, **fields} if number == place else event for number, event in enumerate(_OTHER)]


def test_ids_and_the_order_within_a_call_make_no_difference() -> None:
    assert list(find_differences(_USUAL, _OTHER)) == []
    assert normalize_events(_USUAL) == normalize_events(_OTHER)


@pytest.mark.parametrize(
    ("place", "fields", "told"),
    [
        (0, {"text": "Waiting."}, "text_said.text: 'Looking.' and 'Waiting.'"),
        (3, {"change": "modified"}, "file_changed.change: 'added' and 'modified'"),
        (5, {"usage": {"input": 4}}, "turn_completed.usage: {'input': 3} and {'input': 4}"),
    ],
)
def test_another_word_is_a_difference_unless_the_table_names_it(place: int, fields: dict[str, Any], told: str) -> None:
    other = _change_event(place, **fields)
    assert list(find_differences(_USUAL, other)) == [told]
    assert list(find_differences(_USUAL, other, known_differences={told.partition(":")[0]})) == []


def test_a_story_that_lacks_an_event_is_another_one() -> None:
    shorter = [event for event in _OTHER if event["kind"] != "tool_completed"]
    (line,) = find_differences(_USUAL, shorter)
    assert "tool_completed" in line
    assert list(find_differences(_USUAL, shorter, known_differences={"tool_completed"})) == []


def test_a_story_that_ends_early_is_another_one() -> None:
    (line,) = find_differences(_USUAL, _OTHER[:-1])
    assert line.endswith("and then {'kind': 'nothing'}")


def test_the_table_has_a_row_for_every_difference() -> None:
    rows = format_table(load_drivers()).splitlines()[2:]
    known = [
        why
        for driver in load_drivers()
        for channel in driver.channels[1:]
        for why in channel.event_differences.values()
    ]
    assert len(rows) == len(known) > 10


@pytest.mark.parametrize(
    "driver", [each for each in load_drivers() if len(each.channels) > 1], ids=lambda each: each.name
)
def test_a_table_names_events_and_fields_that_there_are(driver: Driver) -> None:
    for channel in driver.channels[1:]:
        for what in channel.event_differences:
            kind, _, field = what.partition(".")
            assert kind in COMPARED
            assert not field or field in COMPARED[kind]
