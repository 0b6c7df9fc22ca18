"""Every reason for which a run can end, as one row: its outcome, exit code, error class and next step.

The exit codes of errors that keep a command from its work are here too, so that a code has one home.
"""

from typing import NamedTuple

from inspan import errors

from .outcome import Outcome, Reason

FAILED, USAGE, PERSON, AUTHENTICATION, AGENT, LIMITED = 1, 2, 3, 4, 5, 6
TIMEOUT, INTERRUPTED, STOPPED = 124, 130, 143
EXIT_CODES = {
    0: "done",
    FAILED: "failed",
    USAGE: "usage",
    PERSON: "needs a person",
    AUTHENTICATION: "authentication",
    AGENT: "agent missing, too old or untested",
    LIMITED: "stopped by guard, budget or turn limit",
    TIMEOUT: "timeout",
    INTERRUPTED: "interrupted",
    STOPPED: "stopped",
}


class ReasonRow(NamedTuple):
    """What follows from a reason alone. `next_step` is a sentence for the user; a run may know a better one.

    No struct: `inspan --help` loads this, and msgspec would take longer than the rest of it.
    """

    outcome: Outcome = "failed"
    exit_code: int = FAILED
    error: type[errors.AgentFailed] = errors.AgentFailed
    next_step: str = ""


REASONS: dict[Reason, ReasonRow] = {
    "done": ReasonRow(outcome="completed", exit_code=0),
    "authentication": ReasonRow(
        exit_code=AUTHENTICATION,
        error=errors.AuthenticationError,
        next_step="Log in or set the key: `inspan doctor` shows what is found.",
    ),
    "rate_limit": ReasonRow(
        outcome="limited",
        error=errors.RateLimitError,
        next_step="Wait until the limit resets, or use another model or agent.",
    ),
    "overloaded": ReasonRow(
        error=errors.NetworkError, next_step="The provider is overloaded: try again in a few minutes."
    ),
    "network": ReasonRow(
        error=errors.NetworkError, next_step="The connection to the model broke: check the network and try again."
    ),
    "invalid_response": ReasonRow(
        error=errors.InvalidResponseError,
        next_step="The model's answer could not be read: try again; `inspan logs RUN` shows it.",
    ),
    "environment": ReasonRow(
        error=errors.AgentEnvironmentError, next_step="The agent could not work here: `inspan doctor` checks it."
    ),
    "tool_permission": ReasonRow(
        error=errors.ToolPermissionError, next_step="The agent was not allowed to use a tool it needed."
    ),
    "context_too_long": ReasonRow(next_step="Start a new session with less context."),
    "model_not_found": ReasonRow(next_step="Choose another --model."),
    "refused": ReasonRow(next_step="The model refused the task: say it differently."),
    "crashed": ReasonRow(error=errors.AgentEnvironmentError, next_step="Look at `inspan logs --raw RUN`."),
    "max_turns": ReasonRow(outcome="limited", exit_code=LIMITED, next_step="Allow more turns with --max-turns."),
    "session_not_found": ReasonRow(
        error=errors.AgentEnvironmentError,
        next_step="The agent does not know this session: start a new one without --resume.",
    ),
    "unfit_answer": ReasonRow(
        error=errors.InvalidResponseError,
        next_step="The answer does not fit the schema: make the schema or the prompt clearer.",
    ),
    "unknown": ReasonRow(next_step="Look at `inspan logs RUN`."),
    "script": ReasonRow(
        next_step="The file and the agent's calls do not fit: change the scenario, or record the cassette again."
    ),
    "store": ReasonRow(next_step="Free disk space, then run the task again."),
    "harness": ReasonRow(next_step="This is a fault of inspan: the run's folder holds what is known."),
    "interrupted": ReasonRow(outcome="cancelled", exit_code=INTERRUPTED, error=errors.RunCancelled),
    "stopped": ReasonRow(outcome="cancelled", exit_code=STOPPED, error=errors.RunCancelled),
    "killed": ReasonRow(outcome="cancelled", exit_code=STOPPED, error=errors.RunCancelled),
    "run_timeout": ReasonRow(
        outcome="timed_out",
        exit_code=TIMEOUT,
        error=errors.RunTimedOut,
        next_step="Give it longer with --timeout.",
    ),
    "idle_timeout": ReasonRow(
        outcome="timed_out",
        exit_code=TIMEOUT,
        error=errors.RunTimedOut,
        next_step="Give it longer with --idle-timeout.",
    ),
    "start_timeout": ReasonRow(
        outcome="timed_out",
        exit_code=TIMEOUT,
        error=errors.RunTimedOut,
        next_step="Give it longer with --start-timeout, or check the agent with `inspan doctor`.",
    ),
    "model_stall": ReasonRow(
        outcome="timed_out",
        exit_code=TIMEOUT,
        error=errors.RunTimedOut,
        next_step="The model stopped answering: try again, or give it longer with --stall-timeout.",
    ),
    "stuck": ReasonRow(
        outcome="timed_out",
        exit_code=TIMEOUT,
        error=errors.RunTimedOut,
        next_step="`inspan logs RUN` shows what it waited for; allow a longer silence with --watchdog.",
    ),
    "budget": ReasonRow(
        outcome="limited",
        exit_code=LIMITED,
        next_step="Raise the budget with --budget; `inspan budget` shows what was spent.",
    ),
    "guard": ReasonRow(outcome="denied", exit_code=LIMITED),
    "unanswered": ReasonRow(
        outcome="denied",
        exit_code=PERSON,
        error=errors.ToolPermissionError,
        next_step="Answer with `inspan approve` within --answer-timeout, allow the tool, or give on_permission.",
    ),
    "supervisor_lost": ReasonRow(
        outcome="lost", next_step="Go on with it: `inspan recover`; what was done until then is in the log."
    ),
    "max_restarts": ReasonRow(
        outcome="limited", exit_code=LIMITED, next_step="Look at what failed, or allow more with --max-restarts."
    ),
    "no_progress": ReasonRow(
        outcome="limited",
        exit_code=LIMITED,
        next_step="Say more in the prompt, try another agent, or allow more with --no-progress.",
    ),
    "no_verdict": ReasonRow(
        next_step="What was to judge the work could not: correct what the message says, and try again."
    ),
    "node_failed": ReasonRow(
        next_step="`inspan blueprint show RUN` tells which; `inspan blueprint resume RUN` goes on from there."
    ),
}

_CODES_OF_ERRORS: tuple[tuple[type[errors.InspanError], int], ...] = (
    (errors.BadInput, USAGE),
    (errors.RunNotFound, USAGE),
    (errors.SessionNotFound, USAGE),
    (errors.AgentUnusable, AGENT),
    (errors.CredentialsMissing, AUTHENTICATION),
    (errors.BudgetSpent, LIMITED),
)


def exit_code_of_error(error: errors.InspanError) -> int:
    """The code for an error that kept a command from its work."""
    return next((code for kind, code in _CODES_OF_ERRORS if isinstance(error, kind)), FAILED)
