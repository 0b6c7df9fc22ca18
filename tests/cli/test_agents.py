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
from inspan.engine.registry import agent_names, driver
from tests.house import House
from tests.index import index

from .conftest import BareHouse
from .refusal import refusal_of
from .scenes import SAYS_HELLO

# Nothing can be had from an index here: the port is closed, and no cache is in reach.
NO_INDEX = {
    "UV_OFFLINE": "1",
    "UV_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_RETRIES": "0",
}
INSTALL_S = 300.0


def findings(house: House, *, code: int, env: dict[str, str] | None = None) -> dict[str, dict[str, Any]]:
    done = house.inspan("doctor", "--json", env=env)
    assert (done.returncode, done.stderr) == (code, "")
    value = json.loads(done.stdout)
    assert value["schema"] == 1
    return {each["subject"]: each for each in value["findings"]}


def test_agents_are_listed_with_version_and_program(untouched: House) -> None:
    done = untouched.inspan("agents")
    assert (done.returncode, done.stderr) == (0, "")
    head, *rows, last = done.stdout.splitlines()
    assert head.split() == ["AGENT", "VERSION", "MODES", "SESSIONS", "SCHEMA", "SERVERS", "CHANNELS", "TITLE"]
    listed = {row.split()[0]: re.split(r"  +", row) for row in rows}
    version = driver("codex").install.version
    modes, sessions, channels = "exec review complete", "resume fork", "stream acp"
    assert listed["codex"] == ["codex", version, modes, sessions, "yes", "stdio http", channels, "Codex"]
    assert [listed[name][1] for name in ("scripted", "xai", "acp:COMMAND")] == [__version__, "API", "-"]
    assert list(listed) == [f"{name}:COMMAND" if driver(name).family else name for name in agent_names()]
    assert last.startswith("default: claude · ")


def test_an_agent_is_shown_with_its_notes_and_what_it_cannot_do(untouched: House) -> None:
    found = driver("codex")
    done = untouched.inspan("agents", "show", "codex")
    assert (done.returncode, done.stderr) == (0, "")
    head, *lines = done.stdout.splitlines()
    assert head == f"Codex (codex) {found.install.version} · {untouched.env['INSPAN_CODEX_BIN']}"
    assert "  keys: CODEX_API_KEY, OPENAI_API_KEY, CODEX_ACCESS_TOKEN" in lines
    assert "  instructions: AGENTS.md" in lines
    assert f"  max turns: {found.capabilities.max_turns}. {found.capabilities.notes['max_turns']}" in lines
    assert [line for line in lines if line.startswith("  cannot ")] == [
        f"  cannot {name.replace('_', ' ')}: {reason}" for name, reason in found.cannot.items()
    ]


def test_an_agent_that_is_not_there_cannot_be_shown(untouched: House) -> None:
    refusal = refusal_of(untouched, "agents", "show", "codx")
    assert (refusal.exit_code, refusal.code) == (2, "unknown_agent")
    assert "Did you mean 'codex'?" in refusal.next


def test_agents_are_listed_as_json_with_what_they_can(untouched: House) -> None:
    value = json.loads(untouched.inspan("agents", "--json").stdout)
    assert (value["schema"], [each["agent"] for each in value["agents"]]) == (1, list(agent_names()))
    reports = {each["agent"]: each["capabilities"]["reports_cost"] for each in value["agents"]}
    assert reports == {name: driver(name).capabilities.reports_cost for name in agent_names()}


def test_an_agent_that_cannot_be_used_is_listed_with_the_next_step(bare_house: BareHouse) -> None:
    done = bare_house.inspan("agents", "--json")
    described = {each["agent"]: each for each in json.loads(done.stdout)["agents"]}
    assert (done.returncode, described["codex"]["version"]) == (0, "-")
    assert "inspan agents install codex" in described["codex"]["program"]


def test_a_missing_agent_is_refused_with_every_place_that_was_looked_at(bare_house: BareHouse) -> None:
    refusal = refusal_of(bare_house, "run", "do it", "-a", "codex", env={"CODEX_API_KEY": "sk-none-at-all"})
    assert (refusal.exit_code, refusal.code) == (5, "agent_missing")
    installed = bare_house.root / "data" / "inspan" / "agents" / "codex"
    for place in ("'codex'", "(PATH)", str(installed), "(this Python environment)"):
        assert place in refusal.message
    assert "inspan agents install codex" in refusal.next
    assert "INSPAN_CODEX_BIN" in refusal.next


def test_an_agent_on_the_path_is_found(bare_house: BareHouse, binaries: dict[str, str]) -> None:
    folder = bare_house.root / "bin"
    folder.mkdir()
    (folder / "codex").symlink_to(binaries["INSPAN_CODEX_BIN"])
    env = {"PATH": f"{folder}:{bare_house.env['PATH']}"}
    agents = json.loads(bare_house.inspan("agents", "--json", env=env).stdout)["agents"]
    (described,) = [each for each in agents if each["agent"] == "codex"]
    assert described["program"] == str(folder / "codex")
    assert described["version"] == driver("codex").install.version


def test_an_agent_is_installed_into_a_folder_of_inspans_own_and_works(house: House) -> None:
    del house.env["INSPAN_CODEX_BIN"]
    done = house.inspan("agents", "install", "codex", "--json", env=index(), timeout=INSTALL_S)
    assert done.returncode == 0, done.stderr
    wanted = driver("codex").install
    folder = house.root / "data" / "inspan" / "agents" / "codex"
    program = str(folder / wanted.version / wanted.program)
    told = {"schema": 1, "agent": "codex", "version": wanted.version, "program": program}
    assert json.loads(done.stdout) == told
    assert os.listdir(folder) == [wanted.version]
    again = house.inspan("agents", "install", "codex", env=index(), timeout=INSTALL_S)
    assert (again.returncode, again.stdout) == (0, f"codex {wanted.version} at {program}\n")
    assert findings(house, code=0)["agent codex"]["detail"].startswith(f"Codex {wanted.version} at {program} ")
    assert house.run("codex", SAYS_HELLO).stdout == "hello\n"


def test_an_agent_that_cannot_be_fetched_leaves_nothing_half_installed(house: House) -> None:
    done = house.inspan("agents", "install", "codex", "--json", env=NO_INDEX)
    error = json.loads(done.stderr)["error"]
    assert (done.returncode, done.stdout, error["code"]) == (5, "", "agent_missing")
    assert driver("codex").install.requirement in error["message"]
    assert "INSPAN_CODEX_BIN" in error["next"]
    left = [path for path in (house.root / "data").rglob("*") if not path.is_dir()]
    assert left == []
    assert list((house.root / "data").glob("inspan/agents/codex/*")) == []


def test_a_failed_install_keeps_the_one_that_was_there(house: House) -> None:
    wanted = driver("codex").install
    program = house.root / "data" / "inspan" / "agents" / "codex" / wanted.version / wanted.program
    program.parent.mkdir(parents=True)
    program.write_text("the old one")
    assert house.inspan("agents", "install", "codex", env=NO_INDEX).returncode == 5
    assert program.read_text() == "the old one"


def test_an_install_into_a_folder_that_cannot_be_made_is_refused(house: House) -> None:
    (house.root / "data" / "inspan").write_text("a file")
    refusal = refusal_of(house, "agents", "install", "codex")
    assert (refusal.exit_code, refusal.code) == (5, "agent_missing")
    assert str(house.root / "data" / "inspan") in refusal.message
    assert "XDG_DATA_HOME" in refusal.next


def test_the_built_in_agent_needs_no_install(house: House) -> None:
    done = house.inspan("agents", "install", "scripted", env=NO_INDEX)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("scripted ")


def test_doctor_finds_a_house_with_agents_usable(untouched: House) -> None:
    found = findings(untouched, code=0, env={"XDG_STATE_HOME": str(untouched.root / "cache" / "state")})
    assert found["folder state"]["state"] == "ok"
    assert found["agent codex"]["state"] == "warning"
    assert "no key and no login" in found["agent codex"]["detail"]
    assert "CODEX_API_KEY" in found["agent codex"]["next_step"]


def test_doctor_names_keys_and_never_shows_them(house: House) -> None:
    env = {"ANTHROPIC_API_KEY": "sk-ant-0123456789abcdef", "CODEX_API_KEY": "sk-0123456789abcdef"}
    done = house.inspan("doctor", env=env)
    assert done.returncode == 0
    assert "key in ANTHROPIC_API_KEY" in done.stdout
    assert "key in CODEX_API_KEY" in done.stdout
    assert "0123456789" not in done.stdout + done.stderr


def test_doctor_without_any_agent_says_what_to_install(bare_house: BareHouse) -> None:
    found = findings(bare_house, code=5)
    assert {found[f"agent {name}"]["state"] for name in ("claude", "codex")} == {"problem"}
    assert "inspan agents install claude" in found["agent claude"]["next_step"]
    assert found["agent scripted"]["state"] == "ok"


def test_doctor_names_a_state_folder_that_cannot_be_used(house: House) -> None:
    house.state.write_text("a file")
    done = house.inspan("doctor")
    assert done.returncode != 0
    assert f"✘ folder state: Cannot use {house.state}" in done.stdout
    assert "→ Check its owner" in done.stdout


def test_the_demo_turns_a_red_test_green_with_the_real_agent(house: House) -> None:
    on_the_path = {"PATH": f"{os.path.dirname(sys.executable)}:{house.env['PATH']}"}
    done, left = _demo(house, env=on_the_path)
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
        "nothing was paid",
        f"next: inspan show {house.folder().name} ",
    )
    assert left == []


def test_the_demo_keeps_its_repository_when_asked(house: House) -> None:
    done, left = _demo(house, "--keep", "-a", "scripted")
    assert done.returncode == 0
    assert f"kept: {left[0]}\n" in done.stdout
    assert "first + second" in (left[0] / "basket.py").read_text()


def test_the_demo_without_any_agent_uses_the_built_in_one_and_says_so(bare_house: BareHouse) -> None:
    done, left = _demo(bare_house, env=NO_INDEX)
    assert done.returncode == 0, done.stdout + done.stderr
    _in_order(
        done.stdout, "installing Codex", "this is the BUILT-IN SCRIPTED AGENT, not Codex", "at work", "red → green"
    )
    assert "could not be installed" in done.stderr
    assert "real program" not in done.stdout
    assert left == []


def test_the_demo_does_not_install_what_was_named_wrongly(house: House) -> None:
    done, _ = _demo(house, env={"INSPAN_CODEX_BIN": "/nonexistent/codex"})
    assert done.returncode == 0
    assert "INSPAN_CODEX_BIN names /nonexistent/codex, which does not exist." in done.stderr
    assert "installing" not in done.stdout
    assert "BUILT-IN SCRIPTED AGENT" in done.stdout


@pytest.mark.parametrize("name", ["cdex", "zzz"])
def test_the_demo_of_an_unknown_agent_is_refused(untouched: House, name: str) -> None:
    done = untouched.inspan("demo", "-a", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"agent '{name}': no such agent." in done.stderr


def _demo(
    house: House, *arguments: str, env: dict[str, str] | None = None
) -> tuple[subprocess.CompletedProcess[str], list[Path]]:
    """What the demo said, and what it left of its repository."""
    temporary = house.root / "tmp"
    temporary.mkdir()
    done = house.inspan("demo", *arguments, env={"TMPDIR": str(temporary), **(env or {})})
    return done, list(temporary.glob("inspan-demo-*"))


def _in_order(text: str, *words: str) -> None:
    place = 0
    for each in words:
        place = text.find(each, place)
        assert place >= 0, (each, text)
