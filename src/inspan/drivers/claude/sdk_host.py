"""The process of the channel `sdk`: it holds a client of `claude-agent-sdk` and speaks stream-json on its own pipes.

Run as a script, with the folder of the package. Each line that it reads is one that the program itself would take: the
request `initialize`, which has the SDK's `options` too, messages, the other control requests, and the answers to what
is asked. What the program says leaves as it is; control messages, which the SDK keeps to itself, are told by what
comes of them. Nothing else is written to stdout, and the end of stdin is the end.
"""

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from claude_agent_sdk import (
        ClaudeAgentOptions,
        ClaudeSDKClient,
        PermissionResultAllow,
        PermissionResultDeny,
        ToolPermissionContext,
    )
    from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport

Json = dict[str, Any]
_MAX_LINE_BYTES = 64 * 1024 * 1024
# The program ends by itself within this time after its stdin has; else the SDK ends it.
_LEAVE_S = 5.0
_CLOSE_S = 20.0


class Output:
    """The pipe to inspan: whatever prints to stdout by habit prints to stderr instead."""

    def __init__(self) -> None:
        self._file = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)

    def write(self, frame: Json) -> None:
        self._file.write(json.dumps(frame, separators=(",", ":")).encode() + b"\n")
        self._file.flush()


class Host:
    """One client from the first line to the end of stdin."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._client: ClaudeSDKClient | None = None
        self._transport: SubprocessCLITransport | None = None
        self._asked: dict[str, asyncio.Future[Json]] = {}
        self._count = 0
        self._commands: asyncio.Queue[Json] = asyncio.Queue()
        self._left = asyncio.Event()
        self._reading: asyncio.Task[int] | None = None
        self._control: dict[str, Callable[[ClaudeSDKClient, Json], Any]] = {
            "interrupt": lambda client, request: client.interrupt(),
            "set_model": lambda client, request: client.set_model(request["model"]),
            "set_permission_mode": lambda client, request: client.set_permission_mode(request["mode"]),
        }

    def take_line(self, line: bytes) -> None:
        """One line of stdin, or its end."""
        if not line:
            self._left.set()
            return
        frame: Json = json.loads(line)
        if frame["type"] == "control_response":
            response = frame["response"]
            waiting = self._asked.pop(response["request_id"], None)
            if waiting and not waiting.done():
                waiting.set_result(response["response"])
        else:
            self._commands.put_nowait(frame)

    def leave(self) -> None:
        self._left.set()

    async def run(self) -> int:
        """Until stdin has ended or the program has; gives the program's exit code."""
        working = asyncio.create_task(self._work())
        leaving = asyncio.create_task(self._left.wait())
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        return await self._close(working)

    async def _close(self, working: "asyncio.Task[int]") -> int:
        if self._transport and self._reading:
            await self._transport.end_input()
            await asyncio.wait({self._reading}, timeout=_LEAVE_S)
        done = self._reading.result() if self._reading and self._reading.done() else 0
        working.cancel()
        if self._client:
            await asyncio.wait({asyncio.create_task(self._client.disconnect())}, timeout=_CLOSE_S)
        return done

    async def _work(self) -> int:
        """Carries out one command after the other; ends with the program."""
        problem = await self._answer(await self._commands.get(), self._connect)
        if problem:
            return _find_exit_code(problem)
        self._reading = asyncio.create_task(self._read())
        carrying_out = asyncio.create_task(self._carry_out())
        try:
            return await asyncio.shield(self._reading)
        finally:
            carrying_out.cancel()

    async def _carry_out(self) -> None:
        while True:
            frame = await self._commands.get()
            if frame["type"] == "control_request":
                await self._answer(frame, self._send_control)
            else:
                await self._require_client().query(_once(frame))

    async def _answer(self, frame: Json, act: Callable[[Json], Any]) -> Exception | None:
        """Does what a control request asks for and says how it went, unless the program has left, which says enough."""
        problem: Exception | None = None
        told: Json = {"subtype": "success", "request_id": frame["request_id"], "response": {}}
        try:
            await act(frame["request"])
        except Exception as error:  # The SDK raises bare ones too.
            problem = _complain(error)
            told |= {"subtype": "error", "error": str(error)}
        if getattr(problem, "exit_code", None) is None:
            self._output.write({"type": "control_response", "response": told})
        return problem

    async def _send_control(self, request: Json) -> None:
        await self._control[request["subtype"]](self._require_client(), request)

    def _require_client(self) -> "ClaudeSDKClient":
        if self._client is None:
            raise RuntimeError("there is no client yet")
        return self._client

    async def _connect(self, request: Json) -> None:
        from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient  # An optional extra.

        asks = request["asks"]
        options = ClaudeAgentOptions(
            **request["options"],
            max_buffer_size=_MAX_LINE_BYTES,
            can_use_tool=self._ask_permission if asks else None,
            hooks=self._build_hooks(request["hooks"] or {}),
        )
        self._transport = self._build_transport(options)
        self._client = ClaudeSDKClient(options, self._transport)
        await self._client.connect()

    def _build_hooks(self, hooks: Json) -> Any:
        from claude_agent_sdk import HookMatcher  # An optional extra.

        return {
            event: [
                HookMatcher(
                    matcher=each["matcher"],
                    hooks=[self._build_hook(name) for name in each["hookCallbackIds"]],
                    timeout=each["timeout"],
                )
                for each in matchers
            ]
            for event, matchers in hooks.items()
        }

    def _build_hook(self, name: str) -> Callable[..., Any]:
        async def call(given: Any, tool_use_id: str | None, _: Any) -> Any:
            return await self._ask(
                {"subtype": "hook_callback", "callback_id": name, "input": given, "tool_use_id": tool_use_id}
            )

        return call

    def _build_transport(self, options: "ClaudeAgentOptions") -> "SubprocessCLITransport":
        """The SDK's own, which tells what the program says as it comes: its messages leave out some of it."""
        from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport  # An optional extra.

        write = self._output.write

        class Telling(SubprocessCLITransport):
            async def read_messages(self) -> AsyncIterator[Json]:
                async for frame in super().read_messages():
                    if not _is_for_the_sdk(frame):
                        write(frame)
                    yield frame

        if options.can_use_tool:
            options = replace(options, permission_prompt_tool_name="stdio")
        return Telling(_never(), options)

    async def _read(self) -> int:
        """Reads until the program has left, as the SDK wants to be read; gives the exit code."""
        try:
            async for _ in self._require_client().receive_messages():
                pass
        except Exception as error:  # As above.
            return _find_exit_code(_complain(error))
        return 0

    async def _ask_permission(
        self, tool: str, given: Json, context: "ToolPermissionContext"
    ) -> "PermissionResultAllow | PermissionResultDeny":
        from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny  # An optional extra.

        answer = await self._ask(
            {
                "subtype": "can_use_tool",
                "tool_name": tool,
                "input": given,
                "tool_use_id": context.tool_use_id,
                "decision_reason": context.decision_reason,
            }
        )
        if answer["behavior"] == "allow":
            return PermissionResultAllow(updated_input=answer["updatedInput"])
        return PermissionResultDeny(message=answer["message"])

    async def _ask(self, request: Json) -> Json:
        """Waits for as long as inspan lets a person think; the program may take its question back."""
        self._count += 1
        identity = f"sdk-{self._count}"
        waiting = self._asked[identity] = asyncio.get_running_loop().create_future()
        self._output.write({"type": "control_request", "request_id": identity, "request": request})
        try:
            return await waiting
        except asyncio.CancelledError:
            self._asked.pop(identity, None)
            self._output.write({"type": "control_cancel_request", "request_id": identity})
            raise


def _is_for_the_sdk(frame: Json) -> bool:
    """What the SDK and the program have between them."""
    return str(frame.get("type")).startswith("control_") or frame.get("sdk_host_only") is True


def _complain(error: Exception) -> Exception:
    print(f"{type(error).__name__}: {error}", file=sys.stderr)
    return error


def _find_exit_code(error: Exception) -> int:
    """The program's own, which the SDK's ProcessError has, as a shell would tell it."""
    code = getattr(error, "exit_code", None)
    if code is None:
        return 1
    return code if code >= 0 else 128 - code


async def _once(frame: Json) -> AsyncIterator[Json]:
    yield frame


async def _never() -> AsyncIterator[Json]:
    return
    yield {}


async def serve(output: Output) -> int:
    host, loop = Host(output), asyncio.get_running_loop()

    def read() -> None:
        for line in sys.stdin.buffer:
            loop.call_soon_threadsafe(host.take_line, line)
        loop.call_soon_threadsafe(host.take_line, b"")

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, host.leave)
    threading.Thread(target=read, daemon=True).start()
    return await host.run()


if __name__ == "__main__":
    sys.path.append(sys.argv[1])
    done = asyncio.run(serve(Output()))
    sys.stderr.flush()
    os._exit(done)  # Whatever the libraries have left running has nothing more to do.
