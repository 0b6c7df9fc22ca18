"""Read, write, edit, list and search files beneath one folder: a tool for an agent that may use no other."""

from typing import Any

import click

from inspan.cli.file_tools import SERVE, run
from inspan.file_tools.operations import OPERATIONS, Operation, Parameter
from inspan.file_tools.root import MAX_FILE_BYTES


class _FileTools(click.Group):
    """Only for help, completion and manual pages: a line that does something is parsed by `inspan.cli.file_tools`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing or not args or {"-h", "--help"} & {*args}:
            return super().parse_args(ctx, args)
        ctx.meta[__name__] = args
        return []

    def invoke(self, ctx: click.Context) -> Any:
        words = ctx.meta.get(__name__)
        return super().invoke(ctx) if words is None else run(words)


@click.group(cls=_FileTools)
@click.option("--read-only", is_flag=True, help="Without write and edit.")
@click.option("--hard-links", is_flag=True, help="Read files too that have another name, which may lie elsewhere.")
@click.option(
    "--max-bytes", type=int, metavar="N", help=f"The largest file to be read or written. [default: {MAX_FILE_BYTES}]"
)
@click.argument("root")
def command(read_only: bool, hard_links: bool, max_bytes: int | None, root: str) -> None:
    """Read, write, edit, list and search files beneath ROOT, and nowhere else.

    ROOT is a whole path; all others are relative to it. An agent that may run nothing but `inspan file-tools ROOT …`
    cannot leave it: not by `..`, a link, a device, a mount or a race. Options before ROOT are for whoever grants the
    command, those behind the operation for whoever uses it.

    Text with line feeds, quotes or comments goes through any shell as one line of JSON:

    \b
    inspan file-tools ROOT write --input '{"path": "a.py", "content": "# one\\n# two\\n"}'
    """


def _build_command(operation: Operation) -> click.Command:
    parameters: list[click.Parameter] = [_build_parameter(each) for each in operation.parameters.values()]
    parameters.append(click.Option(["--input"], metavar="JSON", help="The arguments as one JSON object; - is stdin."))
    parameters.append(click.Option(["--json", "as_json"], is_flag=True, help="One JSON object."))
    return click.Command(operation.name, params=parameters, help=operation.summary)


def _build_parameter(parameter: Parameter) -> click.Parameter:
    if parameter.positional:
        return click.Argument([parameter.name], required=parameter.required)
    if parameter.kind == "flag":
        return click.Option([parameter.option], is_flag=True, help=parameter.help)
    kind, word = (int, "N") if parameter.kind == "count" else (str, "TEXT")
    text = f"{parameter.help} Without it, stdin." if parameter.name == "content" else parameter.help
    return click.Option([parameter.option], type=kind, metavar=word, help=text)


for _each in OPERATIONS.values():
    command.add_command(_build_command(_each))
command.add_command(
    click.Command(SERVE, help="Serve the same as tools of an MCP server, on stdin and stdout, until stdin ends.")
)
