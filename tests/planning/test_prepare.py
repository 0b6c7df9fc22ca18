"""From a task to a plan: everything is checked before anything is left on disk."""

import math
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from inspan.errors import (
    AgentMissing,
    BadInput,
    BadScenario,
    CredentialsMissing,
    InspanError,
    StateUnusable,
    UnknownAgent,
)
from inspan.planning.prepare import prepare
from inspan.protocol.limits import Limits
from inspan.protocol.task import Task
from inspan.running.prepared_run import PreparedRun
from inspan.runs.projects import project_of
from inspan.stores.run_folder import is_locked, read_json
from tests.running.fake_agent import Fake, fake_agent_env


class PlanEnv:
    """A place to prepare tasks at, with nothing of the machine's user in reach."""

    def __init__(self, root: Path, env: dict[str, str]) -> None:
        self.state = root / "state" / "inspan"
        self.env = env
        self.task = Task(prompt="do it", cwd=str(root / "work"), agent="codex")
        self.held: list[PreparedRun] = []

    def prepare(self, parent: dict[str, str] | None = None, /, **changes: Any) -> PreparedRun:
        prepared = prepare(msgspec.structs.replace(self.task, **changes), env={**self.env, **(parent or {})})
        self.held.append(prepared)
        return prepared

    def traces(self) -> list[str]:
        """Everything below the state folder that tells of a run."""
        return [
            str(path.relative_to(self.state))
            for pattern in ("projects/*/*/runs/*", "active/*", "sessions/*")
            for path in self.state.glob(pattern)
        ]


@pytest.fixture
def plan_env(tmp_path: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlanEnv]:
    (tmp_path / "work").mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), **fake_agent_env(fake, "")}
    for name in ("STATE", "CACHE", "DATA"):
        env[f"XDG_{name}_HOME"] = str(tmp_path / name.lower())
        monkeypatch.setenv(f"XDG_{name}_HOME", env[f"XDG_{name}_HOME"])
    made = PlanEnv(tmp_path, env)
    yield made
    for prepared in made.held:
        os.close(prepared.lock)
        if prepared.listener:
            prepared.listener.close()


def _scenario(plan_env: PlanEnv, text: str) -> str:
    path = Path(plan_env.task.cwd) / "scenario.toml"
    path.write_text(text)
    return f"script:{path}"


_BAD: list[tuple[str, dict[str, Any], type[InspanError], str]] = [
    ("an empty prompt", {"prompt": " \n"}, BadInput, "prompt"),
    ("a prompt that is not text", {"prompt": "\udcff"}, BadInput, "prompt"),
    ("a missing folder", {"cwd": "/no/such/folder"}, BadInput, "cwd"),
    ("a relative folder", {"cwd": "."}, BadInput, "cwd"),
    ("a file as folder", {"cwd": "/etc/passwd"}, BadInput, "cwd"),
    ("a folder with a NUL", {"cwd": "/tmp\0"}, BadInput, "cwd"),
    ("an unknown agent", {"agent": "clod"}, UnknownAgent, "agent"),
    ("a model with a NUL", {"model": "a\0b"}, BadInput, "model"),
    ("a model that is not text", {"model": "\ud800"}, BadInput, "model"),
    ("an unknown sandbox", {"sandbox": "tent"}, BadInput, "sandbox"),
    ("an unknown source of a model", {"model_from": "moon:x"}, BadInput, "model_from"),
    ("a missing scenario", {"model_from": "script:/no/such/file"}, BadScenario, ""),
    ("a source with a NUL", {"model_from": "script:/a\0b"}, BadInput, "model_from"),
    ("a project outside", {"project": "../x"}, BadInput, "project"),
    ("a project of dots", {"project": ".."}, BadInput, "project"),
    ("a project that is too long", {"project": "x" * 121}, BadInput, "project"),
    ("a task without a name", {"task": ""}, BadInput, "task"),
    ("a task outside", {"task": "a/b"}, BadInput, "task"),
    ("a task with a NUL", {"task": "a\0"}, BadInput, "task"),
    ("a variable without a name", {"env": {"": "x"}}, BadInput, "env"),
    ("a variable with an equals sign", {"env": {"A=B": "x"}}, BadInput, "env"),
    ("a variable with a NUL in its name", {"env": {"A\0": "x"}}, BadInput, "env A\0"),
    ("a variable with a NUL", {"env": {"A": "x\0"}}, BadInput, "env A"),
    ("a timeout of nothing", {"limits": Limits(timeout_s=0)}, BadInput, "timeout_s"),
    ("a negative timeout", {"limits": Limits(idle_timeout_s=-1)}, BadInput, "idle_timeout_s"),
    ("a timeout that is not a number", {"limits": Limits(stall_timeout_s=math.nan)}, BadInput, "stall_timeout_s"),
    ("a clean profile without a key", {"profile": "clean"}, CredentialsMissing, ""),
]


@pytest.mark.parametrize(("changes", "error", "field"), [row[1:] for row in _BAD], ids=[row[0] for row in _BAD])
def test_bad_input_is_refused_and_leaves_no_trace(
    plan_env: PlanEnv, changes: dict[str, Any], error: type[InspanError], field: str
) -> None:
    with pytest.raises(error) as caught:
        plan_env.prepare(**changes)
    if isinstance(caught.value, BadInput) and field:
        assert caught.value.field == field
    assert caught.value.next_step
    assert not plan_env.state.exists()


@pytest.mark.parametrize(
    ("env", "error"),
    [
        ({"INSPAN_CODEX_BIN": "/no/such/program"}, AgentMissing),
        ({"INSPAN_CONTAINMENT": "rope"}, BadInput),
    ],
)
def test_a_bad_environment_is_refused_and_leaves_no_trace(
    plan_env: PlanEnv, env: dict[str, str], error: type[InspanError]
) -> None:
    with pytest.raises(error):
        plan_env.prepare(env)
    assert not plan_env.state.exists()


@pytest.mark.parametrize("blocked", ["sessions", "active", "projects/p/t/files"])
def test_a_plan_that_fails_half_way_is_taken_back_whole(plan_env: PlanEnv, blocked: str) -> None:
    path = plan_env.state / blocked
    path.parent.mkdir(parents=True)
    path.touch()
    before = sorted(os.listdir("/proc/self/fd"))
    with pytest.raises(StateUnusable):
        plan_env.prepare(
            {"CODEX_API_KEY": "sk-0123456789abcdef"},
            project="p",
            task="t",
            profile="clean",
            model_from=_scenario(plan_env, '[[call]]\nsay = "x"\n'),
        )
    assert plan_env.traces() == []
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_a_prepared_run_is_claimed_locked_described_and_listed(plan_env: PlanEnv) -> None:
    prepared = plan_env.prepare(project="p", task="t")
    run_id = prepared.plan.run_id
    assert plan_env.traces() == [f"projects/p/t/runs/{run_id}", f"active/{run_id}", f"sessions/{run_id}"]
    assert is_locked(prepared.folder)
    assert not os.get_inheritable(prepared.lock)
    described = read_json(prepared.folder.file("run.json"))
    assert (described["run_id"], described["agent"], described["task"]["prompt"]) == (run_id, "codex", "do it")
    assert Path(prepared.folder.file("prompt.md")).read_text() == "do it"


def test_the_runs_own_variables_are_there_and_the_tasks_win(plan_env: PlanEnv) -> None:
    plan = plan_env.prepare(project="p", task="t", model="m", env={"JRUN_TASK_ID": "mine", "PATH": "/mine"}).plan
    runs = plan_env.state / "projects" / "p" / "t"
    expected = {
        "TASK_FOLDER": str(runs / "files"),
        "RUN_FOLDER": str(runs / "runs" / plan.run_id / "agent"),
        "JRUN_PROJECT_ID": "p",
        "JRUN_TASK_ID": "mine",
        "JRUN_ID": plan.run_id,
        "INSPAN_AGENT_NAME": "codex",
        "INSPAN_WORKTREE_PATH": plan_env.task.cwd,
        "MODEL": "m",
        "PATH": "/mine",
        "HOME": plan_env.env["HOME"],
    }
    assert {name: plan.process.env.get(name) for name in expected} == expected
    assert "BASE_URL" not in plan.process.env


def test_no_variable_leads_to_the_log_the_lock_or_the_socket(plan_env: PlanEnv) -> None:
    prepared = plan_env.prepare()
    private = (prepared.folder.log, prepared.folder.file("lock"), prepared.folder.socket)
    env = prepared.plan.process.env
    assert [value for value in env.values() if value in private or value == prepared.folder.path] == []
    assert os.listdir(env["RUN_FOLDER"]) == []


def test_behind_a_gateway_the_agent_is_pointed_at_a_door_that_is_open(plan_env: PlanEnv) -> None:
    env = {"OPENAI_API_KEY": "sk-0123456789abcdef", "CODEX_API_KEY": "sk-codex-0123456789"}
    prepared = plan_env.prepare(env, model_from=_scenario(plan_env, '[[call]]\nsay = "x"\n'))
    plan = prepared.plan
    assert not env.keys() & plan.process.env.keys()
    port = int(plan.process.env["BASE_URL"].rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=10):
        pass
    assert len(plan.token) == 40
    assert {*env.values(), plan.token} <= {value for _, value in plan.secrets}


@pytest.mark.parametrize("profile", ["user", "clean"])
@pytest.mark.parametrize(
    ("agent", "version", "key", "variable", "model"),
    [
        ("gemini", "0.61.0", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", ""),
        ("qwen", "0.24.4", "OPENAI_API_KEY", "OPENAI_BASE_URL", "openai/x"),
        ("qwen", "0.24.4", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "anthropic/x"),
        ("goose", "1.52.0", "ANTHROPIC_API_KEY", "ANTHROPIC_HOST", ""),
        ("goose", "1.52.0", "OPENAI_API_KEY", "OPENAI_BASE_URL", "openai/x"),
    ],
)
def test_a_direct_run_finds_its_address_in_the_variable_of_its_agent(
    plan_env: PlanEnv, fake: Fake, profile: str, agent: str, version: str, key: str, variable: str, model: str
) -> None:
    env = {key: "sk-0123456789abcdef", f"INSPAN_{agent.upper()}_BIN": fake(agent, f"print({version!r})")}
    asked = {"agent": agent, "profile": profile, "model": model, "model_from": "direct"}
    said = plan_env.prepare(
        {**env, variable: "http://other"}, **asked, base_url="http://said/", env={variable: "http://x"}
    )
    assert said.plan.process.env[variable] == "http://said"
    assert "http://x" not in said.plan.process.env.values()
    named = plan_env.prepare({**env, variable: "http://named"}, **asked)
    assert named.plan.process.env[variable] == "http://named"
    assert variable not in plan_env.prepare(env, **asked).plan.process.env


def test_neither_prompt_nor_secret_is_on_a_command_line(plan_env: PlanEnv) -> None:
    plan = plan_env.prepare({"CODEX_API_KEY": "sk-0123456789abcdef"}, prompt="a very private prompt").plan
    words = " ".join(plan.process.argv)
    assert "private" not in words
    assert "sk-0123456789abcdef" not in words
    assert plan.process.stdin == b"a very private prompt"


def test_a_secret_in_the_prompt_does_not_reach_the_disk(plan_env: PlanEnv) -> None:
    secret = "sk-0123456789abcdef"
    prepared = plan_env.prepare({"CODEX_API_KEY": secret}, prompt=f"use {secret}", env={"MY_TOKEN": "token-0123456789"})
    kept = b"".join(path.read_bytes() for path in Path(prepared.folder.path).rglob("*") if path.is_file())
    assert secret.encode() not in kept
    assert b"token-0123456789" not in kept
    assert prepared.plan.process.stdin == f"use {secret}".encode()


def test_a_secret_that_is_no_utf8_is_no_obstacle(plan_env: PlanEnv) -> None:
    odd = os.fsdecode(b"\xffsecret-0123456789")
    plan = plan_env.prepare({"MY_SECRET_TOKEN": odd, "ODD": odd}).plan
    assert odd in dict(plan.secrets).values()
    assert plan.process.env["ODD"] == odd


def test_a_session_of_the_profile_clean_has_a_folder_of_its_own(plan_env: PlanEnv) -> None:
    plan = plan_env.prepare({"CODEX_API_KEY": "sk-0123456789abcdef"}, profile="clean").plan
    config = Path(plan.process.env["CODEX_HOME"])
    assert config == plan_env.state / "sessions" / plan.run_id / "config"
    assert config.stat().st_mode & 0o777 == 0o700
    assert plan.process.env["HOME"] == plan_env.env["HOME"]


def test_two_runs_at_once_are_two_runs(plan_env: PlanEnv) -> None:
    assert len({plan_env.prepare().plan.run_id for _ in range(5)}) == 5


def test_a_project_is_named_after_its_repository(tmp_path: Path) -> None:
    (tmp_path / "one" / "deep").mkdir(parents=True)
    (tmp_path / "two").mkdir()
    names = [project_of(str(tmp_path / path)) for path in ("one", "one/deep", "two")]
    assert [name.rpartition("-")[0] for name in names] == ["one", "deep", "two"]
    (tmp_path / "one" / ".git").mkdir()
    assert project_of(str(tmp_path / "one" / "deep")) == project_of(str(tmp_path / "one")) == names[0]
    assert project_of("/").startswith("root-")


def test_folders_of_one_name_are_different_projects(tmp_path: Path) -> None:
    for parent in ("a", "b"):
        (tmp_path / parent / "same").mkdir(parents=True)
    assert project_of(str(tmp_path / "a" / "same")) != project_of(str(tmp_path / "b" / "same"))


@pytest.mark.parametrize("name", ["l" * 246, "l" * 247, "l" * 255, "ü" * 127], ids=["fits", "too long", "longest", "ü"])
def test_a_project_of_a_folder_with_a_long_name_is_a_folder_too(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    project = project_of(str(tmp_path / name))
    (tmp_path / "state" / project).mkdir(parents=True)
    kept, _, told_apart = project.rpartition("-")
    assert name.startswith(kept) and len(kept.encode()) >= 245
    assert len(told_apart) == 8


def test_a_project_of_a_folder_with_control_characters_has_none(tmp_path: Path) -> None:
    (tmp_path / "a\nb\x1b[31m").mkdir()
    (tmp_path / "a_b_[31m").mkdir()
    odd, plain = (project_of(str(tmp_path / name)) for name in ("a\nb\x1b[31m", "a_b_[31m"))
    assert odd.rpartition("-")[0] == plain.rpartition("-")[0] == "a_b_[31m"
    assert odd != plain
