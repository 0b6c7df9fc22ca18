"""The page that is shipped is what its source builds to, by the Node that the tests bring themselves."""

import gzip
import shutil
from pathlib import Path

import pytest

from .packages import WEB, install_packages, run_npm

BUILT = WEB.parent / "src" / "inspan" / "web"
MOST_SCRIPT_BYTES = 200_000


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source, with its packages."""
    copy = tmp_path_factory.mktemp("web") / "web"
    shutil.copytree(WEB, copy, ignore=shutil.ignore_patterns("node_modules"))
    (copy / "node_modules").symlink_to(install_packages())
    return copy


def test_its_types_are_right(source: Path) -> None:
    run_npm(source, "run", "check")


def test_its_folds_do_what_their_tests_say(source: Path) -> None:
    run_npm(source, "test")


def test_what_is_shipped_is_what_the_source_builds_to(source: Path, tmp_path: Path) -> None:
    run_npm(source, "run", "build", INSPAN_WEB_OUT=str(tmp_path / "built"))
    assert list_differences(tmp_path / "built", BUILT) == [], "`make web` builds it anew"


def list_differences(one: Path, other: Path) -> list[str]:
    names = {str(each.relative_to(folder)) for folder in (one, other) for each in folder.rglob("*") if each.is_file()}
    return [name for name in sorted(names) if _read(one / name) != _read(other / name)]


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def test_its_script_is_small() -> None:
    script = b"".join(path.read_bytes() for path in BUILT.rglob("*.js"))
    assert len(gzip.compress(script)) < MOST_SCRIPT_BYTES


def test_the_lock_of_its_packages_names_no_host() -> None:
    assert '"resolved"' not in (WEB / "package-lock.json").read_text()
