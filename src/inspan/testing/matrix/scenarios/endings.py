"""Ending a run on purpose: the right verdict, and nothing lives on."""

from ..cell import same
from ..ground import Ground
from ..scenario import scenario

# Each has a child in a session of its own, which a signal to the agent's group would miss.
_HANGS = '[[call]]\nrun = "touch started; setsid sleep 1000 & sleep 1000"\n'
_MUTE = '[[call]]\nstall = "before-headers"\n'


def _started(ground: Ground) -> str:
    if ground.driver.capabilities.exec == "no":
        run_id = ground.detach(_MUTE)
        log = ground.folder(run_id) / "events.jsonl"
        ground.until(lambda: log.exists() and b"turn_started" in log.read_bytes(), "the first turn")
        return run_id
    run_id = ground.detach(_HANGS)
    ground.until((ground.work / "started").exists, "the tool's first sign")
    return run_id


@scenario("a time limit")
def timeout(ground: Ground) -> None:
    hangs = _MUTE if ground.driver.capabilities.exec == "no" else _HANGS
    story = ground.run(hangs, "--timeout", "8s")
    story.ends("timed_out", "run_timeout")
    same("exit code", story.code, 124)


@scenario("stopped by the user")
def cancel(ground: Ground) -> None:
    run_id = _started(ground)
    ground.order("stop", run_id)
    ground.wait(run_id).ends("cancelled", "stopped")


@scenario("killed by the user")
def kill(ground: Ground) -> None:
    run_id = _started(ground)
    ground.order("kill", run_id)
    ground.wait(run_id).ends("cancelled", "killed")
