"""A scripted model in a process of its own. Prints its port, serves until its stdin closes."""

import asyncio
import socket
import sys

from inspan.gateway import Gateway, ScriptUpstream, parse_scenario

_SCENARIO = '[[call]]\nsay = "The answer is 42."\nrepeat = "always"\n'


async def main(token: str) -> None:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    upstream = ScriptUpstream(parse_scenario(_SCENARIO, name="bench"), cwd="/")
    gateway = Gateway(token=token, upstream=upstream, on_call=lambda call: None)
    await gateway.open(listener)
    print(listener.getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await gateway.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
