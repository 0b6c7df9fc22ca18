"""The peer of the gateway: a LiteLLM proxy in an environment of its own, which only a bench ever installs."""

import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

from .place import Place
from .servers import Server, free_port, listening

VERSION = "1.106.2"
_REQUIREMENTS = (f"litellm[proxy]=={VERSION}", "httptools==0.9.0")
_INSTALL_S = 300.0
_START_S = 90.0
# Of the ways to serve that were tried, uvicorn and the pass-through route were the quickest; only errors are logged.
_SETTINGS = {
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOG": "ERROR",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "NO_DOCS": "True",
}


class CannotInstall(Exception):
    """The text says why."""


def install() -> str:
    """The program's path, below the user's cache folder; installed on the first time. Raises `CannotInstall`."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(cache, "inspan-bench", f"litellm-{VERSION}")
    program = os.path.join(folder, "bin", "litellm")
    if not os.path.exists(os.path.join(folder, "complete")):
        print(f"bench: LiteLLM {VERSION} is being installed below the cache folder", file=sys.stderr)
        for argv in _commands(folder):
            _run(argv)
        with open(os.path.join(folder, "complete"), "w", encoding="utf-8"):
            pass
    return program


@contextmanager
def litellm(program: str, *, upstream_port: int, token: str, key: str, here: Place) -> Generator[Server]:
    """The proxy with one worker, passing on to a provider on loopback."""
    port = free_port()
    env = {
        **{name: value for name, value in here.env.items() if name != "PYTHONPATH"},
        **_SETTINGS,
        "LITELLM_MASTER_KEY": token,
        "ANTHROPIC_API_KEY": key,
        "ANTHROPIC_API_BASE": f"http://127.0.0.1:{upstream_port}",
    }
    argv = [program, "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1", "--telemetry", "False"]
    with listening(argv, port=port, env=env, cwd=here.path("agent"), start_s=_START_S) as server:
        yield server


def _commands(folder: str) -> list[list[str]]:
    """With uv where it is to be had, for pip takes minutes."""
    python = os.path.join(folder, "bin", "python")
    uv = shutil.which("uv", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")]))
    if uv:
        made = [uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder]
        return [made, [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", python, *_REQUIREMENTS]]
    made = [sys.executable, "-m", "venv", "--clear", folder]
    return [made, [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *_REQUIREMENTS]]


def _run(argv: list[str]) -> None:
    try:
        subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_INSTALL_S, check=True, text=True)
    except subprocess.CalledProcessError as error:
        raise CannotInstall(f"{argv[:3]} ended with {error.returncode}: {error.stderr[-1000:]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotInstall(str(error)) from error
