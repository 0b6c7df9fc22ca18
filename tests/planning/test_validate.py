"""Whether a task could be run here: everything that would stop it is told before anything starts."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from inspan.errors import (
    AgentMissing,
    AgentTooOld,
    BadInput,
    CredentialsMissing,
    InspanError,
    KeyUnusable,
    NotAnAgent,
    SandboxUnusable,
    Unsupported,
)
from inspan.planning.validate import Environment, validate
from inspan.protocol.task import Task
from tests.cli_env import CliEnv

KEY = "sk-given-Qw8Zr5Tn2Lx9Vk4Hd7Pj"
VERSIONS = {"claude": "2.1.325 (Claude Code)", "codex": "codex-cli 0.163.0"}
Write = Callable[[str, str], str]


class ValidationEnv:
    """A private HOME, cache and PATH, with a program for each agent that notes each time it is started."""

    def __init__(self, root: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.write = write
        self.work = root / "work"
        self.work.mkdir()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            **{f"XDG_{name}_HOME": str(root / name.lower()) for name in ("STATE", "CACHE", "DATA", "CONFIG")},
            "ANTHROPIC_API_KEY": KEY,
            "CODEX_API_KEY": KEY,
        }
        for agent, version in VERSIONS.items():
            self.put(agent, version)
        for name, value in self.env.items():
            monkeypatch.setenv(name, value)

    def put(self, agent: str, says: str) -> None:
        """Puts a program in the place of an agent's; it answers everything with these words."""
        body = f"open({str(self.root / 'started')!r}, 'a').write({agent!r} + '\\n')\nprint({says!r})\n"
        self.env[f"INSPAN_{agent.upper()}_BIN"] = self.write(agent, body)

    @property
    def started(self) -> list[str]:
        """The programs that were started, in order."""
        path = self.root / "started"
        return path.read_text().split() if path.exists() else []

    def validate(self, agent: str, **fields: object) -> Environment:
        task = Task(prompt="do it", cwd=str(self.work), agent=agent)
        return validate(msgspec.structs.replace(task, **fields), env=self.env)

    def expect_refusal(self, agent: str, kind: type[InspanError], **fields: object) -> InspanError:
        """The error that stops the task: exactly of this kind, with a next step, and nothing was left behind."""
        with pytest.raises(InspanError) as caught:
            self.validate(agent, **fields)
        assert type(caught.value) is kind
        assert caught.value.next_step
        assert not (self.root / "state").exists()
        return caught.value


@pytest.fixture
def validation_env(tmp_path: Path, fake: Write, monkeypatch: pytest.MonkeyPatch) -> ValidationEnv:
    return ValidationEnv(tmp_path, fake, monkeypatch)


each_agent = pytest.mark.parametrize("agent", sorted(VERSIONS))


@each_agent
def test_what_a_run_would_use_is_told(validation_env: ValidationEnv, agent: str) -> None:
    root = os.geteuid() == 0
    found = validation_env.validate(agent, sandbox="" if root else "none")
    variable = {"claude": "ANTHROPIC_API_KEY", "codex": "CODEX_API_KEY"}[agent]
    assert msgspec.structs.replace(found, helpers={}, warnings=(), containment="") == Environment(
        agent=agent,
        program=validation_env.env[f"INSPAN_{agent.upper()}_BIN"],
        version={"claude": "2.1.325", "codex": "0.163.0"}[agent],
        access=f"key in {variable}",
        sandbox="bwrap" if root and agent == "claude" else "none",
        containment="",
        root=root,
    )
    assert found.helpers.keys() == {"git", "bwrap"}
    assert not (validation_env.root / "state").exists()


@each_agent
def test_a_warm_call_starts_no_program(
    validation_env: ValidationEnv, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = validation_env.validate(agent)
    assert validation_env.started == [agent]

    def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError(f"a program was started: {arguments}")

    monkeypatch.setattr(subprocess.Popen, "__init__", refuse)
    assert [validation_env.validate(agent) for _ in range(2)] == [first, first]


@each_agent
def test_a_program_that_cannot_do_the_work_is_told(validation_env: ValidationEnv, agent: str) -> None:
    variable = f"INSPAN_{agent.upper()}_BIN"
    validation_env.put(agent, VERSIONS[agent].replace("2.1.325", "2.1.137").replace("0.163.0", "0.132.9"))
    assert "is too old" in validation_env.expect_refusal(agent, AgentTooOld).message
    validation_env.put(agent, "git version 2.39")
    assert "does not answer as" in validation_env.expect_refusal(agent, NotAnAgent).message
    validation_env.env[variable] = str(validation_env.root / "nowhere")
    assert (
        f"{variable} names {validation_env.root}/nowhere" in validation_env.expect_refusal(agent, AgentMissing).message
    )


@each_agent
def test_access_that_would_stop_the_run_is_told(validation_env: ValidationEnv, agent: str) -> None:
    for name in ("ANTHROPIC_API_KEY", "CODEX_API_KEY"):
        del validation_env.env[name]
    missing = validation_env.expect_refusal(agent, CredentialsMissing, profile="clean")
    assert (bool(missing.tried), missing.came_back) == (True, "none of them is set")
    assert validation_env.expect_refusal(agent, CredentialsMissing, login=True).came_back == "there is no such file"
    assert (
        validation_env.expect_refusal(agent, KeyUnusable, key_from="file:~/key").came_back
        == "No such file or directory"
    )
    validation_env.expect_refusal(agent, BadInput, key_from="file:~/key", login=True)


@each_agent
def test_what_would_not_stop_the_run_is_a_warning(validation_env: ValidationEnv, agent: str) -> None:
    for name in ("ANTHROPIC_API_KEY", "CODEX_API_KEY"):
        del validation_env.env[name]
    (validation_env.root / "key").write_text(KEY)
    (validation_env.root / "key").chmod(0o644)
    without, exposed = validation_env.validate(agent), validation_env.validate(agent, key_from="file:~/key")
    assert (without.access, exposed.access) == ("no key and no login found", "key from the key file ~/key")
    assert [each for each in without.warnings if each.startswith("No key and no login was found: ")]
    assert "~/key can be read by others: chmod 600 ~/key." in exposed.warnings
    assert KEY not in str(exposed)


def test_a_sandbox_that_cannot_be_set_up_is_told(
    validation_env: ValidationEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    validation_env.write("bwrap", "import sys\nsys.exit('bwrap: No permissions to create new namespace')\n")
    monkeypatch.setenv("PATH", f"{validation_env.root}:{validation_env.env['PATH']}")
    error = validation_env.expect_refusal("codex", SandboxUnusable, sandbox="bwrap")
    assert "No permissions to create new namespace" in error.message


def test_a_bad_field_is_told_before_any_program_is_asked(validation_env: ValidationEnv) -> None:
    validation_env.expect_refusal("codex", BadInput, cwd=str(validation_env.root / "nowhere"))
    validation_env.expect_refusal("codex", Unsupported, effort="enormous")
    assert validation_env.started == []


_VALIDATE = """
import json, os, sys
import inspan, msgspec
task = inspan.Task(prompt="do it", cwd=os.getcwd(), agent="claude", sandbox=sys.argv[1])
try:
    found = msgspec.to_builtins(inspan.validate_environment(task))
    print(json.dumps([found["sandbox"], found["root"]]))
except inspan.InspanError as error:
    print(json.dumps([error.code, error.message]))
"""


def _validate_in_process(cli_env: CliEnv, sandbox: str) -> list[Any]:
    argv = [*cli_env.prefix, sys.executable, "-c", _VALIDATE, sandbox]
    env = {**cli_env.env, "ANTHROPIC_API_KEY": KEY}
    done = subprocess.run(argv, env=env, cwd=cli_env.work, capture_output=True, text=True, timeout=240, check=True)
    return json.loads(done.stdout)


def test_an_ordinary_user_needs_no_box(user_cli_env: CliEnv) -> None:
    assert _validate_in_process(user_cli_env, "") == ["none", False]


def test_root_needs_a_box_where_the_agent_refuses_root(cli_env: CliEnv) -> None:
    cli_env.prefix = ["unshare", "--user", "--map-root-user", "--"] if os.geteuid() else []
    assert _validate_in_process(cli_env, "") == ["bwrap", True]
    code, message = _validate_in_process(cli_env, "none")
    assert (code, "refuses to run unrestricted as root" in message) == ("bad_input", True)
