"""What a gateway tells of its calls while they last: when something last came, and whether one is held back."""

import asyncio
import json
import socket

from inspan.gateway import Gateway, ModelCall, Request
from inspan.gateway.control import Refusal
from inspan.gateway.upstream import Reply

from .scripted_gateway import PATHS, TOKEN, WAIT_S, ask_body


class _Watching:
    """An upstream and a control that look at their gateway at every moment of a call."""

    gateway: Gateway

    def __init__(self) -> None:
        self.held: list[int] = []
        self.active_at: list[float] = []

    def _look(self) -> None:
        self.held.append(self.gateway.calls_held)
        self.active_at.append(self.gateway.active_at)

    async def admit(self, request: Request, number: int) -> Refusal | None:
        self._look()
        return None

    def on_progress(self, call: ModelCall) -> None: ...

    def on_ended(self, call: ModelCall) -> None: ...

    async def answer(self, request: Request, reply: Reply) -> None:
        await reply.start(200, {"content-type": "text/event-stream"})
        for _ in range(3):
            await asyncio.sleep(0.01)
            await reply.write(b": still there\n\n")
            self._look()
        await reply.finish()


def test_each_byte_of_a_call_is_a_sign_of_it_and_it_is_held_only_while_a_control_decides() -> None:
    async def scene() -> _Watching:
        watching = _Watching()
        ended: asyncio.Queue[ModelCall] = asyncio.Queue()
        gateway = Gateway(token=TOKEN, upstream=watching, on_call=ended.put_nowait, controls=[watching])
        watching.gateway = gateway
        assert gateway.active_at == 0.0
        listener = socket.create_server(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        await gateway.open(listener)
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            body = json.dumps(ask_body("messages", "hi", stream=True)).encode()
            head = (
                f"POST {PATHS['messages']} HTTP/1.1\r\nhost: x\r\nx-api-key: {TOKEN}\r\ncontent-length: {len(body)}\r\n"
            )
            writer.write(f"{head}\r\n".encode() + body)
            await asyncio.wait_for(reader.read(1), WAIT_S)
            await asyncio.wait_for(ended.get(), WAIT_S)
            watching.active_at.append(gateway.active_at)
            writer.close()
        finally:
            await gateway.close()
        return watching

    watching = asyncio.run(scene())
    assert watching.held == [1, 0, 0, 0]
    assert watching.active_at[0] > 0 and watching.active_at == sorted(set(watching.active_at))
