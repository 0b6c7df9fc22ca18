"""The gateway of a run to a provider, in a process as a supervisor's is. Arguments: token, key, the provider's port.

Prints its port, serves until its stdin closes.
"""

import asyncio
import gc
import sys

gc.disable()  # As a supervisor starts.

from bench.sides.listener import listener  # noqa: E402
from inspan.gateway import Gateway, ModelCall  # noqa: E402
from inspan.gateway.live import LiveUpstream  # noqa: E402
from inspan.protocol.limits import Limits  # noqa: E402

gc.enable()


async def main(token: str, key: str, port: str) -> None:
    accepting = listener()
    upstream = LiveUpstream(base_url=f"http://127.0.0.1:{port}", key=key)
    gateway = Gateway(
        token=token,
        upstream=upstream,
        on_call=_check,
        stall_timeout_s=Limits().stall_timeout_s,
        on_stall=_check,
        passes_other=True,
    )
    await gateway.open(accepting)
    print(accepting.getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await gateway.close()
    await upstream.close()


def _check(call: ModelCall) -> None:
    """A figure counts only if the gateway did its work: every answer was measured to its end."""
    if call.problem or call.usage is None or call.usage.output != 40:
        print(f"{call}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
