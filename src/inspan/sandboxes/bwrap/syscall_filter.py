"""The system calls that a box does without: a seccomp program, made by hand.

libseccomp would do the same; it is one more library that a machine need not have, and this is a list with one
comparison for each entry. What is refused fails with EPERM, or with ENOSYS where programs know how to do without.
"""

import os
import struct
from functools import cache

_EPERM, _ENOSYS = 1, 38
_LOAD, _EQUAL, _AT_LEAST, _HAS_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE = 0, 4
_FIRST_ARGUMENT, _SECOND_ARGUMENT, _THIRD_ARGUMENT, _FOURTH_ARGUMENT = 16, 24, 32, 40
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_X32 = 0x40000000  # The other way into the x86-64 kernel, with numbers of its own.

# UNIX, INET, INET6, NETLINK. Others, such as VSOCK, know no network namespace, or lead into rarely used code.
_FAMILIES = (1, 2, 10, 16)
# Typing into the terminal of whoever started us.
_TERMINAL_INPUT = (0x5412, 0x541C)

# By name: the number on x86-64 and on arm64.
_DENIED = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "userfaultfd": (323, 282),
}
_MISSING = {
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "openat2": (437, 437),  # The mode of a new file stands in memory, where a filter cannot look.
}
_SOCKET, _IOCTL, _PTRACE = (41, 198), (16, 29), (101, 117)
# Whoever attaches to the first process of a box stops it, and the box with it.
_FIRST_PROCESS = (1,)
# In the working folder a program with this bit would be the user's, or root's, for everybody else on the machine.
_SET_USER_ID = 0o4000
# The calls that give a file a mode, with where the mode stands, and the flags without which there is none.
_MODES = (
    ((90, None), _SECOND_ARGUMENT, 0),  # chmod
    ((91, 52), _SECOND_ARGUMENT, 0),  # fchmod
    ((268, 53), _THIRD_ARGUMENT, 0),  # fchmodat
    ((452, 452), _THIRD_ARGUMENT, 0),  # fchmodat2
    ((133, None), _SECOND_ARGUMENT, 0),  # mknod
    ((259, 33), _THIRD_ARGUMENT, 0),  # mknodat
    ((85, None), _SECOND_ARGUMENT, 0),  # creat
    ((2, None), _THIRD_ARGUMENT, _SECOND_ARGUMENT),  # open
    ((257, 56), _FOURTH_ARGUMENT, _THIRD_ARGUMENT),  # openat
)
_MAKES_FILE = 0o100 | 0o20000000  # O_CREAT, O_TMPFILE
# A box in which an agent makes one of its own needs these.
_NESTING = frozenset(
    [
        "fsconfig",
        "fsmount",
        "fsopen",
        "fspick",
        "mount",
        "mount_setattr",
        "move_mount",
        "open_tree",
        "pivot_root",
        "setns",
        "umount2",
    ]
)
# By what the system calls them: the audit architecture and the column of the tables.
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}


@cache
def build_filter(*, nesting: bool, machine: str = "") -> bytes:
    """The program for this machine; empty on an architecture whose numbers are not known here."""
    found = _MACHINES.get(machine or os.uname().machine)
    if found is None:
        return b""
    architecture, column = found
    denied = [row[column] for name, row in _DENIED.items() if not (nesting and name in _NESTING)]
    missing = [row[column] for row in _MISSING.values()]
    # What runs by another architecture's numbers is not let through: the numbers mean something else there.
    program = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, architecture, yes=1),
        _give(_EPERM),
        _step(_LOAD, _NUMBER),
        *((_step(_AT_LEAST, _X32, no=1), _give(_ENOSYS)) if column == 0 else ()),
        *(step for number in denied for step in (_step(_EQUAL, number, no=1), _give(_EPERM))),
        *(step for number in missing for step in (_step(_EQUAL, number, no=1), _give(_ENOSYS))),
        *_check_argument(_SOCKET[column], _FIRST_ARGUMENT, allowed=_FAMILIES),
        *_check_argument(_IOCTL[column], _SECOND_ARGUMENT, denied=_TERMINAL_INPUT),
        *_check_argument(_PTRACE[column], _SECOND_ARGUMENT, denied=_FIRST_PROCESS),
        *(step for row, place, flags in _MODES for step in _refuse_mode(row[column], place, flags)),
        _step(_RETURN, _ALLOW),
    ]
    return b"".join(program)


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def _give(error: int) -> bytes:
    return _step(_RETURN, _ERRNO | error)


def _check_argument(
    number: int, place: int, *, allowed: tuple[int, ...] = (), denied: tuple[int, ...] = ()
) -> list[bytes]:
    """Looks at one argument of a call; the steps for other calls follow behind."""
    checks = [_step(_LOAD, place)]
    for position, value in enumerate(allowed):
        checks.append(_step(_EQUAL, value, yes=len(allowed) - position))
    checks += [_give(_EPERM)] if allowed else []
    for value in denied:
        checks += [_step(_EQUAL, value, no=1), _give(_EPERM)]
    checks.append(_step(_RETURN, _ALLOW))
    return [_step(_EQUAL, number, no=len(checks)), *checks]


def _refuse_mode(number: int | None, place: int, flags: int) -> list[bytes]:
    """Of a call that this architecture has, and that makes a file where it has such flags."""
    if number is None:
        return []
    checks = [_step(_LOAD, place), _step(_HAS_BIT, _SET_USER_ID, no=1), _give(_EPERM), _step(_RETURN, _ALLOW)]
    if flags:
        checks = [_step(_LOAD, flags), _step(_HAS_BIT, _MAKES_FILE, no=len(checks) - 1), *checks]
    return [_step(_EQUAL, number, no=len(checks)), *checks]
