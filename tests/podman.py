"""Podman for tests: a store of its own, and an image that is made of a few of this machine's programs."""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

from .cli_env import short_folder

IMAGE = "localhost/inspan-test:1"
_PROGRAMS = ("bash", "cat", "chmod", "env", "head", "ln", "mkdir", "mv", "printf", "rm", "sh", "sleep", "tail", "touch")
_MORE = ("git", "id", "ls", "true")
# What an agent's program that was built for older systems asks for by name.
_PARTS_OF_LIBC = ("libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1")
_WAIT_S = 120


class Podman:
    """`path` is a folder for the front of PATH: the podman in it knows the test's store alone."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.path = root / "bin"
        self.path.mkdir()
        # By arguments: what cleans up behind a container is started by podman itself, without our variables.
        short = short_folder(self)  # It takes 50 characters for the second.
        folders = f"--root {root}/store --runroot {short}"
        program = self.path / "podman"
        program.write_text(f'#!/bin/sh\nXDG_RUNTIME_DIR={short} exec {shutil.which("podman")} {folders} "$@"\n')
        program.chmod(0o755)

    def import_image(self) -> str:
        """Makes the image and runs it once; gives why that cannot be."""
        archive = self._root / "image.tar"
        _write_archive(archive)
        made = self.run("import", str(archive), IMAGE)
        if made.returncode:
            return made.stderr
        # crun 1.8 works with control groups of one version.
        hidden = ["bwrap", "--dev-bind", "/", "/", "--tmpfs", "/sys/fs/cgroup", "--"]
        owner = [] if os.geteuid() == 0 else [str(self.path / "podman"), "unshare"]
        limits = ("--ulimit=nofile=256:256", "--ulimit=nproc=256:256", "--cgroups=disabled")
        ran = _run(
            [*owner, *hidden, str(self.path / "podman"), "run", "--rm", "--network=none", *limits, IMAGE, "true"]
        )
        return ran.stderr if ran.returncode else ""

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return _run([str(self.path / "podman"), *arguments])

    def list_containers(self) -> list[str]:
        return self.run("ps", "--all", "--format", "{{.Names}}").stdout.split()

    def close(self) -> None:
        self.run("rm", "--all", "--force")
        self.run("rmi", "--all", "--force")
        if os.geteuid():
            self.run("unshare", "rm", "-rf", f"{self._root}/store")  # Others among podman's users own parts of it.
            self.run("system", "migrate")  # It ends the process that keeps an ordinary user's namespace.


def _run(argv: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(argv, capture_output=True, text=True, timeout=_WAIT_S, check=False, stdin=subprocess.DEVNULL)


def _write_archive(archive: Path) -> None:
    with tarfile.open(archive, "w") as tar:
        for name in ("proc", "sys", "dev", "tmp", "etc", "run"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(folder)
        libraries = set[str]()
        for name in (*_PROGRAMS, *_MORE):
            program = os.path.realpath(shutil.which(name) or name)
            tar.add(program, f"bin/{name}")
            libraries |= _list_libraries(program)
        folder = os.path.dirname(next(path for path in libraries if os.path.basename(path) == "libc.so.6"))
        libraries |= {f"{folder}/{name}" for name in _PARTS_OF_LIBC}
        for path in libraries:
            tar.add(os.path.realpath(path), path.lstrip("/"))


def _list_libraries(program: str) -> set[str]:
    words = _run(["ldd", program]).stdout.split()
    return {word for word in words if word.startswith("/")}
