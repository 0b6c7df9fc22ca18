"""A run that continues a session is confined as the one before, unless it is told otherwise.

A puppet plays the agent: what confines it does not depend on whose words it speaks.
"""

import json
from typing import Any

import msgspec
import pytest

from inspan.errors import BadInput, StateUnusable
from inspan.planning.confinement import Confinement, find_weakened, inherit_confinement, load_confinement
from inspan.planning.settings import apply_config
from inspan.planning.validate import validate
from inspan.protocol.limits import Limits
from inspan.protocol.task import Task
from inspan.stores.sessions import read_session
from tests.cli_env import CliEnv
from tests.running.fake_agent import Fake, fake_agent_env, run_fake_agent

BOXED = Confinement(sandbox="bwrap", net="gateway", read=("/srv/a",), memory_bytes=2**30, pids=50)
HELD = {"sandbox": "bwrap", "private": True, "net": "allow=a.example"}
PROVIDER = "http://127.0.0.1:9/v1"
WEAK_SETTINGS = {"INSPAN_RUNTIME_SANDBOX": "none", "INSPAN_RUNTIME_NET": "open", "INSPAN_RUNTIME_READ": "/etc/hosts"}


def build_task(**fields: Any) -> Task:
    return Task(prompt="x", cwd="/", **fields)


@pytest.mark.parametrize(
    ("said", "sandbox", "net", "read"),
    [
        ({}, "bwrap", "gateway", ("/srv/a",)),
        ({"sandbox": "auto"}, "bwrap", "gateway", ("/srv/a",)),
        ({"sandbox": "worktree"}, "worktree+bwrap", "gateway", ("/srv/a",)),
        ({"sandbox": "bwrap", "net": "open"}, "bwrap", "open", ("/srv/a",)),
        ({"net": "allow=a.example"}, "bwrap", "allow=a.example", ("/srv/a",)),
        ({"read": ("/srv/b",)}, "bwrap", "gateway", ("/srv/a", "/srv/b")),
        ({"sandbox": "none"}, "none", "", ()),
        ({"sandbox": "worktree+none"}, "worktree+none", "", ()),
    ],
)
def test_only_what_a_task_names_is_another(said: dict[str, Any], sandbox: str, net: str, read: tuple[str, ...]) -> None:
    task = inherit_confinement(build_task(**said), BOXED)
    assert (task.sandbox, task.net, task.read) == (sandbox, net, read)
    assert (task.limits.memory_bytes, task.limits.cpus, task.limits.pids) == (2**30, None, 50)
    assert inherit_confinement(task, BOXED) == task


def test_a_container_is_made_of_the_same_image() -> None:
    before = Confinement(sandbox="podman", image="debian", net="gateway")
    said = [build_task(), build_task(image="alpine"), build_task(sandbox="bwrap")]
    assert [inherit_confinement(task, before).image for task in said] == ["debian", "alpine", ""]


def test_a_limit_that_a_task_names_is_its_own_also_where_it_is_off() -> None:
    task = inherit_confinement(build_task(limits=Limits(pids=70)), BOXED, explicit=("memory_bytes",))
    assert task.limits.resources == {"pids": 70}


def test_a_session_without_a_sandbox_gives_none() -> None:
    task = build_task(net="open")
    assert inherit_confinement(task, Confinement()) == task


@pytest.mark.parametrize(
    ("now", "weakened"),
    [
        (BOXED, {}),
        (Confinement(), {"sandbox": "bwrap", "net": "gateway", "memory_bytes": "1073741824", "pids": "50"}),
        (msgspec.structs.replace(BOXED, net="open"), {"net": "gateway"}),
        (msgspec.structs.replace(BOXED, net="allow=a.example"), {"net": "gateway"}),
        (msgspec.structs.replace(BOXED, net="none"), {}),
        (msgspec.structs.replace(BOXED, read=("/srv/a", "/srv/b")), {"read": "/srv/a"}),
        (msgspec.structs.replace(BOXED, read=(), pids=49), {}),
        (msgspec.structs.replace(BOXED, pids=51), {"pids": "50"}),
    ],
)
def test_what_confines_less_is_found(now: Confinement, weakened: dict[str, str]) -> None:
    assert find_weakened(BOXED, now) == weakened


@pytest.mark.parametrize(("now", "is_weaker"), [("a.example", False), ("a.example,b.example", True)])
def test_a_host_more_is_less_confinement(now: str, is_weaker: bool) -> None:
    before = Confinement(sandbox="bwrap", net="allow=a.example,c.example")
    found = find_weakened(before, Confinement(sandbox="bwrap", net=f"allow={now}"))
    assert found == ({"net": before.net} if is_weaker else {})


class Sessions:
    """A house with a puppet in it that begins a session in a sandbox."""

    def __init__(self, cli_env: CliEnv, env: dict[str, str]) -> None:
        self.cli_env, self.env = cli_env, {**env, "CODEX_API_KEY": "plum-4711"}
        self.first = self.run("--sandbox", "bwrap", "--net", "allow=a.example")["run_id"]

    def run(self, *more: str, **env: str) -> dict[str, Any]:
        """What a run says of itself at its start, with its first line as `line`."""
        code, _, errors = run_fake_agent(self.cli_env, {**self.env, **env}, "--base-url", PROVIDER, *more)
        assert code == 0, errors
        line = next(line for line in errors.splitlines() if line.startswith("▶"))
        newest = max(path.name for path in self.cli_env.state.glob("projects/*/*/runs/*"))
        return {**self.cli_env.events(newest)[0], "line": line}


@pytest.fixture
def sessions(cli_env: CliEnv, fake: Fake) -> Sessions:
    return Sessions(
        cli_env,
        fake_agent_env(
            fake, "begin(); say('ok'); put(type='turn.completed', usage={'input_tokens': 0, 'output_tokens': 0})"
        ),
    )


def read_held(started: dict[str, Any]) -> dict[str, Any]:
    return {name: started.get(name) for name in HELD}


def test_a_session_stays_in_its_sandbox_until_a_flag_says_otherwise(sessions: Sessions) -> None:
    for words in (("--resume", sessions.first), ("-c",), ("-c", "--fork")):
        started = sessions.run(*words, **WEAK_SETTINGS)
        assert (read_held(started), started.get("weakened", {})) == (HELD, {})
    wider = sessions.run("-c", "--net", "open")
    assert (wider["sandbox"], wider["net"], wider["weakened"]) == ("bwrap", "open", {"net": "allow=a.example"})
    assert "network open, confined less than its session was (--net allow=a.example) ·" in wider["line"]
    none = sessions.run("--resume", sessions.first, "--sandbox", "none")
    assert (none["sandbox"], none["weakened"]) == ("none", {"sandbox": "bwrap", "net": "allow=a.example"})
    words = "full access, network open, confined less than its session was (--sandbox bwrap, --net allow=a.example) ·"
    assert words in none["line"]
    # It was told to leave; whoever continues that run continues it there.
    last = sessions.run("--resume", sessions.first)
    assert (last["sandbox"], last.get("weakened", {})) == ("none", {})


def test_settings_do_not_loosen_what_a_session_was_confined_to(sessions: Sessions) -> None:
    path = sessions.cli_env.folder(sessions.first) / "run.json"
    described = json.loads(path.read_text())
    described["confinement"] |= {"pids": 50, "cpus": 2, "read": ["/srv/a"]}
    path.write_text(json.dumps(described))
    env = {**sessions.cli_env.env, **sessions.env, **WEAK_SETTINGS}
    env |= {"INSPAN_LIMITS_PIDS": "5000", "INSPAN_LIMITS_CPUS": "1"}
    asked = Task(prompt="x", cwd=str(sessions.cli_env.work), resume=sessions.first, base_url=PROVIDER)
    task = apply_config(asked, env=env).task
    assert (task.sandbox, task.net, task.read) == ("bwrap", "allow=a.example", ("/srv/a",))
    assert task.limits.resources == {"pids": 50, "cpus": 1}
    assert apply_config(asked, explicit={"pids": None}, env=env).task.limits.resources == {"cpus": 1}


def test_a_run_that_does_not_say_what_confined_it_is_not_continued(sessions: Sessions) -> None:
    path = sessions.cli_env.folder(sessions.first) / "run.json"
    described = json.loads(path.read_text())
    path.write_text(json.dumps(described | {"confinement": {"sandbox": 7}}))
    with pytest.raises(StateUnusable, match="does not say what confined the run"):
        load_confinement(str(sessions.cli_env.state), read_session(str(sessions.cli_env.state), sessions.first))


def test_a_program_that_asks_whether_it_could_continue_is_told_of_the_sandbox(sessions: Sessions) -> None:
    env = {**sessions.cli_env.env, **sessions.env}
    asked = Task(prompt="x", cwd=str(sessions.cli_env.work), resume=sessions.first, base_url=PROVIDER)
    assert validate(asked, env=env).sandbox == "bwrap"
    with pytest.raises(BadInput, match="an agent could not reach its model"):
        validate(msgspec.structs.replace(asked, net="none"), env=env)
