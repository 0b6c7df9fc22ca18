"""The entry point: finds the command by its file, and turns every error into a sentence and an exit code."""

import gc
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module

import click

from inspan import __version__
from inspan.errors import InspanError, OutputRefused
from inspan.protocol.reasons import EXIT_CODES, USAGE, exit_code_of_error

from .streams import set_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_FOLDER = os.path.join(os.path.dirname(__file__), "commands")
_EPILOG = f"Exit codes: {', '.join(f'{code} {meaning}' for code, meaning in EXIT_CODES.items())}."
_OWN_OPTIONS = ("-h", "--help", "-V", "--version")
# Other words for what there is; a command of the folder is listed once, and by its own name.
_SYNONYMS = {"ls": ("ps",), "version": ("--version",)}
_WORDS = (*_SYNONYMS, "help")


class _NoCommand(click.UsageError):
    """A first word that names no command, and is no prompt as it stands; `words` are all of the line."""

    def __init__(self, message: str, ctx: click.Context, *, words: list[str]) -> None:
        super().__init__(message, ctx)
        self.words = words


class _Commands(click.Group):
    """The folder is the registry; a command's module is imported when the command is used, never for `--help`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asks_for_help, args = args[:1] == ["help"], _replace_word(args)
        if asks_for_help:
            return super().parse_args(ctx, args)  # What follows `help` is a command's name, and never a prompt.
        if args and args[0] not in (*_OWN_OPTIONS, *self.list_commands(ctx)):
            # Start-up time: a line that begins with a command's name is no prompt.
            from .short_form import expand_short_form

            args = expand_short_form(args, self.list_commands(ctx))
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(name.removesuffix(".py") for name in os.listdir(_FOLDER) if name[0] not in "_.")

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        return import_module(f"inspan.cli.commands.{cmd_name}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _read_summary(name)) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[str]]":
        from click.shell_completion import CompletionItem  # Start-up time: only a shell that asks needs it.

        # The group's own way would import every command for its help.
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        commands = [CompletionItem(name, help=_read_summary(name)) for name in names]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches  # Start-up time: only a mistake needs it.

            nearest = get_close_matches(args[0], [*self.list_commands(ctx), *_WORDS], 1)
            hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
            raise _NoCommand(error.message + hint, ctx, words=args) from error


def _replace_word(arguments: list[str]) -> list[str]:
    """The command line in the words of the commands: `ls` is `ps`, `help NAME` is `NAME --help`."""
    first, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if first == "help":
        return [*_replace_word(rest), "--help"]
    if first == "version" and rest:
        raise click.UsageError(f"`inspan version` takes nothing more: {' '.join(rest)!r}.")
    return [*_SYNONYMS[first], *rest] if first in _SYNONYMS else arguments


def _read_summary(name: str) -> str:
    with open(os.path.join(_FOLDER, f"{name}.py"), encoding="utf-8") as file:
        return file.readline().strip().strip('"')


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=_EPILOG,
)
@click.version_option(__version__, "-V", "--version", prog_name="inspan")
def inspan() -> None:
    """One harness for every coding agent. `inspan "PROMPT"` is short for `inspan run "PROMPT"`."""


def main() -> None:
    """Runs the command line and leaves with the documented exit code; no traceback reaches the user."""
    gc.disable()  # A command is over before there is garbage worth looking for.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # A caller may ignore it, and then so would every program we try out.
    set_up()
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """The exit code of a command line, everything printed."""
    code = 0
    try:
        given = inspan.main(arguments, prog_name="inspan", standalone_mode=False)
        code = given if isinstance(given, int) else 0
        sys.stdout.flush()
        return code
    except OutputRefused as error:
        if not error.is_closed:
            _print_error(arguments, error.code, error.message, error.next_step)
        elif not error.run_id:
            return code  # Whoever stops reading has seen enough.
        return code or exit_code_of_error(error)  # Of a run that goes on, 0 would say that it has completed.
    except InspanError as error:
        _print_error(arguments, error.code, error.message, error.next_step)
        return exit_code_of_error(error)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return USAGE
    except click.ClickException as error:
        _print_error(arguments, "usage", error.format_message(), _usage_hint(error))
        return USAGE
    except (KeyboardInterrupt, click.Abort):
        return 130
    except Exception as error:  # The rim: whatever is left is a fault of ours, told as one.
        if os.environ.get("INSPAN_DEBUG"):
            raise
        _print_error(arguments, "harness_fault", f"inspan broke: {error!r}.", "Set INSPAN_DEBUG=1 to see where.")
        return 1


def _usage_hint(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    help_page = f"Try `{context.command_path if context else 'inspan'} --help`."
    return f"{_prompt_hint(error.words)} {help_page}" if isinstance(error, _NoCommand) else help_page


def _prompt_hint(words: list[str]) -> str:
    """How to write what was given as a prompt; options tell where the words of one may end."""
    from shlex import quote  # Start-up time: only a mistake needs it.

    if len(words) > 1 and not any(word.startswith("-") or any(map(str.isspace, word)) for word in words):
        return f"A prompt of several words is quoted: `inspan {quote(' '.join(words))}`."
    return f"`inspan run {quote(words[0])}` runs it as a prompt."


def _print_error(arguments: list[str], code: str, message: str, next_step: str) -> None:
    from inspan.reporters.text import escape_controls  # Start-up time: only a complaint needs it.

    text = escape_controls(f"inspan: {message}" + (f"\n  → {next_step}" if next_step else ""))
    if "--json" in arguments:
        from inspan.cli.output import format_error_json  # Start-up time: only errors need it.

        text = format_error_json(code, message, next_step)
    with suppress(OutputRefused):  # Then the exit code alone tells it.
        print(text, file=sys.stderr)
