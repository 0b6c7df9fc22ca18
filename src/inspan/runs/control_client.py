"""Sending a command to a living run, over its control socket."""

import os
import socket
import time

import msgspec

from inspan.errors import CommandRefused, SessionClosed
from inspan.protocol.commands import Command, Reply
from inspan.protocol.known_types import know_type
from inspan.protocol.wire import DECODE_ERRORS, encode
from inspan.stores.paths import is_private
from inspan.stores.run_folder import RunFolder, is_locked

from .relations import read_work

_ANSWER_S = 5.0
_START_S = 10.0
_START_POLL_S = 0.02


def send_command(path: str, command: Command) -> bool:
    """Sends one command to a run; says whether a living run took it."""
    reply = ask_run(path, command)
    return reply is not None and reply.ok


def ask_run(path: str, command: Command, *, timeout_s: float = _ANSWER_S) -> Reply | None:
    """What a run replies to a command; None where no living run is there to be asked, or it takes longer.

    Whoever owns the folder of a socket can answer in a run's place: only a folder of ours is believed.
    """
    return _exchange(path, command, timeout_s=timeout_s)[0]


def _exchange(path: str, command: Command, *, timeout_s: float) -> tuple[Reply | None, bool]:
    """The reply, and whether somebody was there who may have heard the command."""
    is_sent = False
    if not is_private(os.path.dirname(path)):
        return None, is_sent
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(timeout_s)
            client.connect(path)
            is_sent = True
            client.sendall(encode(command) + b"\n")
            answer = client.makefile("rb").readline()
        return (msgspec.json.decode(answer, type=know_type(Reply)) if answer else None), is_sent
    except (OSError, *DECODE_ERRORS):
        return None, is_sent


def command_session(folder: RunFolder, command: Command) -> Reply:
    """What an open session, or other work that was asked something, replies, waiting for one that is still starting;
    raises as `check_reply` does, and `CommandRefused` where nobody knows whether it was heard.

    A message that is sent again because nobody replied is known by its id.
    """
    deadline = time.monotonic() + _START_S
    while (found := _exchange(folder.socket, command, timeout_s=_ANSWER_S))[0] is None:
        if not is_locked(folder) or time.monotonic() >= deadline:
            break
        time.sleep(_START_POLL_S)
    reply, is_sent = found
    what = read_work(folder)
    if reply is None and is_sent and is_locked(folder):
        step = f"`inspan ps` shows whether it did; what hangs is ended by `inspan kill {folder.run_id}`."
        name = f"{what.capitalize() or 'Run'} {folder.run_id}"
        raise CommandRefused(f"{name} did not confirm this in time, and may still take it.", next_step=step)
    if reply is None and what:
        step = f"`inspan show {folder.run_id}` tells of it."
        raise SessionClosed(f"{what.capitalize()} {folder.run_id}: it does not answer: it has ended.", next_step=step)
    return check_reply(folder.run_id, reply)


def check_reply(run_id: str, reply: Reply | None) -> Reply:
    """The reply of an open session; raises `SessionClosed` or `CommandRefused` where it is a refusal."""
    if reply is None or reply.closed:
        said = reply.error if reply else "it does not answer: it has ended, or lives in another program"
        step = f"Go on with it in a new one: `inspan chat --resume {run_id}`, or resume={run_id!r}."
        raise SessionClosed(f"Session {run_id}: {said}.", next_step=step)
    if not reply.ok:
        raise CommandRefused(f"Session {run_id}: {reply.error}.", next_step=f"`inspan show {run_id}` tells of it.")
    return reply
