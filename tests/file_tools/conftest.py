"""A folder to work in with a neighbour that must not be reached, opened by the kernel's call and name by name."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from inspan.file_tools.root import PORTABLE_VARIABLE, Root

SECRET = "words from outside\n"


@dataclass(frozen=True)
class Ground:
    """`inside` is ROOT, `outside` lies beside it and holds a file of its own."""

    inside: Path
    outside: Path

    @property
    def secret(self) -> Path:
        return self.outside / "secret.txt"

    def check_untouched(self) -> None:
        """Nothing outside was added, removed or changed."""
        assert [path.name for path in self.outside.iterdir()] == ["secret.txt"]
        assert self.secret.read_text() == SECRET


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    made = Ground(tmp_path / "inside", tmp_path / "outside")
    for folder in (made.inside, made.outside):
        folder.mkdir()
    made.secret.write_text(SECRET)
    (made.inside / "kept.txt").write_text("one\ntwo\nthree\n")
    (made.inside / "sub").mkdir()
    (made.inside / "sub" / "deep.txt").write_text("deep\n")
    return made


@pytest.fixture(params=["openat2", "walk"])
def root(request: pytest.FixtureRequest, ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Iterator[Root]:
    """ROOT, by each way of opening what lies beneath it."""
    monkeypatch.delenv(PORTABLE_VARIABLE, raising=False)
    if request.param == "walk":
        monkeypatch.setenv(PORTABLE_VARIABLE, "1")
    before = set(os.listdir("/proc/self/fd"))
    made = Root(str(ground.inside))
    assert made.by_kernel is (request.param == "openat2")
    yield made
    made.close()
    assert set(os.listdir("/proc/self/fd")) <= before, "a descriptor was left open"
