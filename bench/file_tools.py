"""What an agent waits for each time it looks at a file by `inspan file-tools`: beside an empty Python, and `cat`."""

import os
import shutil
import sys
from statistics import median

from bench.stage.place import inspan, place
from bench.stage.processes import Cost, costs, least_cpu_s
from bench.stage.rows import Row, at_most

_BAR = 3
_ENV = shutil.which("env") or "/usr/bin/env"


def measure(*, quick: bool = False) -> list[Row]:
    """CPU and wall time of one call: the start is nearly all of it."""
    rounds = 5 if quick else 25
    with place() as here:
        root = here.path("work")
        with open(os.path.join(root, "a.txt"), "w", encoding="utf-8") as file:
            file.write("a line of text\n" * 200)
        here.env.pop("PYTHONPATH")  # An agent has none; and beneath it nothing would be written.
        commands = {
            "pass": [sys.executable, "-c", "pass"],
            "cat": [shutil.which("cat") or "/bin/cat", "a.txt"],
            "read": inspan("file-tools", root, "read", "a.txt"),
            "read_by_names": [_ENV, "INSPAN_PORTABLE=1", *inspan("file-tools", root, "read", "a.txt")],
            "read_json": inspan("file-tools", root, "read", "a.txt", "--json"),
            "write": inspan("file-tools", root, "write", "b.txt", "--content", "text"),
            "list": inspan("file-tools", root, "list"),
            "search": inspan("file-tools", root, "search", "line 7"),
        }
        spent = costs(commands, env=here.env, cwd=root, rounds=rounds)
    note = f"least CPU of {rounds} rounds, median wall; peer: "
    rows = [row for name in commands if name not in ("pass", "cat") for row in _compare(name, spent, note)]
    (_, ours_ms), (_, peer_ms) = _figures(spent["read"]), _figures(spent["cat"])
    note = f"inspan file-tools ROOT read; {note}cat"
    return [*rows, at_most("file_tools_read_vs_cat", ours_ms, peer_ms, bar=None, unit="ms", note=note)]


def _compare(name: str, spent: dict[str, list[Cost]], note: str) -> list[Row]:
    cpu_ms, wall_ms = _figures(spent[name])
    peer_cpu_ms, peer_wall_ms = _figures(spent["pass"])
    title, note = f"file_tools_{name}_vs_python", f"inspan file-tools ROOT {name}; {note}python -c pass"
    return [
        at_most(f"{title}_cpu", cpu_ms, peer_cpu_ms, bar=_BAR, unit="ms CPU", note=note),
        at_most(f"{title}_wall", wall_ms, peer_wall_ms, bar=_BAR, unit="ms", note=note),
    ]


def _figures(spent: list[Cost]) -> tuple[float, float]:
    """CPU and wall time, in milliseconds."""
    return least_cpu_s(spent) * 1e3, median(each.wall_s for each in spent) * 1e3
