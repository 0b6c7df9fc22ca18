"""What the settings say, a run does; what the command line says, wins."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli_env import CliEnv

_SAY = '[[call]]\nsay = "done"\nrepeat = "always"\n'
Fake = Callable[[str, str], str]


def _user(cli_env: CliEnv, text: str) -> None:
    path = cli_env.root / "home" / ".config" / "inspan" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _project(cli_env: CliEnv, text: str, name: str = "inspan.toml") -> None:
    (cli_env.work / name).write_text(text)


def _run(cli_env: CliEnv, *more: str, scenario: str = _SAY, env: dict[str, str] | None = None) -> dict[str, Any]:
    """The first event of a run that is started with nothing but these words, and how it ended."""
    done = cli_env.inspan("run", "do it", "--json", "--model-from", cli_env.scenario(scenario), *more, env=env)
    events = [json.loads(line)["event"] for line in done.stdout.splitlines()]
    assert events, done.stderr
    return {**events[0], **{name: events[-1].get(name) for name in ("outcome", "reason", "message")}}


@pytest.mark.parametrize(
    ("user", "project", "local", "variable", "flags", "agent"),
    [
        ("codex", "", "", "", (), "codex"),
        ("codex", "scripted", "", "", (), "scripted"),
        ("codex", "codex", "scripted", "", (), "scripted"),
        ("codex", "codex", "codex", "scripted", (), "scripted"),
        ("codex", "codex", "codex", "codex", ("-a", "scripted"), "scripted"),
    ],
    ids=["user", "project", "local", "variable", "flag"],
)
def test_the_default_agent_comes_from_the_strongest_layer(
    cli_env: CliEnv, user: str, project: str, local: str, variable: str, flags: tuple[str, ...], agent: str
) -> None:
    _user(cli_env, f'[runtime]\ndefault = "{user}"\nprofile = "clean"\n')
    for name, value in (("inspan.toml", project), ("inspan.local.toml", local)):
        if value:
            _project(cli_env, f'[runtime]\ndefault = "{value}"\n', name)
    env = {"INSPAN_RUNTIME_DEFAULT": variable} if variable else {}
    started = _run(cli_env, *flags, env=env)
    assert (started["agent"], started["profile"], started["outcome"]) == (agent, "clean", "completed")


def test_an_alias_stands_for_a_model_and_an_agents_own_wins(cli_env: CliEnv) -> None:
    _user(
        cli_env,
        '[runtime]\nprofile = "clean"\n[models]\nquick = "nobody-1"\n[agents.codex.models]\nquick = "gpt-5.5"\n',
    )
    assert _run(cli_env, "-a", "codex", "-m", "quick")["model"] == "gpt-5.5"
    assert _run(cli_env, "-a", "scripted", "-m", "quick")["model"] == "nobody-1"
    assert _run(cli_env, "-a", "codex", "-m", "gpt-6.1-sol")["model"] == "gpt-6.1-sol"


def test_limits_hold_unless_the_command_says_otherwise(cli_env: CliEnv) -> None:
    _project(cli_env, '[runtime]\ndefault = "scripted"\n[limits]\ntimeout = "1s"\n')
    slow = '[[call]]\nrun = "sleep 2"\n[[call]]\nsay = "done"\nrepeat = "always"\n'
    assert _run(cli_env, scenario=slow)["reason"] == "run_timeout"
    assert _run(cli_env, "--timeout", "off", scenario=slow)["reason"] == "done"


def test_a_program_is_taken_from_the_users_file_alone(cli_env: CliEnv, fake: Fake) -> None:
    program = fake("codex", "import sys; print('codex-cli 0.163.0' if '--version' in sys.argv else 'from settings')")
    cli_env.env.pop("INSPAN_CODEX_BIN")
    _project(cli_env, f'[agents.codex]\nprogram = "{program}"\n')
    refused = cli_env.inspan(
        "run", "do it", "-a", "codex", "--profile", "clean", "--model-from", cli_env.scenario(_SAY)
    )
    assert refused.returncode == 2
    assert "agents.codex.program" in refused.stderr
    assert "inspan.toml" in refused.stderr
    _user(cli_env, f'[projects]\ntrusted = ["{cli_env.work}"]\n')
    done = cli_env.inspan("run", "do it", "-a", "codex", "--profile", "clean", "--model-from", cli_env.scenario(_SAY))
    assert Path(cli_env.folder() / "stdout").read_text() == "from settings\n", done.stderr


def test_variables_and_servers_of_the_settings_reach_the_agent(cli_env: CliEnv) -> None:
    server = cli_env.work / "server.py"
    server.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    given = {'initialize': {'protocolVersion': '2025-06-18', 'capabilities': {'tools': {}},\n"
        "        'serverInfo': {'name': 's', 'version': '1'}},\n"
        "        'tools/list': {'tools': [{'name': 'greet', 'inputSchema': {'type': 'object'}}]},\n"
        "        'tools/call': {'content': [{'type': 'text', 'text': 'good morning'}]}}.get(asked.get('method'), {})\n"
        "    if 'id' in asked:\n"
        "        print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'result': given}), flush=True)\n"
    )
    _user(
        cli_env,
        f'[runtime]\nprofile = "clean"\n[agents.codex.env]\nWORD = "of the settings"\nOTHER = "kept"\n'
        f'[mcp.polite]\ncommand = "python3"\nargs = ["{server}"]\n',
    )
    scenario = """
[[call]]
run = "echo $WORD, $OTHER"
[[call]]
expect = "of the command, kept"
use = {tool = "mcp__polite__greet"}
[[call]]
expect = "good morning"
say = "done"
"""
    ended = _run(cli_env, "-a", "codex", "--env", "WORD=of the command", scenario=scenario)
    assert (ended["outcome"], ended["message"]) == ("completed", None)


def test_a_resumed_session_keeps_its_agent_whatever_the_default_is(cli_env: CliEnv) -> None:
    _user(cli_env, '[runtime]\ndefault = "scripted"\nprofile = "clean"\n')
    first = _run(cli_env, "-a", "codex")
    second = _run(cli_env, "--resume", first["run_id"])
    assert (second["agent"], second["outcome"], second["session_id"] != "") == ("codex", "completed", True)


def test_a_bad_setting_stops_a_run_before_anything_is_written(cli_env: CliEnv) -> None:
    _project(cli_env, '[runtime]\ndefalt = "codex"\n')
    done = cli_env.inspan("run", "do it", "--model-from", cli_env.scenario(_SAY))
    assert done.returncode == 2
    assert "runtime.defalt" in done.stderr
    assert "default" in done.stderr
    assert not (cli_env.state / "projects").exists()
