"""Manual pages, made from the commands themselves: one for `inspan`, one for each command and subcommand."""

from collections.abc import Iterator

import click

from inspan import __version__

MARK = "Written by `inspan completion --install`."
PACKAGE_MARK = "Installed with the package inspan."
"""The same of files that a wheel brings, which belong to whatever tool has installed it."""
_SITE = "inspan"


def build_man_pages(root: click.Group, *, mark: str = MARK) -> dict[str, str]:
    """Every page by its name, such as `inspan-run.1`, in the format of man."""
    names = root.context_settings["help_option_names"]
    context = click.Context(root, info_name="inspan", help_option_names=names)
    return {f"{_page_name(each)}.1": _format_page(each, mark) for each in _walk(context)}


def _walk(context: click.Context) -> Iterator[click.Context]:
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            if command and not command.hidden:
                yield from _walk(click.Context(command, info_name=name, parent=context))


def _page_name(context: click.Context) -> str:
    return context.command_path.replace(" ", "-")


def _format_page(context: click.Context, mark: str) -> str:
    name, command = _page_name(context), context.command
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        f'.\\" {mark}',
        f'.TH "{name.upper()}" "1" "" "{_SITE} {__version__}" "inspan"',
        ".nh",  # A command that is cut in two is none.
        ".ad l",
        ".SH NAME",
        f"{_escape(name)} \\- {_escape(_summarize(command))}",
        ".SH SYNOPSIS",
        f"\\fB{_escape(context.command_path)}\\fR {_escape(usage)}",
        ".SH DESCRIPTION",
        *_format_text(command.help or ""),
        *_format_section("OPTIONS", _list_options(context)),
        *_format_section("COMMANDS", _list_commands(context)),
        *_format_epilog(command),
        ".SH SEE ALSO",
        ", ".join(f"\\fB{_escape(each)}\\fR(1)" for each in _list_related(context)) or "inspan(1)",
    ]
    return "\n".join(lines) + "\n"


def _summarize(command: click.Command) -> str:
    return (command.help or "").strip().partition("\n")[0].rstrip(".:")


def _format_text(text: str) -> Iterator[str]:
    """Paragraphs; those that begin with \\b keep their lines."""
    for number, paragraph in enumerate(text.strip().split("\n\n")):
        lines = [line.strip() for line in paragraph.strip().splitlines()]
        if number:
            yield ".PP"
        if lines and lines[0] in ("\b", ""):
            yield from (".nf", *map(_escape, lines[1:]), ".fi")
        else:
            yield _escape(" ".join(lines))


def _format_section(title: str, rows: list[tuple[str, str]]) -> Iterator[str]:
    if rows:
        yield f".SH {title}"
        for term, text in rows:
            yield from (".TP", f"\\fB{_escape(term)}\\fR", _escape(" ".join(text.split())) or "\\&")


def _format_epilog(command: click.Command) -> Iterator[str]:
    """The exit codes, which stand at the end of the help of `inspan` itself."""
    if command.epilog:
        title, _, rest = command.epilog.partition(": ")
        yield from (f".SH {title.upper()}", _escape(rest))


def _list_options(context: click.Context) -> list[tuple[str, str]]:
    records = [each.get_help_record(context) for each in context.command.get_params(context)]
    return [record for record in records if record]


def _list_commands(context: click.Context) -> list[tuple[str, str]]:
    below = list(_walk(context))[1:]
    return [(each.command_path, _summarize(each.command)) for each in below if each.parent is context]


def _list_related(context: click.Context) -> list[str]:
    above = [_page_name(context.parent)] if context.parent else []
    return [*above, *(_page_name(each) for each in list(_walk(context))[1:] if each.parent is context)]


def _escape(text: str) -> str:
    """A line that man takes as it is."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    escaped = "".join(each if each.isascii() else f"\\[u{ord(each):04X}]" for each in escaped)
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
