"""Writes the parts of the documents that follow from the code: `python docs/generate.py`, or `--check` to compare.

The command line reference is written whole; tables are written between `<!-- generated: NAME -->` and `<!-- end -->`.
"""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast, get_args

import click
import msgspec

from inspan.cli.exit_codes import of_run
from inspan.cli.start import inspan
from inspan.config.keys import ANY, Leaf, Table, leaves, spelled, tree
from inspan.config.variables import name_of
from inspan.contracts.driver import Capabilities
from inspan.engine.registry import drivers
from inspan.protocol.events import Event, RunEnded
from inspan.protocol.outcome import REASONS, outcome_of

DOCS = Path(__file__).parent
_WIDTH = 100
_CLI_HEAD = """# Command line

Written by `docs/generate.py` from the commands themselves; change the command, then run the script.
"""
_CONFIG_HEAD = """# Configuration

Written by `docs/generate.py` from `src/inspan/config/settings.py`; change the settings, then run the script.

The keys of `config.toml`, `inspan.toml` and `inspan.local.toml`. How the layers work, and what trust is:
[Configure](../guides/configure.md). NAME stands for a name: of an agent below `agents`, of your own elsewhere. Keys
marked with **trust** are taken from a project only if you trust it; values marked with **hidden** are never shown.
"""


_CAPABILITIES = {
    "presets_session_id": "a session's id is known before it starts",
    "reports_cost": "says what a turn has cost",
    "reports_usage": "says how many tokens a turn took",
    "streams_text": "text piece by piece with `--partial`",
    "follows_gateway": "can be pointed at the gateway",
    "root_needs_box": "as root, runs unrestricted only in a sandbox",
    "review": "`--mode review`: cannot edit",
    "complete": "`--mode complete`: no tools",
    "allowed_tools": "only the tools of `--allow-tool`",
    "disallowed_tools": "not the tools of `--deny-tool`",
    "output_schema": "an answer that fits `--schema`",
    "system_prompt": "`--system-prompt`",
    "append_system_prompt": "`--append-system-prompt`",
    "resume": "`--resume`",
    "fork": "`--fork`",
    "extra_dirs": "`--add-dir`",
    "max_turns": "`--max-turns`",
    "reports_denials": "tells of every call that was denied",
    "login": "`--login`",
    "efforts": "`--effort`",
    "attachments": "`--attach` as it is; other text files stand in the prompt",
    "grants": "what `--allow-tool` can add to `review` and `complete`, where single tools cannot be listed",
    "mcp": "`--mcp`",
}


def pages() -> dict[Path, str]:
    """Every generated page as it should be now."""
    cli = DOCS / "reference" / "cli.md"
    events = DOCS / "concepts" / "events.md"
    capabilities = DOCS / "reference" / "capabilities.md"
    codes = DOCS / "reference" / "exit-codes.md"
    return {
        cli: _CLI_HEAD + "".join(_command_pages()),
        DOCS / "reference" / "configuration.md": _CONFIG_HEAD + "".join(_key_tables()),
        capabilities: _filled(capabilities, "capabilities", _capability_table),
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


def _key_tables() -> Iterator[str]:
    for section, node in tree().below.items():
        yield f"\n## {section}\n\n{node.doc if isinstance(node, Table) else ''}\n\n"
        yield "| key | takes | default | what it is for | variable |\n|---|---|---|---|---|\n"
        yield from (_key_row(path, leaf) for path, leaf in leaves(node, (section,)))


def _key_row(path: tuple[str, ...], leaf: Leaf) -> str:
    note = leaf.note
    key = spelled(tuple("NAME" if name == ANY else name for name in path))
    marks = [mark for mark, is_so in (("**trust**", note.guarded), ("**hidden**", note.secret)) if is_so]
    marks += ["Your own file alone."] if note.mine else []
    default = note.kind.spell(leaf.default)
    shown = f"`{msgspec.json.encode(default).decode()}`" if default not in ("", []) else ""
    variable = f"`{name_of(path)}`" if name_of(path) and not note.mine else ""
    return f"| `{key}` | {note.kind.words} | {shown} | {' '.join([note.doc, *marks])} | {variable} |\n"


def _capability_table() -> str:
    agents = drivers()
    rows = [f"| | {' | '.join(f'`{each.name}`' for each in agents)} |", f"|---|{'---|' * len(agents)}"]
    for field in Capabilities.__struct_fields__:
        if field != "notes":
            cells = " | ".join(_capability(getattr(each.capabilities, field)) for each in agents)
            rows.append(f"| {_CAPABILITIES[field]} (`{field}`) | {cells} |")
    notes = [
        f"- **{each.title}**, `{field}`: {note}" for each in agents for field, note in each.capabilities.notes.items()
    ]
    return "\n".join([*rows, "", *notes])


def _capability(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(f"`{word}`" for word in cast(tuple[str, ...], value)) or "no"
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


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
