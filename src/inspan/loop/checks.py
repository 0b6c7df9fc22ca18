"""Whether an attempt has done the task: commands that must pass, and a file that only its agent can have written."""

import asyncio
import os
import re
import stat
import time

import msgspec

from inspan.contracts.sandbox import ExecResult
from inspan.errors import InspanError
from inspan.planning.boundary import find_asked_boundary
from inspan.planning.command_box import build_command, plan_box
from inspan.planning.settings import apply_config
from inspan.protocol.events import CheckEnded
from inspan.protocol.ids import RunId
from inspan.protocol.limits import Limits
from inspan.protocol.task import Task
from inspan.running.command import OnOutput, start_command

from .decide import DONE_FILE
from .prompts import cut_middle

_OUTPUT_BYTES = 256 * 1024
_MOST_KEPT = 20_000
_MOST_WORDS = 4096
_CANNOT_RUN = 126
# A word of a process has at most 131,072 bytes on Linux, and a character up to four.
_MOST_PIECE = 32_000
_DROPPED = re.compile(r"\n\[inspan: (\d+) bytes left out\]\n")
_JOIN_PIECES = 'IFS=; command="$*"; unset IFS; set --; eval "$command"'


async def run_check(
    command: str, task: Task, *, attempt: int, run_id: RunId, env: dict[str, str], cwd: str, timeout_s: float
) -> CheckEnded:
    """Runs a command as the loop's agent would: in its folder, in its sandbox, and with nothing left of it afterwards.

    Where it cannot be started that is a check which failed, and says why.
    """
    started = time.monotonic()
    try:
        done = await run_shell(command, task, run_id=run_id, env=env, cwd=cwd, timeout_s=timeout_s)
    except InspanError as error:
        return build_unrun_check(command, error, attempt=attempt, duration_s=time.monotonic() - started)
    return CheckEnded(
        attempt=attempt,
        check=command,
        passed=done.exit_code == 0 and not done.timed_out,
        exit_code=done.exit_code,
        timed_out=done.timed_out,
        output=join_output(done),
        duration_s=round(done.duration_s, 3),
    )


def build_unrun_check(command: str, error: InspanError, *, attempt: int, duration_s: float = 0.0) -> CheckEnded:
    """A check that could not be started, which is one that failed."""
    return CheckEnded(
        attempt=attempt,
        check=command,
        passed=False,
        exit_code=_CANNOT_RUN,
        output=str(error),
        duration_s=duration_s,
    )


def look_for_done(path: str, *, attempt: int, nonce: str) -> CheckEnded:
    """Whether the file is there and holds the loop's own word; what else lies there is never waited for."""
    found = _read_done(path)
    passed = found.strip() == nonce
    problem = "" if passed else f"{path} {_describe_found(path, found)}"
    return CheckEnded(attempt=attempt, check=DONE_FILE, passed=passed, output=problem)


def _read_done(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        return os.read(fd, _MOST_WORDS).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(fd)


def _describe_found(path: str, found: str) -> str:
    if found:
        return "holds another word."
    return "is no file with that word." if os.path.lexists(path) else "is not there."


async def run_shell(
    command: str,
    task: Task,
    *,
    run_id: RunId,
    env: dict[str, str],
    cwd: str,
    timeout_s: float | None,
    on_output: OnOutput | None = None,
) -> ExecResult:
    """Runs a command of the shell as an agent with this task would; raises `InspanError` where it cannot be."""
    task = await asyncio.to_thread(fill_confinement, task, env=env)
    boundary = find_asked_boundary(task) or "none"
    confined = boundary != "none"
    planned = plan_box(
        boundary,
        cwd=cwd,
        net=task.net if confined and task.net != "gateway" else "",  # A check has no model to reach.
        read=task.read if confined else (),
        image=task.image,
        # A sandbox passes on what programs need; without one, it is a shell of the user's own.
        env=task.env if confined else {**env, **task.env},
        limits=Limits(),
        host_env=env,
    )
    command_id = f"{run_id}-{os.urandom(4).hex()}"  # Others of the same work may be at it at the same time.
    built = build_command(
        planned, _build_shell(command), env={}, stdin=b"", groups=[], run_id=run_id, command_id=command_id
    )
    return await start_command(built, timeout_s=timeout_s, limit_bytes=_OUTPUT_BYTES, on_output=on_output)


def fill_confinement(task: Task, *, env: dict[str, str]) -> Task:
    """The task with the confinement that the configuration, or the session that goes on, gives its agent."""
    whole = apply_config(task, env=env).task
    return msgspec.structs.replace(task, sandbox=whole.sandbox, net=whole.net, read=whole.read, image=whole.image)


def _build_shell(command: str) -> tuple[str, ...]:
    """One that is longer than a word of a process may be comes in pieces."""
    if len(command) <= _MOST_PIECE:
        return ("/bin/sh", "-c", command)
    pieces = (command[start : start + _MOST_PIECE] for start in range(0, len(command), _MOST_PIECE))
    return ("/bin/sh", "-c", _JOIN_PIECES, "sh", *pieces)


def join_output(done: ExecResult, *, most: int = _MOST_KEPT) -> str:
    """What it put out on both streams, by the beginning and the end where that is more than so many characters, and
    which hosts it was kept from."""
    said = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    refused = f"The sandbox kept it from {', '.join(done.refused_hosts)}." if done.refused_hosts else ""
    text = "\n".join(filter(None, (*(each.rstrip() for each in said), refused)))
    return cut_middle(text, most=most, missing=_count_missing(text) if done.dropped_bytes else 0)


def _count_missing(text: str) -> int:
    """What was dropped as the output was read, without the words that stand in its place."""
    return sum(int(mark[1]) - len(mark[0]) for mark in _DROPPED.finditer(text))
