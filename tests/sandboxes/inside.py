"""An agent in a box that tries what a test asks of it, and tells what came of it."""

import json
from typing import Any

from tests.cli_env import CliEnv
from tests.running.fake_agent import Fake, fake_agent_env, run_fake_agent

# Tries what the prompt asks for, each as `name: expression`, and says what came of it as JSON.
ACTS = """
import ctypes, fcntl, socket, subprocess
def write(path):
    with open(path, "w") as file: file.write("x")
    return "written"
def read(path):
    with open(path, "rb") as file: return file.read(40).decode(errors="replace")
def shell(command): return subprocess.run(["sh", "-c", command], capture_output=True, text=True).returncode
def output(command): return subprocess.run(["sh", "-c", command], capture_output=True, text=True).stdout.strip()
def reach(path):
    with socket.socket(socket.AF_UNIX) as client: client.connect(path)
    return "reached"
def dial(host, port, family=socket.AF_INET):
    with socket.socket(family) as client:
        client.settimeout(5)
        client.connect((host, port))
    return "reached"
def datagram(host, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client: client.sendto(b"x", (host, port))
    return "sent"
def call(number, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    return os.strerror(ctypes.get_errno()) if libc.syscall(number, *arguments) == -1 else "done"
def walk(top): return sorted(os.path.join(at, name) for at, _, files in os.walk(top) for name in files)
begin()
for name, expression in json.loads(prompt).items():
    try: result = eval(expression)
    except Exception as error: result = type(error).__name__
    say(json.dumps({name: result}))
put(type="turn.completed", usage={"input_tokens": 0, "output_tokens": 0})
"""
# With a key, its model calls would go through the gateway, and nothing else is reached without a word.
KEY = {"CODEX_API_KEY": "sk-0123456789abcdef"}


def run_in_box(
    cli_env: CliEnv, fake: Fake, *more: str, env: dict[str, str] | None = None, **tries: str
) -> dict[str, Any]:
    """What came of each try, told by an agent in the box."""
    given = {**fake_agent_env(fake, ACTS), **(env or {})}
    code, _, stderr = run_fake_agent(cli_env, given, "--sandbox", "bwrap", *more, prompt=json.dumps(tries))
    assert code == 0, stderr
    assert cli_env.events()[0]["sandbox"] == "bwrap"
    said = [event["text"] for event in cli_env.events() if event["kind"] == "text_said"]
    return {name: result for text in said for name, result in json.loads(text).items()}
