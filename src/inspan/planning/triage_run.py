"""A program of its own: makes one run of an agent that gives one answer, and prints that answer as JSON.

It stands between a supervisor, which plans nothing, and planning. What it is given on stdin is one marshalled value.
"""

import marshal
import sys
from typing import Any


def main() -> None:
    given: dict[str, Any] = marshal.load(sys.stdin.buffer)
    sys.path[:] = given["path"]
    from inspan.planning.one_shot import ask  # Only after sys.path is set.

    sys.stdout.buffer.write(ask(given))


if __name__ == "__main__":
    main()
