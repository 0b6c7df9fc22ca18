"""Saved sessions of Goose 1.52, and the script that goes on with one, on a stand-in for its program."""

import json
import subprocess
from pathlib import Path

import pytest

from inspan.drivers.goose import DRIVER
from inspan.drivers.goose.resume import RESUME_SCRIPT, session_argv
from inspan.protocol.events import (
    CommandExecuted,
    FileChanged,
    ReasoningSaid,
    TextSaid,
    ToolCompleted,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
)
from inspan.protocol.usage import Usage

from .frames import RECORDINGS

SAVED = (RECORDINGS / "goose" / "session.json").read_bytes()
CALL = Usage(input=100, output=7, cache_read=20, cache_write=10)
# Prints the saved session for an export, keeps what it is asked to read in, and tells the words of a run.
STAND_IN = """\
#!/bin/sh
echo "$*" >>"{root}/asked"
case "$1 $2" in
  "session export") [ -e "{root}/saved.json" ] && cp "{root}/saved.json" "$6" || exit 7 ;;
  "session import") [ ! -e "{root}/full" ] && cp "$3" "{root}/imported.json" && echo "Session imported:" ;;
  *) for word; do echo "word $word"; done; cat ;;
esac
"""


def test_a_saved_session_gives_the_events_of_its_turns() -> None:
    assert DRIVER.sessions.transcript is not None
    events = list(DRIVER.sessions.transcript.read(SAVED))
    shell, write = [event.id for event in events if isinstance(event, ToolStarted)]
    assert events == [
        TurnStarted(),
        ReasoningSaid(text="pondering"),
        TextSaid(text="All right."),
        ToolStarted(id=shell, name="shell", input={"command": "echo hi"}),
        ToolCompleted(id=shell, name="shell", output="hi"),
        CommandExecuted(id=shell, command="echo hi", exit_code=0),
        ToolStarted(id=write, name="write", input={"path": "/WORK/new.txt", "content": "one\n"}),
        ToolCompleted(id=write, name="write", output="Created /WORK/new.txt (1 lines)"),
        FileChanged(path="/WORK/new.txt", change="added", id=write),
        TextSaid(text="one"),
        TurnCompleted(usage=CALL + CALL + CALL),
        TurnStarted(),
        TextSaid(text="two"),
        TurnCompleted(usage=CALL),
    ]


def test_tokens_of_subagents_are_counted_with_the_last_turn() -> None:
    assert DRIVER.sessions.transcript is not None
    saved = json.loads(SAVED)
    saved["accumulated_usage"]["output_tokens"] += 5
    *_, last = DRIVER.sessions.transcript.read(json.dumps(saved).encode())
    assert last == TurnCompleted(usage=CALL + Usage(output=5))


def test_a_session_without_answers_gives_nothing() -> None:
    assert DRIVER.sessions.transcript is not None
    assert (
        list(DRIVER.sessions.transcript.read(b'{"working_dir":"/","conversation":null,"accumulated_usage":null}')) == []
    )


def test_its_program_prints_a_session_by_name_or_id() -> None:
    assert DRIVER.sessions.transcript is not None
    assert DRIVER.sessions.transcript.command is not None
    assert DRIVER.sessions.transcript.command("-x") == ("session", "export", "--format", "json", "--name=-x")
    assert session_argv("20261115_3") == ("--session-id=20261115_3",)


def _resume(root: Path, *words: str, copy: str = "") -> "subprocess.CompletedProcess[str]":
    program = root / "stand-in"
    program.write_text(STAND_IN.format(root=root))
    program.chmod(0o700)
    argv = ["/bin/sh", "-c", RESUME_SCRIPT, str(program), "--name=old", str(root / "session.json"), copy, *words]
    return subprocess.run(argv, input="the prompt", capture_output=True, text=True, check=False)


def _save(root: Path) -> None:
    extensions = {"enabled_extensions.v0": {"extensions": [{"type": "stdio", "name": "cal", "cmd": "x"}]}}
    saved = {"id": "20261115_1", "name": 'the "old" one', "extension_data": extensions, **json.loads(SAVED)}
    (root / "saved.json").write_text(json.dumps({**saved, "name": 'the "old" one'}, indent=2))


def test_what_was_counted_is_told_before_the_run(tmp_path: Path) -> None:
    _save(tmp_path)
    done = _resume(tmp_path, "run", "two words")
    first, *rest = done.stdout.splitlines()
    assert json.loads(first) == {
        "type": "before",
        "accumulated_usage": json.loads(SAVED)["accumulated_usage"],
        "accumulated_cost": json.loads(SAVED)["accumulated_cost"],
        "of": "session",
    }
    assert rest == ["word run", "word two words", "the prompt"]
    assert done.stderr == ""
    assert not (tmp_path / "imported.json").exists()
    assert not (tmp_path / "session.json").exists()


def test_a_server_that_the_session_has_is_not_named_again(tmp_path: Path) -> None:
    _save(tmp_path)
    done = _resume(tmp_path, "run", "--with-extension", "cal:x y", "--with-extension", "other:z", "--resume")
    assert done.stdout.splitlines()[1:] == [
        "word run",
        "word --with-extension",
        "word other:z",
        "word --resume",
        "the prompt",
    ]


def test_a_copy_has_its_own_name_and_all_the_rest(tmp_path: Path) -> None:
    _save(tmp_path)
    done = _resume(tmp_path, "run", copy="new-name")
    saved = json.loads((tmp_path / "saved.json").read_text())
    assert json.loads((tmp_path / "imported.json").read_text()) == {**saved, "name": "new-name"}
    assert done.stdout.splitlines()[1:] == ["word run", "the prompt"]


def test_a_copy_that_cannot_be_made_ends_it_and_leaves_nothing(tmp_path: Path) -> None:
    _save(tmp_path)
    (tmp_path / "full").touch()
    done = _resume(tmp_path, "run", copy="new-name")
    assert (done.returncode, done.stdout) == (1, "")
    assert {path.name for path in tmp_path.iterdir()} == {"asked", "full", "saved.json", "stand-in"}


@pytest.mark.parametrize("copy", ["", "new-name"])
def test_a_session_that_is_not_there_ends_it(tmp_path: Path, copy: str) -> None:
    done = _resume(tmp_path, "run", copy=copy)
    assert (done.returncode, done.stdout) == (7, "")
    assert (tmp_path / "asked").read_text().splitlines() == [
        f"session export --format json --output {tmp_path}/session.json --name=old"
    ]
