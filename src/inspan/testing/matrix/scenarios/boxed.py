"""An agent's usual work in the narrow box: edit, test and commit; install a package; and what stays out of reach."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from inspan.testing.matrix.cell import require, require_equal
from inspan.testing.matrix.cell_environment import CellEnvironment, RunTrace
from inspan.testing.matrix.package_index import MODULE, PACKAGE, SOURCE, PackageIndex
from inspan.testing.matrix.scenario import scenario

_BROKEN, _FIXED = "return a - b", "return a + b"
_MODULE = f"def total(a, b):\n    {_BROKEN}\n"
_MESSAGE = "total: add two numbers"
_CANARY = "canary-5Hn2Wd8Xq"
_REPORT = "look-around.json"
_IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
_PROJECT = {
    "test_total.py": (
        "import unittest\nfrom total import total\n\n\nclass TotalTest(unittest.TestCase):\n"
        "    def test_total(self):\n        self.assertEqual(total(2, 3), 5)\n"
    ),
    # Reads a file and connects to a port, and writes down what came of both.
    "look_around.py": (
        "import json, socket, sys\n\n\ndef attempt(act):\n    try:\n        return act()\n"
        "    except OSError as error:\n        return type(error).__name__\n\n\n"
        "def connect():\n    socket.create_connection(('127.0.0.1', int(sys.argv[2])), timeout=10).close()\n"
        "    return 'connected'\n\n\n"
        "found = {'file': attempt(lambda: open(sys.argv[1]).read()), 'port': attempt(connect)}\n"
        f"json.dump(found, open('{_REPORT}', 'w'))\n"
    ),
}
_REFUSAL = re.compile(r"The sandbox kept it from (?P<host>\S+)\. To allow it: --net allow=(?P<remedy>\S+)")
_HIDDEN = ("FileNotFoundError", "PermissionError")


@scenario("boxed: a file is edited, tested and committed, and nothing outside is reached")
def boxed_work(cell_env: CellEnvironment) -> None:
    _make_repository(cell_env)
    canary = cell_env.root / "home" / "canary.txt"
    canary.write_text(_CANARY)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        commit = shlex.join(["git", *_IDENTITY, "commit", "-q", "-m", _MESSAGE])
        look = shlex.join(["python3", "look_around.py", str(canary), str(listener.getsockname()[1])])
        story = cell_env.run(
            _build_script(
                # Some edit nothing that they have neither read nor written themselves.
                {"write": {"path": "total.py", "content": _MODULE}},
                {"edit": {"path": "total.py", "old": _BROKEN, "new": _FIXED}},
                {"run": "python3 -m unittest -v test_total"},
                {"run": f"git add total.py && {commit}", "expect": "Ran 1 test"},
                {"run": look},
                {"say": "Done."},
            ),
            "--sandbox",
            "bwrap",
            "--net",
            "gateway",
        )
        reached = _has_caller(listener)
    _require_box(story, net="gateway")
    story.require_completed()
    require_equal("file", _read(cell_env.work / "total.py"), _MODULE.replace(_BROKEN, _FIXED))
    outputs = _list_outputs(story)
    require(any("Ran 1 test" in each and "OK" in each for each in outputs), f"the test was reported as {outputs}")
    require_equal("last commit", _run_git(cell_env, "log", "-1", "--format=%an: %s"), f"Ada: {_MESSAGE}\n")
    require_equal("files of the commit", _run_git(cell_env, "show", "--format=", "--name-only"), "total.py\n")
    _require_out_of_reach(cell_env, story, reached=reached)
    _note_other_hosts(cell_env, story)


@scenario("boxed: a package is installed from a host on the list, and from no other")
def boxed_install(cell_env: CellEnvironment) -> None:
    with PackageIndex() as index:
        allowed = _install(cell_env, index, net=f"allow={index.authority}", target="vendor")
        require(index.gave_package, f"the package was not fetched; the tool said {_list_outputs(allowed)}")
        require_equal("exit codes of the installation", _list_exit_codes(allowed), [0])
        require_equal("installed module", _read(cell_env.work / "vendor" / MODULE), SOURCE)
        index.asked.clear()
        refused = _install(cell_env, index, net="gateway", target="refused")
        require_equal("requests to the index", index.asked, [])
        require(0 not in _list_exit_codes(refused), "without the index, the installation ended with 0")
        require_equal("installed module", _read(cell_env.work / "refused" / MODULE), "")
        require_equal("hosts on the list that were refused", _list_refused(allowed, index.authority), [])
        require_equal("refused hosts", _list_refused(refused, index.authority), [index.authority])
    _note_other_hosts(cell_env, allowed)


def _install(cell_env: CellEnvironment, index: PackageIndex, *, net: str, target: str) -> RunTrace:
    """Lets the agent install the package; settings of the machine, which may name other indexes, are left out."""
    words = [_find_python_with_pip(), "-m", "pip", "install", "--isolated", "--no-cache-dir"]
    words += ["--disable-pip-version-check", "--retries", "0", "--index-url", index.url, "--target", target, PACKAGE]
    install = f"PIP_CONFIG_FILE={os.devnull} {shlex.join(words)}"
    story = cell_env.run(_build_script({"run": install}, {"say": "Done."}), "--sandbox", "bwrap", "--net", net)
    _require_box(story, net=net)
    story.require_completed()
    return story


def _find_python_with_pip() -> str:
    """Ours, or the one behind it; a wrapper on PATH may want to write beside itself after each installation."""
    return sys.executable if find_spec("pip") else os.path.realpath(sys.executable)


def _list_outputs(story: RunTrace) -> list[str]:
    return [event.get("output", "")[-600:] for event in story.select_events("tool_completed", "tool_failed")]


def _list_exit_codes(story: RunTrace) -> list[int | None]:
    return [event.get("exit_code") for event in story.select_events("command_executed")]


def _make_repository(cell_env: CellEnvironment) -> None:
    for name, text in _PROJECT.items():
        (cell_env.work / name).write_text(text)
    _run_git(cell_env, "init", "-q")
    _run_git(cell_env, "add", ".")
    _run_git(cell_env, *_IDENTITY, "commit", "-q", "-m", "begin")


def _run_git(cell_env: CellEnvironment, *words: str) -> str:
    """What git says outside of the box."""
    env = {**os.environ, "HOME": str(cell_env.root / "home"), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["git", *words], cwd=cell_env.work, env=env, capture_output=True, text=True, check=False)
    require(done.returncode == 0, f"git {words[0]}: {done.stderr.strip()[-300:]}")
    return done.stdout


def _build_script(*calls: dict[str, Any]) -> str:
    """One call of the model after the other."""
    return "".join("[[call]]\n" + "".join(f"{key} = {_to_toml(call[key])}\n" for key in call) for call in calls)


def _to_toml(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value)
    return "{" + ", ".join(f"{key} = {json.dumps(each)}" for key, each in value.items()) + "}"


def _require_box(story: RunTrace, *, net: str) -> None:
    started = story.events[0]
    told = {name: started.get(name) for name in ("sandbox", "private", "net")}
    require_equal("box", told, {"sandbox": "bwrap", "private": True, "net": net})


def _require_out_of_reach(cell_env: CellEnvironment, story: RunTrace, *, reached: bool) -> None:
    found = json.loads(_read(cell_env.work / _REPORT) or "{}")
    require(found.get("file") in _HIDDEN, f"a file in the home of the user was read as {found.get('file')!r}")
    require_equal("connection to the host", found.get("port"), "ConnectionRefusedError")
    require(not reached, "somebody has connected to a port of the host")
    told = [event["kind"] for event in story.events if _CANARY in json.dumps(event)]
    require_equal("events that tell what is in the home of the user", told, [])


def _has_caller(listener: socket.socket) -> bool:
    listener.setblocking(False)
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def _list_refused(story: RunTrace, *wanted: str) -> list[str]:
    """The hosts that the run's log says the box has refused, all or those `wanted`; each comes with its remedy."""
    found = [_REFUSAL.fullmatch(event["message"]) for event in story.select_events("error_reported")]
    hosts = [
        each["host"] for each in found if each and each["remedy"] in (each["host"], each["host"].rpartition(":")[0])
    ]
    return [host for host in hosts if not wanted or host in wanted]


def _note_other_hosts(cell_env: CellEnvironment, story: RunTrace) -> None:
    """What the agent itself would have liked to reach: its work went on without."""
    if hosts := _list_refused(story):
        cell_env.note = f"The program itself asked for {', '.join(hosts)}, which the box refused."


def _read(path: Path) -> str:
    return path.read_text() if path.is_file() else ""
