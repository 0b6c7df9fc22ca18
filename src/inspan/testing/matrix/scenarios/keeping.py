"""What is kept of a run, and what is not: secrets, tokens, transcripts; and two runs at once."""

import json
from typing import Any

from inspan.protocol.usage import Usage

from ..cell import must, same
from ..ground import Ground
from ..scenario import scenario

_SECRET = "mtx-7Qw9Zr4Kt2Lp8Vb6Ny3"
_COMPARED = ("text_said", "reasoning_said", "tool_started", "tool_completed", "tool_failed", "command_executed")
_FIELDS = ("kind", "text", "id", "name", "input", "output", "command", "exit_code")


@scenario("a secret in what is printed and said")
def secret(ground: Ground) -> None:
    # In two halves: an agent may keep such a variable from its shell, and no command line has the whole.
    shows = f"printf '%s%s\\\\n' {_SECRET[:9]} {_SECRET[9:]}"
    story = ground.run(
        f'[[call]]\nrun = "{shows}; {shows} >&2"\noptional = true\n'
        f'[[call]]\nsay = ["It is {_SECRET[:9]}", "{_SECRET[9:]}."]\n',
        "--env",
        f"MATRIX_TOKEN={_SECRET}",
    )
    story.is_done()
    same("texts", story.texts[-1:], ["It is [REDACTED:MATRIX_TOKEN]."])
    outputs = [event["output"] for event in story.of("tool_completed")]
    shown = any("[REDACTED:MATRIX_TOKEN]" in output for output in outputs)
    must(shown or not ground.has_tools, f"the tool's output was told as {outputs}")
    printed = {"stdout": story.stdout, "stderr": story.stderr}
    folder = ground.folder(story.run_id)
    files = [path for path in folder.rglob("*") if path.is_file() and path.relative_to(folder).parts[0] != "agent"]
    printed |= {path.name: path.read_bytes().decode(errors="replace") for path in files}
    same("places that show it", [name for name, text in printed.items() if _SECRET in text], [])


@scenario("tokens, to the last one")
def usage(ground: Ground) -> None:
    first = {"input": 1000, "output": 50, "cache_read": 300, "reasoning": 11}
    second = {"input": 2000, "output": 70, "cache_read": 400, "reasoning": 13}
    story = ground.run(
        f'[[call]]\nrun = "echo hi"\noptional = true\nusage = {_table(first)}\n'
        f'[[call]]\nsay = "Done."\nusage = {_table(second)}\n'
    )
    story.is_done()
    ran = bool(story.of("tool_started"))
    spent = Usage(**second) + Usage(**first) if ran else Usage(**second)
    wanted = {name: getattr(spent, name) for name in first}
    main = [event["usage"] for event in story.of("model_call_ended") if event.get("role", "main") == "main"]
    measured = {name: sum(each.get(name, 0) for each in main) for name in first}
    same("measured tokens", measured, wanted)
    same("differences", [(each["told"], each["measured"]) for each in story.of("usage_differs")], [])
    if ground.driver.capabilities.reports_usage:
        must([event for event in story.of("turn_completed") if event.get("usage")], "no tokens were told")


@scenario("the agent's own transcript, read back")
def transcript(ground: Ground) -> None:
    story = ground.run(
        '[[call]]\nthink = "hm"\nsay = "Looking."\nrun = "echo from-the-shell"\n'
        '[[call]]\nwrite = {path = "new.txt", content = "one\\n"}\n[[call]]\nsay = "Done."\n'
    )
    story.is_done()
    printed = ground.order("transcript", story.run_id, "--json")
    saved = [json.loads(line)["event"] for line in printed.stdout.split("\n") if line]
    lacks = ground.driver.transcript.lacks if ground.driver.transcript else ()
    same("transcript", _essence(saved, lacks), _essence(story.events, lacks))
    same("tokens", _told(saved), _told(story.events))


@scenario("two runs of one agent at once")
def two_at_once(ground: Ground) -> None:
    runs = [ground.detach(f'[[call]]\nsay = "{name}"\n', prompt=name) for name in ("one", "two")]
    stories = [ground.wait(run_id) for run_id in runs]
    for story in stories:
        story.is_done()
    same("texts", [story.texts for story in stories], [["one"], ["two"]])


def _table(counts: dict[str, int]) -> str:
    return "{" + ", ".join(f"{name} = {count}" for name, count in counts.items()) + "}"


def _essence(events: list[dict[str, Any]], lacks: tuple[str, ...]) -> list[dict[str, Any]]:
    """What both must tell: who said what, and what the tools did."""
    told = [event for event in events if event["kind"] in _COMPARED and event["kind"] not in lacks]
    # Some agents name their calls anew in what they keep: which call it is must be the same, not its name.
    ids = list(dict.fromkeys(event["id"] for event in told if "id" in event))
    told = [{**event, "id": f"call {ids.index(event['id']) + 1}"} if "id" in event else event for event in told]
    return [{name: event[name] for name in _FIELDS if event.get(name) not in (None, "", [])} for event in told]


def _told(events: list[dict[str, Any]]) -> dict[str, int]:
    turns = [
        event["usage"] for event in events if event["kind"] in ("turn_completed", "turn_failed") and "usage" in event
    ]
    must(turns, "no tokens were told")
    total = sum((Usage(**each) for each in turns), Usage())
    return {name: getattr(total, name) for name in Usage.__struct_fields__}
