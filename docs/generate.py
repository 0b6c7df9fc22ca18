"""Writes the parts of the documents that follow from the code: `python docs/generate.py`, or `--check` to compare.

The command line reference is written whole; tables are written between `<!-- generated: NAME -->` and `<!-- end -->`.
A code block under `<!-- file: NAME -->` gets that name as its title, which the site shows.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast, get_args

import click
import msgspec
from python_page import build_python_page

from inspan import __version__
from inspan.agents.registry import load_drivers
from inspan.cli.commands.agents import cells, listing
from inspan.cli.main import inspan
from inspan.client.operations import OPERATIONS
from inspan.config.keys import ANY, Leaf, Table, format_key, key_tree, leaves
from inspan.config.variables import variable_name
from inspan.contracts.driver import Capabilities, Driver, SessionSupport
from inspan.errors import AgentFailed, InspanError
from inspan.protocol.events import Event
from inspan.protocol.reasons import REASONS
from inspan.protocol.session import HookName
from inspan.server.openapi import build_description
from inspan.server.streams import STREAMS
from inspan.testing.channel_comparison import format_table as differences

DOCS = Path(__file__).parent
_WIDTH = 100
_FILE = re.compile(r"(?P<mark><!-- (?:file|driver): (?P<name>[\w.-]+) -->\n)```(?P<language>\w+).*")
_CLI_HEAD = """# Command line

<!-- Written by `docs/generate.py` from the commands themselves; change the command, then run the script. -->
"""
_CONFIG_HEAD = """# Configuration

<!-- Written by `docs/generate.py` from `src/inspan/config/settings.py`; change the settings, then run the script. -->

The keys of `config.toml`, `inspan.toml` and `inspan.local.toml`. How the layers work, and what trust is:
[Configure](../guides/configure.md). NAME stands for a name: of an agent below `agents`, of your own elsewhere. Keys
marked with **trust** are taken from a project only if you trust it; values marked with **hidden** are
shown by no command about the configuration. A run's own records have them as the run got them, without those that
[look like secrets](../concepts/redaction.md).
"""

_ERRORS_HEAD = """# Errors

<!-- Written by `docs/generate.py` from `src/inspan/errors.py` and `src/inspan/protocol/reasons.py`; change those, then
run the script. -->

All errors are in `inspan.errors`, in one tree. Each has a `code` that stays the same, a `message`, a `next_step`, and
`retry_helps`, which says whether trying again without changing anything can help. `tried` is what was being done and
`came_back` what answered, where the sentence alone does not hold them.

There are two kinds of bad news. **inspan cannot do its work**, or was asked for something that cannot be: that is
raised, before a run exists. **The agent failed**: that is the outcome of a run and is never raised by running it.
`AgentResult.errors` holds it as a value of the branch `AgentFailed`, and `AgentResult.check()` raises it.
"""

_ERROR_ATTRIBUTES = (
    "`reason`: the reason of the run, from the table above; `run_id`: the run;",
    "`RateLimitError.resets_at`: seconds since 1970, or `None` where the provider did not say;",
    "`ToolPermissionError.denied`: the calls that were denied, each with `id`, `name`, `input` and `message`.",
)

_CHANNELS_HEAD = """# What each channel can do, and tells differently

<!-- Written by `docs/generate.py` from the drivers; change `session` or `event_differences` of a channel, then run the
script. -->

## In an open session

What [a running agent](../guides/talk-to-an-agent.md) can be told and asked, by agent and channel; a channel that is not
listed takes one prompt and ends. *Asks*: `*` about what it would ask by itself, a pattern about any call. *Hooks*: ✔ it
calls and waits for them itself; ○ inspan stands in, so that what `after_tool` says follows the turn, in the same
message.

"""
_DIFFERENCES_HEAD = """
## What they tell differently

Some agents can be driven in several ways: by their own stream, which is the usual one; by the protocol that they have
for other programs (`rpc`), which is taken where somebody talks with them; by the Agent Client Protocol
([`--channel acp`](../guides/acp-agents.md)); and by their vendor's Python SDK
([`--channel sdk`](../guides/coming-from-an-sdk.md#by-the-sdk-itself)). The same scenario gives the same events by each,
but for these:

"""

# Title of a table → the capabilities in it, each with the head of its column.
_CAPABILITIES: dict[str, dict[str, str]] = {
    "Modes and tools": {
        "exec": "`--mode exec`",
        "review": "`--mode review`",
        "review_needs_sandbox": "review only in a sandbox",
        "complete": "`--mode complete`",
        "allowed_tools": "`--allow-tool`",
        "disallowed_tools": "`--deny-tool`",
        "root_needs_sandbox": "as root only in a sandbox",
    },
    "Sessions and prompts": {
        "resume": "`--resume`",
        "fork": "`--fork`",
        "presets_session_id": "id known before",
        "system_prompt": "`--system-prompt`",
        "append_system_prompt": "`--append-system-prompt`",
        "output_schema": "`--schema`",
        "extra_dirs": "`--add-dir`",
        "max_turns": "`--max-turns`",
    },
    "What it tells": {
        "reports_usage": "tokens of a turn",
        "reports_cost": "cost of a turn",
        "streams_text": "text in pieces (`--partial`)",
        "streams_tool_output": "a tool's output as it comes (`--partial`)",
        "reports_denials": "every denied call",
    },
    "Keys and the gateway": {
        "follows_gateway": "follows the gateway",
        "login": "`--login`",
        "login_follows_gateway": "with a login, too",
    },
    "What it takes": {
        "efforts": "`--effort`",
        "attachments": "`--attach` as it is",
        "mcp": "`--mcp`",
        "grants": "`--allow-tool` on top of `review` and `complete`, where single tools cannot be listed",
    },
}
_WIRES = {
    "messages": "Messages",
    "responses": "Responses",
    "chat": "Chat Completions",
    "generate": "generateContent",
}


def pages() -> dict[Path, str]:
    """Every generated page as it should be now."""
    reference, concepts = DOCS / "reference", DOCS / "concepts"
    tables = (
        (reference / "capabilities.md", "capabilities", _capability_tables),
        (reference / "environment-variables.md", "agents", _variable_table),
        (reference / "exit-codes.md", "reasons", _reason_table),
        (concepts / "agents.md", "driven", _driven_table),
        (concepts / "agents.md", "state", _state_table),
        (concepts / "events.md", "events", _event_table),
        (DOCS.parent / "README.md", "agents", _agents_command),
    )
    found = {
        reference / "cli.md": _CLI_HEAD + "".join(_command_pages()),
        reference / "errors.md": _ERRORS_HEAD + _error_tables(),
        reference / "configuration.md": _CONFIG_HEAD + "".join(_key_tables()),
        reference / "channels.md": _channels_page([*load_drivers()]),
        reference / "python.md": build_python_page(),
        reference / "openapi.json": _describe_api(),
    }
    for path, name, table in tables:
        found[path] = _filled(path, found.get(path) or path.read_text(encoding="utf-8"), name, table)
    for path in sorted(DOCS.rglob("*.md")):
        text = found.get(path) or path.read_text(encoding="utf-8")
        if _FILE.search(text):
            found[path] = _FILE.sub(r'\g<mark>```\g<language> title="\g<name>"', text)
    return found


def _describe_api() -> str:
    return json.dumps(build_description(OPERATIONS, STREAMS), indent=1, ensure_ascii=False) + "\n"


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
    for section, node in key_tree().below.items():
        yield f"\n## {section}\n\n{node.doc if isinstance(node, Table) else ''}\n\n"
        yield "| key | takes | default | what it is for | variable |\n|---|---|---|---|---|\n"
        yield from (_key_row(path, leaf) for path, leaf in leaves(node, (section,)))


def _key_row(path: tuple[str, ...], leaf: Leaf) -> str:
    note = leaf.note
    key = format_key(tuple("NAME" if name == ANY else name for name in path))
    marks = [mark for mark, is_so in (("**trust**", note.guarded), ("**hidden**", note.secret)) if is_so]
    marks += ["Your own file alone."] if note.user_only else []
    default = note.value_type.to_toml(leaf.default)
    shown = f"`{msgspec.json.encode(default).decode()}`" if default not in ("", []) else ""
    variable = f"`{variable_name(path)}`" if variable_name(path) and not note.user_only else ""
    return f"| `{key}` | {note.value_type.description} | {shown} | {' '.join([note.doc, *marks])} | {variable} |\n"


def _capability_tables() -> str:
    parts: list[str] = []
    for title, columns in _CAPABILITIES.items():
        parts += [f"## {title}\n", *_rows(["agent", *columns.values()])]
        for each in load_drivers():
            cells = [_capability(getattr(_usual(each), field)) for field in columns]
            parts += _row([_agent(each), *cells])
        parts.append("")
    parts.append("## Notes\n")
    for each in load_drivers():
        if notes := _usual(each).notes:
            parts += [f"**{each.title}**\n", *(f"- `{field}`: {note}" for field, note in notes.items()), ""]
    return "\n".join(parts).rstrip()


def _usual(driver: Driver) -> Capabilities:
    """What an agent can do by its usual channel."""
    return driver.channels[0].capabilities or driver.capabilities


def _capability(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(f"`{word}`" for word in cast(tuple[str, ...], value)) or "no"
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _variable_table() -> str:
    rows = [*_rows(["agent", "program", "keys, the first found is used", "address", "config folder"])]
    for each in load_drivers():
        if not (each.built_in or each.family):
            keys = dict.fromkeys(name for way in each.providers or (each.provider,) for name in way.credentials)
            addresses = dict.fromkeys(
                name for way in each.providers or (each.provider,) for name in way.base_url_variables
            )
            program = "" if each.program.hosted else f"`{each.program_variable}`"
            folder = f"`{each.state.config_variable}`" if each.state.config_variable else ""
            rows += _row([_agent(each), program, _words(keys), _words(addresses), folder])
    return "\n".join(rows)


def _driven_table() -> str:
    rows = [*_rows(["agent", "driven by", "pinned", "works from", "tried from", "providers, the usual one first"])]
    for each in load_drivers():
        if not each.built_in:
            pinned = each.program.install.version
            tried = _dotted(each.program.tested) or pinned
            rows += _row([_agent(each), _channels(each), pinned, _dotted(each.program.oldest), tried, _providers(each)])
    return "\n".join(rows)


def _agents_command() -> str:
    """What `inspan agents` prints, as an example that a test runs: `…` for versions that differ between machines."""
    rows = [cells(each, name=each.name, version=_listed_version(each)) for each in load_drivers()]
    default = next(each.name for each in load_drivers() if each.default)
    return f"<!-- run -->\n```console\n$ inspan agents\n{listing(rows, default=default)}\n```"


def _listed_version(driver: Driver) -> str:
    if driver.program.hosted:
        return "API"
    if driver.family:
        return "-"
    if driver.built_in:
        return __version__
    return (
        driver.program.install.version
        if driver.program.install.source == "wheel" and driver.program.install.package
        else "…"
    )


def _state_table() -> str:
    rows = [*_rows(["agent", "in `user`", "in `clean`, by", "instructions", "skills", "transcript"])]
    for each in load_drivers():
        if not (each.built_in or each.family or each.program.hosted):
            kept = "a file" if each.sessions.transcript_pattern else "printed by the program"
            variable, read = _words([each.state.config_variable]), _words([each.instructions])
            skills, paths = _words(each.skills), _words(each.state.state_paths)
            rows += _row([_agent(each), paths, variable, read, skills, kept])
    return "\n".join(rows)


def _channels(driver: Driver) -> str:
    names = [channel.name for channel in driver.channels]
    adapters = [f"`{channel.program}`" for channel in driver.channels if channel.program]
    return ", ".join(names) + (f" (by {', '.join(adapters)})" if adapters else "")


def _providers(driver: Driver) -> str:
    if driver.providers:
        return ", ".join(f"`{way.name}` ({_WIRES[way.wire]})" for way in driver.providers)
    return f"{driver.provider.vendor or 'by `--base-url`'} ({_WIRES[driver.provider.wire]})"


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _agent(driver: Driver) -> str:
    return f"`{driver.name}:COMMAND`" if driver.family else f"`{driver.name}`"


def _words(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words if word)


def _rows(heads: Sequence[str]) -> Iterator[str]:
    yield from _row(heads)
    yield f"|{'---|' * len(heads)}"


def _row(cells: Sequence[str]) -> Iterator[str]:
    yield f"| {' | '.join(cells)} |"


def _channels_page(drivers: Sequence[Driver]) -> str:
    return "".join([_CHANNELS_HEAD, _session_table(drivers), "\n", _DIFFERENCES_HEAD, differences(drivers), "\n"])


def _session_table(drivers: Sequence[Driver]) -> str:
    heads = ("agent", "channel", "messages", "steer", "interrupt", "asks", "changed input", "questions", "set", "hooks")
    rows = [*_rows(heads)]
    for driver in drivers:
        for channel in driver.channels:
            if channel.session.messages:
                rows += _row([_agent(driver), f"`{channel.name}`", *_session_cells(channel.session)])
    return "\n".join([*rows, "", *_unasked_lines(drivers)])


def _unasked_lines(drivers: Iterable[Driver]) -> Iterator[str]:
    for driver in drivers:
        for channel in driver.channels:
            if channel.session.unasked:
                yield f"Not asked about by {_agent(driver)} on `{channel.name}`: {channel.session.unasked}."


def _session_cells(support: SessionSupport) -> list[str]:
    asks = "`*`, patterns" if support.ask_patterns else "`*`" if support.ask else "–"
    marks = {name: "✔" if getattr(support, name) else "–" for name in support.__struct_fields__}
    told = [name for name in ("model", "mode", "effort") if getattr(support, name)]
    hooks = [
        f"{'✔' if name in support.hooks else '○'} {name}"
        for name in get_args(HookName)
        if name != "before_tool" or name in support.hooks or support.ask_patterns
    ]
    known = [marks[name] for name in ("messages", "steer", "interrupt")]
    more = [marks["changed_input"], marks["questions"], ", ".join(told) or "–", ", ".join(hooks)]
    return [*known, asks, *more]


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
        outcome = REASONS[reason].outcome
        rows.append(f"| `{reason}` | {outcome} | {REASONS[reason].exit_code} |")
    return "\n".join(rows)


def _error_tables() -> str:
    rows = ["\n## Classes\n", "| class | is a | code | retry helps | when |", "|---|---|---|---|---|"]
    for error in _below_error(InspanError):
        parent = f"`{error.__base__.__name__}`" if error.__base__ not in (None, Exception) else ""
        words = " ".join((error.__doc__ or "").split("\n\n")[0].split())
        rows.append(f"| `{error.__name__}` | {parent} | `{error.code}` | {_yes(error.retry_helps)} | {words} |")
    rows += ["\n## By reason of a run\n", "| reason | outcome | class | retry helps |", "|---|---|---|---|"]
    for reason in REASONS:
        error = REASONS[reason].error
        told = "(none)" if reason == "done" else f"`{error.__name__}`"
        retry = "" if reason == "done" else _yes(error.retry_helps)
        rows.append(f"| `{reason}` | {REASONS[reason].outcome} | {told} | {retry} |")
    attributes = "".join(f"\n- {line}" for line in _ERROR_ATTRIBUTES)
    return "\n".join(rows) + f"\n\nBeside the fields of every error, an `{AgentFailed.__name__}` has:\n{attributes}\n"


def _below_error(error: type[InspanError]) -> Iterator[type[InspanError]]:
    yield error
    for each in error.__subclasses__():
        yield from _below_error(each)


def _yes(claim: bool) -> str:
    return "yes" if claim else "no"


def _filled(path: Path, text: str, name: str, table: Callable[[], str]) -> str:
    """The page with the text between its two marks replaced."""
    head = f"<!-- generated: {name} -->"
    between = re.compile(rf"{head}\n.*?\n<!-- end -->", re.DOTALL)
    if not between.search(text):
        raise SystemExit(f"{path} has no place for the table {name!r}")
    return between.sub(lambda _: f"{head}\n{table()}\n<!-- end -->", text)


if __name__ == "__main__":
    sys.exit(main())
