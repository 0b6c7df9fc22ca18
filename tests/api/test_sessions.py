"""A conversation that a program holds: each message goes on where the last one ended."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import inspan
from inspan import Result
from inspan.errors import SessionNotFound, Unsupported

from .conftest import Play
from .stage import Stage

both = pytest.mark.parametrize("agent", ["claude", "codex"])
# The puppet tells the thread that it was asked to go on with, or to copy.
_TELLS = """
begin()
words = sys.argv[1:]
say(" ".join(words[words.index(word):-1] for word in ("resume", "fork") if word in words) or "new")
finish()
""".replace("words[words.index(word):-1]", "' '.join(words[words.index(word):-1])")


@both
def test_a_second_message_goes_on_with_the_conversation(agents: Stage, agent: str) -> None:
    scenario = """
        [[call]]
        when = "what did I say"
        expect_anywhere = "my name is Ada"
        say = "Ada"
        [[call]]
        say = "Good morning."
        repeat = "always"
    """
    runner = inspan.runner(agent, profile="clean", cwd=agents.work, model_from=agents.scenario(scenario))
    session = runner.create_session()
    assert session.session_id == ""

    async def scene() -> tuple[Result, Result]:
        return await session.send_message("my name is Ada"), await session.send_message(
            "what did I say?", mode="complete"
        )

    first, second = asyncio.run(scene())
    assert (first.message, second.message) == ("Good morning.", "Ada")
    assert first.session_id == second.session_id == session.session_id != ""
    again = runner.resume_session(session.session_id)
    assert asyncio.run(again.send_message("what did I say?")).message == "Ada"


def test_a_conversation_stays_in_its_folder_whatever_the_runner_has_by_default(stage: Stage, play: Play) -> None:
    play("begin(); say(os.getcwd()); finish()")
    (stage.root / "other").mkdir()
    runner = inspan.runner("codex", cwd=stage.root / "other")
    session = runner.create_session(cwd=stage.work)

    async def scene() -> list[str]:
        begun = [await session.send_message("x") for _ in range(2)]
        return [result.message for result in (*begun, await runner.resume_session("@last").send_message("x"))]

    assert asyncio.run(scene()) == [str(stage.work)] * 3


def test_messages_that_are_sent_at_once_wait_for_one_another(stage: Stage, play: Play) -> None:
    play(_TELLS)
    session = inspan.runner("codex", cwd=stage.work).create_session()

    async def scene() -> list[Result]:
        return await asyncio.gather(*(session.send_message("x") for _ in range(3)))

    results = asyncio.run(scene())
    assert [result.message for result in results] == ["new", "resume thread-1", "resume thread-1"]
    assert len({_session(stage, result) for result in results}) == 1


def test_a_copy_is_made_once_and_then_goes_on(stage: Stage, play: Play) -> None:
    play(_TELLS)
    runner = inspan.runner("codex", cwd=stage.work)
    original = asyncio.run(runner.exec("x"))
    session = runner.resume_session(original.run_id, fork=True)

    async def scene() -> list[Result]:
        return [await session.send_message("x") for _ in range(2)]

    results = asyncio.run(scene())
    assert [result.message for result in results] == ["fork thread-1", "resume thread-1"]
    first, second = (_session(stage, result) for result in results)
    assert first == second != _session(stage, original)


def test_a_session_that_nobody_knows_is_not_found(stage: Stage, play: Play) -> None:
    play(_TELLS)
    session = inspan.runner("codex", profile="clean", cwd=stage.work).resume_session("nobody-s")
    with pytest.raises(SessionNotFound) as caught:
        asyncio.run(session.send_message("x"))
    assert (caught.value.code, bool(caught.value.next_step)) == ("session_not_found", True)


def test_results_of_tools_are_not_taken_on_this_channel() -> None:
    with pytest.raises(Unsupported) as caught:
        inspan.runner("codex").create_session().submit_tool_results([{"id": "1"}])
    assert (caught.value.code, caught.value.next_step) == ("unsupported", "Give it tools by mcp_servers instead.")


def _session(stage: Stage, result: Result) -> str:
    described: dict[str, Any] = json.loads((Path(result.folder) / "run.json").read_text())
    return described["session"]
