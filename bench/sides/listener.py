"""A place on loopback for a program that serves."""

import socket


def listener() -> socket.socket:
    """A socket that listens on a free port.

    Its protocol is named because asyncio sends small writes at once only then; else each may wait 40 ms for the last.
    """
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.bind(("127.0.0.1", 0))
    made.listen(512)
    return made
