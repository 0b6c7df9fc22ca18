"""Talk with an agent: one session, many messages."""

import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

import click

from inspan.cli.chat import Chat
from inspan.cli.chat_input import ChatInput, PlainInput
from inspan.cli.commands.run import choose_session, configure_session, print_resumed
from inspan.cli.commands.run import command as run_command
from inspan.cli.lost_work import report_lost
from inspan.cli.run_names import choose_hint_name
from inspan.cli.start_run import ENDINGS, start_run
from inspan.errors import RunNotFound
from inspan.protocol.commands import Ping
from inspan.runs.control_client import send_command
from inspan.runs.find import find_run_folder
from inspan.stores.event_log import iter_log
from inspan.stores.paths import make_private_folder, state_home
from inspan.stores.run_folder import RunFolder, read_json

# The options of `run` that a conversation does not have.
NOT_HERE = ("prompt", "detach", "as_json", "quiet", "verbose", "keep_open", "schema", "partial")
_HELP = """Talk with an agent: one session, many messages.

Each line is a message; /help lists the commands. With --resume, a session that is still open is taken up again, and
one that was closed goes on in a new one. Closing the terminal leaves the session open until --idle-close.
"""


def _chat(**options: Any) -> int:
    return open_chat(click.get_current_context(), options)


def open_chat(context: click.Context, options: Mapping[str, Any]) -> int:
    """Talks with an agent until the conversation is over; gives the exit code."""
    name = choose_session(options)
    if options["continue_last"]:
        print_resumed(name)
    options = {**options, "resume": name, "continue_last": False}
    folder = _find_open_session(name)
    after = 0
    if folder is None:
        configured = configure_session(context, {**options, "partial": True})
        folder = start_run(configured.task, env=configured.env).folder
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDINGS)
        report_lost(state_home())
    else:
        after = max((record.number for record in iter_log(folder.log)), default=0)
        click.echo(f"inspan: session {folder.run_id} is taken up again", err=True)
    state = state_home()
    history = os.path.join(make_private_folder(state), "chat-history")
    code = Chat(state, folder, _choose_input(history)).run(after=after)
    click.echo(f"inspan: closed; go on with `inspan chat --resume {choose_hint_name(folder)}`", err=True)
    return code


def _find_open_session(name: str) -> RunFolder | None:
    """The session of that name, if it is open; what else the name may be is looked at later."""
    if not name:
        return None
    try:
        folder = find_run_folder(state_home(), name)
    except RunNotFound:
        return None
    described: Any = read_json(folder.file("run.json"))
    return folder if described["task"].get("session") and send_command(folder.socket, Ping()) else None


def _choose_input(history: str) -> ChatInput:
    """What this terminal can do; a dumb one, and a pipe, get plain lines."""
    plain = PlainInput()
    if not plain.is_interactive or not sys.stdout.isatty() or os.environ.get("TERM", "") in ("", "dumb"):
        return plain
    try:
        from inspan.cli.chat_prompt import RichInput  # What it is made with is an optional extra.
    except ImportError:
        return plain
    return RichInput(history)


command = click.Command(
    "chat",
    callback=_chat,
    params=[each for each in run_command.params if each.name not in NOT_HERE],
    help=_HELP,
    short_help=_HELP.partition("\n")[0],
)
