"""Agents that come from elsewhere: another package's by its entry point, a file that somebody added to the folder."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import inspan
from tests.cli_env import CliEnv

from .packages import DRIVER, install, wheel
from .refusal import expect_refusal
from .scenarios import SAYS_HELLO

SCRIPTED = Path(inspan.__file__).parent / "drivers" / "scripted.py"


@pytest.fixture
def package_folder(cli_env: CliEnv) -> Path:
    """A folder in which Python looks for packages."""
    folder = cli_env.root / "elsewhere"
    folder.mkdir()
    cli_env.env["PYTHONPATH"] = str(folder)
    return folder


def install_package(cli_env: CliEnv, package_folder: Path, module: str, entries: dict[str, str]) -> None:
    install(wheel(cli_env.root, package="kindly", module=module, entries=entries), package_folder)


def list_agents_json(cli_env: CliEnv) -> dict[str, dict[str, Any]]:
    done = cli_env.inspan("agents", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return {each["agent"]: each for each in json.loads(done.stdout)["agents"]}


def test_an_agent_of_another_package_is_listed_configured_and_run(cli_env: CliEnv, package_folder: Path) -> None:
    install_package(cli_env, package_folder, DRIVER.format(name="kind"), {"kind": "kindly:DRIVER"})
    assert list_agents_json(cli_env)["kind"]["title"] == "A stranger"
    assert cli_env.inspan("config", "set", "agents.kind.model", "m").returncode == 0
    assert cli_env.inspan("config", "get", "agents.kind.model").stdout == "m\n"
    findings = json.loads(cli_env.inspan("doctor", "--json").stdout)["findings"]
    assert "agent kind" in [each["subject"] for each in findings]
    run = cli_env.run("kind", SAYS_HELLO)
    assert (run.verdict, run.stdout) == (("completed", "done", 0), "hello\n"), run.stderr
    assert run.events[0]["agent"] == "kind"
    assert cli_env.inspan("export", run.run_id, "-o", "r.jsonl").returncode == 0
    assert cli_env.inspan("play", "r.jsonl").returncode == 0


def test_a_module_with_a_driver_in_it_does_as_well(cli_env: CliEnv, package_folder: Path) -> None:
    install_package(cli_env, package_folder, DRIVER.format(name="kind"), {"kind": "kindly"})
    assert cli_env.run("kind", SAYS_HELLO).stdout == "hello\n"


@pytest.mark.parametrize(
    ("module", "value", "problem"),
    [
        ("raise OSError('no luck')", "kindly:DRIVER", "it cannot be loaded: OSError: no luck"),
        ("import not_there_at_all", "kindly:DRIVER", "it cannot be loaded: ModuleNotFoundError: No module named"),
        ("DRIVER = 7", "kindly:DRIVER", "kindly:DRIVER is not an inspan.contracts.driver.Driver"),
        ("", "kindly", "kindly is not an inspan.contracts.driver.Driver"),
        ("", "kindly:DRIVER", "it cannot be loaded: AttributeError"),
        ("raise SystemExit(3)", "kindly:DRIVER", "it cannot be loaded: SystemExit: 3"),
        (DRIVER.format(name="other"), "kindly:DRIVER", "its driver is called 'other'"),
        (
            DRIVER.format(name="kind") + "\nDRIVER = msgspec.structs.replace(DRIVER, channels=())",
            "kindly",
            "no channel",
        ),
    ],
)
def test_a_broken_one_is_told_by_its_package_and_hides_no_other(
    cli_env: CliEnv, package_folder: Path, module: str, value: str, problem: str
) -> None:
    install_package(cli_env, package_folder, module, {"kind": value})
    found = list_agents_json(cli_env)
    assert problem in found["kind"]["program"]
    assert "scripted" in found
    refusal = expect_refusal(cli_env, "run", "x", "-a", "kind", "--model-from", cli_env.scenario(SAYS_HELLO))
    assert (refusal.exit_code, refusal.code) == (5, "not_an_agent")
    assert refusal.message.startswith("The package kindly 1.0 brings no agent that can be used as 'kind': ")
    assert problem in refusal.message
    assert cli_env.run("scripted", SAYS_HELLO).stdout == "hello\n"


def test_nobody_takes_the_name_of_one_of_ours(cli_env: CliEnv, package_folder: Path) -> None:
    install_package(
        cli_env, package_folder, DRIVER.format(name="scripted"), {"scripted": "kindly:DRIVER", "codex": "kindly:DRIVER"}
    )
    assert list_agents_json(cli_env)["scripted"]["title"] == "Built-in scripted agent"
    assert list_agents_json(cli_env)["codex"]["title"] == "Codex"


def test_a_name_that_is_almost_a_strangers_is_told_with_it(cli_env: CliEnv, package_folder: Path) -> None:
    install_package(cli_env, package_folder, DRIVER.format(name="kind"), {"kind": "kindly:DRIVER"})
    refusal = expect_refusal(cli_env, "run", "x", "-a", "kindd")
    assert refusal.next.startswith("Did you mean 'kind'? Known agents: ")


def test_other_packages_are_not_looked_at_for_an_agent_of_ours(cli_env: CliEnv) -> None:
    code = (
        "import sys; from inspan.planning.settings import apply_config; from inspan.protocol.task import Task;"
        "apply_config(Task(prompt='p', cwd='/', agent='scripted'));"
        "print([name for name in sys.modules if name.startswith(('importlib.metadata', 'inspan.agents.plugins'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=cli_env.env, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_driver_is_added_by_one_file_and_nothing_else_is_touched(cli_env: CliEnv) -> None:
    """In a copy of the whole package: the file alone makes the agent known, listed and run."""
    copy = cli_env.root / "copy"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(inspan.__file__).parent, copy / "inspan", ignore=ignored)
    text = (
        SCRIPTED.read_text()
        .replace('command="python3",', 'command="python3", hosted=True,')
        .replace('name="scripted"', 'name="brand-new"')
        .replace("    built_in=True,\n", "")
    )
    (copy / "inspan" / "drivers" / "brand_new.py").write_text(text.replace("Built-in scripted agent", "Brand new"))
    cli_env.env["PYTHONPATH"] = str(copy)
    assert list_agents_json(cli_env)["brand-new"]["title"] == "Brand new"
    run = cli_env.run("brand-new", SAYS_HELLO)
    assert (run.verdict, run.stdout) == (("completed", "done", 0), "hello\n"), run.stderr
    assert "brand-new" in cli_env.inspan("run", "x", "-a", "brandnew").stderr
