"""Names of runs."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from inspan.protocol.ids import RUN_ID, make_run_id

_AT = datetime(2026, 1, 2, 3, 4, 5, 678_999, tzinfo=UTC)


def test_a_run_id_is_the_moment_to_the_millisecond_and_the_pid() -> None:
    assert make_run_id(at=_AT, pid=42) == "20260102-030405678-42"


def test_a_run_id_is_told_in_utc_wherever_it_is_made() -> None:
    assert make_run_id(at=_AT.astimezone(timezone(timedelta(hours=-11))), pid=42) == "20260102-030405678-42"


@pytest.mark.parametrize(
    ("bump_ms", "expected"),
    [
        (1, "20260102-030405679-42"),
        (321, "20260102-030405999-42"),
        (322, "20260102-030406000-42"),
        (1000, "20260102-030406678-42"),
    ],
)
def test_a_bump_moves_the_millisecond_and_carries(bump_ms: int, expected: str) -> None:
    assert make_run_id(at=_AT, pid=42, bump_ms=bump_ms) == expected


def test_a_bump_carries_into_the_next_year() -> None:
    last = datetime(2026, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    assert make_run_id(at=last, pid=1, bump_ms=1) == "20270101-000000000-1"


def test_ids_sort_by_time_and_match_their_pattern() -> None:
    ids = [make_run_id(at=_AT, pid=7, bump_ms=bump) for bump in range(0, 200_000, 997)]
    assert ids == sorted(ids)
    assert all(RUN_ID.fullmatch(each) for each in ids)
