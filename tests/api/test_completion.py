"""A chat-shaped door to any agent: messages in, one text out, corrected within bounds."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import inspan
from inspan import CompletionClient, Usage
from inspan.api.completion import Completion, Message, flatten
from inspan.errors import AuthenticationError, BadInput, InvalidResponseError
from tests.agents.styles import PER_CALL

from .conftest import Play
from .stage import Stage

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
def test_a_real_agent_answers_a_conversation(agents: Stage, agent: str) -> None:
    scenario = '[[call]]\nexpect = "### USER\\nnot JSON\\ntry again"\nexpect_anywhere = "you plan"\nsay = "{}"\n'
    client = CompletionClient(_runner(agents, agent, scenario), cwd=agents.work)
    completion = asyncio.run(client.complete(_TALK, system="you plan"))
    assert completion == Completion(text="{}", tokens=PER_CALL, result=completion.result)
    assert (completion.result.ok, completion.result.message) == (True, "{}")
    assert (agents.folders()[0] / "prompt.md").read_text() == _FLAT


@both
def test_an_answer_that_fails_its_check_is_fed_back_with_the_sentence(agents: Stage, agent: str) -> None:
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
    assert (completion.text, completion.tokens) == ("ok", PER_CALL + PER_CALL)
    assert len(completion.result.attempts) == 2
    prompts = [(folder / "prompt.md").read_text() for folder in agents.folders()]
    head = "### USER\na word"
    assert prompts == [head, f"{head}\n\n### ASSISTANT\nrather long\n\n### USER\nshorter, please"]


@pytest.mark.parametrize("repairs", [0, 1, 3])
def test_an_answer_that_never_passes_is_raised_after_so_many_repairs(stage: Stage, play: Play, repairs: int) -> None:
    play("begin(); say('bad'); finish()")
    client = CompletionClient(inspan.runner("codex"), cwd=stage.work)
    with pytest.raises(InvalidResponseError) as caught:
        asyncio.run(client.complete(_ASKED, check=lambda text: "not good", repairs=repairs))
    assert len(stage.folders()) == repairs + 1
    error = caught.value
    assert (error.message, error.reason, error.run_id, error.came_back) == (
        "The answer did not pass its check: not good",
        "unfit_answer",
        stage.folders()[-1].name,
        "bad",
    )


def test_repairs_of_schema_and_check_share_one_bound(stage: Stage, play: Play) -> None:
    # It answers out of schema first, and what fits the schema then fails the check.
    play("begin(); say('7' if 'could not be used' in prompt else 'seven'); finish()")
    client = CompletionClient(inspan.runner("codex"), cwd=stage.work)
    with pytest.raises(InvalidResponseError):
        asyncio.run(
            client.complete(_ASKED, output_schema={"type": "integer"}, check=lambda text: "not good", repairs=2)
        )
    assert len(stage.folders()) == 3


def test_an_answer_that_never_fits_its_schema_is_raised(stage: Stage, play: Play) -> None:
    play("begin(); say('seven'); finish()")
    client = CompletionClient(inspan.runner("codex"), cwd=stage.work)
    with pytest.raises(InvalidResponseError) as caught:
        asyncio.run(client.complete(_ASKED, output_schema={"type": "integer"}, repairs=1))
    assert (caught.value.reason, len(stage.folders())) == ("unfit_answer", 2)


def test_an_answer_that_fits_its_schema_is_there_as_a_value(stage: Stage, play: Play) -> None:
    play("begin(); say('7'); finish()")
    client = CompletionClient(inspan.runner("codex"), cwd=stage.work)
    completion = asyncio.run(client.complete(_ASKED, output_schema={"type": "integer"}))
    assert (completion.text, completion.result.answer, completion.tokens) == ("7", 7, Usage(input=3, output=4))


def test_an_agent_that_fails_is_raised_as_what_it_was(agents: Stage) -> None:
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
def test_what_is_no_message_is_refused(stage: Stage, messages: Any) -> None:
    with pytest.raises(BadInput) as caught:
        asyncio.run(CompletionClient(inspan.runner("codex")).complete(messages))
    assert caught.value.field == "messages"
    assert caught.value.next_step.startswith("Give each a role (user or assistant) and a content")


def test_fewer_than_no_repairs_are_refused(stage: Stage) -> None:
    with pytest.raises(BadInput, match="repairs -1"):
        asyncio.run(CompletionClient(inspan.runner("codex")).complete(_ASKED, repairs=-1))
    with pytest.raises(BadInput, match="repairs -1"):
        asyncio.run(inspan.runner("codex").complete("x", repairs=-1))


def _runner(stage: Stage, agent: str, scenario: str) -> inspan.Runner:
    return inspan.runner(agent, profile="clean", model_from=stage.scenario(scenario))
