"""How a run can end: a closed list of outcomes, and a closed list of reasons for each."""

from typing import Literal, get_args

Outcome = Literal["completed", "failed", "cancelled", "timed_out", "limited", "denied", "lost"]
Status = Literal["success", "failed"]

FailureKind = Literal[
    "authentication",
    "rate_limit",
    "overloaded",
    "network",
    "invalid_response",
    "environment",
    "tool_permission",
    "context_too_long",
    "model_not_found",
    "refused",
    "crashed",
    "max_turns",
    "session_not_found",
    "unfit_answer",
    "unknown",
]
StuckCause = Literal["tool_at_work", "model_silent", "agent_silent", "same_calls", "needs_input"]
"""What a silent run is stuck on, as its last events tell."""
WatchdogStep = Literal["wait", "nudge", "interrupt", "kill", "heard"]
"""What a watchdog does about a silent run; `heard`: the run gave a sign of life again."""

Reason = Literal[
    FailureKind,
    "done",
    "script",
    "store",
    "harness",
    "interrupted",
    "stopped",
    "killed",
    "run_timeout",
    "idle_timeout",
    "start_timeout",
    "model_stall",
    "stuck",
    "budget",
    "guard",
    "unanswered",
    "supervisor_lost",
    "max_restarts",
    "no_progress",
    "no_verdict",
    "node_failed",
]

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


def status_of(outcome: Outcome) -> Status:
    """Success only for a completed run: a lost one is never called a success."""
    return "success" if outcome == "completed" else "failed"
