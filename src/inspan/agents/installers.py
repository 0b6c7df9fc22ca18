"""Which program fetches wheels from the index that its user has configured: uv, or a pip from wherever there is one.

An environment that pipx or uv has made for inspan has neither in it.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from inspan.system.programs import find_helper

NONE_FOUND = "neither uv nor pip is there, and Python's ensurepip made none"
NONE_FOUND_STEP = (
    "Install uv, or put pip where inspan is: `pipx inject inspan pip`, `uv tool install --with pip inspan`, "
    "or `apt-get install python3-pip python3-venv`; then try again."
)
_START_S = 120.0


class Installer(NamedTuple):
    """How one is started, up to what is to be installed, and the variables that it needs besides."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = {}


def list_installers(private: str) -> Iterator[Installer]:
    """Those that are there, the best first; a folder is where one may be made that is needed for this alone."""
    if uv := _find_uv():
        yield Installer((*uv, "pip", "install", "--quiet", "--python", sys.executable))
    if pip := _find_pip() or _make_pip(private):
        yield Installer((*pip.argv, "install", "--quiet", "--disable-pip-version-check"), pip.env)


def _find_uv() -> tuple[str, ...]:
    beside = os.path.join(os.path.dirname(sys.executable), "uv")
    uv = beside if os.path.exists(beside) else find_helper("uv")
    if uv:
        return (uv,)
    return (sys.executable, "-m", "uv") if find_spec("uv") else ()


def _find_pip() -> Installer | None:
    """That of this environment, else that of the Python it was made from, which installs for the same version."""
    if find_spec("pip"):
        return Installer((sys.executable, "-m", "pip"))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base = os.path.join(sys.base_prefix, "bin", version)
    if sys.base_prefix != sys.prefix and _succeeds([base, "-I", "-c", "import pip"]):
        return Installer((base, "-m", "pip"))
    return None


def _make_pip(private: str) -> Installer | None:
    """From the wheel that Python itself carries, into a folder of its own: the environment stays as it is."""
    _succeeds([sys.executable, "-I", "-m", "ensurepip", "--root", private])
    for program in Path(private).rglob("pip/__main__.py"):
        return Installer((sys.executable, "-m", "pip"), {"PYTHONPATH": str(program.parent.parent)})
    return None


def _succeeds(argv: list[str]) -> bool:
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_START_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
