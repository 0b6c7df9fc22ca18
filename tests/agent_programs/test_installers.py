"""A wheel is fetched by whatever is there: an environment that pipx or uv has made has neither uv nor pip in it."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import inspan
from inspan.agents.installers import NONE_FOUND
from tests.cli_env import WAIT_S

_SITE = Path(pytest.__file__).parent.parent
_INSTALL = """
import sys
{before}
import msgspec
from inspan.agents.install import install
from inspan.errors import InspanError
from tests.npm_registry import tiny
try:
    found = install(tiny(source="wheel", package="tiny", program="tiny/run", node=()))
except InspanError as error:
    print(error.message, error.next_step)
else:
    print(found.path)
"""
_NO_BASE = "sys.base_prefix = '/nowhere'"


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The variables of a Python that has what inspan needs and no installer, and of an index in a folder."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "tool")], check=True)
    packages = tmp_path / "packages"
    packages.mkdir()
    for path in _SITE.iterdir():
        if not path.name.startswith(("pip", "uv")) and path.suffix != ".pth":
            (packages / path.name).symlink_to(path)
    with zipfile.ZipFile(tmp_path / "tiny-1.2.3-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny/run", "#!/bin/sh\necho tiny 1.2.3\n")
        wheel.writestr("tiny-1.2.3.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.2.3\n")
        wheel.writestr("tiny-1.2.3.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tiny-1.2.3.dist-info/RECORD", "")
    found = (Path(inspan.__file__).parents[1], Path(__file__).parents[2], packages)
    return {
        "PATH": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(map(str, found)),
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path),
    }


def _install(bare: dict[str, str], *, before: str) -> str:
    python = Path(bare["HOME"]) / "tool" / "bin" / "python"
    done = subprocess.run(
        [str(python), "-c", _INSTALL.format(before=before)],
        env=bare,
        cwd=bare["HOME"],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("before", ["", _NO_BASE], ids=["the pip of its Python", "a pip of its own"])
def test_a_wheel_is_fetched_without_uv_and_pip_in_the_environment(bare: dict[str, str], before: str) -> None:
    assert _install(bare, before=before) == f"{bare['XDG_DATA_HOME']}/inspan/agents/tiny/1.2.3/tiny/run"
    assert not list((Path(bare["HOME"]) / "tool").rglob("pip"))  # The environment is as it was.


def test_where_nothing_can_fetch_one_it_says_what_to_install(bare: dict[str, str], tmp_path: Path) -> None:
    said = _install(bare, before=f"{_NO_BASE}; sys.executable = {str(tmp_path / 'no-python')!r}")
    assert NONE_FOUND in said
    assert "pipx inject inspan pip" in said
