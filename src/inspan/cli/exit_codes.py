"""The exit codes of the command line, as documented in `inspan --help`."""

from inspan.errors import (
    AgentUnusable,
    BadInput,
    BudgetSpent,
    CredentialsMissing,
    InspanError,
    RunNotFound,
    SessionNotFound,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from inspan.protocol.events import RunEnded

FAILED, USAGE, PERSON, AUTHENTICATION, AGENT, LIMITED, TIMEOUT, INTERRUPTED, STOPPED = (
    1,
    2,
    3,
    4,
    5,
    6,
    124,
    130,
    143,
)

_OF_ERROR: tuple[tuple[type[InspanError], int], ...] = (
    (BadInput, USAGE),
    (RunNotFound, USAGE),
    (SessionNotFound, USAGE),
    (AgentUnusable, AGENT),
    (CredentialsMissing, AUTHENTICATION),
    (BudgetSpent, LIMITED),
)
_OF_REASON = {
    "done": 0,
    "authentication": AUTHENTICATION,
    "budget": LIMITED,
    "guard": LIMITED,
    "max_turns": LIMITED,
    "interrupted": INTERRUPTED,
    "stopped": STOPPED,
    "killed": STOPPED,
    "run_timeout": TIMEOUT,
    "idle_timeout": TIMEOUT,
    "start_timeout": TIMEOUT,
    "model_stall": TIMEOUT,
}


def of_error(error: InspanError) -> int:
    """The code for an error that kept a command from its work."""
    return next((code for kind, code in _OF_ERROR if isinstance(error, kind)), FAILED)


def of_run(ended: "RunEnded") -> int:
    """The code for a run that has ended."""
    return _OF_REASON.get(ended.reason, FAILED)
