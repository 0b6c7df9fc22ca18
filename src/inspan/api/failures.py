"""What an ended run stands for as an error: a class for each reason."""

from inspan.errors import (
    AgentEnvironmentError,
    AgentFailed,
    AuthenticationError,
    InvalidResponseError,
    NetworkError,
    RateLimitError,
    RunCancelled,
    RunTimedOut,
    ToolPermissionError,
)
from inspan.protocol.outcome import Reason

_CLASSES: dict[Reason, type[AgentFailed]] = {
    "authentication": AuthenticationError,
    "rate_limit": RateLimitError,
    "overloaded": NetworkError,
    "network": NetworkError,
    "invalid_response": InvalidResponseError,
    "unfit_answer": InvalidResponseError,
    "environment": AgentEnvironmentError,
    "crashed": AgentEnvironmentError,
    "session_not_found": AgentEnvironmentError,
    "tool_permission": ToolPermissionError,
    "interrupted": RunCancelled,
    "stopped": RunCancelled,
    "killed": RunCancelled,
    "run_timeout": RunTimedOut,
    "idle_timeout": RunTimedOut,
    "start_timeout": RunTimedOut,
    "model_stall": RunTimedOut,
}


def failure_class(reason: Reason) -> type[AgentFailed]:
    """The class of error for a run that ended for this reason; the plain one where no narrower one fits."""
    return _CLASSES.get(reason, AgentFailed)
