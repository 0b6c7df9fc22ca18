"""The loops in which a program may run inspan, and what none of them may be left with."""

import asyncio
import gc
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import anyio
import pytest
import uvloop

from inspan import Event
from inspan.protocol.events import RunStarted, TextSaid, ToolStarted
from tests.api.run_env import descriptors
from tests.cli_env import wait_until

T = TypeVar("T")
Scene = Callable[[], Coroutine[Any, Any, T]]


class Host(Protocol):
    """Runs a scene to its end, in a loop of its own making."""

    def __call__(self, scene: Scene[T]) -> T: ...


def in_asyncio(scene: Scene[T]) -> T:
    return asyncio.run(scene())


def in_uvloop(scene: Scene[T]) -> T:
    return uvloop.run(scene())


def in_anyio(scene: Scene[T]) -> T:
    return anyio.run(scene)


def in_anyio_on_uvloop(scene: Scene[T]) -> T:
    return anyio.run(scene, backend_options={"use_uvloop": True})


def in_a_thread(scene: Scene[T], run: Host = in_asyncio) -> T:
    results, errors = list[T](), list[BaseException]()

    def work() -> None:
        try:
            results.append(run(scene))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def in_a_thread_on_uvloop(scene: Scene[T]) -> T:
    return in_a_thread(scene, in_uvloop)


HOSTS: dict[str, Host] = {
    "asyncio": in_asyncio,
    "uvloop": in_uvloop,
    "anyio": in_anyio,
    "anyio on uvloop": in_anyio_on_uvloop,
    "thread": in_a_thread,
    "thread on uvloop": in_a_thread_on_uvloop,
}
each_host = pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS.keys())
each_loop = pytest.mark.parametrize("host", [in_asyncio, in_uvloop], ids=["asyncio", "uvloop"])


@contextmanager
def assert_nothing_left() -> Generator[None]:
    """What happens inside leaves no descriptor, thread or child behind."""
    uvloop.run(asyncio.sleep(0))  # Its library keeps a pipe for signals from its first loop on.
    gc.collect()  # What another test has left may not be closed meanwhile.
    before, threads, children = descriptors(), set(threading.enumerate()), _children()
    yield
    wait_until(lambda: set(threading.enumerate()) <= threads, "end of the last thread")
    wait_until(lambda: _children() <= children, "end of the last child")
    wait_until(lambda: descriptors() <= before, f"end of {descriptors() - before}")


def other_tasks() -> set[str]:
    """The names of the tasks that live beside the one that asks."""
    return {task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}}


class EventRecorder:
    """An event callback that notes all it hears; `wait_for_start`, `wait_for_text` and `wait_for_tool` wait for the
    first of a kind.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._heard = asyncio.Condition()

    async def __call__(self, event: Event) -> None:
        self.events.append(event)
        async with self._heard:
            self._heard.notify_all()

    async def record(self, event: Event) -> None:
        await self(event)

    async def wait_for_start(self) -> RunStarted:
        return await self._first(RunStarted)

    async def wait_for_text(self) -> TextSaid:
        return await self._first(TextSaid)

    async def wait_for_tool(self) -> ToolStarted:
        return await self._first(ToolStarted)

    async def _first(self, kind: type[T]) -> T:
        async with self._heard:
            await self._heard.wait_for(lambda: any(isinstance(event, kind) for event in self.events))
        return next(event for event in self.events if isinstance(event, kind))


async def await_cancelled(call: "asyncio.Task[Any]") -> None:
    """Waits for a call that must end by its cancellation."""
    with pytest.raises(asyncio.CancelledError):
        await call


async def gather_all(*work: Awaitable[T]) -> list[T]:
    return list(await asyncio.gather(*work))


def _children() -> set[str]:
    own = Path(f"/proc/{os.getpid()}/task")
    return {pid for task in own.iterdir() for pid in _read(task / "children").split()}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
