"""The scripted model as the providers' own clients see it, with their strictest validation: every shape is theirs."""

import json
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import anthropic
import openai
import pytest

from inspan.protocol.usage import Usage

from .scripted_gateway import TOKEN, Json, ScriptedGateway

with warnings.catch_warnings():
    warnings.simplefilter(
        "ignore"
    )  # Of its own source, and only while that is compiled: 3.1 has an odd escape in a text.
    from google import genai
    from google.genai import types as google

USAGE = Usage(input=1000, output=50, cache_read=300, cache_write=20, reasoning=11)
_USAGE = "usage = {input = 1000, output = 50, cache_read = 300, cache_write = 20, reasoning = 11}\n"
ADD_PATCH = "*** Begin Patch\n*** Add File: new.txt\n+one\n*** End Patch"


class SeenAnswer(NamedTuple):
    """What a client made of an answer: the texts joined, the tools in order, and what it was told to have used."""

    text: str
    thought: str
    tools: list[tuple[str, Any]]
    usage: Usage


class Case(NamedTuple):
    """A step of a script, the tools that the request offers as (name, fields), and what the client must see."""

    step: str
    seen: tuple[str, str, list[tuple[str, Any]]]
    tools: tuple[tuple[str, tuple[str, ...]], ...] = ()
    custom: str = ""


_SHELL = ("Bash", ("command",))
_WRITER = ("Write", ("file_path", "content"))
_EDITOR = ("Edit", ("file_path", "old_string", "new_string"))
CASES = {
    "say": Case('say = "hello"', ("hello", "", [])),
    "say in parts": Case('say = ["hel", "lo \\u2028 👩‍👩‍👧"]', ("hello \u2028 👩‍👩‍👧", "", [])),
    "think": Case('think = ["hm", "m"]\nsay = "so"', ("so", "hmm", [])),
    "think alone": Case('think = "hm"', ("", "hm", [])),
    "shell": Case('run = "ls"', ("", "", [("Bash", {"command": "ls"})]), (_SHELL,)),
    "all at once": Case(
        'think = "hm"\nsay = ["I ", "look"]\nrun = "ls"', ("I look", "hm", [("Bash", {"command": "ls"})]), (_SHELL,)
    ),
    "write": Case(
        'write = {path = "new.txt", content = "one\\n"}',
        ("", "", [("Write", {"file_path": "/new.txt", "content": "one\n"})]),
        (_SHELL, _WRITER),
    ),
    "edit": Case(
        'edit = {path = "new.txt", old = "one", new = "two"}',
        ("", "", [("Edit", {"file_path": "/new.txt", "old_string": "one", "new_string": "two"})]),
        (_EDITOR,),
    ),
    "use": Case('use = {tool = "look", input = {at = {me = [1]}}}', ("", "", [("look", {"at": {"me": [1]}})])),
    "use without arguments": Case('use = {tool = "look"}', ("", "", [("look", {})])),
    "try tools": Case(
        'try_tools = "all"',
        ("", "", [("Read", {"file_path": "/by-a-tool-on-trial-1.txt"})]),
        (("Read", ("file_path",)),),
    ),
    "answer": Case("answer = {n = 1}", ('{"n":1}', "", [])),
    "answer by a tool": Case(
        "answer = {n = 1}", ("", "", [("StructuredOutput", {"n": 1})]), (("StructuredOutput", ("n",)),)
    ),
    "patch": Case(
        'write = {path = "new.txt", content = "one\\n"}', ("", "", [("apply_patch", ADD_PATCH)]), custom="apply_patch"
    ),
}
OF_FUNCTIONS = [name for name in CASES if not CASES[name].custom]


def _script(case: Case) -> str:
    return f"[[call]]\n{case.step}\n{_USAGE}"


def _schema(fields: tuple[str, ...]) -> Json:
    return {"type": "object", "properties": {field: {"type": "string"} for field in fields}}


def _openai(stage: ScriptedGateway) -> Any:
    return openai.OpenAI(
        base_url=f"http://127.0.0.1:{stage.port}/v1",
        api_key=TOKEN,
        max_retries=0,
        # On loopback without TLS; certificates to check it by take 100 ms to load.
        http_client=openai.DefaultHttpxClient(verify=False),
        _strict_response_validation=True,
    )


def _anthropic(stage: ScriptedGateway) -> Any:
    return anthropic.Anthropic(
        base_url=f"http://127.0.0.1:{stage.port}",
        api_key=TOKEN,
        max_retries=0,
        http_client=anthropic.DefaultHttpxClient(verify=False),
        _strict_response_validation=True,
    )


def _google(stage: ScriptedGateway) -> Any:
    without = {"verify": False}
    options = google.HttpOptions(
        base_url=f"http://127.0.0.1:{stage.port}", client_args=without, async_client_args=without
    )
    return genai.Client(api_key=TOKEN, http_options=options)


def _messages(stage: ScriptedGateway, case: Case, *, stream: bool) -> SeenAnswer:
    tools: Any = [{"name": name, "input_schema": _schema(fields)} for name, fields in case.tools]
    asked: Any = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], "tools": tools}
    with _anthropic(stage) as client:
        if stream:
            with client.messages.stream(**asked) as events:
                message = events.get_final_message()
        else:
            message = client.messages.create(**asked)
    used = message.usage
    assert message.stop_reason == ("tool_use" if case.seen[2] else "end_turn")
    return SeenAnswer(
        text="".join(block.text for block in message.content if block.type == "text"),
        thought="".join(block.thinking for block in message.content if block.type == "thinking"),
        tools=[(block.name, block.input) for block in message.content if block.type == "tool_use"],
        usage=Usage(
            input=used.input_tokens,
            output=used.output_tokens,
            cache_read=used.cache_read_input_tokens or 0,
            cache_write=used.cache_creation_input_tokens or 0,
            reasoning=used.output_tokens_details.thinking_tokens if used.output_tokens_details else 0,
        ),
    )


def _responses(stage: ScriptedGateway, case: Case, *, stream: bool) -> SeenAnswer:
    tools: Any = [{"type": "function", "name": name, "parameters": _schema(fields)} for name, fields in case.tools]
    tools += [{"type": "custom", "name": case.custom}] if case.custom else []
    with _openai(stage) as client:
        if stream:
            events = list(client.responses.create(model="m", input="hi", tools=tools, stream=True))
            assert [event.sequence_number for event in events] == list(range(len(events)))
            assert events[-1].type == "response.completed"
            response = events[-1].response
        else:
            response = client.responses.create(model="m", input="hi", tools=tools)
    used = response.usage
    assert used
    assert (response.status, response.error) == ("completed", None)
    reasoning = [item for item in response.output if item.type == "reasoning"]
    calls = [item for item in response.output if item.type == "function_call"]
    patches = [item for item in response.output if item.type == "custom_tool_call"]
    return SeenAnswer(
        text=response.output_text,
        thought="".join(part.text for item in reasoning for part in item.summary),
        tools=[(item.name, json.loads(item.arguments)) for item in calls]
        + [(each.name, each.input) for each in patches],
        usage=_usage_of_openai(
            used.input_tokens,
            used.output_tokens,
            used.input_tokens_details.cached_tokens,
            used.input_tokens_details.cache_write_tokens,
            used.output_tokens_details.reasoning_tokens,
        ),
    )


def _chat(stage: ScriptedGateway, case: Case, *, stream: bool) -> SeenAnswer:
    functions = [(name, {"name": name, "parameters": _schema(fields)}) for name, fields in case.tools]
    tools: Any = [{"type": "function", "function": declared} for _, declared in functions]
    tools += [{"type": "custom", "custom": {"name": case.custom}}] if case.custom else []
    asked: Any = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": tools}
    with _openai(stage) as client:
        if stream:
            return _chat_streamed(client, asked)
        completion = client.chat.completions.create(**asked)
    (choice,) = completion.choices
    assert choice.finish_reason == ("tool_calls" if case.seen[2] else "stop")
    calls: list[Any] = choice.message.tool_calls or []
    return SeenAnswer(
        text=choice.message.content or "",
        thought=getattr(choice.message, "reasoning_content", ""),
        tools=[
            (call.function.name, json.loads(call.function.arguments))
            if call.type == "function"
            else (call.custom.name, call.custom.input)
            for call in calls
        ],
        usage=_usage_of_completion(completion.usage),
    )


def _chat_streamed(client: Any, asked: Any) -> SeenAnswer:
    chunks = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    calls: list[Any] = [call for delta in deltas for call in _or_empty(delta.tool_calls)]
    custom: list[Any] = [getattr(call, "custom", None) for call in calls]
    functions = [call.function for call in calls if call.function]
    (used,) = [chunk.usage for chunk in chunks if chunk.usage]
    return SeenAnswer(
        text="".join(delta.content or "" for delta in deltas),
        thought="".join(getattr(delta, "reasoning_content", "") for delta in deltas),
        tools=[(each.name or "", json.loads(each.arguments or "")) for each in functions]
        + [(each["name"], each["input"]) for each in custom if each],
        usage=_usage_of_completion(used),
    )


def _or_empty(values: Any) -> list[Any]:
    return values or []


def _usage_of_completion(used: Any) -> Usage:
    assert used.total_tokens == used.prompt_tokens + used.completion_tokens
    return _usage_of_openai(
        used.prompt_tokens,
        used.completion_tokens,
        used.prompt_tokens_details.cached_tokens,
        used.prompt_tokens_details.cache_write_tokens,
        used.completion_tokens_details.reasoning_tokens,
    )


def _usage_of_openai(taken: int, output: int, cache_read: int, cache_write: int, reasoning: int) -> Usage:
    """Its input includes what a cache took."""
    return Usage(
        input=taken - cache_read - cache_write,
        output=output,
        cache_read=cache_read,
        cache_write=cache_write,
        reasoning=reasoning,
    )


def _generate(stage: ScriptedGateway, case: Case, *, stream: bool) -> SeenAnswer:
    declared: Any = [{"name": name, "parameters_json_schema": _schema(fields)} for name, fields in case.tools]
    tools: Any = [google.Tool(function_declarations=declared)] if declared else []
    config = google.GenerateContentConfig(tools=tools)
    with _google(stage) as client:
        if stream:
            pieces = list(client.models.generate_content_stream(model="m", contents="hi", config=config))
        else:
            pieces = [client.models.generate_content(model="m", contents="hi", config=config)]
    candidates: list[Any] = [candidate for piece in pieces for candidate in _or_empty(piece.candidates)]
    parts: list[Any] = [part for candidate in candidates for part in _or_empty(candidate.content.parts)]
    used = pieces[-1].usage_metadata
    assert used
    assert candidates[-1].finish_reason == google.FinishReason.STOP
    taken, cached, thought = (
        used.prompt_token_count or 0,
        used.cached_content_token_count or 0,
        used.thoughts_token_count,
    )
    return SeenAnswer(
        text="".join(part.text or "" for part in parts if not part.thought),
        thought="".join(part.text or "" for part in parts if part.thought),
        tools=[(part.function_call.name or "", part.function_call.args) for part in parts if part.function_call],
        usage=Usage(
            input=taken - cached,
            output=(used.candidates_token_count or 0) + (thought or 0),
            cache_read=cached,
            reasoning=thought or 0,
        ),
    )


_ASK: dict[str, Callable[..., SeenAnswer]] = {
    "messages": _messages,
    "responses": _responses,
    "chat": _chat,
    "generate": _generate,
}


def _expected_answer(wire: str, case: Case) -> SeenAnswer:
    # Here no cache is written to: what went there is input.
    used = USAGE if wire != "generate" else Usage(input=1020, output=50, cache_read=300, reasoning=11)
    return SeenAnswer(*case.seen, usage=used)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("wire", _ASK)
@pytest.mark.parametrize("name", OF_FUNCTIONS)
def test_an_answer_is_what_the_official_client_takes_it_for(name: str, wire: str, stream: bool) -> None:
    case = CASES[name]
    with ScriptedGateway(_script(case)) as stage:
        assert _ASK[wire](stage, case, stream=stream) == _expected_answer(wire, case)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("wire", ["responses", "chat"])
def test_a_custom_tool_is_what_the_official_client_takes_it_for(wire: str, stream: bool) -> None:
    case = CASES["patch"]
    with ScriptedGateway(_script(case)) as stage:
        assert _ASK[wire](stage, case, stream=stream) == _expected_answer(wire, case)


@pytest.mark.parametrize("name", ["all at once", "patch"])
def test_the_helpers_of_the_official_client_build_the_same_from_the_pieces(name: str) -> None:
    case = CASES[name]
    tools: Any = [{"type": "function", "name": each, "parameters": _schema(fields)} for each, fields in case.tools]
    tools += [{"type": "custom", "name": case.custom}] if case.custom else []
    with ScriptedGateway(_script(case)) as stage, _openai(stage) as client:
        with client.responses.stream(model="m", input="hi", tools=tools) as events:
            told = [event.delta for event in events if event.type == "response.output_text.delta"]
            response = events.get_final_response()
    assert "".join(told) == response.output_text == case.seen[0]
    assert [item.type for item in response.output][-1] == ("custom_tool_call" if case.custom else "function_call")


# A status, and the class of the client's that it is told as; the script writes the provider's usual body.
_STATUSES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    429: "RateLimitError",
    500: "InternalServerError",
    503: ("InternalServerError", "ServiceUnavailableError"),
    529: ("InternalServerError", "OverloadedError"),
}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("status", _STATUSES)
@pytest.mark.parametrize("wire", ["messages", "responses", "chat"])
def test_an_error_is_the_official_clients_own(wire: str, status: int, stream: bool) -> None:
    family: Any = anthropic if wire == "messages" else openai
    with ScriptedGateway(f'[[call]]\nfail = {{status = {status}, message = "So it is."}}\n') as stage:
        with pytest.raises(family.APIStatusError) as caught:
            _ASK[wire](stage, CASES["say"], stream=stream)
    error = caught.value
    assert (error.status_code, type(error).__name__ in _STATUSES[status]) == (status, True)
    told = error.body["error"] if wire == "messages" else error.body
    assert told["message"] == "So it is."


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("status", _STATUSES)
def test_an_error_of_google_is_the_official_clients_own(status: int, stream: bool) -> None:
    with ScriptedGateway(
        f'[[call]]\nfail = {{status = {status}, message = "So it is."}}\nrepeat = "always"\n'
    ) as stage:
        with pytest.raises(genai.errors.APIError) as caught:
            _generate(stage, CASES["say"], stream=stream)
    assert (caught.value.code, caught.value.message) == (status, "So it is.")
    assert caught.value.status


def test_what_is_no_call_is_the_official_clients_own_too() -> None:
    with ScriptedGateway('[[call]]\nsay = "unused"\n') as stage:
        with _openai(stage) as of_openai, _anthropic(stage) as of_anthropic, _google(stage) as of_google:
            assert list(of_openai.models.list()) == []
            assert list(of_anthropic.models.list()) == []
            said: Any = [{"role": "user", "content": "hi"}]
            assert of_anthropic.messages.count_tokens(model="m", messages=said).input_tokens == 100
            assert list(of_google.models.list()) == []
            assert of_google.models.count_tokens(model="m", contents="hi").total_tokens == 100


@pytest.mark.parametrize("name", OF_FUNCTIONS)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_no_field_of_an_answer_is_unknown_to_google(name: str, stream: bool) -> None:
    """Its client drops what it does not know; the types behind it do not."""
    tools = tuple({"name": each, "fields": fields} for each, fields in CASES[name].tools)
    with ScriptedGateway(_script(CASES[name])) as stage:
        answer = stage.ask("generate", stream=stream, tools=tools)
    for piece in answer.events if stream else [answer.json]:
        google.GenerateContentResponse.model_validate(piece)
