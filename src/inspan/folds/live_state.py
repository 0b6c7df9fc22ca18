"""What a living run is doing, as its log tells: for whoever lists runs and has never talked to this one."""

import msgspec

from inspan.contracts.permissions import subject_of
from inspan.protocol.events import (
    EndingBegan,
    Event,
    PermissionAsked,
    TextDelta,
    ToolOutput,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    WatchdogActed,
)
from inspan.protocol.session import SessionState, SessionStatus, WaitsFor
from inspan.protocol.wire import Record

from .session import OpenQuestion, SessionFold

_WAITS_FOR: dict[SessionStatus, WaitsFor] = {"waiting": "person", "rate_limited": "limit"}
_AT_WORK: tuple[SessionStatus, ...] = ("working", "stuck")
# After one of these the model is not what is waited for: it is talking, or has finished.
_NOT_WAITING = (TextDelta, TurnCompleted, TurnFailed, TurnInterrupted, EndingBegan)


class LiveState(SessionState, frozen=True, kw_only=True, omit_defaults=True):
    """`subject` is what the tool at work, or the question that waits, is about; `since` is from when on it is so.
    `output` is the last line that the tool has put out, where its agent tells.

    `asks_for` says whether the question is for a permission or for an answer. `waits_for` is what the run waits for:
    the tool at work, a person, a provider's limit, or the model where none of these is and no text is on its way.
    `heard_at` is when something was last told. `waited_s` is how long people took to answer, which no limit counts.
    """

    subject: str = ""
    since: float = 0.0
    asks_for: str = ""
    output: str = ""
    waits_for: WaitsFor = ""
    heard_at: float = 0.0
    waited_s: float = 0.0


class LiveStateFold:
    """Feed it every record in order; `state` is what a run with this log is doing."""

    def __init__(self, *, stays_open: bool, prompted: bool) -> None:
        self._fold = SessionFold(stays_open=stays_open, prompted=prompted)
        self._key: tuple[str, ...] = ()
        self._since = 0.0
        self._heard_at = 0.0
        self._waited_s = 0.0
        self._waits = False
        self._output = ToolOutput(id="", text="")

    @property
    def state(self) -> LiveState:
        state, question = self._fold.state, self._question
        return LiveState(
            **msgspec.structs.asdict(state),
            subject=_subject_of_question(question) if question else self._subject_of_tool(),
            since=self._since,
            output=self._output_of_tool(),
            asks_for=("permission" if isinstance(question, PermissionAsked) else "answer") if question else "",
            waits_for=self.waits_for,
            heard_at=self._heard_at,
            waited_s=self._waited_s,
        )

    @property
    def waits_for(self) -> WaitsFor:
        """As the state has it."""
        status = self._fold.status
        if status not in _AT_WORK:
            return _WAITS_FOR.get(status, "")
        return "tool" if self._fold.tool else "model" if self._waits else ""

    @property
    def waited_s(self) -> float:
        """As the state has it."""
        return self._waited_s

    def add(self, record: Record) -> None:
        self._heard_at = record.at
        if isinstance(record.event, ToolOutput):
            self._output = record.event
        self._waits = not isinstance(record.event, _NOT_WAITING)
        if not self._fold.add(record.event) and self._key:
            return
        state, tool = self._fold.state, self._fold.tool
        key = (state.status, tool.id if tool else "", *state.questions[:1])
        if key != self._key:
            self._waited_s += record.at - self._since if self._key[:1] == ("waiting",) else 0.0
            self._key, self._since = key, record.at - _count_silence(record.event)

    @property
    def _question(self) -> OpenQuestion | None:
        return next(iter(self._fold.questions.values()), None)

    def _output_of_tool(self) -> str:
        tool = self._fold.tool
        return self._output.text if tool and tool.id == self._output.id else ""

    def _subject_of_tool(self) -> str:
        tool = self._fold.tool
        return subject_of(tool.input) if tool else ""


def _count_silence(event: Event) -> float:
    """How long before it was told a run has been as this event says."""
    return event.silent_s if isinstance(event, WatchdogActed) and event.step != "heard" else 0.0


def _subject_of_question(question: OpenQuestion) -> str:
    if isinstance(question, PermissionAsked):
        return subject_of(question.input) or question.tool
    return " / ".join(each.text for each in question.questions)
