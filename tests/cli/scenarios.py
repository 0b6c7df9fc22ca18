"""Scenarios for the built-in agent, and runs that wait for the test."""

import re
from pathlib import Path
from typing import Any, NamedTuple

from tests.cli_env import CliEnv, wait_until


class EndedRun(NamedTuple):
    """A house, and the id of the only run in it, which has said hello."""

    cli_env: CliEnv
    run_id: str


SAYS_HELLO = "[[call]]\nsay = 'hello'\n"
FAILS = "[[call]]\nfail = {status = 500}\n"
# The tokens of one call of a scenario that does not say otherwise.
CALL_TOKENS = 137
WAITS = """
[[call]]
run = "touch started; while [ ! -e go ]; do sleep 0.02; done"
[[call]]
say = "went on"
"""


def start_waiting_run(cli_env: CliEnv, *more: str) -> str:
    """Starts a run whose tool waits for `release_tool`, and gives its id once the tool is at it and the log says so."""
    run_id = cli_env.detach("scripted", WAITS, *more)
    wait_until(lambda: (cli_env.work / "started").exists(), "tool")
    cli_env.wait_for_events(run_id, "model_call_ended", "tool_started")
    return run_id


def release_tool(cli_env: CliEnv) -> None:
    (cli_env.work / "go").touch()


def run_to_end(cli_env: CliEnv, scenario: str = SAYS_HELLO, *, cwd: Path | None = None) -> str:
    """Runs to the end and gives the id."""
    run_id = cli_env.detach("scripted", scenario, "--cwd", str(cwd or cli_env.work))
    cli_env.wait_for_end(run_id)
    return run_id


def strip_run_note(stderr: str) -> str:
    """What a command said besides the line that tells which run it took, where it told so."""
    return re.sub(r"\Ainspan: run \S+: \S+ in .+, \S+ ago\n", "", stderr)


def last_event(cli_env: CliEnv, run_id: str) -> dict[str, Any]:
    """The last record that a run's log has now."""
    return cli_env.events(run_id)[-1]
