"""The wires that the gateway speaks. A request is recognised by the end of its path."""

from collections.abc import Mapping

from inspan.gateway.upstream import Purpose
from inspan.gateway.wires.chat import ChatWire
from inspan.gateway.wires.generate import GenerateWire
from inspan.gateway.wires.messages import MessagesWire
from inspan.gateway.wires.responses import ResponsesWire
from inspan.gateway.wires.wire import Wire

WIRES: tuple[Wire, ...] = (MessagesWire(), ResponsesWire(), ChatWire(), GenerateWire())
BY_NAME = {wire.name: wire for wire in WIRES}
_TELLING_HEADERS = (("anthropic-version", "messages"), ("x-api-key", "messages"), ("x-goog-api-key", "generate"))
# The status that ends every agent of a wire at once. 401, 413 and 429 are tried again for minutes (research: eight
# agents), and on the Responses wire so are 402 and 403.
REFUSAL_STATUS = {"messages": 402, "responses": 400, "chat": 402, "generate": 402}


def recognise(method: str, path: str, *, headers: Mapping[str, str]) -> tuple[Wire, Purpose | None]:
    """The wire of a request and what it wants; None when it is nothing that a provider serves.

    The list of models has the same path on every wire, so there the headers decide.
    """
    trimmed = path.rstrip("/")
    for wire in WIRES:
        purpose = wire.purpose(method, trimmed)
        if purpose is not None:
            return wire, purpose
    likely = next((BY_NAME[name] for header, name in _TELLING_HEADERS if header in headers), BY_NAME["responses"])
    return likely, "list models" if method == "GET" and trimmed.endswith("/models") else None
