"""Fake programs that speak as Claude Code does, at no cost of their own, so that the harness is what is measured."""

import os
import sys

from .frames import initialize_answer

_SHELL = """#!/bin/sh
case "$*" in
*--version*) echo "2.1.325 (Claude Code)"; exit 0 ;;
*--input-format*)
  # A client that speaks the control protocol: one initialize, then the prompt.
  read -r request
  id=${request#*\\"request_id\\": \\"}
  id=${id%%\\"*}
  sed "s/REQUEST_ID/$id/" "@FOLDER@/initialize.json"
  read -r prompt ;;
*) read -r prompt ;;
esac
exec cat "@FOLDER@/stream.jsonl"
"""
_WAITING = """#!@PYTHON@ -IS
import os, sys, time
if "--version" in sys.argv:
    print("2.1.325 (Claude Code)")
    sys.exit()
sys.stdin.read()
with open("@FOLDER@/stream.jsonl", "rb") as file:
    lines = file.read().splitlines(keepends=True)[:-1]
os.write(1, lines[0])
import http.client, json
host = os.environ["ANTHROPIC_BASE_URL"].removeprefix("http://")
body = json.dumps({"model": "claude-opus-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]})
headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "content-type": "application/json"}
connection = http.client.HTTPConnection(host)
connection.request("POST", "/v1/messages", body, headers)
answer = connection.getresponse()
assert answer.status == 200, answer.read()
answer.read()
for line in lines[1:]:
    view = memoryview(line)
    while view:
        view = view[os.write(1, view):]
time.sleep(120)
"""


def write_agent(folder: str) -> str:
    """A program that prints `stream.jsonl` of its folder; gives its path."""
    with open(os.path.join(folder, "initialize.json"), "w", encoding="utf-8") as file:
        file.write(initialize_answer())
    return _program(folder, _SHELL)


def write_waiting_agent(folder: str) -> str:
    """A program that calls its model once, prints all of `stream.jsonl` but the end, and then waits; gives its path."""
    return _program(folder, _WAITING)


def _program(folder: str, text: str) -> str:
    path = os.path.join(folder, "claude")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace("@FOLDER@", folder).replace("@PYTHON@", sys.executable))
    os.chmod(path, 0o755)
    return path
