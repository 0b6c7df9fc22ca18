"""A chat-shaped door to any agent: messages in, one text out, corrected within bounds."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

import inspan
from inspan import CompletionClient, Usage
from inspan.api.completion import Completion, Message, flatten
from inspan.errors import AuthenticationError, BadInput, InvalidResponseError
from tests.agents.styles import PER_CALL

from .conftest import Play
from .run_env import RunEnv

both = pytest.mark.parametrize("agent", ["claude", "codex"])
_TALK: list[Message] = [
    {"role": "user", "content": "decompose this"},
    {"role": "assistant", "content": "{bad json"},
    {"role": "user", "content": "not JSON\ntry again"},
]
_FLAT = "### USER\ndecompose this\n\n### ASSISTANT\n{bad json\n\n### USER\nnot JSON\ntry again"
_ASKED: list[Message] = [{"role": "user", "content": "a word"}]


def test_a_conversation_is_flattened_exactly() -> None:
    assert flatten(_TALK) == _FLAT
    assert flatten(_TALK[:1]) == "### USER\ndecompose this"


@both
def test_a_real_agent_answers_a_conversation(agents: RunEnv, agent: str) -> None:
    scenario = '[[call]]\nexpect = "### USER\\nnot JSON\\ntry again"\nexpect_anywhere = "you plan"\nsay = "{}"\n'
    client = CompletionClient(_runner(agents, agent, scenario), cwd=agents.work)
    completion = asyncio.run(client.complete(_TALK, system="you plan"))
    assert completion == Completion(text="{}", tokens_used=PER_CALL, result=completion.result)
    assert (completion.result.ok, completion.result.message) == (True, "{}")
    assert (agents.folders()[0] / "prompt.md").read_text() == _FLAT


@both
def test_an_answer_that_fails_its_check_is_fed_back_with_the_sentence(agents: RunEnv, agent: str) -> None:
    scenario = """
        [[call]]
        when = "shorter, please"
        expect_anywhere = ["### ASSISTANT\\nrather long", "### USER\\nshorter, please"]
        say = "ok"
        [[call]]
        say = "rather long"
        repeat = "always"
    """
    client = CompletionClient(_runner(agents, agent, scenario), cwd=agents.work)
    completion = asyncio.run(client.complete(_ASKED, check=lambda text: "shorter, please" if len(text) > 5 else ""))
    assert (completion.text, completion.tokens_used) == ("ok", PER_CALL + PER_CALL)
    assert len(completion.result.attempts) == 2
    prompts = [(folder / "prompt.md").read_text() for folder in agents.folders()]
    head = "### USER\na word"
    assert prompts == [head, f"{head}\n\n### ASSISTANT\nrather long\n\n### USER\nshorter, please"]


@pytest.mark.parametrize("repairs", [0, 1, 3])
def test_an_answer_that_never_passes_is_raised_after_so_many_repairs(
    run_env: RunEnv, use_fake_agent: Play, repairs: int
) -> None:
    use_fake_agent("begin(); say('bad'); finish()")
    client = CompletionClient(inspan.create_agent_runner("codex"), cwd=run_env.work)
    with pytest.raises(InvalidResponseError) as caught:
        asyncio.run(client.complete(_ASKED, check=lambda text: "not good", repairs=repairs))
    assert len(run_env.folders()) == repairs + 1
    error = caught.value
    assert (error.message, error.reason, error.run_id, error.came_back) == (
        "The answer did not pass its check: not good",
        "unfit_answer",
        run_env.folders()[-1].name,
        "bad",
    )


def test_repairs_of_schema_and_check_share_one_bound(run_env: RunEnv, use_fake_agent: Play) -> None:
    # It answers out of schema first, and what fits the schema then fails the check.
    use_fake_agent("begin(); say('7' if 'could not be used' in prompt else 'seven'); finish()")
    client = CompletionClient(inspan.create_agent_runner("codex"), cwd=run_env.work)
    with pytest.raises(InvalidResponseError):
        asyncio.run(
            client.complete(_ASKED, output_schema={"type": "integer"}, check=lambda text: "not good", repairs=2)
        )
    assert len(run_env.folders()) == 3


async def _judge(text: str) -> str:
    return text


def _approve(text: str) -> bool:
    return bool(text)


@pytest.mark.parametrize("check", [_judge, _approve])
def test_a_check_that_is_no_check_is_refused(run_env: RunEnv, use_fake_agent: Play, check: Any) -> None:
    use_fake_agent("begin(); say('7'); finish()")
    client = CompletionClient(inspan.create_agent_runner("codex"), cwd=run_env.work)
    with pytest.raises(BadInput, match="check"):
        asyncio.run(client.complete(_ASKED, check=check))
    assert len(run_env.folders()) == (0 if check is _judge else 1)


def test_an_agent_that_has_a_session_and_cannot_resume_it_is_asked_from_the_beginning(
    run_env: RunEnv, use_fake_agent: Play
) -> None:
    use_fake_agent(
        "begin()\n"
        "if 'resume' in sys.argv: sys.exit('Error: no rollout found for thread id')\n"
        "say('7' if 'could not be used' in prompt and 'count' in prompt else 'seven'); finish()"
    )
    runner = inspan.create_agent_runner("codex", cwd=run_env.work)
    result = asyncio.run(runner.complete("count", output_schema={"type": "integer"}))
    assert (result.answer, len(run_env.folders())) == (7, 3)


def test_a_schema_that_nobody_takes_is_refused_with_who_does(run_env: RunEnv) -> None:
    runner = inspan.create_agent_runner("codex", cwd=run_env.work)
    with pytest.raises(BadInput, match="output_schema") as caught:
        asyncio.run(cast(Any, runner).exec("x", output_schema={"type": "integer"}))
    assert "complete" in caught.value.next_step
    assert "integer" not in str(caught.value)


def test_an_answer_that_never_fits_its_schema_is_raised(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent("begin(); say('seven'); finish()")
    client = CompletionClient(inspan.create_agent_runner("codex"), cwd=run_env.work)
    with pytest.raises(InvalidResponseError) as caught:
        asyncio.run(client.complete(_ASKED, output_schema={"type": "integer"}, repairs=1))
    assert (caught.value.reason, len(run_env.folders())) == ("unfit_answer", 2)


def test_an_answer_that_fits_its_schema_is_there_as_a_value(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent("begin(); say('7'); finish()")
    client = CompletionClient(inspan.create_agent_runner("codex"), cwd=run_env.work)
    completion = asyncio.run(client.complete(_ASKED, output_schema={"type": "integer"}))
    assert (completion.text, completion.result.answer, completion.tokens_used) == ("7", 7, Usage(input=3, output=4))


def test_an_agent_that_fails_is_raised_as_what_it_was(agents: RunEnv) -> None:
    scenario = "[[call]]\nfail = {status = 401}\nrepeat = 'always'\n"
    client = CompletionClient(_runner(agents, "codex", scenario), cwd=agents.work)
    with pytest.raises(AuthenticationError) as caught:
        asyncio.run(client.complete(_ASKED, check=lambda text: "never asked"))
    (folder,) = agents.folders()
    assert caught.value.run_id == Path(folder).name


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "system", "content": "x"}],
        [{"role": "user"}],
        [{"role": "user", "content": 3}],
        ["x"],
        "x",
    ],
    ids=str,
)
def test_what_is_no_message_is_refused(run_env: RunEnv, messages: Any) -> None:
    with pytest.raises(BadInput) as caught:
        asyncio.run(CompletionClient(inspan.create_agent_runner("codex")).complete(messages))
    assert caught.value.field == "messages"
    assert caught.value.next_step.startswith("Give each a role (user or assistant) and a content")


def test_fewer_than_no_repairs_are_refused(run_env: RunEnv) -> None:
    with pytest.raises(BadInput, match="repairs -1"):
        asyncio.run(CompletionClient(inspan.create_agent_runner("codex")).complete(_ASKED, repairs=-1))
    with pytest.raises(BadInput, match="repairs -1"):
        asyncio.run(inspan.create_agent_runner("codex").complete("x", repairs=-1))


def _runner(run_env: RunEnv, agent: str, scenario: str) -> inspan.AgentRunner:
    return inspan.create_agent_runner(agent, profile="clean", model_from=run_env.scenario(scenario))
