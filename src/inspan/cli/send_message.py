"""Saying something to an open session from the command line, and following what comes of it."""

import sys
import uuid
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from inspan.protocol.commands import Delivery, SendMessage
from inspan.protocol.events import Event, MessageEnded, MessageSent, MessageStarted, RunEnded, TextSaid
from inspan.protocol.reasons import REASONS
from inspan.protocol.session import FIRST_MESSAGE
from inspan.runs.control_client import command_session
from inspan.runs.follow import POLL_S, follow
from inspan.stores.event_log import iter_log
from inspan.stores.large_text import restore_large_texts
from inspan.stores.run_folder import RunFolder

from .answer_inline import InlineAnswers
from .follow import print_record
from .output import print_json
from .run_names import choose_hint_name

if TYPE_CHECKING:
    from .console import Console


def send_message(folder: RunFolder, text: str, *, when: Delivery) -> tuple[str, int]:
    """Sends a message; gives its id and the number of the last record before it. Raises where it is refused."""
    number = max((record.number for record in iter_log(folder.log)), default=0)
    identity = uuid.uuid4().hex[:12]
    command_session(folder, SendMessage(id=identity, text=text, when=when))
    return identity, number


def follow_message(
    state: str, folder: RunFolder, identity: str, *, after: int, as_json: bool, quiet: bool, verbose: bool
) -> int:
    """Shows what follows until the message has ended; its answer goes to stdout. Gives the exit code."""
    console = None if as_json or quiet else _open_console(folder, verbose=verbose)
    with console.hold_terminal() if console else nullcontext():
        ended, answer = _follow_to_end(state, folder, identity, after=after, as_json=as_json, console=console)
    if ended is None:
        return 1
    _print_answer(restore_large_texts(answer, folder=folder.path), as_json=as_json, quiet=quiet)
    if ended.outcome != "completed" and not as_json:
        _print_failure(ended)
    return REASONS[ended.reason].exit_code


def _open_console(folder: RunFolder, *, verbose: bool) -> "Console":
    from .console import LINES, Console  # Start-up time: whoever wants JSON needs no console.

    return Console(sys.stderr, folder=folder, lines=None if verbose else LINES, every_warning=verbose)


def _follow_to_end(
    state: str, folder: RunFolder, identity: str, *, after: int, as_json: bool, console: "Console | None"
) -> "tuple[MessageEnded | RunEnded | None, str]":
    """The end of the message, or of the run that it was for, and the last thing said."""
    answers = InlineAnswers(folder, before_asking=console.hide if console else lambda: None, present=not as_json)
    answer, begun = "", False

    def wait_s() -> float:
        return answers.choose_wait_s(console.wait_s() if console else POLL_S)

    for record in follow(state, folder, wait_s=wait_s):
        if record is None:
            answers.ask()
            if console and not answers.is_asking:
                console.tick()
            continue
        event = record.event
        is_end = isinstance(event, RunEnded) or (isinstance(event, MessageEnded) and event.id == identity)
        if as_json and record.number > after:
            print_record(record)
        elif console and record.number > after and not is_end:
            answers.make_room()
            console.show(event, at=record.at)
        elif console:
            # The end is told by whoever called; what was before the message is known, and not told again.
            console.skip(event, record.at)
        if record.number <= after:
            continue
        answers.hear(event)
        begun = begun or _begins(event, identity)  # What was said until then was said to somebody else.
        if begun and isinstance(event, TextSaid) and not event.parent:
            answer = event.text
        if is_end:
            assert isinstance(event, RunEnded | MessageEnded)
            return event, answer
    return None, answer


def _begins(event: Event, identity: str) -> bool:
    if isinstance(event, MessageSent):
        return event.id == identity and not event.queued
    return isinstance(event, MessageStarted) and event.id == identity


def follow_first_message(state: str, folder: RunFolder, *, as_json: bool, quiet: bool, verbose: bool) -> int:
    """Follows the prompt of a session that was just opened, and leaves it open."""
    code = follow_message(state, folder, FIRST_MESSAGE, after=0, as_json=as_json, quiet=quiet, verbose=verbose)
    if not as_json and not quiet:
        click.echo(f"session {folder.run_id} is open: inspan send {choose_hint_name(folder)} …", err=True)
    return code


def _print_failure(event: MessageEnded | RunEnded) -> None:
    from inspan.reporters.text import escape_controls  # Start-up time, as above.

    words = f"✘ {event.outcome} ({event.reason})" + (f": {event.message}" if event.message else "")
    click.echo(escape_controls(words), err=True)
    if event.next:
        click.echo(escape_controls(f"  → {event.next}"), err=True)


def _print_answer(answer: str, *, as_json: bool, quiet: bool) -> None:
    from inspan.reporters.text import escape_controls  # Start-up time, as above.

    if answer and not as_json and (quiet or not sys.stdout.isatty()):
        sys.stdout.write((escape_controls(answer) if sys.stdout.isatty() else answer) + "\n")


def print_sent(folder: RunFolder, identity: str, *, as_json: bool) -> None:
    """The id of a message that is not waited for."""
    if as_json:
        print_json(run_id=folder.run_id, message=identity)
    else:
        click.echo(identity)
