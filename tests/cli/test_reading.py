"""`show`, `logs` and `events`: of ended runs, of living ones, into pipes, and never more than 50 KB of one thing."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from inspan.protocol.ids import make_short_name
from tests.cli_env import CliEnv, wait_until

from .scenarios import FAILS, SAYS_HELLO, release_tool, run_to_end, start_waiting_run, strip_run_note
from .test_tables import show_in_pty

SECRET = "Qz7-4kP9vX2mN8bT5wR1"
LIMIT_BYTES = 50 * 1024
STREAMS_BY_PIECES = "[[call]]\nsay = [{pieces}]\n"


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_show_tells_of_a_run_that_completed(old_runs: CliEnv) -> None:
    run_id = old_runs.inspan("ps", "-aq").stdout.split()[1]
    done = old_runs.inspan("show", run_id)
    assert (done.returncode, done.stderr) == (0, "")
    first, run, prompt, cwd, name, session, folder, *calls, _, answer, _, outcome, _, _ = done.stdout.splitlines()
    assert first.startswith(f"▶ scripted {old_runs.events(run_id)[0]['agent_version']} · {old_runs.work} · ")
    assert run == f"  run {make_short_name(run_id)} ({run_id}) · ends after 10m (--timeout)"
    assert (prompt, cwd, answer) == ("  prompt: do it", f"  cwd: {old_runs.work}", "hello")
    assert name == f"  name: {make_short_name(run_id)}"
    assert (session, folder) == (f"  session: {run_id}", f"  folder: {old_runs.folder(run_id)}")
    assert calls == [
        "  calls: 1 (1 main)",
        "  scripted: 1 call, 100 in, 20 cache read, 10 cache write, 7 out (3 reasoning), cost: not paid",
        "  cost: not paid · answered by a script; the agent reported none",
    ]
    assert outcome.startswith("✔ completed in ")


def test_show_gives_json(old_runs: CliEnv) -> None:
    run_id = old_runs.inspan("ps", "-aq").stdout.split()[1]
    shown = json.loads(old_runs.inspan("show", run_id, "--json").stdout)
    events = old_runs.events(run_id)
    assert shown == {
        "schema": 1,
        "run_id": run_id,
        "run": json.loads((old_runs.folder(run_id) / "run.json").read_text()),
        "name": "",
        "short": make_short_name(run_id),
        "folder": str(old_runs.folder(run_id)),
        "started": events[0],
        "ended": shown["ended"],
        "output": "hello",
        "calls": shown["calls"],
        "cost_usd": None,
        "cost_kind": "not_paid",
        "not_paid_usd": None,
        "state": None,
        "undo": [],
    }
    assert (shown["calls"]["calls"], list(shown["calls"]["models"])) == (1, ["scripted"])
    assert events[-1].items() <= shown["ended"].items()


def test_show_of_a_living_run_says_how_to_follow_it(cli_env: CliEnv) -> None:
    run_id = start_waiting_run(cli_env)
    told = cli_env.inspan("show").stdout
    assert f"still running: inspan logs -f {make_short_name(run_id)}" in told
    assert "● working: touch started" in told
    assert json.loads(cli_env.inspan("show", "--json").stdout)["ended"] is None
    release_tool(cli_env)


def test_events_are_the_log_as_json(old_runs: CliEnv) -> None:
    run_id = old_runs.inspan("ps", "-aq").stdout.split()[1]
    done = old_runs.inspan("events", run_id)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line["event"] for line in lines_of(done.stdout)] == old_runs.events(run_id)
    assert old_runs.inspan("events", run_id, "--json").stdout == done.stdout
    assert old_runs.inspan("logs", run_id, "--json").stdout == done.stdout


@pytest.mark.parametrize("follow", [(), ("-f",)], ids=["once", "follow"])
def test_events_begin_where_they_are_asked_to(old_runs: CliEnv, follow: tuple[str, ...]) -> None:
    run_id = old_runs.inspan("ps", "-aq").stdout.split()[1]
    done = old_runs.inspan("events", run_id, *follow, "--from", "3")
    assert [line["n"] for line in lines_of(done.stdout)] == list(range(3, len(old_runs.events(run_id)) + 1))


@pytest.mark.parametrize("follow", [(), ("-f",)], ids=["once", "follow"])
def test_events_from_beyond_the_end_are_none(old_runs: CliEnv, follow: tuple[str, ...]) -> None:
    run_id = old_runs.inspan("ps", "-aq").stdout.split()[1]
    done = old_runs.inspan("events", run_id, *follow, "--from", "99")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("command", ["logs", "events"])
def test_following_an_ended_run_leaves_with_its_exit_code(old_runs: CliEnv, command: str) -> None:
    failed, completed = old_runs.inspan("ps", "-aq").stdout.split()
    assert old_runs.inspan(command, "-f", completed).returncode == 0
    assert old_runs.inspan(command, "-f", failed).returncode == 1
    assert old_runs.inspan(command, failed).returncode == 0


@pytest.mark.parametrize("command", ["logs", "events"])
@pytest.mark.parametrize(("scenario", "code"), [(SAYS_HELLO, 0), (FAILS, 1)], ids=["completed", "failed"])
def test_following_a_living_run_sees_its_end(cli_env: CliEnv, command: str, scenario: str, code: int) -> None:
    wait = "[[call]]\nrun = 'touch started; while [ ! -e go ]; do sleep 0.02; done'\n"
    run_id = cli_env.detach("scripted", wait + scenario)
    follower = cli_env.start(command, "-f", run_id)
    assert follower.stdout and follower.stderr
    seen = follower.stdout.readline()
    wait_until(lambda: (cli_env.work / "started").exists(), "tool")
    assert follower.poll() is None
    release_tool(cli_env)
    out, err = follower.stdout.read(), follower.stderr.read()  # `communicate` would miss what is buffered.
    assert (follower.wait(timeout=120), err) == (code, b"")
    assert seen + out == cli_env.inspan(command, run_id).stdout.encode()


def test_logs_show_every_line_of_a_tools_output(cli_env: CliEnv) -> None:
    run = cli_env.run("scripted", "[[call]]\nrun = 'seq 1 40'\n" + SAYS_HELLO)
    assert "  … 28 more lines: inspan logs\n" in run.stderr
    assert "\n".join(f"  {number}" for number in range(1, 41)) in cli_env.inspan("logs").stdout


def test_raw_logs_are_the_agents_own_words(cli_env: CliEnv) -> None:
    run = cli_env.run("scripted", "[[call]]\nrun = 'echo $DEPLOY_TOKEN x >&2'\n" + SAYS_HELLO)
    done = cli_env.inspan("logs", "--raw")
    assert done.stdout == (cli_env.folder(run.run_id) / "stdout").read_text()
    assert done.stderr == (cli_env.folder(run.run_id) / "stderr").read_text()
    assert '{"kind": "text_said", "text": "hello"}' in done.stdout


def test_raw_logs_can_be_followed_to_the_end_of_the_run(cli_env: CliEnv) -> None:
    run_id = start_waiting_run(cli_env)
    follower = cli_env.start("logs", "--raw", "-f", run_id)
    assert follower.stdout
    seen = b""
    while b"tool_started" not in seen:
        seen += os.read(follower.stdout.fileno(), 4096)
    assert follower.poll() is None
    cli_env.inspan("stop", run_id)
    rest, err = follower.communicate(timeout=120)
    assert (follower.returncode, seen + rest) == (143, (cli_env.folder(run_id) / "stdout").read_bytes())
    assert err == (cli_env.folder(run_id) / "stderr").read_bytes()


@pytest.mark.parametrize("before_border", [1, 10, len(SECRET) - 1])
def test_a_secret_across_the_border_of_what_is_shown_is_redacted_before_the_cut(
    cli_env: CliEnv, before_border: int
) -> None:
    head = "x" * (LIMIT_BYTES - before_border)
    (cli_env.work / "big").write_text(head + SECRET + "y" * 1000)
    marker = "[REDACTED:DEPLOY_TOKEN]"
    whole = head + marker + "y" * 1000
    run = cli_env.run("scripted", "[[call]]\nrun = 'cat big'\n" + SAYS_HELLO, env={"DEPLOY_TOKEN": SECRET})
    rest = f"{len(whole) - LIMIT_BYTES} more bytes: inspan logs --whole {make_short_name(run.run_id)}"
    shown = f"  {whole[:LIMIT_BYTES]}\n  [… {rest}]\n"
    logs = cli_env.inspan("logs").stdout
    assert shown in run.stderr
    assert shown in logs
    assert all("x" + SECRET[:1] not in text for text in (run.stderr, logs))


def test_text_that_streams_in_is_cut_like_any_other(cli_env: CliEnv) -> None:
    # Each piece is under the limit, all of them are over it.
    pieces = ", ".join(f"'{letter * 20_000}'" for letter in "abcd")
    run = cli_env.run("claude", STREAMS_BY_PIECES.format(pieces=pieces), "--partial")
    shown = "a" * 20_000 + "b" * 20_000 + "c" * (LIMIT_BYTES - 40_000)
    assert run.code == 0
    assert "text_delta" in cli_env.kinds(run.run_id)
    rest = f"{80_000 - LIMIT_BYTES} more bytes: inspan logs --whole {make_short_name(run.run_id)}"
    assert f"\n{shown}\n[… {rest}]\n" in run.stderr


@pytest.fixture(scope="module")
def big_log(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, str]) -> Iterator[CliEnv]:
    """A house with a run that says more than a pipe holds, so that a writer meets the closed end."""
    made = CliEnv(tmp_path_factory.mktemp("big"), binaries=binaries)
    run_to_end(made, "[[call]]\nrun = 'head -c 45000 /dev/zero | tr \"\\\\0\" x'\nrepeat = 4\n" + SAYS_HELLO)
    yield made
    made.close()


@pytest.mark.parametrize("command", ["logs", "events", "events -f", "logs --raw", "ps -a", "show", "schema events"])
def test_a_pipe_that_closes_early_makes_no_noise(big_log: CliEnv, command: str) -> None:
    whole = big_log.inspan(*command.split())
    done = subprocess.run(
        ["sh", "-c", '"$@" | head -n 1', "sh", *big_log.argv(*command.split())],
        env=big_log.env,
        cwd=big_log.work,
        capture_output=True,
        text=True,
        check=False,
    )
    assert strip_run_note(done.stderr) == ""
    assert _strip_age(done.stdout) == _strip_age(whole.stdout.splitlines()[0] + "\n")


def _strip_age(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def test_a_closed_stdout_is_no_fault(old_runs: CliEnv) -> None:
    argv = old_runs.argv("show")
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *argv],
        env=old_runs.env,
        cwd=old_runs.work,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "broke" not in done.stderr
    assert "Traceback" not in done.stderr


def test_reading_while_the_run_writes_gives_a_whole_beginning(cli_env: CliEnv) -> None:
    run_id = cli_env.detach("scripted", "[[call]]\nrun = 'seq 1 2000'\nrepeat = 45\n" + SAYS_HELLO)
    seen = [cli_env.inspan("events", run_id)]
    while '"run_ended"' not in seen[-1].stdout:
        seen.append(cli_env.inspan("events", run_id))
    final = seen[-1].stdout
    assert [(done.returncode, done.stderr) for done in seen] == [(0, "")] * len(seen)
    assert all(final.startswith(done.stdout) for done in seen)
    assert [line["n"] for line in lines_of(final)] == list(range(1, len(cli_env.events(run_id)) + 1))


def test_the_schema_describes_every_event_that_a_run_writes(old_runs: CliEnv) -> None:
    done = old_runs.inspan("schema", "events")
    schema = json.loads(done.stdout)
    kinds = {name for each in schema["$defs"].values() for name in _kinds(each)}
    written = {kind for run_id in old_runs.inspan("ps", "-aq").stdout.split() for kind in old_runs.kinds(run_id)}
    assert (done.returncode, schema["$id"]) == (0, "inspan:events:1")
    assert written <= kinds


def _kinds(definition: dict[str, Any]) -> list[str]:
    return definition.get("properties", {}).get("kind", {}).get("enum", [])


def test_logs_show_the_beginning_of_an_output_that_lies_beside_the_log(cli_env: CliEnv) -> None:
    scenario = "[[call]]\nrun = \"seq 1 300000\"\n\n[[call]]\nsay = 'Done.'\n"
    run = cli_env.run("scripted", scenario)
    assert "[large: " in next(event["output"] for event in run.events if event["kind"] == "tool_completed")
    shown = cli_env.inspan("logs", run.run_id).stdout
    assert "\n  1\n  2\n" in shown and " more bytes: inspan logs --whole " in shown and "[large: " not in shown
    whole = cli_env.inspan("logs", "--whole", run.run_id).stdout
    assert "\n  1\n  2\n" in whole and "\n  299999\n  300000\n" in whole and "more bytes" not in whole


def test_a_long_answer_is_shown_to_the_limit_wherever_it_is_read_and_whole_where_that_is_asked_for(
    cli_env: CliEnv,
) -> None:
    said = "long " * 240_000
    run = cli_env.run("scripted", f"[[call]]\nsay = '{said}'\n")
    assert "[large: " in next(event["text"] for event in run.events if event["kind"] == "text_said")
    shown = [run.stderr, *(cli_env.inspan(*words, run.run_id).stdout for words in (["show"], ["logs"]))]
    assert [("long long" in text, "[large: " in text, "inspan logs --whole" in text) for text in shown] == [
        (True, False, True)
    ] * 3
    assert max(map(len, shown)) < 60_000
    assert said.strip() in cli_env.inspan("logs", "--whole", run.run_id).stdout
    assert json.loads(cli_env.inspan("show", "--json", run.run_id).stdout)["output"] == said


@pytest.mark.parametrize("follow", [(), ("-f",)], ids=["logs", "logs -f"])
@pytest.mark.parametrize("agent", ["scripted", "codex", "claude"])
def test_logs_tell_a_failure_once(cli_env: CliEnv, agent: str, follow: tuple[str, ...]) -> None:
    spends = "[[call]]\nrun = 'true'\n\n[[call]]\nsay = 'not reached'\n"
    assert cli_env.run(agent, spends, "--budget", "1calls").code == 6
    for told in (cli_env.inspan("logs", *follow).stdout, show_in_pty(cli_env, "logs", columns=100)):
        words = " ".join(told.split())
        assert words.count("1 model call spent, 1 model call asked for.") == 1, told
        assert words.count("✘ limited") == 1
        assert not re.search("(?m)^(!|■ ending)", told), told
