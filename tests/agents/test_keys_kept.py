"""The provider's key stays with the gateway: no process of the agent holds it, and nothing that is written shows it."""

import ast
import http.client
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cli_env import CliEnv, list_pids, wait_until

from .gateway_runs import (
    KEY,
    KEY_HEADER,
    KEY_VARIABLE,
    QUIET,
    TOKEN_VARIABLE,
    build_argv,
    collect_output,
    descendants,
    find_leaks,
    make_provider,
    parse_variables,
    read_proc,
    read_variable,
    run_live,
)
from .styles import CLASSIC, CLAUDE, CLAUDE_SDK, CODE_MODE, CODEX_SDK, Style, each_agent

# A shell with a child of its own, at work until the test has looked.
HOLDS = "[[call]]\nrun = 'sleep 300 & touch begun; wait'\n"
TOKEN = re.compile("[0-9a-f]{40}")
HOLDERS = {
    "clean as whoever runs the tests": ("cli_env", "clean", CLAUDE),
    "clean as an ordinary user": ("user_cli_env", "clean", CODE_MODE),
    "user as whoever runs the tests": ("cli_env", "user", CLASSIC),
    "user as an ordinary user": ("user_cli_env", "user", CLAUDE),
    "by an SDK, clean": ("cli_env", "clean", CODEX_SDK),
    "by an SDK, as an ordinary user": ("user_cli_env", "user", CLAUDE_SDK),
}


@pytest.mark.parametrize(("fixture", "profile", "style"), HOLDERS.values(), ids=HOLDERS)
def test_no_process_of_a_run_holds_the_key(
    request: pytest.FixtureRequest, fixture: str, profile: str, style: Style
) -> None:
    cli_env: CliEnv = request.getfixturevalue(fixture)
    with make_provider(HOLDS, cli_env) as asked:
        argv = build_argv(style.agent, asked.url, "-d", *style.arguments, profile=profile)
        run_id = cli_env.inspan(*argv, env={**QUIET, KEY_VARIABLE[style.agent]: KEY}).stdout.strip()
        wait_until((cli_env.work / "begun").exists, "command of the agent")
        supervisor = cli_env.supervisor(run_id)
        family = descendants(supervisor)
        commands = [pid for pid in family if b"sleep" in read_proc(pid, "cmdline")]
        tokens = {read_variable(pid, TOKEN_VARIABLE[style.agent]) for pid in family} - {""}
        # Another test may use the same key at the same time, elsewhere.
        ours = [pid for pid in list_pids() if str(cli_env.root).encode() in read_proc(pid, "environ")]
        shown = {pid for pid in ours for name in ("environ", "cmdline") if KEY.encode() in read_proc(pid, name)}
        (token,) = tokens
        told = [pid for pid in list_pids() if token.encode() in read_proc(pid, "cmdline")]
        known_above = token.encode() in read_proc(supervisor, "environ")
        assert cli_env.inspan("kill", run_id).returncode == 0
        cli_env.inspan("wait", run_id)
    assert commands
    assert supervisor in ours
    assert (shown, told, known_above) == (set(), [], False)
    assert asked.calls == [KEY_HEADER[style.agent]]
    assert token not in asked.heard
    printed = collect_output(cli_env)
    assert find_leaks([KEY], below=[cli_env.root], printed=printed) == []
    assert find_leaks([token], below=[cli_env.state / "projects"], printed=printed) == []


@dataclass(frozen=True, kw_only=True)
class Source:
    """A way in which a key comes to a run of an agent, and the header in which it has to arrive.

    One of them the agent itself keeps from its tools, and the token with it.
    """

    agent: str
    env: dict[str, str]
    header: str
    options: tuple[str, ...] = ()
    config: str = ""
    kept_from_tools: bool = False

    @property
    def arrives(self) -> dict[str, str]:
        return {self.header: KEY if self.header == "x-api-key" else f"Bearer {KEY}"}


SOURCES = {
    "ANTHROPIC_API_KEY": Source(agent="claude", env={"ANTHROPIC_API_KEY": KEY}, header="x-api-key"),
    "ANTHROPIC_AUTH_TOKEN": Source(agent="claude", env={"ANTHROPIC_AUTH_TOKEN": KEY}, header="authorization"),
    "CLAUDE_CODE_OAUTH_TOKEN": Source(
        agent="claude", env={"CLAUDE_CODE_OAUTH_TOKEN": KEY}, header="authorization", kept_from_tools=True
    ),
    "CODEX_API_KEY": Source(agent="codex", env={"CODEX_API_KEY": KEY}, header="authorization"),
    "OPENAI_API_KEY": Source(agent="codex", env={"OPENAI_API_KEY": KEY}, header="authorization"),
    "key-from env": Source(
        agent="codex", env={"WORK_KEY": KEY}, options=("--key-from", "env:WORK_KEY"), header="authorization"
    ),
    "key-from env, with the user's settings": Source(
        agent="claude",
        env={"WORK": KEY, "HEADER": f"Bearer {KEY}"},
        options=("--profile", "user", "--key-from", "env:WORK"),
        header="x-api-key",
    ),
    "key-from file": Source(agent="claude", env={}, options=("--key-from", "file:~/key"), header="x-api-key"),
    "key-from cmd": Source(agent="codex", env={}, options=("--key-from", "cmd:cat ~/key"), header="authorization"),
    "env option, claude": Source(
        agent="claude", env={}, options=("--env", f"ANTHROPIC_AUTH_TOKEN={KEY}"), header="authorization"
    ),
    "env option, codex": Source(
        agent="codex", env={}, options=("--env", f"OPENAI_API_KEY={KEY}"), header="authorization"
    ),
    "configured": Source(agent="claude", env={}, config="key_cmd = 'cat ~/key'", header="x-api-key"),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_a_key_reaches_the_provider_and_not_the_agent(cli_env: CliEnv, source: Source) -> None:
    kept = Path(cli_env.env["HOME"], "key")
    kept.write_text(KEY)
    kept.chmod(0o600)
    if source.config:
        config = Path(cli_env.env["HOME"], ".config", "inspan", "config.toml")
        config.parent.mkdir(parents=True)
        config.write_text(f"[agents.{source.agent}]\n{source.config}\n")
    scenario = "[[call]]\nrun = 'env > env.txt; cat /proc/[0-9]*/environ > seen.txt; true'\n[[call]]\nsay = 'Done.'\n"
    with make_provider(scenario, cli_env) as asked:
        run = run_live(cli_env, source.agent, asked.url, *source.options, env=source.env)
    kept.unlink()
    assert run.verdict == ("completed", "done", 0), run.stderr
    started, seen = run.events[0], cli_env.work / "seen.txt"
    assert started["model_from"] == "live"
    if started["containment"] == "reaper":
        seen.unlink()  # Without a namespace, a tool sees the other processes of its user, and what they hold.
    assert asked.calls == [source.arrives] * 2
    assert find_leaks([KEY], below=[cli_env.root], printed=run.stdout + run.stderr + collect_output(cli_env)) == []
    tokens = {value for value in parse_variables(cli_env.work / "env.txt").values() if TOKEN.fullmatch(value)}
    assert len(tokens) == (0 if source.kept_from_tools else 1)
    assert not [token for token in tokens if token in asked.heard]


# What whoever holds a run's token asks of its gateway: of model calls, of other things, and in another's name.
CURIOUS = """
import json, os, sys, urllib.error, urllib.request

def ask(method, path, token=os.environ[sys.argv[1]]):
    named = {"x-api-key": token, "authorization": f"Bearer {token}"} if token else {}
    body = json.dumps({"model": "some-model", "messages": [], "input": "hi"}).encode() if method != "GET" else None
    request = urllib.request.Request(os.environ["BASE_URL"] + path, body, named, method=method)
    try:
        return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=20).status
    except urllib.error.HTTPError as error:
        return error.code

model = sys.argv[2]
print({
    "model call": ask("POST", model),
    "files": ask("POST", "/v1/files"),
    "batches": ask("POST", model + "/batches"),
    "put": ask("PUT", model),
    "delete": ask("DELETE", "/v1/files/file-1"),
    "read": ask("GET", "/v1/files"),
    "read an answer": ask("GET", model + "/answer-1"),
    "admin": ask("GET", "/v1/organizations/api_keys"),
    "nobody": ask("POST", model, token=""),
    "somebody else": ask("POST", model, token="0" * 40),
    "somebody else reads": ask("GET", "/v1/files", token="0" * 40),
}, file=open("answers.txt", "w"))
"""
ANSWERS = {
    "model call": 200,
    **dict.fromkeys(("files", "batches", "put", "delete", "read", "read an answer", "admin"), 404),
    "nobody": 401,
    "somebody else": 401,
    "somebody else reads": 404,
}
MODEL_PATH = {"claude": "/v1/messages", "codex": "/responses"}


@each_agent
def test_the_token_is_good_for_model_calls_and_for_nothing_else(cli_env: CliEnv, style: Style) -> None:
    (cli_env.work / "curious.py").write_text(CURIOUS)
    path = MODEL_PATH[style.agent]
    command = f"python3 curious.py {TOKEN_VARIABLE[style.agent]} {path}"
    scenario = f"[[call]]\nrun = '{command}'\n[[call]]\nsay = 'To a tool.'\n[[call]]\nsay = 'Done.'\n"
    with make_provider(scenario, cli_env) as asked:
        run = run_live(cli_env, style.agent, asked.url, *style.arguments)
    assert (run.verdict, run.stdout) == (("completed", "done", 0), "Done.\n"), run.stderr
    assert ast.literal_eval((cli_env.work / "answers.txt").read_text()) == ANSWERS
    assert [visit.path.partition("?")[0].removeprefix("/v1") for visit in asked.requests] == [
        path.removeprefix("/v1")
    ] * 3
    calls = run.select_events("model_call_ended")
    assert [call["call"] for call in calls if "usage" in call] == [1, 2, len(calls)]


def test_two_runs_at_once_have_each_a_listener_and_a_token_of_their_own(cli_env: CliEnv) -> None:
    hold = "[[call]]\nrun = 'env > $JRUN_ID.tmp; mv $JRUN_ID.tmp $JRUN_ID.env; until test -e go; do sleep 0.05; done'\n"
    with (
        make_provider(hold + "[[call]]\nsay = 'Done.'\n", cli_env) as one,
        make_provider(hold + "[[call]]\nsay = 'x'\n", cli_env) as two,
    ):
        started = [
            cli_env.inspan(*build_argv(agent, asked.url, "-d"), env={KEY_VARIABLE[agent]: KEY}).stdout.strip()
            for agent, asked in (("claude", one), ("codex", two))
        ]
        files = [cli_env.work / f"{run_id}.env" for run_id in started]
        wait_until(lambda: all(file.exists() for file in files), "both tools")
        given = zip(map(parse_variables, files), TOKEN_VARIABLE.values(), strict=True)
        gates = [(each["BASE_URL"], each[name]) for each, name in given]
        (first, its_token), (second, another_token) = gates
        crossed = [_status(first, another_token), _status(second, its_token)]
        (cli_env.work / "go").touch()
        ends = [cli_env.inspan("wait", run_id).stdout for run_id in started]
    assert len({url for url, _ in gates}) == len({token for _, token in gates}) == 2
    assert crossed == [401, 401]
    assert ends == [f"{run_id} completed done\n" for run_id in started]
    assert [asked.calls for asked in (one, two)] == [[KEY_HEADER[agent]] * 2 for agent in ("claude", "codex")]


def _status(url: str, token: str) -> int:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
    try:
        connection.request("POST", "/v1/messages", b"{}", {"x-api-key": token})
        return connection.getresponse().status
    finally:
        connection.close()
