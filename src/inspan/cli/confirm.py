"""The question before something is deleted or taken back, the same for every command that has one."""

import sys

import click

from inspan.reporters.prose import fit_words


def confirm(question: str, *, verb: str, details: str = "", as_json: bool = False) -> bool:
    """Shows the details on stdout and asks; anything but a yes, also Ctrl-C and Ctrl-D, is a no.

    Raises `UsageError` where nobody can be asked, which names --yes and --dry-run: a command that asks has both.
    """
    if as_json or not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError(f"{question} Cannot ask here: use --yes to {verb}, --dry-run to look.")
    if details:
        click.echo(details)
    try:
        words = fit_words(f"{question} [y/N]:", sys.stderr)
        return click.confirm(words, show_default=False, prompt_suffix=" ", err=True)
    except click.Abort:
        click.echo(err=True)  # What is said next begins a line of its own.
        return False
