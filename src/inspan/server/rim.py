"""The rim of the server: every request gets an id, every answer its headers, and every error becomes a problem."""

import logging
import os
from time import monotonic
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from inspan.errors import InspanError

from .access import PREFIX, Access
from .problems import MEDIA_TYPE, Problem, Refusal, describe_error, describe_fault, describe_refusal
from .request_ids import choose_request_id

logger = logging.getLogger("inspan.server")

_POLICY = (
    b"default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    b"frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_NO_STORE = (b"cache-control", b"no-store")
_ROUTING = {
    404: ("not_found", "There is nothing at this address.", "`/api/v1/openapi.json` lists what there is."),
    405: ("method_not_allowed", "This address does not take that method.", "The header Allow lists those it takes."),
}


class Rim:
    """Wraps the whole application. What comes through here is what a client gets, whatever broke behind it."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = Headers(scope=scope)
        answer = _Answer(scope, send, request_id=choose_request_id(headers.get("x-request-id", "")))
        # The router raises what it does not find only inside of an application.
        scope["app"] = self
        scope["request_id"] = answer.request_id
        try:
            self._access.check_host(headers)
            if scope["path"] == PREFIX or scope["path"].startswith(f"{PREFIX}/"):
                await self._access.admit(scope, headers)
            await self._app(scope, receive, answer.send)
        except Refusal as refusal:
            await answer.refuse(describe_refusal(refusal, request_id=answer.request_id), refusal.headers)
        except InspanError as error:
            problem = describe_error(error, request_id=answer.request_id)
            if problem.status >= 500:
                logger.error("%s %s: %s", answer.request_id, answer.line, error)
            await answer.refuse(problem)
        except HTTPException as error:
            code, detail, step = _ROUTING.get(error.status_code, ("bad_request", error.detail, ""))
            refusal = Refusal(error.status_code, code, detail, next_step=step)
            allow = {"allow": error.headers["Allow"]} if error.headers and "Allow" in error.headers else {}
            await answer.refuse(describe_refusal(refusal, request_id=answer.request_id), allow)
        except Exception as error:  # Whatever breaks in here: a bug, which the log has in full and the client has not.
            logger.error("%s %s: %r", answer.request_id, answer.line, error, exc_info=error)
            await answer.refuse(describe_fault(request_id=answer.request_id))
        finally:
            answer.log()


class _Answer:
    """One answer on its way out; it is begun once."""

    def __init__(self, scope: Scope, send: Send, *, request_id: str) -> None:
        self._send = send
        self._is_api = scope["path"].startswith(PREFIX)
        self._started_at = monotonic()
        self.line = f"{scope['method']} {scope['path']!a}"
        self.request_id = request_id
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers: list[tuple[bytes, bytes]] = [*message.get("headers", []), *_HEADERS]
            if not any(name == b"cache-control" for name, _ in headers):
                headers.append(_NO_STORE)
            headers.append((b"x-request-id", self.request_id.encode()))
            message = {**message, "headers": headers}
        await self._send(message)

    async def refuse(self, problem: Problem, headers: dict[str, str] | None = None) -> None:
        if self.status:
            return  # It is half out: the connection is closed, and the client sees that it is not whole.
        body = msgspec.json.encode(problem)
        more = [(name.encode(), value.encode("latin-1", "replace")) for name, value in (headers or {}).items()]
        fixed = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", str(len(body)).encode())]
        closing = [(b"connection", b"close")] if problem.status == 408 else []
        await self.send({"type": "http.response.start", "status": problem.status, "headers": [*fixed, *more, *closing]})
        await self.send({"type": "http.response.body", "body": body})

    def log(self) -> None:
        elapsed_ms = (monotonic() - self._started_at) * 1e3
        logger.info("%s %s %d %.1f ms", self.request_id, self.line, self.status, elapsed_ms)


class LineFormatter(logging.Formatter):
    """One line for each record: a traceback only for who asked for it with INSPAN_DEBUG."""

    def format(self, record: logging.LogRecord) -> str:
        plain: Any = logging.makeLogRecord(record.__dict__)
        if not os.environ.get("INSPAN_DEBUG"):
            plain.exc_info, plain.exc_text = None, None
        return super().format(plain)
