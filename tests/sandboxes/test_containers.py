"""The command lines of containers, for engines and users that a test cannot have."""

import marshal
import os
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from inspan.contracts.sandbox import Box, Sandbox
from inspan.errors import BadInput, SandboxUnusable
from inspan.protocol.network import parse_network
from inspan.sandboxes.docker import SANDBOX as DOCKER
from inspan.sandboxes.podman import SANDBOX as PODMAN
from inspan.system import entry

BOX = Box(
    cwd="/w", image="some/image", name="box-1", readable=("/r",), network=parse_network("none"), env={"HOME": "/tmp"}
)


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("podman", "docker", "bwrap"):
        (tmp_path / name).write_text("#!/bin/sh\necho crun 2\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


def test_a_docker_container_is_confined_by_dockers_own_words(tmp_path: Path) -> None:
    held = _split(DOCKER.wrap(("pytest", "-q"), msgspec.structs.replace(BOX, env={"HOME": "/tmp", "KEY": "secret"})))
    assert held.command == (
        *(f"{tmp_path}/docker", "run", "--rm", "--interactive", "--pull", "never", "--name", "box-1"),
        *("--cap-drop", "all", "--security-opt", "no-new-privileges", "--read-only", "--tmpfs", "/tmp:rw,mode=1777"),
        *("--network", "none", "--workdir", "/w", "--entrypoint", "pytest", "--ulimit=core=0:0"),
        *("--user", f"{os.getuid()}:{os.getgid()}", "--log-driver", "none"),
        *("--volume", "/r:/r:ro", "--volume", "/w:/w:rw", "--env=HOME=/tmp", "--env=KEY"),
        *("some/image", "-q"),
    )
    assert held.then == (f"{tmp_path}/docker", "rm", "--force", "box-1")
    assert DOCKER.isolate(BOX) is None
    assert DOCKER.depth(BOX) == 1


def test_podmans_words_are_dockers_but_for_who_it_is_and_what_holds_it(tmp_path: Path) -> None:
    podman, docker = (_split(each.wrap(("true",), BOX)).command for each in (PODMAN, DOCKER))
    started = podman[podman.index("run") :]
    own = {"--cgroups", "disabled", "--no-hosts", "--userns", "keep-id"}
    podmans = [word for word in started if word not in own and not word.startswith("--ulimit=n")]
    podmans[podmans.index("--log-driver") + 1] = "none"  # Its conmon would have to copy what is written: see there.
    dockers = [word for word in docker[1:] if word not in {"--user", f"{os.getuid()}:{os.getgid()}"}]
    assert podmans == dockers


@pytest.mark.parametrize("root", [False, True], ids=["user", "root"])
def test_podman_is_held_by_the_reaper_who_removes_what_was_killed(root: bool, tmp_path: Path) -> None:
    box = msgspec.structs.replace(BOX, root=root)
    held = _split(PODMAN.wrap(("true",), box))
    assert held.then[-5:] == (f"{tmp_path}/podman", "rm", "--force", "--ignore", "box-1")
    assert held.command[held.command.index("--network") + 1] == "none"
    assert ("--userns" in held.command, "--uidmap=1000:0:1" in held.command) == (not root, root)
    before = held.command[: held.command.index("run")]
    assert PODMAN.depth(box) == 1 + before.count(f"{tmp_path}/bwrap") + 2 * before.count("unshare")


def test_an_ordinary_users_podman_makes_the_network_where_it_has_its_users(tmp_path: Path) -> None:
    box = msgspec.structs.replace(BOX, network=parse_network("allow=a.example"), listeners=(8080,))
    command = _split(PODMAN.wrap(("true",), box)).command
    assert command[:2] == (f"{tmp_path}/podman", "unshare")
    assert command[5] == entry.__file__
    assert marshal.loads(bytes.fromhex(command[6]))["ports"] == [8080]
    assert command[command.index("--network") + 1] == "host"
    isolation = PODMAN.isolate(box)
    assert isolation and (isolation.network, isolation.inside) == (True, True)


def test_roots_podman_joins_the_network_that_was_made_before(tmp_path: Path) -> None:
    box = msgspec.structs.replace(BOX, root=True, network=parse_network("allow=a.example"))
    command = _split(PODMAN.wrap(("true",), box)).command
    assert "unshare" not in command
    assert entry.__file__ not in command
    assert command[command.index("--network") + 1] == "host"
    isolation = PODMAN.isolate(box)
    assert isolation and (isolation.network, isolation.inside) == (True, False)


@pytest.mark.parametrize("sandbox", [PODMAN, DOCKER], ids=["podman", "docker"])
def test_what_lies_hidden_in_the_working_folder_is_covered(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    box = msgspec.structs.replace(BOX, cwd=str(tmp_path), hidden=(f"{tmp_path}/state", "/usr"))
    words = sandbox.wrap(("true",), box)
    covered = [words[place + 1] for place, word in enumerate(words) if word == "--tmpfs"]
    assert [path for path in covered if path not in ("/tmp:rw,mode=1777", "/sys/fs/cgroup")] == [f"{tmp_path}/state"]


@pytest.mark.parametrize(
    ("sandbox", "change", "words"),
    [
        (DOCKER, {"network": parse_network("allow=a.example")}, "docker's daemon cannot start containers"),
        (DOCKER, {"network": parse_network("gateway")}, "docker's daemon cannot start containers"),
        (PODMAN, {"cwd": "/a:b"}, "no path with a colon"),
        (PODMAN, {"image": ""}, "needs an image"),
        (DOCKER, {"image": "--privileged"}, "needs an image"),
    ],
)
def test_what_it_cannot_do_is_refused(sandbox: Sandbox, change: dict[str, object], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        sandbox.check(msgspec.structs.replace(BOX, **change))


def test_a_missing_engine_is_refused(tmp_path: Path) -> None:
    (tmp_path / "docker").unlink()
    with pytest.raises(SandboxUnusable, match="needs docker"):
        DOCKER.check(BOX)


@pytest.mark.parametrize(
    ("says", "words"),
    [
        ("echo runc 2", "by runc here"),
        ("echo crun 1", "no users for the containers"),
        ("echo 'no subuid ranges' >&2; exit 125", "podman does not work here: no subuid"),
    ],
)
def test_a_podman_that_cannot_start_containers_our_way_is_refused(says: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "podman").write_text(f"#!/bin/sh\n{says}\n")
    with pytest.raises(SandboxUnusable, match=words) as refused:
        PODMAN.check(BOX)
    assert refused.value.next_step


class _Held(NamedTuple):
    then: tuple[str, ...]
    command: tuple[str, ...]


def _split(words: tuple[str, ...]) -> _Held:
    """What the reaper runs, and what it runs afterwards."""
    assert words[3].endswith("reaper.py")
    assert words[4] == "--then"
    end = 6 + int(words[5])
    assert words[end] == BOX.cwd
    return _Held(words[6:end], words[end + 1 :])


@pytest.mark.parametrize("root", [False, True], ids=["user", "root"])
def test_what_works_is_tried_without_an_image(root: bool, tmp_path: Path) -> None:
    box = Box(cwd="/", root=root)
    (tmp_path / "docker").write_text("#!/bin/sh\necho 28.1\n")
    assert DOCKER.describe(box) == f"{tmp_path}/docker, daemon 28.1; with --image and --net open"
    assert PODMAN.describe(box).startswith(f"works, with {tmp_path}/podman")
    for name in ("podman", "bwrap"):  # By the latter it is started on machines with control groups of both versions.
        answers = '[ "$1" = info ] && echo crun 2 && exit'
        (tmp_path / name).write_text(f"#!/bin/sh\n{answers}\necho 'crun: it cannot' >&2; exit 126\n")
    with pytest.raises(SandboxUnusable, match=r"cannot start a container here: crun: it cannot\."):
        PODMAN.describe(box)


def test_a_bubblewrap_that_keeps_podman_from_starting_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with control groups of both versions it stands before podman."""
    monkeypatch.setattr("inspan.sandboxes.podman.container._BOTH_VERSIONS", "/proc/self/status")
    (tmp_path / "podman").write_text("#!/bin/sh\necho crun 2\n")
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create namespaces' >&2; exit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    with pytest.raises(SandboxUnusable, match="podman needs bubblewrap here") as refused:
        PODMAN.describe(Box(cwd="/", root=True))
    assert "uidmap" not in refused.value.next_step and "sandbox bwrap" in refused.value.next_step
