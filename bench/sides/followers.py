"""Follows a stream of server-sent events on many connections at once, and tells how late its events came.

Arguments: the port, how many connections, the path, and the token. Prints a line once all are open; when stdin closes
it prints one JSON object. Every twentieth connection is read event by event, the others are only drained.
"""

import json
import re
import select
import socket
import sys
import time

_STAMP = re.compile(rb"sent_at ([0-9.]+)")
_EACH = 20
_BUFFER_BYTES = 1 << 20


def main() -> None:
    port, count, path, token = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    poll = select.epoll()
    sockets: dict[int, socket.socket] = {}
    read_whole: dict[int, bytes] = {}
    for number in range(count):
        made = _open(port, path, token)
        sockets[made.fileno()] = made
        poll.register(made.fileno(), select.EPOLLIN)
        if number % _EACH == 0:
            read_whole[made.fileno()] = b""
    print(count, flush=True)
    poll.register(sys.stdin.fileno(), select.EPOLLIN)
    late_ms, received = list[float](), 0
    buffer = bytearray(_BUFFER_BYTES)
    while True:
        for fd, _ in poll.poll():
            if fd == sys.stdin.fileno():
                print(json.dumps({"late_ms": late_ms, "received": received, "sampled": len(read_whole)}), flush=True)
                return
            size = sockets[fd].recv_into(buffer)
            received += size
            if not size:
                poll.unregister(fd)
            elif fd in read_whole:
                now = time.time()
                data = read_whole[fd] + bytes(buffer[:size])
                whole = data.rfind(b"\n") + 1
                late_ms += [(now - float(sent_at)) * 1e3 for sent_at in _STAMP.findall(data[:whole])]
                read_whole[fd] = data[whole:]


def _open(port: int, path: str, token: str) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port))
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: text/event-stream\r\n"
    made.sendall(f"{head}Authorization: Bearer {token}\r\n\r\n".encode())
    return made


main()
