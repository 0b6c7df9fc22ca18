"""The routes of the table of operations: parameters in, the operation in a thread, its result out."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from inspan.client.operations import Operation, convert_params
from inspan.client.place import Place
from inspan.errors import UnknownAgent
from inspan.protocol.wire import encode

from .access import LOGIN, LOGOUT, PREFIX, Access
from .bodies import LARGEST_LOGIN_BYTES, decode, parse_object, parse_query, read_body
from .idempotency import CreatedOnce
from .problems import Refusal
from .roots import Roots
from .threads import Threads
from .values import LoginKey, LoginRequest, ServerInfo

_MOST_AT_ONCE = 32
_CHANGES_FILES = frozenset({"runs.undo", "runs.apply", "runs.remove"})
# What may have slashes in it, as the command of an agent has. Names of runs do not.
_LAST_NAME = re.compile(r"\{(agent|id)\}$")
_JSON = (b"content-type", b"application/json")


class OperationEndpoint:
    """One operation of the table at its address."""

    def __init__(
        self, operation: Operation, place: Place, *, roots: Roots, keys: CreatedOnce, threads: Threads
    ) -> None:
        self._operation = operation
        self._place = place
        self._roots = roots
        self._keys = keys
        self._threads = threads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        operation, headers = self._operation, Headers(scope=scope)
        body = await read_body(scope, receive)
        params = self._read_params(scope, headers, body)
        keys = headers.getlist("idempotency-key")
        try:
            if operation.creates and keys:
                key = ", ".join(keys)  # Several are none: no key has a space.
                created = await self._threads.call(
                    lambda: self._keys.create(operation.name, key, body, lambda: self._act(params))
                )
                replay = [(b"idempotency-replayed", b"true")] if created.is_replay else []
                await _send_created(send, created.body, replay)
                return
            answer = await self._threads.call(lambda: self._act(params))
        except UnknownAgent as error:
            if "agent" not in scope["path_params"]:
                raise
            step, value = error.next_step, error.value
            raise Refusal(404, error.code, error.message, next_step=step, field="agent", value=value) from error
        if operation.creates:
            await _send_created(send, answer, [])
        else:
            await send_json(send, answer)

    def _read_params(self, scope: Scope, headers: Headers, body: bytes) -> Any:
        operation, named = self._operation, dict[str, str](scope["path_params"])
        if any("\0" in value for value in named.values()):
            raise Refusal(400, "bad_input", "The path has a zero byte.")
        if operation.method == "POST":
            if scope["query_string"]:
                raise Refusal(400, "bad_input", "This address takes no query.", next_step="Send the fields as JSON.")
            given = parse_object(body, headers)
            if double := given.keys() & named.keys():
                raise Refusal(400, "bad_input", f"{min(double)}: it stands in the path.", field=min(double))
            task = given.get("task")
            if isinstance(task, dict):
                # Of whoever is far away nobody knows whose settings they mean.
                given["task"] = {"profile": "clean", **task}
            return convert_params(operation, {**given, **named})
        if body:
            raise Refusal(400, "bad_input", "This address takes no body.", next_step="Put the fields into the query.")
        return convert_params(operation, {**parse_query(scope, operation.params, given=named), **named}, strict=False)

    def _act(self, params: Any) -> bytes:
        if hasattr(params, "task"):
            params = self._roots.admit(params)
        elif self._operation.name in _CHANGES_FILES:
            self._roots.check_run(self._place.state, params.run)
        return encode(self._operation.act(self._place, params))


class FixedEndpoint:
    """An answer that stays the same as long as the server runs."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_json(send, self._answer)


class LoginEndpoint:
    """`POST /login`: a token for a cookie and a key."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(scope, receive, most=LARGEST_LOGIN_BYTES)
        request = decode(body, Headers(scope=scope), LoginRequest)
        login = await self._access.log_in(scope, request.token)
        await send_json(send, encode(LoginKey(key=login.key)), headers=[(b"set-cookie", login.cookie.encode())])


class LogoutEndpoint:
    """`POST /logout`."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        cookie = self._access.log_out()
        await send({"type": "http.response.start", "status": 204, "headers": [(b"set-cookie", cookie.encode())]})
        await send({"type": "http.response.body", "body": b""})


def build_routes(
    operations: Iterable[Operation], place: Place, *, info: ServerInfo, access: Access, roots: Roots
) -> list[BaseRoute]:
    """A route for each operation, and the server's own."""
    keys, threads = CreatedOnce(place.state), Threads(_MOST_AT_ONCE)
    return [
        Route(f"{PREFIX}/info", FixedEndpoint(encode(info)), methods=["GET"]),
        Route(LOGIN, LoginEndpoint(access), methods=["POST"]),
        Route(LOGOUT, LogoutEndpoint(access), methods=["POST"]),
        *(
            Route(
                PREFIX + _LAST_NAME.sub(r"{\1:path}", each.path),
                OperationEndpoint(each, place, roots=roots, keys=keys, threads=threads),
                methods=[each.method],
            )
            for each in operations
        ),
    ]


async def send_json(
    send: Send, body: bytes, *, status: int = 200, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    """A whole answer of JSON."""
    fixed = [_JSON, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": [*fixed, *(headers or [])]})
    await send({"type": "http.response.body", "body": body})


async def _send_created(send: Send, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    run_id = msgspec.json.decode(body, type=dict[str, Any])["run_id"]
    location = (b"location", f"{PREFIX}/runs/{run_id}".encode())
    await send_json(send, body, status=201, headers=[location, *headers])
