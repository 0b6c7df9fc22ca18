"""An agent of the Agent Client Protocol that only talks: as many events as a prompt asks for, at its pace."""

import json
import sys
import time

from bench.sides.talk import make_text, pace


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        result = {"protocolVersion": 1}
        if request["method"] == "session/prompt":
            result = {"written": _talk(**request["params"])}
        _write({"jsonrpc": "2.0", "id": request["id"], "result": result})
        sys.stdout.flush()


def _talk(*, seconds: float, per_s: int) -> int:
    written = 0
    for count in pace(seconds=seconds, per_s=per_s):
        for _ in range(count):
            update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": make_text()}}
            _write({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "bench", "update": update}})
        sys.stdout.flush()
        written += count
    time.sleep(1.0)
    return written


def _write(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")


main()
