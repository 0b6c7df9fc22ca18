"""A Python program of somebody else's, run in a house: for what the command line has no flag for."""

import json
import subprocess
import sys
from typing import Any

from tests.cli_env import WAIT_S, CliEnv

_PROGRAM = """
import json, sys
import inspan, msgspec

given = json.load(sys.stdin)
options = given["options"]
options["mcp_servers"] = msgspec.convert(options.get("mcp_servers", {}), dict[str, inspan.McpServer])
method = getattr(inspan.create_agent_runner(given["agent"], profile="clean"), given["mode"])
try:
    result = inspan.run_sync(method("do it", **options))
except inspan.InspanError as error:
    sys.exit(f"{error.code}: {error}")
print(msgspec.json.encode(result).decode())
"""


def run_in_python(cli_env: CliEnv, agent: str, mode: str, scenario: str, **options: Any) -> dict[str, Any]:
    """The result of `runner(agent).mode("do it", …)` on a scripted model, as plain data."""
    given = {
        "agent": agent,
        "mode": mode,
        "options": {"cwd": str(cli_env.work), "model_from": cli_env.scenario(scenario), **options},
    }
    done = subprocess.run(
        [*cli_env.prefix, sys.executable, "-c", _PROGRAM],
        env=cli_env.env,
        cwd=cli_env.work,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
