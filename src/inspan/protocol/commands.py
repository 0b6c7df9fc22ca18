"""Orders that go down to a run: from a person, a program or a policy."""

from typing import Any, Literal

import msgspec

from .session import SessionState

Delivery = Literal["queue", "steer", "refuse"]


class _Command(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="command"):
    """Common spelling of all commands: a `command`, then the fields that are not empty."""


class SendMessage(_Command, frozen=True, kw_only=True, tag="send_message"):
    """Say something to the agent. `id` is the sender's, and names the message in the log.

    While a turn is running, `when` says what becomes of it: it waits for the turn's end, it goes into the turn, or it
    is refused.
    """

    id: str
    text: str
    when: Delivery = "queue"


class Interrupt(_Command, frozen=True, kw_only=True, tag="interrupt"):
    """End the turn that is running; the session stays."""


class Answer(_Command, frozen=True, kw_only=True, tag="answer"):
    """Answer what the agent asked: a permission, with another `input` where it is to be changed, or a question.

    `always` keeps a permission for the project. `answers` are those to a question, by its text.
    """

    id: str
    allowed: bool = True
    reason: str = ""
    input: dict[str, Any] | None = None
    always: bool = False
    answers: dict[str, str] = {}
    by: str = "person"


class Configure(_Command, frozen=True, kw_only=True, tag="configure"):
    """Set what is given, from the next turn on."""

    model: str = ""
    effort: str = ""
    mode: str = ""


class SubmitToolResult(_Command, frozen=True, kw_only=True, tag="submit_tool_result"):
    """The result of a tool that was declared without a function."""

    id: str
    output: str = ""
    failed: bool = False


class ReportProgress(_Command, frozen=True, kw_only=True, tag="report_progress"):
    """How far a tool of the caller's has come."""

    id: str
    progress: float
    total: float | None = None
    message: str = ""


class AnswerHook(_Command, frozen=True, kw_only=True, tag="answer_hook"):
    """What a hook says: a tool may be used, with another `input`, or not; or the agent is told some `text`.

    `error` says why its function gave nothing of use.
    """

    id: str
    allowed: bool = True
    reason: str = ""
    input: dict[str, Any] | None = None
    text: str = ""
    error: str = ""


class CloseSession(_Command, frozen=True, kw_only=True, tag="close_session"):
    """End the session once the turn that is running has ended."""


class GetState(_Command, frozen=True, kw_only=True, tag="get_state"):
    """Ask what the session is doing."""


class Cancel(_Command, frozen=True, kw_only=True, tag="cancel"):
    """End the run: politely first, or at once when `now` is set."""

    by: Literal["interrupted", "stopped", "killed"] = "stopped"
    now: bool = False


class Ping(_Command, frozen=True, kw_only=True, tag="ping"):
    """Ask whether the run is alive."""


Command = (
    SendMessage
    | Interrupt
    | Answer
    | Configure
    | SubmitToolResult
    | ReportProgress
    | AnswerHook
    | CloseSession
    | GetState
    | Cancel
    | Ping
)  # A client may send any; a dialect has words for the first four, and for hooks of its own.


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a command came to: `error` is a sentence where it was not carried out, `closed` where it never will be."""

    ok: bool
    error: str = ""
    closed: bool = False
    state: SessionState | None = None


ACCEPTED = Reply(ok=True)


def refuse(sentence: str, *, closed: bool = False) -> Reply:
    """The reply to a command that cannot be carried out."""
    return Reply(ok=False, error=sentence, closed=closed)
