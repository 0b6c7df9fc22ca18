"""A scripted model in a process of its own. Arguments: the token, and the scenario's file unless one text will do.

Prints its port, serves until its stdin closes.
"""

import asyncio
import sys

from bench.sides.listener import listener
from inspan.gateway import Gateway, ScriptUpstream, load_scenario, parse_scenario

_SCENARIO = '[[call]]\nsay = "The answer is 42."\nrepeat = "always"\n'


async def main(token: str, file: str = "") -> None:
    accepting = listener()
    scenario = load_scenario(file) if file else parse_scenario(_SCENARIO, name="bench")
    upstream = ScriptUpstream(scenario, cwd="/")
    gateway = Gateway(token=token, upstream=upstream, on_call=lambda call: None)
    await gateway.open(accepting)
    print(accepting.getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await gateway.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
