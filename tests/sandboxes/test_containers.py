"""The command lines of containers, for engines and users that a test cannot have."""

import os
from pathlib import Path

import msgspec
import pytest

from inspan.contracts.sandbox import Box, Sandbox
from inspan.errors import BadInput, SandboxUnusable
from inspan.protocol.network import parse_network
from inspan.sandboxes.docker import SANDBOX as DOCKER
from inspan.sandboxes.podman import SANDBOX as PODMAN

BOX = Box(
    cwd="/w", image="some/image", name="box-1", readable=("/r",), network=parse_network("none"), env={"HOME": "/tmp"}
)


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("podman", "docker", "bwrap"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


def test_a_docker_container_is_confined_by_dockers_own_words(tmp_path: Path) -> None:
    words = DOCKER.wrap(("pytest", "-q"), msgspec.structs.replace(BOX, env={"HOME": "/tmp", "KEY": "secret"}))
    assert words == (
        *(f"{tmp_path}/docker", "run", "--rm", "--interactive", "--pull", "never", "--name", "box-1"),
        *("--cap-drop", "all", "--security-opt", "no-new-privileges", "--read-only", "--tmpfs", "/tmp:rw,mode=1777"),
        *("--network", "none", "--workdir", "/w", "--entrypoint", "pytest"),
        *("--user", f"{os.getuid()}:{os.getgid()}", "--log-driver", "none"),
        *("--volume", "/r:/r:ro", "--volume", "/w:/w:rw", "--env=HOME=/tmp", "--env=KEY"),
        *("some/image", "-q"),
    )
    assert DOCKER.forget(BOX) == (f"{tmp_path}/docker", "rm", "--force", "box-1")
    assert DOCKER.isolate(BOX) is None


def test_an_ordinary_users_podman_is_held_by_the_reaper_and_makes_its_own_network(tmp_path: Path) -> None:
    words = PODMAN.wrap(("true",), BOX)
    start = words.index(f"{tmp_path}/podman")
    assert words[start - 2].endswith("reaper.py")
    assert words[words.index("--network") + 1] == "none"
    assert words[words.index("--userns") + 1] == "keep-id"
    assert PODMAN.isolate(BOX) is None


def test_roots_podman_is_held_by_a_namespace_and_joins_the_network_that_was_made(tmp_path: Path) -> None:
    box = msgspec.structs.replace(BOX, root=True)
    words = PODMAN.wrap(("true",), box)
    assert words[:3] == (f"{tmp_path}/bwrap", "--unshare-pid", "--die-with-parent")
    assert words[words.index("--network") + 1] == "host"
    assert "--userns" not in words
    isolation = PODMAN.isolate(box)
    assert isolation and isolation.network


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
        (PODMAN, {"network": parse_network("allow=a.example")}, "an ordinary user's podman cannot"),
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
