"""How an agent that is an API is asked: the request that its host process sends, in either of the two languages."""

import os.path
from typing import Any

import msgspec

from inspan.contracts.driver import Attachment, Launch, Place
from inspan.errors import BadInput
from inspan.protocol.task import Task

from .values import Json

_NO_TOOLS = "A run is one call of an API, which has no tool on this machine and is given none."
_NO_SESSION = "A run is one call of an API: nothing is kept of it that could be gone on with or read back."
# What no agent can do that is an API, by the names of scenarios.
CANNOT = {
    **dict.fromkeys(("shell", "write", "edit", "failing_command", "extra_tools", "long_output"), _NO_TOOLS),
    **dict.fromkeys(("resume", "fork", "transcript"), _NO_SESSION),
    "max_turns": "A run is one call, so there is no second turn that could be kept from it.",
}
_HOST = os.path.join(os.path.dirname(os.path.dirname(__file__)), "transports", "http_host.py")


def asked(task: Task, place: Place, body: Json, *, path: str, credentials: tuple[str, ...]) -> Launch:
    """One call with this body, to the provider's address in the task or to the gateway.

    The task's options, `NAME=VALUE`, stand in the body as they are said. Without a gateway the key is in one of the
    variables for `credentials`.
    """
    lines = [f"path: {path}"]
    env: dict[str, str] = {}
    if place.endpoint:
        lines.append(f"address: {place.endpoint.url}")
        if place.endpoint.variable:
            env[place.endpoint.variable] = place.endpoint.token
            lines.append(f"key-from: {place.endpoint.variable}")
    else:
        lines += [f"address: {task.base_url}", f"key-from: {' '.join(credentials)}", "clock: yes"]
    written = msgspec.json.encode(_with_options(body, task.options))
    return Launch(
        argv=(place.program, "-I", "-S", _HOST), env=env, stdin="\n".join([*lines, "", ""]).encode() + written
    )


def chat_body(task: Task, place: Place, *, model: str) -> Json:
    """A request for Chat Completions."""
    said = [{"role": "system", "content": instructions(task)}] if instructions(task) else []
    content: Any = task.prompt
    if place.attachments:
        images = [{"type": "image_url", "image_url": {"url": _data_url(each)}} for each in place.attachments]
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
        body["response_format"] = json_format(task.output_schema)
    return body


def responses_body(task: Task, place: Place, *, model: str) -> Json:
    """A request for Responses, without the form of the answer: there each provider has its own field."""
    said = [_message("system", instructions(task))] if instructions(task) else []
    content: Any = task.prompt
    if place.attachments:
        images = [{"type": "input_image", "image_url": _data_url(each)} for each in place.attachments]
        content = [{"type": "input_text", "text": task.prompt}, *images]
    body: Json = {"model": model, "input": [*said, _message("user", content)], "stream": True, "store": False}
    if task.effort:
        body["reasoning"] = {"effort": task.effort}
    return body


def instructions(task: Task) -> str:
    """All that stands in place of a system prompt: an API has none of its own."""
    return "\n\n".join(part for part in (task.system_prompt, task.append_system_prompt) if part)


def json_format(schema: Json) -> Json:
    """The form of an answer that has to fit a schema."""
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def _message(role: str, content: Any) -> Json:
    return {"type": "message", "role": role, "content": content}


def _data_url(attachment: Attachment) -> str:
    return f"data:{attachment.media_type};base64,{attachment.base64}"


def check_options(task: Task) -> None:
    """Raises `BadInput` for an option that can be no field of a request."""
    for option in task.options:
        name, equals, _ = option.partition("=")
        if not equals or not name.isidentifier():
            step = "Write NAME=VALUE, a field of the request and its value as JSON: max_output_tokens=2000."
            raise BadInput("options", option, "it is no field of a request.", next_step=step)


def _with_options(body: Json, options: tuple[str, ...]) -> Json:
    said = {name: _value(value) for name, _, value in (option.partition("=") for option in options)}
    return {name: value for name, value in {**body, **said}.items() if value is not None}


def _value(text: str) -> Any:
    """A value of JSON, or a text that needs no quotes; `null` leaves the field out."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
