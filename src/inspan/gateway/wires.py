"""The wires that the gateway speaks. A request is recognised by the end of its path."""

from inspan.gateway.chat import ChatWire
from inspan.gateway.messages import MessagesWire
from inspan.gateway.responses import ResponsesWire
from inspan.gateway.upstream import Purpose
from inspan.gateway.wire import Wire

WIRES: tuple[Wire, ...] = (MessagesWire(), ResponsesWire(), ChatWire())
BY_NAME = {wire.name: wire for wire in WIRES}


def recognise(method: str, path: str, *, speaks_messages: bool) -> tuple[Wire, Purpose | None]:
    """The wire of a request and what it wants; None when it is nothing that a provider serves.

    The list of models has the same path on every wire, so there `speaks_messages` decides.
    """
    trimmed = path.rstrip("/")
    for wire in WIRES:
        purpose = wire.purpose(method, trimmed)
        if purpose is not None:
            return wire, purpose
    likely = BY_NAME["messages" if speaks_messages else "responses"]
    return likely, "list models" if method == "GET" and trimmed.endswith("/models") else None
