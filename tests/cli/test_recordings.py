"""`record` and `replay`: what passed between inspan and an agent, kept, and played back where there is no agent."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli_env import CliEnv

from .refusal import expect_refusal, parse_refusal
from .scenarios import FAILS, SAYS_HELLO, EndedRun, release_tool, run_to_end, start_waiting_run, strip_run_note

# What inspan and its gateway tell of a run; all else is the agent's own.
OURS = {"run_started", "model_call_ended", "rate_limited", "ending_began", "run_ended"}
WORKS = """
[[call]]
think = "first the file"
write = {path = "a.txt", content = "hello"}
[[call]]
run = "echo out; echo err >&2; exit 3"
[[call]]
say = "done, and caf\u00e9 \u2028 too"
"""
LIMITED = "[[call]]\nfail = {status = 429}\n"
SECRET = "Qz7-4kP9vX2mN8bT5wR1"


def no_programs(cli_env: CliEnv) -> dict[str, str]:
    return {name: str(cli_env.root / "no-program") for name in cli_env.env if name.endswith("_BIN")}


def run_replay(cli_env: CliEnv, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """The exit code and the events of a replay in a place where no agent can be started."""
    done = cli_env.inspan("play", *arguments, "--json", env=no_programs(cli_env))
    assert done.stderr == ""
    lines = [json.loads(line) for line in done.stdout.removesuffix("\n").split("\n")]
    assert [(line["schema"], line["recording"], line["n"], line["t"]) for line in lines] == [
        (1, True, number, 0.0) for number in range(1, len(lines) + 1)
    ]
    return done.returncode, [line["event"] for line in lines]


def record(cli_env: CliEnv, *arguments: str) -> Path:
    (cli_env.work / "r.jsonl").unlink(missing_ok=True)
    done = cli_env.inspan("export", *arguments, "-o", "r.jsonl")
    assert (done.returncode, strip_run_note(done.stderr)) == (0, "")
    return cli_env.work / "r.jsonl"


@pytest.mark.parametrize("agent", ["claude", "codex", "scripted"])
@pytest.mark.parametrize(
    ("scenario", "code"), [(WORKS, 0), (FAILS, 1), (LIMITED, 1)], ids=["works", "fails", "limited"]
)
def test_a_replay_tells_what_the_run_told(cli_env: CliEnv, agent: str, scenario: str, code: int) -> None:
    run = cli_env.run(agent, scenario)
    assert run.code == code
    record(cli_env)
    replay_code, events = run_replay(cli_env, "r.jsonl")
    assert events[:-1] == [event for event in run.events if event["kind"] not in OURS] != []
    assert replay_code == code
    same = (
        "kind",
        "outcome",
        "reason",
        "message",
        "exit_code",
        "signal",
        "duration_s",
        "session_id",
        "cost_usd",
        "cost_kind",
    )
    assert [events[-1].get(name) for name in same] == [run.ended.get(name) for name in same]


def test_text_in_pieces_is_replayed_too(cli_env: CliEnv) -> None:
    # No piece ends with what could begin the run's token: that would be held back until the next one.
    run = cli_env.run("claude", "[[call]]\nsay = ['one ', 'two ', 'three.']\n", "--partial")
    record(cli_env)
    _, events = run_replay(cli_env, "r.jsonl")
    assert events[:-1] == [event for event in run.events if event["kind"] not in OURS]
    assert [event["text"] for event in events if event["kind"] == "text_delta"] == ["one ", "two ", "three."]


def test_a_run_that_was_stopped_is_stopped_in_its_replay(cli_env: CliEnv) -> None:
    run_id = start_waiting_run(cli_env)
    cli_env.inspan("stop", run_id)
    record(cli_env, run_id)
    code, events = run_replay(cli_env, "r.jsonl")
    assert (code, events[-1]["outcome"], events[-1]["reason"]) == (143, "cancelled", "stopped")


def test_a_recording_holds_no_prompt_unless_asked(cli_env: CliEnv) -> None:
    cli_env.inspan("run", "a very private wish", "-a", "scripted", "--model-from", cli_env.scenario(SAYS_HELLO))
    assert "private" not in cli_env.inspan("export").stdout
    header = json.loads(cli_env.inspan("export", "--with-prompt").stdout.splitlines()[0])
    assert header["task"] == {"prompt": "a very private wish"}


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_no_prompt_of_ours_or_of_the_vendor_is_in_what_the_agents_print(cli_env: CliEnv, agent: str) -> None:
    prompt = "a very private wish"
    model = cli_env.scenario(WORKS)
    cli_env.inspan("run", prompt, "-a", agent, "--profile", "clean", "--model-from", model)
    kept = cli_env.inspan("export").stdout
    assert prompt not in kept
    # So begin and so sound the instructions that these programs send to their models.
    assert [words for words in ("You are ", "IMPORTANT:", "system-reminder") if words in kept] == []


def test_of_servers_of_tools_only_the_names_are_kept(ended_run: EndedRun) -> None:
    cli_env, run_id = ended_run
    path = cli_env.folder(run_id) / "run.json"
    described = json.loads(path.read_text())
    described["task"]["mcp_servers"] = {"shop": {"command": "serve", "env": {"KEY": "private"}}}
    path.write_text(json.dumps({**described, "told": {"cost_usd": 0.5}}))
    header = json.loads(record(cli_env).read_text().splitlines()[0])
    assert (header["task"], header["told"]) == ({"mcp_servers": {"shop": {}}}, {"cost_usd": 0.5})
    assert run_replay(cli_env, "r.jsonl")[0] == 0


def test_a_recording_is_redacted(cli_env: CliEnv) -> None:
    (cli_env.work / "secret").write_text(SECRET)
    run = cli_env.run("scripted", "[[call]]\nrun = 'cat secret'\n" + SAYS_HELLO, env={"DEPLOY_TOKEN": SECRET})
    kept = record(cli_env).read_text()
    assert SECRET not in kept
    assert "[REDACTED:DEPLOY_TOKEN]" in kept
    assert run_replay(cli_env, "r.jsonl")[1][:-1] == [event for event in run.events if event["kind"] not in OURS]


def test_a_recording_goes_to_stdout_or_into_a_file(ended_run: EndedRun) -> None:
    cli_env, run_id = ended_run
    printed = cli_env.inspan("export", run_id[:12]).stdout
    done = cli_env.inspan("export", run_id, "-o", "r.jsonl")
    assert (cli_env.work / "r.jsonl").read_text() == printed
    lines = len(printed.splitlines()) - 2
    assert done.stdout == f"r.jsonl: {lines} lines of scripted, run {run_id}\n"
    told_json = json.loads(cli_env.inspan("export", "-o", "again.jsonl", "--json").stdout)
    assert told_json == {"schema": 1, "run_id": run_id, "file": "again.jsonl", "lines": lines}


def test_a_replay_is_called_one_and_reads_like_logs(cli_env: CliEnv) -> None:
    run_id = run_to_end(cli_env, WORKS)
    record(cli_env)
    done = cli_env.inspan("play", "r.jsonl", env=no_programs(cli_env))
    title, *lines, tokens = done.stdout.splitlines()
    version = cli_env.events(run_id)[0]["agent_version"]
    assert title == f"▶ recording r.jsonl · scripted {version} · no program is started"
    assert lines == cli_env.inspan("logs", run_id).stdout.splitlines()[2:-1]
    # The agent's own count: the gateway, whose count a run ends with, is no part of the wire.
    assert tokens.startswith("  tokens: ")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_replay_needs_no_state_folder_and_makes_none(ended_run: EndedRun) -> None:
    cli_env, _ = ended_run
    record(cli_env)
    env = {**no_programs(cli_env), "XDG_STATE_HOME": str(cli_env.root / "elsewhere")}
    assert cli_env.inspan("play", "r.jsonl", env=env).returncode == 0
    assert not (cli_env.root / "elsewhere").exists()


def test_a_strangers_recording_cannot_move_the_cursor(ended_run: EndedRun) -> None:
    cli_env, _ = ended_run
    path = record(cli_env)
    header, *rest = path.read_text().splitlines(keepends=True)
    evil = {**json.loads(header), "agent_version": "1\x1b[2J\r"}
    path.write_text(json.dumps(evil) + "\n" + "".join(rest))
    assert "\x1b" not in cli_env.inspan("play", "r.jsonl").stdout


def test_a_living_run_is_not_recorded(cli_env: CliEnv) -> None:
    run_id = start_waiting_run(cli_env)
    (cli_env.work / "r.jsonl").write_text("mine")
    refusal = parse_refusal(cli_env.inspan("export", "-o", "r.jsonl", "--json"))
    assert (refusal.exit_code, refusal.code) == (1, "run_busy")
    assert run_id in refusal.message
    assert f"inspan wait {run_id}" in refusal.next
    assert (cli_env.work / "r.jsonl").read_text() == "mine"
    release_tool(cli_env)


def test_a_run_whose_output_is_gone_is_not_recorded(ended_run: EndedRun) -> None:
    cli_env, run_id = ended_run
    stdout = cli_env.folder(run_id) / "stdout"
    stdout.unlink()
    refusal = expect_refusal(cli_env, "export", "-o", "r.jsonl")
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert str(stdout) in refusal.message
    assert f"inspan events {run_id}" in refusal.next


@pytest.mark.parametrize("name", ["work", "work/gone/r.jsonl", "full"])
def test_a_file_that_cannot_be_written_is_named(old_runs: CliEnv, name: str) -> None:
    path = "/dev/full" if name == "full" else str(old_runs.root / name)
    refusal = expect_refusal(old_runs, "export", "-o", path)
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")
    assert f"--output '{path}': it cannot be written" in refusal.message


@pytest.mark.parametrize("name", ["nosuch", "@first"])
def test_an_unknown_run_is_not_recorded(old_runs: CliEnv, name: str) -> None:
    assert expect_refusal(old_runs, "export", name).code == "run_not_found"


GOOD = '{"recording":1,"agent":"scripted","agent_version":"","channel":"stream","inspan":"0.1.0","task":{}}\n'
BAD = {
    "missing": (None, "bad_input", "No such file"),
    "truncated": (GOOD + '{"out":"x', "bad_input", "it ends at line 2"),
    "newer": ('{"recording":9}\n', "bad_input", "version 9"),
    "not a recording": ('{"type":"turn.started"}\n', "bad_input", "line 1 is not a header"),
    "unknown agent": (GOOD.replace("scripted", "scirpted"), "unknown_agent", "'scirpted'"),
    "binary": ("\x7fELF\0\0" * 5000, "bad_input", "line 1 is not a header"),
    "bad line": (GOOD + "oh\n" + '{"exit":0,"signal":null}\n', "bad_input", "line 2: "),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_replayed_is_refused_with_a_sentence(readonly_env: CliEnv, name: str) -> None:
    content, code, says = BAD[name]
    path = readonly_env.root / f"{name}.jsonl"
    if content is not None:
        path.write_text(content + ('{"exit":0,"signal":null}\n' if name == "unknown agent" else ""))
    refusal = expect_refusal(readonly_env, "play", str(path))
    assert (refusal.exit_code, refusal.code) == (2, code)
    assert says in refusal.message
    assert code != "bad_input" or str(path) in refusal.message


def test_a_folder_is_no_recording(readonly_env: CliEnv) -> None:
    refusal = expect_refusal(readonly_env, "play", str(readonly_env.work))
    assert f"recording '{readonly_env.work}': it cannot be read: Is a directory." in refusal.message


def test_a_line_of_ten_megabytes_is_replayed_and_cut_where_it_is_shown(readonly_env: CliEnv) -> None:
    path = readonly_env.root / "long.jsonl"
    said = json.dumps({"kind": "text_said", "text": "x" * 10_000_000})
    path.write_text(GOOD + json.dumps({"out": said}) + "\n" + '{"exit":0,"signal":null}\n')
    done = readonly_env.inspan("play", str(path))
    assert f"[… {10_000_000 - 50 * 1024} more bytes]" in done.stdout
    assert len(done.stdout) < 60_000
    code, events = run_replay(readonly_env, str(path))
    assert (code, len(events[0]["text"])) == (1, 10_000_000)
