"""The id of a request: the client's own where it is one, else a new one."""

import re
import secrets

_SANE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


def choose_request_id(given: str) -> str:
    """The client's id, if it is one that can stand in any log."""
    return given if _SANE.fullmatch(given) else make_request_id()


def make_request_id() -> str:
    """An id that no other request has."""
    return f"req-{secrets.token_hex(8)}"
