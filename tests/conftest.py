"""Fixtures for every room, and the rule about skips: from a short list, loudly, else it is an error."""

import gc
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from inspan.agents.program import find_bundled_file
from inspan.agents.registry import load_drivers

from .browser import Browser, find_chromium
from .cli_env import CliEnv, short_folder
from .npm_registry import Registry
from .package_index import index_environment
from .podman import Podman
from .soak import choose_sample, load_profile

PERMITTED_SKIPS = {
    "no-bubblewrap": "bubblewrap cannot be installed on this machine",
    "no-chromium": "Chromium cannot be installed on this machine",
    "no-namespaces": "this machine forbids unprivileged user namespaces",
    "no-podman": "podman cannot be installed on this machine, or cannot run containers on it",
    "no-control-groups": "control groups cannot be made on this machine by this user",
    "no-scopes": "this kernel cannot keep a process from sockets without a path (Linux 6.12, Landlock)",
}
# A user namespace without capabilities: an ordinary user who can still reach a Python that root installed.
_ORDINARY = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--")


load_profile()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    choose_sample(config, items)


def pytest_collection_finish() -> None:
    """What was collected stays until the end: a test that collects garbage looks only at what came later."""
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    """Signals reach what the tests start, also where a shell in the background, or nohup, had them ignored."""
    config.addinivalue_line("markers", "sample(count): so many cases in `make test`, all of them in `make soak`")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:  # pyright: ignore[reportInvalidTypeForm]  a wrapper yields the report
    report = yield  # pyright: ignore[reportUnknownVariableType]
    reason = str(call.excinfo.value) if call.excinfo and call.excinfo.errisinstance(pytest.skip.Exception) else ""
    if reason and reason.partition(":")[0] not in PERMITTED_SKIPS:
        report.outcome = "failed"  # pyright: ignore[reportUnknownMemberType]
        report.longrepr = f"a skip that is not on the list of permitted ones: {reason}"  # pyright: ignore[reportUnknownMemberType]
    return report  # pyright: ignore[reportUnknownVariableType, reportReturnType]


def skip(name: str) -> NoReturn:
    """Skips a test by a name from the list, behind which may stand what came back."""
    pytest.skip(f"{name}: {PERMITTED_SKIPS[name.partition(':')[0]]}")


@pytest.fixture(scope="session", autouse=True)
def sockets() -> Iterator[None]:
    """What is run inside of this process keeps its sockets apart from those of the user's own runs."""

    class Session:
        pass

    owner = Session()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", short_folder(owner))
        yield


@pytest.fixture(scope="session")
def binaries() -> dict[str, str]:
    """The real programs of both vendors, as their wheels carry them; a missing one is an error, never a skip."""
    wheels = [
        driver
        for driver in load_drivers()
        if driver.program.install.package and driver.program.install.source == "wheel"
    ]
    found = {driver.program_variable: find_bundled_file(driver.program.install.program) for driver in wheels}
    missing = [name for name, path in found.items() if not path]
    assert not missing, f"not installed: {missing}; run `make test`"
    return found


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A real Chromium that the tests of a worker share."""
    program = find_chromium()
    if not program:
        skip("no-chromium")
    made = Browser(program, tmp_path_factory.mktemp("browser"))
    yield made
    made.close()


@pytest.fixture
def cli_env(tmp_path: Path, binaries: dict[str, str]) -> Iterator[CliEnv]:
    """A house with the real agents in it, owned by whoever runs the tests."""
    (tmp_path / "house").mkdir()
    made = CliEnv(tmp_path / "house", binaries=binaries)
    yield made
    made.close()


@pytest.fixture
def user_cli_env(tmp_path: Path, binaries: dict[str, str], user_prefix: Sequence[str]) -> Iterator[CliEnv]:
    """The same house for an ordinary user: when root runs the tests, a user without powers lives in it."""
    (tmp_path / "house").mkdir()
    made = CliEnv(tmp_path / "house", prefix=user_prefix, binaries=binaries)
    yield made
    made.close()


@pytest.fixture(scope="session")
def user_prefix() -> Sequence[str]:
    """What a command begins with, so that it is an ordinary user's."""
    prefix = _ORDINARY if os.geteuid() == 0 else ()
    if prefix and subprocess.run([*prefix, "true"], check=False).returncode:
        skip("no-namespaces")
    return prefix


@pytest.fixture
def npm_registry() -> Iterator[Registry]:
    """A registry of npm packages of the test's own."""
    made = Registry()
    yield made
    made.close()


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which inspan keeps its own Node, fetched once from its wheel as the first agent of npm's does."""
    home = tmp_path_factory.mktemp("node")
    names = {name: str(home / name) for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")}
    nowhere = {"npm_config_registry": "http://127.0.0.1:9", "npm_config_fetch_retries": "0"}
    fetch = "from tests.npm_registry import tiny; from inspan.agents.install import install; install(tiny())"
    said = ""
    for _ in range(3):  # An index may fail to answer once.
        done = subprocess.run(
            [sys.executable, "-c", fetch],
            env={"PATH": os.environ["PATH"], **nowhere, **names, **index_environment()},
            cwd=Path(__file__).parent.parent,
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
        said = done.stderr
        if "ECONNREFUSED" in said:  # It came as far as npm, which has no registry here.
            return home / "XDG_DATA_HOME" / "inspan" / "node"
    raise AssertionError(said)


@pytest.fixture
def bubblewrap() -> str:
    """The system's bubblewrap; its tests are skipped by name where it cannot be had."""
    found = shutil.which("bwrap")
    if not found:
        skip("no-bubblewrap")
    return found or ""


@pytest.fixture(scope="session")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """Podman with images of its own; its tests are skipped by name where it cannot be had."""
    if not shutil.which("podman") or not shutil.which("bwrap"):
        skip("no-podman")
    made = Podman(tmp_path_factory.mktemp("podman"))
    if problem := made.import_image():
        skip(f"no-podman: {problem}")
    yield made
    made.close()


@pytest.fixture
def fake(tmp_path: Path) -> Callable[[str, str], str]:
    """Writes an executable that stands in for an agent, for faults that the real ones cannot be made to show."""

    def write(name: str, body: str) -> str:
        path = tmp_path / name
        # The interpreter behind a .venv: a box has a /tmp of its own, and the .venv may lie there.
        path.write_text(f"#!{os.path.realpath(sys.executable)} -IS\n{body}")
        path.chmod(0o755)
        return str(path)

    return write
