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

from inspan.engine.validation import Environment, validate
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
from inspan.protocol.task import Task
from tests.house import House

KEY = "sk-given-Qw8Zr5Tn2Lx9Vk4Hd7Pj"
VERSIONS = {"claude": "2.1.325 (Claude Code)", "codex": "codex-cli 0.163.0"}
Write = Callable[[str, str], str]


class Ground:
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

    def refused(self, agent: str, kind: type[InspanError], **fields: object) -> InspanError:
        """The error that stops the task: exactly of this kind, with a next step, and nothing was left behind."""
        with pytest.raises(InspanError) as caught:
            self.validate(agent, **fields)
        assert type(caught.value) is kind
        assert caught.value.next_step
        assert not (self.root / "state").exists()
        return caught.value


@pytest.fixture
def ground(tmp_path: Path, fake: Write, monkeypatch: pytest.MonkeyPatch) -> Ground:
    return Ground(tmp_path, fake, monkeypatch)


each_agent = pytest.mark.parametrize("agent", sorted(VERSIONS))


@each_agent
def test_what_a_run_would_use_is_told(ground: Ground, agent: str) -> None:
    root = os.geteuid() == 0
    found = ground.validate(agent, sandbox="" if root else "none")
    variable = {"claude": "ANTHROPIC_API_KEY", "codex": "CODEX_API_KEY"}[agent]
    assert msgspec.structs.replace(found, helpers={}, warnings=(), containment="") == Environment(
        agent=agent,
        program=ground.env[f"INSPAN_{agent.upper()}_BIN"],
        version={"claude": "2.1.325", "codex": "0.163.0"}[agent],
        access=f"key in {variable}",
        sandbox="bwrap" if root and agent == "claude" else "none",
        containment="",
        root=root,
    )
    assert found.helpers.keys() == {"git", "bwrap"}
    assert not (ground.root / "state").exists()


@each_agent
def test_a_warm_call_starts_no_program(ground: Ground, agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = ground.validate(agent)
    assert ground.started == [agent]

    def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError(f"a program was started: {arguments}")

    monkeypatch.setattr(subprocess.Popen, "__init__", refuse)
    assert [ground.validate(agent) for _ in range(2)] == [first, first]


@each_agent
def test_a_program_that_cannot_do_the_work_is_told(ground: Ground, agent: str) -> None:
    variable = f"INSPAN_{agent.upper()}_BIN"
    ground.put(agent, VERSIONS[agent].replace("2.1.325", "2.1.137").replace("0.163.0", "0.132.9"))
    assert "is too old" in ground.refused(agent, AgentTooOld).message
    ground.put(agent, "git version 2.39")
    assert "does not answer as" in ground.refused(agent, NotAnAgent).message
    ground.env[variable] = str(ground.root / "nowhere")
    assert f"{variable} names {ground.root}/nowhere" in ground.refused(agent, AgentMissing).message


@each_agent
def test_access_that_would_stop_the_run_is_told(ground: Ground, agent: str) -> None:
    for name in ("ANTHROPIC_API_KEY", "CODEX_API_KEY"):
        del ground.env[name]
    missing = ground.refused(agent, CredentialsMissing, profile="clean")
    assert (bool(missing.tried), missing.came_back) == (True, "none of them is set")
    assert ground.refused(agent, CredentialsMissing, login=True).came_back == "there is no such file"
    assert ground.refused(agent, KeyUnusable, key_from="file:~/key").came_back == "No such file or directory"
    ground.refused(agent, BadInput, key_from="file:~/key", login=True)


@each_agent
def test_what_would_not_stop_the_run_is_a_warning(ground: Ground, agent: str) -> None:
    for name in ("ANTHROPIC_API_KEY", "CODEX_API_KEY"):
        del ground.env[name]
    (ground.root / "key").write_text(KEY)
    (ground.root / "key").chmod(0o644)
    without, exposed = ground.validate(agent), ground.validate(agent, key_from="file:~/key")
    assert (without.access, exposed.access) == ("no key and no login found", "key from the key file ~/key")
    assert [each for each in without.warnings if each.startswith("No key and no login was found: ")]
    assert "~/key can be read by others: chmod 600 ~/key." in exposed.warnings
    assert KEY not in str(exposed)


def test_a_sandbox_that_cannot_be_set_up_is_told(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.write("bwrap", "import sys\nsys.exit('bwrap: No permissions to create new namespace')\n")
    monkeypatch.setenv("PATH", f"{ground.root}:{ground.env['PATH']}")
    error = ground.refused("codex", SandboxUnusable, sandbox="bwrap")
    assert "No permissions to create new namespace" in error.message


def test_a_bad_field_is_told_before_any_program_is_asked(ground: Ground) -> None:
    ground.refused("codex", BadInput, cwd=str(ground.root / "nowhere"))
    ground.refused("codex", Unsupported, effort="enormous")
    assert ground.started == []


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


def _said(house: House, sandbox: str) -> list[Any]:
    argv = [*house.prefix, sys.executable, "-c", _VALIDATE, sandbox]
    env = {**house.env, "ANTHROPIC_API_KEY": KEY}
    done = subprocess.run(argv, env=env, cwd=house.work, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def test_an_ordinary_user_needs_no_box(user_house: House) -> None:
    assert _said(user_house, "") == ["none", False]


def test_root_needs_a_box_where_the_agent_refuses_root(house: House) -> None:
    house.prefix = ["unshare", "--user", "--map-root-user", "--"] if os.geteuid() else []
    assert _said(house, "") == ["bwrap", True]
    code, message = _said(house, "none")
    assert (code, "refuses to run unrestricted as root" in message) == ("bad_input", True)
