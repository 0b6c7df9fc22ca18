"""What the HTTP status of a model call means, as far as that alone says it."""

from .outcome import FailureKind

_FAILURES: dict[int, FailureKind] = {
    401: "authentication",
    402: "authentication",
    403: "authentication",
    404: "model_not_found",
    408: "network",
    413: "context_too_long",
    429: "rate_limit",
    504: "network",
}


def is_error_status(status: int | None) -> bool:
    """Whether the provider refused or failed; no status is no answer yet."""
    return status is not None and status >= 400


def failure_of_status(status: int | None) -> FailureKind | None:
    """The kind of failure that a status stands for."""
    if status is None:
        return None
    return _FAILURES.get(status) or ("overloaded" if status >= 500 else None)
