"""The real agents: what was recorded in one folder is played in another, to the same words, tokens and files."""

import json
import re
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from inspan.gateway import Request
from inspan.gateway.cassettes.file import load_cassette
from inspan.gateway.cassettes.path_placeholders import PathPlaceholders
from inspan.gateway.cassettes.rules import normalize_text
from inspan.gateway.wires.wire import Answer, ToolUse
from inspan.protocol.usage import Usage
from inspan.redaction import SecretSet
from inspan.runs.recordings import play
from inspan.stores.recording import Exit, Header, Recording

from .cassettes import AgentFolder, Model, RecordingGateway, ReplayGateway, make_script_upstream
from .conftest import ARGUMENTS
from .scripted_gateway import TOKEN

STEPS = """
[[call]]
think = "pondering"
say = ["All ", "right."]
run = "echo from-the-shell; pwd; date; echo $HOME; cat /proc/sys/kernel/random/uuid; echo ran > ran.txt; false"
[[call]]
write = {path = "written.txt", content = "one\\ntwo\\n"}
[[call]]
edit = {path = "edited.txt", old = "quick", new = "slow"}
[[call]]
run = "cat edited.txt; sleep 0.2; cat /nowhere/at-all"
[[call]]
say = "Finished."
usage = {input = 250, output = 12}
"""


@pytest.fixture
def agent_folders(tmp_path: Path, programs: dict[str, Path]) -> tuple[AgentFolder, AgentFolder]:
    """Two folders and homes that have nothing in common, not even the length of their names."""
    here, there = (AgentFolder(root=tmp_path / name, programs=programs) for name in ("here", "some/where/else"))
    return here.create(), there.create()


@pytest.mark.parametrize("style", ARGUMENTS)
def test_a_run_is_played_in_another_folder_and_home(
    style: str, agent_folders: tuple[AgentFolder, AgentFolder], tmp_path: Path
) -> None:
    here, there = agent_folders
    tape = tmp_path / "tape.jsonl"
    with RecordingGateway(tape, make_script_upstream(STEPS, cwd=str(here.work)), places=here.folders) as recorder:
        recorded = here.run(style, recorder.port)
    with ReplayGateway(tape, places=there.folders) as player:
        played = there.run(style, player.port)
    assert player.replay.mismatch == ""
    assert replay_events(played, there, style) == replay_events(recorded, here, style)
    assert there.files() == here.files()
    calls, again = recorder.calls_so_far(), player.calls_so_far()
    assert [(c.status, c.usage, c.problem) for c in again] == [(c.status, c.usage, c.problem) for c in calls]
    assert len(again) == 5
    text = tape.read_text()
    assert all(str(folder) not in text for room in agent_folders for folder in (room.work, room.home))


CLAUDE, CODEX, CODE_MODE = ARGUMENTS
# As inspan runs it: what ends in the background is told whenever it ends.
NO_BACKGROUND = {"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"}


@pytest.mark.parametrize("style", ARGUMENTS)
def test_another_prompt_is_named_as_the_difference(
    style: str, agent_folders: tuple[AgentFolder, AgentFolder], tmp_path: Path
) -> None:
    here, there = agent_folders
    tape = tmp_path / "tape.jsonl"
    with RecordingGateway(tape, make_script_upstream('[[call]]\nsay = "Done."\n'), places=here.folders) as recorder:
        here.run(style, recorder.port, prompt="paint the house red")
    with ReplayGateway(tape, places=there.folders) as player:
        said = there.run(style, player.port, prompt="paint the house blue")
    assert player.replay.mismatch == (
        "Request 1 is not call 1 of the cassette: part 1, the text, was 'paint the house red' and is now 'paint the"
        " house blue'. Make the run what it was, or record it again."
    )
    assert "is not call 1 of the cassette" in said


@pytest.mark.parametrize("style", ARGUMENTS)
def test_another_result_of_a_tool_is_named_as_the_difference(
    style: str, agent_folders: tuple[AgentFolder, AgentFolder], tmp_path: Path
) -> None:
    here, there = agent_folders
    tape = tmp_path / "tape.jsonl"
    scenario = '[[call]]\nrun = "cat edited.txt"\n[[call]]\nsay = "Done."\n'
    with RecordingGateway(tape, make_script_upstream(scenario), places=here.folders) as recorder:
        here.run(style, recorder.port)
    (there.work / "edited.txt").write_text("the\nlazy dog\n")
    with ReplayGateway(tape, places=there.folders) as player:
        there.run(style, player.port)
    complaint = player.replay.mismatch
    assert complaint.startswith("Request 2 is not call 2 of the cassette: part ")
    assert "the result of a tool" in complaint
    assert all(words in complaint for words in ("quick fox", "lazy dog", "and is now"))


@pytest.mark.parametrize("style", ARGUMENTS)
def test_no_secret_of_a_run_stands_in_its_cassette(
    style: str, agent_folders: tuple[AgentFolder, AgentFolder], tmp_path: Path
) -> None:
    secrets = {"PLANTED": 'pl4nted-"s3cret"-value', "TOKEN_OF_THE_RUN": TOKEN}
    compiled = SecretSet(secrets)
    here, there = agent_folders
    tape = tmp_path / "tape.jsonl"
    said = ["It is ", secrets["PLANTED"][:9], secrets["PLANTED"][9:], " indeed."]
    scenario = f"""
[[call]]
think = {json.dumps(said)}
say = {json.dumps(said)}
run = {json.dumps("echo $PLANTED; printenv PLANTED | base64; echo '" + secrets["PLANTED"] + "' > kept.txt")}
[[call]]
say = {json.dumps(said)}
"""
    env = {"PLANTED": secrets["PLANTED"]}
    prompt = f"use {secrets['PLANTED']} please"
    redact = compiled.redact_text
    with RecordingGateway(tape, make_script_upstream(scenario), redact=redact, places=here.folders) as recorder:
        here.run(style, recorder.port, prompt=prompt, env=env)
    data = tape.read_bytes()
    assert not compiled.has_secret(data)
    assert data.count(b"[REDACTED:PLANTED]") >= 6
    assert len(load_cassette(tape).calls) == 2
    with ReplayGateway(tape, redact=redact, places=there.folders) as player:
        spoken = there.run(style, player.port, prompt=prompt, env=env)
    assert player.replay.mismatch == ""
    assert "It is [REDACTED:PLANTED] indeed." in spoken


def test_subagents_that_work_at_once_each_get_their_own_answers(
    agent_folders: tuple[AgentFolder, AgentFolder], tmp_path: Path
) -> None:
    here, there = agent_folders
    tape = tmp_path / "tape.jsonl"
    names = ("one", "two", "three")

    def decide(request: Request) -> Answer:
        """The main agent starts three others; each runs a command with the same output, then says its name."""
        messages: list[Any] = json.loads(request.plain)["messages"]
        asked = str(messages[0]["content"])
        is_first = not any(message["role"] == "assistant" for message in messages)
        mine = next((name for name in names if f"You are {name}." in asked), "")
        if not is_first:
            return answer(say=f"I was {mine}." if mine else "All done.")
        if mine:
            return answer(ToolUse(name="Bash", arguments={"command": f"touch {mine}.txt; echo ok", "description": "d"}))
        return answer(*(agent_call(name) for name in names))

    with RecordingGateway(tape, Model(decide), places=here.folders) as recorder:
        recorded = here.run(CLAUDE, recorder.port, env=NO_BACKGROUND)
    assert len(load_cassette(tape).calls) == 8
    for _ in range(2):
        with ReplayGateway(tape, places=there.folders) as player:
            played = there.run(CLAUDE, player.port, env=NO_BACKGROUND)
        assert player.replay.mismatch == ""
        assert "All done." in played
        assert sorted(there.files()) == sorted(here.files()) == ["edited.txt", "one.txt", "three.txt", "two.txt"]
        assert reports(played) == reports(recorded) == dict.fromkeys(names, True)


def agent_call(name: str) -> ToolUse:
    arguments = {"description": name, "prompt": f"You are {name}.", "subagent_type": "general-purpose"}
    return ToolUse(name="Agent", arguments=arguments)


def answer(*tools: ToolUse, say: str = "") -> Answer:
    return Answer(model="m", say=(say,) if say else (), tools=tools, usage=Usage(input=1, output=1))


def reports(output: str) -> dict[str, bool]:
    """Whether each subagent gave back its own name, and to the call that started it."""
    lines: list[Any] = [json.loads(line) for line in output.splitlines()]
    blocks: list[Any] = [
        block
        for line in lines
        if line["type"] in ("assistant", "user") and not line.get("parent_tool_use_id")
        for block in line["message"]["content"]
    ]
    started = {block["id"]: block["input"]["description"] for block in blocks if block.get("name") == "Agent"}
    results = {block["tool_use_id"]: str(block["content"]) for block in blocks if block["type"] == "tool_result"}
    return {name: f"I was {name}." in results[id_] for id_, name in started.items()}


def test_a_session_in_a_terminal_is_spoken_to_by_the_number_it_has_now(
    agent_folders: tuple[AgentFolder, AgentFolder], tmp_path: Path
) -> None:
    here, there = agent_folders
    tape = tmp_path / "tape.jsonl"

    def decide(request: Request) -> Answer:
        results = [str(item["output"]) for item in json.loads(request.plain)["input"] if "output" in item]
        if not results:
            arguments = {"cmd": "read word; echo got $word > got.txt", "tty": True, "yield_time_ms": 300}
            return answer(ToolUse(name="exec_command", arguments=arguments))
        if len(results) == 1:
            session = re.search(r"session ID (\d+)", results[0])
            assert session is not None, results
            arguments = {"session_id": int(session[1]), "chars": "hello\n", "yield_time_ms": 30_000}
            return answer(ToolUse(name="write_stdin", arguments=arguments))
        return answer(say="Said hello.")

    with RecordingGateway(tape, Model(decide), places=here.folders) as recorder:
        here.run(CODEX, recorder.port)
    assert here.files()["got.txt"] == "got hello\n"
    with ReplayGateway(tape, places=there.folders) as player:
        there.run(CODEX, player.port)
    assert player.replay.mismatch == ""
    assert there.files() == here.files()


def test_a_stream_that_was_cut_and_the_fallback_after_it_are_played(
    agent_folders: tuple[AgentFolder, AgentFolder], tmp_path: Path
) -> None:
    here, there = agent_folders
    tape = tmp_path / "tape.jsonl"
    scenario = '[[call]]\nsay = "so far"\ncut = true\n[[call]]\nsay = "Second try."\n'
    with RecordingGateway(tape, make_script_upstream(scenario), places=here.folders) as recorder:
        here.run(CLAUDE, recorder.port)
    with ReplayGateway(tape, places=there.folders) as player:
        said = there.run(CLAUDE, player.port)
    assert player.replay.mismatch == ""
    assert "Second try." in said
    assert [call.problem for call in player.calls_so_far()] == ["cut", ""]


def test_an_overloaded_provider_and_the_answer_after_it_are_played(
    agent_folders: tuple[AgentFolder, AgentFolder], tmp_path: Path
) -> None:
    here, there = agent_folders
    tape = tmp_path / "tape.jsonl"
    scenario = '[[call]]\nfail = {status = 529}\n[[call]]\nsay = "Second try."\n'
    env = {"CLAUDE_CODE_MAX_RETRIES": "2"}
    with RecordingGateway(tape, make_script_upstream(scenario), places=here.folders) as recorder:
        here.run(CLAUDE, recorder.port, env=env)
    with ReplayGateway(tape, places=there.folders) as player:
        said = there.run(CLAUDE, player.port, env=env)
    assert player.replay.mismatch == ""
    assert "Second try." in said
    assert [call.status for call in player.calls_so_far()] == [529, 200]


def replay_events(output: str, room: AgentFolder, style: str) -> list[Any]:
    """The events that inspan makes of what an agent printed, without what is different each time."""
    header = Header(recording=1, agent=style.partition(" ")[0], agent_version="", channel="stream", inspan="", task={})
    exited = Exit(exit=0, signal=None)
    events = play(Recording(header=header, out=output.encode().split(b"\n"), err=[], exit=exited))
    return [plain(msgspec.to_builtins(event), PathPlaceholders(room.folders)) for event in events]


def plain(value: Any, places: PathPlaceholders) -> Any:
    if isinstance(value, dict):
        return {key: plain(item, places) for key, item in cast(dict[str, Any], value).items()}
    if isinstance(value, list):
        return [plain(item, places) for item in cast(list[Any], value)]
    return normalize_text(places.to_placeholders(value), is_result=True) if isinstance(value, str) else value
