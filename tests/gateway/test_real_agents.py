"""The real agents believe the scripted model: they do what it says, and fail as it fails."""

from pathlib import Path

import pytest

from .conftest import ARGUMENTS, Launch
from .scripted_gateway import WAIT_S, ScriptedGateway

STEPS = """
[[call]]
expect = "do it"
think = "pondering"
say = ["All ", "right."]
run = "echo from-the-shell; echo ran > ran.txt"
[[call]]
expect = "from-the-shell"
write = {path = "written.txt", content = "one\\ntwo\\n"}
[[call]]
edit = {path = "edited.txt", old = "quick", new = "slow"}
[[call]]
write = {path = "replaced.txt", content = "new\\n"}
[[call]]
say = "Finished."
"""
CLAUDE, CODEX = "claude", "codex with classic tools"


@pytest.mark.parametrize("style", ARGUMENTS)
def test_an_agent_does_every_kind_of_step(style: str, launch: Launch, work: Path) -> None:
    (work / "edited.txt").write_text("the\nquick fox\njumps\n")
    (work / "replaced.txt").write_text("old\n")
    with ScriptedGateway(STEPS, cwd=str(work)) as stage:
        process = launch(style, stage.port)
        output, _ = process.communicate(timeout=WAIT_S)
    assert stage.script.mismatch == ""
    assert {file.name: file.read_text() for file in work.glob("*.txt")} == {
        "ran.txt": "ran\n",
        "written.txt": "one\ntwo\n",
        "edited.txt": "the\nslow fox\njumps\n",
        "replaced.txt": "new\n",
    }
    assert all(words in output for words in ("pondering", "All right.", "Finished."))
    assert [(call.status, call.problem) for call in stage.calls_so_far()] == [(200, "")] * 5
    assert process.returncode == 0


@pytest.mark.parametrize("status", [401, 429, 529])
@pytest.mark.parametrize("style", [CLAUDE, CODEX])
def test_an_agent_gives_up_when_the_model_fails(style: str, status: int, launch: Launch) -> None:
    with ScriptedGateway(f"[[call]]\nfail = {{status = {status}}}\n") as stage:
        process = launch(style, stage.port)
        output, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 1
    assert str(status) in output
    assert [(call.status, call.problem) for call in stage.calls_so_far()] == [(status, "")]
    assert stage.script.mismatch == ""


def test_an_agent_that_falls_back_after_a_cut_stream_uses_the_next_call(launch: Launch) -> None:
    with ScriptedGateway('[[call]]\nsay = "so far"\ncut = true\n[[call]]\nsay = "Second try."\n') as stage:
        process = launch(CLAUDE, stage.port)
        output, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
    assert "Second try." in output
    assert [call.problem for call in stage.calls_so_far()] == ["cut", ""]


def test_an_agent_without_a_fallback_fails_on_a_cut_stream(launch: Launch) -> None:
    with ScriptedGateway('[[call]]\nsay = "so far"\ncut = true\n') as stage:
        process = launch(CODEX, stage.port)
        output, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 1
    assert "stream disconnected" in output
    assert [call.problem for call in stage.calls_so_far()] == ["cut"]


@pytest.mark.parametrize("style", [CLAUDE, CODEX])
def test_a_stalled_agent_is_noticed_and_can_be_ended(style: str, launch: Launch) -> None:
    with ScriptedGateway('[[call]]\nsay = "so far"\nstall = "mid-stream"\n', stall_timeout_s=0.2) as stage:
        process = launch(style, stage.port)
        assert stage.next_stall().problem == "stalled"
        assert process.poll() is None
        stage.close()
        process.kill()
        process.communicate(timeout=WAIT_S)
    assert [call.problem for call in stage.calls_so_far()] == ["stalled"]
