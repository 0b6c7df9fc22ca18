"""Whether an agent tells the same story by two of its channels, but for what the table of the second says of it.

`python -m inspan.testing.channel_comparison AGENT…` runs the real program by both on a scripted model and prints what
differs.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from inspan.agents.program import locate_program
from inspan.agents.registry import find_driver, load_drivers
from inspan.agents.select import select_channel
from inspan.contracts.driver import Channel, Driver

from .matrix.cell_environment import CellEnvironment

# One run that does a bit of everything, and one that fails.
SCRIPTS = {
    "work": '[[call]]\nthink = "hm"\nsay = "Looking."\nrun = "echo from-the-shell; exit 3"\n'
    '[[call]]\nwrite = {path = "new.txt", content = "one\\n"}\n'
    '[[call]]\nedit = {path = "new.txt", old = "one", new = "two"}\n'
    '[[call]]\nsay = "Done."\n',
    # Some cannot be kept from trying once more.
    "failure": '[[call]]\nfail = {status = 401}\nrepeat = "always"\n',
}
# What a story is made of: kinds of events, and what of each is compared.
COMPARED = {
    "text_said": ("text",),
    "reasoning_said": ("text",),
    "tool_started": ("id", "name", "input"),
    "tool_completed": ("id", "name", "output"),
    "tool_failed": ("id", "name", "output", "denied"),
    "command_executed": ("id", "command", "exit_code"),
    "file_changed": ("id", "path", "change"),
    "plan_changed": ("steps",),
    "turn_completed": ("usage", "cost_usd"),
    "turn_failed": ("failure", "message", "status"),
    "run_ended": ("outcome", "reason"),
}
_KEPT_VARIABLES = ("PATH", "LANG", "TMPDIR", "PYTHONPATH")


def normalize_events(
    events: Sequence[dict[str, Any]], *, known_differences: Collection[str] = ()
) -> list[dict[str, Any]]:
    """What is compared of a run: calls are numbered, and what one call tells is in one order."""
    told = [event for event in events if event["kind"] in COMPARED and event["kind"] not in known_differences]
    ids = list(dict.fromkeys(event["id"] for event in told if event.get("id")))
    plain = [_normalize_event(event, ids, known_differences) for event in told]
    return _sort_events(plain)


def find_differences(
    usual: Sequence[dict[str, Any]], other: Sequence[dict[str, Any]], *, known_differences: Collection[str] = ()
) -> Iterator[str]:
    """Every place in which two runs tell another story, in a line each."""
    first, second = (
        normalize_events(usual, known_differences=known_differences),
        normalize_events(other, known_differences=known_differences),
    )
    for place in range(max(len(first), len(second))):
        here = [each[place] if place < len(each) else {"kind": "nothing"} for each in (first, second)]
        if here[0]["kind"] != here[1]["kind"]:
            yield f"{here[0]} and then {here[1]}"
            return
        for field in here[0].keys() | here[1].keys():
            values = [each.get(field) for each in here]
            if values[0] != values[1]:
                yield f"{here[0]['kind']}.{field}: {values[0]!r} and {values[1]!r}"


def format_table(found: Sequence[Driver]) -> str:
    """What every second channel tells otherwise, as a table in Markdown."""
    rows = [
        f"| {driver.name} ({channel.name}) | `{what}` | {why} |"
        for driver in found
        for channel in driver.channels[1:]
        for what, why in channel.event_differences.items()
    ]
    return "\n".join(["| agent | event | how it differs |", "|---|---|---|", *rows])


def compare_channels(agent: str, channel: Channel) -> list[str]:
    """Runs an agent by its usual channel and by this one; what differs beyond the table."""
    found: list[str] = []
    for name, script in SCRIPTS.items():
        usual, other = _run_agent(agent, "", script), _run_agent(agent, channel.name, script)
        found += [
            f"{name}: {line}" for line in find_differences(usual, other, known_differences=channel.event_differences)
        ]
    return found


def main(agents: Sequence[str]) -> int:
    """Compares these agents, or all that have two channels; gives how many tell another story."""
    wrong = 0
    for driver in [find_driver(name) for name in agents] if agents else load_drivers():
        for channel in driver.channels[1:]:
            lines = compare_channels(driver.name, channel)
            wrong += bool(lines)
            print(f"{driver.name} ({channel.name}): {'the same story' if not lines else ''}")
            print("".join(f"  {line}\n" for line in lines), end="")
    return wrong


def _normalize_event(event: dict[str, Any], ids: list[str], differs: Collection[str]) -> dict[str, Any]:
    kind: str = event["kind"]
    kept = {name: event[name] for name in COMPARED[kind] if name in event and f"{kind}.{name}" not in differs}
    if "id" in kept:
        kept["id"] = f"call {ids.index(kept['id']) + 1}" if kept["id"] else ""
    return {"kind": kind, **kept}


def _sort_events(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events with those of one call together, each kind of them in its place."""
    order = list(COMPARED)
    calls = list(dict.fromkeys(event["id"] for event in events if event.get("id")))
    first = {call: next(n for n, event in enumerate(events) if event.get("id") == call) for call in calls}
    keyed = [
        (first.get(event.get("id", ""), n), order.index(event["kind"]) if event.get("id") else 0, n, event)
        for n, event in enumerate(events)
    ]
    return [event for *_, event in sorted(keyed, key=lambda each: each[:3])]


def _run_agent(agent: str, channel: str, script: str) -> list[dict[str, Any]]:
    driver = select_channel(find_driver(agent), channel)
    root = Path(tempfile.mkdtemp(prefix="inspan-story-"))
    env = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    env |= {"XDG_CACHE_HOME": str(root / "cache"), driver.program_variable: locate_program(driver).path}
    cell_env = CellEnvironment(root / "ground", driver, agent=agent, channel=channel, env=env)
    try:
        events = cell_env.run(script).events
        # A path is the same wherever the cell environment lies.
        return _replace_folder(events, str(cell_env.work))
    finally:
        cell_env.close()
        shutil.rmtree(root, ignore_errors=True)


def _replace_folder(value: Any, folder: str) -> Any:
    if isinstance(value, str):
        return value.replace(folder, "/WORK")
    if isinstance(value, list):
        return [_replace_folder(each, folder) for each in value]  # pyright: ignore[reportUnknownVariableType]  JSON of a log
    if isinstance(value, dict):
        return {name: _replace_folder(each, folder) for name, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
