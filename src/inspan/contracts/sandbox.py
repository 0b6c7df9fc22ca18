"""A sandbox turns an agent's command line into one that runs inside it."""

from collections.abc import Callable

import msgspec


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """What a sandbox must know: what may be written, what must not be seen, what must stay readable.

    `read_only` takes the working folder out of what may be written.
    """

    cwd: str
    read_only: bool = False
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    root: bool = False


class Sandbox(msgspec.Struct, frozen=True, kw_only=True):
    """`wrap` gives the new argv; `boundary` says whether it holds against an agent that wants out."""

    name: str
    boundary: bool
    wrap: Callable[[tuple[str, ...], Box], tuple[str, ...]]
