"""How long a newcomer waits: from nothing but Python and git to an own run, by a clone and by a wheel.

The home and every cache are empty; packages come from the machine's index. The commands are those of *Get started*.
"""

import glob
import os
import subprocess
import sys
import time

from bench.stage.place import ROOT, Place, place
from bench.stage.rows import Row, at_most_alone

_SCRIPT = '[[call]]\nsay = "hello"\n'
_RUN = 'inspan run "say hello" -a scripted --model-from script:hello.toml'
_CLONE = ("git clone -q {root} inspan", "make -s -C inspan demo", f"inspan/.venv/bin/{_RUN}")
_WHEEL = ("{python} -m venv env", "env/bin/pip install -q {wheel}", f"env/bin/{_RUN}")
# Where packages are had is the machine's affair.
_KEPT = ("PIP_", "UV_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT")


def measure(*, quick: bool = False) -> list[Row]:
    """Wall seconds and the number of commands, once each: an index that is asked twice answers from a cache."""
    return [*_measure_way("clone", _CLONE), *_measure_way("wheel", _WHEEL)]


def _measure_way(name: str, commands: tuple[str, ...]) -> list[Row]:
    with place() as here:
        wheel = _build_wheel(here) if name == "wheel" else ""
        with open(here.path("work", "hello.toml"), "w", encoding="utf-8") as file:
            file.write(_SCRIPT)
        walls = [_type(command.format(root=ROOT, wheel=wheel, python=sys.executable), here) for command in commands]
    note = "; ".join(
        f"{wall:.1f} s {' '.join(command.split()[:3])}" for command, wall in zip(commands, walls, strict=True)
    )
    return [
        at_most_alone(f"first_run_by_{name}_s", sum(walls), bar=None, unit="s", note=note),
        at_most_alone(f"first_run_by_{name}_commands", len(commands), bar=None, unit="commands", note="typed"),
    ]


def _type(command: str, here: Place) -> float:
    started = time.monotonic()
    subprocess.run(["bash", "-c", command], cwd=here.path("work"), env=_environment(here), check=True, stdout=2)
    return time.monotonic() - started


def _environment(here: Place) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name.startswith(_KEPT)}
    return {**{name: value for name, value in here.env.items() if name != "PYTHONPATH"}, **kept}


def _build_wheel(here: Place) -> str:
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", here.path("agent"), ROOT]
    subprocess.run(command, env=_environment(here), check=True, stdout=2)
    return glob.glob(here.path("agent", "*.whl"))[0]
