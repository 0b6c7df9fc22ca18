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

from inspan.api.failures import failure_class
from inspan.cli.exit_codes import of_run
from inspan.cli.start import inspan
from inspan.config.keys import ANY, Leaf, Table, leaves, spelled, tree
from inspan.config.variables import name_of
from inspan.contracts.driver import Capabilities
from inspan.engine.registry import drivers
from inspan.errors import AgentFailed, InspanError
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

_ERRORS_HEAD = """# Errors

Written by `docs/generate.py` from `src/inspan/errors.py` and `src/inspan/api/failures.py`; change those, then run the
script.

All errors are in `inspan.errors`, in one tree. Each has a `code` that stays the same, a `message`, a `next_step`, and
`retry_helps`, which says whether trying again without changing anything can help. `tried` is what was being done and
`came_back` what answered, where the sentence alone does not hold them.

There are two kinds of bad news. **inspan cannot do its work**, or was asked for something that cannot be: that is
raised, before a run exists. **The agent failed**: that is the outcome of a run and is never raised by running it.
`Result.errors` holds it as a value of the branch `AgentFailed`, and `Result.check()` raises it.
"""

_ERROR_ATTRIBUTES = (
    "`reason`: the reason of the run, from the table above; `run_id`: the run;",
    "`RateLimitError.resets_at`: seconds since 1970, or `None` where the provider did not say;",
    "`ToolPermissionError.denied`: the calls that were denied, each with `id`, `name`, `input` and `message`.",
)

_CAPABILITIES = {
    "presets_session_id": "a session's id is known before it starts",
    "reports_cost": "says what a turn has cost",
    "reports_usage": "says how many tokens a turn took",
    "streams_text": "text piece by piece with `--partial`",
    "follows_gateway": "can be pointed at the gateway",
    "login_follows_gateway": "can be pointed at the gateway with a login too",
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
        DOCS / "reference" / "errors.md": _ERRORS_HEAD + _error_tables(),
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


def _error_tables() -> str:
    rows = ["\n## Classes\n", "| class | is a | code | retry helps | when |", "|---|---|---|---|---|"]
    for error in _below_error(InspanError):
        parent = f"`{error.__base__.__name__}`" if error.__base__ not in (None, Exception) else ""
        words = " ".join((error.__doc__ or "").split("\n\n")[0].split())
        rows.append(f"| `{error.__name__}` | {parent} | `{error.code}` | {_yes(error.retry_helps)} | {words} |")
    rows += ["\n## By reason of a run\n", "| reason | outcome | class | retry helps |", "|---|---|---|---|"]
    for reason in REASONS:
        error = failure_class(reason)
        told = "(none)" if reason == "done" else f"`{error.__name__}`"
        retry = "" if reason == "done" else _yes(error.retry_helps)
        rows.append(f"| `{reason}` | {outcome_of(reason)} | {told} | {retry} |")
    attributes = "".join(f"\n- {line}" for line in _ERROR_ATTRIBUTES)
    return "\n".join(rows) + f"\n\nBeside the fields of every error, an `{AgentFailed.__name__}` has:\n{attributes}\n"


def _below_error(error: type[InspanError]) -> Iterator[type[InspanError]]:
    yield error
    for each in error.__subclasses__():
        yield from _below_error(each)


def _yes(claim: bool) -> str:
    return "yes" if claim else "no"


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
