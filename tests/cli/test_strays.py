"""What somebody else left in the state folder: no command stumbles over it, and none touches it."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from inspan.protocol.ids import make_short_name
from tests.cli_env import CliEnv

from .scenarios import EndedRun, release_tool, run_to_end, start_waiting_run, strip_run_note

LATE = "20990101-000000000-1"
NAMES = ["stray", LATE, ".hidden", "with space", "ü\udcff"]
READERS = ["ps", "ps -a", "show", "logs", "events", "wait @last", "reindex", "cost", "budget", "prune --dry-run"]


def _file(path: Path) -> None:
    path.write_text("mine")


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "inner").write_text("mine")


def _make_dangling_link(path: Path) -> None:
    path.symlink_to("/nonexistent/runs/nothing")


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _make_relative_link(path: Path) -> None:
    path.symlink_to(path.name + "x")


def _make_root_link(path: Path) -> None:
    path.symlink_to("/")


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _make_unreadable(path: Path) -> None:
    path.write_text("mine")
    path.chmod(0)


def _folder_of_pipes(path: Path) -> None:
    path.mkdir()
    for name in ("run.json", "events.jsonl", "lock", "session.json"):
        os.mkfifo(path / name)


STRAYS = [_file, _folder, _make_dangling_link, _loop, _make_relative_link, _make_root_link, _pipe, _make_unreadable]
PLACES = ["active", "sessions", "projects", "projects/*", "projects/*/*", "projects/*/*/runs", ""]


def _place(cli_env: CliEnv, pattern: str) -> Path:
    return next(iter(cli_env.state.glob(pattern))) if pattern else cli_env.state


def _kinds(folder: Path) -> dict[Path, int]:
    return {path: path.lstat().st_mode for path in folder.glob("*")}


def _check(cli_env: CliEnv, run_id: str, *, warns: tuple[str, ...] = ()) -> None:
    """Every reading command works; only those named here may say what they could not read."""
    for command in READERS:
        done = cli_env.inspan(*command.split(), timeout=120)
        assert "broke" not in done.stderr
        told = re.sub(r"inspan: no run is (older than|running: ).*\n", "", strip_run_note(done.stderr))
        assert (done.returncode, bool(told)) == ((1, True) if command in warns else (0, False)), (command, told)
        assert command not in ("show", "wait @last") or run_id in done.stdout
        assert command != "ps -a" or make_short_name(run_id) in done.stdout


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place or "state")
def test_strays_break_nothing_and_are_left_alone(ended_user_run: EndedRun, place: str) -> None:
    cli_env, run_id = ended_user_run
    folder = _place(cli_env, place)
    for number, stray in enumerate(STRAYS):
        for name in NAMES:
            stray(folder / f"{name}{number}")
    before = _kinds(folder)
    _check(cli_env, run_id)
    again = run_to_end(cli_env)
    assert cli_env.inspan("rm", again).stdout == f"{again}\n"
    assert before.items() <= _kinds(folder).items()


@pytest.mark.parametrize(
    ("place", "warns"),
    [
        ("active", ()),
        ("sessions", ()),
        ("projects", ("reindex", "prune --dry-run")),
        ("projects/*", ("reindex", "prune --dry-run")),
        ("projects/*/*/runs", ("reindex",)),
        ("", ()),
    ],
)
def test_a_folder_that_is_closed_to_us_is_told_at_most(
    ended_user_run: EndedRun, place: str, warns: tuple[str, ...]
) -> None:
    cli_env, run_id = ended_user_run
    closed = _place(cli_env, place) / LATE
    closed.mkdir(mode=0)
    try:
        _check(cli_env, run_id, warns=warns)
    finally:
        closed.chmod(0o700)


@pytest.mark.parametrize("place", ["projects/*/*/runs", "sessions"])
def test_a_folder_whose_files_are_pipes_keeps_nobody_waiting(ended_run: EndedRun, place: str) -> None:
    cli_env, run_id = ended_run
    folder = _place(cli_env, place)
    _folder_of_pipes(folder / LATE)
    if place != "sessions":
        (cli_env.state / "active" / LATE).symlink_to(folder / LATE)
    for command in READERS:
        named = f"{command} {run_id}" if command in ("show", "logs", "events") else command
        done = cli_env.inspan(*named.replace("@last", run_id).split(), timeout=120)
        assert "broke" not in done.stderr
        assert done.returncode == int(command == "reindex" and place != "sessions"), (command, done.stderr)
    done = cli_env.inspan("show", LATE, timeout=120)
    assert done.returncode in (1, 2)
    assert done.stderr.startswith("inspan: ")


@pytest.mark.parametrize("stray", [_folder, _pipe, _make_dangling_link], ids=lambda stray: stray.__name__.strip("_"))
def test_an_index_that_is_no_file_is_told_in_a_sentence(ended_run: EndedRun, stray: Callable[[Path], None]) -> None:
    cli_env, run_id = ended_run
    (cli_env.state / "index.db").unlink()
    stray(cli_env.state / "index.db")
    for command in ("ps -a", "reindex"):
        done = cli_env.inspan(*command.split(), timeout=120)
        assert "broke" not in done.stderr, done.stderr
        assert done.returncode == 0 or done.stderr.startswith("inspan: ")
    assert cli_env.inspan("ps").returncode == 0
    assert (cli_env.folder(run_id) / "run.json").exists()


def test_strays_hide_no_living_run(cli_env: CliEnv) -> None:
    run_id = start_waiting_run(cli_env)
    for number, stray in enumerate((_file, _folder, _make_dangling_link, _pipe)):
        stray(cli_env.state / "active" / f"{LATE}{number}")
    assert cli_env.inspan("ps", "-q").stdout == f"{run_id}\n"
    assert cli_env.inspan("show").returncode == 0
    release_tool(cli_env)
    assert cli_env.inspan("wait", "@last").returncode == 0
