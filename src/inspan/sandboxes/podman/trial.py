"""A container that is made of this machine's own programs: whether podman can start any is known without an image."""

import os
import tempfile
from collections.abc import Callable, Iterator

from inspan.containment.containment import run_probe

_SYSTEM = ("/usr", "/bin", "/lib", "/lib64")
_OWN = ("dev", "etc", "proc", "run", "sys", "tmp")
_DOES_NOTHING = "/usr/bin/true"


def start_trial(build: Callable[[tuple[str, ...]], tuple[str, ...]]) -> str:
    """Runs a program that does nothing, by the command line that `build` makes of the end of podman's; gives what went
    wrong, in its words.
    """
    with tempfile.TemporaryDirectory(prefix="inspan-trial-") as folder:
        for name in _OWN:
            os.mkdir(os.path.join(folder, name))
        problem = run_probe(build((*_show_system(folder), "--rootfs", folder, _DOES_NOTHING)))
    return end_sentence(problem.splitlines()[-1]) if problem else ""


def end_sentence(text: str) -> str:
    """What a program says, as a sentence of ours may quote it."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _show_system(folder: str) -> Iterator[str]:
    """The folders of programs; where one is a link to another, the same link."""
    for path in _SYSTEM:
        if os.path.islink(path):
            os.symlink(os.readlink(path), f"{folder}{path}")
        elif os.path.isdir(path):
            yield from ("--volume", f"{path}:{path}:ro")
