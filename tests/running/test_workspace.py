"""Files read and written for an agent: inside its folders, and nowhere else whatever it tries."""

import os
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from inspan.contracts.file_requests import FileResult, ReadText, WriteText
from inspan.running.workspace import LARGEST_BYTES, Workspace

_SECRET = "kept from the agent"


@pytest.fixture
def workspace_folder(tmp_path: Path) -> Path:
    """A working folder, and beside it what is none of the agent's business."""
    (tmp_path / "work" / "deep").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text(_SECRET)
    (tmp_path / "work" / "file.txt").write_text("one\ntwo\nthree\n")
    return tmp_path


def _workspace(workspace_folder: Path, **fields: tuple[str, ...]) -> Workspace:
    return Workspace(str(workspace_folder / "work"), **({"writable": (str(workspace_folder / "work"),)} | fields))


def _read(workspace_folder: Path, path: str | Path, **fields: int) -> FileResult:
    return _workspace(workspace_folder).handle(ReadText(id="1", path=str(path), **fields))


def _write(workspace_folder: Path, path: str | Path, text: str = "new") -> FileResult:
    return _workspace(workspace_folder).handle(WriteText(id="1", path=str(path), text=text))


def _is_untouched(workspace_folder: Path) -> bool:
    kept = (workspace_folder / "outside" / "secret.txt").read_text() == _SECRET
    return kept and os.listdir(workspace_folder / "outside") == ["secret.txt"]


def test_a_file_is_read_whole(workspace_folder: Path) -> None:
    path = str(workspace_folder / "work" / "file.txt")
    assert _read(workspace_folder, path) == FileResult(id="1", path=path, text="one\ntwo\nthree\n")


@pytest.mark.parametrize(
    ("line", "limit", "text"),
    [(2, 1, "two\n"), (3, 5, "three\n"), (1, 2, "one\ntwo\n"), (4, 1, ""), (9, 9, ""), (1, 0, ""), (0, 1, "one\n")],
)
def test_lines_are_counted_from_one(workspace_folder: Path, line: int, limit: int, text: str) -> None:
    assert _read(workspace_folder, "file.txt", line=line, limit=limit).text == text


def test_only_a_line_feed_ends_a_line(workspace_folder: Path) -> None:
    (workspace_folder / "work" / "odd.txt").write_text("a\u2028b\x85c\rd\ne", newline="")
    assert _read(workspace_folder, "odd.txt", line=1, limit=1).text == "a\u2028b\x85c\rd\n"


def test_a_missing_file_is_told_as_missing(workspace_folder: Path) -> None:
    path = str(workspace_folder / "work" / "none.txt")
    assert _read(workspace_folder, path) == FileResult(
        id="1", path=path, problem=f"Resource not found: {path}", missing=True
    )


def test_a_new_file_is_made_with_its_folders(workspace_folder: Path) -> None:
    path = workspace_folder / "work" / "a" / "b" / "new.txt"
    assert _write(workspace_folder, path, "grüße\n") == FileResult(id="1", path=str(path), change="added")
    assert path.read_text() == "grüße\n"


def test_a_file_keeps_its_mode_when_it_is_written_anew(workspace_folder: Path) -> None:
    path = workspace_folder / "work" / "file.txt"
    path.chmod(0o750)
    assert _write(workspace_folder, path).change == "modified"
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o750)
    assert sorted(os.listdir(workspace_folder / "work")) == ["deep", "file.txt"]


def test_a_file_that_is_written_anew_runs_as_its_owner_no_more(workspace_folder: Path) -> None:
    path = workspace_folder / "work" / "file.txt"
    path.chmod(0o4755)
    assert _write(workspace_folder, "file.txt").change == "modified"
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


_ESCAPES = [
    "../outside/secret.txt",
    "deep/../../outside/secret.txt",
    "{room}/outside/secret.txt",
    "/etc/passwd",
    "a\0b",
]


@pytest.mark.parametrize("path", _ESCAPES)
def test_no_path_leads_outside(workspace_folder: Path, path: str) -> None:
    path = path.replace("{room}", str(workspace_folder))
    assert [
        _read(workspace_folder, path).denied,
        _write(workspace_folder, path).denied,
        _is_untouched(workspace_folder),
    ] == [True, True, True]


@pytest.mark.parametrize("link", ["work/link.txt", "work/deep/link.txt"])
def test_a_link_to_a_file_outside_is_not_followed(workspace_folder: Path, link: str) -> None:
    os.symlink(workspace_folder / "outside" / "secret.txt", workspace_folder / link)
    assert [
        _read(workspace_folder, workspace_folder / link).denied,
        _write(workspace_folder, workspace_folder / link).denied,
        _is_untouched(workspace_folder),
    ] == [
        True,
        True,
        True,
    ]


def test_a_link_to_a_folder_outside_is_not_followed(workspace_folder: Path) -> None:
    os.symlink(workspace_folder / "outside", workspace_folder / "work" / "door")
    assert [
        _read(workspace_folder, "door/secret.txt").denied,
        _write(workspace_folder, "door/secret.txt").denied,
        _write(workspace_folder, "door/new.txt").denied,
        _write(workspace_folder, "door/deep/new.txt").denied,
        _is_untouched(workspace_folder),
    ] == [True] * 5


def test_a_link_within_the_folder_works(workspace_folder: Path) -> None:
    os.symlink(workspace_folder / "work" / "deep", workspace_folder / "work" / "short")
    assert _write(workspace_folder, "short/new.txt").change == "added"
    assert (workspace_folder / "work" / "deep" / "new.txt").read_text() == "new"


def test_another_name_of_a_file_outside_keeps_what_it_has(workspace_folder: Path) -> None:
    os.link(workspace_folder / "outside" / "secret.txt", workspace_folder / "work" / "same.txt")
    assert _write(workspace_folder, "same.txt").change == "modified"
    assert _is_untouched(workspace_folder)


def test_a_pipe_is_refused_at_once(workspace_folder: Path) -> None:
    os.mkfifo(workspace_folder / "work" / "pipe")
    assert [_read(workspace_folder, "pipe").denied, _write(workspace_folder, "pipe").denied] == [True, True]


def test_a_folder_is_no_file(workspace_folder: Path) -> None:
    assert [
        _read(workspace_folder, "deep").denied,
        _write(workspace_folder, "deep").denied,
        _read(workspace_folder, ".").denied,
    ] == [True, True, True]


def test_a_file_of_a_gigabyte_is_not_read(workspace_folder: Path) -> None:
    with open(workspace_folder / "work" / "huge", "wb") as file:
        file.truncate(1 << 30)
    worked = _read(workspace_folder, "huge")
    assert (worked.text, worked.denied, worked.problem) == ("", False, "huge: it has more than 10 MB")


def test_too_much_is_not_written(workspace_folder: Path) -> None:
    worked = _write(workspace_folder, "big.txt", "x" * (LARGEST_BYTES + 1))
    assert (worked.change, worked.problem) == (None, "big.txt: 10.0 MB are too much for one file")
    assert not (workspace_folder / "work" / "big.txt").exists()


def test_what_is_no_text_is_not_read(workspace_folder: Path) -> None:
    (workspace_folder / "work" / "image").write_bytes(b"\x89PNG\xff")
    assert _read(workspace_folder, "image").problem == "image: it is not text in UTF-8"


def test_a_run_that_changes_nothing_writes_nothing(workspace_folder: Path) -> None:
    reader = _workspace(workspace_folder, writable=(), readable=(str(workspace_folder / "work"),))
    assert reader.handle(ReadText(id="1", path="file.txt", limit=1)).text == "one\n"
    assert reader.handle(WriteText(id="2", path="file.txt", text="new")) == FileResult(
        id="2",
        path=str(workspace_folder / "work" / "file.txt"),
        problem="file.txt: this run changes no files",
        denied=True,
    )


def test_a_folder_that_is_only_read_is_not_written(workspace_folder: Path) -> None:
    workspace = _workspace(workspace_folder, readable=(str(workspace_folder / "outside"),))
    path = str(workspace_folder / "outside" / "secret.txt")
    assert workspace.handle(ReadText(id="1", path=path)).text == _SECRET
    assert workspace.handle(WriteText(id="2", path=path, text="new")).denied
    assert _is_untouched(workspace_folder)


def test_what_is_hidden_inside_the_folder_stays_hidden_but_for_a_part_that_is_granted(workspace_folder: Path) -> None:
    state = workspace_folder / "work" / "state"
    (state / "granted").mkdir(parents=True)
    (state / "lock").write_text("")
    (state / "granted" / "image.txt").write_text("seen")
    workspace = _workspace(workspace_folder, hidden=(str(state),), readable=(str(state / "granted"),))
    assert workspace.handle(ReadText(id="1", path=str(state / "lock"))).denied
    assert workspace.handle(WriteText(id="2", path=str(state / "new"), text="")).denied
    assert workspace.handle(ReadText(id="3", path=str(state / "granted" / "image.txt"))).text == "seen"


def test_a_file_without_permission_is_told_so(workspace_folder: Path) -> None:
    (workspace_folder / "work" / "file.txt").chmod(0o400)
    worked = _write(workspace_folder, "file.txt")
    root = os.geteuid() == 0
    assert (worked.change, worked.problem) == (("modified", "") if root else (None, "file.txt: Permission denied"))


@pytest.mark.parametrize("path", ["deep/secret.txt", "deep/new.txt"])
def test_a_link_that_is_put_in_the_way_between_looking_and_opening_is_refused(
    workspace_folder: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, resolve = _workspace(workspace_folder), os.path.realpath

    def resolved(given: str) -> str:
        found = resolve(given)
        os.rename(workspace_folder / "work" / "deep", workspace_folder / "work" / "aside")
        os.symlink(workspace_folder / "outside", workspace_folder / "work" / "deep")
        return found

    monkeypatch.setattr(os.path, "realpath", resolved)
    worked = workspace.handle(WriteText(id="1", path=path, text="new"))
    assert (worked.change, worked.denied, _is_untouched(workspace_folder)) == (None, True, True)


def test_a_file_that_becomes_a_link_between_looking_and_opening_is_refused(
    workspace_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, resolve = _workspace(workspace_folder), os.path.realpath

    def resolved(given: str) -> str:
        found = resolve(given)
        os.unlink(workspace_folder / "work" / "file.txt")
        os.symlink(workspace_folder / "outside" / "secret.txt", workspace_folder / "work" / "file.txt")
        return found

    monkeypatch.setattr(os.path, "realpath", resolved)
    worked = workspace.handle(ReadText(id="1", path="file.txt"))
    assert (worked.text, worked.denied) == ("", True)


def test_a_link_that_is_put_in_the_way_meanwhile_is_not_followed(workspace_folder: Path) -> None:
    """Another process turns a folder into a link and back as fast as it can; nothing ever comes from outside."""
    inside, outside = workspace_folder / "work" / "deep", workspace_folder / "outside"
    (inside / "secret.txt").write_text("inside")
    stop = threading.Event()

    aside = workspace_folder / "work" / "aside"
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
        reads = {_read(workspace_folder, "deep/secret.txt").text for _ in range(2000)}
        for _ in range(500):
            _write(workspace_folder, "deep/new.txt")
    finally:
        stop.set()
        thread.join()
    assert reads <= {"", "inside"}
    assert _is_untouched(workspace_folder)
