"""What went wrong, by status and words."""

import msgspec

from inspan.contracts.driver import Failure, match_failure
from inspan.protocol.events import TurnFailed
from inspan.protocol.http_status import failure_of_status
from inspan.protocol.known_types import know_type
from inspan.protocol.wire import DECODE_ERRORS

from .frames import Data, Problem

# Bare numbers tell nothing: a process id or a date in a path looks like a status too.
FAILURES = (
    Failure("session_not_found", r"no session, task, or name matched"),
    Failure(
        "context_too_long", r"context (window|length)|prompt is too long|maximum context|exceeds the (token|context)"
    ),
    Failure("authentication", r"authentication failed|no authentication information|not logged in|/login\b"),
    Failure("model_not_found", r"require an explicit model|model .*(not found|not available|is not supported)"),
    Failure("rate_limit", r"rate limit|quota"),
    Failure("invalid_response", r"without sending any chunks|stream ended without|failed to finalize|invalid json"),
    Failure("network", r"native model http request|connection|timed out|error sending request|unexpected eof"),
    Failure("environment", r"no such agent|enoent|eacces|no such file|permission denied|no prompt provided"),
)


def turn_failed_event(data: Data) -> TurnFailed:
    """The failure that an error of the session, or a call that was not answered, comes to."""
    message = data.message or _error_message(data)
    kind = failure_of_status(data.status_code) or match_failure(FAILURES, message) or "unknown"
    return TurnFailed(failure=kind, message=message, status=data.status_code)


def _error_message(data: Data) -> str:
    """The words of a provider's error, which come as its JSON; a status alone says something too."""
    try:
        told = msgspec.json.decode(data.error_message, type=know_type(Problem | str))
    except DECODE_ERRORS:
        told = data.error_message
    words = told.message if isinstance(told, Problem) else told
    return " ".join(str(part) for part in (data.status_code, words) if part) or "a model call failed"
