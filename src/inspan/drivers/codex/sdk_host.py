"""The process of the channel `sdk`: it holds a client of `openai-codex` and speaks JSON-RPC on its own pipes.

Run as a script, with the folder of the package and the command line of the server. Each line that it reads is one that
the server itself would take, and is done by the SDK's own function for it. What the server tells and asks leaves as it
is; while a question is open, the SDK reads nothing else. Nothing else is written to stdout, and the end of stdin is the
end.
"""

import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from openai_codex.client import CodexClient
    from pydantic import BaseModel

Json = dict[str, Any]
_INTERNAL_ERROR = -32603
_EXIT_S = 5.0
# What of the SDK is not its public face: with other names in there, nothing of what the server says would be told.
_INNER_NAMES = ("_read_message", "_start_stderr_drain_thread")


class Output:
    """The pipe to inspan: whatever prints to stdout by habit prints to stderr instead."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._file = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)

    def write(self, message: Json) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            self._file.write(line)
            self._file.flush()


class Host:
    """One client from the first line to the end of stdin; whatever ends it is in `ends`, with an exit code."""

    def __init__(self, argv: tuple[str, ...], output: Output) -> None:
        self.ends: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._argv = argv
        self._output = output
        self._client: CodexClient | None = None
        self._answers: queue.SimpleQueue[tuple[Any, Json]] = queue.SimpleQueue()
        self._asked: Any = None
        self._requests: queue.SimpleQueue[Json] = queue.SimpleQueue()
        self._methods: dict[str, Callable[[CodexClient, Json], BaseModel]] = {
            "thread/start": lambda client, params: client.thread_start(params),
            "thread/resume": lambda client, params: client.thread_resume(params["threadId"], params),
            "thread/fork": lambda client, params: client.thread_fork(params["threadId"], params),
            "turn/start": _start_turn,
            "turn/steer": lambda client, params: client.turn_steer(
                params["threadId"], params["expectedTurnId"], params["input"]
            ),
            "turn/interrupt": lambda client, params: client.turn_interrupt(params["threadId"], params["turnId"]),
        }

    def take_line(self, line: bytes) -> None:
        """One line of stdin. An interrupt waits for nothing that was asked before."""
        message: Json = json.loads(line)
        if "method" not in message:
            self._answers.put((message.get("id"), message.get("result") or {}))
        elif message["method"] == "turn/interrupt":
            _start_thread(self._carry_out, message)
        elif "id" in message:
            self._requests.put(message)

    def work(self) -> None:
        """Carries out one request after the other."""
        while True:
            self._carry_out(self._requests.get())

    def close(self) -> None:
        if self._client:
            self._client.close()

    def _carry_out(self, message: Json) -> None:
        from openai_codex import JsonRpcError, TransportClosedError  # An optional extra.

        identity = message["id"]
        try:
            result = self._call(message["method"], message["params"])
        except TransportClosedError:
            return  # Whoever reads the server's output tells of its end.
        except JsonRpcError as error:
            self._output.write({"id": identity, "error": {"code": error.code, "message": error.message}})
        except Exception as error:  # What the SDK finds wrong by itself, and what does not fit its models.
            self._output.write({"id": identity, "error": {"code": _INTERNAL_ERROR, "message": str(error)}})
        else:
            told = result.model_dump(by_alias=True, mode="json", exclude_unset=True)
            self._output.write({"id": identity, "result": told})

    def _call(self, method: str, params: Json) -> "BaseModel":
        if method == "initialize":
            return self._initialize(params["clientInfo"])
        if self._client is None:
            raise RuntimeError("there is no client yet")
        if method in self._methods:
            return self._methods[method](self._client, params)
        from pydantic import RootModel  # With the SDK, which needs it.

        return self._client.request(method, params, response_model=RootModel[Json])

    def _initialize(self, name: Json) -> "BaseModel":
        self._client = self._build_client(name)
        _start_thread(_drain, self._client)
        self._client.start()
        return self._client.initialize()

    def _build_client(self, name: Json) -> "CodexClient":
        """The SDK's own, which tells what it reads as it comes: its models leave out what they do not know."""
        from openai_codex import CodexError, TransportClosedError  # An optional extra.
        from openai_codex.client import CodexClient, CodexConfig

        if missing := [name for name in _INNER_NAMES if not hasattr(CodexClient, name)]:
            print(f"this openai-codex has no {', '.join(missing)}: pip install 'inspan[codex]'", file=sys.stderr)
            self.ends.put(1)
        host = self

        class TellingClient(CodexClient):
            def _read_message(self) -> Any:
                while True:
                    try:
                        message = super()._read_message()
                    except BaseException as error:
                        print(f"{type(error).__name__}: {error}", file=sys.stderr)
                        if isinstance(error, CodexError) and not isinstance(error, TransportClosedError):
                            continue  # A line that is no message ends nothing.
                        host.ends.put(_wait(self))
                        raise
                    host.tell(message)
                    return message

            def _start_stderr_drain_thread(self) -> None:
                _start_thread(_pass_stderr_on, self)

        config = CodexConfig(
            launch_args_override=self._argv,
            client_name=name["name"],
            client_title=name["title"],
            client_version=name["version"],
        )
        return TellingClient(config, self._ask)

    def tell(self, message: Json) -> None:
        """Passes on what the server says; the answers to the SDK's own requests are not for inspan."""
        if "method" in message:
            self._asked = message.get("id")
            self._output.write({name: value for name, value in message.items() if name != "jsonrpc"})

    def _ask(self, method: str, params: Any) -> Json:
        """Waits for as long as inspan lets a person think. The question itself was passed on as it came."""
        while True:
            identity, result = self._answers.get()
            if identity == self._asked:
                return result


def _start_turn(client: "CodexClient", params: Json) -> "BaseModel":
    started = client.turn_start(params["threadId"], params["input"], params)
    client.unregister_turn_notifications(started.turn.id)  # Else the SDK keeps all that it tells, for nobody.
    return started


def _drain(client: "CodexClient") -> None:
    """What belongs to no turn was told already; the SDK would keep it."""
    try:
        while True:
            client.next_notification()
    except Exception:  # Whatever has ended the connection, which is told elsewhere.
        return


def _pass_stderr_on(client: Any) -> None:
    for line in client._proc.stderr:
        sys.stderr.write(line)
        sys.stderr.flush()


def _wait(client: Any) -> int:
    process = client._proc
    if process is None:
        return 0
    try:
        code = process.wait(_EXIT_S)
    except Exception:  # It has closed its output and stays.
        return 1
    return code if code >= 0 else 128 - code


def _start_thread(function: Callable[..., None], *arguments: Any) -> None:
    threading.Thread(target=function, args=arguments, daemon=True).start()


def serve(argv: tuple[str, ...], output: Output) -> int:
    host = Host(argv, output)

    def read() -> None:
        for line in sys.stdin.buffer:
            host.take_line(line)
        host.ends.put(0)

    def leave(_: int, frame: object) -> None:
        host.ends.put(0)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, leave)
    _start_thread(read)
    _start_thread(host.work)
    code = host.ends.get()
    host.close()
    return code


if __name__ == "__main__":
    sys.path.append(sys.argv[1])
    done = serve(tuple(sys.argv[2:]), Output())
    sys.stderr.flush()
    os._exit(done)  # Threads may still wait for what will never come.
