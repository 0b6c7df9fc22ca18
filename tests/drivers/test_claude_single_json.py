"""The single JSON output of Claude Code: one object, or with `--verbose` an array of all frames."""

import subprocess
from pathlib import Path

import pytest

from inspan.drivers.claude import DRIVER
from inspan.protocol.events import Event, TextSaid, ThreadStarted, ToolStarted, TurnCompleted, TurnStarted
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals, Usage
from tests.gateway.scripted_gateway import TOKEN, WAIT_S, ScriptedGateway

_SCENARIO = """
[[call]]
run = "echo hi"
[[call]]
say = "It said hi."
"""


def _run_program(program: str, folder: Path, *flags: str) -> bytes:
    """What the real program prints on a scripted model, with the output format that the flags ask for."""
    with ScriptedGateway(_SCENARIO, cwd=str(folder)) as stage:
        done = subprocess.run(
            [program, "-p", "--output-format", "json", "--permission-mode", "dontAsk", "--tools", "Bash", *flags],
            cwd=folder,
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": str(folder),
                "CLAUDE_CONFIG_DIR": str(folder / "config"),
                "ANTHROPIC_API_KEY": TOKEN,
                "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{stage.port}",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "CLAUDE_CODE_MAX_RETRIES": "0",
            },
            input=b"say hi",
            capture_output=True,
            timeout=WAIT_S,
            check=True,
        )
    return done.stdout


def _events(output: bytes) -> list[Event]:
    dialect = DRIVER.channels[0].dialect(Task(prompt="x", cwd="/"), SessionTotals())
    return [event for line in output.splitlines() for event in dialect.receive(line).events]


def test_one_object_tells_the_session_the_answer_and_the_tokens(tmp_path: Path, binaries: dict[str, str]) -> None:
    output = _run_program(binaries[DRIVER.program_variable], tmp_path)
    thread, turn, said, completed = _events(output)
    assert isinstance(thread, ThreadStarted)
    assert thread.session_id
    assert (turn, said) == (TurnStarted(), TextSaid(text="It said hi."))
    assert isinstance(completed, TurnCompleted)
    assert completed.usage == Usage(input=200, output=14, cache_read=40, cache_write=20, reasoning=6)


def test_an_array_is_read_as_the_frames_in_it(tmp_path: Path, binaries: dict[str, str]) -> None:
    output = _run_program(binaries[DRIVER.program_variable], tmp_path, "--verbose")
    assert output.startswith(b"[")
    events = _events(output)
    assert [type(event) for event in events if isinstance(event, ThreadStarted | ToolStarted | TurnCompleted)] == [
        ThreadStarted,
        ToolStarted,
        TurnCompleted,
    ]
    assert TextSaid(text="It said hi.") in events


@pytest.mark.parametrize("broken", [b"[", b"[1,", b'["x"]', b'[{"type":5}]', b"[]"])
def test_a_broken_array_breaks_nothing(broken: bytes) -> None:
    assert [event.__class__.__name__ for event in _events(broken)] in ([], ["Unrecognized"])
