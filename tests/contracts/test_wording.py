"""What an agent has no option for stands in its prompt, in one order; what it has an option for does not."""

from typing import Any

import msgspec
import pytest

from inspan.contracts.driver import Capabilities
from inspan.contracts.prompt_fallbacks import add_prompt_fallbacks, schema_instruction
from inspan.protocol.task import Task

TASK = Task(prompt="do it", cwd="/")
ASKED = Capabilities(review="asked", complete="asked")
MADE_SO = Capabilities(
    review="yes", complete="yes", output_schema="yes", system_prompt="yes", append_system_prompt="yes"
)
EDITS = "Read and run what you need, but change no file and nothing else on this machine: this is a review."
TOOLS = "Answer at once, in one message. Do not call any tools."
FIT = (
    'Answer with exactly one JSON value, without other text or a code fence, that fits this schema:\n{"type":"object"}'
)
EVERYTHING: dict[str, Any] = {
    "system_prompt": "You are a parrot.",
    "append_system_prompt": "Say it twice.",
    "output_schema": {"type": "object"},
}


@pytest.mark.parametrize(
    ("fields", "prompt"),
    [
        ({}, "do it"),
        ({"mode": "review"}, f"{EDITS}\n\ndo it"),
        ({"mode": "complete"}, f"{TOOLS}\n\ndo it"),
        ({"mode": "complete", "allowed_tools": ()}, f"{TOOLS}\n\ndo it"),
        ({"mode": "complete", "allowed_tools": ("Read",)}, "do it"),
        ({"output_schema": {"type": "object"}}, f"do it\n\n{FIT}"),
        ({"output_schema": {}}, "do it\n\n" + FIT.replace('{"type":"object"}', "{}")),
        (
            {"mode": "complete", **EVERYTHING},
            f"You are a parrot.\n\nSay it twice.\n\n{TOOLS}\n\ndo it\n\n{FIT}",
        ),
    ],
    ids=["nothing", "review", "complete", "no-tools", "some-tools", "schema", "any-schema", "everything"],
)
def test_an_agent_without_options_is_asked_in_its_prompt(fields: dict[str, Any], prompt: str) -> None:
    task = msgspec.structs.replace(TASK, **fields)
    assert add_prompt_fallbacks(task, ASKED) == msgspec.structs.replace(task, prompt=prompt)


@pytest.mark.parametrize("mode", ["exec", "review", "complete"])
def test_an_agent_with_options_gets_the_prompt_as_it_is(mode: str) -> None:
    task = msgspec.structs.replace(TASK, mode=mode, **EVERYTHING)
    assert add_prompt_fallbacks(task, MADE_SO) is task


def test_attached_texts_stand_between_the_prompt_and_the_schema() -> None:
    task = msgspec.structs.replace(TASK, output_schema={"type": "object"})
    assert add_prompt_fallbacks(task, ASKED, texts="The file /a:\nx").prompt == f"do it\n\nThe file /a:\nx\n\n{FIT}"
    assert add_prompt_fallbacks(TASK, MADE_SO, texts="The file /a:\nx").prompt == "do it\n\nThe file /a:\nx"


def test_a_schema_is_written_on_one_line_as_json() -> None:
    assert schema_instruction({"title": "é\n", "enum": [1, None]}).splitlines()[1:] == [
        '{"title":"é\\n","enum":[1,null]}'
    ]
