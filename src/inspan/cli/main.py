"""The entry point: finds the command by its file, and turns every error into a sentence and an exit code."""

import gc
import os
import signal
import sys
from importlib import import_module

import click

from inspan import __version__
from inspan.protocol.reasons import EXIT_CODES, INTERRUPTED, USAGE

from .complaints import complain, print_error
from .streams import set_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_FOLDER = os.path.join(os.path.dirname(__file__), "commands")
_EPILOG = f"Exit codes: {', '.join(f'{code} {meaning}' for code, meaning in EXIT_CODES.items())}."
_LEAST_COLUMNS, _MARGIN = 52, 2
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

            args = expand_short_form(args, self.list_commands(ctx), help_names=ctx.help_option_names)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        names = (name.removesuffix(".py") for name in os.listdir(_FOLDER) if name[0] not in "_.")
        return sorted(name.replace("_", "-") for name in names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        return import_module(f"inspan.cli.commands.{_module_name(cmd_name)}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from .command_groups import group_commands  # Start-up time: only the list of all commands needs it.

        names = self.list_commands(ctx)
        width = max(map(len, names))
        for title, group in group_commands(names):
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), _read_summary(name)) for name in group])

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


def _module_name(command: str) -> str:
    return command.replace("-", "_")


def _read_summary(name: str) -> str:
    with open(os.path.join(_FOLDER, f"{_module_name(name)}.py"), encoding="utf-8") as file:
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
        given = inspan.main(arguments, prog_name="inspan", standalone_mode=False, terminal_width=_find_narrow_width())
        code = given if isinstance(given, int) else 0
        sys.stdout.flush()
        return code
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return USAGE
    except click.ClickException as error:
        print_error(arguments, "usage", error.format_message(), _usage_hint(error, arguments))
        return USAGE
    except click.Abort:
        return INTERRUPTED
    except (
        Exception,
        KeyboardInterrupt,
    ) as error:  # The rim: what is no error of ours is a fault of ours, told as one.
        return complain(arguments, error, code=code)


def _find_narrow_width() -> int | None:
    """How wide a help page may be on a terminal that has less columns than the least that click fills."""
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns
    except (AttributeError, OSError, ValueError):
        return None
    return columns - _MARGIN if 2 * _MARGIN < columns < _LEAST_COLUMNS else None


def _usage_hint(error: click.ClickException, arguments: list[str]) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context else "inspan"
    help_page = f"Try `{command} --help`."
    if isinstance(error, _NoCommand):
        return f"{_prompt_hint(error.words, arguments)} {help_page}"
    return f"{_quoting_hint(error, arguments)} {help_page}".lstrip() if command == "inspan run" else help_page


def _quoting_hint(error: click.ClickException, arguments: list[str]) -> str:
    """What a prompt needs that was taken for something else; empty where it was none."""
    if isinstance(error, click.NoSuchOption):
        is_prompt = any(word.startswith("-") and any(map(str.isspace, word)) for word in arguments)
        return 'A prompt that begins with - comes last, after --: inspan run -- "- fix it".' if is_prompt else ""
    is_split = error.format_message().startswith("Got unexpected extra argument")
    return 'A prompt of several words is quoted: inspan run "fix the test".' if is_split else ""


def _prompt_hint(words: list[str], arguments: list[str]) -> str:
    """How to write what was given as a prompt, with the options that were given beside it."""
    from shlex import join  # Start-up time: only a mistake needs it.

    if len(words) > 1 and not any(word.startswith("-") or any(map(str.isspace, word)) for word in words):
        starts = [at for at in range(len(arguments)) if arguments[at : at + len(words)] == words]
        line = arguments[: starts[0]] + arguments[starts[0] + len(words) :] if starts else []
        return f"A prompt of several words is quoted: `inspan {join([' '.join(words), *line])}`."
    line = arguments if len(words) == 1 and words[0] in arguments else words[:1]
    return f"`inspan run {join(line)}` runs it as a prompt."
