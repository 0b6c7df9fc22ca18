"""A provider that refuses, breaks off or talks nonsense: a failure at once, no success, no storm of retries."""

import time

from inspan.testing.matrix.cell import require, require_equal
from inspan.testing.matrix.cell_environment import CellEnvironment, RunTrace
from inspan.testing.matrix.scenario import scenario

_PAUSE_S = 3600
_MOST_CALLS = 4


def _run_failing(cell_env: CellEnvironment, answer: str) -> RunTrace:
    story = cell_env.run(f'[[call]]\n{answer}\nrepeat = "always"\n')
    calls = len(story.select_events("model_call_ended"))
    require(calls <= _MOST_CALLS, f"the agent asked {calls} times behind our back")
    require(story.code != 0, "the command left with 0")
    require(story.ended.get("next"), "no next step was told")
    return story


@scenario("401: not let in")
def status_401(cell_env: CellEnvironment) -> None:
    _run_failing(cell_env, "fail = {status = 401}").require_outcome("failed", "authentication")


@scenario("429, with the moment it resets")
def status_429(cell_env: CellEnvironment) -> None:
    before = time.time()
    story = _run_failing(cell_env, f"fail = {{status = 429, headers = {{retry-after = '{_PAUSE_S}'}}}}")
    story.require_outcome("limited", "rate_limit")
    resets_at = story.ended.get("resets_at") or 0
    require(before + _PAUSE_S <= resets_at <= time.time() + _PAUSE_S, f"the limit was reported to reset at {resets_at}")


@scenario("500: the provider is broken")
def status_500(cell_env: CellEnvironment) -> None:
    _run_failing(cell_env, "fail = {status = 500}").require_outcome("failed", "overloaded")


@scenario("529: the provider is overloaded")
def status_529(cell_env: CellEnvironment) -> None:
    _run_failing(cell_env, "fail = {status = 529}").require_outcome("failed", "overloaded")


@scenario("a stream that is cut")
def cut(cell_env: CellEnvironment) -> None:
    _run_failing(cell_env, 'say = "so far"\ncut = true').require_outcome("failed", "network", "invalid_response")


@scenario("a model that falls silent")
def stall(cell_env: CellEnvironment) -> None:
    story = cell_env.run('[[call]]\nstall = "mid-stream"\nsay = "so"\n', "--stall-timeout", "2s")
    story.require_outcome("timed_out", "model_stall")


@scenario("an answer that nobody can read")
def garbage(cell_env: CellEnvironment) -> None:
    story = _run_failing(cell_env, 'garbage = "<html>Bad gateway</html>"')
    story.require_outcome("failed", "invalid_response", "network")
    require_equal("texts", [text for text in story.texts if "html" not in text], story.texts)
