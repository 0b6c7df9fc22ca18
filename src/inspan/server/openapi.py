"""The description of the API, OpenAPI 3.1, from the table of operations: nothing in it is written by hand twice."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

from inspan import __version__
from inspan.client.operations import Operation
from inspan.protocol.events import Event

from .access import PREFIX
from .bodies import LARGEST_BODY_BYTES
from .problems import MEDIA_TYPE, Problem
from .values import LoginKey, LoginRequest, ServerInfo

_REFERENCE = "#/components/schemas/{name}"
_PLACES = re.compile(r"\{(\w+)\}")
_ABOUT = (
    "Start, follow and steer runs of coding agents. Every address needs the token that `inspan serve` prints; what is "
    "wrong is answered as a problem (RFC 9457) with the codes of the command line, and with what to do next."
)
_EXAMPLES: dict[str, Any] = {
    "runs.start": {"task": {"prompt": "Fix the failing test", "cwd": "/home/me/shop"}},
    "sessions.send": {"text": "And now the other one, please", "when": "queue"},
    "approvals.answer": {"allowed": True},
    "login": {"token": "the token that inspan serve prints"},
}
_PROBLEMS = {
    "Refused": "The request cannot be used as it is; `field` names what is wrong.",
    "Unauthorized": "No token, or a wrong one.",
    "Forbidden": "Asked for by another site, by a cookie alone, of a server that only shows, or outside of its roots.",
    "NotFound": "There is nothing of this name.",
    "Conflict": "It cannot be done as things stand.",
    "TooLarge": f"A body has at most {LARGEST_BODY_BYTES} bytes.",
    "NotJson": "The body is not `application/json`.",
    "UnknownHost": "The server is not called so.",
    "Unavailable": "The state folder cannot be used, as on a full disk, or there are too many of something.",
    "Problem": "What is wrong, and what to do next.",
}
_ANSWERS = {
    "400": "Refused",
    "401": "Unauthorized",
    "403": "Forbidden",
    "421": "UnknownHost",
    "503": "Unavailable",
    "default": "Problem",
}


def build_description(operations: Iterable[Operation], streams: Iterable[Operation]) -> dict[str, Any]:
    """The whole document."""
    operations, streams = tuple(operations), tuple(streams)
    every = (*operations, *streams)
    kinds = list(dict.fromkeys(kind for each in every for kind in (each.params, each.result)))
    (event, *schemas), components = msgspec.json.schema_components(
        [cast(Any, Event), Problem, LoginRequest, LoginKey, ServerInfo, *kinds], ref_template=_REFERENCE
    )
    by_type = dict(zip(kinds, schemas[4:], strict=True))
    _name_event(event, components)
    paths: dict[str, Any] = _describe_own()
    for each in every:
        described = _describe_operation(each, components, by_type[each.result], is_stream=each in streams)
        paths.setdefault(PREFIX + each.path, {})[each.method.lower()] = described
    used = _find_used(paths, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "inspan", "version": __version__, "description": _ABOUT, "license": {"name": "Apache-2.0"}},
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {"cookie": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {name: schema for name, schema in sorted(components.items()) if name in used},
            "responses": {name: _describe_problem(about) for name, about in _PROBLEMS.items()},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "The token of the server."},
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "inspan-7117",
                    "description": "What `POST /login` sets, for browsers; the number is the server's port. Alone it "
                    "only reads: what changes something needs the header `X-Inspan-Key`, too.",
                },
            },
        },
    }


def _name_event(event: dict[str, Any], components: dict[str, Any]) -> None:
    """One name for an event of any kind, also where it is handed on as it was written."""
    components["Event"] = {"description": "One event of a run; its `kind` says which.", **event}
    for name in ("EventLine", "StreamedEvent"):
        if name in components:
            components[name]["properties"]["event"] = {"$ref": _REFERENCE.format(name="Event")}


def _describe_own() -> dict[str, Any]:
    """What the server itself answers."""
    none = {"204": {"description": "Done."}}
    return {
        f"{PREFIX}/info": {
            "get": {
                "operationId": "info",
                "summary": "What the server is, and where it lets runs start.",
                "responses": {"200": _describe_json("It is this.", _refer(ServerInfo)), **_refer_problems()},
            }
        },
        f"{PREFIX}/login": {
            "post": {
                "operationId": "login",
                "summary": "Changes a token for a cookie and a key, as a browser needs them.",
                "security": [],
                "requestBody": _describe_body(_refer(LoginRequest), _EXAMPLES["login"], is_required=True),
                "responses": {"200": _describe_json("Let in.", _refer(LoginKey)), **_refer_problems("413", "415")},
            }
        },
        f"{PREFIX}/logout": {
            "post": {
                "operationId": "logout",
                "summary": "Takes the cookie away again.",
                "responses": {**none, **_refer_problems()},
            }
        },
        f"{PREFIX}/openapi.json": {
            "get": {
                "operationId": "openapi",
                "summary": "This document.",
                "responses": {"200": _describe_json("It is this.", {"type": "object"}), **_refer_problems()},
            }
        },
    }


def _describe_operation(
    operation: Operation, components: dict[str, Any], result: dict[str, Any], *, is_stream: bool
) -> dict[str, Any]:
    named, fields = _PLACES.findall(operation.path), components[operation.params.__name__]
    properties: dict[str, Any] = fields.get("properties", {})
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.about.partition(". ")[0],
        "description": operation.about,
        "tags": [operation.name.partition(".")[0]],
        "parameters": [{"name": name, "in": "path", "required": True, "schema": properties[name]} for name in named],
    }
    rest = [name for name in properties if name not in named]
    required: list[str] = [name for name in fields.get("required", []) if name not in named]
    if operation.method == "POST":
        schema = _refer(operation.params)
        if named:
            schema = {
                "type": "object",
                "properties": {name: properties[name] for name in rest},
                "required": required,
                "additionalProperties": False,
            }
        described["requestBody"] = _describe_body(schema, _EXAMPLES.get(operation.name), is_required=bool(required))
    else:
        described["parameters"] += [_describe_query(name, properties[name], name in required) for name in rest]
    if is_stream:
        described["parameters"].append(_LAST_EVENT_ID)
        answer = {"200": _describe_stream(result)}
    elif operation.creates:
        described["parameters"].append(_IDEMPOTENCY_KEY)
        answer = {"201": {**_describe_json("It was started.", result), "headers": _LOCATION}}
    else:
        answer = {"200": _describe_json("Done.", result)}
    codes = [*(["404"] if named else []), *(["409", "413", "415"] if operation.method == "POST" else [])]
    described["responses"] = {**answer, **_refer_problems(*codes)}
    return described


_LAST_EVENT_ID = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "Where a client that comes back goes on; it counts more than the address.",
    "schema": {"type": "string"},
}
_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A word of the caller's: the same one again, with the same body, starts nothing and answers the "
    "same. It is kept for a day.",
    "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
}
_LOCATION = {"Location": {"description": "Where the run is found.", "schema": {"type": "string"}}}
_MORE = {"404": "NotFound", "409": "Conflict", "413": "TooLarge", "415": "NotJson"}


def _describe_query(name: str, schema: dict[str, Any], is_required: bool) -> dict[str, Any]:
    described: dict[str, Any] = {"name": name, "in": "query", "required": is_required, "schema": schema}
    if schema.get("type") == "array":
        described |= {"style": "form", "explode": True}
    return described


def _describe_body(schema: dict[str, Any], example: Any, *, is_required: bool) -> dict[str, Any]:
    content: dict[str, Any] = {"schema": schema}
    if example is not None:
        content["example"] = example
    return {"required": is_required, "content": {"application/json": content}}


def _describe_json(about: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": about, "headers": _HEADERS, "content": {"application/json": {"schema": schema}}}


def _describe_stream(schema: dict[str, Any]) -> dict[str, Any]:
    about = (
        "Server-sent events; the data of each is JSON of this schema. The last one is `end`, and says why. A stream of "
        "many runs says `left` of each that is over, and `end` where all that were named are."
    )
    content = {"schema": {"type": "string"}, "x-event-data": schema}
    return {"description": about, "headers": _HEADERS, "content": {"text/event-stream": content}}


def _describe_problem(about: str) -> dict[str, Any]:
    return {"description": about, "headers": _HEADERS, "content": {MEDIA_TYPE: {"schema": _refer(Problem)}}}


_HEADERS = {"X-Request-Id": {"description": "The caller's own id, or a new one.", "schema": {"type": "string"}}}


def _refer_problems(*codes: str) -> dict[str, Any]:
    names = {**_ANSWERS, **{code: _MORE[code] for code in codes}}
    return {code: {"$ref": f"#/components/responses/{name}"} for code, name in sorted(names.items())}


def _refer(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {"$ref": _REFERENCE.format(name=kind.__name__)}


def _find_used(paths: Any, components: dict[str, Any]) -> set[str]:
    """The schemas that something refers to: parameters stand where they are used, one by one."""
    used, waiting = {Problem.__name__}, [paths, components[Problem.__name__]]
    while waiting:
        part: Any = waiting.pop()
        if isinstance(part, dict):
            values: Sequence[Any] = list(part.values())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            for value in values:
                name = value.rpartition("/")[2] if isinstance(value, str) else ""
                if isinstance(value, str) and value.startswith("#/components/schemas/") and name not in used:
                    used.add(name)
                    waiting.append(components[name])
            waiting += values
        elif isinstance(part, list):
            waiting += part  # pyright: ignore[reportUnknownArgumentType]
    return used
