"""What each mode keeps an agent from."""

import json
import re
from collections.abc import Sequence

from inspan.contracts.journal import DANGEROUS, SHELL_OUTPUT, TRIAL_FILE_PREFIX, OfferedTool
from inspan.testing.matrix.cell import NotEnforced, require, require_equal
from inspan.testing.matrix.cell_environment import CellEnvironment, RunTrace
from inspan.testing.matrix.scenario import scenario

# Where an agent's log does not tell of a call that came to nothing, what the model heard of it does.
_REFUSED = re.compile(
    r"error|fail|denied|refus|reject|declin|skipp|unknown|unsupported|no such|cannot|can't|disabled|invalid"
    r"|not (found|allowed|available|permitted|a function)",
    re.IGNORECASE,
)
_SCHEMA = {
    "type": "object",
    "properties": {"colour": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["colour", "count"],
    "additionalProperties": False,
}


@scenario("a review reads and cannot write")
def review(cell_env: CellEnvironment) -> None:
    kept = cell_env.work / "kept.txt"
    kept.write_text("original words\n")
    orders = [
        'run = "cat kept.txt"',
        'run = "echo no > by-shell.txt"',
        'write = {path = "by-tool.txt", content = "no"}',
        'edit = {path = "kept.txt", old = "original", new = "other"}',
        "run = \"python3 -c 'open(chr(110), chr(119))'\"",
        'run = "true $(touch by-words.txt)"',
        'run = "true `touch by-quotes.txt`"',
    ]
    steps = "".join(f"[[call]]\n{order}\noptional = true\n" for order in orders)
    attached = ("--attach", str(kept)) if cell_env.driver.capabilities.exec == "no" else ()
    ending = '[[call]]\ntry_tools = "writing"\n[[call]]\nexpect_anywhere = "original words"\nsay = "Reviewed."\n'
    prompt = "Review kept.txt" if attached else "Review"
    story = cell_env.run(steps + ending, "--mode", "review", *attached, prompt=prompt)
    story.require_completed()
    require_equal("texts", story.texts[-1:], ["Reviewed."])
    require_equal("files", _list_files(cell_env), ["kept.txt"])
    require_equal("file", kept.read_text(), "original words\n")
    require(story.requests, "nothing was asked of the model")
    dangerous = [tool for tool in story.offered if tool.does in DANGEROUS]
    require_equal(
        "tools on offer that were not tried", [tool.name for tool in dangerous if tool.key not in story.called], []
    )
    require_equal("tools that were called in vain", _find_unanswered(story), [])
    if not dangerous:
        cell_env.note = f"No tool on offer runs or writes anything: {_join_names(story.offered) or 'there is none'}."


@scenario("a completion has no tools")
def complete(cell_env: CellEnvironment) -> None:
    story = cell_env.run('[[call]]\ntry_tools = "all"\n[[call]]\nsay = "Forty-two."\n', "--mode", "complete")
    story.require_completed()
    require_equal("texts", story.texts[-1:], ["Forty-two."])
    require(story.requests, "nothing was asked of the model")
    used = _find_tool_use(cell_env, story)
    if used and cell_env.driver.capabilities.complete == "asked":
        raise NotEnforced(f"It is told to use no tools, and uses them all the same: {used}")
    require(not used, used)
    if story.offered:
        names = _join_names(story.offered)
        cell_env.note = f"{len(story.offered)} on offer, each was called and none was carried out: {names}."


def _find_tool_use(cell_env: CellEnvironment, story: RunTrace) -> str:
    """What shows that a tool was at work, or might have been; empty where none was."""
    uncalled = [tool for tool in story.offered if tool.key not in story.called]
    if files := _list_files(cell_env):
        return f"a tool has changed files: {', '.join(files)}"
    if done := story.select_events("tool_completed", "command_executed", "file_changed"):
        return f"a tool ran: {done[0]}"
    if ran := [name for (_, name), told in story.results if SHELL_OUTPUT in (told or "")]:
        return f"a command ran: {', '.join(ran)}"
    if uncalled:
        return f"tools are on offer that could not be called: {_join_names(uncalled)}"
    if ignored := _find_unanswered(story):
        return f"nothing tells what became of the calls of {', '.join(ignored)}"
    failed = len(story.select_events("tool_failed"))
    allowed = [f"{name} ({told:.200})" for (_, name), told in story.results if told and not _REFUSED.search(told)]
    return f"tools were not refused: {', '.join(allowed)}" if allowed and failed < len(story.called) else ""


def _find_unanswered(story: RunTrace) -> list[str]:
    """The tools that were called and of which the next request told no result."""
    return [name for (_, name), told in story.results if told is None]


def _list_files(cell_env: CellEnvironment) -> list[str]:
    """What lies in the working folder, and whatever a tool on trial has made elsewhere."""
    made = [path.relative_to(cell_env.root).as_posix() for path in cell_env.root.rglob(f"{TRIAL_FILE_PREFIX}*")]
    inside = [path.name for path in cell_env.work.iterdir()]
    return sorted({*inside, *(path for path in made if path.removeprefix("work/") not in inside)})


def _join_names(tools: Sequence[OfferedTool]) -> str:
    return ", ".join(tool.name for tool in tools)


@scenario("a completion that fits a schema")
def schema(cell_env: CellEnvironment) -> None:
    path = cell_env.root / "schema.json"
    path.write_text(json.dumps(_SCHEMA))
    wanted = {"colour": "red", "count": 3}
    script = '[[call]]\nanswer = {colour = "red", count = 3}\n'
    if cell_env.driver.capabilities.output_schema == "yes":
        script += '[[call]]\nsay = "Done."\nrepeat = "always"\n'
    story = cell_env.run(script, "--mode", "complete", "--schema", str(path))
    story.require_completed()
    given = [event["text"] for event in story.select_events("answer_given")] or story.texts[-1:]
    require(given, "no answer was given")
    require_equal("answer", json.loads(given[-1]), wanted)
