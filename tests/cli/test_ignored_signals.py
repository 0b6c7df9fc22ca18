"""Whatever the caller ignores, the agent and its tools start with the signals as a shell would give them."""

import os
import sys

import pytest

from tests.cli_env import CliEnv

IGNORE = """
import os, signal, sys
for name in sys.argv[1].split():
    signal.signal(signal.Signals["SIG" + name], signal.SIG_IGN)
os.execv(sys.argv[2], sys.argv[2:])
"""

SCENARIO = """
[[call]]
run = "trap; true & wait; echo waited"
[[call]]
expect = "waited"
say = "Done."
"""


@pytest.mark.parametrize("agent", ["scripted", "codex"])
@pytest.mark.parametrize("signals", ["CHLD", "INT TERM HUP QUIT CHLD"])
def test_a_run_ends_though_its_caller_ignores_signals(cli_env: CliEnv, agent: str, signals: str) -> None:
    cli_env.prefix = [os.path.realpath(sys.executable), "-ISc", IGNORE, signals]
    run = cli_env.run(agent, SCENARIO, "--timeout", "100s")
    assert run.verdict == ("completed", "done", 0), run.stderr
    assert run.ended["exit_code"] == 0
