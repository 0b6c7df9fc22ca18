"""Going on with a conversation."""

from ..cell import must, same
from ..ground import Ground
from ..scenario import scenario


def _turn(say: str, *holds: str) -> str:
    anywhere = ", ".join(f'"{text}"' for text in holds)
    return f'[[call]]\nexpect_anywhere = [{anywhere}]\nsay = "{say}"\n'


@scenario("two turns, by resuming")
def resume(ground: Ground) -> None:
    first = ground.run(_turn("re-alpha"), prompt="alpha-word")
    first.is_done()
    second = ground.run(_turn("re-beta", "alpha-word", "re-alpha"), "--resume", first.run_id, prompt="beta-word")
    second.is_done()
    same("texts of the second turn", second.texts, ["re-beta"])
    same("session", second.ended["session_id"], first.ended["session_id"])
    same("tokens of the second turn", second.ended["usage"], first.ended["usage"])


@scenario("a fork leaves the session as it is")
def fork(ground: Ground) -> None:
    first = ground.run(_turn("re-alpha"), prompt="alpha-word")
    first.is_done()
    split = ground.run(_turn("re-fork", "re-alpha"), "--resume", first.run_id, "--fork", prompt="fork-word")
    split.is_done()
    must(split.ended["session_id"] != first.ended["session_id"], "the fork has the session's own id")
    trap = '[[call]]\nwhen = "fork-word"\nfail = {status = 400}\n'
    again = ground.run(trap + _turn("re-beta", "re-alpha"), "--resume", first.run_id, prompt="beta-word")
    again.is_done()
    same("session", again.ended["session_id"], first.ended["session_id"])
