"""What joins a run to its session: taken before the start, given back, told once, and said plainly where it cannot be.

A puppet plays the agent: the real ones are asked in tests/agents.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inspan.errors import SessionBusy, SessionNotFound
from inspan.planning.resume import claim_session, resolve_session
from inspan.protocol.task import Task
from inspan.running.finalize import finalize_run
from inspan.runs.find import refresh_summary
from inspan.stores.run_folder import active_runs, open_folder
from inspan.stores.sessions import forget_run, lock_session, read_session
from tests.cli.refusal import Refusal, expect_refusal, parse_refusal
from tests.cli_env import CliEnv, wait_until
from tests.running.fake_agent import Fake, detach_fake_agent, fake_agent_env, run_fake_agent, wait_for_event

# Says what it was told and how, and counts on from what the thread has used before, as Codex does.
ECHOES = """
begin()
say("resumed" if "resume" in sys.argv else "fresh")
total = int(prompt) if prompt.strip().isdigit() else 3
put(type="turn.completed", usage={"input_tokens": total, "output_tokens": 0})
"""
WAITS = "begin()\nwhile not os.path.exists('go'): time.sleep(0.02)\nfinish()\n"


class Sessions:
    """A house with a puppet in it, and the sessions that its runs leave."""

    def __init__(self, cli_env: CliEnv, env: dict[str, str]) -> None:
        self.cli_env = cli_env
        self.env = env

    @property
    def state(self) -> str:
        return str(self.cli_env.state)

    def run(self, *more: str, prompt: str = "do it") -> str:
        """The id of a run that completes."""
        code, _, errors = run_fake_agent(self.cli_env, self.env, *more, prompt=prompt)
        assert code == 0, errors
        return self.runs()[-1]

    def runs(self) -> list[str]:
        return sorted(path.name for path in self.cli_env.state.glob("projects/*/*/runs/*"))

    def expect_refusal(self, *more: str, prompt: str = "do it") -> Refusal:
        arguments = ("run", prompt, "-a", "codex", "--profile", "user", *more)
        return expect_refusal(self.cli_env, *arguments, env=self.env)

    def input_of(self, run_id: str) -> int:
        return self.cli_env.events(run_id)[-1]["usage"].get("input", 0)

    def record(self, key: str) -> dict[str, Any]:
        return json.loads(self.path(key).read_text())

    def path(self, key: str) -> Path:
        return self.cli_env.state / "sessions" / key / "session.json"

    def is_free(self, key: str) -> bool:
        try:
            os.close(lock_session(self.state, key))
        except SessionBusy:
            return False
        return True


@pytest.fixture
def sessions(cli_env: CliEnv, fake: Fake) -> Sessions:
    return Sessions(cli_env, fake_agent_env(fake, ECHOES))


@pytest.fixture
def user_sessions(user_cli_env: CliEnv, fake: Fake) -> Sessions:
    """The same for an ordinary user, whom modes of files can keep out."""
    return Sessions(user_cli_env, fake_agent_env(fake, ECHOES))


# What was told before


def test_a_run_tells_what_it_adds_to_its_session(sessions: Sessions) -> None:
    first = sessions.run(prompt="100")
    second = sessions.run("--resume", first, prompt="130")
    third = sessions.run("--resume", second, prompt="135")
    assert [sessions.input_of(each) for each in (first, second, third)] == [100, 30, 5]
    record = sessions.record(first)
    assert record["told"]["usage"] == {"input": 135}
    assert record["told_by"] == record["runs"] == [first, second, third]


def test_a_run_is_counted_once_however_often_it_is_closed(sessions: Sessions) -> None:
    first = sessions.run(prompt="100")
    second = sessions.run("--resume", first, prompt="130")
    before = sessions.record(first)
    for run_id in (second, first, first):
        folder = open_folder(str(sessions.cli_env.folder(run_id)))
        assert finalize_run(sessions.state, folder, refresh_summary(sessions.state, folder))
    assert sessions.record(first) == before


def test_a_run_that_cannot_be_indexed_has_told_its_session(sessions: Sessions) -> None:
    sessions.cli_env.state.mkdir(mode=0o700)
    (sessions.cli_env.state / "index.db").write_bytes(b"no database at all, " * 300)
    first = sessions.run(prompt="100")
    second = sessions.run("--resume", first, prompt="130")
    assert [sessions.input_of(each) for each in (first, second)] == [100, 30]


# Given back


@pytest.mark.parametrize("resumes", [False, True], ids=["fresh", "resumed"])
def test_a_run_that_cannot_start_gives_its_session_back(sessions: Sessions, resumes: bool) -> None:
    first = sessions.run()
    before = sessions.record(first)
    active = sessions.cli_env.state / "active"
    active.rmdir()
    active.write_text("no folder")
    arguments = ("run", "do it", "-a", "codex", "--json", *(("--resume", first) if resumes else ()))
    refusal = parse_refusal(sessions.cli_env.inspan(*arguments, env=sessions.env))
    assert refusal.code == "state_unusable"
    assert (sessions.runs(), sessions.record(first)) == ([first], before)
    assert os.listdir(sessions.cli_env.state / "sessions") == [first]
    assert sessions.is_free(first)


def test_a_session_that_cannot_be_entered_leaves_nothing_behind(user_sessions: Sessions) -> None:
    first = user_sessions.run()
    folder = user_sessions.path(first).parent
    folder.chmod(0o500)
    try:
        refusal = user_sessions.expect_refusal("--resume", first)
    finally:
        folder.chmod(0o700)
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert str(folder) in refusal.message
    assert user_sessions.is_free(first)


@pytest.mark.parametrize("mode", [0o000, 0o500], ids=["unreadable", "unwritable"])
def test_a_place_of_sessions_that_cannot_be_used_is_named(user_sessions: Sessions, mode: int) -> None:
    user_sessions.run()
    place = user_sessions.cli_env.state / "sessions"
    place.chmod(mode)
    arguments = ("run", "do it", "-a", "codex", "--profile", "user", "--json")
    try:
        refusal = parse_refusal(user_sessions.cli_env.inspan(*arguments, env=user_sessions.env))
    finally:
        place.chmod(0o700)
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert str(place) in refusal.message
    assert len(user_sessions.runs()) == 1


def test_a_session_that_is_deleted_while_it_is_looked_for_is_not_made_again(sessions: Sessions) -> None:
    first = sessions.run()
    task, record = resolve_session(Task(prompt="x", cwd=str(sessions.cli_env.work), resume=first), sessions.cli_env.env)
    forget_run(sessions.state, first, first)
    for fork in (False, True):
        asked = Task(prompt="x", cwd=task.cwd, resume=first, fork=fork)
        with pytest.raises(SessionNotFound, match="has just been deleted"):
            claim_session(sessions.state, asked, record=record, run_id="20990101-000000000-1", agent="codex")
    assert os.listdir(sessions.cli_env.state / "sessions") == []


def test_of_two_who_find_a_foreign_session_at_once_one_takes_it(sessions: Sessions) -> None:
    asked = Task(
        prompt="x", cwd=str(sessions.cli_env.work), agent="codex", resume="01a1df1c-6b8a-7030-8e8d-14053bafaa26"
    )
    both = [resolve_session(asked, sessions.cli_env.env) for _ in range(2)]
    ids = ("20990101-000000000-1", "20990101-000000000-2")
    taken = claim_session(sessions.state, both[0][0], record=both[0][1], run_id=ids[0], agent="codex")
    with pytest.raises(SessionBusy):
        claim_session(sessions.state, both[1][0], record=both[1][1], run_id=ids[1], agent="codex")
    os.close(taken.lock)
    later = claim_session(sessions.state, both[1][0], record=both[1][1], run_id=ids[1], agent="codex")
    os.close(later.lock)
    assert (later.record.runs, later.resumed) == (ids, asked.resume)


# Damage


def truncate_file(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


each_damage = pytest.mark.parametrize("damage", [truncate_file, a_folder], ids=lambda damage: damage.__name__)


@each_damage
def test_a_session_whose_record_is_damaged_is_named(sessions: Sessions, damage: Callable[[Path], None]) -> None:
    first = sessions.run()
    damage(sessions.path(first))
    refusal = sessions.expect_refusal("--resume", first)
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert str(sessions.path(first)) in refusal.message


@each_damage
def test_a_session_whose_record_is_damaged_can_be_deleted(sessions: Sessions, damage: Callable[[Path], None]) -> None:
    first = sessions.run()
    damage(sessions.path(first))
    assert sessions.cli_env.inspan("rm", first).returncode == 0
    assert os.listdir(sessions.cli_env.state / "sessions") == []


@each_damage
def test_a_damaged_record_keeps_no_run_from_ending(cli_env: CliEnv, fake: Fake, damage: Callable[[Path], None]) -> None:
    sessions = Sessions(cli_env, fake_agent_env(fake, WAITS))
    run_id = detach_fake_agent(cli_env, sessions.env)
    wait_for_event(cli_env, run_id, "turn_started")
    damage(sessions.path(run_id))
    (cli_env.work / "go").touch()
    assert cli_env.inspan("wait", run_id).stdout == f"{run_id} completed done\n"
    wait_until(lambda: active_runs(sessions.state) == [], "end")


def test_a_run_whose_log_is_damaged_is_named(sessions: Sessions) -> None:
    first = sessions.run()
    log = sessions.cli_env.folder(first) / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b"turn_started", b"turn_stirred", 1))
    refusal = sessions.expect_refusal("--resume", first)
    assert (refusal.exit_code, refusal.code) == (1, "log_broken")
    assert str(log) in refusal.message


def test_another_runs_damage_is_no_hindrance(sessions: Sessions) -> None:
    first = sessions.run()
    second = sessions.run("--resume", first)
    log = sessions.cli_env.folder(second) / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b"turn_started", b"turn_stirred", 1))
    (sessions.cli_env.state / "active" / second).symlink_to(sessions.cli_env.folder(second))
    assert sessions.run("--resume", first) not in (first, second)


def test_a_run_without_a_log_is_begun_by_whoever_goes_on_with_it(sessions: Sessions) -> None:
    first = sessions.run()
    (sessions.cli_env.folder(first) / "events.jsonl").unlink()
    record = sessions.record(first)
    sessions.path(first).write_text(json.dumps({**record, "session_id": ""}))
    code, output, errors = run_fake_agent(sessions.cli_env, sessions.env, "--resume", first, "--json")
    assert (code, errors) == (0, "")
    assert json.loads(output.splitlines()[-1])["event"]["outcome"] == "completed"


def test_a_session_is_deleted_with_what_its_owner_may_not_write(user_sessions: Sessions) -> None:
    first = user_sessions.run()
    cache = user_sessions.path(first).parent / "home" / "cache"
    cache.mkdir(parents=True)
    (cache / "module").write_text("read only")
    for folder in (cache, cache.parent):
        folder.chmod(0o500)
    done = user_sessions.cli_env.inspan("rm", first)
    assert (done.returncode, done.stderr) == (0, "")
    assert os.listdir(user_sessions.cli_env.state / "sessions") == []


def test_a_session_that_cannot_be_deleted_keeps_its_run(user_sessions: Sessions) -> None:
    first = user_sessions.run()
    place = user_sessions.cli_env.state / "sessions"
    place.chmod(0o500)
    try:
        refusal = parse_refusal(user_sessions.cli_env.inspan("rm", first, "--json"))
    finally:
        place.chmod(0o700)
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert user_sessions.runs() == [first]
    assert user_sessions.cli_env.inspan("rm", first).returncode == 0
    assert read_session(user_sessions.state, first) is None
