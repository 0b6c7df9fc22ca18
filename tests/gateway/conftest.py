"""Starts the real agents on a scripted model, each in a folder and an environment of its own."""

import importlib.util
import os
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from .scripted_gateway import TOKEN, WAIT_S

Launch = Callable[[str, int], "subprocess.Popen[str]"]

PROGRAMS = {
    "claude": ("claude_agent_sdk", "_bundled/claude"),
    "codex": ("codex_cli_bin", "bin/codex"),
}


@pytest.fixture(scope="session")
def programs() -> dict[str, Path]:
    """The real binaries; a missing one is an error, never a skip."""
    return {agent: _program(*where) for agent, where in PROGRAMS.items()}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def launch(programs: dict[str, Path], tmp_path: Path, work: Path) -> Generator[Launch]:
    """Starts an agent in a style of working, against a port; ends it, by its handle, after the test."""
    started: list[subprocess.Popen[str]] = []

    def start(style: str, port: int) -> "subprocess.Popen[str]":
        agent = style.partition(" ")[0]
        argv = [str(programs[agent]), *ARGUMENTS[style](port)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            argv,
            cwd=work,
            env=environment(tmp_path, port),
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=WAIT_S)


def _program(package: str, path: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations, f"{package} is not installed"
    program = Path(spec.submodule_search_locations[0]) / path
    assert os.access(program, os.X_OK), f"{program} cannot be run"
    return program


def environment(folder: Path, port: int) -> dict[str, str]:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "TMPDIR": str(home),
        "CLAUDE_CONFIG_DIR": str(home),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "ANTHROPIC_API_KEY": TOKEN,
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
        "CODEX_HOME": str(home),
        "MODEL_TOKEN": TOKEN,
    }


def _claude(port: int) -> list[str]:
    print_mode = ["-p", "do it", "--output-format", "stream-json", "--verbose"]
    return [*print_mode, "--permission-mode", "acceptEdits", "--allowedTools", "Bash"]


def _codex(port: int) -> list[str]:
    provider = (
        f'{{name="scripted", base_url="http://127.0.0.1:{port}/v1", env_key="MODEL_TOKEN",'
        ' wire_api="responses", request_max_retries=0, stream_max_retries=0}'
    )
    quiet = ["--disable", "plugins", "-c", "analytics.enabled=false"]
    model = ["-c", "model_provider=scripted", "-c", f"model_providers.scripted={provider}"]
    return ["exec", "--json", "--skip-git-repo-check", "-s", "danger-full-access", *quiet, *model, "do it"]


ARGUMENTS: dict[str, Callable[[int], list[str]]] = {
    "claude": _claude,
    "codex with classic tools": lambda port: [*_codex(port), "-m", "gpt-5.5"],
    "codex with tools behind javascript": _codex,
}
