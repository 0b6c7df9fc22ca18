"""Calling a program's functions when its agent asks, apart from the run: each question in a task of its own."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, cast

from inspan.errors import InspanError
from inspan.protocol.commands import Answer, Command, Reply, refuse
from inspan.protocol.events import (
    Event,
    HookAnswered,
    HookCalled,
    MessageEnded,
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
    ToolAnswered,
    ToolRequested,
)
from inspan.protocol.session import HookName
from inspan.system.threads import call_stranger

from .hooks import Hook, build_hook_answer, build_hook_argument, build_hook_failure
from .permissions import OnPermission, OnQuestion, build_answer, build_request

Send = Callable[[Command], Awaitable[Reply]]
RunTool = Callable[[ToolRequested, Send], Coroutine[Any, Any, None] | None]
"""The work of one call of a tool; None where its result is submitted by hand."""


class Responder:
    """Hears every event of a session and answers what it has a function for. A question that somebody else answered
    meanwhile is let go, with the function's task."""

    def __init__(
        self,
        *,
        on_permission: OnPermission | None = None,
        on_question: OnQuestion | None = None,
        run_tool: "RunTool | None" = None,
        hooks: Mapping[HookName, Hook] | None = None,
    ) -> None:
        self._hooks = hooks or {}
        self._run_tool = run_tool
        self._on_permission = on_permission
        self._on_question = on_question
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._run_id = ""
        self._send: Send = _send_nowhere

    def bind(self, run_id: str, send: Send) -> None:
        """Whom it answers from now on."""
        self._run_id, self._send = run_id, send

    async def on_event(self, event: Event) -> None:
        """As `hear`, for whoever calls functions with events."""
        self.hear(event)

    def hear(self, event: Event) -> None:
        """Never waits."""
        if isinstance(event, PermissionAsked) and self._on_permission:
            self._start(event, self._on_permission, build_request(event, self._run_id))
        elif isinstance(event, QuestionAsked) and self._on_question:
            self._start(event, self._on_question, event.questions)
        elif isinstance(event, ToolRequested) and self._run_tool:
            work = self._run_tool(event, self._send)
            if work:
                self._start_work(event.id, work)
        elif isinstance(event, HookCalled) and event.hook in self._hooks:
            self._start_work(event.id, self._run_hook(event, self._hooks[event.hook]))
        elif isinstance(event, PermissionAnswered | QuestionAnswered | ToolAnswered | HookAnswered):
            self._drop(event.id)
        elif isinstance(event, MessageEnded):
            for identity in list(self._tasks):
                self._drop(identity)

    async def close(self) -> None:
        """Lets go of every function that is still thinking."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)

    def _start(self, asked: PermissionAsked | QuestionAsked, function: Callable[[Any], Any], given: object) -> None:
        self._start_work(asked.id, _respond(asked, function, given, self._send))

    async def _run_hook(self, called: HookCalled, function: Callable[[Any], Any]) -> None:
        try:
            answer = build_hook_answer(called, await call_function(function, build_hook_argument(called, self._run_id)))
        except InspanError as error:
            answer = build_hook_failure(called, str(error))
        except BaseException as error:  # A stranger's function may raise anything: the agent is not to act on that.
            if is_cancelled(error):
                raise
            answer = build_hook_failure(called, f"the hook {called.hook} raised {describe_error(error)}")
        await self._send(answer)

    def _start_work(self, identity: str, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks[identity] = asyncio.get_running_loop().create_task(work, name="inspan question")
        task.add_done_callback(lambda _: self._tasks.pop(identity, None))

    def _drop(self, identity: str) -> None:
        task = self._tasks.get(identity)
        if task and task is not asyncio.current_task():
            task.cancel()


async def _send_nowhere(command: Command) -> Reply:
    return refuse("no session is open")


async def _respond(
    asked: PermissionAsked | QuestionAsked, function: Callable[[Any], Any], given: object, send: Send
) -> None:
    try:
        answer = build_answer(asked, await call_function(function, given))
    except InspanError as error:
        answer = Answer(id=asked.id, allowed=False, reason=str(error), by="function")
    except BaseException as error:  # A stranger's function may raise anything: the agent is not to act because of that.
        if is_cancelled(error):
            raise
        words = f"the function that decides raised {describe_error(error)}"
        answer = Answer(id=asked.id, allowed=False, reason=words, by="function")
    reply = await send(answer)
    if not reply.ok and answer.allowed and answer.input is not None:
        # What it wanted changed must not be done as it was.
        await send(Answer(id=asked.id, allowed=False, reason=reply.error, by="function"))


def is_cancelled(error: BaseException) -> bool:
    """Whether this task was cancelled, and not merely its function's own work."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def describe_error(error: BaseException) -> str:
    """What a stranger's exception says, in characters that can be written anywhere, if it can say anything."""
    try:
        return ascii(error)
    except Exception:  # Its own `repr` fails.
        return type(error).__name__


async def call_function(function: Callable[..., Any], *given: object) -> object:
    """What a stranger's function gives: awaited in this loop if it is a coroutine function, else called in a thread,
    so that it may block."""
    if inspect.iscoroutinefunction(function):
        return await cast(Awaitable[object], function(*given))
    result = await call_stranger(lambda: function(*given))
    return await cast(Awaitable[object], result) if inspect.isawaitable(result) else result
