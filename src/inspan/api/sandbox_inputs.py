"""What a program gives to a sandbox: each value is looked at where it comes in, and named as the program names it."""

import math
from collections.abc import Mapping
from typing import cast

from inspan.errors import BadInput
from inspan.protocol.limits import Limits

from .options import Path, check_text, path_of, to_tuple


def read_limits(memory: object, cpus: object, pids: object) -> Limits:
    """The limits of a sandbox; raises `BadInput` for what is no number. How much is allowed is looked at later."""
    _check_whole("memory", memory, next_step="Give bytes as an int, such as 4 * 1024**3, or None for no limit.")
    _check_whole("pids", pids, next_step="Give an int, or None for no limit.")
    if cpus is not None and not _is_number(cpus):
        step = "Give an int or a float, such as 0.5, or None for no limit."
        raise BadInput("cpus", cpus, "it is not a number of processors.", next_step=step)
    return Limits(memory_bytes=cast(int | None, memory), cpus=cast(float | None, cpus), pids=cast(int | None, pids))


def read_paths(name: str, paths: object) -> tuple[str, ...]:
    """A list of paths, absolute. A single one is none: its letters would be paths, and the first of them the root."""
    return tuple(read_path(name, each) for each in to_tuple(name, paths))


def read_path(name: str, path: Path) -> str:
    """A path, absolute; raises `BadInput` for what is none, and for one that is empty."""
    if path == "":
        raise BadInput(name, path, "it is empty.", next_step="Name a path; the current folder is '.'.")
    return path_of(name, path)


def read_env(env: object) -> dict[str, str]:
    """Variables as a copy; raises `BadInput` for what is no mapping. Names and values are looked at later."""
    if env is not None and not isinstance(env, Mapping):
        raise BadInput("env", env, "it is not a mapping.", next_step='Give names and values: {"NAME": "value"}.')
    return dict(cast(Mapping[str, str], env or {}))


def read_files(files: object) -> dict[str, bytes]:
    """What is to be uploaded, as bytes; raises `BadInput` for the first path or content that cannot be."""
    step = 'Give paths and what they shall hold: {"a/b.txt": "text"}.'
    if not isinstance(files, Mapping):
        raise BadInput("upload", files, "it is not a mapping.", next_step=step)
    return {
        _read_name(path): _read_content(path, content) for path, content in cast(Mapping[object, object], files).items()
    }


def check_texts(**values: object) -> None:
    """Raises `BadInput` for the first that is not text."""
    for name, value in values.items():
        check_text(name, value)


def check_output_limit(value: object) -> None:
    """Raises `BadInput` for what is no number of bytes."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        problem = "it is not a whole number of bytes, from 1."
        raise BadInput("output_limit_bytes", value, problem, next_step="Give an int, such as 8 * 1024**2.")


def check_timeout(value: object) -> None:
    """Raises `BadInput` for what is no time; None is no limit."""
    if value is not None and not (_is_number(value) and 0 < cast(float, value) < math.inf):
        problem = "it is not a number of seconds, more than 0."
        raise BadInput("timeout_s", value, problem, next_step="Give one, or None for no limit.")


def _check_whole(name: str, value: object, *, next_step: str) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise BadInput(name, value, "it is not a whole number.", next_step=next_step)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _read_name(path: object) -> str:
    if not isinstance(path, str):
        raise BadInput("upload", path, "it is not a path as text.", next_step="Give a str: str(path).")
    return path


def _read_content(path: object, content: object) -> bytes:
    if isinstance(content, bytes):
        return content
    if not isinstance(content, str):
        problem = f"its content is neither text nor bytes, but of the type {type(content).__name__}."
        raise BadInput("upload", path, problem, next_step="Give str or bytes.")
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        problem = "its content has half of a character in it."
        raise BadInput(
            "upload", path, problem, next_step="Give bytes, or text that can be written in UTF-8."
        ) from error
