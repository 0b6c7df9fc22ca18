"""Loops that go on with one that was lost while it waited: `idle_loops.py COUNT RUN_ID`. Prints their pids as JSON."""

import json
import os
import sys
from typing import Any

import msgspec

from inspan.loop.prepare import prepare_loop
from inspan.loop.start import start_loop
from inspan.protocol.loop import LoopPolicy
from inspan.protocol.task import Task
from inspan.runs.find import find_run_folder
from inspan.stores.paths import state_home
from inspan.stores.run_folder import read_json


def main(count: int, lost: str) -> None:
    """Each is one of its own, with a process of its own, and waits as long as the lost one would have."""
    described: dict[str, Any] = read_json(find_run_folder(state_home(), lost).file("run.json"))
    task = msgspec.convert({**described["task"], "continues": lost}, Task)
    policy = msgspec.convert(described["policy"], LoopPolicy)
    pids = [start_loop(prepare_loop(task, policy, explicit=described["explicit"])) for _ in range(count)]
    print(json.dumps({"pids": pids, "cwd": os.getcwd()}))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
