"""A conversation that a program holds: each message goes on where the last one ended."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

import inspan
from inspan import AgentResult
from inspan.errors import BadInput, RunNotFound, SessionNotFound
from inspan.protocol.events import RunStarted, ThreadStarted, TurnStarted
from tests.agents.conversation import WAIT_STEP
from tests.cli_env import WAIT_S

from .conftest import Play
from .run_env import RunEnv, wait_until_async

both = pytest.mark.parametrize("agent", ["claude", "codex"])
# The puppet tells the thread that it was asked to go on with, or to copy.
_TELLS = """
begin()
words = sys.argv[1:]
say(" ".join(words[words.index(word):-1] for word in ("resume", "fork") if word in words) or "new")
finish()
""".replace("words[words.index(word):-1]", "' '.join(words[words.index(word):-1])")


@both
def test_a_second_message_goes_on_with_the_conversation(agents: RunEnv, agent: str) -> None:
    scenario = """
        [[call]]
        when = "what did I say"
        expect_anywhere = "my name is Ada"
        say = "Ada"
        [[call]]
        say = "Good morning."
        repeat = "always"
    """
    runner = inspan.create_agent_runner(agent, profile="clean", cwd=agents.work, model_from=agents.scenario(scenario))
    session = runner.create_session()
    assert session.session_id == ""

    async def scene() -> tuple[AgentResult, AgentResult]:
        return await session.send_message("my name is Ada"), await session.send_message(
            "what did I say?", mode="complete"
        )

    first, second = asyncio.run(scene())
    assert (first.message, second.message) == ("Good morning.", "Ada")
    assert first.session_id == second.session_id == session.session_id != ""
    again = runner.resume_session(session.session_id)
    assert asyncio.run(again.send_message("what did I say?")).message == "Ada"


def test_a_conversation_stays_in_its_folder_whatever_the_runner_has_by_default(
    run_env: RunEnv, use_fake_agent: Play
) -> None:
    use_fake_agent("begin(); say(os.getcwd()); finish()")
    (run_env.root / "other").mkdir()
    runner = inspan.create_agent_runner("codex", cwd=run_env.root / "other")
    session = runner.create_session(cwd=run_env.work)

    async def scene() -> list[str]:
        begun = [await session.send_message("x") for _ in range(2)]
        resumed = runner.resume_session("@last", cwd=run_env.work)
        return [result.message for result in (*begun, await resumed.send_message("x"))]

    assert asyncio.run(scene()) == [str(run_env.work)] * 3


def test_a_conversation_stays_in_its_folder_wherever_the_program_goes(
    run_env: RunEnv, use_fake_agent: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake_agent("begin(); say(os.getcwd()); finish()")
    (run_env.root / "other").mkdir()
    monkeypatch.chdir(run_env.work)
    session = inspan.create_agent_runner("codex").create_session()

    async def scene() -> list[str]:
        first = await session.send_message("x")
        monkeypatch.chdir(run_env.root / "other")
        return [result.message for result in (first, await session.send_message("x"))]

    assert asyncio.run(scene()) == [str(run_env.work)] * 2
    with pytest.raises(BadInput) as caught:
        asyncio.run(session.send_message("x", cwd="."))
    assert caught.value.message == f"cwd '{run_env.root / 'other'}': the session belongs to {run_env.work}."


def test_a_session_of_another_folder_is_refused_unless_that_folder_is_given(
    run_env: RunEnv, use_fake_agent: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake_agent("begin(); say(os.getcwd()); finish()")
    (run_env.root / "other").mkdir()
    first = asyncio.run(inspan.run(run_env.task))
    monkeypatch.chdir(run_env.root / "other")
    runner, before = inspan.create_agent_runner("codex"), run_env.list_leftovers()
    again = msgspec.structs.replace(run_env.task, resume=first.run_id, cwd="")
    for name in (first.run_id, first.run_id[:-1], "@last-anywhere", first.session_id):
        for refused in (
            lambda name=name: runner.exec("x", resume=name),
            lambda name=name: runner.execute("x", session_id=name),
            lambda name=name: runner.complete("x", resume=name),
            lambda name=name: runner.resume_session(name).send_message("x"),
            lambda name=name: inspan.run(msgspec.structs.replace(again, resume=name)),
            lambda name=name: inspan.start(msgspec.structs.replace(again, resume=name)),
        ):
            with pytest.raises(BadInput, match="the session belongs to"):
                asyncio.run(refused())
    with pytest.raises(SessionNotFound, match="no run of this folder's project"):
        asyncio.run(runner.exec("x", resume="@last"))
    with pytest.raises(RunNotFound, match="no run of this folder's project"):
        inspan.find_run("@last")
    assert run_env.list_leftovers() == before
    assert inspan.find_run("@last", cwd=run_env.work).run_id == first.run_id
    assert inspan.find_run("@last-anywhere").run_id == first.run_id
    told = asyncio.run(runner.exec("x", resume="@last", cwd=run_env.work))
    assert told.message == str(run_env.work)


def test_messages_that_are_sent_at_once_wait_for_one_another(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent(_TELLS)
    session = inspan.create_agent_runner("codex", cwd=run_env.work).create_session()

    async def scene() -> list[AgentResult]:
        return await asyncio.gather(*(session.send_message("x") for _ in range(3)))

    results = asyncio.run(scene())
    assert [result.message for result in results] == ["new", "resume thread-1", "resume thread-1"]
    assert len({_session(run_env, result) for result in results}) == 1


def test_messages_from_threads_with_loops_of_their_own_wait_for_one_another(
    run_env: RunEnv, use_fake_agent: Play
) -> None:
    use_fake_agent(_TELLS)
    session = inspan.create_agent_runner("codex", cwd=run_env.work).create_session()
    said: list[str] = []

    def send() -> None:
        for _ in range(2):
            said.append(inspan.run_sync(session.send_message("x")).message)

    threads = [threading.Thread(target=send, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert said == ["new", *["resume thread-1"] * 5]


@pytest.mark.parametrize("asks", ["runner", "session"])
def test_a_copy_is_made_once_and_then_goes_on(run_env: RunEnv, use_fake_agent: Play, asks: str) -> None:
    use_fake_agent(_TELLS)
    runner = inspan.create_agent_runner("codex", cwd=run_env.work)
    original = asyncio.run(runner.exec("x"))
    if asks == "runner":
        runner = inspan.create_agent_runner("codex", cwd=run_env.work, fork=True)
    session = runner.resume_session(original.run_id, **({"fork": True} if asks == "session" else {}))

    async def scene() -> list[AgentResult]:
        return [await session.send_message("x") for _ in range(2)]

    results = asyncio.run(scene())
    assert [result.message for result in results] == ["fork thread-1", "resume thread-1"]
    first, second = (_session(run_env, result) for result in results)
    assert first == second != _session(run_env, original)


def test_a_session_that_nobody_knows_is_not_found(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent(_TELLS)
    session = inspan.create_agent_runner("codex", profile="clean", cwd=run_env.work).resume_session("nobody-s")
    with pytest.raises(SessionNotFound) as caught:
        asyncio.run(session.send_message("x"))
    assert (caught.value.code, bool(caught.value.next_step)) == ("session_not_found", True)


def test_results_of_tools_are_taken_by_an_open_session_alone() -> None:
    session = inspan.create_agent_runner("codex").create_session()
    with pytest.raises(BadInput, match="this session is not open"):
        asyncio.run(session.submit_tool_results({"1": "x"}))


def _session(run_env: RunEnv, result: AgentResult) -> str:
    described: dict[str, Any] = json.loads((Path(result.folder) / "run.json").read_text())
    return described["session"]


@both
@pytest.mark.parametrize("times", [1, 3])
def test_a_first_message_that_is_cancelled_is_part_of_the_conversation(agents: RunEnv, agent: str, times: int) -> None:
    holds = agents.scenario(f"[[call]]\n{WAIT_STEP}\n", "holds")
    knows = agents.scenario("[[call]]\nexpect_anywhere = 'my name is Ada'\nsay = 'Ada'\n", "knows")
    session = inspan.create_agent_runner(agent, profile="clean", cwd=agents.work).create_session()

    async def scene() -> AgentResult:
        first = asyncio.create_task(session.send_message("my name is Ada", model_from=holds))
        await wait_until_async(lambda: _is_kept(agents), "transcript")
        for _ in range(times):
            first.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await first
        assert session.session_id
        return await session.send_message("what did I say?", model_from=knows)

    result = asyncio.run(scene())
    assert (result.message, result.error) == ("Ada", "")
    first, second = (_read_run_json(folder) for folder in agents.folders())
    assert first["session"] == second["session"]
    assert result.session_id == session.session_id


@both
def test_a_first_message_that_is_cancelled_before_its_answer_is_never_forgotten_in_silence(
    agents: RunEnv, agent: str
) -> None:
    stalls = agents.scenario("[[call]]\nstall = 'before-headers'\n", "stalls")
    answers = agents.scenario("[[call]]\nsay = 'I do not know'\nrepeat = 'always'\n", "answers")
    session = inspan.create_agent_runner(agent, profile="clean", cwd=agents.work).create_session()

    async def scene() -> tuple[bool, str]:
        first = asyncio.create_task(session.send_message("my name is Ada", model_from=stalls))
        await wait_until_async(lambda: _has_asked(agents), "first turn")
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        try:
            second = await session.send_message("what did I say?", model_from=answers)
        except SessionNotFound:
            return False, "session_not_found"
        return second.ok, second.reason

    ok, reason = asyncio.run(scene())
    first, *later = (_read_run_json(folder) for folder in agents.folders())
    assert [run["session"] for run in later] in ([], [first["session"]])
    assert (ok, reason) in ((True, "done"), (False, "session_not_found"))


def test_a_message_that_is_cancelled_before_the_agent_has_a_conversation_is_told_of(
    run_env: RunEnv, use_fake_agent: Play
) -> None:
    use_fake_agent("open('here', 'w').close()\nwhile True: time.sleep(86400)")
    session = inspan.create_agent_runner("codex", cwd=run_env.work).create_session()

    async def scene() -> None:
        first = asyncio.create_task(session.send_message("x"))
        await wait_until_async((run_env.work / "here").exists, "agent")
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        with pytest.raises(SessionNotFound) as caught:
            await session.send_message("x")
        assert "opened no session that could be continued" in caught.value.message

    asyncio.run(scene())
    assert len(run_env.folders()) == 1


def test_a_message_that_is_cancelled_before_its_agent_is_started_has_not_begun_one(
    run_env: RunEnv, use_fake_agent: Play
) -> None:
    use_fake_agent(_TELLS)
    asked, go = run_env.root / "asked", run_env.root / "go"
    command = f"touch {asked}; until test -e {go}; do sleep 0.02; done; echo key-for-the-agent"
    session = inspan.create_agent_runner("codex", cwd=run_env.work).create_session()

    async def scene() -> list[str]:
        first = asyncio.create_task(session.send_message("x", key_from=f"cmd:{command}"))
        await wait_until_async(asked.exists, "question for the key")
        first.cancel()
        go.touch()
        with pytest.raises(asyncio.CancelledError):
            await first
        return [(await session.send_message("x")).message for _ in range(2)]

    assert asyncio.run(scene()) == ["new", "resume thread-1"]


@pytest.mark.parametrize("fork", [False, True])
def test_a_later_message_that_is_cancelled_does_not_end_the_conversation(
    run_env: RunEnv, use_fake_agent: Play, fork: bool
) -> None:
    stays = "if prompt == 'stay':\n    begin(); open('here', 'w').close()\n    while True: time.sleep(86400)\n"
    use_fake_agent(stays + _TELLS)
    runner = inspan.create_agent_runner("codex", cwd=run_env.work)

    async def scene() -> tuple[AgentResult, AgentResult]:
        begun = await runner.exec("x")
        session = runner.resume_session(begun.run_id, fork=fork)
        cut = asyncio.create_task(session.send_message("stay"))
        await wait_until_async((run_env.work / "here").exists, "agent")
        cut.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cut
        return begun, await session.send_message("x")

    begun, last = asyncio.run(scene())
    assert last.message == "resume thread-1"
    assert (_session(run_env, last) != _session(run_env, begun)) == fork


def _is_kept(run_env: RunEnv) -> bool:
    """Whether the agent has written down that it uses its tool: it starts it before."""
    try:
        files = [path for folder in run_env.state.glob("sessions/*/config") for path in folder.rglob("*.jsonl")]
        return any(b"touch started" in path.read_bytes() for path in files)
    except FileNotFoundError:
        return False  # A folder of the agent's that was there for a moment.


def _has_asked(run_env: RunEnv) -> bool:
    """Whether the agent of the only run has told that its turn goes on: its first call is on its way by then."""
    events = [event for folder in run_env.folders() for event in run_env.events(folder)]
    return any(isinstance(event, ThreadStarted | TurnStarted) for event in events)


def _read_run_json(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run.json").read_text())


def test_a_session_that_worked_in_a_sandbox_is_resumed_in_it(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent("begin(); say('ok'); finish()")
    runner = inspan.create_agent_runner("codex", cwd=run_env.work)

    async def scene() -> None:
        await runner.exec("x", sandbox="bwrap")
        await runner.resume_session("@last").send_message("x")
        await runner.exec("x", resume="@last", fork=True)
        await runner.exec("x", resume="@last", sandbox="none")

    asyncio.run(scene())
    started = [run_env.events(folder)[0] for folder in run_env.folders()]
    assert [each.sandbox for each in started if isinstance(each, RunStarted)] == ["bwrap", "bwrap", "bwrap", "none"]
