"""The way into a box, before its own program takes over: limits, network and filter are set up, then it is started.

It happens in the forked child of a supervisor, or as a script: `entry.py SETUP ARGV…`, where SETUP is what `pack`
gives. Imports next to nothing: an agent waits for it.

A socket belongs to the network it was made in, whoever holds it. So the listeners that a box is to reach are made in
here, in its own network, and handed to the supervisor: no byte of theirs takes a way of its own.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn, TypedDict

    class Setup(TypedDict):
        """`groups` are the folders of the control groups to join; `ports` where to listen in a network of its own,
        which somebody else makes unless it is `isolated`; `filter` is the program for system calls; `scoped` keeps the
        sockets of the host without a path out of reach.
        """

        groups: list[str]
        isolated: bool
        ports: list[int]
        filter: bytes
        scoped: bool


LINK_FD = 5
FILTER_FD = 6
_FAILED = 126
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_SET_FLAGS, _UP = 0x8914, 0x1 | 0x40
_BACKLOG = 64
_SET_MASK = 2
_NO_NEW_PRIVILEGES = 38
_CREATE_RULESET, _RESTRICT_SELF = 444, 446  # The same numbers on every architecture.
_ABSTRACT_SOCKETS = 1
_ASK_VERSION, _FIRST_WITH_SCOPES = 1, 6


def pack(setup: "Setup") -> str:
    """The setup as an argument."""
    import marshal  # Start-up time: built in, and needed by few.

    return marshal.dumps(dict(setup)).hex()


def enter(setup: "Setup", argv: "list[str]", env: "dict[str, str]") -> "NoReturn":
    """Sets all of it up and becomes the program; leaves with a sentence on stderr where that cannot be."""
    step = "join the control groups of its limits"
    try:
        for group in setup["groups"]:
            _write(f"{group}/cgroup.procs", "0")
        step = "forbid core dumps"
        _forbid_core_dumps()
        if setup["isolated"]:
            step = "give it a network of its own"
            _isolate_network()
            step = "listen in its network"
            if setup["ports"]:
                _hand_over(setup["ports"])
        if setup["scoped"]:
            step = "keep it from sockets of the host"
            _scope_sockets()
        step = "load its filter"
        if setup["filter"]:
            _keep_filter(setup["filter"])
        step = f"start {argv[0]}"
        os.execve(argv[0], argv, env)
    except OSError as error:
        os.write(2, f"inspan: the sandbox cannot {step}: {error.strerror or error}\n".encode())
        os._exit(_FAILED)


def reset_signals(numbers: "tuple[int, ...]") -> None:
    """Gives signals their usual meaning, and blocks none: a program keeps what the process before it ignored."""
    for number in numbers:
        call_libc("signal", number, 0)
    call_libc("sigprocmask", _SET_MASK, bytes(128), 0)


def supports_scopes() -> bool:
    """Whether the kernel can keep a process from sockets without a path: Linux 6.12 and newer, with Landlock."""
    try:
        return call_libc("syscall", _CREATE_RULESET, 0, 0, _ASK_VERSION) >= _FIRST_WITH_SCOPES
    except (OSError, ImportError):
        return False


def call_libc(name: str, *arguments: "int | bytes") -> int:
    """Calls a function of the C library; raises `OSError` where it gives -1. `ctypes` would take longer to load."""
    import _ctypes  # Start-up time: only a box needs it.

    library = _ctypes.dlopen("", 0)  # This process itself, in which the C library is loaded.
    found: int = _ctypes.call_function(_ctypes.dlsym(library, name), arguments)
    if found == -1:
        raise PermissionError(1, f"the system does not permit {name}")
    return found


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _forbid_core_dumps() -> None:
    """A core dump would hold the memory of an agent, on the host."""
    import resource  # Start-up time: only a box needs it.

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _isolate_network() -> None:
    """Root makes a network; anybody else needs a user namespace of their own for that, in which they stay who they are.

    Their powers in it end when the box's program is started.
    """
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        call_libc("unshare", _NEW_NETWORK)
    else:
        call_libc("unshare", _NEW_USER | _NEW_NETWORK)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    import fcntl  # Start-up time: only a network of its own needs these.
    import socket
    import struct

    with socket.socket() as made:
        fcntl.ioctl(made.fileno(), _SET_FLAGS, struct.pack("16sh22x", b"lo", _UP))


def _hand_over(ports: "list[int]") -> None:
    """Listens on loopback and gives the listeners to whoever holds the other end of the link."""
    import socket  # Start-up time: loaded by now.

    with socket.socket(fileno=LINK_FD) as link:
        listeners = [socket.create_server(("127.0.0.1", port), backlog=_BACKLOG) for port in ports]
        socket.send_fds(link, [b"\0"], [each.fileno() for each in listeners])
        for each in listeners:
            each.close()


def _scope_sockets() -> None:
    """With the host's network, a box would reach the sockets without a path that belong to it; Landlock can forbid it.

    A rule set about nothing else does not keep bubblewrap from mounting.
    """
    import struct  # Start-up time: only a box with the host's network needs it.

    rules = struct.pack("QQQ", 0, 0, _ABSTRACT_SOCKETS)
    rule_set = call_libc("syscall", _CREATE_RULESET, rules, len(rules), 0)
    call_libc("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    call_libc("syscall", _RESTRICT_SELF, rule_set, 0)
    os.close(rule_set)


def _keep_filter(program: bytes) -> None:
    """Puts the filter where bubblewrap is told to read it."""
    made = os.memfd_create("filter")
    os.write(made, program)
    os.lseek(made, 0, os.SEEK_SET)
    os.dup2(made, FILTER_FD)
    os.set_inheritable(FILTER_FD, True)


def main() -> None:
    import marshal  # Start-up time: built in.

    enter(marshal.loads(bytes.fromhex(sys.argv[1])), sys.argv[2:], dict(os.environ))


if __name__ == "__main__":
    main()
