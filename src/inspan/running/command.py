"""One command run to its end: bounded in time and output, with nothing of it left afterwards.

A run's agent is told of and recorded; of a command only the result is wanted, so that none of that is here.
"""

import asyncio
import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from weakref import WeakKeyDictionary

import msgspec

from inspan.containment.control_groups import count_memory_kills
from inspan.containment.sweep import kill_command_processes
from inspan.contracts.sandbox import ExecResult
from inspan.errors import BadInput, SandboxUnusable
from inspan.gateway.egress import EgressProxy, PortForward
from inspan.protocol.network import NetworkPolicy, format_place
from inspan.protocol.plan import Entry
from inspan.system import forking
from inspan.system.cancellation import run_to_end
from inspan.system.platform import open_exit_fd
from inspan.system.threads import MAX_WAITING, call_in_thread
from inspan.transports.process import Spawned, spawn, write_memory_file

from .box_network import open_servers, receive_listeners
from .shutdown import close_liveness_pipe, kill
from .spawn_agent import build_setup

OnOutput = Callable[[bytes], None]
UNKNOWN_EXIT = -1
_READ_BYTES = 256 * 1024
_GONE_S = 5.0
_DRAIN_S = 5.0
_MAX_HOSTS = 50
_MOST_WORD_BYTES = 131_072
_LARGE_BYTES = 1024 * 1024
_turns: "WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]" = WeakKeyDictionary()


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What is started, and how it is held. `command_id` marks its processes, and nobody else's."""

    argv: list[str]
    env: dict[str, str]
    command_id: str
    stdin: bytes = b""
    liveness_pipe: bool = False
    entry: Entry | None = None
    network: NetworkPolicy = NetworkPolicy()


def start_command(
    command: Command, *, timeout_s: float | None, limit_bytes: int, on_output: OnOutput | None = None
) -> "asyncio.Task[ExecResult]":
    """Starts it; the task ends when nothing of it is left. `limit_bytes` is for each stream; `on_output` hears all of
    both as it comes.

    Cancelling the task, or the time limit, kills it with all that it has started. `SandboxUnusable` is what the task
    raises where its program cannot be started, `BadInput` where it has too many words for one.
    """
    running = _run(command, timeout_s, limit_bytes, on_output)
    return asyncio.get_running_loop().create_task(running, name="inspan command")


class _Stream:
    """Reads a pipe to its end; keeps the beginning and the end of what came."""

    def __init__(self, fd: int, *, limit_bytes: int, on_output: OnOutput | None) -> None:
        self._fd = fd
        self._on_output = on_output
        self._half = max(1, limit_bytes // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self._loop = asyncio.get_running_loop()
        self.dropped_bytes = 0
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(fd, self._read)

    @property
    def content(self) -> bytes:
        if not self.dropped_bytes:
            return bytes(self._head + self._tail)
        return bytes(self._head) + f"\n[inspan: {self.dropped_bytes} bytes left out]\n".encode() + bytes(self._tail)

    def close(self) -> None:
        self._loop.remove_reader(self._fd)
        forking.close(self._fd)

    def _read(self) -> None:
        try:
            chunk = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if chunk:
            self._keep(chunk)
            return
        self._loop.remove_reader(self._fd)
        _finish(self.ended)

    def _keep(self, chunk: bytes) -> None:
        if self._on_output:
            self._on_output(chunk)
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        over = len(self._tail) - self._half
        if over > 0:
            del self._tail[:over]
            self.dropped_bytes += over


class _WayOut:
    """The proxy of a command that may reach some hosts, and those that it asked for in vain."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._servers: list[EgressProxy | PortForward] = []
        self.refused: dict[str, None] = {}

    async def open(self, link: int) -> None:
        entry, network = self._command.entry, self._command.network
        listeners = await receive_listeners(link, count=len(entry.ports) if entry else 0)
        if entry is None or len(listeners) < len(entry.ports):
            return
        self._servers = [EgressProxy(network, proxies=entry.proxies, on_refused=self._on_refused)]
        self._servers += [PortForward(host, port) for port, host in network.local_ports.items()]
        await open_servers(self._servers, listeners)

    async def close(self) -> None:
        for server in self._servers:
            await server.close()

    def _on_refused(self, host: str, port: int) -> None:
        if len(self.refused) < _MAX_HOSTS:
            self.refused[format_place(host, port)] = None


async def _run(command: Command, timeout_s: float | None, limit_bytes: int, on_output: OnOutput | None) -> ExecResult:
    groups = command.entry.groups if command.entry else []
    killed_before = count_memory_kills(groups)
    started = time.monotonic()
    spawned = await _start(command)
    way_out = _WayOut(command)
    streams = [_Stream(fd, limit_bytes=limit_bytes, on_output=on_output) for fd in (spawned.stdout, spawned.stderr)]
    exited, code = _watch_exit(spawned)
    timed_out, forced = False, True
    try:
        try:
            async with asyncio.timeout(timeout_s):
                if spawned.link >= 0:
                    await way_out.open(_take_link(spawned))
                await asyncio.wait({exited})  # Not the future itself: whoever is cancelled cancels what it awaits.
                forced = False
        except TimeoutError:
            timed_out = True
    finally:
        await run_to_end(_end(command, spawned, exited, streams, forced=forced))
        await run_to_end(way_out.close())
    return ExecResult(
        exit_code=code(),
        stdout=streams[0].content,
        stderr=streams[1].content,
        duration_s=time.monotonic() - started,
        timed_out=timed_out,
        dropped_bytes=sum(stream.dropped_bytes for stream in streams),
        refused_hosts=tuple(way_out.refused),
        out_of_memory=count_memory_kills(groups) > killed_before,
    )


async def _start(command: Command) -> Spawned:
    """One command after the other, and the loop turns in between: those that are started at once would stop it for as
    long as all of them take together.
    """
    stdin: bytes | int = command.stdin
    if len(command.stdin) > _LARGE_BYTES:
        stdin = await call_in_thread(lambda: write_memory_file(command.stdin), limit=MAX_WAITING, undo=os.close)
    loop = asyncio.get_running_loop()
    try:
        async with _turns.setdefault(loop, asyncio.Lock()):
            await asyncio.sleep(0)
            given, stdin = stdin, b""
            return _spawn(command, given)
    finally:
        if isinstance(stdin, int):
            os.close(stdin)


def _spawn(command: Command, stdin: bytes | int) -> Spawned:
    """Not in a thread: a process is tied to the life of the one that starts it."""
    try:
        with forking.opening:
            spawned = spawn(
                command.argv,
                command.env,
                stdin=stdin,
                liveness_pipe=command.liveness_pipe,
                setup=build_setup(command.entry),
            )
            for fd in (spawned.stdout, spawned.stderr, spawned.life, spawned.link):
                if fd >= 0:
                    forking.own(fd)
    except OSError as error:
        if error.errno == errno.E2BIG:
            raise _refuse_length(command) from error
        message = f"{command.argv[0]} cannot be started: {error.strerror}."
        raise SandboxUnusable(message, next_step="`inspan doctor` tells what works here.") from error
    return spawned


def _refuse_length(command: Command) -> BadInput:
    """Which part of it is too long for this system."""
    for name, value in command.env.items():
        if len(os.fsencode(name + value)) > _MOST_WORD_BYTES - len("=\0"):
            problem = f"it is too long for a variable: {_MOST_WORD_BYTES:,} bytes are the most that this system takes."
            return BadInput(f"env {name}", "…", problem, next_step="Hand it on in a file.")
    step = "Give what is long by stdin, or in a file that was uploaded."
    return BadInput("argv", "…", "with its environment, it is too long for this system.", next_step=step)


def _take_link(spawned: Spawned) -> int:
    link, spawned.link = spawned.link, -1
    return link


def _watch_exit(spawned: Spawned) -> "tuple[asyncio.Future[None], Callable[[], int]]":
    """When the process has ended, and what it left with: 128 and the number for a signal, as shells have it."""
    loop = asyncio.get_running_loop()
    exited: asyncio.Future[None] = loop.create_future()
    exit_fd = open_exit_fd(spawned.pid)
    codes: list[int] = []

    def reap() -> None:
        loop.remove_reader(exit_fd)
        os.close(exit_fd)
        with suppress(ChildProcessError):  # Somebody else's watcher took the status.
            code = os.waitstatus_to_exitcode(os.waitpid(spawned.pid, 0)[1])
            codes.append(code if code >= 0 else 128 - code)
        _finish(exited)

    loop.add_reader(exit_fd, reap)
    return exited, lambda: codes[0] if codes else UNKNOWN_EXIT


async def _end(
    command: Command, spawned: Spawned, exited: "asyncio.Future[None]", streams: "list[_Stream]", *, forced: bool
) -> None:
    """Kills what is left. A reaper can be killed by what it holds, so that its processes are looked for by name."""
    if not exited.done():
        await kill(spawned)
        await asyncio.wait({exited}, timeout=_GONE_S)
    close_liveness_pipe(spawned)
    if spawned.link >= 0:
        forking.close(_take_link(spawned))
    if forced or command.liveness_pipe:
        await call_in_thread(partial(kill_command_processes, command.command_id), limit=MAX_WAITING)
    await asyncio.wait([stream.ended for stream in streams], timeout=_DRAIN_S)
    for stream in streams:
        stream.close()


def _finish(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
