"""Which way of containment is chosen: the best that works here, asked for once and remembered."""

import os
from pathlib import Path

import pytest

from inspan.containment import programs
from inspan.containment.containment import METHODS, choose_containment
from inspan.errors import BadInput
from inspan.system.programs import find_program


def _bin(folder: Path, **programs_there: str) -> str:
    """A PATH on which only these programs are found; each leaves a line in `<name>.ran` when it runs."""
    folder.mkdir(exist_ok=True)
    for name, body in programs_there.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\necho ran >> {path}.ran\n{body}\n")
        path.chmod(0o755)
    return str(folder)


@pytest.fixture(autouse=True)
def no_bundled_bwrap(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]  used by all
    monkeypatch.setattr(programs, "_bundled_bwrap", "")


@pytest.mark.parametrize("name", [way.name for way in METHODS])
def test_a_way_that_is_asked_for_is_taken(tmp_path: Path, name: str) -> None:
    assert choose_containment(str(tmp_path), asked=name).name == name
    assert list(tmp_path.iterdir()) == []


def test_a_way_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        choose_containment(str(tmp_path), asked="rope")
    assert caught.value.next_step == "Use one of: bwrap, unshare, reaper."


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ({"bwrap": "exit 0", "unshare": "exit 0", "setpriv": "exit 0"}, "bwrap"),
        ({"bwrap": "exit 1", "unshare": "exit 0", "setpriv": "exit 0"}, "unshare"),
        ({"unshare": "exit 0", "setpriv": "exit 0"}, "unshare"),
        ({"bwrap": "exit 1", "unshare": "exit 0", "setpriv": "exit 1"}, "reaper"),
        ({"unshare": "exit 0"}, "reaper"),
        ({}, "reaper"),
    ],
)
def test_the_best_way_that_works_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: dict[str, str], expected: str
) -> None:
    monkeypatch.setenv("PATH", _bin(tmp_path / "bin", **there))
    assert choose_containment(str(tmp_path / "cache")).name == expected


def test_what_was_found_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", _bin(tmp_path / "bin", bwrap="exit 0"))
    for _ in range(3):
        assert choose_containment(str(tmp_path / "cache")).name == "bwrap"
    assert (tmp_path / "bin" / "bwrap.ran").read_text().split() == ["ran"]


def test_a_bubblewrap_in_another_place_is_tried_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, code, expected in (("one", 0, "bwrap"), ("two", 1, "reaper")):
        monkeypatch.setenv("PATH", _bin(tmp_path / folder, bwrap=f"exit {code}"))
        assert choose_containment(str(tmp_path / "cache")).name == expected


def test_a_bubblewrap_that_was_replaced_is_tried_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for code, expected in ((0, "bwrap"), (10, "reaper")):
        monkeypatch.setenv("PATH", _bin(tmp_path / "bin", bwrap=f"exit {code}"))
        assert choose_containment(str(tmp_path / "cache")).name == expected


@pytest.mark.parametrize("spoilt", [b"", b"[]", b"\xff", b'{"a": "\xff"}', b'{"a": 1}'])
def test_a_spoilt_memory_costs_a_try_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoilt: bytes
) -> None:
    monkeypatch.setenv("PATH", _bin(tmp_path / "bin", bwrap="exit 0"))
    (tmp_path / "containment.json").write_bytes(spoilt)
    assert choose_containment(str(tmp_path)).name == "bwrap"


def test_a_memory_that_cannot_be_written_costs_a_try_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", _bin(tmp_path / "bin", bwrap="exit 0"))
    (tmp_path / "file").touch()
    assert choose_containment(str(tmp_path / "file")).name == "bwrap"


def test_a_program_is_the_first_file_on_path_that_can_be_run(tmp_path: Path) -> None:
    (tmp_path / "folder" / "tool").mkdir(parents=True)
    _bin(tmp_path / "plain", tool="exit 0")
    (tmp_path / "plain" / "tool").chmod(0o644)
    good = _bin(tmp_path / "good", tool="exit 0")
    path = os.pathsep.join([str(tmp_path / "folder"), "", "/not/there", str(tmp_path / "plain"), good])
    assert find_program("tool", path=path) == f"{good}/tool"
    assert find_program("nothing", path=path) == ""
