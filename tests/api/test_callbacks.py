"""A program's own function hears every event in order; whatever it does, the run does not suffer from it."""

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

import inspan
from inspan import AgentResult, Event, RunEnded
from inspan.protocol.events import EndingBegan, ErrorReported, RunStarted, TextSaid
from inspan.running import callbacks as telling
from inspan.running.callbacks import EventCallback
from tests.cli_env import wait_until

from .conftest import Play
from .run_env import RunEnv, descriptors, wait_until_async

_WORKS = "begin()\nfor number in range(20): say(f'word {number}')\nfinish()"
_WAITS = "begin(); say('hello')\nwhile not os.path.exists('go'): time.sleep(0.01)\nfinish()"
_STAYS = "begin()\nsay('here')\nwhile True: time.sleep(86400)"


class _Problems(list[str]):
    """What the loop's exception handler was told."""

    def catch(self) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, problem: self.append(problem["message"]))


class _Async:
    def __init__(self, heard: list[Event]) -> None:
        self.heard = heard

    async def __call__(self, event: Event) -> None:
        await asyncio.sleep(0)
        self.heard.append(event)


async def _note(heard: list[Event], event: Event) -> None:
    await asyncio.sleep(0)
    heard.append(event)


_LISTENERS: dict[str, Callable[[list[Event]], EventCallback]] = {
    "function": lambda heard: heard.append,
    "coroutine function": lambda heard: partial(_note, heard),
    "object with an async call": _Async,
    "function that gives something back": lambda heard: lambda event: heard.append(event) or True,
    "lambda around a coroutine": lambda heard: lambda event: _note(heard, event),
}


@pytest.mark.parametrize("kind", _LISTENERS)
def test_every_event_is_heard_once_and_in_the_order_of_the_log(
    run_env: RunEnv, use_fake_agent: Play, kind: str
) -> None:
    use_fake_agent(_WORKS)
    before, heard = descriptors(), list[Event]()
    result = asyncio.run(inspan.run(run_env.task, on_event=_LISTENERS[kind](heard)))
    assert result.ok
    assert heard == run_env.events()
    assert len(heard) == 25
    assert not descriptors() - before


def test_a_slow_function_neither_delays_the_end_of_the_run_nor_misses_a_word(
    run_env: RunEnv, use_fake_agent: Play
) -> None:
    use_fake_agent(_WORKS)
    heard: list[Event] = []

    def hear(event: Event) -> None:
        if not heard:
            wait_until(run_env.has_ended, "end of a run whose callback is still in its first call")
        heard.append(event)

    assert asyncio.run(inspan.run(run_env.task, on_event=hear)).ok
    assert heard == run_env.events()


def test_a_slow_coroutine_neither_delays_the_end_of_the_run_nor_misses_a_word(
    run_env: RunEnv, use_fake_agent: Play
) -> None:
    use_fake_agent(_WORKS)
    heard: list[Event] = []

    async def hear(event: Event) -> None:
        if not heard:
            await wait_until_async(run_env.has_ended, "end of a run whose callback is still in its first call")
        heard.append(event)

    assert asyncio.run(asyncio.wait_for(inspan.run(run_env.task, on_event=hear), 60)).ok
    assert heard == run_env.events()


def test_a_function_that_is_slow_after_the_end_is_waited_for_as_long_as_it_makes_progress(
    run_env: RunEnv, use_fake_agent: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake_agent("begin(); say('hello'); finish()")
    monkeypatch.setattr(telling, "CALLBACK_TIMEOUT_S", 4.0)
    heard: list[Event] = []

    def hear(event: Event) -> None:
        wait_until(run_env.has_ended, "end")
        time.sleep(0.8)  # Together more than the patience, each of them much less.
        heard.append(event)

    assert asyncio.run(inspan.run(run_env.task, on_event=hear)).ok
    assert heard == run_env.events()
    assert len(heard) * 0.8 > 4.0


def test_a_function_that_never_returns_is_left_alone_after_a_while(
    run_env: RunEnv, use_fake_agent: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake_agent("begin(); say('hello'); finish()")
    monkeypatch.setattr(telling, "CALLBACK_TIMEOUT_S", 0.3)
    problems, released, called = _Problems(), threading.Event(), list[Event]()

    def hear(event: Event) -> None:
        called.append(event)
        released.wait(60)

    result = asyncio.run(_run_catching(problems, inspan.run(run_env.task, on_event=hear)))
    assert result.ok
    assert problems == [
        "inspan: the event callback stays in one call for 0.3 s and more: it is left alone, and 5 events were not"
        " delivered to it"
    ]
    (thread,) = (each for each in threading.enumerate() if each.name == "inspan-callback")
    released.set()
    thread.join(60)
    assert called == run_env.events()[:1], "who was left alone is not called again"


def test_a_coroutine_that_never_returns_is_cancelled_after_a_while(
    run_env: RunEnv, use_fake_agent: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake_agent("begin(); say('hello'); finish()")
    monkeypatch.setattr(telling, "CALLBACK_TIMEOUT_S", 0.3)
    problems, fates = _Problems(), list[str]()

    async def hear(event: Event) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            fates.append(type(event).__name__)
            raise

    assert asyncio.run(_run_catching(problems, inspan.run(run_env.task, on_event=hear))).ok
    assert fates == ["RunStarted"]
    assert [problem.partition(" for ")[0] for problem in problems] == ["inspan: the event callback stays in one call"]


def test_not_even_an_exit_in_it_ends_the_run(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent(_WAITS)
    problems, heard = _Problems(), list[Event]()

    def hear(event: Event) -> None:
        heard.append(event)
        _release_agent(run_env, event)
        sys.exit(3)

    assert asyncio.run(_run_catching(problems, inspan.run(run_env.task, on_event=hear))).ok
    assert heard == run_env.events()
    assert problems == ["inspan: the event callback raised"]


@pytest.mark.parametrize("way", ["coroutine function", "function that gives a coroutine"])
def test_not_even_an_exit_in_a_coroutine_ends_the_run(run_env: RunEnv, use_fake_agent: Play, way: str) -> None:
    use_fake_agent(_WAITS)
    problems, heard = _Problems(), list[Event]()

    async def hear(event: Event) -> None:
        heard.append(event)
        _release_agent(run_env, event)
        await asyncio.sleep(0)
        sys.exit(3)

    def call(event: Event) -> Awaitable[None]:
        return hear(event)

    chosen = hear if way == "coroutine function" else call
    assert asyncio.run(_run_catching(problems, inspan.run(run_env.task, on_event=chosen))).ok
    assert heard == run_env.events()
    assert problems == ["inspan: the event callback raised"]
    assert ErrorReported(message="the event callback raised SystemExit(3); it is still called") in heard


def test_not_even_a_cancellation_in_it_ends_the_run(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent(_WAITS)
    problems, heard = _Problems(), list[Event]()

    async def hear(event: Event) -> None:
        heard.append(event)
        _release_agent(run_env, event)
        raise asyncio.CancelledError

    assert asyncio.run(_run_catching(problems, inspan.run(run_env.task, on_event=hear))).ok
    assert heard == run_env.events()
    assert problems == ["inspan: the event callback raised"]


def test_a_function_can_cancel_its_run(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent(_STAYS)
    heard: list[Event] = []

    async def scene() -> None:
        loop = asyncio.get_running_loop()

        def hear(event: Event) -> None:
            heard.append(event)
            if isinstance(event, TextSaid):
                loop.call_soon_threadsafe(running.cancel)

        running = asyncio.create_task(inspan.run(run_env.task, on_event=hear))
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(asyncio.wait_for(scene(), 60))
    _assert_interrupted(run_env, heard)


def test_a_coroutine_can_cancel_its_run(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent(_STAYS)
    heard: list[Event] = []

    async def scene() -> None:
        async def hear(event: Event) -> None:
            heard.append(event)
            if isinstance(event, TextSaid):
                running.cancel()
                await asyncio.sleep(0)

        running = asyncio.create_task(inspan.run(run_env.task, on_event=hear))
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(asyncio.wait_for(scene(), 60))
    _assert_interrupted(run_env, heard)


def test_what_the_program_has_set_for_its_context_holds_in_the_function(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent("begin(); finish()")
    request: ContextVar[str] = ContextVar("request", default="nobody's")
    seen: set[str] = set()

    async def scene() -> None:
        request.set("mine")
        await inspan.run(run_env.task, on_event=lambda event: seen.add(request.get()))

        async def hear(event: Event) -> None:
            seen.add(request.get())

        await inspan.run(run_env.task, on_event=hear)

    asyncio.run(scene())
    assert seen == {"mine"}


def test_a_function_that_blocks_does_not_block_the_loop_of_the_program(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent("begin(); finish()")
    turned = threading.Event()
    heard: list[Event] = []

    def hear(event: Event) -> None:
        heard.append(event)
        if isinstance(event, RunStarted):
            assert turned.wait(60)

    async def scene() -> AgentResult:
        running = asyncio.create_task(inspan.run(run_env.task, on_event=hear))
        await wait_until_async(lambda: heard, "event")
        turned.set()
        return await running

    assert asyncio.run(scene()).ok
    assert heard == run_env.events()


def _release_agent(run_env: RunEnv, event: Event) -> None:
    """Lets the puppet go on once the log says that the callback has raised."""
    if isinstance(event, ErrorReported):
        (run_env.work / "go").touch()


async def _run_catching(problems: _Problems, work: Coroutine[Any, Any, AgentResult]) -> AgentResult:
    problems.catch()
    return await work


def _assert_interrupted(run_env: RunEnv, heard: list[Event]) -> None:
    assert heard == run_env.events()
    assert isinstance(heard[-1], RunEnded)
    assert (heard[-1].outcome, heard[-1].reason) == ("cancelled", "interrupted")
    assert [event.reason for event in heard if isinstance(event, EndingBegan)] == ["interrupted"]
