"""Continue the session of a run."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click

from inspan.cli.commands.run import command as run_command
from inspan.cli.commands.run import run_task
from inspan.cli.run_names import RunName
from inspan.errors import BadInput, RunNotFound
from inspan.planning.resume import is_session_id
from inspan.runs.find import find_run_folder
from inspan.runs.projects import LAST, Scope, scope_of
from inspan.stores.paths import state_home

_NOT_HERE = ("prompt", "resume", "continue_last")
# Whoever gives one of these wants one run, not a conversation.
_SINGLE = ("schema", "detach", "as_json", "quiet", "keep_open")
_HELP = """Continue the session of a run.

RUN is a name, a short name, an id, the beginning of one, @last or the agent's own session id; without it, the last
conversation of this folder's project is meant. PROMPT has a space in it, or follows RUN; - reads it from stdin. Without
PROMPT, this opens `inspan chat` at a terminal.
"""


class _Words(NamedTuple):
    """What was typed: the run, or nothing for the last conversation, and the prompt, or nothing for a chat."""

    run: str
    prompt: str


def _resume(words: tuple[str, ...], **options: Any) -> int:
    context = click.get_current_context()
    run, prompt = _read_words(words, options)
    named = {**options, "resume": run, "continue_last": not run}
    if prompt:
        return run_task(context, {**named, "prompt": prompt})
    if any(options[name] for name in _SINGLE) or not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        if run in ("", LAST):
            find_run_folder(state_home(), LAST, scope=_find_scope(options))  # Without one, no prompt would help.
        raise BadInput("PROMPT", "", "it is missing.", next_step=_explain_missing_prompt(run))
    from inspan.cli.commands.chat import NOT_HERE, open_chat  # Start-up time: only a conversation needs it.

    return open_chat(context, {name: value for name, value in named.items() if name not in NOT_HERE})


def _read_words(words: Sequence[str], options: Mapping[str, Any]) -> _Words:
    if len(words) > 2:
        raise BadInput("PROMPT", " ".join(words[1:]), "it has more than one word.", next_step="Quote it.")
    if len(words) == 2:
        if not words[1].strip():
            raise BadInput("PROMPT", words[1], "it is empty.", next_step=_explain_missing_prompt(words[0]))
        return _Words(*words)
    if not words:
        return _Words("", "")
    (word,) = words
    if word == "-" or any(map(str.isspace, word)):
        return _Words("", word)
    if not _names_session(word, _find_scope(options)):
        problem = "no run has this name, and a prompt has a space in it."
        step = f"`inspan ps -a` lists the runs; for a prompt of one word: `inspan resume @last {word or 'WORD'}`."
        raise BadInput("RUN or PROMPT", word, problem, next_step=step)
    return _Words(word, "")


def _names_session(word: str, scope: Scope | None) -> bool:
    try:
        find_run_folder(state_home(), word, scope=scope)
    except RunNotFound:
        # What is wrong with a place is told where it is looked for.
        return word.startswith("@") or is_session_id(state_home(), word)
    return True


def _find_scope(options: Mapping[str, Any]) -> Scope | None:
    """Whose runs are meant, where the options name another folder or project than the current one."""
    if options["project"]:
        return Scope(project=options["project"])
    return scope_of(options["cwd"]) if options["cwd"] else None


def _explain_missing_prompt(run: str) -> str:
    named = f" {run}" if run else ""
    more = f"--resume {run}" if run else "--continue"
    return f'Say what to do: inspan resume{named} "…"; or tell it to continue: `inspan run {more}`.'


command = click.Command(
    "resume",
    callback=_resume,
    params=[
        click.Argument(["words"], nargs=-1, type=RunName(), metavar="[RUN] [PROMPT]"),
        *(each for each in run_command.params if each.name not in _NOT_HERE),
    ],
    help=_HELP,
    short_help=_HELP.partition("\n")[0],
)
