"""The entry point: finds the command by its file, and turns every error into a sentence and an exit code."""

import gc
import io
import os
import signal
import sys
from importlib import import_module

import click

from inspan import __version__
from inspan.errors import InspanError

from .exit_codes import USAGE, of_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_FOLDER = os.path.join(os.path.dirname(__file__), "commands")
_EPILOG = "Exit codes: 0 done, 1 failed, 2 usage, 3 needs a person, 4 authentication, 5 agent missing or too old, \
6 stopped by guard or budget, 124 timeout, 130 interrupted, 143 stopped."
_OWN_OPTIONS = ("-h", "--help", "-V", "--version")
_PROMPTS = 'A prompt is quoted, or follows `run`: inspan "fix the test", inspan run fix.'


class _NoCommand(click.UsageError):
    """A first word that names no command, and is no prompt as it stands."""


class _Commands(click.Group):
    """The folder is the registry; a command's module is imported when the command is used, never for `--help`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*_OWN_OPTIONS, *self.list_commands(ctx)):
            # Start-up time: a line that begins with a command's name is no prompt.
            from .short_form import spelled_out

            args = spelled_out(args, self.list_commands(ctx))
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(name.removesuffix(".py") for name in os.listdir(_FOLDER) if name[0] not in "_.")

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        return import_module(f"inspan.cli.commands.{cmd_name}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _first_line(name)) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[str]]":
        from click.shell_completion import CompletionItem  # Start-up time: only a shell that asks needs it.

        # The group's own way would import every command for its help.
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        commands = [CompletionItem(name, help=_first_line(name)) for name in names]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            nearest = get_close_matches(args[0], self.list_commands(ctx), 1)
            hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
            raise _NoCommand(error.message + hint, ctx) from error


def _first_line(name: str) -> str:
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
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]  so it is after `>&-`
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if os.environ.get("_INSPAN_COMPLETE"):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # A shell asks while its user types: nothing may be printed there.
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A mark that this terminal cannot show is no fault.
        sys.stdout.reconfigure(errors="backslashreplace")  # pyright: ignore[reportUnknownMemberType]  generic of what
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """The exit code of a command line, everything printed."""
    try:
        code = inspan.main(arguments, prog_name="inspan", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except InspanError as error:
        _complain(arguments, error.code, error.message, error.next_step)
        return of_error(error)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return USAGE
    except click.ClickException as error:
        _complain(arguments, "usage", error.format_message(), _usage_hint(error))
        return USAGE
    except (KeyboardInterrupt, click.Abort):
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except Exception as error:  # The rim: whatever is left is a fault of ours, told as one.
        if os.environ.get("INSPAN_DEBUG"):
            raise
        _complain(arguments, "harness_fault", f"inspan broke: {error!r}.", "Set INSPAN_DEBUG=1 to see where.")
        return 1


def _usage_hint(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    help_page = f"Try `{context.command_path if context else 'inspan'} --help`."
    return f"{help_page} {_PROMPTS}" if isinstance(error, _NoCommand) else help_page


def _complain(arguments: list[str], code: str, message: str, next_step: str) -> None:
    if "--json" in arguments:
        from inspan.cli.output import error_json

        print(error_json(code, message, next_step), file=sys.stderr)
        return
    print(f"inspan: {message}", file=sys.stderr)
    if next_step:
        print(f"  → {next_step}", file=sys.stderr)
