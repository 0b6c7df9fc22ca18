"""A sandbox's snapshot and restore, against `git stash` and its counterpart."""

import asyncio
import os
import time

import inspan
from bench.stage.place import place
from bench.stage.repository import run_git, write_repository
from bench.stage.rows import Row, at_most

_FILES, _CHANGED = 2_000, 50


def measure(*, quick: bool = False) -> list[Row]:
    """In turns on one work tree with changed and new files, so that both see the same warm caches."""
    rounds = 2 if quick else 9
    with place() as here:
        os.environ |= here.env | {"GIT_CONFIG_NOSYSTEM": "1"}
        top = write_repository(here.path("work"), files=_FILES)
        return asyncio.run(_measure(top, rounds))


async def _measure(top: str, rounds: int) -> list[Row]:
    kept, stashed, restored, popped = list[float](), list[float](), list[float](), list[float]()
    async with inspan.open_sandbox("none", cwd=top) as box:
        await box.snapshot()  # The first one of a sandbox also makes a git directory of its own.
        for number in range(rounds):
            _change(top, number)
            began = time.perf_counter()
            name = await box.snapshot()
            kept.append(time.perf_counter() - began)
            _change(top, -1)
            began = time.perf_counter()
            await box.restore(name)
            restored.append(time.perf_counter() - began)
            stashed.append(_time_git(top, "stash", "push", "-q", "--include-untracked"))
            popped.append(_time_git(top, "stash", "pop", "-q"))
    note = f"{_FILES} files, {_CHANGED} of them changed and {_CHANGED} new; least of {rounds} rounds in turn"
    return [
        at_most("snapshot_vs_stash", min(kept), min(stashed), bar=None, unit="s", note=f"{note}; peer: stash push -u"),
        at_most("restore_vs_stash", min(restored), min(popped), bar=None, unit="s", note=f"{note}; peer: stash pop"),
    ]


def _change(top: str, number: int) -> None:
    for each in range(_CHANGED):
        for path in (f"{each % 100}/{each}.py", f"new-{each}.py"):
            with open(os.path.join(top, path), "w", encoding="utf-8") as file:
                file.write(f"value = {number}\n" * 50)


def _time_git(top: str, *arguments: str) -> float:
    began = time.perf_counter()
    run_git(top, *arguments)
    return time.perf_counter() - began
