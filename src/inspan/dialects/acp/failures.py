"""The words by which agents of this protocol tell a failure: most have only a sentence for it."""

from inspan.contracts.driver import Failure

# Bare numbers tell nothing; a status is one where the word or the protocol says so.
FAILURES = (
    Failure("session_not_found", r"session .*(not found|does not exist|unknown)|invalid session|no such session"),
    Failure("max_turns", r"(maximum|max) (number of )?turns"),
    Failure("rate_limit", r"\b429\b|rate.?limit|too many requests|usage limit|quota|resource.?exhausted"),
    Failure(
        "authentication", r"\b40[13]\b|api.?key|unauthori[sz]ed|unauthenticated|authenticat|not logged in|forbidden"
    ),
    Failure("context_too_long", r"context (window|length)|too many tokens|prompt is too long|maximum length"),
    Failure("model_not_found", r"\b404\b|model .*(not found|does not exist|not supported|unknown)"),
    Failure("overloaded", r"\b5\d\d\b|overloaded|unavailable|high demand|internal server error|at capacity"),
    Failure(
        "network", r"connection (error|refused|reset|closed)|fetch failed|econn\w+|socket|disconnected|timed? ?out"
    ),
    Failure("invalid_response", r"unexpected (end|eof|token)|incomplete|invalid json|failed to parse|terminated"),
)
