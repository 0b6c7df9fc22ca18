"""What a provider means by refusing a call: the kind of failure by its status and words, and when to come back."""

from inspan.contracts.driver import Failure, match_failure
from inspan.protocol.http_status import failure_of_status
from inspan.protocol.outcome import FailureKind

# In the order of telling: a status is vague where words are not.
FAILURES = (
    Failure("context_too_long", r"context[ _](length|window)|maximum context|too many tokens|prompt is too long"),
    Failure("authentication", r"(incorrect|invalid|missing|no) api[ _-]?key|invalid_api_key|unauthori[sz]ed"),
    Failure("model_not_found", r"model[^.]{0,80}(not found|not exist|not supported|invalid)|invalid[ _]model"),
    Failure("rate_limit", r"rate[ _-]?limit|too many requests|quota"),
    Failure("overloaded", r"overloaded|at capacity|high demand"),
    Failure("refused", r"content[ _](filter|policy)|safety system"),
)
_RESET_HEADERS = ("retry-after-ms", "retry-after", "x-ratelimit-reset", "x-ratelimit-reset-requests")


def classify_failure(status: int, message: str) -> FailureKind:
    """The kind of a failed call; 200 is a call that failed on its way."""
    return failure_of_status(status) or match_failure(FAILURES, message) or "unknown"
