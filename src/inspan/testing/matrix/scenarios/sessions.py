"""Going on with a conversation."""

from inspan.testing.matrix.cell import require, require_equal
from inspan.testing.matrix.cell_environment import CellEnvironment
from inspan.testing.matrix.scenario import scenario


def _turn_script(say: str, *holds: str) -> str:
    anywhere = ", ".join(f'"{text}"' for text in holds)
    return f'[[call]]\nexpect_anywhere = [{anywhere}]\nsay = "{say}"\n'


@scenario("two turns, by resuming")
def resume(cell_env: CellEnvironment) -> None:
    first = cell_env.run(_turn_script("re-alpha"), prompt="alpha-word")
    first.require_completed()
    second = cell_env.run(
        _turn_script("re-beta", "alpha-word", "re-alpha"), "--resume", first.run_id, prompt="beta-word"
    )
    second.require_completed()
    require_equal("texts of the second turn", second.texts, ["re-beta"])
    require_equal("session", second.ended["session_id"], first.ended["session_id"])
    require_equal("tokens of the second turn", second.ended["usage"], first.ended["usage"])


@scenario("a fork leaves the session as it is")
def fork(cell_env: CellEnvironment) -> None:
    first = cell_env.run(_turn_script("re-alpha"), prompt="alpha-word")
    first.require_completed()
    split = cell_env.run(_turn_script("re-fork", "re-alpha"), "--resume", first.run_id, "--fork", prompt="fork-word")
    split.require_completed()
    require(split.ended["session_id"] != first.ended["session_id"], "the fork has the session's own id")
    trap = '[[call]]\nwhen = "fork-word"\nfail = {status = 400}\n'
    again = cell_env.run(trap + _turn_script("re-beta", "re-alpha"), "--resume", first.run_id, prompt="beta-word")
    again.require_completed()
    require_equal("session", again.ended["session_id"], first.ended["session_id"])
