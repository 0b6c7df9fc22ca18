"""Saved sessions of Claude Code 2.1.325 and Codex 0.163.0, read back; without their vendors' prompts."""

import json
from typing import Any

import pytest

from inspan.agents.registry import find_driver
from inspan.protocol.events import (
    CommandExecuted,
    Event,
    FileChanged,
    ReasoningSaid,
    TextSaid,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
)
from inspan.protocol.usage import Usage

from .frames import RECORDINGS

AGENTS = ("claude", "codex")
_FIRST = Usage(input=2300, output=84, cache_read=650, cache_write=20, reasoning=17)
_CALL = Usage(input=100, output=7, cache_read=20, cache_write=10, reasoning=3)
_SAID = "File created successfully at: /WORK/new.txt (file state is current in your context — no need to Read it back)"


def _load_transcript(agent: str, name: str) -> bytes:
    return (RECORDINGS / agent / "sessions" / f"{name}.jsonl").read_bytes()


def _read(agent: str, held: bytes) -> list[Event]:
    transcript = find_driver(agent).sessions.transcript
    assert transcript
    return list(transcript.read(held))


def _claude(*ids: str) -> list[Event]:
    shell, write, fails = ids
    one = {"command": "echo from-the-shell", "description": "Run a command"}
    two = {"command": "echo oh-no; exit 3", "description": "Run a command"}
    return [
        ToolStarted(id=shell, name="Bash", input=one),
        ToolCompleted(id=shell, name="Bash", output="from-the-shell"),
        CommandExecuted(id=shell, command="echo from-the-shell", exit_code=0),
        ToolStarted(id=write, name="Write", input={"file_path": "/WORK/new.txt", "content": "one\n"}),
        ToolCompleted(id=write, name="Write", output=_SAID),
        FileChanged(path="/WORK/new.txt", change="added", id=write),
        ToolStarted(id=fails, name="Bash", input=two),
        ToolFailed(id=fails, name="Bash", output="Exit code 3\noh-no"),
        CommandExecuted(id=fails, command="echo oh-no; exit 3", exit_code=3),
    ]


def _codex(*ids: str) -> list[Event]:
    shell, write, fails = ids
    one, two = "/bin/bash -lc 'echo from-the-shell'", "/bin/bash -lc 'echo oh-no; exit 3'"
    return [
        ToolStarted(id=shell, name="shell", input={"command": one}),
        ToolCompleted(id=shell, name="shell", output="from-the-shell\n"),
        CommandExecuted(id=shell, command=one, exit_code=0),
        ToolStarted(id=write, name="apply_patch", input=["/WORK/new.txt"]),
        FileChanged(path="/WORK/new.txt", change="added", id=write),
        ToolCompleted(id=write, name="apply_patch"),
        ToolStarted(id=fails, name="shell", input={"command": two}),
        ToolFailed(id=fails, name="shell", output="oh-no\n"),
        CommandExecuted(id=fails, command=two, exit_code=3),
    ]


def _first_turn(agent: str, events: list[Event]) -> list[Event]:
    ids = [event.id for event in events if isinstance(event, ToolStarted)]
    return [
        TurnStarted(),
        ReasoningSaid(text="hm"),
        TextSaid(text="Looking."),
        *{"claude": _claude, "codex": _codex}[agent](*ids),
        TextSaid(text="Done."),
        TurnCompleted(usage=_FIRST),
    ]


def _turn(text: str) -> list[Event]:
    return [TurnStarted(), TextSaid(text=text), TurnCompleted(usage=_CALL)]


@pytest.mark.parametrize("agent", AGENTS)
def test_a_session_that_was_resumed_gives_all_its_turns_each_with_its_own_tokens(agent: str) -> None:
    events = _read(agent, _load_transcript(agent, "resumed"))
    assert events == [*_first_turn(agent, events), *_turn("Again.")]


def test_a_fork_of_claudes_has_the_turns_that_it_came_from() -> None:
    events = _read("claude", _load_transcript("claude", "forked"))
    assert events == [*_first_turn("claude", events), *_turn("Again."), *_turn("Apart.")]


def test_a_fork_of_codexs_has_its_own_turns_alone_and_their_tokens_alone() -> None:
    assert _read("codex", _load_transcript("codex", "forked")) == _turn("Apart.")


@pytest.mark.parametrize("agent", AGENTS)
def test_half_a_last_line_is_left_out(agent: str) -> None:
    held = _load_transcript(agent, "resumed")
    lines = held.rstrip(b"\n").split(b"\n")
    whole = _read(agent, b"\n".join(lines[:-1]) + b"\n")
    assert _read(agent, b"\n".join(lines[:-1]) + b"\n" + lines[-1][: len(lines[-1]) // 2]) == whole


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("held", [b"", b"\n\n", b"\xff\xfe\n", b"no json\n{\n[]\nnull\n3\n" + b"[" * 100_000])
def test_what_is_no_session_tells_nothing(agent: str, held: bytes) -> None:
    assert _read(agent, held) == []


@pytest.mark.parametrize("agent", AGENTS)
def test_a_session_can_be_read_up_to_every_line_of_it(agent: str) -> None:
    """An agent that was killed has kept a beginning."""
    lines = _load_transcript(agent, "resumed").split(b"\n")
    counts = [len(_read(agent, b"\n".join(lines[:end]))) for end in range(len(lines) + 1)]
    assert counts == sorted(counts)
    assert counts[-1] == 17


@pytest.mark.parametrize("mark", ["isSidechain", "isMeta"])
def test_what_claude_keeps_for_itself_is_no_part_of_the_conversation(mark: str) -> None:
    line: dict[str, Any] = {"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "aside"}]}}
    told = _read("claude", json.dumps(line).encode())
    assert [event for event in told if isinstance(event, TextSaid)] == [TextSaid(text="aside")]
    assert _read("claude", json.dumps({**line, mark: True}).encode()) == []


def test_codex_tells_a_count_again_without_anything_new() -> None:
    lines = _load_transcript("codex", "resumed").split(b"\n")
    doubled = [line for each in lines for line in ([each] * 2 if b'"token_count"' in each else [each])]
    assert _read("codex", b"\n".join(doubled)) == _read("codex", b"\n".join(lines))
