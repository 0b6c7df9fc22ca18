"""Every wire says the same thing in its own format, streamed or not, and is metered exactly."""

import json

import pytest

from inspan.protocol.usage import Usage

from .scripted_gateway import PATHS, WIRES, ScriptedGateway, ask_body, text_in_body, texts_in_events, tool_in_body

THINK_AND_SAY = '[[call]]\nthink = "hm"\nsay = ["one ", "two"]\n'
USAGE = "usage = {input = 11, output = 5, cache_read = 3, cache_write = 2, reasoning = 1}\n"
WHOLE = Usage(input=11, output=5, cache_read=3, cache_write=2, reasoning=1)
# This one has no number for what a cache has taken in: it is part of the input.
METERED = dict.fromkeys(WIRES, WHOLE) | {"generate": Usage(input=13, output=5, cache_read=3, reasoning=1)}
SHELL = {"name": "Bash", "fields": ("command", "description")}


@pytest.mark.parametrize("wire", WIRES)
def test_each_part_of_what_is_said_is_streamed_as_its_own_delta(wire: str) -> None:
    with ScriptedGateway(THINK_AND_SAY) as stage:
        response = stage.ask(wire)
    assert response.headers["content-type"] == "text/event-stream"
    assert texts_in_events(wire, response.events) == ["one ", "two"]


@pytest.mark.parametrize("wire", WIRES)
def test_an_unstreamed_answer_holds_the_whole_text(wire: str) -> None:
    with ScriptedGateway(THINK_AND_SAY) as stage:
        response = stage.ask(wire, stream=False)
    assert text_in_body(wire, response.json) == "one two"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("wire", WIRES)
def test_the_usage_that_is_written_is_the_usage_that_is_metered(wire: str, stream: bool) -> None:
    with ScriptedGateway(THINK_AND_SAY + USAGE) as stage:
        stage.ask(wire, stream=stream)
        call = stage.next_call()
    assert call.usage == METERED[wire]
    assert (call.number, call.wire, call.model, call.status, call.problem) == (1, wire, "some-model", 200, "")


@pytest.mark.parametrize("wire", WIRES)
def test_a_shell_step_uses_the_tool_that_the_request_offers(wire: str) -> None:
    with ScriptedGateway('[[call]]\nrun = "ls"\n') as stage:
        response = stage.ask(wire, stream=False, tools=(SHELL,))
    assert tool_in_body(wire, response.json) == ("Bash", {"command": "ls", "description": "Run a command"})


def test_a_streamed_message_announces_thinking_words_and_tool_in_order() -> None:
    with ScriptedGateway('[[call]]\nthink = "hm"\nsay = "so"\nrun = "ls"\n') as stage:
        events = stage.ask("messages", tools=(SHELL,)).events
    starts = [event["content_block"]["type"] for event in events if event["type"] == "content_block_start"]
    assert starts == ["thinking", "text", "tool_use"]
    assert [event["type"] for event in events[-2:]] == ["message_delta", "message_stop"]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


def test_a_streamed_response_repeats_its_items_when_it_is_complete() -> None:
    with ScriptedGateway('[[call]]\nthink = "hm"\nsay = "so"\nrun = "ls"\n') as stage:
        events = stage.ask("responses", tools=(SHELL,)).events
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert events[-1]["response"]["output"] == done
    assert [item["type"] for item in done] == ["reasoning", "message", "function_call"]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


def test_a_streamed_completion_ends_with_its_marker() -> None:
    with ScriptedGateway('[[call]]\nsay = "so"\nrun = "ls"\n') as stage:
        response = stage.ask("chat", tools=(SHELL,))
    assert response.body.endswith(b"data: [DONE]\n\n")
    reasons = [choice["finish_reason"] for event in response.events for choice in event["choices"]]
    assert [reason for reason in reasons if reason] == ["tool_calls"]


def test_a_custom_tool_inside_a_namespace_of_the_input_is_found() -> None:
    declared = {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}
    body = ask_body("responses", "hi", stream=False)
    body["input"].insert(0, {"type": "additional_tools", "tools": [declared]})
    with ScriptedGateway("[[call]]\nrun = 'echo \"hi\"'\n") as stage:
        (item,) = stage.send("POST", PATHS["responses"], body=body).json["output"]
    assert (item["type"], item["name"], item["namespace"]) == ("custom_tool_call", "exec", "functions")
    assert json.dumps('echo "hi"') in item["input"]


@pytest.mark.parametrize(
    ("wire", "messages"),
    [
        (
            "messages",
            [
                {"role": "user", "content": "old"},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t", "name": "Bash"}],
                },
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "t", "content": "fresh"}],
                },
                {"role": "system", "content": "environment"},
            ],
        ),
        (
            "responses",
            [
                {"role": "user", "content": [{"type": "input_text", "text": "old"}]},
                {"type": "function_call", "name": "x", "call_id": "t", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "t", "output": "fresh"},
            ],
        ),
        (
            "chat",
            [
                {"role": "user", "content": "old"},
                {"role": "assistant", "content": None},
                {"role": "tool", "tool_call_id": "t", "content": [{"type": "text", "text": "fresh"}]},
            ],
        ),
        (
            "generate",
            [
                {"role": "user", "parts": [{"text": "old"}]},
                {"role": "model", "parts": [{"functionCall": {"name": "x"}}]},
                {
                    "role": "user",
                    "parts": [{"functionResponse": {"name": "x", "response": {"output": ["fresh"]}}}],
                },
            ],
        ),
    ],
)
@pytest.mark.parametrize(("expected", "status"), [("fresh", 200), ("old", 400), ("environment", 400)])
def test_only_the_newest_part_of_a_request_is_searched(
    wire: str, messages: list[object], expected: str, status: int
) -> None:
    body = ask_body(wire, "", stream=False)
    body[{"responses": "input", "generate": "contents"}.get(wire, "messages")] = messages
    with ScriptedGateway(f'[[call]]\nexpect = "{expected}"\nsay = "ok"\n') as stage:
        assert stage.send("POST", PATHS[wire], body=body).status == status
