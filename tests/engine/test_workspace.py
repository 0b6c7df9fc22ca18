"""Files read and written for an agent: inside its folders, and nowhere else whatever it tries."""

import os
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from inspan.contracts.work import ReadText, Worked, WriteText
from inspan.engine.workspace import LARGEST_BYTES, Workspace

_SECRET = "kept from the agent"


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """A working folder, and beside it what is none of the agent's business."""
    (tmp_path / "work" / "deep").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text(_SECRET)
    (tmp_path / "work" / "file.txt").write_text("one\ntwo\nthree\n")
    return tmp_path


def _workspace(room: Path, **fields: tuple[str, ...]) -> Workspace:
    return Workspace(str(room / "work"), **({"writable": (str(room / "work"),)} | fields))


def _read(room: Path, path: str | Path, **fields: int) -> Worked:
    return _workspace(room).do(ReadText(id="1", path=str(path), **fields))


def _write(room: Path, path: str | Path, text: str = "new") -> Worked:
    return _workspace(room).do(WriteText(id="1", path=str(path), text=text))


def _untouched(room: Path) -> bool:
    kept = (room / "outside" / "secret.txt").read_text() == _SECRET
    return kept and os.listdir(room / "outside") == ["secret.txt"]


def test_a_file_is_read_whole(room: Path) -> None:
    path = str(room / "work" / "file.txt")
    assert _read(room, path) == Worked(id="1", path=path, text="one\ntwo\nthree\n")


@pytest.mark.parametrize(
    ("line", "limit", "text"),
    [(2, 1, "two\n"), (3, 5, "three\n"), (1, 2, "one\ntwo\n"), (4, 1, ""), (9, 9, ""), (1, 0, ""), (0, 1, "one\n")],
)
def test_lines_are_counted_from_one(room: Path, line: int, limit: int, text: str) -> None:
    assert _read(room, "file.txt", line=line, limit=limit).text == text


def test_only_a_line_feed_ends_a_line(room: Path) -> None:
    (room / "work" / "odd.txt").write_text("a\u2028b\x85c\rd\ne", newline="")
    assert _read(room, "odd.txt", line=1, limit=1).text == "a\u2028b\x85c\rd\n"


def test_a_missing_file_is_told_as_missing(room: Path) -> None:
    path = str(room / "work" / "none.txt")
    assert _read(room, path) == Worked(id="1", path=path, problem=f"Resource not found: {path}", missing=True)


def test_a_new_file_is_made_with_its_folders(room: Path) -> None:
    path = room / "work" / "a" / "b" / "new.txt"
    assert _write(room, path, "grüße\n") == Worked(id="1", path=str(path), change="added")
    assert path.read_text() == "grüße\n"


def test_a_file_keeps_its_mode_when_it_is_written_anew(room: Path) -> None:
    path = room / "work" / "file.txt"
    path.chmod(0o750)
    assert _write(room, path).change == "modified"
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o750)
    assert sorted(os.listdir(room / "work")) == ["deep", "file.txt"]


_ESCAPES = [
    "../outside/secret.txt",
    "deep/../../outside/secret.txt",
    "{room}/outside/secret.txt",
    "/etc/passwd",
    "a\0b",
]


@pytest.mark.parametrize("path", _ESCAPES)
def test_no_path_leads_outside(room: Path, path: str) -> None:
    path = path.replace("{room}", str(room))
    assert [_read(room, path).denied, _write(room, path).denied, _untouched(room)] == [True, True, True]


@pytest.mark.parametrize("link", ["work/link.txt", "work/deep/link.txt"])
def test_a_link_to_a_file_outside_is_not_followed(room: Path, link: str) -> None:
    os.symlink(room / "outside" / "secret.txt", room / link)
    assert [_read(room, room / link).denied, _write(room, room / link).denied, _untouched(room)] == [True, True, True]


def test_a_link_to_a_folder_outside_is_not_followed(room: Path) -> None:
    os.symlink(room / "outside", room / "work" / "door")
    assert [
        _read(room, "door/secret.txt").denied,
        _write(room, "door/secret.txt").denied,
        _write(room, "door/new.txt").denied,
        _write(room, "door/deep/new.txt").denied,
        _untouched(room),
    ] == [True] * 5


def test_a_link_within_the_folder_works(room: Path) -> None:
    os.symlink(room / "work" / "deep", room / "work" / "short")
    assert _write(room, "short/new.txt").change == "added"
    assert (room / "work" / "deep" / "new.txt").read_text() == "new"


def test_another_name_of_a_file_outside_keeps_what_it_has(room: Path) -> None:
    os.link(room / "outside" / "secret.txt", room / "work" / "same.txt")
    assert _write(room, "same.txt").change == "modified"
    assert _untouched(room)


def test_a_pipe_is_refused_at_once(room: Path) -> None:
    os.mkfifo(room / "work" / "pipe")
    assert [_read(room, "pipe").denied, _write(room, "pipe").denied] == [True, True]


def test_a_folder_is_no_file(room: Path) -> None:
    assert [_read(room, "deep").denied, _write(room, "deep").denied, _read(room, ".").denied] == [True, True, True]


def test_a_file_of_a_gigabyte_is_not_read(room: Path) -> None:
    with open(room / "work" / "huge", "wb") as file:
        file.truncate(1 << 30)
    worked = _read(room, "huge")
    assert (worked.text, worked.denied, worked.problem) == ("", False, "huge: it has more than 10 MB")


def test_too_much_is_not_written(room: Path) -> None:
    worked = _write(room, "big.txt", "x" * (LARGEST_BYTES + 1))
    assert (worked.change, worked.problem) == (None, "big.txt: 10.0 MB are too much for one file")
    assert not (room / "work" / "big.txt").exists()


def test_what_is_no_text_is_not_read(room: Path) -> None:
    (room / "work" / "image").write_bytes(b"\x89PNG\xff")
    assert _read(room, "image").problem == "image: it is no text in UTF-8"


def test_a_run_that_changes_nothing_writes_nothing(room: Path) -> None:
    reader = _workspace(room, writable=(), readable=(str(room / "work"),))
    assert reader.do(ReadText(id="1", path="file.txt", limit=1)).text == "one\n"
    assert reader.do(WriteText(id="2", path="file.txt", text="new")) == Worked(
        id="2",
        path=str(room / "work" / "file.txt"),
        problem="file.txt: this run changes no files",
        denied=True,
    )


def test_a_folder_that_is_only_read_is_not_written(room: Path) -> None:
    workspace = _workspace(room, readable=(str(room / "outside"),))
    path = str(room / "outside" / "secret.txt")
    assert workspace.do(ReadText(id="1", path=path)).text == _SECRET
    assert workspace.do(WriteText(id="2", path=path, text="new")).denied
    assert _untouched(room)


def test_what_is_hidden_inside_the_folder_stays_hidden_but_for_a_part_that_is_granted(room: Path) -> None:
    state = room / "work" / "state"
    (state / "granted").mkdir(parents=True)
    (state / "lock").write_text("")
    (state / "granted" / "image.txt").write_text("seen")
    workspace = _workspace(room, hidden=(str(state),), readable=(str(state / "granted"),))
    assert workspace.do(ReadText(id="1", path=str(state / "lock"))).denied
    assert workspace.do(WriteText(id="2", path=str(state / "new"), text="")).denied
    assert workspace.do(ReadText(id="3", path=str(state / "granted" / "image.txt"))).text == "seen"


def test_a_file_without_permission_is_told_so(room: Path) -> None:
    (room / "work" / "file.txt").chmod(0o400)
    worked = _write(room, "file.txt")
    root = os.geteuid() == 0
    assert (worked.change, worked.problem) == (("modified", "") if root else (None, "file.txt: Permission denied"))


@pytest.mark.parametrize("path", ["deep/secret.txt", "deep/new.txt"])
def test_a_link_that_is_put_in_the_way_between_looking_and_opening_is_refused(
    room: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, resolve = _workspace(room), os.path.realpath

    def resolved(given: str) -> str:
        found = resolve(given)
        os.rename(room / "work" / "deep", room / "work" / "aside")
        os.symlink(room / "outside", room / "work" / "deep")
        return found

    monkeypatch.setattr(os.path, "realpath", resolved)
    worked = workspace.do(WriteText(id="1", path=path, text="new"))
    assert (worked.change, worked.denied, _untouched(room)) == (None, True, True)


def test_a_file_that_becomes_a_link_between_looking_and_opening_is_refused(
    room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, resolve = _workspace(room), os.path.realpath

    def resolved(given: str) -> str:
        found = resolve(given)
        os.unlink(room / "work" / "file.txt")
        os.symlink(room / "outside" / "secret.txt", room / "work" / "file.txt")
        return found

    monkeypatch.setattr(os.path, "realpath", resolved)
    worked = workspace.do(ReadText(id="1", path="file.txt"))
    assert (worked.text, worked.denied) == ("", True)


def test_a_link_that_is_put_in_the_way_meanwhile_is_not_followed(room: Path) -> None:
    """Another process turns a folder into a link and back as fast as it can; nothing ever comes from outside."""
    inside, outside = room / "work" / "deep", room / "outside"
    (inside / "secret.txt").write_text("inside")
    stop = threading.Event()

    aside = room / "work" / "aside"
    steps: list[Callable[[], object]] = [
        lambda: os.rename(inside, aside),
        lambda: os.symlink(outside, inside),
        lambda: os.unlink(inside),
        lambda: os.rmdir(inside),  # One that was made for a file to be written meanwhile.
        lambda: os.rename(aside, inside),
    ]

    def swap() -> None:
        while not stop.is_set():
            for step in steps:
                with suppress(OSError):
                    step()

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        reads = {_read(room, "deep/secret.txt").text for _ in range(2000)}
        for _ in range(500):
            _write(room, "deep/new.txt")
    finally:
        stop.set()
        thread.join()
    assert reads <= {"", "inside"}
    assert _untouched(room)
