"""A command at a terminal of its own, whose questions are answered as they come up."""

import os
import pty
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tests.cli_env import WAIT_S, CliEnv
from tests.emulated_terminal import take_terminal

CTRL_C = b"\x03"
_AGAIN_S = 10.0


def type_answer(cli_env: CliEnv, keys: str, *arguments: str, cwd: Path | None = None) -> tuple[str, int]:
    """Types these keys once a command asks before it does something; gives all that was printed, and the exit code."""
    code, printed = answer_questions(cli_env, arguments, [("[y/N]", keys.encode())], cwd=cwd)
    return printed, code


def answer_questions(
    cli_env: CliEnv,
    command: Sequence[str],
    answers: Sequence[tuple[str, bytes]],
    *,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
) -> tuple[int, str]:
    """Types each answer once its question is shown; gives the exit code and all that was shown.

    A Ctrl-C in the moment before a program waits for input is lost on it, so that it is typed until the program ends.
    """
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        take_terminal(cli_env.argv(*command)),
        env={**cli_env.env, "TERM": "xterm", **(env or {})},
        cwd=cwd or cli_env.work,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    cli_env.processes.append(process)
    waiting, shown, seen, last = list(answers), b"", 0, b""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        if not select.select([ours], [], [], _AGAIN_S)[0]:
            if last == CTRL_C:
                os.write(ours, CTRL_C)
            continue
        try:
            chunk = os.read(ours, 4096)
        except OSError:
            chunk = b""  # Nobody has the other end open any more.
        if not chunk:
            break
        shown += chunk
        while waiting and (at := shown.find(waiting[0][0].encode(), seen)) >= 0:
            seen = at + len(waiting[0][0].encode())
            last = waiting.pop(0)[1]
            os.write(ours, last)
    code = process.wait(WAIT_S)
    os.close(ours)
    assert waiting == [], shown
    return code, shown.decode().replace("\r\n", "\n")
