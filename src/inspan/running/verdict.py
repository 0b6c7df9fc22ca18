"""Why a run ended: one judgement from what inspan did, what the gateway saw, what the agent said and how it left."""

import signal
from typing import Any

import msgspec

from inspan.contracts.driver import Driver, match_failure
from inspan.folds.summary import Summary
from inspan.protocol.events import ModelCallEnded
from inspan.protocol.http_status import failure_of_status
from inspan.protocol.outcome import FailureKind, Reason
from inspan.protocol.reasons import REASONS

_UNREADABLE = "garbage"
_KIND_OF_PROBLEM: dict[str, FailureKind] = {
    "cut": "network",
    "stalled": "network",
    _UNREADABLE: "invalid_response",
}
_MATCH_CHARACTERS = 40
_LED_ASTRAY = "Look for a proxy or an address in the agent's settings and the project's; --profile clean reads neither."


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the judgement rests on. `stop_request` is why inspan ended the run itself, if it did, and `stop_step`
    what to do then, where its reason alone does not tell.

    `prompt_was_read` is None where the prompt went another way than by stdin, or the kernel does not tell.
    `exhausted` is the limit that the run's processes were held to, by its flag, where one was reached.
    `calls_seen` are the model calls that came to the gateway, None in a run without one. A session that was `closed`
    has ended well, whatever came of its messages.
    """

    driver: Driver
    summary: Summary
    exit_code: int | None
    signal: int | None
    stderr: str
    stop_request: tuple[Reason, str] | None = None
    stop_step: str = ""
    last_call: ModelCallEnded | None = None
    calls_seen: int | None = None
    mismatch: str = ""
    exhausted: str = ""
    prompt_was_read: bool | None = None
    folder: str = ""
    schema: dict[str, Any] | None = None
    closed: bool = False


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The reason, a sentence, and what to do next."""

    reason: Reason
    message: str
    step: str = ""

    @property
    def next_step(self) -> str:
        return self.step or REASONS[self.reason].next_step


def judge(facts: Facts) -> Verdict:
    """The first that applies: our own ending, a limit on resources, a broken script, a failed turn, a bad exit, a
    prompt that nobody read, calls that went elsewhere, no fit answer, success.
    """
    for look in _LOOKS:
        verdict = look(facts)
        if verdict:
            return verdict
    return Verdict(reason="done", message="")


def describe_missing_calls(facts: Facts) -> str:
    """A sentence for a run whose agent has answered, and no call of which came to the gateway: nothing was counted."""
    summary, title = facts.summary, facts.driver.title
    if facts.calls_seen != 0 or facts.mismatch:
        return ""
    if spent := _count_unmetered_tokens(facts):
        return f"{title} reported {spent} tokens, but none of its calls came through the gateway: nothing was counted."
    if not (summary.turn_done and summary.answer):
        return ""
    own = "either it ran one of its own commands, or its settings bypass the gateway and nothing was counted"
    return f"{title} answered without a model call through the gateway: {own}."


def _judge_stop_request(facts: Facts) -> Verdict | None:
    if facts.stop_request:
        return Verdict(reason=facts.stop_request[0], message=facts.stop_request[1], step=facts.stop_step)
    return None


def _judge_resources(facts: Facts) -> Verdict | None:
    """An agent that is killed at a limit, or cannot begin under it, has nobody else to blame, whatever came of that."""
    if not facts.exhausted or facts.summary.turn_done or (own := _judge_exit(facts)) is None:
        return None
    message = f"{own.message} (the run had reached its limit {facts.exhausted})"
    step = f"Give it more with {facts.exhausted}, or leave that out."
    return Verdict(reason="environment", message=message, step=step)


def _judge_script(facts: Facts) -> Verdict | None:
    if not facts.mismatch:
        return None
    own = _judge_turn(facts) or _judge_exit(facts)
    repeats = own is not None and facts.mismatch[:_MATCH_CHARACTERS] in own.message.replace('\\"', '"')
    return Verdict(
        reason="script", message=f"{facts.mismatch} {own.message}" if own and not repeats else facts.mismatch
    )


def _judge_closed(facts: Facts) -> Verdict | None:
    return Verdict(reason="done", message="") if facts.closed else None


def _judge_unanswered(facts: Facts) -> Verdict | None:
    """Nobody allowed what it wanted to do, and it has done nothing since."""
    if not facts.summary.unanswered:
        return None
    return Verdict(reason="unanswered", message=facts.summary.unanswered)


def _judge_interrupted(facts: Facts) -> Verdict | None:
    if not facts.summary.interrupted:
        return None
    return Verdict(reason="interrupted", message="its turn was interrupted")


def _judge_turn(facts: Facts) -> Verdict | None:
    failure = facts.summary.failure
    if failure is None:
        return None
    kind = gateway_failure_kind(facts.last_call) or failure.failure
    if kind == "unknown" and facts.last_call:  # The provider may have said more than the agent passes on.
        kind = match_failure(facts.driver.failures, facts.last_call.message) or kind
    return Verdict(reason=kind, message=failure.message)


def _judge_exit(facts: Facts) -> Verdict | None:
    if facts.exit_code == 0 or (facts.exit_code is None and facts.summary.turn_done):
        return None
    kind = gateway_failure_kind(facts.last_call) or match_failure(facts.driver.failures, facts.stderr) or "crashed"
    if _was_killed(facts):
        kind = "crashed"  # Whatever it had said before.
    code = "an unknown exit code" if facts.exit_code is None else f"exit code {facts.exit_code}"
    how = code if facts.signal is None else f"signal {facts.signal}"
    words = _find_error_line(facts)
    message = f"{facts.driver.title} ended with {how}{': ' + words if words else ''}"
    return Verdict(reason=kind, message=message)


def _was_killed(facts: Facts) -> bool:
    return facts.signal is not None or facts.exit_code == 128 + signal.SIGKILL


def _find_error_line(facts: Facts) -> str:
    """The line of the agent's last words that names the trouble, else the last one."""
    lines = facts.stderr.strip().splitlines() or [""]
    return next((line for line in lines if match_failure(facts.driver.failures, line)), lines[-1])


def _judge_unfinished(facts: Facts) -> Verdict | None:
    if facts.summary.turn_done:
        return None
    kind = gateway_failure_kind(facts.last_call) or "crashed"
    return Verdict(reason=kind, message=f"{facts.driver.title} exited without finishing its turn")


def _judge_prompt(facts: Facts) -> Verdict | None:
    """Whoever has not read what it was to do has not done it, whatever it says; it may well need no model for it."""
    if facts.prompt_was_read is not False:
        return None
    return Verdict(reason="crashed", message=f"{facts.driver.title} says that it is done, but never read its prompt")


def _judge_unmetered_calls(facts: Facts) -> Verdict | None:
    """Tokens that cost no call at the gateway were spent past budgets and key, by whomever its settings lead to."""
    if not _count_unmetered_tokens(facts):
        return None
    message = f"{facts.driver.title} says that it is done, but its calls bypassed the gateway"
    return Verdict(reason="environment", message=message, step=_LED_ASTRAY)


def _count_unmetered_tokens(facts: Facts) -> int:
    told = facts.summary.usage
    return told.total if told and facts.calls_seen == 0 else 0


def _judge_last_call(facts: Facts) -> Verdict | None:
    """In a conversation some agents end a turn as if all were well when the model refused them; the gateway knows."""
    call = facts.last_call
    kind = gateway_failure_kind(call)
    if call is None or kind is None or call.role == "side" or facts.driver.channels[0].kind != "rpc":
        return None
    words = describe_failure(call)
    return Verdict(reason=kind, message=f"{facts.driver.title} says that it is done, but its last call failed: {words}")


def _judge_answer(facts: Facts) -> Verdict | None:
    if facts.schema is None:
        return None
    from .answers import SchemaMismatch, parse_answer  # Start-up time: only answers that are checked need it.

    try:
        parse_answer(facts.summary.answer, facts.schema, folder=facts.folder)
    except SchemaMismatch as misfit:
        return Verdict(reason="unfit_answer", message=f"the answer does not fit its schema: {misfit}")
    return None


def gateway_failure_kind(call: ModelCallEnded | None) -> FailureKind | None:
    """The kind of failure that the gateway saw in a call, if it failed."""
    if call is None:
        return None
    if call.problem.startswith(("unreachable", "unanswered")):
        return "network"
    return failure_of_status(call.status) or _KIND_OF_PROBLEM.get(call.problem)


def describe_failure(call: ModelCallEnded) -> str:
    """What the provider said of a call that failed, else what the gateway saw; of a garbled answer, how it begins."""
    said = f"{call.problem}: {call.message}" if call.problem == _UNREADABLE and call.message else call.message
    return said or call.problem or f"status {call.status}"


_LOOKS = (
    _judge_stop_request,
    _judge_resources,
    _judge_script,
    _judge_closed,
    _judge_unanswered,
    _judge_interrupted,
    _judge_turn,
    _judge_exit,
    _judge_unfinished,
    _judge_prompt,
    _judge_unmetered_calls,
    _judge_last_call,
    _judge_answer,
)
