"""The words by which agents of this protocol tell a failure: most have only a sentence for it."""

from inspan.contracts.driver import failure

# Bare numbers tell nothing; a status is one where the word or the protocol says so.
FAILURES = (
    failure("session_not_found", r"session .*(not found|does not exist|unknown)|invalid session|no such session"),
    failure("max_turns", r"(maximum|max) (number of )?turns"),
    failure("rate_limit", r"\b429\b|rate.?limit|too many requests|usage limit|quota|resource.?exhausted"),
    failure(
        "authentication", r"\b40[13]\b|api.?key|unauthori[sz]ed|unauthenticated|authenticat|not logged in|forbidden"
    ),
    failure("context_too_long", r"context (window|length)|too many tokens|prompt is too long|maximum length"),
    failure("model_not_found", r"\b404\b|model .*(not found|does not exist|not supported|unknown)"),
    failure("overloaded", r"\b5\d\d\b|overloaded|unavailable|high demand|internal server error|at capacity"),
    failure(
        "network", r"connection (error|refused|reset|closed)|fetch failed|econn\w+|socket|disconnected|timed? ?out"
    ),
    failure("invalid_response", r"unexpected (end|eof|token)|incomplete|invalid json|failed to parse|terminated"),
)
