"""Errors as they cross a wire (RFC 9457), and back."""

from collections.abc import Iterator
from http import HTTPStatus

import msgspec

from inspan.errors import BadInput, InspanError, ServerRefused, UndoRefused

MEDIA_TYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of every answer that is an error. `code` is that of the command line, `next` what to do about it;
    `field` and `value` are what was wrong, `files` those that keep a run from being undone or applied."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    next: str
    request_id: str
    field: str | None = None
    value: str | None = None
    files: tuple[str, ...] = ()


def restore_error(problem: Problem) -> InspanError:
    """The error that a server told of; for a code that is a server's own `BadInput` of a field, or `ServerRefused`."""
    own = BadInput if problem.status == HTTPStatus.BAD_REQUEST and problem.field else ServerRefused
    kind = next((each for each in _list_kinds(InspanError) if each.code == problem.code), own)
    error = kind.__new__(kind)  # Each class takes something else to be made.
    error.args = (problem.detail,)
    error.message, error.next_step, error.tried, error.came_back = problem.detail, problem.next, "", ""
    if isinstance(error, BadInput):
        error.field, error.value = problem.field or "", problem.value or ""
    elif isinstance(error, UndoRefused):
        error.files = list(problem.files)
    elif isinstance(error, ServerRefused):
        error.status = problem.status
    return error


def restore_ending(code: str, detail: str) -> InspanError:
    """The error that ended a stream."""
    return restore_error(Problem(type="", title="", status=200, detail=detail, code=code, next="", request_id=""))


def _list_kinds(kind: type[InspanError]) -> Iterator[type[InspanError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _list_kinds(each)
