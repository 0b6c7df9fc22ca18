"""The control socket of a run: one JSON command per line, one JSON answer. Only the run's owner can reach it."""

import asyncio
import os
from collections.abc import Callable

from inspan.protocol.commands import Command
from inspan.protocol.wire import UNREADABLE, decode_command, encode
from inspan.stores.folder import forget
from inspan.stores.paths import private_folder

_ANSWER_S = 5.0


class ControlServer:
    """Serves a run's socket; `handle` gets each command. `close` is idempotent and removes the socket."""

    def __init__(self, path: str, handle: Callable[[Command], str]) -> None:
        self._path = path
        self._handle = handle
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        private_folder(os.path.dirname(self._path))
        forget(self._path)
        self._server = await asyncio.start_unix_server(self._serve, self._path)
        os.chmod(self._path, 0o600)

    def close(self) -> None:
        if self._server:
            self._server.close()
            self._server = None
            forget(self._path)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_ANSWER_S):
                line = await reader.readline()
                writer.write(encode(self._answer(line)) + b"\n")
                await writer.drain()
        except (TimeoutError, ValueError, OSError):
            pass  # A client that is slow, sends a line without end or is gone: nothing to tell it.
        finally:
            writer.close()

    def _answer(self, line: bytes) -> dict[str, object]:
        try:
            command = decode_command(line)
        except UNREADABLE as error:
            return {"ok": False, "error": f"not a command: {error}"}
        problem = self._handle(command)
        return {"ok": not problem, "error": problem} if problem else {"ok": True}
