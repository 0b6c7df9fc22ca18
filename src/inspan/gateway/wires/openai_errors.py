"""Errors as OpenAI writes them, the same on both of its wires."""

import msgspec

from inspan.gateway.wires.wire import Json, get_object, get_text

_KINDS: dict[int, tuple[str, str | None]] = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    402: ("insufficient_quota", "insufficient_quota"),
    403: ("invalid_request_error", "unsupported_country_region_territory"),
    404: ("invalid_request_error", "model_not_found"),
    413: ("invalid_request_error", None),
    429: ("requests", "rate_limit_exceeded"),
    503: ("server_error", "server_is_overloaded"),
    529: ("server_error", "server_is_overloaded"),
}


def encode_error_body(status: int, message: str, *, kind: str = "") -> bytes:
    """An error body; a kind that is given stands as type and code, for programs read either."""
    type_, code = (kind, kind) if kind else _KINDS.get(status, ("server_error", None))
    return msgspec.json.encode({"error": {"message": message, "type": type_, "param": None, "code": code}})


def find_error_message(event: Json) -> str:
    """The text of an error, wherever a body or an event keeps it."""
    places = (get_object(event, "error"), get_object(event, "response", "error"))
    return next((text for text in (get_text(place, "message") for place in places) if text), "")
