"""What a request is answered that cannot be served: problem+json, with the codes of the command line."""

from http import HTTPStatus
from typing import Any

import msgspec

from inspan.client.problems import MEDIA_TYPE as MEDIA_TYPE
from inspan.client.problems import Problem as Problem
from inspan.errors import BadInput, InspanError, UndoRefused

_LONGEST_VALUE = 200

# By the code of an error; one that is not listed has that of the class it belongs to.
STATUSES: dict[str, int] = {
    "inspan": 500,
    "bad_input": 400,
    "unsupported": 422,
    "bad_config": 422,
    "bad_scenario": 422,
    "agent_unusable": 424,
    "credentials_missing": 424,
    "session_unusable": 409,
    "session_not_found": 404,
    "state_unusable": 503,
    "run_not_found": 404,
    "run_busy": 409,
    "log_too_new": 500,
    "log_broken": 500,
    "undo_refused": 409,
    "file_refused": 409,
    "session_closed": 409,
    "command_refused": 409,
    "output_refused": 500,
    "sandbox_unusable": 424,
    "worktree_unusable": 409,
    "budget_spent": 402,
    "harness_fault": 500,
    "agent_failed": 502,
}


class Refusal(Exception):
    """A request that the server itself refuses, whatever it asks for."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        next_step: str = "",
        field: str | None = None,
        value: object = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.next_step = next_step
        self.field = field
        self.value = value
        self.headers = headers or {}


def find_status(error: InspanError) -> int:
    """The HTTP status of an error: its own, or that of the nearest class above it."""
    for kind in type(error).__mro__:
        if (status := STATUSES.get(getattr(kind, "code", ""))) is not None:
            return status
    return 500


def describe_refusal(refusal: Refusal, *, request_id: str) -> Problem:
    """A refusal as it is answered."""
    return _build(
        refusal.status,
        refusal.code,
        refusal.detail,
        refusal.next_step,
        request_id,
        field=refusal.field,
        value=_format_value(refusal.value),
    )


def describe_error(error: InspanError, *, request_id: str) -> Problem:
    """An error of inspan as it is answered."""
    given: Any = error if isinstance(error, BadInput) else None
    problem = _build(
        find_status(error),
        error.code,
        error.message,
        error.next_step,
        request_id,
        field=given.field if given else None,
        value=_format_value(given.value) if given else None,
    )
    if isinstance(error, UndoRefused):
        return msgspec.structs.replace(problem, files=tuple(error.files))
    return problem


def describe_fault(*, request_id: str) -> Problem:
    """What is answered where inspan itself broke: where to look, and nothing of what happened inside."""
    return _build(
        500,
        "harness_fault",
        "inspan broke while it was answering.",
        f"The server's log has more, under the request {request_id}.",
        request_id,
    )


def _build(
    status: int,
    code: str,
    detail: str,
    next_step: str,
    request_id: str,
    *,
    field: str | None = None,
    value: str | None = None,
) -> Problem:
    return Problem(
        type=f"urn:inspan:{code}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        code=code,
        next=next_step,
        request_id=request_id,
        field=field,
        value=value,
    )


def _format_value(value: object) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else repr(value)
    text = text.encode(errors="replace").decode()
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"
