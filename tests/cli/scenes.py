"""Scenarios for the built-in agent, and runs that wait for the test."""

from typing import Any

from tests.house import House, until

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


def waiting_run(house: House, *more: str) -> str:
    """Starts a run whose tool waits for `let_go`, and gives its id once the tool is at it."""
    run_id = house.detach("scripted", WAITS, *more)
    until(lambda: (house.work / "started").exists(), "tool")
    return run_id


def let_go(house: House) -> None:
    (house.work / "go").touch()


def ended_run(house: House, scenario: str = SAYS_HELLO) -> str:
    """Runs to the end and gives the id."""
    run_id = house.detach("scripted", scenario)
    house.inspan("wait", run_id)
    return run_id


def last_event(house: House, run_id: str) -> dict[str, Any]:
    """The last record that a run's log has now."""
    return house.events(run_id)[-1]
