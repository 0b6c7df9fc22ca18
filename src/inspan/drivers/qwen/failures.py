"""How Qwen Code tells that something failed, and what each of its words means."""

import re

from inspan.contracts.driver import failure, kind_told
from inspan.protocol.outcome import FailureKind

FAILURES = (
    failure("environment", r"cannot read .*settings\.json"),
    failure("session_not_found", r"no saved session found"),
    failure("max_turns", r"reached max session turns"),
    failure("context_too_long", r"maximum context|context (window|length)|prompt is too long|\(http 413\)"),
    failure("authentication", r"api error: 40[13]\b|(invalid|missing|incorrect|no) api key|no auth type"),
    failure("rate_limit", r"api error: 429\b|rate limit|quota"),
    failure("model_not_found", r"api error: 404\b|model .*(not found|does not exist)"),
    failure("overloaded", r"api error: 5\d\d\b|overloaded"),
    failure("invalid_response", r"without a finish reason|empty response|invalid json|unexpected token|malformed"),
    failure("network", r"terminated|connection|und_err|econn|socket|timed? ?out|fetch failed|network"),
    failure("environment", r"not supported in this mode|already exists|unknown argument|enoent|no such file"),
)
# Its own words for a failed call, which it says as if the model had, behind what the model had said until then.
_CALL_FAILED = "[API Error: "
_STATUS = re.compile(r"\[API Error: (\d{3}) ")


def parted(text: str) -> tuple[str, str]:
    """What the model said, and what may be the program's own words for a call that failed."""
    said, mark, rest = text.rpartition(_CALL_FAILED)
    return (said, mark + rest) if mark else (text, "")


def kind_of(message: str) -> FailureKind:
    """What kind of failure a message tells."""
    return kind_told(FAILURES, message) or "unknown"


def status_of(message: str) -> int | None:
    """The HTTP status in a message."""
    found = _STATUS.match(message)
    return int(found[1]) if found else None
