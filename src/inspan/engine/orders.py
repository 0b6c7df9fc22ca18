"""Sending a command to a living run, over its control socket."""

import socket

import msgspec

from inspan.protocol.commands import Command
from inspan.protocol.wire import encode

_ANSWER_S = 5.0


def send_command(path: str, command: Command) -> bool:
    """Sends one command to a run; says whether a living run took it."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(_ANSWER_S)
            client.connect(path)
            client.sendall(encode(command) + b"\n")
            answer = client.makefile("rb").readline()
    except OSError:
        return False
    return bool(answer) and bool(msgspec.json.decode(answer).get("ok"))
