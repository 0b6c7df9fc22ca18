"""Why a run ended: one judgement from what inspan did, what the gateway saw, what the agent said and how it left."""

import signal
from typing import Any

import msgspec

from inspan.contracts.driver import Driver, kind_of_status, kind_told
from inspan.folds.summary import Summary
from inspan.protocol.events import ModelCallEnded
from inspan.protocol.outcome import FailureKind, Reason

_KIND_OF_PROBLEM: dict[str, FailureKind] = {
    "cut": "network",
    "stalled": "network",
    "garbage": "invalid_response",
}
_TELLING = 40
_NEXT: dict[Reason, str] = {
    "authentication": "Log in or set the key: `inspan doctor` shows what is found.",
    "rate_limit": "Wait until the limit resets, or use another model or agent.",
    "overloaded": "The provider is overloaded: try again in a few minutes.",
    "network": "The connection to the model broke: check the network and try again.",
    "invalid_response": "The model's answer could not be read: try again; `inspan logs RUN` shows it.",
    "environment": "The agent could not work here: `inspan doctor` checks it.",
    "tool_permission": "The agent was not allowed to use a tool it needed.",
    "context_too_long": "Start a new session with less context.",
    "model_not_found": "Choose another --model.",
    "refused": "The model refused the task: say it differently.",
    "crashed": "Look at `inspan logs --raw RUN`.",
    "unknown": "Look at `inspan logs RUN`.",
    "script": "The file and the agent's calls do not fit: change the scenario, or record the cassette again.",
    "store": "Free disk space, then run the task again.",
    "harness": "This is a fault of inspan: the run's folder holds what is known.",
    "run_timeout": "Give it longer with --timeout.",
    "idle_timeout": "Give it longer with --idle-timeout.",
    "start_timeout": "Give it longer with --start-timeout, or check the agent with `inspan doctor`.",
    "model_stall": "The model stopped answering: try again, or give it longer with --stall-timeout.",
    "max_turns": "Allow more turns with --max-turns.",
    "budget": "Raise the budget with --budget; `inspan budget` shows what was spent.",
    "unfit_answer": "The model's answer never fitted the schema: make the schema or the prompt clearer.",
    "session_not_found": "The agent does not know this session: start a new one without --resume.",
    "supervisor_lost": "Run the task again; what was done until then is in the log.",
}


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the judgement rests on. `wish` is why inspan ended the run itself, if it did."""

    driver: Driver
    summary: Summary
    exit_code: int | None
    signal: int | None
    stderr: str
    wish: tuple[Reason, str] | None = None
    last_call: ModelCallEnded | None = None
    complaint: str = ""
    folder: str = ""
    schema: dict[str, Any] | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The reason, a sentence, and what to do next."""

    reason: Reason
    message: str

    @property
    def next_step(self) -> str:
        return _NEXT.get(self.reason, "")


def judge(facts: Facts) -> Verdict:
    """The first that applies: our own ending, a broken script, a failed turn, a bad exit, no fit answer, success."""
    for look in (_our_ending, _broken_script, _failed_turn, _bad_exit, _unfinished, _unanswered, _unfit):
        verdict = look(facts)
        if verdict:
            return verdict
    return Verdict(reason="done", message="")


def next_step(reason: Reason) -> str:
    """What a user can do about a run that ended for this reason."""
    return _NEXT.get(reason, "")


def _our_ending(facts: Facts) -> Verdict | None:
    if facts.wish:
        return Verdict(reason=facts.wish[0], message=facts.wish[1])
    return None


def _broken_script(facts: Facts) -> Verdict | None:
    if not facts.complaint:
        return None
    own = _failed_turn(facts) or _bad_exit(facts)
    repeats = own is not None and facts.complaint[:_TELLING] in own.message.replace('\\"', '"')
    return Verdict(
        reason="script", message=f"{facts.complaint} {own.message}" if own and not repeats else facts.complaint
    )


def _failed_turn(facts: Facts) -> Verdict | None:
    failure = facts.summary.failure
    if failure is None:
        return None
    kind = seen_by_gateway(facts.last_call) or failure.failure
    return Verdict(reason=kind, message=failure.message)


def _bad_exit(facts: Facts) -> Verdict | None:
    if facts.exit_code == 0 or (facts.exit_code is None and facts.summary.turn_done):
        return None
    kind = seen_by_gateway(facts.last_call) or kind_told(facts.driver.failures, facts.stderr) or "crashed"
    if _was_killed(facts):
        kind = "crashed"  # Whatever it had said before.
    code = "an unknown exit code" if facts.exit_code is None else f"exit code {facts.exit_code}"
    how = code if facts.signal is None else f"signal {facts.signal}"
    words = _telling_line(facts)
    message = f"{facts.driver.title} ended with {how}{': ' + words if words else ''}"
    return Verdict(reason=kind, message=message)


def _was_killed(facts: Facts) -> bool:
    return facts.signal is not None or facts.exit_code == 128 + signal.SIGKILL


def _telling_line(facts: Facts) -> str:
    """The line of the agent's last words that names the trouble, else the last one."""
    lines = facts.stderr.strip().splitlines() or [""]
    return next((line for line in lines if kind_told(facts.driver.failures, line)), lines[-1])


def _unfinished(facts: Facts) -> Verdict | None:
    if facts.summary.turn_done:
        return None
    kind = seen_by_gateway(facts.last_call) or "crashed"
    return Verdict(reason=kind, message=f"{facts.driver.title} left without finishing its turn")


def _unanswered(facts: Facts) -> Verdict | None:
    """In a conversation some agents end a turn as if all were well when the model refused them; the gateway knows."""
    call = facts.last_call
    kind = seen_by_gateway(call)
    if call is None or kind is None or call.role == "side" or facts.driver.channels[0].kind != "rpc":
        return None
    words = call.message or call.problem or f"status {call.status}"
    return Verdict(reason=kind, message=f"{facts.driver.title} says that it is done, but its last call failed: {words}")


def _unfit(facts: Facts) -> Verdict | None:
    if facts.schema is None:
        return None
    from .answers import Misfit, answer_of  # Start-up time: only answers that are checked need it.

    try:
        answer_of(facts.summary.answer, facts.schema, folder=facts.folder)
    except Misfit as misfit:
        return Verdict(reason="unfit_answer", message=f"the answer does not fit its schema: {misfit}")
    return None


def seen_by_gateway(call: ModelCallEnded | None) -> FailureKind | None:
    """The kind of failure that the gateway saw in a call, if it failed."""
    if call is None:
        return None
    if call.problem.startswith("unreachable"):
        return "network"
    return kind_of_status(call.status) or _KIND_OF_PROBLEM.get(call.problem)
