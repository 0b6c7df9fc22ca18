"""The wires that the gateway speaks. A request is recognised by its method and its whole path."""

import re
from collections.abc import Mapping

from inspan.gateway.upstream import Purpose
from inspan.gateway.wires.chat import ChatWire
from inspan.gateway.wires.messages import MessagesWire
from inspan.gateway.wires.responses import ResponsesWire
from inspan.gateway.wires.wire import PREFIXES, Wire

from .generate_content import GenerateWire

WIRES: tuple[Wire, ...] = (MessagesWire(), ResponsesWire(), ChatWire(), GenerateWire())
BY_NAME = {wire.name: wire for wire in WIRES}
_MODELS = re.compile(rf"(?:{'|'.join(PREFIXES)})/models(?:/[\w.@-]+){{0,2}}", re.ASCII)


def find_wire(method: str, path: str, *, headers: Mapping[str, str]) -> tuple[Wire, Purpose | None]:
    """The wire of a request and what it wants; None when it is nothing that a provider serves.

    The list of models has the same path on every wire, so there the headers decide.
    """
    for wire in WIRES:
        purpose = wire.find_purpose(method, path)
        if purpose is not None:
            return wire, purpose
    likely = next((wire for wire in WIRES if headers.keys() & wire.own_headers), BY_NAME["responses"])
    return likely, "list models" if method == "GET" and _MODELS.fullmatch(path) else None
