"""The messages of one run: each becomes a turn, those that come meanwhile wait, and what the agent asks is answered."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from inspan.contracts.driver import SessionSupport
from inspan.contracts.permissions import KeptApproval, Rulebook
from inspan.folds.session import OpenQuestion, SessionFold
from inspan.folds.summary import Summary
from inspan.protocol.commands import (
    ACCEPTED,
    Answer,
    AnswerHook,
    CloseSession,
    Command,
    Configure,
    GetState,
    Interrupt,
    Reply,
    SendMessage,
    refuse,
)
from inspan.protocol.events import (
    Event,
    HookCalled,
    MessageEnded,
    MessageSent,
    MessageStarted,
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
    SessionConfigured,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
)
from inspan.protocol.outcome import Reason
from inspan.protocol.reasons import REASONS
from inspan.protocol.session import FIRST_MESSAGE
from inspan.protocol.task import Task

from .hooks import Hooks
from .questions import Questions
from .verdict import Verdict

# What a secret is replaced by, wherever anybody sees it.
_MARK = "[REDACTED:"
_TURN_ENDS = (TurnCompleted, TurnFailed, TurnInterrupted)
_INTERRUPT_S = 10.0
_SETTLE_S = 2.0
# What ends one message of a session, and not the session.
_MESSAGE_REASONS: tuple[Reason, ...] = (
    "run_timeout",
    "idle_timeout",
    "model_stall",
    "max_turns",
    "rate_limit",
    "overloaded",
    "network",
    "invalid_response",
)


class ConversationHost(Protocol):
    """What a conversation needs of the run that it belongs to."""

    def tell(self, command: Command) -> bool:
        """Puts a command to the agent; whether there was a word for it."""
        ...

    def record(self, events: Sequence[Event]) -> None: ...

    def judge_message(self, summary: Summary, stop_request: tuple[Reason, str] | None) -> Verdict: ...

    def begin_message(self) -> None:
        """Limits count from now on, for one message."""
        ...

    def end_message(self) -> None: ...

    def pause_limits(self, waiting: bool) -> None: ...

    def leave(self) -> None:
        """Nothing more will be said to the agent."""
        ...

    def end(self, reason: Reason, message: str) -> None: ...

    async def settle(self, seconds: float) -> None:
        """Waits, a moment at most, until the gateway has told of all calls."""
        ...

    @property
    def is_settled(self) -> bool: ...


class _Running:
    """The message that is being worked on."""

    def __init__(self, message: SendMessage, *, model_from: str) -> None:
        self.message = message
        self.ids = [message.id]
        self.summary = Summary(model_from=model_from)
        self.started_at = time.monotonic()
        self.waited_s = 0.0
        self.stop_request: tuple[Reason, str] | None = None
        self.interrupted = False
        self.ending = False
        self.turn_done = False
        self.said: list[str] = []
        self.continued = 0
        self.may_stop = False


class Conversation:
    """Sees every event of its run, in order, and decides what is said to the agent next."""

    def __init__(
        self,
        host: ConversationHost,
        *,
        task: Task,
        preamble: str,
        title: str,
        support: SessionSupport,
        rules: Rulebook,
        keep: Callable[[KeptApproval], None],
    ) -> None:
        self._host = host
        self._task = task
        self._preamble = preamble
        self._title = title
        self._support = support
        self._fold = SessionFold(stays_open=task.session, prompted=bool(task.prompt))
        self._questions = Questions(
            rules,
            timeout_s=task.limits.answer_timeout_s,
            deliver=self._deliver,
            on_waiting=self._on_waiting,
            keep=keep,
        )
        self._rules = rules
        self._hooks = Hooks(task, support, record=host.record, deliver=self._deliver_hook, on_waiting=self._on_waiting)
        self._hooked: dict[str, PermissionAsked] = {}
        self._let_through: set[str] = set()
        self._judged: dict[str, AnswerHook] = {}
        self._waits = 0
        self._waiting: deque[SendMessage] = deque()
        self._known: dict[str, str] = {FIRST_MESSAGE: task.prompt}
        self._running: _Running | None = None
        self._waits_since = 0.0
        self._begun = False
        self._closing = False
        self._nudges = 0
        self._timer: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None
        self._handlers: dict[type, Callable[[Any], Reply]] = {
            SendMessage: self._on_send,
            Interrupt: lambda _: self._on_interrupt(),
            Answer: self._on_answer,
            AnswerHook: self._on_answer_hook,
            Configure: self._on_configure,
            CloseSession: lambda _: self._on_close(),
            GetState: lambda _: Reply(ok=True, state=self._fold.state),
        }

    def begin(self) -> None:
        """The prompt is the first message; without one, the session waits for it. What came before waits meanwhile."""
        self._begun = True
        if self._task.prompt:
            first = SendMessage(id=FIRST_MESSAGE, text=self._task.prompt)
            self._host.record([MessageSent(id=first.id, text=first.text)])
            self._start(first)
        else:
            self._start_next()

    def restart(self, support: SessionSupport, *, preamble: str, resend: bool) -> None:
        """The agent was started anew by another channel, before it did anything: it is told again what it was told."""
        self._support = support
        self._hooks.adopt(support)
        if self._running is None:
            self._preamble = preamble
        elif resend:
            self._tell(self._running.message, preamble)

    def handle(self, command: Command) -> Reply:
        """Carries out a command, or says why not."""
        handler = self._handlers.get(type(command))
        return handler(command) if handler else refuse(f"{self._title} has no such command here.")

    def admit(self, events: Sequence[Event]) -> Sequence[Event]:
        """What is recorded of these: what the agent asks is put to a hook first, unless a rule denies it anyway; and
        what a rule settles says so, for whoever reads it before the answer."""
        return [self._admit_question(event) if isinstance(event, PermissionAsked) else event for event in events]

    def observe(self, event: Event) -> None:
        """Takes in what has happened, after it was recorded."""
        self._fold.add(event)
        if self._running:
            self._running.summary.add(event)
        self._hooks.observe(event)
        if isinstance(event, PermissionAsked | QuestionAsked):
            self._questions.ask(event)
        elif isinstance(event, _TURN_ENDS):
            self._on_turn_end()

    def stop_message(self, reason: Reason, message: str) -> bool:
        """Ends the running message for a limit of its own; false where only the end of the run would do."""
        running = self._running
        if not (running and self._task.session and reason in _MESSAGE_REASONS and self._support.interrupt):
            return False
        if running.stop_request is None:
            running.stop_request = (reason, message)
            self._interrupt(running)
        return True

    def nudge(self, text: str) -> str:
        """Says something into the running turn; gives why that cannot be."""
        self._nudges += 1
        reply = self._on_send(SendMessage(id=f"watchdog-{self._nudges}", text=text, when="steer"))
        return reply.error

    def interrupt_turn(self, reason: Reason, message: str) -> str:
        """Ends the running turn for this reason; gives why that cannot be. Whoever asks sees to it that it does end."""
        running = self._running
        if not self._support.interrupt:
            return f"{self._title} cannot be interrupted on this channel"
        if running is None or running.ending:
            return "no turn is running"
        running.stop_request = running.stop_request or (reason, message)
        self._interrupt(running, insists=False)
        return ""

    def close(self, verdict: Verdict) -> None:
        """The run is over: whatever was waited for has come to nothing, for the same reason."""
        self._cancel_timer()
        if self._ending:
            self._ending.cancel()
        self._questions.cancel("the session has ended")
        self._hooks.cancel("the session has ended")
        if self._running:
            self._record_end(self._running, verdict)
            self._running = None
        while self._waiting:
            message = self._waiting.popleft()
            self._host.record([_build_end(message.id, Verdict(reason=verdict.reason, message="it was not sent"))])

    def _on_send(self, message: SendMessage) -> Reply:
        if message.id and self._known.get(message.id) == message.text:
            return ACCEPTED  # Its sender did not hear that it was sent.
        if self._closing:
            return refuse("the session is being closed", closed=True)
        if problem := self._find_problem(message):
            return refuse(problem)
        if self._begun and self._running is None and not self._waiting:
            self._known[message.id] = message.text
            self._host.record([MessageSent(id=message.id, text=message.text)])
            self._start(message)
        elif message.when == "steer":
            return self._steer(message)
        else:
            self._known[message.id] = message.text
            self._waiting.append(message)
            self._host.record([MessageSent(id=message.id, text=message.text, queued=True)])
        return ACCEPTED

    def _find_problem(self, message: SendMessage) -> str:
        if not message.id or message.id in self._known:
            return f"another message with the id {message.id!r} was sent already: give each its own"
        if not message.text.strip():
            return "the message is empty"
        if self._running is None:
            return ""
        if message.when == "refuse":
            return "a turn is running: wait for its end, or let the message wait (when: queue)"
        if message.when == "steer" and not self._support.steer:
            return f"{self._title} takes no message into a running turn on this channel: let it wait (when: queue)"
        return ""

    def _steer(self, message: SendMessage) -> Reply:
        running = self._running
        if running is None or running.ending or not self._host.tell(message):
            return refuse("the turn is ending: send it as a message of its own (when: queue)")
        self._known[message.id] = message.text
        running.ids.append(message.id)
        self._host.record([MessageSent(id=message.id, text=message.text, steers=True)])
        return ACCEPTED

    def _start(self, message: SendMessage) -> None:
        self._cancel_timer()
        self._running = _Running(message, model_from=self._task.model_from)
        self._host.begin_message()
        preamble, self._preamble = self._preamble, ""
        self._tell(message, preamble)

    def _tell(self, message: SendMessage, preamble: str) -> None:
        text = f"{preamble}\n\n{message.text}" if preamble else message.text
        self._host.tell(SendMessage(id=message.id, text=text))

    def _on_interrupt(self) -> Reply:
        if not self._begun and self._waiting:
            unsent = Verdict(reason="interrupted", message="it was not sent")
            self._host.record([_build_end(self._waiting.popleft().id, unsent)])
            return ACCEPTED
        if self._running is None or self._running.ending:
            return refuse("no turn is running")
        if not self._support.interrupt:
            return refuse(f"{self._title} cannot be interrupted on this channel: `inspan stop` ends the run")
        self._interrupt(self._running)
        return ACCEPTED

    def _interrupt(self, running: _Running, *, insists: bool = True) -> None:
        """Once: an agent that does not end its turn then is ended with it, unless another sees to that."""
        if running.interrupted:
            return
        running.interrupted = True
        if running.turn_done and not running.stop_request:
            running.stop_request = ("interrupted", "it was interrupted while a hook was asked")
        self._questions.cancel("the turn was interrupted")
        self._hooks.cancel("the turn was interrupted")
        if running.ending or running.turn_done:
            return  # Only a function kept it from its end.
        self._host.tell(Interrupt())
        if insists and self._running is running and not running.ending:
            self._cancel_timer()
            self._timer = asyncio.get_running_loop().call_later(_INTERRUPT_S, self._give_up, running)

    def _give_up(self, running: _Running) -> None:
        if self._running is running and not running.ending:
            reason, words = running.stop_request or ("crashed", f"{self._title} did not end its turn when told to")
            self._host.end(reason, words)

    def _on_answer(self, answer: Answer) -> Reply:
        question = self._questions.find(answer.id)
        if answer.input is not None and answer.allowed and isinstance(question, PermissionAsked):
            if problem := self._find_input_problem(question.tool, question.input, answer.input):
                return refuse(f"{problem}: allow it as it is, or deny")
            if self._rules.rule(question.tool, answer.input) == "deny":
                return refuse("a rule of this run denies what it was changed to")
        return self._questions.answer(answer)

    def _find_input_problem(self, tool: str, known: object, given: dict[str, Any]) -> str:
        """Why this cannot take the place of a tool's own input, which would be used then, or something else."""
        if not self._support.changed_input:
            return f"{self._title} takes no other input than its own on this channel"
        if not given:
            return f"{tool} cannot be given an empty input"
        if _MARK in str(given) and _MARK not in str(known):
            return "a secret stands there redacted, and would be used so"
        return ""

    def _on_answer_hook(self, answer: AnswerHook) -> Reply:
        called = self._hooks.find(answer.id)
        changed = answer.input if called and answer.allowed else None
        words = self._find_input_problem(called.tool, called.input, changed) if called and changed is not None else ""
        if words:
            answer = AnswerHook(id=answer.id, allowed=False, reason=f"before_tool changed the input, and {words}")
        return self._hooks.answer(answer)

    def _on_configure(self, command: Configure) -> Reply:
        fields = {name: getattr(command, name) for name in ("model", "effort", "mode") if getattr(command, name)}
        if not fields:
            return refuse("nothing is to be set: give a model, an effort or a mode")
        for name in fields:
            if not getattr(self._support, name):
                return refuse(f"{self._title} cannot change its {name} in an open session on this channel")
        if not self._host.tell(command):
            return refuse(f"{self._title} does not take {fields} now")
        self._host.record([SessionConfigured(**fields)])
        return ACCEPTED

    def _on_close(self) -> Reply:
        self._closing = True
        self._questions.cancel("the session is being closed")
        if self._begun and self._running is None:
            self._leave()
        return ACCEPTED

    def _on_turn_end(self) -> None:
        running = self._running
        if running is None or running.ending:
            return
        self._cancel_timer()
        self._questions.cancel("its turn has ended")
        running.turn_done = True
        self._go_on_or_end(running)

    def _go_on_or_end(self, running: _Running) -> None:
        """Ends the message, unless a function of the caller's is still thinking or has something to say."""
        if not running.summary.turn_done or running.interrupted or running.stop_request:
            running.ending = True
            self._hooks.cancel("its turn has ended")
            self._end_turn(running)
        elif self._hooks.is_open:
            pass  # Its answer leads here again.
        elif running.said:
            self._continue_or_end(running)
        elif "on_stop" in self._task.hooks and not running.may_stop:
            running.may_stop = True
            self._hooks.call_on_stop(running.summary.text, continued=running.continued)
        else:
            self._end_turn(running)

    def _continue_or_end(self, running: _Running) -> None:
        """Some agents count their turns themselves, anew each time that they are sent on."""
        most = self._task.limits.max_turns
        if most is None or running.continued + 1 < most:
            self._continue(running)
        else:
            running.stop_request = ("max_turns", f"it was to be sent on after {most} turns")
            self._end_turn(running)

    def _continue(self, running: _Running) -> None:
        """Another turn of the same message: its limits count on."""
        text, running.said = "\n\n".join(running.said), []
        running.turn_done = running.may_stop = False
        running.continued += 1
        self._host.tell(SendMessage(id=f"{running.ids[0]}-{running.continued}", text=text))

    def _end_turn(self, running: _Running) -> None:
        running.ending = True
        if self._host.is_settled:
            self._end_running(running)
        else:
            self._ending = asyncio.get_running_loop().create_task(self._settle_and_end(running))

    async def _settle_and_end(self, running: _Running) -> None:
        await self._host.settle(_SETTLE_S)
        self._ending = None
        self._end_running(running)

    def _end_running(self, running: _Running) -> None:
        verdict = self._host.judge_message(running.summary, running.stop_request)
        self._record_end(running, verdict)
        self._running = None
        self._host.end_message()
        if self._task.session:
            self._start_next()
        else:
            self._leave()

    def _start_next(self) -> None:
        if self._waiting:
            message = self._waiting.popleft()
            self._host.record([MessageStarted(id=message.id)])
            self._start(message)
        elif self._closing:
            self._leave()
        else:
            self._wait_for_message()

    def _record_end(self, running: _Running, verdict: Verdict) -> None:
        summary = running.summary
        ended = summary.build_end(verdict.reason, verdict.message, next_step=verdict.step)
        duration_s = max(0.0, time.monotonic() - running.started_at - running.waited_s)
        self._host.record(
            [
                MessageEnded(
                    id=identity,
                    outcome=ended.outcome,
                    reason=ended.reason,
                    message=ended.message,
                    next=ended.next,
                    duration_s=round(duration_s, 3),
                    usage=ended.usage,
                    cost_usd=ended.cost_usd,
                    model_calls=ended.model_calls,
                    denied=ended.denied,
                    resets_at=ended.resets_at,
                    calls_without_cost=ended.calls_without_cost,
                    cost_kind=ended.cost_kind,
                    not_paid_usd=ended.not_paid_usd,
                )
                for identity in running.ids
            ]
        )

    def _wait_for_message(self) -> None:
        seconds = self._task.limits.idle_close_s
        if seconds is not None:
            self._cancel_timer()
            self._timer = asyncio.get_running_loop().call_later(seconds, self._on_close)

    def _leave(self) -> None:
        self._closing = True
        self._cancel_timer()
        self._host.leave()

    def _admit_question(self, asked: PermissionAsked) -> Event:
        admitted = self._put_to_hook(asked) if self._hooks.stands_in("before_tool") else asked
        if admitted is asked and self._questions.settles(asked):
            return msgspec.structs.replace(asked, settled=True)
        return admitted

    def _put_to_hook(self, asked: PermissionAsked) -> Event:
        if asked.id in self._let_through:
            self._let_through.remove(asked.id)
            return asked
        if self._rules.rule(asked.tool, asked.input) == "deny":
            return asked
        called = self._hooks.build_before(asked)
        self._hooked[called.id] = asked
        return called

    def _deliver_hook(self, called: HookCalled, given: AnswerHook) -> None:
        if called.hook in self._support.hooks:
            self._host.tell(given)
        elif called.hook == "before_tool":
            self._decide(self._hooked.pop(called.id), given)
        elif self._running and given.text:
            # Not into the running turn: what comes as that ends would be lost.
            self._running.said.append(given.text)
        if called.hook != "before_tool" and self._running and self._running.turn_done and not self._running.ending:
            self._go_on_or_end(self._running)

    def _decide(self, asked: PermissionAsked, given: AnswerHook) -> None:
        """A hook only holds back: what it lets through is then asked about as ever, with the input that it changed."""
        if given.input is not None:
            asked = msgspec.structs.replace(asked, input=given.input)
        if not given.allowed:
            reason = given.reason or "a hook denied it"
            self._host.tell(Answer(id=asked.id, allowed=False, reason=reason, by="before_tool"))
        elif self._rules.rule(asked.tool, asked.input) == "allow":
            self._host.tell(Answer(id=asked.id, input=given.input, by="policy"))
        else:
            self._judged[asked.id] = given
            self._let_through.add(asked.id)
            self._host.record([asked])

    def _deliver(self, question: OpenQuestion, given: Answer) -> None:
        judged = self._judged.pop(question.id, None)
        if judged and given.allowed and given.input is None:
            given = msgspec.structs.replace(given, input=judged.input)
        if isinstance(question, QuestionAsked):
            told = QuestionAnswered(id=given.id, answers=given.answers, by=given.by, reason=given.reason)
        else:
            told = PermissionAnswered(
                id=given.id,
                allowed=given.allowed,
                by=given.by,
                reason=given.reason,
                input=given.input,
                always=given.always,
            )
        self._host.record([told])
        self._host.tell(given)

    def _on_waiting(self, waiting: bool) -> None:
        """Hears of questions and of hooks: time counts once neither is open."""
        before, self._waits = self._waits, self._waits + (1 if waiting else -1)
        if before and self._waits:
            return
        if self._running and not waiting:
            self._running.waited_s += time.monotonic() - self._waits_since
        self._waits_since = time.monotonic()
        self._host.pause_limits(waiting)

    def _cancel_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None


def _build_end(identity: str, verdict: Verdict) -> MessageEnded:
    row = REASONS[verdict.reason]
    return MessageEnded(id=identity, outcome=row.outcome, reason=verdict.reason, message=verdict.message)
