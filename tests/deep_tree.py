"""Folders that are nested deeper than any path leads, and than a function may call itself."""

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

DEEP = 2500


@contextmanager
def nest_folders(top: Path, *, file: str = "", depth: int = DEEP) -> Generator[Path]:
    """Nests so many folders in `top`, with a file in the innermost; takes away what is left of them."""
    top.mkdir(parents=True, exist_ok=True)
    at = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for _ in range(depth):
            os.mkdir("d", dir_fd=at)
            inner = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
            os.close(at)
            at = inner
        if file:
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=at))
    finally:
        os.close(at)
    try:
        yield top
    finally:
        subprocess.run(["rm", "-rf", str(top)], check=True)  # Which pytest cannot do.
