"""`validate_environment` again and again: milliseconds of the first call with its imports, and of those after it."""

import os
import sys
import time
from statistics import median

from bench.sides.spent import tell


def main(cwd: str, *, calls: int) -> None:
    """The median is of all calls but the first, or of the first if there is no other."""
    took_ms = [_took_ms(cwd) for _ in range(calls)]
    tell(first_ms=took_ms[0], median_ms=median(took_ms[1:] or took_ms))


def _took_ms(cwd: str) -> float:
    started = time.perf_counter()
    from inspan import Task, validate_environment  # Part of what the first call costs.

    validate_environment(Task(prompt="go", cwd=cwd))
    return (time.perf_counter() - started) * 1e3


if __name__ == "__main__":
    main(os.getcwd(), calls=int(sys.argv[1]))
