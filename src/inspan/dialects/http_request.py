"""How an agent that is an API is asked: the request that its host process sends, in either of the two languages."""

import os.path
from typing import Any, cast

import msgspec

from inspan.contracts.driver import Attachment, Launch, LaunchContext, SessionSupport
from inspan.errors import BadInput
from inspan.protocol.task import Task
from inspan.protocol.wire import DECODE_ERRORS

from .http_session import HttpSessionSetup
from .json_values import Json

_NO_TOOLS = "A run is one call of an API, which has no tool on this machine and is given none."
_NO_SESSION = "A run is one call of an API: nothing is stored that could be resumed or read back."
# What no agent can do that is an API, by the names of scenarios.
UNSUPPORTED_SCENARIOS = {
    **dict.fromkeys(("shell", "write", "edit", "failing_command", "extra_tools", "long_output"), _NO_TOOLS),
    **dict.fromkeys(("boxed_work", "boxed_install"), _NO_TOOLS),
    **dict.fromkeys(("resume", "fork", "transcript"), _NO_SESSION),
    "own_tool": _NO_TOOLS,
    "interrupt_turn": "A turn ends with its process.",
    "ask_permission": "It does not ask before it acts.",
    "max_turns": "A run is one call, so there is no second turn that could be kept from it.",
}
HTTP_SESSION = SessionSupport(messages=True, model=True)
_HOST = os.path.join(os.path.dirname(os.path.dirname(__file__)), "transports", "http_agent.py")


def build_launch(task: Task, context: LaunchContext, body: Json, *, path: str, credentials: tuple[str, ...]) -> Launch:
    """One call with this body, to the provider's address in the task or to the gateway.

    The task's options, `NAME=VALUE`, stand in the body as they are said. Without a gateway the key is in one of the
    variables for `credentials`.
    """
    lines = [f"path: {path}"]
    env: dict[str, str] = {}
    if context.endpoint:
        lines.append(f"address: {context.endpoint.url}")
        if context.endpoint.variable:
            env[context.endpoint.variable] = context.endpoint.token
            lines.append(f"key-from: {context.endpoint.variable}")
    else:
        lines += [f"address: {task.base_url}", f"key-from: {' '.join(credentials)}", "clock: yes"]
    body = _merge_options(body, task.options)
    if task.converses:
        return _build_session_launch(context, body, env=env, head="".join(f"{line}\n" for line in lines))
    written = msgspec.json.encode(body)
    return Launch(argv=(context.program, "-I", _HOST), env=env, stdin="\n".join([*lines, "", ""]).encode() + written)


def _build_session_launch(context: LaunchContext, body: Json, *, env: dict[str, str], head: str) -> Launch:
    """The same process, which makes one call after the other; the prompt's place is the messages'."""
    field = "input" if "input" in body else "messages"
    *before, asked = cast(list[Json], body[field])
    attached = cast(list[Json], asked["content"])[1:] if isinstance(asked["content"], list) else []
    setup = HttpSessionSetup(head=head, body={**body, field: before}, field=field, attached=attached)
    return Launch(
        argv=(context.program, "-I", _HOST, "--serve"),
        env=env,
        stdin=msgspec.json.encode(setup),
        keeps_stdin=True,
        conversation=True,
    )


def build_chat_body(task: Task, context: LaunchContext, *, model: str) -> Json:
    """A request for Chat Completions."""
    said = [{"role": "system", "content": join_instructions(task)}] if join_instructions(task) else []
    content: Any = task.prompt
    if context.attachments:
        images = [{"type": "image_url", "image_url": {"url": _to_data_url(each)}} for each in context.attachments]
        content = [{"type": "text", "text": task.prompt}, *images]
    body: Json = {
        "model": model,
        "messages": [*said, {"role": "user", "content": content}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if task.effort:
        body["reasoning_effort"] = task.effort
    if task.output_schema is not None:
        body["response_format"] = json_schema_format(task.output_schema)
    return body


def build_responses_body(task: Task, context: LaunchContext, *, model: str) -> Json:
    """A request for Responses, without the form of the answer: there each provider has its own field."""
    said = [_build_message("system", join_instructions(task))] if join_instructions(task) else []
    content: Any = task.prompt
    if context.attachments:
        images = [{"type": "input_image", "image_url": _to_data_url(each)} for each in context.attachments]
        content = [{"type": "input_text", "text": task.prompt}, *images]
    body: Json = {"model": model, "input": [*said, _build_message("user", content)], "stream": True, "store": False}
    if task.effort:
        body["reasoning"] = {"effort": task.effort}
    return body


def join_instructions(task: Task) -> str:
    """All that stands in place of a system prompt: an API has none of its own."""
    return "\n\n".join(part for part in (task.system_prompt, task.append_system_prompt) if part)


def json_schema_format(schema: Json) -> Json:
    """The form of an answer that has to fit a schema."""
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def _build_message(role: str, content: Any) -> Json:
    return {"type": "message", "role": role, "content": content}


def _to_data_url(attachment: Attachment) -> str:
    return f"data:{attachment.media_type};base64,{attachment.base64}"


def check_options(task: Task) -> None:
    """Raises `BadInput` for an option that can be no field of a request."""
    for option in task.options:
        name, equals, _ = option.partition("=")
        if not equals or not name.isidentifier():
            step = "Write NAME=VALUE, a field of the request and its value as JSON: max_output_tokens=2000."
            raise BadInput("options", option, "it is not a field of a request.", next_step=step)


def _merge_options(body: Json, options: tuple[str, ...]) -> Json:
    said = {name: _parse_value(value) for name, _, value in (option.partition("=") for option in options)}
    return {name: value for name, value in {**body, **said}.items() if value is not None}


def _parse_value(text: str) -> Any:
    """A value of JSON, or a text that needs no quotes; `null` leaves the field out."""
    try:
        return msgspec.json.decode(text)
    except DECODE_ERRORS:
        return text
