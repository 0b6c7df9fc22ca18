"""A folder that was looked at is the one that is shown: whoever puts a link in its way meanwhile gets nothing by it."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from inspan.planning.box import build_command_box
from inspan.protocol.network import NetworkPolicy
from inspan.protocol.plan import Entry
from inspan.running.spawn_agent import build_setup
from inspan.sandboxes.bwrap import SANDBOX
from inspan.system.entry import open_named
from inspan.transports.process import spawn
from tests.cli.scenarios import SAYS_HELLO
from tests.cli_env import CliEnv

pytestmark = pytest.mark.usefixtures("bubblewrap")

_WRITES = ("/bin/sh", "-c", "touch made; touch .git/made")
_replaced = pytest.mark.parametrize(("replaced", "by"), [("", "work"), ("..", ""), (".git", "work/.git")])


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A repository in a folder of a folder."""
    folder = tmp_path / "around" / "work"
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Somebody else's folder, with folders of the same names in it, so that a link to it leads somewhere."""
    folder = tmp_path / "outside"
    (folder / "work" / ".git").mkdir(parents=True)
    return folder


def choose_command(work: Path) -> list[str]:
    """The words of a box that writes in the folder and in its git data."""
    root = os.geteuid() == 0
    box = build_command_box(str(work), env=os.environ, read=(), network=NetworkPolicy(reach="open"), root=root)
    return list(SANDBOX.wrap(_WRITES, box))


def put_link(path: Path, target: Path) -> None:
    """In the place of a folder, as somebody does who may write around it."""
    path = Path(os.path.normpath(path))
    path.rename(path.with_name("moved"))
    path.symlink_to(target)


def run_opened(argv: list[str], between: Callable[[], None] = lambda: None) -> "subprocess.CompletedProcess[bytes]":
    """Runs it with its folders opened, and something done between the opening and the start."""
    opened: list[int] = []
    at = argv.index("--seccomp")  # The filter is given on a descriptor of its own, which is not looked at here.
    words = open_named(argv[:at] + argv[at + 2 :], opened)
    between()
    try:
        return subprocess.run(words, pass_fds=opened, capture_output=True, check=False)
    finally:
        for fd in opened:
            os.close(fd)


def list_made(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("made"))


@_replaced
def test_a_link_that_came_after_the_look_is_not_followed(work: Path, outside: Path, replaced: str, by: str) -> None:
    argv = choose_command(work)
    put_link(work / replaced, outside / by)
    with pytest.raises(OSError, match=f"{work}.* cannot be shown: a link stands in its way now"):
        spawn(argv, dict(os.environ), stdin=b"", liveness_pipe=False, setup=build_setup(Entry()))
    assert list_made(outside) == []


@_replaced
def test_a_link_that_came_after_the_opening_is_not_mounted(work: Path, outside: Path, replaced: str, by: str) -> None:
    run_opened(choose_command(work), between=lambda: put_link(work / replaced, outside / by))
    assert list_made(outside) == []


def test_without_a_link_the_same_writes_where_it_should(work: Path) -> None:
    done = run_opened(choose_command(work))
    assert (done.returncode, done.stderr) == (0, b"")
    assert list_made(work) == [".git/made", "made"]


def test_a_folder_outside_of_the_roots_is_refused(cli_env: CliEnv, outside: Path) -> None:
    scenario = cli_env.work / "hello.toml"
    scenario.write_text(SAYS_HELLO)
    words = ("run", "do it", "-a", "scripted", "--model-from", f"script:{scenario}", "--sandbox", "bwrap", "--cwd")
    held = {"INSPAN_ROOTS": f"/nowhere:{cli_env.work}"}
    done = cli_env.inspan(*words, str(outside), env=held)
    assert done.returncode == 2
    assert f"it is {outside}, outside of where runs may work" in done.stderr
    assert f"{cli_env.work}; INSPAN_ROOTS names them" in done.stderr
    assert list(cli_env.state.glob("projects/*/*/runs/*/run.json")) == []
    assert cli_env.inspan(*words, str(cli_env.work), env=held).returncode == 0
