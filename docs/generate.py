"""Writes the parts of the documents that follow from the code: `python docs/generate.py`, or `--check` to compare.

The command line reference is written whole; tables are written between `<!-- generated: NAME -->` and `<!-- end -->`.
"""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from inspan.cli.exit_codes import of_run
from inspan.cli.start import inspan
from inspan.protocol.events import Event, RunEnded
from inspan.protocol.outcome import REASONS, outcome_of

DOCS = Path(__file__).parent
_WIDTH = 100
_CLI_HEAD = """# Command line

Written by `docs/generate.py` from the commands themselves; change the command, then run the script.
"""


def pages() -> dict[Path, str]:
    """Every generated page as it should be now."""
    cli = DOCS / "reference" / "cli.md"
    events = DOCS / "concepts" / "events.md"
    codes = DOCS / "reference" / "exit-codes.md"
    return {
        cli: _CLI_HEAD + "".join(_command_pages()),
        events: _filled(events, "events", _event_table),
        codes: _filled(codes, "reasons", _reason_table),
    }


def main() -> int:
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{'stale' if '--check' in sys.argv else 'written'}: {path.relative_to(DOCS.parent)}")
        if "--check" not in sys.argv:
            path.write_text(pages()[path], encoding="utf-8")
    return 1 if stale and "--check" in sys.argv else 0


def _command_pages() -> Iterator[str]:
    root = click.Context(inspan, info_name="inspan", terminal_width=_WIDTH, help_option_names=["-h", "--help"])
    yield f"\n## inspan\n\n```text\n{root.get_help()}\n```\n"
    yield from _below(root, inspan)


def _below(context: click.Context, group: click.Group) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None:
            continue
        inner = click.Context(command, info_name=name, parent=context)
        yield f"\n## {inner.command_path}\n\n```text\n{inner.get_help()}\n```\n"
        if isinstance(command, click.Group):
            yield from _below(inner, command)


def _event_table() -> str:
    rows = ["| kind | what it tells | fields |", "|---|---|---|"]
    for event in get_args(Event):
        info: Any = msgspec.inspect.type_info(event)
        fields = ", ".join(f"`{field.name}`{'' if field.required else '?'}" for field in info.fields)
        rows.append(f"| `{info.tag}` | {' '.join((event.__doc__ or '').split())} | {fields or '(none)'} |")
    return "\n".join(rows)


def _reason_table() -> str:
    rows = ["| reason | outcome | exit code |", "|---|---|---|"]
    for reason in REASONS:
        outcome = outcome_of(reason)
        rows.append(f"| `{reason}` | {outcome} | {of_run(RunEnded(outcome=outcome, reason=reason))} |")
    return "\n".join(rows)


def _filled(path: Path, name: str, table: Callable[[], str]) -> str:
    """The page with the text between its two marks replaced."""
    text = path.read_text(encoding="utf-8")
    head = f"<!-- generated: {name} -->"
    between = re.compile(rf"{head}\n.*?\n<!-- end -->", re.DOTALL)
    if not between.search(text):
        raise SystemExit(f"{path} has no place for the table {name!r}")
    return between.sub(lambda _: f"{head}\n{table()}\n<!-- end -->", text)


if __name__ == "__main__":
    sys.exit(main())
