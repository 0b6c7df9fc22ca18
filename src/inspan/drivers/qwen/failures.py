"""How Qwen Code tells that something failed, and what each of its words means."""

import re

from inspan.contracts.driver import Failure, match_failure
from inspan.protocol.outcome import FailureKind

FAILURES = (
    Failure("environment", r"cannot read .*settings\.json"),
    Failure("session_not_found", r"no saved session found"),
    Failure("max_turns", r"reached max session turns"),
    Failure("context_too_long", r"maximum context|context (window|length)|prompt is too long|\(http 413\)"),
    Failure("authentication", r"api error: 40[13]\b|(invalid|missing|incorrect|no) api key|no auth type"),
    Failure("rate_limit", r"api error: 429\b|rate limit|quota"),
    Failure("model_not_found", r"api error: 404\b|model .*(not found|does not exist)"),
    Failure("overloaded", r"api error: 5\d\d\b|overloaded"),
    Failure("invalid_response", r"without a finish reason|empty response|invalid json|unexpected token|malformed"),
    Failure("network", r"terminated|connection|und_err|econn|socket|timed? ?out|fetch failed|network"),
    Failure("environment", r"not supported in this mode|already exists|unknown argument|enoent|no such file"),
)
# Its own words for a failed call, which it says as if the model had, behind what the model had said until then.
_CALL_FAILED = "[API Error: "
_STATUS = re.compile(r"\[API Error: (\d{3}) ")


def split_error(text: str) -> tuple[str, str]:
    """What the model said, and what may be the program's own words for a call that failed."""
    said, mark, rest = text.rpartition(_CALL_FAILED)
    return (said, mark + rest) if mark else (text, "")


def classify_failure(message: str) -> FailureKind:
    """What kind of failure a message tells."""
    return match_failure(FAILURES, message) or "unknown"


def parse_status(message: str) -> int | None:
    """The HTTP status in a message."""
    found = _STATUS.match(message)
    return int(found[1]) if found else None
