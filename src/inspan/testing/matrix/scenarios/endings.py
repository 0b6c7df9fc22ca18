"""Ending a run on purpose: the right verdict, and nothing lives on."""

from inspan.testing.matrix.cell import require_equal
from inspan.testing.matrix.cell_environment import CellEnvironment
from inspan.testing.matrix.scenario import scenario

# Each has a child in a session of its own, which a signal to the agent's group would miss.
_HANGS = '[[call]]\nrun = "touch started; setsid sleep 1000 & sleep 1000"\n'
_MUTE = '[[call]]\nstall = "before-headers"\n'


def _start_hanging(cell_env: CellEnvironment) -> str:
    if cell_env.driver.capabilities.exec == "no":
        run_id = cell_env.detach(_MUTE)
        log = cell_env.folder(run_id) / "events.jsonl"
        cell_env.wait_until(lambda: log.exists() and b"turn_started" in log.read_bytes(), "the first turn")
        return run_id
    run_id = cell_env.detach(_HANGS)
    cell_env.wait_until((cell_env.work / "started").exists, "the tool's first sign")
    return run_id


@scenario("a time limit")
def timeout(cell_env: CellEnvironment) -> None:
    hangs = _MUTE if cell_env.driver.capabilities.exec == "no" else _HANGS
    story = cell_env.run(hangs, "--timeout", "8s")
    story.require_outcome("timed_out", "run_timeout")
    require_equal("exit code", story.code, 124)


@scenario("stopped by the user")
def cancel(cell_env: CellEnvironment) -> None:
    run_id = _start_hanging(cell_env)
    cell_env.run_command("stop", run_id)
    cell_env.wait(run_id).require_outcome("cancelled", "stopped")


@scenario("killed by the user")
def kill(cell_env: CellEnvironment) -> None:
    run_id = _start_hanging(cell_env)
    cell_env.run_command("kill", run_id)
    cell_env.wait(run_id).require_outcome("cancelled", "killed")
