"""Agents that are spoken with as they work: a puppet of the protocol, for what the real ones cannot be made to show."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inspan.api.in_process import run_in_process
from inspan.protocol.task import Task
from tests.cli_env import CliEnv, processes_of

from .fake_agent import wait_for_event

Fake = Callable[[str, str], str]

# What every puppet can do; the test's own lines follow. Its prompt is in `prompt`.
_PRELUDE = """
import json, os, signal, sys, time
def put(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def get():
    line = sys.stdin.readline()
    return json.loads(line) if line else None
def ask(method, **params):
    put(id=method, method=method, params={"sessionId": "s", **params})
    return get()
def update(told, /, **fields):
    put(method="session/update", params={"sessionId": "s", "update": {"sessionUpdate": told, **fields}})
def say(text): update("agent_message_chunk", content={"type": "text", "text": text})
def end(reason="end_turn"): put(id=100, result={"stopReason": reason})
def leave(code=0):
    assert sys.stdin.read() == ""
    os._exit(code)
abilities = {"loadSession": True}
put(id=get()["id"], result={"protocolVersion": 1, "agentCapabilities": abilities, "agentInfo": {"version": "1.2.3"}})
put(id=get()["id"], result={"sessionId": "s"})
prompt = get()["params"]["prompt"]
"""


def _run(cli_env: CliEnv, fake: Fake, acts: str, *more: str) -> list[dict[str, Any]]:
    """Runs a puppet to its end; its events."""
    cli_env.inspan("run", "do it", "-a", f"acp:{fake('puppet', _PRELUDE + acts)}", "--profile", "user", *more)
    return cli_env.events()


def _verdict_of(events: list[dict[str, Any]]) -> tuple[str, str]:
    return events[-1]["outcome"], events[-1]["reason"]


def _select_events(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["kind"] == kind]


def test_a_conversation_is_told_from_its_start_to_its_end(cli_env: CliEnv, fake: Fake) -> None:
    events = _run(cli_env, fake, "say('got ' + prompt[0]['text']); end(); leave()")
    assert [event["kind"] for event in events] == [
        "run_started",
        "thread_started",
        "turn_started",
        "text_said",
        "turn_completed",
        "run_ended",
    ]
    assert events[1] == {"kind": "thread_started", "session_id": "s", "agent_version": "1.2.3"}
    assert events[3] == {"kind": "text_said", "text": "got do it"}
    assert (_verdict_of(events), events[-1]["exit_code"]) == (("completed", "done"), 0)


def test_the_same_conversation_runs_inside_a_program(
    tmp_path: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    acts = "say('here'); end(); leave()"
    agent = f"acp:{fake('puppet', _PRELUDE + acts)}"
    finished = asyncio.run(run_in_process(Task(prompt="do it", cwd=str(tmp_path), agent=agent)))
    assert finished.summary.text == "here"
    assert finished.summary.ended is not None
    assert finished.summary.ended.outcome == "completed"


def test_files_are_read_and_written_inside_the_working_folder(cli_env: CliEnv, fake: Fake) -> None:
    (cli_env.work / "old.txt").write_text("old words")
    acts = f"""
read = ask("fs/read_text_file", path={str(cli_env.work / "old.txt")!r})
ask("fs/write_text_file", path={str(cli_env.work / "new.txt")!r}, content=read["result"]["content"] + " anew")
say("done"); end(); leave()
"""
    events = _run(cli_env, fake, acts)
    assert (cli_env.work / "new.txt").read_text() == "old words anew"
    assert _select_events(events, "file_changed") == [
        {"kind": "file_changed", "path": str(cli_env.work / "new.txt"), "change": "added"}
    ]


def test_files_elsewhere_are_refused_and_the_run_goes_on(cli_env: CliEnv, fake: Fake) -> None:
    secret = cli_env.root / "secret.txt"
    secret.write_text("kept")
    acts = f"""
read = ask("fs/read_text_file", path={str(secret)!r})
wrote = ask("fs/write_text_file", path={str(secret)!r}, content="spoilt")
say(json.dumps([read["error"]["code"], wrote["error"]["code"]])); end(); leave()
"""
    events = _run(cli_env, fake, acts)
    assert [event["denied"] for event in _select_events(events, "tool_failed")] == [True, True]
    assert _select_events(events, "text_said")[0]["text"] == "[-32602, -32602]"
    assert (secret.read_text(), _verdict_of(events)) == ("kept", ("completed", "done"))


def test_the_runs_own_records_are_out_of_reach_even_inside_the_working_folder(cli_env: CliEnv, fake: Fake) -> None:
    cli_env.env["XDG_STATE_HOME"] = str(cli_env.work / "state")
    acts = f"""
import glob
(log,) = glob.glob({str(cli_env.work)!r} + "/state/inspan/projects/*/*/runs/*/events.jsonl")
say(json.dumps([ask("fs/read_text_file", path=log)["error"]["code"],
                ask("fs/write_text_file", path=log, content="")["error"]["code"]])); end(); leave()
"""
    done = cli_env.inspan(
        "run", "do it", "-a", f"acp:{fake('puppet', _PRELUDE + acts)}", "--profile", "user", "--quiet"
    )
    assert "[-32602, -32602]" in done.stdout


def test_a_review_changes_no_file(cli_env: CliEnv, fake: Fake, bubblewrap: str) -> None:
    (cli_env.work / "file.txt").write_text("as it was")
    acts = """
answer = ask("session/request_permission", toolCall={"toolCallId": "t", "title": "write", "kind": "edit"},
             options=[{"optionId": "yes", "kind": "allow_once"}, {"optionId": "no", "kind": "reject_once"}])
wrote = ask("fs/write_text_file", path=os.getcwd() + "/file.txt", content="spoilt")
try:
    open("file.txt", "w").write("spoilt")
except OSError as error:
    own = error.strerror
say(json.dumps([answer["result"]["outcome"]["optionId"], "error" in wrote, own])); end(); leave()
"""
    path = Path(fake("puppet", _PRELUDE + acts))
    cli_env.inspan("run", "do it", "-a", f"acp:{path}", "--profile", "user", "--mode", "review")
    events = cli_env.events()
    assert _select_events(events, "text_said")[0]["text"] == '["no", true, "Read-only file system"]'
    assert (cli_env.work / "file.txt").read_text() == "as it was"
    assert events[0]["sandbox"] == "bwrap"
    assert [event["denied"] for event in _select_events(events, "tool_failed")] == [True, True]


def test_a_file_of_five_megabytes_is_written_whole_and_its_frame_is_not_kept_in_the_log(
    cli_env: CliEnv, fake: Fake
) -> None:
    acts = f"""
text = "0123456789" * 500_000
update("tool_call", toolCallId="t", title="write", kind="edit", status="in_progress", rawInput={{"content": text}})
ask("fs/write_text_file", path={str(cli_env.work / "big.txt")!r}, content=text)
update("tool_call_update", toolCallId="t", status="completed", rawOutput=text,
       content=[{{"type": "diff", "path": "big.txt", "newText": text}}])
say("done"); end(); leave()
"""
    events = _run(cli_env, fake, acts)
    assert (cli_env.work / "big.txt").stat().st_size == 5_000_000
    (completed,) = _select_events(events, "tool_completed")
    (started,) = _select_events(events, "tool_started")
    assert completed["output"].startswith("[large: 5000000 bytes in large/")
    assert started["input"]["content"].startswith("[large: 5000000 bytes in large/")
    large = sorted(path.stat().st_size for path in (cli_env.folder() / "large").iterdir())
    assert large == [5_000_000, 5_000_000]
    assert _verdict_of(events) == ("completed", "done")


def test_an_agent_that_stays_when_nothing_more_will_be_said_has_done_its_work_all_the_same(
    cli_env: CliEnv, fake: Fake
) -> None:
    events = _run(cli_env, fake, "say('done'); end()\nwhile True: time.sleep(1)")
    assert _verdict_of(events) == ("completed", "done")
    assert events[-1].get("signal") or events[-1].get("exit_code")
    assert processes_of(cli_env.folder().name) == []


def test_an_agent_that_leaves_with_an_error_after_its_turn_has_done_its_work_all_the_same(
    cli_env: CliEnv, fake: Fake
) -> None:
    events = _run(cli_env, fake, "say('done'); end(); leave(3)")
    assert (_verdict_of(events), events[-1]["exit_code"]) == (("completed", "done"), 3)


@pytest.mark.parametrize("code", [0, 1])
def test_an_agent_that_leaves_within_its_turn_has_not_finished(cli_env: CliEnv, fake: Fake, code: int) -> None:
    events = _run(cli_env, fake, f"say('half a'); sys.exit({code})")
    assert _select_events(events, "text_said") == [{"kind": "text_said", "text": "half a"}]
    assert _verdict_of(events) == ("failed", "crashed")


def test_an_agent_that_is_gone_when_it_is_answered_is_no_crash_of_ours(cli_env: CliEnv, fake: Fake) -> None:
    acts = """
os.close(0)
for number in range(200): put(id=number, method="fs/read_text_file", params={"path": "none.txt"})
os._exit(7)
"""
    events = _run(cli_env, fake, acts)
    assert (_verdict_of(events), events[-1]["exit_code"]) == (("failed", "crashed"), 7)


def test_an_agent_that_asks_and_never_listens_is_ended(cli_env: CliEnv, fake: Fake) -> None:
    (cli_env.work / "large.txt").write_text("x" * 9_000_000)
    acts = """
for number in range(20): put(id=number, method="fs/read_text_file", params={"path": "large.txt"})
while True: time.sleep(1)
"""
    events = _run(cli_env, fake, acts)
    assert _verdict_of(events) == ("failed", "crashed")
    assert "is not reading its input" in events[-1]["message"]


def test_a_cancelled_agent_is_told_so_in_its_own_words(cli_env: CliEnv, fake: Fake) -> None:
    acts = """
say("working")
told = get()
open("told.json", "w").write(json.dumps(told))
end("cancelled")
leave()
"""
    path = fake("puppet", _PRELUDE + acts)
    started = cli_env.inspan("run", "do it", "-d", "-a", f"acp:{path}", "--profile", "user")
    run_id = started.stdout.strip()
    wait_for_event(cli_env, run_id, "turn_started")
    cli_env.inspan("stop", run_id)
    cli_env.inspan("wait", run_id)
    events = cli_env.events(run_id)
    assert (_verdict_of(events), events[-1]["exit_code"]) == (("cancelled", "stopped"), 0)
    assert json.loads((cli_env.work / "told.json").read_text()) == {
        "jsonrpc": "2.0",
        "method": "session/cancel",
        "params": {"sessionId": "s"},
    }


def test_an_agent_that_ignores_its_cancellation_is_ended_step_by_step(cli_env: CliEnv, fake: Fake) -> None:
    acts = """
for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)
say("working")
while True: time.sleep(1)
"""
    events = _run(cli_env, fake, acts, "--timeout", "1")
    assert _verdict_of(events) == ("timed_out", "run_timeout")
    assert processes_of(cli_env.folder().name) == []


def test_a_banner_before_the_first_frame_is_kept_and_harms_nothing(cli_env: CliEnv, fake: Fake) -> None:
    prelude = "print('Update available: 2.0', flush=True)\n" + _PRELUDE
    path = fake("puppet", prelude + "say('done'); end(); leave()")
    cli_env.inspan("run", "do it", "-a", f"acp:{path}", "--profile", "user")
    events = cli_env.events()
    assert _select_events(events, "unrecognized")[0]["raw"] == "Update available: 2.0"
    assert _verdict_of(events) == ("completed", "done")


def test_a_secret_that_the_agent_says_stands_in_no_file_of_the_run(cli_env: CliEnv, fake: Fake) -> None:
    secret = "sk-planted-0123456789abcdef"
    acts = f"""
first, second = {secret[:10]!r}, {secret[10:]!r}
say("it is " + first); say(second + ".")
update("tool_call", toolCallId="t", title="read", kind="read", rawInput={{"a": first + second}})
update("tool_call_update", toolCallId="t", status="completed", rawOutput=first + second)
print(first + second, file=sys.stderr)
end(); leave()
"""
    cli_env.inspan(
        "run",
        "do it",
        "-a",
        f"acp:{fake('puppet', _PRELUDE + acts)}",
        "--profile",
        "user",
        "--env",
        f"MY_API_KEY={secret}",
    )
    leaking = [path for path in cli_env.folder().rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert leaking == []
    assert len(_select_events(cli_env.events(), "tool_completed")) == 1
    assert _verdict_of(cli_env.events()) == ("completed", "done")


def test_an_old_session_is_loaded_by_its_run(cli_env: CliEnv, fake: Fake) -> None:
    prelude = _PRELUDE.replace(
        'put(id=get()["id"], result={"sessionId": "s"})',
        'opened = get(); put(id=opened["id"], result={"sessionId": "s"})',
    )
    path = fake("puppet", prelude + "say(opened['method']); end(); leave()")
    cli_env.inspan("run", "do it", "-a", f"acp:{path}", "--profile", "user")
    first = cli_env.folder().name
    done = cli_env.inspan("run", "go on", "-a", f"acp:{path}", "--profile", "user", "--resume", first, "--quiet")
    assert done.stdout.strip() == "session/load"


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("acp:", "there is no command"),
        ("acp:'unclosed", "no command line"),
        ("acp:./agent", "is a path within some folder"),
        ("acp:/nowhere/agent --acp", "was not found"),
        ("acp:no-such-agent", "was not found"),
    ],
)
def test_a_command_that_starts_nothing_is_refused_before_anything_is_written(
    cli_env: CliEnv, agent: str, words: str
) -> None:
    done = cli_env.inspan("run", "do it", "-a", agent, "--profile", "user")
    assert words in done.stderr
    assert not (cli_env.state / "projects").exists()


def test_a_recorded_conversation_is_played_back_to_the_same_events(cli_env: CliEnv, fake: Fake) -> None:
    acts = f"""
update("available_commands_update", availableCommands=[{{"name": "x", "description": "long words"}}])
update("tool_call", toolCallId="t", title="write", kind="edit", status="in_progress", rawInput={{"path": "a"}})
ask("fs/write_text_file", path={str(cli_env.work / "a")!r}, content="x")
update("tool_call_update", toolCallId="t", status="completed",
       content=[{{"type": "diff", "path": {str(cli_env.work / "a")!r}, "newText": "x"}}])
say("done"); end()
while True: time.sleep(1)
"""
    events = _run(cli_env, fake, acts)
    path = cli_env.root / "recording.jsonl"
    cli_env.inspan("export", cli_env.folder().name, "-o", str(path))
    assert "long words" not in path.read_text()
    played = cli_env.inspan("play", str(path), "--json")
    again = [json.loads(line)["event"] for line in played.stdout.splitlines()]
    assert again[:-1] == events[1:-1]
    assert _verdict_of(again) == ("completed", "done")
