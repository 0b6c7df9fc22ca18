"""What the agent asks: answered by the rules, by a function, by a person, or by nobody in time."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from inspan.contracts.permissions import KeptApproval, Rulebook
from inspan.folds.session import OpenQuestion
from inspan.folds.summary import NOBODY
from inspan.protocol.commands import ACCEPTED, Answer, Reply, refuse
from inspan.protocol.events import PermissionAsked

Deliver = Callable[[OpenQuestion, Answer], None]
KeepApproval = Callable[[KeptApproval], None]


class _Waiting(NamedTuple):
    question: OpenQuestion
    timer: asyncio.TimerHandle | None


class Questions:
    """Those that are open. `deliver` takes each answer to the agent and tells of it, once.

    `on_waiting` hears when the first question opens and when the last one closes; `keep` stores what was allowed for
    good.
    """

    def __init__(
        self,
        rules: Rulebook,
        *,
        timeout_s: float | None,
        deliver: Deliver,
        on_waiting: Callable[[bool], None],
        keep: KeepApproval,
    ) -> None:
        self._rules = rules
        self._timeout_s = timeout_s
        self._deliver = deliver
        self._on_waiting = on_waiting
        self._keep = keep
        self._open: dict[str, _Waiting] = {}
        self._closed: set[str] = set()

    def settles(self, asked: PermissionAsked) -> bool:
        """Whether it is answered as soon as it is asked."""
        return self._timeout_s == 0 or self._rules.rule(asked.tool, asked.input) != "ask"

    def ask(self, question: OpenQuestion) -> None:
        """Answers by the rules where they know, else waits."""
        ruling = self._rules.rule(question.tool, question.input) if isinstance(question, PermissionAsked) else "ask"
        if ruling != "ask":
            reason = "" if ruling == "allow" else "a rule of this run denies it"
            self._deliver(question, Answer(id=question.id, allowed=ruling == "allow", reason=reason, by="policy"))
            return
        if self._timeout_s == 0:
            self._deliver(question, _build_denial(question.id, "nobody is there to answer"))
            return
        if not self._open:
            self._on_waiting(True)
        self._open[question.id] = _Waiting(question, self._start_timer(question.id))

    def find(self, identity: str) -> OpenQuestion | None:
        """The question of this id, if it is open."""
        waiting = self._open.get(identity)
        return waiting.question if waiting else None

    def answer(self, given: Answer) -> Reply:
        """Takes the first answer to an open question."""
        waiting = self._open.get(given.id)
        if waiting is None:
            known = "is answered already" if given.id in self._closed else "is not known"
            return refuse(f"question {given.id} {known}")
        if given.always and isinstance(waiting.question, PermissionAsked) and given.allowed:
            self._remember(waiting.question.tool, waiting.question.input if given.input is None else given.input)
        self._close(given)
        return ACCEPTED

    def cancel(self, reason: str, identity: str = "") -> None:
        """Denies what is open, or the one of this id: nobody waits for it any more."""
        for name in [identity] if identity else list(self._open):
            if name in self._open:
                self._close(Answer(id=name, allowed=False, reason=reason, by="inspan"))

    def _start_timer(self, identity: str) -> asyncio.TimerHandle | None:
        if self._timeout_s is None:
            return None
        sentence = f"nobody answered within {self._timeout_s:g} s"
        loop = asyncio.get_running_loop()
        return loop.call_later(self._timeout_s, lambda: self._close(_build_denial(identity, sentence)))

    def _remember(self, tool: str, given: object) -> None:
        kept = self._rules.keep(tool, given)
        self._rules = msgspec.structs.replace(self._rules, kept=self._rules.kept | {kept})
        self._keep(kept)

    def _close(self, given: Answer) -> None:
        waiting = self._open.pop(given.id)
        self._closed.add(given.id)
        if waiting.timer:
            waiting.timer.cancel()
        self._deliver(waiting.question, given)
        if not self._open:
            self._on_waiting(False)


def _build_denial(identity: str, sentence: str) -> Answer:
    return Answer(id=identity, allowed=False, reason=sentence, by=NOBODY)
