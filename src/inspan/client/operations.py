"""Everything that a client can ask for, as one table: what does it here, and how it is spelled over HTTP.

The client of this machine calls what the table says in a thread, the server makes its routes and their description
from it, and the client of a server its requests: no operation is known to one of them alone.
"""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from . import changes, machine, runs, sessions, spending, works
from .checks import convert_fields
from .place import Place

Method = Literal["GET", "POST", "DELETE"]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to do. `act` blocks and raises `InspanError`.

    The names in braces of `path` are fields of `params`; the other fields are the query, or the body of a `POST`. What
    `creates` something is not done twice for one key of the caller's.
    """

    name: str
    method: Method
    path: str
    params: type[msgspec.Struct]
    result: type[msgspec.Struct]
    act: Callable[[Place, Any], Any]
    about: str
    creates: bool = False


def _describe(
    name: str,
    method: Method,
    path: str,
    act: Callable[[Place, Any], Any],
    *,
    creates: bool = False,
) -> Operation:
    """The row of a function, whose annotations say what it is given and what it gives."""
    given = act.__annotations__
    params = next(kind for field, kind in given.items() if field not in ("return", "place") and kind is not Place)
    about = (act.__doc__ or "").partition("\n\n")[0].replace("\n    ", " ")
    return Operation(
        name=name,
        method=method,
        path=path,
        params=params,
        result=given["return"],
        act=act,
        about=about,
        creates=creates,
    )


OPERATIONS: tuple[Operation, ...] = (
    _describe("agents.list", "GET", "/agents", machine.list_known_agents),
    _describe("agents.get", "GET", "/agents/{agent}", machine.get_agent),
    _describe("doctor", "GET", "/doctor", machine.examine_machine),
    _describe("runs.list", "GET", "/runs", runs.list_runs),
    _describe("runs.start", "POST", "/runs", runs.start_run, creates=True),
    _describe("runs.get", "GET", "/runs/{run}", runs.get_run),
    _describe("runs.state", "GET", "/runs/{run}/state", runs.get_state),
    _describe("runs.stop", "POST", "/runs/{run}/stop", runs.stop_run),
    _describe("runs.remove", "DELETE", "/runs/{run}", runs.remove_run),
    _describe("runs.events", "GET", "/runs/{run}/events", runs.list_events),
    _describe("runs.diff", "GET", "/runs/{run}/diff", changes.get_diff),
    _describe("runs.files", "GET", "/runs/{run}/files", changes.get_files),
    _describe("runs.undo", "POST", "/runs/{run}/undo", changes.undo_run),
    _describe("runs.apply", "POST", "/runs/{run}/apply", changes.apply_run),
    _describe("runs.transcript", "GET", "/runs/{run}/transcript", runs.get_transcript),
    _describe("runs.cost", "GET", "/runs/{run}/cost", runs.get_cost),
    _describe("sessions.list", "GET", "/sessions", sessions.list_sessions),
    _describe("sessions.send", "POST", "/runs/{run}/messages", sessions.send_message),
    _describe("sessions.interrupt", "POST", "/runs/{run}/interrupt", sessions.interrupt_session),
    _describe("sessions.close", "POST", "/runs/{run}/close", sessions.close_session),
    _describe("sessions.configure", "POST", "/runs/{run}/configure", sessions.configure_session),
    _describe("approvals.list", "GET", "/approvals", sessions.list_open_approvals),
    _describe("approvals.answer", "POST", "/approvals/{id}", sessions.answer_question),
    _describe("cost.sums", "GET", "/cost", spending.sum_costs),
    _describe("budgets.list", "GET", "/budgets", spending.list_budgets),
    _describe("loops.start", "POST", "/loops", works.start_loop_of, creates=True),
    _describe("loops.get", "GET", "/loops/{run}", works.get_loop),
    _describe("blueprints.list", "GET", "/blueprints", works.list_blueprints),
    _describe("blueprints.start", "POST", "/blueprints", works.start_blueprint_of, creates=True),
    _describe("blueprints.get", "GET", "/blueprints/{run}", works.get_blueprint),
)
_BY_NAME = {each.name: each for each in OPERATIONS}


def find_operation(name: str) -> Operation:
    """The operation of this name."""
    return _BY_NAME[name]


def convert_params(operation: Operation, given: dict[str, Any], *, strict: bool = True) -> Any:
    """The parameters of an operation; raises `BadInput` that names the field. Texts are taken for numbers unless it is
    `strict`."""
    return convert_fields(operation.params, given, name=operation.name, strict=strict)
