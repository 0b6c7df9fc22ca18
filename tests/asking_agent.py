"""A puppet that speaks the Agent Client Protocol and asks for what a test wants, in the ids that the test gives."""

import json
import sys
from typing import Any

from tests.cli_env import CliEnv, wait_until

Call = dict[str, Any]

_PROGRAM = """
import json, sys
rounds = json.load(open(sys.argv[1]))
updates, waiting, asked, prompt = rounds.pop(0), set(), 100, None
kinds = {"yes": "allow_once", "no": "reject_once"}
options = [{"optionId": word, "name": word, "kind": kind} for word, kind in kinds.items()]
def put(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def tell(**update): put(method="session/update", params={"sessionId": "s", "update": update})
def go_on():
    global asked
    if not rounds: return put(id=prompt, result={"stopReason": "end_turn"})
    for call in rounds.pop(0):
        asked += 1
        waiting.add(asked)
        params = {"sessionId": "s", "toolCall": call, "options": options}
        put(id=asked, method="session/request_permission", params=params)
for line in sys.stdin:
    said = json.loads(line)
    method, number = said.get("method"), said.get("id")
    if method == "initialize":
        put(id=number, result={"protocolVersion": 1, "agentInfo": {"name": "asker", "version": "1"}})
    elif method == "session/new": put(id=number, result={"sessionId": "s"})
    elif method == "session/prompt":
        prompt = number
        for update in updates: tell(**update)
        go_on()
    elif method is None and number in waiting:
        waiting.remove(number)
        chosen = said["result"]["outcome"].get("optionId", "none")
        tell(sessionUpdate="agent_message_chunk", content={"type": "text", "text": f"{number - 100}:{chosen} "})
        if not waiting: go_on()
"""


def start_asking(env: CliEnv, *rounds: list[Call], updates: list[Call] | None = None) -> str:
    """Starts a run that asks these together, and the next ones when all of them are answered; gives its id.

    It says of each what the answer was, in the order in which it asked: `1:yes`.
    """
    program, script = env.root / "asker.py", env.root / f"asks-{len(list(env.root.glob('asks-*')))}.json"
    program.write_text(_PROGRAM)
    script.write_text(json.dumps([updates or [], *rounds]))
    agent = f"acp:{sys.executable} {program} {script}"
    done = env.inspan("run", "do it", "-d", "-q", "-a", agent, "--ask", "*")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def ask_command(identity: str, command: str, **more: Any) -> Call:
    """A call of the tool that runs a command."""
    return {"toolCallId": identity, "title": command, "kind": "execute", "rawInput": {"command": command}, **more}


def wait_for_asked(env: CliEnv, run: str, count: int) -> list[dict[str, Any]]:
    """Waits until that much has been asked, and gives it."""

    def look() -> list[dict[str, Any]]:
        found = [each for each in env.events(run) if each["kind"] == "permission_asked"]
        return found if len(found) >= count else []

    return wait_until(look, f"{count} questions")
