"""Packages of strangers, as real wheels, installed by the real installer into a folder of their own."""

import subprocess
import sys
import zipfile
from pathlib import Path

_INSTALL_S = 300.0
DRIVER = '''
"""An agent of a stranger: it is the built-in one under a name of its own."""
import msgspec
from inspan.drivers.scripted import DRIVER as _base

_program = msgspec.structs.replace(_base.program, hosted=True)
DRIVER = msgspec.structs.replace(_base, name={name!r}, title="A stranger", built_in=False, program=_program)
'''


def wheel(folder: Path, *, package: str, module: str, entries: dict[str, str]) -> Path:
    """A wheel with one module and these entry points for drivers."""
    path = folder / f"{package}-1.0-py3-none-any.whl"
    info = f"{package}-1.0.dist-info"
    points = "".join(f"{name} = {value}\n" for name, value in entries.items())
    files = {
        f"{package}.py": module,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[inspan.drivers]\n{points}",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, text)
    return path


def install(wheel: Path, target: Path) -> None:
    """Into a folder that a Python finds by PYTHONPATH."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--disable-pip-version-check",
    ]
    done = subprocess.run(
        [*command, "--target", str(target), str(wheel)],
        capture_output=True,
        text=True,
        timeout=_INSTALL_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
