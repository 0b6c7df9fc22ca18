"""A puppet that speaks the Agent Client Protocol and holds a session, as a test wants it to."""

from collections.abc import Callable
from typing import Any

import inspan
from inspan import AgentSession
from tests.api.run_env import RunEnv

Fake = Callable[[str, str], str]

# The puppet answers each prompt by its function `turn`; what it reads meanwhile, it reads itself.
_PRELUDE = """
import json, os, sys, time
session = {}
def put(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def get():
    line = sys.stdin.readline()
    if not line: sys.exit()
    return json.loads(line)
def say(text):
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    put(method="session/update", params={"sessionId": "s", "update": chunk})
def ask(command, number=[0]):
    number[0] += 1
    call = {"toolCallId": f"call-{number[0]}", "title": command, "kind": "execute", "rawInput": {"command": command}}
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_once", "reject_once")]
    put(id=f"ask-{number[0]}", method="session/request_permission",
        params={"sessionId": "s", "toolCall": call, "options": options})
    answer = get()
    return answer.get("result", {}).get("outcome", {}).get("optionId", "")
def wait_for_cancel():
    while get().get("method") != "session/cancel": pass
    return "cancelled"
"""
_SERVE = """
put(id=get()["id"], result={"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})
opened = get()
put(id=opened["id"], result={"sessionId": "s", **session})
while True:
    message = get()
    if message.get("method") != "session/prompt": continue
    reason = turn(message["params"]["prompt"][0]["text"]) or "end_turn"
    put(id=message["id"], result={"stopReason": reason})
"""
ECHO = "def turn(text): say('got ' + text)"
OBEYS = "def turn(text):\n  if 'wait' in text: return wait_for_cancel()\n  say('got ' + text)"
ASKS = "def turn(text): say(ask(text))"


def open_puppet(run_env: RunEnv, fake: Fake, acts: str, **options: Any) -> AgentSession:
    """A session of a puppet that does these acts; whoever enters it opens it."""
    program = make_puppet(fake, acts)
    return inspan.open_session(f"acp:{program}", cwd=run_env.work, profile="user", **options)


def make_puppet(fake: Fake, acts: str, *, version: str = "0.0.0") -> str:
    """The program of a puppet that does these acts."""
    asked = f"import sys\nif sys.argv[1:] == ['--version']:\n  print({version!r})\n  sys.exit()\n"
    return fake("puppet", f"{asked}{_PRELUDE}{acts}\n{_SERVE}")
