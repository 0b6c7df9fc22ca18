"""`inspan "fix the test"` for `inspan run "fix the test"`: when a command line is a prompt, and when a mistake."""

from collections.abc import Sequence
from typing import Any

import click

# What nearly every command takes tells nothing about which one is meant.
_SHARED = frozenset({"as_json", "quiet", "help"})


def expand_short_form(
    arguments: list[str], commands: Sequence[str], *, help_names: Sequence[str] = ("--help",)
) -> list[str]:
    """The command line with `run` before it where it is a prompt; of a mistake, what is to be told of it.

    `help_names` are the options that ask for help: a command keeps those that it is first read with.

    A prompt has white space in it, or is `-`. A single word is never one, whatever the options beside it: a command
    that a later version has must not change what a script means. Options of `run` alone are a run without a prompt.
    """
    words, options = _parse_as_run(arguments, help_names)
    if words and words[0] in commands:
        return arguments
    if _is_text(words[0]) if words else options - _SHARED:
        return ["run", *arguments]
    return words or arguments


def _is_text(word: str) -> bool:
    return word in ("", "-") or any(map(str.isspace, word))


def _parse_as_run(arguments: list[str], help_names: Sequence[str]) -> tuple[list[str], set[str]]:
    """The words and the names of the options in a command line, if it were one of `run`."""
    # Start-up time: only a line that begins with no command's name has to be read by that command's rules.
    from inspan.cli.commands.run import command

    context = click.Context(command, help_option_names=list(help_names))
    try:
        found, rest, _ = command.make_parser(context).parse_args(list(arguments))
    except click.NoSuchOption:
        return _guess_words(arguments), set()
    except click.BadOptionUsage as error:
        return _guess_words(arguments), {error.option_name}
    prompt: Any = found.pop("prompt", None)
    return [*([prompt] if isinstance(prompt, str) else []), *rest], set(found)


def _guess_words(arguments: list[str]) -> list[str]:
    """What can be told of a line that cannot be read: an option's value is rarely a sentence."""
    if not arguments[0].startswith("-"):
        return arguments[:1]
    return [word for word in arguments if _is_text(word)]
