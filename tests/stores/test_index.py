"""The index is a convenience: it answers quickly, and nothing is lost with it."""

import os
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from inspan.errors import StateUnusable
from inspan.stores import index
from inspan.stores.index import Row


def _row(run_id: str, **changes: object) -> Row:
    row = Row(
        run_id=run_id,
        project="p",
        task="t",
        agent="codex",
        started_at=1.5,
        duration_s=2.5,
        outcome="completed",
        reason="done",
        prompt="do it",
        tokens=7,
        cost_usd=None,
        session_id="s",
    )
    return row._replace(**changes)


_ROWS = [_row(f"20260102-03040500{number}-7", cost_usd=number / 4) for number in range(3)]


def test_there_is_nothing_in_an_index_that_does_not_exist_and_looking_makes_none(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert (index.newest(str(state)), index.starting_with(str(state), "2")) == ([], [])
    assert not state.exists()


def test_rows_come_back_newest_first(tmp_path: Path) -> None:
    index.put(str(tmp_path), _ROWS)
    assert index.newest(str(tmp_path)) == _ROWS[::-1]
    assert index.newest(str(tmp_path), limit=1) == [_ROWS[2]]


def test_a_run_that_is_entered_again_is_replaced(tmp_path: Path) -> None:
    index.put(str(tmp_path), _ROWS)
    changed = _ROWS[1]._replace(outcome="lost")
    index.put(str(tmp_path), [changed])
    assert index.newest(str(tmp_path)) == [_ROWS[2], changed, _ROWS[0]]


def test_a_removed_run_is_gone_and_removing_it_twice_is_no_error(tmp_path: Path) -> None:
    index.put(str(tmp_path), _ROWS)
    for _ in range(2):
        index.remove(str(tmp_path), _ROWS[0].run_id)
    assert index.newest(str(tmp_path)) == [_ROWS[2], _ROWS[1]]


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("20260102-030405001", [_ROWS[1]]),
        (_ROWS[2].run_id, [_ROWS[2]]),
        ("2026", _ROWS[:2]),
        ("", _ROWS[:2]),
        ("2027", []),
        ("%", []),
        ("2026_102", []),
        (_ROWS[2].run_id + "0", []),
    ],
)
def test_a_prefix_finds_two_runs_at_most(tmp_path: Path, prefix: str, expected: list[Row]) -> None:
    index.put(str(tmp_path), _ROWS)
    assert index.starting_with(str(tmp_path), prefix) == expected


def test_a_run_whose_id_begins_another_is_found_first(tmp_path: Path) -> None:
    longer = _row(_ROWS[0].run_id + "1")
    index.put(str(tmp_path), [longer, *_ROWS])
    assert index.starting_with(str(tmp_path), _ROWS[0].run_id) == [_ROWS[0], longer]


def _garbage(path: Path) -> None:
    path.write_bytes(b"this is no database" * 100)


def _cut(path: Path) -> None:
    index.put(str(path.parent), [_row(f"r{number}", prompt="x" * 1000) for number in range(50)])
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    os.truncate(path, 9000)


def _foreign(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE run (a, b)")
        database.execute("PRAGMA user_version = 2")
    database.close()


def _empty(path: Path) -> None:
    path.touch()


@pytest.mark.parametrize("spoil", [_garbage, _cut, _foreign])
def test_a_spoilt_index_is_told_in_a_sentence_that_names_the_way_out(tmp_path: Path, spoil: object) -> None:
    assert callable(spoil)
    spoil(tmp_path / "index.db")
    with pytest.raises(StateUnusable) as caught:
        index.put(str(tmp_path), _ROWS)
        index.newest(str(tmp_path))
    assert str(tmp_path / "index.db") in caught.value.message
    assert "`inspan reindex`" in caught.value.next_step


@pytest.mark.parametrize("spoil", [_garbage, _cut, _foreign, _empty])
def test_a_spoilt_index_is_replaced_whatever_state_it_is_in(tmp_path: Path, spoil: object) -> None:
    assert callable(spoil)
    spoil(tmp_path / "index.db")
    index.replace_all(str(tmp_path), _ROWS)
    assert index.newest(str(tmp_path)) == _ROWS[::-1]


def test_an_index_of_another_version_is_begun_anew(tmp_path: Path) -> None:
    index.put(str(tmp_path), _ROWS)
    with sqlite3.connect(tmp_path / "index.db") as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    index.put(str(tmp_path), _ROWS[:1])
    assert index.newest(str(tmp_path)) == _ROWS[:1]


def test_processes_that_enter_their_first_runs_at_once_lose_none(tmp_path: Path) -> None:
    script = """
import sys
from inspan.stores import index
import sqlite3
print("ready", flush=True)
for state in sys.stdin:
    index.put(state.strip(), [index.Row(sys.argv[1], "p", "t", "a", 0.0, 0.0, "o", "r", "", 0, None, "")])
    print("entered", flush=True)
"""
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(each)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for each in range(4)
    ]
    states = [tmp_path / str(number) for number in range(50)]
    for state in states:
        for writer in writers:
            assert writer.stdout
            writer.stdout.readline()
        for writer in writers:
            assert writer.stdin
            with suppress(BrokenPipeError):
                writer.stdin.write(f"{state}\n".encode())
                writer.stdin.flush()
    for writer in writers:
        with suppress(BrokenPipeError):
            writer.communicate()
    assert [len(index.newest(str(state))) for state in states] == [4] * len(states)
