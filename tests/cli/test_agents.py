"""`agents`, `doctor` and `demo`: what is there, how to get what is not, and what a newcomer sees first."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inspan import __version__
from inspan.agents.modules import agent_names
from inspan.agents.registry import find_driver
from inspan.protocol.ids import make_short_name
from tests.cli_env import CliEnv
from tests.package_index import index_environment

from .conftest import BareCliEnv
from .refusal import expect_refusal
from .scenarios import SAYS_HELLO

# Nothing can be had from an index here: the port is closed, and no cache is in reach.
NO_INDEX = {
    "UV_OFFLINE": "1",
    "UV_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_RETRIES": "0",
}
INSTALL_S = 300.0


def findings(cli_env: CliEnv, *, code: int, env: dict[str, str] | None = None) -> dict[str, dict[str, Any]]:
    done = cli_env.inspan("doctor", "--json", env=env)
    assert (done.returncode, done.stderr) == (code, "")
    value = json.loads(done.stdout)
    assert value["schema"] == 1
    return {each["subject"]: each for each in value["findings"]}


def test_agents_are_listed_with_version_and_program(readonly_env: CliEnv) -> None:
    done = readonly_env.inspan("agents")
    assert (done.returncode, done.stderr) == (0, "")
    head, *rows, last = done.stdout.splitlines()
    assert head.split() == ["AGENT", "VERSION", "MODES", "SESSIONS", "SCHEMA", "SERVERS", "CHANNELS", "TITLE"]
    listed = {row.split()[0]: re.split(r"  +", row) for row in rows}
    version = find_driver("codex").program.install.version
    modes, sessions, channels = "exec review complete", "resume fork", "stream rpc acp sdk"
    assert listed["codex"] == ["codex", version, modes, sessions, "yes", "stdio http", channels, "Codex"]
    assert [listed[name][1] for name in ("scripted", "xai", "acp:COMMAND")] == [__version__, "API", "-"]
    assert list(listed) == [f"{name}:COMMAND" if find_driver(name).family else name for name in agent_names()]
    assert last.startswith("default: claude · ")


def test_an_agent_is_shown_with_its_notes_and_what_it_cannot_do(readonly_env: CliEnv) -> None:
    found = find_driver("codex")
    done = readonly_env.inspan("agents", "show", "codex")
    assert (done.returncode, done.stderr) == (0, "")
    head, *lines = done.stdout.splitlines()
    assert head == f"Codex (codex) {found.program.install.version} · {readonly_env.env['INSPAN_CODEX_BIN']}"
    assert "  keys: CODEX_API_KEY, OPENAI_API_KEY, CODEX_ACCESS_TOKEN" in lines
    assert "  instructions: AGENTS.md" in lines
    assert f"  max turns: {found.capabilities.max_turns}. {found.capabilities.notes['max_turns']}" in lines
    assert [line for line in lines if line.startswith("  cannot ")] == [
        f"  cannot {name.replace('_', ' ')}: {reason}" for name, reason in found.trials.unsupported_scenarios.items()
    ]


def test_an_agent_that_is_not_there_cannot_be_shown(readonly_env: CliEnv) -> None:
    refusal = expect_refusal(readonly_env, "agents", "show", "codx")
    assert (refusal.exit_code, refusal.code) == (2, "unknown_agent")
    assert "Did you mean 'codex'?" in refusal.next


def test_agents_are_listed_as_json_with_what_they_can(readonly_env: CliEnv) -> None:
    value = json.loads(readonly_env.inspan("agents", "--json").stdout)
    assert (value["schema"], [each["agent"] for each in value["agents"]]) == (1, list(agent_names()))
    reports = {each["agent"]: each["capabilities"]["reports_cost"] for each in value["agents"]}
    assert reports == {name: find_driver(name).capabilities.reports_cost for name in agent_names()}


def test_an_agent_that_cannot_be_used_is_listed_with_the_next_step(bare_cli_env: BareCliEnv) -> None:
    done = bare_cli_env.inspan("agents", "--json")
    described = {each["agent"]: each for each in json.loads(done.stdout)["agents"]}
    assert (done.returncode, described["codex"]["version"]) == (0, "-")
    assert "inspan agents install codex" in described["codex"]["program"]


def test_a_missing_agent_is_refused_with_every_place_that_was_looked_at(bare_cli_env: BareCliEnv) -> None:
    refusal = expect_refusal(bare_cli_env, "run", "do it", "-a", "codex", env={"CODEX_API_KEY": "sk-none-at-all"})
    assert (refusal.exit_code, refusal.code) == (5, "agent_missing")
    places = "PATH, inspan agents install, this Python environment"
    assert refusal.message == f"Codex was not found; looked for 'codex' in: {places}."
    assert "inspan agents install codex" in refusal.next
    assert "INSPAN_CODEX_BIN" in refusal.next


def test_an_agent_on_the_path_is_found(bare_cli_env: BareCliEnv, binaries: dict[str, str]) -> None:
    folder = bare_cli_env.root / "bin"
    folder.mkdir()
    (folder / "codex").symlink_to(binaries["INSPAN_CODEX_BIN"])
    env = {"PATH": f"{folder}:{bare_cli_env.env['PATH']}"}
    agents = json.loads(bare_cli_env.inspan("agents", "--json", env=env).stdout)["agents"]
    (described,) = [each for each in agents if each["agent"] == "codex"]
    assert described["program"] == str(folder / "codex")
    assert described["version"] == find_driver("codex").program.install.version


def test_an_agent_is_installed_into_a_folder_of_inspans_own_and_works(cli_env: CliEnv) -> None:
    del cli_env.env["INSPAN_CODEX_BIN"]
    done = cli_env.inspan("agents", "install", "codex", "--json", env=index_environment(), timeout=INSTALL_S)
    assert done.returncode == 0, done.stderr
    wanted = find_driver("codex").program.install
    folder = cli_env.root / "data" / "inspan" / "agents" / "codex"
    program = str(folder / wanted.version / wanted.program)
    told = {"schema": 1, "agent": "codex", "version": wanted.version, "program": program}
    assert json.loads(done.stdout) == told
    assert os.listdir(folder) == [wanted.version]
    again = cli_env.inspan("agents", "install", "codex", env=index_environment(), timeout=INSTALL_S)
    assert (again.returncode, again.stdout) == (0, f"codex {wanted.version} at {program}\n")
    assert findings(cli_env, code=0)["agent codex"]["detail"].startswith(f"Codex {wanted.version} at {program} ")
    assert cli_env.run("codex", SAYS_HELLO).stdout == "hello\n"


def test_an_agent_that_cannot_be_fetched_leaves_nothing_half_installed(cli_env: CliEnv) -> None:
    done = cli_env.inspan("agents", "install", "codex", "--json", env=NO_INDEX)
    error = json.loads(done.stderr)["error"]
    assert (done.returncode, done.stdout, error["code"]) == (5, "", "agent_missing")
    assert find_driver("codex").program.install.requirement in error["message"]
    assert "INSPAN_CODEX_BIN" in error["next"]
    left = [path for path in (cli_env.root / "data").rglob("*") if not path.is_dir()]
    assert left == []
    assert list((cli_env.root / "data").glob("inspan/agents/codex/*")) == []


def test_a_failed_install_keeps_the_one_that_was_there(cli_env: CliEnv) -> None:
    wanted = find_driver("codex").program.install
    program = cli_env.root / "data" / "inspan" / "agents" / "codex" / wanted.version / wanted.program
    program.parent.mkdir(parents=True)
    program.write_text("the old one")
    assert cli_env.inspan("agents", "install", "codex", env=NO_INDEX).returncode == 5
    assert program.read_text() == "the old one"


def test_an_install_into_a_folder_that_cannot_be_made_is_refused(cli_env: CliEnv) -> None:
    (cli_env.root / "data" / "inspan").write_text("a file")
    refusal = expect_refusal(cli_env, "agents", "install", "codex")
    assert (refusal.exit_code, refusal.code) == (5, "agent_missing")
    assert str(cli_env.root / "data" / "inspan") in refusal.message
    assert "XDG_DATA_HOME" in refusal.next


def test_the_built_in_agent_needs_no_install(cli_env: CliEnv) -> None:
    done = cli_env.inspan("agents", "install", "scripted", env=NO_INDEX)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("scripted ")


def test_doctor_finds_a_house_with_agents_usable(readonly_env: CliEnv) -> None:
    found = findings(readonly_env, code=0, env={"XDG_STATE_HOME": str(readonly_env.root / "cache" / "state")})
    assert found["folder state"]["state"] == "ok"
    assert found["agent codex"]["state"] == "warning"
    assert "no key and no login" in found["agent codex"]["detail"]
    assert "CODEX_API_KEY" in found["agent codex"]["next_step"]


def test_doctor_names_keys_and_never_shows_them(cli_env: CliEnv) -> None:
    env = {"ANTHROPIC_API_KEY": "sk-ant-0123456789abcdef", "CODEX_API_KEY": "sk-0123456789abcdef"}
    done = cli_env.inspan("doctor", env=env)
    assert done.returncode == 0
    assert "key in ANTHROPIC_API_KEY" in done.stdout
    assert "key in CODEX_API_KEY" in done.stdout
    assert "0123456789" not in done.stdout + done.stderr


def test_doctor_without_any_agent_says_what_to_install(bare_cli_env: BareCliEnv) -> None:
    found = findings(bare_cli_env, code=5)
    assert {found[f"agent {name}"]["state"] for name in ("claude", "codex")} == {"problem"}
    assert "inspan agents install claude" in found["agent claude"]["next_step"]
    assert found["agent scripted"]["state"] == "ok"


def test_doctor_names_a_state_folder_that_cannot_be_used(cli_env: CliEnv) -> None:
    cli_env.state.write_text("a file")
    done = cli_env.inspan("doctor")
    assert done.returncode != 0
    assert f"✘ folder state: Cannot use {cli_env.state}" in done.stdout
    assert "→ Check its owner" in done.stdout


def test_the_demo_turns_a_red_test_green_with_the_real_agent(cli_env: CliEnv) -> None:
    on_the_path = {"PATH": f"{os.path.dirname(sys.executable)}:{cli_env.env['PATH']}"}
    done, left = _demo(cli_env, env=on_the_path)
    assert done.returncode == 0, done.stdout + done.stderr
    _in_order(
        done.stdout,
        "FAILED (failures=1)",
        "Codex at work (real program, SCRIPTED model",
        "✔ completed in ",
        "+    return first + second",
        "the tests again",
        "\nOK\n",
        "red → green",
        "cost: not paid",
        f"next: `inspan show {make_short_name(cli_env.folder().name)}` ",
    )
    assert left == []


def test_the_demo_keeps_its_repository_when_asked(cli_env: CliEnv) -> None:
    done, left = _demo(cli_env, "--keep", "-a", "scripted")
    assert done.returncode == 0
    assert f"kept: {left[0]}\n" in done.stdout
    assert "first + second" in (left[0] / "basket.py").read_text()


def test_the_demo_without_any_agent_uses_the_built_in_one_and_says_so(bare_cli_env: BareCliEnv) -> None:
    done, left = _demo(bare_cli_env, env=NO_INDEX)
    assert done.returncode == 0, done.stdout + done.stderr
    _in_order(
        done.stdout, "installing Codex", "this is the BUILT-IN SCRIPTED AGENT, not Codex", "at work", "red → green"
    )
    assert "could not be installed" in done.stderr
    assert "real program" not in done.stdout
    assert left == []


def test_the_demo_does_not_install_what_was_named_wrongly(cli_env: CliEnv) -> None:
    done, _ = _demo(cli_env, env={"INSPAN_CODEX_BIN": "/nonexistent/codex"})
    assert done.returncode == 0
    assert "INSPAN_CODEX_BIN names /nonexistent/codex, which does not exist." in done.stderr
    assert "installing" not in done.stdout
    assert "BUILT-IN SCRIPTED AGENT" in done.stdout


@pytest.mark.parametrize("name", ["cdex", "zzz"])
def test_the_demo_of_an_unknown_agent_is_refused(readonly_env: CliEnv, name: str) -> None:
    done = readonly_env.inspan("demo", "-a", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"agent '{name}': unknown agent." in done.stderr


def _demo(
    cli_env: CliEnv, *arguments: str, env: dict[str, str] | None = None
) -> tuple[subprocess.CompletedProcess[str], list[Path]]:
    """What the demo said, and what it left of its repository."""
    temporary = cli_env.root / "tmp"
    temporary.mkdir()
    done = cli_env.inspan("demo", *arguments, env={"TMPDIR": str(temporary), **(env or {})})
    return done, list(temporary.glob("inspan-demo-*"))


def _in_order(text: str, *words: str) -> None:
    place = 0
    for each in words:
        place = text.find(each, place)
        assert place >= 0, (each, text)
