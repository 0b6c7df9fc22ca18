"""What is kept of a run, and what is not: secrets, tokens, transcripts; and two runs at once."""

import json
from typing import Any

from inspan.protocol.usage import Usage
from inspan.testing.matrix.cell import require, require_equal
from inspan.testing.matrix.cell_environment import CellEnvironment
from inspan.testing.matrix.scenario import scenario

_SECRET = "mtx-7Qw9Zr4Kt2Lp8Vb6Ny3"
_COMPARED = ("text_said", "reasoning_said", "tool_started", "tool_completed", "tool_failed", "command_executed")
_FIELDS = ("kind", "text", "id", "name", "input", "output", "command", "exit_code")


@scenario("a secret in what is printed and said")
def secret(cell_env: CellEnvironment) -> None:
    # In two halves: an agent may keep such a variable from its shell, and no command line has the whole.
    shows = f"printf '%s%s\\\\n' {_SECRET[:9]} {_SECRET[9:]}"
    story = cell_env.run(
        f'[[call]]\nrun = "{shows}; {shows} >&2"\noptional = true\n'
        f'[[call]]\nsay = ["It is {_SECRET[:9]}", "{_SECRET[9:]}."]\n',
        "--env",
        f"MATRIX_TOKEN={_SECRET}",
    )
    story.require_completed()
    require_equal("texts", story.texts[-1:], ["It is [REDACTED:MATRIX_TOKEN]."])
    outputs = [event["output"] for event in story.select_events("tool_completed")]
    shown = any("[REDACTED:MATRIX_TOKEN]" in output for output in outputs)
    require(shown or not cell_env.has_tools, f"the tool's output was reported as {outputs}")
    printed = {"stdout": story.stdout, "stderr": story.stderr}
    folder = cell_env.folder(story.run_id)
    files = [path for path in folder.rglob("*") if path.is_file() and path.relative_to(folder).parts[0] != "agent"]
    printed |= {path.name: path.read_bytes().decode(errors="replace") for path in files}
    require_equal("places that show it", [name for name, text in printed.items() if _SECRET in text], [])


@scenario("tokens, to the last one")
def usage(cell_env: CellEnvironment) -> None:
    first = {"input": 1000, "output": 50, "cache_read": 300, "reasoning": 11}
    second = {"input": 2000, "output": 70, "cache_read": 400, "reasoning": 13}
    story = cell_env.run(
        f'[[call]]\nrun = "echo hi"\noptional = true\nusage = {_to_toml_table(first)}\n'
        f'[[call]]\nsay = "Done."\nusage = {_to_toml_table(second)}\n'
    )
    story.require_completed()
    ran = bool(story.select_events("tool_started"))
    spent = Usage(**second) + Usage(**first) if ran else Usage(**second)
    wanted = {name: getattr(spent, name) for name in first}
    main = [event["usage"] for event in story.select_events("model_call_ended") if event.get("role", "main") == "main"]
    measured = {name: sum(each.get(name, 0) for each in main) for name in first}
    require_equal("measured tokens", measured, wanted)
    require_equal(
        "differences", [(each["told"], each["measured"]) for each in story.select_events("usage_differs")], []
    )
    if cell_env.driver.capabilities.reports_usage:
        require(
            [event for event in story.select_events("turn_completed") if event.get("usage")], "no tokens were reported"
        )


@scenario("the agent's own transcript, read back")
def transcript(cell_env: CellEnvironment) -> None:
    story = cell_env.run(
        '[[call]]\nthink = "hm"\nsay = "Looking."\nrun = "echo from-the-shell"\n'
        '[[call]]\nwrite = {path = "new.txt", content = "one\\n"}\n[[call]]\nsay = "Done."\n'
    )
    story.require_completed()
    printed = cell_env.run_command("transcript", story.run_id, "--json")
    saved = [json.loads(line)["event"] for line in printed.stdout.split("\n") if line]
    lacks = cell_env.driver.sessions.transcript.missing_kinds if cell_env.driver.sessions.transcript else ()
    require_equal("transcript", _select_compared(saved, lacks), _select_compared(story.events, lacks))
    require_equal("tokens", _sum_usage(saved), _sum_usage(story.events))


@scenario("two runs of one agent at once")
def two_at_once(cell_env: CellEnvironment) -> None:
    runs = [cell_env.detach(f'[[call]]\nsay = "{name}"\n', prompt=name) for name in ("one", "two")]
    stories = [cell_env.wait(run_id) for run_id in runs]
    for story in stories:
        story.require_completed()
    require_equal("texts", [story.texts for story in stories], [["one"], ["two"]])


def _to_toml_table(counts: dict[str, int]) -> str:
    return "{" + ", ".join(f"{name} = {count}" for name, count in counts.items()) + "}"


def _select_compared(events: list[dict[str, Any]], lacks: tuple[str, ...]) -> list[dict[str, Any]]:
    """What both must tell: who said what, and what the tools did."""
    told = [event for event in events if event["kind"] in _COMPARED and event["kind"] not in lacks]
    # Some agents name their calls anew in what they keep: which call it is must be the same, not its name.
    ids = list(dict.fromkeys(event["id"] for event in told if "id" in event))
    told = [{**event, "id": f"call {ids.index(event['id']) + 1}"} if "id" in event else event for event in told]
    return [{name: event[name] for name in _FIELDS if event.get(name) not in (None, "", [])} for event in told]


def _sum_usage(events: list[dict[str, Any]]) -> dict[str, int]:
    turns = [
        event["usage"] for event in events if event["kind"] in ("turn_completed", "turn_failed") and "usage" in event
    ]
    require(turns, "no tokens were reported")
    total = sum((Usage(**each) for each in turns), Usage())
    return {name: getattr(total, name) for name in Usage.__struct_fields__}
