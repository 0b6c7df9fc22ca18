"""What a provider says with a status, for those who fail in its place."""

_MESSAGES = {
    400: "The request was not valid.",
    401: "Invalid API key.",
    402: "The account has no credit left.",
    403: "This key may not do that.",
    404: "The model does not exist or you do not have access to it.",
    413: "The request is too large.",
    429: "Rate limit reached.",
    500: "Internal server error.",
    503: "The service is not available.",
    529: "Overloaded.",
}


def failure_message(status: int) -> str:
    """One sentence."""
    return _MESSAGES.get(status, f"Error {status}.")
