"""What the settings say, a run does; what the command line says, wins."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.house import House

_SAY = '[[call]]\nsay = "done"\nrepeat = "always"\n'
Fake = Callable[[str, str], str]


def _user(house: House, text: str) -> None:
    path = house.root / "home" / ".config" / "inspan" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _project(house: House, text: str, name: str = "inspan.toml") -> None:
    (house.work / name).write_text(text)


def _run(house: House, *more: str, scenario: str = _SAY, env: dict[str, str] | None = None) -> dict[str, Any]:
    """The first event of a run that is started with nothing but these words, and how it ended."""
    done = house.inspan("run", "do it", "--json", "--model-from", house.scenario(scenario), *more, env=env)
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
    house: House, user: str, project: str, local: str, variable: str, flags: tuple[str, ...], agent: str
) -> None:
    _user(house, f'[runtime]\ndefault = "{user}"\nprofile = "clean"\n')
    for name, value in (("inspan.toml", project), ("inspan.local.toml", local)):
        if value:
            _project(house, f'[runtime]\ndefault = "{value}"\n', name)
    env = {"INSPAN_RUNTIME_DEFAULT": variable} if variable else {}
    started = _run(house, *flags, env=env)
    assert (started["agent"], started["profile"], started["outcome"]) == (agent, "clean", "completed")


def test_an_alias_stands_for_a_model_and_an_agents_own_wins(house: House) -> None:
    _user(
        house,
        '[runtime]\nprofile = "clean"\n[models]\nquick = "nobody-1"\n[agents.codex.models]\nquick = "gpt-5.5"\n',
    )
    assert _run(house, "-a", "codex", "-m", "quick")["model"] == "gpt-5.5"
    assert _run(house, "-a", "scripted", "-m", "quick")["model"] == "nobody-1"
    assert _run(house, "-a", "codex", "-m", "gpt-6.1-sol")["model"] == "gpt-6.1-sol"


def test_limits_hold_unless_the_command_says_otherwise(house: House) -> None:
    _project(house, '[runtime]\ndefault = "scripted"\n[limits]\ntimeout = "1s"\n')
    slow = '[[call]]\nrun = "sleep 2"\n[[call]]\nsay = "done"\nrepeat = "always"\n'
    assert _run(house, scenario=slow)["reason"] == "run_timeout"
    assert _run(house, "--timeout", "off", scenario=slow)["reason"] == "done"


def test_a_program_is_taken_from_the_users_file_alone(house: House, fake: Fake) -> None:
    program = fake("codex", "import sys; print('codex-cli 0.163.0' if '--version' in sys.argv else 'from settings')")
    house.env.pop("INSPAN_CODEX_BIN")
    _project(house, f'[agents.codex]\nprogram = "{program}"\n')
    refused = house.inspan("run", "do it", "-a", "codex", "--profile", "clean", "--model-from", house.scenario(_SAY))
    assert refused.returncode == 2
    assert "agents.codex.program" in refused.stderr
    assert "inspan.toml" in refused.stderr
    _user(house, f'[projects]\ntrusted = ["{house.work}"]\n')
    done = house.inspan("run", "do it", "-a", "codex", "--profile", "clean", "--model-from", house.scenario(_SAY))
    assert Path(house.folder() / "stdout").read_text() == "from settings\n", done.stderr


def test_variables_and_servers_of_the_settings_reach_the_agent(house: House) -> None:
    server = house.work / "server.py"
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
        house,
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
    ended = _run(house, "-a", "codex", "--env", "WORD=of the command", scenario=scenario)
    assert (ended["outcome"], ended["message"]) == ("completed", None)


def test_a_resumed_session_keeps_its_agent_whatever_the_default_is(house: House) -> None:
    _user(house, '[runtime]\ndefault = "scripted"\nprofile = "clean"\n')
    first = _run(house, "-a", "codex")
    second = _run(house, "--resume", first["run_id"])
    assert (second["agent"], second["outcome"], second["session_id"] != "") == ("codex", "completed", True)


def test_a_bad_setting_stops_a_run_before_anything_is_written(house: House) -> None:
    _project(house, '[runtime]\ndefalt = "codex"\n')
    done = house.inspan("run", "do it", "--model-from", house.scenario(_SAY))
    assert done.returncode == 2
    assert "runtime.defalt" in done.stderr
    assert "default" in done.stderr
    assert not (house.state / "projects").exists()
