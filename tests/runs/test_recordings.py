"""Recordings played back: every frame ever recorded, and the verdicts that follow from how the agent left."""

from pathlib import Path

import msgspec
import pytest

from inspan.agents.registry import find_driver
from inspan.errors import BadInput, UnknownAgent
from inspan.protocol.events import ModelCallEnded, RunEnded, ToolFailed
from inspan.protocol.usage import SessionTotals, Usage
from inspan.runs.recordings import play
from inspan.stores import recording
from inspan.stores.recording import Ending, Exit, Header, Recording
from tests.drivers.frames import RECORDINGS, events_of, names

FRAMES = [(agent, name) for agent in ("claude", "codex") for name in names(agent)]
LEFT = Exit(exit=0, signal=None, duration_s=1.5)
SESSION = "01a1ddf3-5f9e-7063-b328-6ed2a48a4836"


def load_recording(agent: str, name: str, *, err: tuple[bytes, ...] = (), exit: Exit = LEFT) -> Recording:
    """Frames of a real run, as a recording."""
    out = (RECORDINGS / agent / f"{name}.jsonl").read_bytes().splitlines()
    return Recording(header=header(agent), out=out, err=list(err), exit=exit)


def header(agent: str, *, channel: str = "stream") -> Header:
    return Header(recording=1, agent=agent, agent_version="1", channel=channel, inspan="0.1.0", task={})


def verdict(played: Recording) -> tuple[str, str, str]:
    *_, ended = play(played)
    assert isinstance(ended, RunEnded)
    return ended.outcome, ended.reason, ended.message


@pytest.mark.parametrize(("agent", "name"), FRAMES)
def test_every_recorded_frame_is_played_as_its_dialect_reads_it(tmp_path: Path, agent: str, name: str) -> None:
    played = load_recording(agent, name)
    path = tmp_path / "recording.jsonl"
    with path.open("wb") as file:
        recording.write(file, played.header, out=played.out, err=played.err, exit=played.exit)
    *events, ended = play(recording.read(str(path)))
    assert events == events_of(find_driver(agent), name)
    assert isinstance(ended, RunEnded)


def test_the_end_holds_what_the_frames_told() -> None:
    *_, ended = play(load_recording("codex", "exec-ww"))
    assert ended == RunEnded(
        outcome="completed",
        reason="done",
        exit_code=0,
        duration_s=1.5,
        session_id=SESSION,
        usage=Usage(input=160, output=14, cache_read=40, reasoning=6),
        cost_kind="not_paid",
    )


@pytest.mark.parametrize(
    ("name", "exit", "expected"),
    [
        ("exec-ww", LEFT, ("completed", "done", "")),
        ("exec-ww", Exit(exit=3, signal=None), ("failed", "crashed", "Codex ended with exit code 3: the last word")),
        ("exec-ww", Exit(exit=137, signal=9), ("failed", "crashed", "Codex ended with signal 9: the last word")),
        (
            "exec-ww",
            Exit(exit=143, signal=15, ending=Ending(reason="stopped", message="asked to stop")),
            ("cancelled", "stopped", "asked to stop"),
        ),
        (
            "exec-ww",
            Exit(exit=None, signal=None, ending=Ending(reason="supervisor_lost", message="gone")),
            ("lost", "supervisor_lost", "gone"),
        ),
    ],
    ids=["left well", "left badly", "killed", "stopped", "lost"],
)
def test_the_verdict_follows_from_how_the_agent_left(name: str, exit: Exit, expected: tuple[str, str, str]) -> None:
    assert verdict(load_recording("codex", name, err=(b"first", b"the last word"), exit=exit)) == expected


def test_what_the_gateway_saw_stands_above_what_the_agent_said() -> None:
    refused = Exit(exit=1, signal=None, call=ModelCallEnded(call=1, wire="responses", status=429))
    assert verdict(load_recording("codex", "err-e400", exit=Exit(exit=1, signal=None)))[:2] == ("failed", "unknown")
    assert verdict(load_recording("codex", "err-e400", exit=refused))[:2] == ("limited", "rate_limit")


def test_what_the_agent_had_told_of_its_session_before_is_not_counted_again() -> None:
    played = load_recording("codex", "exec-ww")
    before = SessionTotals(usage=Usage(input=60, output=4))
    *_, ended = play(msgspec.structs.replace(played, header=msgspec.structs.replace(played.header, told=before)))
    assert isinstance(ended, RunEnded)
    assert ended.usage == Usage(input=100, output=10, cache_read=40, reasoning=6)


def test_what_an_agent_tells_on_stderr_alone_is_played_too() -> None:
    played = load_recording(
        "codex", "exec-ww", err=(b"ERROR codex_core::tools::router: error=patch rejected: read-only",)
    )
    told = [event for event in play(played) if isinstance(event, ToolFailed)]
    assert [(event.name, event.denied) for event in told] == [("apply_patch", True)]


def test_an_answer_is_held_against_the_schema_that_was_kept() -> None:
    played = load_recording("codex", "exec-ww")
    strict = msgspec.structs.replace(played.header, task={"mode": "complete", "output_schema": {"type": "integer"}})
    assert verdict(msgspec.structs.replace(played, header=strict))[:2] == ("failed", "unfit_answer")


def test_an_agent_that_nobody_knows_is_refused_before_the_first_event() -> None:
    with pytest.raises(UnknownAgent, match="'cdoex'"):
        play(Recording(header=header("cdoex"), out=[], err=[], exit=LEFT))


def test_a_channel_that_the_agent_does_not_have_is_refused() -> None:
    with pytest.raises(BadInput, match="'telepathy'") as caught:
        play(Recording(header=header("codex", channel="telepathy"), out=[], err=[], exit=LEFT))
    assert "stream" in caught.value.next_step


def test_frames_that_no_dialect_knows_are_kept_as_they_are() -> None:
    strange = Recording(header=header("claude"), out=[b"", b"\xff", b"not json"], err=[], exit=LEFT)
    *events, ended = play(strange)
    assert [getattr(event, "raw", None) for event in events] == ["\N{REPLACEMENT CHARACTER}", "not json"]
    assert isinstance(ended, RunEnded) and ended.outcome == "failed"
