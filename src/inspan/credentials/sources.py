"""Where an API key may lie: in a variable, in a file, in what a command prints, in the keyring.

It is fetched within bounded time and of bounded size, and no message shows it or anything that came with it.
"""

import os
import stat
from collections.abc import Callable, Mapping

import msgspec

from inspan.errors import BadInput, KeyUnusable
from inspan.system.paths import expand_home

LIMIT_S = 30.0
LARGEST_BYTES = 64 * 1024
_READ_BY_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A key, the words for the place where it was, and what is unwise about that place."""

    value: str
    source: str
    warnings: tuple[str, ...] = ()


class _RawKey(msgspec.Struct, frozen=True, kw_only=True):
    """What a place holds, not yet looked at; `source` names it in messages."""

    text: str
    source: str
    warnings: tuple[str, ...] = ()


def fetch_key(key_from: str, env: Mapping[str, str], *, limit_s: float = LIMIT_S) -> Key:
    """The key that lies there; raises `BadInput` for no such place and `KeyUnusable` for one that gives no key."""
    kind, _, rest = key_from.partition(":")
    source = _SOURCES.get(kind)
    if source is None or not rest.strip():
        known = ", ".join(f"{name}:…" for name in _SOURCES)
        raise BadInput("key_from", _mask_value(key_from), "unknown key source.", next_step=f"Use {known}.")
    found = source(rest.strip(), env, limit_s)
    return Key(value=_check_key(found), source=found.source, warnings=found.warnings)


def permission_warnings(path: str, mode: int) -> tuple[str, ...]:
    """A warning about a file of secrets that others than its owner may use."""
    return (f"{path} can be read by others: chmod 600 {path}.",) if mode & _READ_BY_OTHERS else ()


def key_error(place: str, came_back: str, *, next_step: str) -> KeyUnusable:
    """The sentence for a place that gives no key."""
    message = f"The {place} gives no key: {came_back}."
    return KeyUnusable(message, next_step=next_step, tried=f"reading the {place}", came_back=came_back)


def _check_key(found: _RawKey) -> str:
    key = found.text.strip()
    problem = ""
    if not key:
        problem = "it is empty"
    elif len(key.encode(errors="replace")) > LARGEST_BYTES:
        problem = f"it gives more than {LARGEST_BYTES // 1024} KiB"
    elif not key.isascii() or not key.isprintable() or " " in key:
        problem = "what it gives is not one word of printable ASCII"
    if problem:
        raise key_error(found.source, problem, next_step="Make it give the key alone, on one line.")
    return key


def _read_variable(name: str, env: Mapping[str, str], limit_s: float) -> _RawKey:
    place = f"variable {name}"
    if name not in env:
        raise key_error(place, "it is not set", next_step="Set it, or name another place with --key-from.")
    return _RawKey(text=env[name], source=place)


def _read_file(path: str, env: Mapping[str, str], limit_s: float) -> _RawKey:
    place, full = f"key file {path}", expand_home(path, env)
    try:
        # Never waits: a pipe that nobody writes into is no key file.
        fd = os.open(full, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        step = "Check its path and its mode."
        raise key_error(place, error.strerror or str(error), next_step=step) from error
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            problem = "it is a folder" if stat.S_ISDIR(status.st_mode) else "it is not a regular file"
            raise key_error(place, problem, next_step="Name a file; for what a program prints, use cmd:COMMAND.")
        text = os.read(fd, LARGEST_BYTES + 1).decode("utf-8-sig", errors="replace")
    except OSError as error:
        raise key_error(place, error.strerror or str(error), next_step="Check its disk.") from error
    finally:
        os.close(fd)
    return _RawKey(text=text, source=place, warnings=permission_warnings(path, status.st_mode))


def _read_command(command: str, env: Mapping[str, str], limit_s: float) -> _RawKey:
    from .command import run_shell_command  # Start-up time: few runs ask a command.

    place = f"key command {_program_name(command)!r}"
    answer = run_shell_command(command, env=env, limit_s=limit_s, max_bytes=LARGEST_BYTES)
    if answer.problem:
        step = "Run it by hand: it must print the key and end, without asking anybody."
        raise key_error(place, answer.problem, next_step=step)
    return _RawKey(text=answer.output, source=place)


def _read_keyring(name: str, env: Mapping[str, str], limit_s: float) -> _RawKey:
    service, _, user = name.rpartition("/")
    if not service or not user:
        raise BadInput("key_from", f"keyring:{name}", "no SERVICE/USER.", next_step="For example keyring:inspan/me.")
    place = f"keyring entry {service}/{user}"
    try:
        from keyring import get_password  # An extra.
    except ImportError as error:
        step = "Install inspan with its extra: pip install 'inspan[keyring]'."
        raise key_error(place, "the package keyring is not installed", next_step=step) from error
    from .command import call_with_timeout  # Start-up time: few keys come from a command.

    try:
        found = call_with_timeout(lambda: get_password(service, user), limit_s=limit_s)
    except TimeoutError as error:
        step = "Unlock the keyring first, or use another place."
        raise key_error(place, f"no answer within {limit_s:g} s", next_step=step) from error
    except Exception as error:  # A backend may raise anything: no D-Bus, locked, no backend at all.
        words = f"{type(error).__name__}: {error}".partition("\n")[0].rstrip(".")
        step = "Unlock the keyring or set one up (`keyring --list-backends`), or use another place."
        raise key_error(place, words, next_step=step) from error
    if not found:
        raise key_error(place, "there is no such entry", next_step=f"`keyring set {service} {user}` makes it.")
    return _RawKey(text=found, source=place)


def _program_name(command: str) -> str:
    """The command's program: its arguments may be as secret as what it prints."""
    program = command.split()[0]
    return "…" if "=" in program or len(program) > 80 else program


def _mask_value(key_from: str) -> str:
    """A place that is none, without what stands in it: it may be the key itself."""
    kind, colon, _ = key_from.partition(":")
    return f"{kind}:…" if colon and kind.isidentifier() else "…"


_SOURCES: dict[str, Callable[[str, Mapping[str, str], float], _RawKey]] = {
    "env": _read_variable,
    "file": _read_file,
    "cmd": _read_command,
    "keyring": _read_keyring,
}
