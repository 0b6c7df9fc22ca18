"""The words by which Goose tells what went wrong: it exits with 0 after most failures, and says so as if it were the
model."""

import re

from inspan.contracts.driver import Failure, match_failure
from inspan.protocol.outcome import FailureKind

# Bare numbers tell nothing: a process id or a date in a path looks like a status too.
FAILURES = (
    Failure("session_not_found", r"no session found|session not found|cannot resume"),
    Failure("max_turns", r"reached the maximum number of actions"),
    Failure("authentication", r"authentication (error|failed)|configuration value not found: \w*key|add more credits"),
    Failure("rate_limit", r"rate limit exceeded"),
    Failure("context_too_long", r"context (window|length|limit)|prompt is too long|failed to compact"),
    Failure("model_not_found", r"not found \(404\)|model .*(not found|does not exist|not supported)"),
    Failure("overloaded", r"server error \(5\d\d\b|overloaded"),
    Failure("invalid_response", r"empty response|failed to parse|expected value|invalid json"),
    Failure("network", r"network error|stream decode error|could not connect|error sending request|timed out"),
    Failure("environment", r"no (provider|model) configured|no such file or directory|permission denied"),
)
# What it says in the model's place when a turn could not go on (1.52): by its beginning, or by what it asks for then.
_GAVE_UP = re.compile(
    r"Ran into this error|Network error: |The model returned an empty response"
    r"|I've reached the maximum number of actions|.*\n\nPlease (?:resend|retry|try again)\b",
    re.DOTALL,
)
_STATUS = re.compile(r"\bStatus: (\d{3})\b|\((\d{3})\b[^)\n]{0,40}\)")


def is_failure_text(text: str) -> bool:
    """Whether these words of the program itself mean that the turn has failed."""
    return bool(_GAVE_UP.match(text))


def classify_failure(message: str) -> FailureKind:
    """The kind of failure that a message tells."""
    return match_failure(FAILURES, message) or "unknown"


def parse_status(message: str) -> int | None:
    """The HTTP status that a message names."""
    found = _STATUS.search(message)
    return int(found[1] or found[2]) if found else None
