"""The provider's key stays with the gateway: no process of the agent holds it, and nothing that is written shows it."""

import ast
import http.client
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.house import House, pids, until

from .behind import (
    KEY,
    KEY_HEADER,
    KEY_VARIABLE,
    QUIET,
    TOKEN_VARIABLE,
    descendants,
    leaks,
    listed,
    looks,
    proc,
    provider,
    run_live,
    variable,
    words,
)
from .styles import CLASSIC, CLAUDE, CODE_MODE, Style, each_agent

# A shell with a child of its own, at work until the test has looked.
HOLDS = "[[call]]\nrun = 'sleep 300 & touch begun; wait'\n"
TOKEN = re.compile("[0-9a-f]{40}")
HOLDERS = {
    "clean as whoever runs the tests": ("house", "clean", CLAUDE),
    "clean as an ordinary user": ("user_house", "clean", CODE_MODE),
    "user as whoever runs the tests": ("house", "user", CLASSIC),
    "user as an ordinary user": ("user_house", "user", CLAUDE),
}


@pytest.mark.parametrize(("fixture", "profile", "style"), HOLDERS.values(), ids=HOLDERS)
def test_no_process_of_a_run_holds_the_key(
    request: pytest.FixtureRequest, fixture: str, profile: str, style: Style
) -> None:
    house: House = request.getfixturevalue(fixture)
    with provider(HOLDS, house) as asked:
        argv = words(style.agent, asked.url, "-d", *style.arguments, profile=profile)
        run_id = house.inspan(*argv, env={**QUIET, KEY_VARIABLE[style.agent]: KEY}).stdout.strip()
        until((house.work / "begun").exists, "command of the agent")
        supervisor = house.supervisor(run_id)
        family = descendants(supervisor)
        commands = [pid for pid in family if b"sleep" in proc(pid, "cmdline")]
        tokens = {variable(pid, TOKEN_VARIABLE[style.agent]) for pid in family} - {""}
        shown = {pid for pid in pids() for name in ("environ", "cmdline") if KEY.encode() in proc(pid, name)}
        (token,) = tokens
        told = [pid for pid in pids() if token.encode() in proc(pid, "cmdline")]
        known_above = token.encode() in proc(supervisor, "environ")
        assert house.inspan("kill", run_id).returncode == 0
        house.inspan("wait", run_id)
    assert commands
    assert (shown, told, known_above) == (set(), [], False)
    assert asked.calls == [KEY_HEADER[style.agent]]
    assert token not in asked.heard
    printed = looks(house)
    assert leaks([KEY], below=[house.root], printed=printed) == []
    assert leaks([token], below=[house.state / "projects"], printed=printed) == []


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
def test_a_key_reaches_the_provider_and_not_the_agent(house: House, source: Source) -> None:
    kept = Path(house.env["HOME"], "key")
    kept.write_text(KEY)
    kept.chmod(0o600)
    if source.config:
        config = Path(house.env["HOME"], ".config", "inspan", "config.toml")
        config.parent.mkdir(parents=True)
        config.write_text(f"[agents.{source.agent}]\n{source.config}\n")
    scenario = "[[call]]\nrun = 'env > env.txt; cat /proc/[0-9]*/environ > seen.txt; true'\n[[call]]\nsay = 'Done.'\n"
    with provider(scenario, house) as asked:
        run = run_live(house, source.agent, asked.url, *source.options, env=source.env)
    kept.unlink()
    assert run.verdict == ("completed", "done", 0), run.stderr
    started, seen = run.events[0], house.work / "seen.txt"
    assert started["model_from"] == "live"
    if started["containment"] == "reaper":
        seen.unlink()  # Without a namespace, a tool sees the other processes of its user, and what they hold.
    assert asked.calls == [source.arrives] * 2
    assert leaks([KEY], below=[house.root], printed=run.stdout + run.stderr + looks(house)) == []
    tokens = {value for value in listed(house.work / "env.txt").values() if TOKEN.fullmatch(value)}
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
def test_the_token_is_good_for_model_calls_and_for_nothing_else(house: House, style: Style) -> None:
    (house.work / "curious.py").write_text(CURIOUS)
    path = MODEL_PATH[style.agent]
    command = f"python3 curious.py {TOKEN_VARIABLE[style.agent]} {path}"
    scenario = f"[[call]]\nrun = '{command}'\n[[call]]\nsay = 'To a tool.'\n[[call]]\nsay = 'Done.'\n"
    with provider(scenario, house) as asked:
        run = run_live(house, style.agent, asked.url, *style.arguments)
    assert (run.verdict, run.stdout) == (("completed", "done", 0), "Done.\n"), run.stderr
    assert ast.literal_eval((house.work / "answers.txt").read_text()) == ANSWERS
    assert [visit.path.partition("?")[0].removeprefix("/v1") for visit in asked.visits] == [
        path.removeprefix("/v1")
    ] * 3
    calls = run.of("model_call_ended")
    assert [call["call"] for call in calls if "usage" in call] == [1, 2, len(calls)]


def test_two_runs_at_once_have_each_a_listener_and_a_token_of_their_own(house: House) -> None:
    hold = "[[call]]\nrun = 'env > $JRUN_ID.tmp; mv $JRUN_ID.tmp $JRUN_ID.env; until test -e go; do sleep 0.05; done'\n"
    with (
        provider(hold + "[[call]]\nsay = 'Done.'\n", house) as one,
        provider(hold + "[[call]]\nsay = 'x'\n", house) as two,
    ):
        started = [
            house.inspan(*words(agent, asked.url, "-d"), env={KEY_VARIABLE[agent]: KEY}).stdout.strip()
            for agent, asked in (("claude", one), ("codex", two))
        ]
        files = [house.work / f"{run_id}.env" for run_id in started]
        until(lambda: all(file.exists() for file in files), "both tools")
        given = zip(map(listed, files), TOKEN_VARIABLE.values(), strict=True)
        gates = [(each["BASE_URL"], each[name]) for each, name in given]
        (first, its_token), (second, another_token) = gates
        crossed = [_status(first, another_token), _status(second, its_token)]
        (house.work / "go").touch()
        ends = [house.inspan("wait", run_id).stdout for run_id in started]
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
