"""Open sessions from the command line: messages, interrupts, questions and their answers."""

import json
import re
from typing import Any

import pytest

from inspan.protocol.ids import make_short_name
from tests.agents.conversation import WAIT_STEP
from tests.cli_env import CliEnv, wait_until

_WRITE = '[[call]]\nrun = "echo hi > made.txt"\n'
_SAYS = '[[call]]\nsay = "Good."\nrepeat = "always"\n'


def _scenario(cli_env: CliEnv, text: str) -> str:
    path = cli_env.root / "talk.toml"
    path.write_text(text)
    return f"script:{path}"


def _open(cli_env: CliEnv, scenario: str, *more: str, agent: str = "claude", prompt: str = "hello") -> str:
    """Opens a session in the background, and waits until its first message has ended."""
    source = _scenario(cli_env, scenario)
    argv = ["run", prompt, "-a", agent, "--profile", "clean", "--model-from", source, "--open", "-d", *more]
    done = cli_env.inspan(*argv)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _wait_for(cli_env: CliEnv, run_id: str, kind: str, count: int = 1) -> None:
    path = cli_env.folder(run_id) / "events.jsonl"
    wait_until(lambda: path.exists() and path.read_text().count(f'"kind":"{kind}"') >= count, kind)


def _open_questions(cli_env: CliEnv) -> list[dict[str, Any]]:
    return json.loads(cli_env.inspan("approvals", "--json").stdout)["questions"]


@pytest.mark.parametrize("channel", [(), ("--channel", "sdk")], ids=["usual", "sdk"])
@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_session_takes_messages_until_it_is_closed(cli_env: CliEnv, agent: str, channel: tuple[str, ...]) -> None:
    scenario = '[[call]]\nsay = "Morning."\n[[call]]\nexpect_anywhere = "hello"\nsay = "You said hello."\n'
    run_id = _open(cli_env, scenario, *channel, agent=agent)
    sent = cli_env.inspan("send", run_id[:-2], "what did I say?")
    assert (sent.returncode, sent.stdout) == (0, "You said hello.\n"), sent.stderr
    assert cli_env.inspan("close", run_id).stdout == f"{run_id} completed\n"
    late = cli_env.inspan("send", run_id, "still there?")
    assert late.returncode == 1
    assert f"inspan chat --resume {run_id}" in late.stderr
    assert cli_env.inspan("show", run_id).returncode == 0


def test_run_keeps_a_session_open_and_says_so(cli_env: CliEnv) -> None:
    argv = ["run", "hello", "-a", "claude", "--profile", "clean", "--model-from", _scenario(cli_env, _SAYS), "--open"]
    done = cli_env.inspan(*argv)
    assert (done.returncode, done.stdout) == (0, "Good.\n"), done.stderr
    (run_id,) = re.findall(r"session (\S+) is open", done.stderr)
    waits = cli_env.inspan("send", run_id, "again", "--no-wait", "--json")
    assert json.loads(waits.stdout)["run_id"] == run_id
    _wait_for(cli_env, run_id, "message_ended", 2)
    assert cli_env.inspan("close", run_id, "--json").returncode == 0


def test_a_turn_is_interrupted_and_the_session_goes_on(cli_env: CliEnv) -> None:
    run_id = _open(cli_env, f"[[call]]\n{WAIT_STEP}\n{_SAYS}")
    wait_until((cli_env.work / "started").exists, "tool")
    refused = cli_env.inspan("send", run_id, "now", "--refuse")
    assert (refused.returncode, "a turn is running" in refused.stderr) == (1, True)
    both = cli_env.inspan("send", run_id, "now", "--refuse", "--steer")
    assert (both.returncode, "--steer is given too" in both.stderr) == (2, True)
    assert cli_env.inspan("interrupt", run_id).stdout == f"{run_id} interrupted\n"
    assert cli_env.inspan("send", run_id, "go on", "-q").stdout == "Good.\n"
    again = cli_env.inspan("interrupt", run_id)
    assert (again.returncode, "no turn is running" in again.stderr) == (1, True)
    cli_env.inspan("close", run_id)


def test_a_person_allows_once_and_for_good_and_takes_it_back(cli_env: CliEnv) -> None:
    run_id = _open(cli_env, f"{_WRITE}{_SAYS}".replace('repeat = "always"', "") * 3, "--ask", "*")
    _wait_for(cli_env, run_id, "permission_asked")
    (asked,) = _open_questions(cli_env)
    assert (asked["run_id"], asked["question"]["input"]["command"]) == (run_id, "echo hi > made.txt")
    listed = cli_env.inspan("approvals").stdout
    assert asked["question"]["id"] in listed and "echo hi > made.txt" in listed
    assert make_short_name(run_id) in listed and run_id not in listed
    tail = cli_env.inspan("approve", asked["question"]["id"][-10:], "--always")
    assert (tail.returncode, "no open question" in tail.stderr) == (2, True)
    done = cli_env.inspan("approve", asked["question"]["id"][:10], "--always")
    assert done.stdout == f"{asked['question']['id']} allowed\n", done.stderr
    _wait_for(cli_env, run_id, "message_ended")
    assert cli_env.inspan("send", run_id, "again", "-q").returncode == 0  # Nobody was asked.
    assert "Bash(echo hi > made.txt)" in cli_env.inspan("approvals").stdout
    looked = cli_env.inspan("approvals", "--revoke", "Bash(echo hi > made.txt)", "--dry-run")
    assert looked.returncode == 0
    assert looked.stderr.startswith("Bash(echo hi > made.txt) would be forgotten for project ")
    assert cli_env.inspan("approvals", "--revoke", "Bash(echo hi > made.txt)").returncode == 0
    unknown = cli_env.inspan("approvals", "--revoke", "Bash(echo hi > made.txt)")
    assert (unknown.returncode, "nothing like it is kept" in unknown.stderr) == (2, True)
    twice = cli_env.inspan("approve", asked["question"]["id"])
    assert (twice.returncode, "no open question" in twice.stderr) == (2, True)
    cli_env.inspan("close", run_id)


def test_a_person_denies_and_says_why(cli_env: CliEnv) -> None:
    run_id = _open(cli_env, f'{_WRITE}[[call]]\nexpect = "not on a Sunday"\nsay = "Well."\n', "--ask", "*")
    _wait_for(cli_env, run_id, "permission_asked")
    (asked,) = _open_questions(cli_env)
    bad = cli_env.inspan("approve", asked["question"]["id"], "--input", "[1]")
    assert (bad.returncode, "it is not a JSON object" in bad.stderr) == (2, True)
    odd = cli_env.inspan("approve", asked["question"]["id"], "--answer", "yes")
    assert (odd.returncode, "it asks for a permission" in odd.stderr) == (2, True)
    denied = cli_env.inspan("deny", asked["question"]["id"], "--why", "not on a Sunday", "--json")
    assert json.loads(denied.stdout)["allowed"] is False
    _wait_for(cli_env, run_id, "message_ended")
    assert not (cli_env.work / "made.txt").exists()
    assert cli_env.inspan("close", run_id).returncode == 0
    ended = [event for event in cli_env.events(run_id) if event["kind"] == "message_ended"]
    assert (ended[0]["reason"], ended[0]["denied"]) == ("done", ["Bash"])


def test_another_input_is_done_in_place_of_the_agents_own(cli_env: CliEnv) -> None:
    run_id = _open(cli_env, f"{_WRITE}{_SAYS}", "--ask", "Bash")
    _wait_for(cli_env, run_id, "permission_asked")
    (asked,) = _open_questions(cli_env)
    changed = json.dumps({"command": "echo other > made.txt"})
    assert cli_env.inspan("approve", asked["question"]["id"], "--input", changed).returncode == 0
    _wait_for(cli_env, run_id, "message_ended")
    assert (cli_env.work / "made.txt").read_text() == "other\n"
    cli_env.inspan("close", run_id)


def test_nobody_is_there_to_answer(cli_env: CliEnv) -> None:
    source = _scenario(cli_env, f"{_WRITE}{_SAYS}")
    done = cli_env.inspan(
        *["run", "write it", "-a", "claude", "--profile", "clean", "--model-from", source, "--ask", "*"]
    )
    assert done.returncode == 3, done.stderr
    assert "nobody is there to answer" in done.stderr
    assert not (cli_env.work / "made.txt").exists()
    ended = cli_env.events()[-1]
    assert (ended["outcome"], ended["reason"]) == ("denied", "unanswered")


def test_a_channel_that_cannot_ask_is_refused_at_the_start(cli_env: CliEnv) -> None:
    argv = ["run", "x", "-a", "claude", "--profile", "clean", "--model-from", _scenario(cli_env, _SAYS)]
    for flags, words in (
        (["--ask", "*", "--channel", "stream"], "channel stream of Claude Code cannot do this"),
        (["--open", "--channel", "stream"], "channel stream of Claude Code cannot do this"),
        (["--ask", "*", "-a", "scripted"], "cannot ask before it acts"),
        (["--open", "-a", "scripted"], "agent 'scripted': Built-in scripted agent has no channel that stays open."),
        (["--answer-timeout", "-3s"], "not a duration"),
        (["--ask", ""], "it names no tool"),
        (["--ask", "("], "it names no tool"),
        (["--ask", "**"], "it names no tool"),
    ):
        done = cli_env.inspan(*argv, *flags)
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    assert list(cli_env.state.glob("projects/*/*/runs/*")) == []


def test_a_run_that_is_no_session_takes_no_messages(cli_env: CliEnv) -> None:
    source = _scenario(cli_env, f"[[call]]\n{WAIT_STEP}\n{_SAYS}")
    run_id = cli_env.inspan(
        *["run", "x", "-a", "claude", "--profile", "clean", "--model-from", source, "-d"]
    ).stdout.strip()
    wait_until((cli_env.work / "started").exists, "tool")
    done = cli_env.inspan("send", run_id, "hello")
    assert (done.returncode, "is no open session" in done.stderr) == (1, True)
    (cli_env.work / "go").touch()
    assert cli_env.inspan("wait", run_id).returncode == 0


def test_a_message_that_fails_says_so_however_quiet(cli_env: CliEnv) -> None:
    scenario = f"[[call]]\nsay = 'Morning.'\n[[call]]\nwhen = 'broken'\nfail = {{status = 529}}\n{_SAYS}"
    run_id = _open(cli_env, scenario)
    failed = cli_env.inspan("send", run_id, "broken", "-q")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.startswith("✘ failed (overloaded)")
    cli_env.inspan("close", run_id)
