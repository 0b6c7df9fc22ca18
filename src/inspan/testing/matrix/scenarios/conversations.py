"""Open sessions: messages to one process, turns that are interrupted, questions, and the caller's own tools."""

import json
import os
import subprocess
import sys
from typing import Any

from inspan.testing.matrix.cell import CannotDo, ScenarioFailed, require, require_equal
from inspan.testing.matrix.cell_environment import CellEnvironment, RunTrace
from inspan.testing.matrix.scenario import scenario

_WAIT = r'python3 -c "import os, time; [time.sleep(0.02) for _ in iter(lambda: os.path.exists(\"go\"), True)]"'
_LONGEST_S = 120.0
# Run as a program of its own: the tool is a function of whoever opens the session.
_PROGRAM = """
import asyncio, sys
import inspan

@inspan.tool
def add(a: int, b: int) -> int:
    "Adds two numbers."
    return a + b

async def main():
    options = {"channel": sys.argv[2], "profile": "clean", "model_from": "script:" + sys.argv[3], "tools": [add]}
    result = await inspan.create_agent_runner(sys.argv[1]).exec("add them", **options)
    print(result.run_id)

asyncio.run(main())
"""


@scenario("a session takes one message after the other")
def open_session(cell: CellEnvironment) -> None:
    _require_support(cell, "messages")
    run_id = cell.detach(
        '[[call]]\nsay = "Good morning."\n'
        '[[call]]\nexpect_anywhere = "my name is Ada"\nsay = "Ada"\n'
        '[[call]]\nsay = "Good night."\n',
        "--open",
        prompt="my name is Ada",
    )
    require_equal("second answer", cell.run_command("send", run_id, "who am I?", "-q").stdout, "Ada\n")
    require_equal("third answer", cell.run_command("send", run_id, "good night", "-q").stdout, "Good night.\n")
    story = _close(cell, run_id)
    ended = story.select_events("message_ended")
    require_equal("ends of messages", [event["reason"] for event in ended], ["done"] * 3)
    told = [event["usage"] for event in story.select_events("turn_completed") if event.get("usage")]
    require(all(usage == told[0] for usage in told), f"each turn of the same size tells other tokens: {told}")


@scenario("a turn is interrupted, and the session goes on")
def interrupt_turn(cell: CellEnvironment) -> None:
    _require_support(cell, "interrupt")
    run_id = cell.detach(f"[[call]]\nrun = 'touch started; {_WAIT}'\n[[call]]\nsay = \"On.\"\n", "--open")
    cell.wait_until((cell.work / "started").exists, "the tool")
    cell.run_command("interrupt", run_id)
    require_equal("answer", cell.run_command("send", run_id, "go on", "-q").stdout, "On.\n")
    story = _close(cell, run_id)
    reasons = [event["reason"] for event in story.select_events("message_ended")]
    require_equal("ends of messages", reasons, ["interrupted", "done"])


@scenario("what the agent asks is allowed and denied")
def ask_permission(cell: CellEnvironment) -> None:
    _require_support(cell, "ask")
    run_id = cell.detach(
        '[[call]]\nrun = "echo hi > yes.txt"\n[[call]]\nsay = "Written."\n'
        # A denial ends the turn of some.
        '[[call]]\nrun = "echo hi > no.txt"\n[[call]]\nsay = "Not written."\nrepeat = "always"\n',
        "--open",
        "--ask",
        "*",
    )
    _answer(cell, run_id, "approve", "echo hi > yes.txt")
    cell.wait_until(lambda: _count(cell, run_id, "message_ended") == 1, "the first message's end")
    cell.run_command("send", run_id, "and another", "--no-wait")
    _answer(cell, run_id, "deny", "echo hi > no.txt")
    cell.wait_until(lambda: _count(cell, run_id, "message_ended") == 2, "the second message's end")
    _close(cell, run_id)
    require((cell.work / "yes.txt").exists(), "what was allowed was not done")
    require(not (cell.work / "no.txt").exists(), "what was denied was done")


@scenario("a function of the caller's is a tool")
def own_tool(cell: CellEnvironment) -> None:
    if "http" not in cell.driver.capabilities.mcp:
        raise CannotDo("It takes no MCP servers.")
    path = cell.write_script(
        '[[call]]\nuse = {tool = "add", server = "inspan", input = {a = 2, b = 40}}\n'
        '[[call]]\nexpect = "42"\nsay = "Done."\n'
    )
    argv = [sys.executable, "-c", _PROGRAM, cell.agent, cell.channel, str(path)]
    done = subprocess.run(
        argv, env=cell.env, cwd=cell.work, capture_output=True, text=True, timeout=_LONGEST_S, check=False
    )
    require(done.returncode == 0, f"the program ended with {done.returncode}: {done.stderr[-600:]}")
    story = cell.load_trace(done.stdout.strip(), code=0, stdout="", stderr=done.stderr)
    story.require_completed()
    require_equal("calls", [event["input"] for event in story.select_events("tool_requested")], [{"a": 2, "b": 40}])


def _require_support(cell: CellEnvironment, field: str) -> None:
    support = cell.session_support
    if not getattr(support, field):
        raise CannotDo(_REASONS[field])


_REASONS = {
    "messages": "Each message is a process of its own.",
    "interrupt": "A turn ends with its process.",
    "ask": "It does not ask before it acts.",
}


def _answer(cell: CellEnvironment, run_id: str, verb: str, command: str) -> None:
    """Waits for the question about a command, and answers it."""
    cell.wait_until(lambda: _list_questions(cell), "a question")
    (asked,) = _list_questions(cell)
    require_equal("run", asked["run_id"], run_id)
    given: Any = asked["question"].get("input")
    require(command in json.dumps(given), f"the question is about {given}, not about {command!r}")
    cell.run_command(verb, asked["question"]["id"])


def _list_questions(cell: CellEnvironment) -> list[dict[str, Any]]:
    return json.loads(cell.run_command("approvals", "--json").stdout)["questions"]


def _count(cell: CellEnvironment, run_id: str, kind: str) -> int:
    path = cell.folder(run_id) / "events.jsonl"
    return path.read_text().count(f'"kind":"{kind}"') if os.path.exists(path) else 0


def _close(cell: CellEnvironment, run_id: str) -> RunTrace:
    done = cell.run_command("close", run_id)
    story = cell.load_trace(run_id, code=done.returncode, stdout=done.stdout, stderr=done.stderr)
    if story.ended["reason"] != "done":
        raise ScenarioFailed(f"the session ended as {story.ended['reason']}: {story.ended.get('message', '')}")
    return story
