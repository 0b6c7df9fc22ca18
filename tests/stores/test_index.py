"""The index is a convenience: it answers quickly, and nothing is lost with it."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from inspan.errors import StateUnusable
from inspan.protocol.usage import Usage
from inspan.stores import index
from inspan.stores.index import Entry, Row


def _entry(run_id: str, **changes: object) -> Entry:
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
    return Entry(row=row._replace(**changes), model="m", usage=Usage(input=3, output=4, cache_read=5, reasoning=1))


_ENTRIES = [_entry(f"20260102-03040500{number}-7", cost_usd=number / 4) for number in range(3)]
_ROWS = [entry.row for entry in _ENTRIES]


def test_there_is_nothing_in_an_index_that_does_not_exist_and_looking_makes_none(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert (index.list_newest(str(state)), index.find_by_prefix(str(state), "2")) == ([], [])
    assert not state.exists()


def test_rows_come_back_newest_first(tmp_path: Path) -> None:
    index.put(str(tmp_path), _ENTRIES)
    assert index.list_newest(str(tmp_path)) == _ROWS[::-1]
    assert index.list_newest(str(tmp_path), limit=1) == [_ROWS[2]]


def test_a_run_that_is_entered_again_is_replaced(tmp_path: Path) -> None:
    index.put(str(tmp_path), _ENTRIES)
    changed = _entry(_ROWS[1].run_id, outcome="lost")
    index.put(str(tmp_path), [changed])
    assert index.list_newest(str(tmp_path)) == [_ROWS[2], changed.row, _ROWS[0]]


def test_a_removed_run_is_gone_and_removing_it_twice_is_no_error(tmp_path: Path) -> None:
    index.put(str(tmp_path), _ENTRIES)
    for _ in range(2):
        index.remove(str(tmp_path), _ROWS[0].run_id)
    assert index.list_newest(str(tmp_path)) == [_ROWS[2], _ROWS[1]]


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
    index.put(str(tmp_path), _ENTRIES)
    assert index.find_by_prefix(str(tmp_path), prefix) == expected


def test_a_run_whose_id_begins_another_is_found_first(tmp_path: Path) -> None:
    longer = _entry(_ROWS[0].run_id + "1")
    index.put(str(tmp_path), [longer, *_ENTRIES])
    assert index.find_by_prefix(str(tmp_path), _ROWS[0].run_id) == [_ROWS[0], longer.row]


def test_runs_are_found_by_their_names_and_none_by_no_name(tmp_path: Path) -> None:
    named = [_entry(f"20260102-03040500{number}-8", name="fix", short="kkkk") for number in range(2)]
    index.put(str(tmp_path), [*_ENTRIES, *named])
    newest_first = [entry.row for entry in reversed(named)]
    assert index.find_by_name(str(tmp_path), "fix") == newest_first
    assert index.find_by_short_name(str(tmp_path), "kkkk") == newest_first
    assert [index.find_by_name(str(tmp_path), name) for name in ("", "fi", "kkkk", "%")] == [[]] * 4
    assert (
        index.list_newest(str(tmp_path), prefix="fi") == index.list_newest(str(tmp_path), prefix="kk") == newest_first
    )
    assert index.find_by_name(str(tmp_path / "none"), "fix") == []


def _accept(project: str, cwd: str) -> bool:
    return True


def _refuse(project: str, cwd: str) -> bool:
    return False


def _is_beside(project: str, cwd: str) -> bool:
    return cwd == "/shopping"


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        (index.IndexScope(project="shop", tops=("/shop",), is_meant=_accept), ["in", "below", "own name"]),
        (index.IndexScope(project="shop", tops=("/shop",), is_meant=_refuse), ["in"]),
        (index.IndexScope(project="shop", tops=(), is_meant=_accept), ["in"]),
        (index.IndexScope(project="none", tops=("/",), is_meant=_is_beside), ["beside"]),
    ],
    ids=["below its top", "nested repositories", "by name alone", "the root"],
)
def test_runs_of_a_project_are_those_of_its_name_and_of_its_folder(
    tmp_path: Path, scope: index.IndexScope, expected: list[str]
) -> None:
    places = [("in", "shop", "/gone"), ("below", "x", "/shop/deep"), ("own name", "boat", "/shop")]
    places.append(("beside", "y", "/shopping"))
    entries = [
        _entry(f"2026010{number}", project=project, cwd=cwd, prompt=prompt)
        for number, (prompt, project, cwd) in enumerate(places)
    ]
    index.put(str(tmp_path), entries)
    assert [row.prompt for row in index.list_newest(str(tmp_path), in_scope=scope)] == expected[::-1]


def test_runs_without_a_session_are_left_out_where_one_is_wanted(tmp_path: Path) -> None:
    index.put(str(tmp_path), [*_ENTRIES, _entry("20270101", session_id="")])
    assert index.list_newest(str(tmp_path), with_session=True) == _ROWS[::-1]


def test_what_runs_used_comes_back_newest_first_and_from_a_moment_on(tmp_path: Path) -> None:
    unknown = Entry(row=_ROWS[0]._replace(run_id="20270101-000000000-1", started_at=99.0), scripted=True)
    index.put(str(tmp_path), [*_ENTRIES, unknown])
    assert index.list_entries(str(tmp_path)) == [unknown, *_ENTRIES[::-1]]
    assert index.list_entries(str(tmp_path), since=99.0) == [unknown]
    assert index.list_entries(str(tmp_path), since=99.5) == []
    assert index.list_entries(str(tmp_path / "none")) == []


def test_tokens_that_nobody_reported_are_not_the_same_as_none(tmp_path: Path) -> None:
    entries = [Entry(row=_ROWS[1], usage=Usage()), Entry(row=_ROWS[0], usage=None)]
    index.put(str(tmp_path), entries)
    assert index.list_entries(str(tmp_path)) == entries


def _garbage(path: Path) -> None:
    path.write_bytes(b"this is no database" * 100)


def _cut(path: Path) -> None:
    index.put(str(path.parent), [_entry(f"r{number}", prompt="x" * 1000) for number in range(50)])
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    os.truncate(path, 9000)


def _write_foreign(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE run (a, b)")
        database.execute("PRAGMA user_version = 3")
    database.close()


def _empty(path: Path) -> None:
    path.touch()


@pytest.mark.parametrize("spoil", [_garbage, _cut, _write_foreign])
def test_a_spoilt_index_is_told_in_a_sentence_that_names_the_way_out(tmp_path: Path, spoil: object) -> None:
    assert callable(spoil)
    spoil(tmp_path / "index.db")
    with pytest.raises(StateUnusable) as caught:
        index.put(str(tmp_path), _ENTRIES)
        index.list_newest(str(tmp_path))
    assert str(tmp_path / "index.db") in caught.value.message
    assert "`inspan reindex`" in caught.value.next_step


@pytest.mark.parametrize("spoil", [_garbage, _cut, _write_foreign, _empty])
def test_a_spoilt_index_is_replaced_whatever_state_it_is_in(tmp_path: Path, spoil: object) -> None:
    assert callable(spoil)
    spoil(tmp_path / "index.db")
    index.replace_all(str(tmp_path), _ENTRIES)
    assert index.list_newest(str(tmp_path)) == _ROWS[::-1]


def _set_version(state: Path, version: int) -> None:
    index.put(str(state), _ENTRIES)
    with sqlite3.connect(state / "index.db") as database:
        database.execute(f"PRAGMA user_version = {version}")
    database.close()


_USES: list[Callable[[str], object]] = [
    index.list_newest,
    index.list_entries,
    lambda state: index.find_by_prefix(state, "2"),
    lambda state: index.put(state, _ENTRIES),
    lambda state: index.remove(state, "2"),
]


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 99])
def test_an_index_of_another_version_is_named_and_left_as_it_is(tmp_path: Path, version: int) -> None:
    _set_version(tmp_path, version)
    before = (tmp_path / "index.db").read_bytes()
    assert index.is_outdated(str(tmp_path))
    for use in _USES:
        with pytest.raises(StateUnusable) as caught:
            use(str(tmp_path))
        assert f"({version}, not 6)" in caught.value.message
        assert "`inspan reindex`" in caught.value.next_step
    assert (tmp_path / "index.db").read_bytes() == before


def test_an_index_of_another_version_is_replaced_like_any_other(tmp_path: Path) -> None:
    _set_version(tmp_path, 2)
    index.replace_all(str(tmp_path), _ENTRIES[:1])
    assert index.list_newest(str(tmp_path)) == _ROWS[:1]
    assert not index.is_outdated(str(tmp_path))


def test_an_index_that_does_not_exist_is_not_outdated_and_looking_makes_none(tmp_path: Path) -> None:
    assert not index.is_outdated(str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_processes_that_enter_their_first_runs_at_once_lose_none(tmp_path: Path) -> None:
    script = """
import sys
from inspan.stores import index
import sqlite3
print("ready", flush=True)
for state in sys.stdin:
    row = index.Row(sys.argv[1], "p", "t", "a", 0.0, 0.0, "o", "r", "", 0, None, "")
    index.put(state.strip(), [index.Entry(row=row)])
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
    assert [len(index.list_newest(str(state))) for state in states] == [4] * len(states)


@pytest.mark.parametrize("content", [b"no database" * 1000, b"", b"SQLite format 3\0" + b"\xff" * 8176])
def test_whatever_lies_in_its_place_is_replaced_by_a_whole_index(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "index.db").write_bytes(content)
    (tmp_path / "index.db-journal").write_bytes(b"of another one" * 100)
    index.replace_all(str(tmp_path), _ENTRIES)
    assert sorted(index.list_newest(str(tmp_path))) == sorted(_ROWS)
    assert [path.name for path in tmp_path.iterdir()] == ["index.db"]


def test_whoever_has_the_index_open_while_it_is_filled_anew_loses_nothing(tmp_path: Path) -> None:
    index.put(str(tmp_path), _ENTRIES)
    database = sqlite3.connect(tmp_path / "index.db")
    try:
        index.replace_all(str(tmp_path), _ENTRIES[:1])
        with database:
            database.execute("UPDATE run SET agent = 'late'")
    finally:
        database.close()
    assert [row.agent for row in index.list_newest(str(tmp_path))] == ["late"]
