"""A program's own functions as tools of its agent: described by their types, called with what the agent gives."""

import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast, get_type_hints, overload

import msgspec

from inspan.errors import BadInput
from inspan.protocol.commands import Command, Reply, ReportProgress, SubmitToolResult
from inspan.protocol.events import ToolRequested
from inspan.protocol.known_types import know_type
from inspan.protocol.task import ToolSpec

from .responder import call_function, is_cancelled

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_OUTPUT_BYTES = 1_000_000
_NAMED_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
Send = Callable[[Command], Awaitable[Reply]]


class ToolContext:
    """What a tool function gets that has a parameter of this type: it can tell how far it has come."""

    def __init__(self, identity: str, send: Send) -> None:
        self.id = identity
        self._send = send

    async def report_progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        """Tells the agent, where that wants to know."""
        await self._send(ReportProgress(id=self.id, progress=progress, total=total, message=message))


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool for `tools=[…]`: made by `tool` from a function, or by `declare_tool` for `submit_tool_results`."""

    spec: ToolSpec
    function: Callable[..., Any] | None = None
    arguments: type[msgspec.Struct] | None = None
    context: str = ""

    @property
    def name(self) -> str:
        return self.spec.name

    def __call__(self, *given: Any, **named: Any) -> Any:
        """The function itself, as if it were no tool."""
        if self.function is None:
            raise TypeError(f"tool {self.name} was declared without a function")
        return self.function(*given, **named)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(*, name: str = "", description: str = "") -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, *, name: str = "", description: str = ""
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Makes a typed function a tool: its name and docstring are what the agent reads, its types what may be given.

    A plain function is called in a thread, a coroutine function is awaited in the loop. What it raises is told to the
    agent as the tool's error.
    """
    if function is None:

        def decorate(given: Callable[..., Any]) -> Tool:
            return _build_tool(given, name, description)

        return decorate
    return _build_tool(function, name, description)


def declare_tool(name: str, description: str = "", *, input_schema: dict[str, Any] | None = None) -> Tool:
    """A tool without a function: each call is told as `tool_requested`, and `submit_tool_results` answers it."""
    _check_name(name)
    schema = input_schema or {"type": "object", "properties": {}}
    if schema.get("type") != "object":
        step = 'For example {"type": "object", "properties": {"text": {"type": "string"}}}.'
        raise BadInput("input_schema", schema, "it is not an object's.", next_step=step)
    return Tool(spec=ToolSpec(name=name, description=description, input_schema=schema))


def collect_tools(given: object) -> tuple[Tool, ...]:
    """The tools of an option; raises `BadInput` for what is none, and for two of one name."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise BadInput("tools", given, "it is not a list.", next_step="Give tools=[function, …].")
    items = cast(Sequence[Any], given)
    tools = tuple(each if isinstance(each, Tool) else tool(each) for each in items)
    names = [each.name for each in tools]
    for name in names:
        if names.count(name) > 1:
            raise BadInput("tools", name, "two tools have this name.", next_step="Give one another: @tool(name=…).")
    return tools


async def run_tool(tool: Tool, requested: ToolRequested, send: Send) -> None:
    """Calls the tool's function for one request, and submits what it gives."""
    try:
        output, failed = await _call_tool(tool, requested, send), False
    except msgspec.ValidationError as error:
        output, failed = f"{tool.name}: {error}", True
    except BaseException as error:  # A stranger's function may raise anything: the agent hears of it and goes on.
        if is_cancelled(error):
            raise
        output, failed = f"{tool.name} raised {_describe_error(error)}", True
    await send(SubmitToolResult(id=requested.id, output=output, failed=failed))


def _describe_error(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {ascii(str(error))[1:-1]}"
    except Exception:  # Its own `str` fails.
        return type(error).__name__


async def _call_tool(tool: Tool, requested: ToolRequested, send: Send) -> str:
    arguments = msgspec.convert(requested.input or {}, know_type(cast(type[msgspec.Struct], tool.arguments)))
    named = {field: getattr(arguments, field) for field in arguments.__struct_fields__}
    if tool.context:
        named[tool.context] = ToolContext(requested.id, send)
    function = cast(Callable[..., Any], tool.function)
    return _to_text(await call_function(lambda: function(**named)))


def _to_text(value: object) -> str:
    text = value if isinstance(value, str) else "" if value is None else msgspec.json.encode(value).decode()
    if (size := len(text.encode())) > _MAX_OUTPUT_BYTES:
        raise ValueError(f"it gave {size / 1e6:.1f} MB; a tool may give {_MAX_OUTPUT_BYTES / 1e6:g}")
    return text


def _build_tool(function: Callable[..., Any], name: str, description: str) -> Tool:
    if not callable(cast(object, function)) or isinstance(function, type):
        raise BadInput("tools", function, "it is not a function.", next_step="Give the function itself.")
    chosen = name or getattr(function, "__name__", "")
    _check_name(chosen)
    fields, context = _read_parameters(function, chosen)
    try:
        arguments = msgspec.defstruct(chosen, fields, kw_only=True, forbid_unknown_fields=True)
        schema = _read_schema(arguments)
    except TypeError as error:
        step = "Use types that JSON has: str, int, float, bool, list, dict, dataclasses."
        raise BadInput("tools", chosen, f"a parameter's type cannot be described: {error}.", next_step=step) from error
    words = description or inspect.getdoc(function) or ""
    spec = ToolSpec(name=chosen, description=words, input_schema=schema)
    return Tool(spec=spec, function=function, arguments=arguments, context=context)


def _read_parameters(function: Callable[..., Any], name: str) -> tuple[list[Any], str]:
    """The parameters as fields of a struct, and the one that wants the context."""
    hints = get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    context = ""
    for parameter in inspect.signature(function).parameters.values():
        if hints.get(parameter.name) is ToolContext:
            context = parameter.name
            continue
        if parameter.kind not in _NAMED_KINDS:
            step = "Give each parameter a name and a type."
            raise BadInput("tools", name, f"{parameter} cannot be described.", next_step=step)
        if parameter.name not in hints:
            step = f"As in def {name}({parameter.name}: str)."
            raise BadInput("tools", name, f"parameter {parameter.name} has no type.", next_step=step)
        kind = hints[parameter.name]
        has_default = parameter.default is not inspect.Parameter.empty
        fields.append((parameter.name, kind, parameter.default) if has_default else (parameter.name, kind))
    return fields, context


def _read_schema(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    (schema,), definitions = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    own = definitions.pop(arguments.__name__) if "$ref" in schema else schema
    own = {key: value for key, value in own.items() if key != "title"}
    return {**own, "$defs": definitions} if definitions else own


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or "__" in name:
        step = "Use letters, digits, - and single _: @tool(name=…)."
        raise BadInput("tools", name, "not a valid name of a tool.", next_step=step)
