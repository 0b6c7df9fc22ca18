"""A ledger that cannot be used is told in a sentence, and nothing of it is ever replaced."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from inspan.errors import StateUnusable
from inspan.stores.ledger import Ledger, read_spendings
from inspan.stores.ledger_file import VERSION
from inspan.stores.ledger_tree import read_tree

from .accounts import Accounts

_USES: list[Callable[[str], object]] = [Ledger, read_spendings, read_tree]


def _make_ledger(state: Path) -> Path:
    accounts = Accounts(state.parent)
    assert accounts.state == str(state)
    spender = accounts.open("r1", project="2usd")
    for call in range(300):
        accounts.spend(spender, call, usd=0.001)
    accounts.close()
    return state / "ledger.db"


def _garbage(path: Path) -> None:
    path.write_bytes(b"this is no database" * 1000)


def _cut(path: Path) -> None:
    os.truncate(path, 9000)


def _write_foreign(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE something (a, b)")
    database.close()


def _set_version(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA user_version = {VERSION + 1}")
    database.close()


def test_there_is_nothing_in_a_ledger_that_does_not_exist_and_looking_makes_none(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert (read_spendings(str(state)), read_tree(str(state))) == ([], [])
    assert not state.exists()


def test_a_ledger_is_private_to_its_owner_and_outlives_its_process(tmp_path: Path) -> None:
    path = _make_ledger(tmp_path / "state")
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert len(read_spendings(str(path.parent))) == 300


@pytest.mark.parametrize("use", _USES, ids=["open", "spendings", "tree"])
@pytest.mark.parametrize("spoil", [_garbage, _cut, _write_foreign, _set_version])
def test_a_spoilt_ledger_is_named_with_the_way_out_and_left_as_it_is(
    tmp_path: Path, spoil: Callable[[Path], None], use: Callable[[str], object]
) -> None:
    path = _make_ledger(tmp_path / "state")
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(StateUnusable) as caught:
        _use(use, str(path.parent))
    assert str(path) in caught.value.message
    assert "move the file away: budgets then begin at zero" in caught.value.next_step
    assert path.read_bytes() == before


def _use(use: Callable[[str], object], state: str) -> None:
    made = use(state)
    if isinstance(made, Ledger):  # A ledger whose pages are missing is noticed by the first who needs them.
        try:
            made.end_run("r1", 1.0)
        finally:
            made.close()


def test_an_empty_file_becomes_a_ledger(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").touch()
    Ledger(str(tmp_path)).close()
    assert read_tree(str(tmp_path)) == []


def test_a_folder_in_its_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").mkdir()
    with pytest.raises(StateUnusable) as caught:
        Ledger(str(tmp_path))
    assert "Check the owner" in caught.value.next_step


def test_processes_that_make_the_ledger_at_once_make_one(tmp_path: Path) -> None:
    script = """
import sys, sqlite3
from inspan.stores.ledger import Ledger
print("ready", flush=True)
for state in sys.stdin:
    ledger = Ledger(state.strip(), wait_s=120.0)
    with ledger.file.write_transaction() as database:
        database.execute("INSERT INTO slot VALUES (?, 'r', 1)", (sys.argv[1],))
        salt, = database.execute("SELECT group_concat(hex(bytes)) FROM salt").fetchone()
    ledger.close()
    print(salt, flush=True)
"""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(each)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for each in range(4)
    ]
    states = [tmp_path / str(number) for number in range(30)]
    salts: list[set[str]] = []
    assert [_line(process) for process in processes] == ["ready"] * len(processes)
    for state in states:
        for process in processes:
            assert process.stdin
            process.stdin.write(f"{state}\n")
            process.stdin.flush()
        salts.append({_line(process) for process in processes})
    for process in processes:
        process.communicate(timeout=240)
    assert [len(each) for each in salts] == [1] * len(states)
    assert len({salt for each in salts for salt in each}) == len(states)
    for state in states:
        with sqlite3.connect(state / "ledger.db") as database:
            assert database.execute("SELECT count(*) FROM slot").fetchone() == (4,)
        database.close()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()
