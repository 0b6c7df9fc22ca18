"""A network that has nothing but loopback: whatever a program there asks of the world, nobody hears it."""

import os
import socket
import subprocess
import sys
from types import TracebackType

from tests.cli_env import WAIT_S
from tests.conftest import skip

# Brings `lo` up (SIOCSIFFLAGS, IFF_UP), listens there, hands the listener out, and stays until its stdin ends.
_KEEPER = """
import fcntl, socket, struct, sys
fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8914, struct.pack("16sh14x", b"lo", 1))
listener = socket.create_server(("127.0.0.1", 0))
socket.send_fds(socket.socket(fileno=int(sys.argv[1])), [b"here"], [listener.fileno()])
sys.stdin.read()
"""


class NetworkNamespace:
    """Exists while entered. `listener` accepts there; commands behind `prefix` run there."""

    listener: socket.socket

    def __init__(self) -> None:
        root = os.geteuid() == 0
        self._make = ("unshare", "--net", *(() if root else ("--user", "--map-current-user", "--keep-caps")), "--")
        self._enter = ("--net",) if root else ("--user", "--preserve-credentials", "--net")
        self._keeper: subprocess.Popen[bytes] | None = None

    @property
    def prefix(self) -> tuple[str, ...]:
        assert self._keeper
        return ("nsenter", f"--target={self._keeper.pid}", *self._enter, "--")

    def __enter__(self) -> "NetworkNamespace":
        if subprocess.run([*self._make, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
            skip("no-namespaces")
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.settimeout(WAIT_S)
            argv = [*self._make, sys.executable, "-IS", "-c", _KEEPER, str(theirs.fileno())]
            self._keeper = subprocess.Popen(argv, stdin=subprocess.PIPE, pass_fds=[theirs.fileno()])
            theirs.close()
            _, given, _, _ = socket.recv_fds(ours, 16, 1)
        self.listener = socket.socket(fileno=given[0])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.listener.close()
        if self._keeper:
            self._keeper.communicate(timeout=WAIT_S)
