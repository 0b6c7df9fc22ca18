"""Configuration files on disk: read without ever waiting or choking, replaced whole or not at all."""

import os
import re
import stat
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from inspan.errors import BadConfig
from inspan.system.atomic_file import replace_file

MAX_BYTES = 1024 * 1024
MAX_PARTS = 32
# Python's TOML reader takes time and memory by the square of a key's length: 60,000 parts are a minute.
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![\w-])(?:{_PART}[ \t]*+\.[ \t]*+){{{MAX_PARTS}}}")


def read(path: str) -> str | None:
    """The text of a file, or `None` where there is none; raises `BadConfig` for what is no small file of text."""
    try:
        # Without O_NONBLOCK, opening a pipe would wait for somebody to write into it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        if os.path.islink(path):
            raise _file_error(path, "is a link that leads nowhere.", "Remove it, or make what it points to.") from error
        return None
    except (OSError, ValueError) as error:
        raise _read_error(path, error) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _file_error(path, "is not a file.", "Put a TOML file in its place, or remove it.")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _read_error(path, error) from error
    finally:
        os.close(descriptor)
    return _decode_text(data, path)


def parse(text: str, path: str) -> dict[str, Any]:
    """The tables of a file's text; raises `BadConfig` with the line."""
    import tomllib  # Start-up time: most runs have no file to read.

    if match := _LONG_KEY.search(text):
        line = text.count("\n", 0, match.start()) + 1
        raise _file_error(path, f"has a key of more than {MAX_PARTS} parts at line {line}.", "Shorten it.")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        problem = str(error) if isinstance(error, ValueError) else "it is nested too deep"
        raise _file_error(path, f"is not TOML: {problem}.", "Correct that line and try again.") from error


def replace(path: str, text: str) -> None:
    """Puts a whole new text in the place of a file, which keeps its mode; a new one is for its owner alone."""
    target = os.path.realpath(path)
    try:
        mode = stat.S_IMODE(os.stat(target).st_mode) if os.path.exists(target) else 0o600
        replace_file(target, text.encode(), mode=mode, sync=True)
    except OSError as error:
        raise _write_error(path, error) from error


@contextmanager
def lock_file(path: str) -> Generator[None]:
    """Makes the file's folder and keeps others from changing the file; raises `BadConfig`."""
    from inspan.system import file_locks  # Start-up time: only who changes a file needs it.

    folder = os.path.dirname(os.path.realpath(path))
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        lock = file_locks.take(folder, folder=True, wait=True)
    except OSError as error:
        raise _write_error(path, error) from error
    try:
        yield
    finally:
        file_locks.release(lock)


def _decode_text(data: bytes, path: str) -> str:
    if len(data) > MAX_BYTES:
        raise _file_error(path, "is larger than 1 MB.", "Configuration is small: is it the right file?")
    try:
        return data.decode("utf-8-sig")  # Some editors put a byte order mark in front.
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _file_error(path, f"is not UTF-8 at line {line}.", "Save it as UTF-8.") from error


def _read_error(path: str, error: OSError | ValueError) -> BadConfig:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return _file_error(path, f"cannot be read: {reason}.", "Change its owner or mode, or remove it.")


def _write_error(path: str, error: OSError) -> BadConfig:
    step = "Change the owner or mode of its folder, or edit the file yourself."
    return _file_error(path, f"cannot be written: {error.strerror}.", step)


def _file_error(path: str, problem: str, next_step: str) -> BadConfig:
    return BadConfig("file", path, problem, next_step=next_step)
