"""Names of runs."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from inspan.protocol.ids import (
    NAME_CHARACTERS,
    RUN_ID,
    begins_run_id,
    find_name_problem,
    make_run_id,
    make_short_name,
)

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


def test_the_short_name_of_an_id_stays_the_same() -> None:
    # People have noted these down.
    ids = ("20260102-030405678-42", "20260102-030405678-43", "20261117-053827712-22461")
    assert [make_short_name(each) for each in ids] == ["vcjt", "hb56", "bpdn"]


def test_short_names_are_typed_without_doubt_and_begin_no_id() -> None:
    names = [make_short_name(make_run_id(at=_AT, pid=7, bump_ms=bump)) for bump in range(0, 500_000, 997)]
    assert {len(name) for name in names} == {4}
    assert set("".join(names)) <= set("bcdfghjkmnpqrstvwxyz23456789")
    assert not any(name[0].isdigit() or begins_run_id(name) for name in names)
    assert len(set(names)) > len(names) - 3


@pytest.mark.parametrize("text", ["", "2", "20260102", "20260102-", "20260102-0304", "20260102-030405678-4"])
def test_what_an_id_may_begin_with_is_known(text: str) -> None:
    assert begins_run_id(text)


@pytest.mark.parametrize("text", ["k3fb", "202601021", "2026-01-02", "20260102-x", "@last", "20260102-0304056789"])
def test_what_no_id_begins_with_is_known(text: str) -> None:
    assert not begins_run_id(text)


@pytest.mark.parametrize("name", ["a", "fix-login", "v1.2_b", "2nd", "2026-11-17", "K3FB", "a" * NAME_CHARACTERS])
def test_a_name_has_letters_digits_and_three_marks(name: str) -> None:
    assert find_name_problem(name) == ""


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "it is empty."),
        ("a" * 300, "it is too long: 300 characters."),
        ("42", "it has only digits."),
        ("20260102-0304", "a run id could begin so."),
        ("20260102-030405678-42", "a run id could begin so."),
        ("@1", "it begins with @."),
        ("--json", "it begins with -."),
        (".hidden", "it begins with .."),
        ("a b", "it contains the character ' '."),
        ("a/b", "it contains the character '/'."),
        ("a\n", "it contains the character '\\n'."),
        ("é", "it contains the character 'é'."),
        ("٣", "it contains the character '٣'."),
    ],
)
def test_what_is_wrong_with_a_name_is_said(name: str, problem: str) -> None:
    assert find_name_problem(name) == problem
