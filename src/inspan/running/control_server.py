"""The control socket of a run: one JSON command per line, one JSON answer. Only the run's owner can reach it."""

import asyncio
import os
import socket
from collections.abc import Callable

from inspan.protocol.commands import Command, Reply, refuse
from inspan.protocol.wire import DECODE_ERRORS, decode_command, encode
from inspan.stores.paths import make_private_folder
from inspan.stores.run_folder import SOCKET_LINK, RunFolder, remove_file
from inspan.system import forking

_ANSWER_S = 5.0
# A message may be a whole file.
_LINE_BYTES = 16 * 1024 * 1024


class ControlServer:
    """Serves a run's socket; `handle` gets each command. `close` is idempotent and removes the socket.

    Its path has to be short, so it lies in a folder of the user's login; a link in the run's folder says where, for
    whoever looks from another login.
    """

    def __init__(self, folder: RunFolder, handle: Callable[[Command], Reply]) -> None:
        self._path = folder.own_socket
        self._link = folder.file(SOCKET_LINK)
        self._handle = handle
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        make_private_folder(os.path.dirname(self._path))
        remove_file(self._path)
        with forking.opening:
            made = forking.own_socket(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        try:
            made.bind(self._path)
            # In two steps, as in gateway/http/server.py: a cancel between them leaves a server that can be closed.
            self._server = await asyncio.start_unix_server(
                self._serve, sock=made, limit=_LINE_BYTES, start_serving=False
            )
        except BaseException:
            made.close()
            raise
        os.chmod(self._path, 0o600)
        remove_file(self._link)
        os.symlink(self._path, self._link)
        await self._server.start_serving()

    def close(self) -> None:
        if self._server:
            self._server.close()
            self._server = None
            remove_file(self._path)
            remove_file(self._link)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_ANSWER_S):
                line = await reader.readline()
                writer.write(encode(self._handle_line(line)) + b"\n")
                await writer.drain()
        except (TimeoutError, ValueError, OSError):
            pass  # A client that is slow, sends a line without end or is gone: nothing to tell it.
        finally:
            writer.close()

    def _handle_line(self, line: bytes) -> Reply:
        try:
            command = decode_command(line)
        except DECODE_ERRORS as error:
            return refuse(f"not a command: {error}")
        return self._handle(command)
