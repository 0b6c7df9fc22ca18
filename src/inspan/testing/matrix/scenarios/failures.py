"""A provider that refuses, breaks off or talks nonsense: a failure at once, no success, no storm of retries."""

import time

from ..cell import must, same
from ..ground import Ground, Story
from ..scenario import scenario

_PAUSE_S = 3600
_MOST_CALLS = 4


def _failing(ground: Ground, answer: str) -> Story:
    story = ground.run(f'[[call]]\n{answer}\nrepeat = "always"\n')
    calls = len(story.of("model_call_ended"))
    must(calls <= _MOST_CALLS, f"the agent asked {calls} times behind our back")
    must(story.code != 0, "the command left with 0")
    must(story.ended.get("next"), "no next step was told")
    return story


@scenario("401: not let in")
def status_401(ground: Ground) -> None:
    _failing(ground, "fail = {status = 401}").ends("failed", "authentication")


@scenario("429, with the moment it resets")
def status_429(ground: Ground) -> None:
    before = time.time()
    story = _failing(ground, f"fail = {{status = 429, headers = {{retry-after = '{_PAUSE_S}'}}}}")
    story.ends("limited", "rate_limit")
    resets_at = story.ended.get("resets_at") or 0
    must(before + _PAUSE_S <= resets_at <= time.time() + _PAUSE_S, f"the limit was told to reset at {resets_at}")


@scenario("500: the provider is broken")
def status_500(ground: Ground) -> None:
    _failing(ground, "fail = {status = 500}").ends("failed", "overloaded")


@scenario("529: the provider is overloaded")
def status_529(ground: Ground) -> None:
    _failing(ground, "fail = {status = 529}").ends("failed", "overloaded")


@scenario("a stream that is cut")
def cut(ground: Ground) -> None:
    _failing(ground, 'say = "so far"\ncut = true').ends("failed", "network", "invalid_response")


@scenario("a model that falls silent")
def stall(ground: Ground) -> None:
    story = ground.run('[[call]]\nstall = "mid-stream"\nsay = "so"\n', "--stall-timeout", "2s")
    story.ends("timed_out", "model_stall")


@scenario("an answer that nobody can read")
def garbage(ground: Ground) -> None:
    story = _failing(ground, 'garbage = "<html>Bad gateway</html>"')
    story.ends("failed", "invalid_response", "network")
    same("texts", [text for text in story.texts if "html" not in text], story.texts)
