"""The peer of the server: sandbox-agent's event stream, with an agent of the bench's own behind it, offline."""

import http.client
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from .litellm import CannotInstall
from .place import ROOT, Place
from .servers import Server, free_port, listening

VERSION = "0.4.2"
PATH = "/v1/acp/bench"
_PACKAGE = f"@sandbox-agent/cli-linux-x64@{VERSION}"
_INSTALL_S = 120.0
_START_S = 30.0
_WAIT_S = 60.0


def install() -> str:
    """The program's path, below the user's cache folder; fetched from npm on the first time. Raises `CannotInstall`."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(cache, "inspan-bench", f"sandbox-agent-{VERSION}")
    program = os.path.join(folder, "node_modules", "@sandbox-agent", "cli-linux-x64", "bin", "sandbox-agent")
    if not os.path.exists(program):
        npm = shutil.which("npm")
        if not npm:
            raise CannotInstall("npm is not installed")
        print(f"bench: sandbox-agent {VERSION} is being installed below the cache folder", file=sys.stderr)
        argv = [npm, "install", "--prefix", folder, "--no-audit", "--no-fund", "--ignore-scripts", _PACKAGE]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=_INSTALL_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise CannotInstall(f"npm took more than {_INSTALL_S:g} s") from error
        if done.returncode or not os.path.exists(program):
            raise CannotInstall(done.stderr.strip()[-500:])
    os.chmod(program, 0o755)
    return program


@contextmanager
def sandbox_agent(program: str, *, here: Place) -> Generator[Server]:
    """The server, whose agent `mock` is ours: it says as much as it is asked to."""
    agents = here.path("data", "sandbox-agent", "bin", "agent_processes")
    os.makedirs(agents)
    script = os.path.join(agents, "mock-acp")
    with open(script, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m bench.sides.acp_puppet\n")
    os.chmod(script, 0o755)
    port = free_port()
    argv = [program, "server", "--no-token", "--no-telemetry", "--host", "127.0.0.1", "--port", str(port)]
    with listening(argv, port=port, env=here.env, cwd=here.path("agent"), start_s=_START_S) as server:
        _post(port, f"{PATH}?agent=mock", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}})
        yield server


def say(port: int, *, seconds: float, per_s: int) -> int:
    """Has the agent say so many events; gives how many they were."""
    request = {"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": {"seconds": seconds, "per_s": per_s}}
    return _post(port, PATH, request)["result"]["written"]


def _post(port: int, path: str, message: Mapping[str, object]) -> dict[str, dict[str, int]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_WAIT_S)
    connection.request("POST", path, body=json.dumps(message), headers={"Content-Type": "application/json"})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    if answer.status != 200:
        raise CannotInstall(body.decode(errors="replace")[:500])
    return json.loads(body)
