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
# Behind an option of bubblewrap's that takes a descriptor: a path that is opened on the way, by no link.
OPEN = "@"
_OPTIONS_WITH_OPEN = ("--bind-fd", "--ro-bind-fd")
# What a shell sets up on the way, where nothing else is needed: no core dump, which would hold an agent's memory.
SHELL_ENTRY = ("/bin/sh", "-c", 'ulimit -c 0 && exec "$@"', "sh")
# Whatever a child is given has a number below this one.
ABOVE_GIVEN = 16
_FAILED = 126
_LOOP = 40  # ELOOP, of which `errno` would say no more.
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


def needs_python(setup: "Setup") -> bool:
    """Whether more is to be set up than a shell can: then it takes as long as another Python does to start."""
    return bool(setup["groups"] or setup["isolated"] or setup["ports"] or setup["scoped"])


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


def open_named(argv: "list[str]", opened: "list[int]") -> "list[str]":
    """The words with a descriptor in the place of each path that is to be opened; each is added to `opened` at once.

    A path that was looked at is mounted later, and in between somebody could put a link in its way. So it is opened
    name by name, none of which may be a link, and bubblewrap refuses to mount anything but what was opened. Raises
    `OSError`.
    """
    end = argv.index("--") if "--" in argv else len(argv)
    words = list(argv)
    for index in range(1, end):
        if words[index - 1] in _OPTIONS_WITH_OPEN and words[index].startswith(OPEN):
            opened.append(_open_plain(words[index].removeprefix(OPEN)))
            words[index] = str(opened[-1])
    return words


def _open_plain(path: str) -> int:
    """What lies at a whole path in which nothing is a link, on a number that no child is given anything on."""
    import fcntl  # Start-up time: only a box needs it.
    import stat

    at = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        for name in filter(None, path.split("/")):
            below = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = below
            if stat.S_ISLNK(os.fstat(at).st_mode):
                raise OSError(_LOOP, "a link stands in its way now")
        return fcntl.fcntl(at, fcntl.F_DUPFD_CLOEXEC, ABOVE_GIVEN)
    except OSError as error:
        raise OSError(error.errno, f"{path} cannot be shown: {error.strerror}") from error
    finally:
        os.close(at)


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
    import _socket  # Start-up time: `socket` would take 5 ms to load, and a box without a network needs none of it.
    import fcntl
    import struct

    made = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    fcntl.ioctl(made.fileno(), _SET_FLAGS, struct.pack("16sh22x", b"lo", _UP))
    made.close()


def _hand_over(ports: "list[int]") -> None:
    """Listens on loopback and gives the listeners to whoever holds the other end of the link."""
    import _socket  # Start-up time, as above.
    import struct

    listeners = [_socket.socket(_socket.AF_INET, _socket.SOCK_STREAM) for _ in ports]
    for each, port in zip(listeners, ports, strict=True):
        each.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        each.bind(("127.0.0.1", port))
        each.listen(_BACKLOG)
    fds = struct.pack(f"{len(listeners)}i", *(each.fileno() for each in listeners))
    link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, LINK_FD)
    link.sendmsg([b"\0"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)])
    for each in (*listeners, link):
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
    os.dup2(make_filter_file(program), FILTER_FD)
    os.set_inheritable(FILTER_FD, True)


def make_filter_file(program: bytes) -> int:
    """The filter in memory, to be read from its beginning; the caller closes it."""
    made = os.memfd_create("filter")
    os.write(made, program)
    os.lseek(made, 0, os.SEEK_SET)
    return made


def main() -> None:
    import marshal  # Start-up time: built in.

    enter(marshal.loads(bytes.fromhex(sys.argv[1])), sys.argv[2:], dict(os.environ))


if __name__ == "__main__":
    main()
