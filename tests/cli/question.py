"""Somebody at a terminal whom a command asks before it does what it would do."""

import os
import pty
import select
import subprocess
from pathlib import Path

from tests.cli_env import WAIT_S, CliEnv

QUESTION = b"[y/N]"
CTRL_C = "\x03"
_AGAIN_S = 10.0


def type_answer(cli_env: CliEnv, keys: str, *arguments: str, cwd: Path | None = None) -> tuple[str, int]:
    """Types these keys once a question is on the screen; gives all that was printed, and the exit code."""
    ours, theirs = pty.openpty()
    # The terminal has to be the controlling one, or Ctrl-C would be a letter as any other.
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *cli_env.argv(*arguments)],
        env=cli_env.env,
        cwd=cwd or cli_env.work,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    printed = b""
    try:
        while piece := _read(ours, again=keys.encode() if keys == CTRL_C and QUESTION in printed else b""):
            asked = QUESTION in printed
            printed += piece
            if QUESTION in printed and not asked:
                os.write(ours, keys.encode())
    except OSError:
        pass  # So ends a terminal whose last writer has left.
    finally:
        os.close(ours)
    return printed.decode().replace("\r\n", "\n"), process.wait(timeout=WAIT_S)


def _read(ours: int, *, again: bytes) -> bytes:
    """What is printed next. Readline misses a signal that comes just before it waits: then a person types it again."""
    while again and not select.select([ours], [], [], _AGAIN_S)[0]:
        os.write(ours, again)
    return os.read(ours, 65536)
