"""The wheel is the product: what is in it, and that it works alone, in each way in which people install programs."""

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from inspan import __version__
from inspan.cli.main import inspan
from inspan.cli.man_pages import PACKAGE_MARK, build_man_pages
from tests.cli_env import CliEnv

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
PIPX = Path(sys.executable).with_name("pipx")
# Where packages are had is the machine's affair.
KEPT = ("PIP_", "UV_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT")
# What may be in it beside Python: data that the package reads, and what tells of it.
EXPECTED = (
    r"inspan/.+\.py",
    r"inspan/py\.typed",
    r"inspan/CHANGELOG\.md",
    r"inspan/cli/demo\.toml",
    r"inspan/blueprints/ready/[\w-]+\.toml",
    r"inspan/web/index\.html",
    r"inspan/web/(assets/)?[\w.-]+\.(js|css|svg|png|ico|webmanifest)",
    r"inspan-[\d.]+\.data/data/share/man/man1/inspan[\w-]*\.1",
    r"inspan-[\d.]+\.data/data/share/(bash-completion/completions/inspan|zsh/site-functions/_inspan)",
    r"inspan-[\d.]+\.data/data/share/fish/vendor_completions\.d/inspan\.fish",
    r"inspan-[\d.]+\.dist-info/(METADATA|WHEEL|RECORD|entry_points\.txt|licenses/LICENSE)",
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as it is published, from a copy without anything that git does not know."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    subprocess.run(["git", "clone", "-q", "--no-local", str(ROOT), str(source)], check=True)
    changed = _run_git("diff", "--name-only", "--diff-filter=AM", "HEAD") + _run_git(
        "ls-files", "--others", "--exclude-standard"
    )
    for name in changed:  # So that it is the tree that is tested, also before it is committed.
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    command = [str(UV), "build", "-q", "--wheel", "--out-dir", str(folder), str(source)]
    subprocess.run(command, check=True, env=_environment({"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}))
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture
def house(tmp_path: Path, binaries: dict[str, str]) -> Iterator[CliEnv]:
    """Somebody who has Python, uv and Codex, and nothing of this repository."""
    (tmp_path / "house").mkdir()
    made = CliEnv(tmp_path / "house", binaries=binaries)
    cache = subprocess.run([str(UV), "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip()
    made.env = _environment({**made.env, "UV_CACHE_DIR": cache})  # What was fetched once is not fetched again.
    yield made
    made.close()


def test_it_carries_the_program_and_what_belongs_to_it_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if not any(re.fullmatch(each, name) for each in EXPECTED)] == []
    for pattern in EXPECTED:
        assert any(re.fullmatch(pattern, name) for name in names), pattern
    pages = {name.rpartition("/")[2] for name in names if "/man1/" in name}
    assert pages == set(build_man_pages(inspan))


def test_its_description_says_what_it_is(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    text = archive.read(f"inspan-{__version__}.dist-info/METADATA").decode()
    for line in (
        "Name: inspan",
        f"Version: {__version__}",
        "License-Expression: Apache-2.0",
        "Requires-Python: >=3.11",
    ):
        assert f"\n{line}\n" in text
    assert "One harness for every coding agent" in text


def test_its_description_stands_alone(wheel: Path) -> None:
    """On a package index there is no repository for its links, and no Makefile for whoever has read it."""
    archive = zipfile.ZipFile(wheel)
    _, _, text = archive.read(f"inspan-{__version__}.dist-info/METADATA").decode().partition("\n\n")
    assert [target for target in re.findall(r"]\(([^)]*)\)", text) if not target.startswith("https://")] == []
    assert re.findall(r"<!--|<picture|\bmake \w+|Details|\]\(", text) == []
    first = text.partition("```console\n$ ")[2].split("#")[0].strip()
    assert first == "uv tool install 'inspan[server]'"
    assert "| `inspan run PROMPT`" in text and "## Packages" not in text


def test_uv_installs_it_as_a_tool(wheel: Path, house: CliEnv) -> None:
    tools = {"UV_TOOL_DIR": str(house.root / "tools"), "UV_TOOL_BIN_DIR": str(house.root / "bin")}
    _run([str(UV), "tool", "install", "-q", "--python", sys.executable, str(wheel)], house, **tools)
    program = house.root / "bin" / "inspan"
    assert _run([str(program), "--version"], house).strip() == f"inspan, version {__version__}"
    assert "red → green" in _run([str(program), "demo"], house)
    assert f"inspan {__version__}" in _run([str(program), "upgrade-notes"], house)
    shared = house.root / "tools" / "inspan" / "share"
    assert (shared / "man" / "man1" / "inspan-run.1").is_file()
    script = (shared / "bash-completion" / "completions" / "inspan").read_text()
    assert "complete -o nosort -F _inspan_words inspan" in script


def test_uvx_runs_its_demo(wheel: Path, house: CliEnv) -> None:
    told = _run(
        [str(UV), "tool", "run", "-q", "--python", sys.executable, "--from", str(wheel), "inspan", "demo"], house
    )
    assert "red → green" in told


def test_pipx_installs_it_with_its_manual(wheel: Path, house: CliEnv) -> None:
    folders = {"PIPX_HOME": str(house.root / "pipx"), "PIPX_BIN_DIR": str(house.root / "bin")}
    folders |= {"PIPX_MAN_DIR": str(house.root / "man"), "PIPX_DEFAULT_PYTHON": sys.executable}
    _run([str(PIPX), "install", "--quiet", "--backend", "uv", str(wheel)], house, **folders)
    assert _run([str(house.root / "bin" / "inspan"), "--version"], house).strip() == f"inspan, version {__version__}"
    page = house.root / "man" / "man1" / "inspan.1"
    assert PACKAGE_MARK in page.read_text()  # By which `completion --uninstall` leaves it alone.


def _run(command: list[str], house: CliEnv, **more: str) -> str:
    env = {**house.env, **more, "PATH": f"{UV.parent}:{house.env['PATH']}"}
    done = subprocess.run(command, cwd=house.work, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def _environment(given: dict[str, str]) -> dict[str, str]:
    return {**{name: value for name, value in os.environ.items() if name.startswith(KEPT)}, **given}


def _run_git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()
