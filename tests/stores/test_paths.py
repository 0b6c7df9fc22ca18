"""Which folders are used, and that they are the user's own."""

import errno
import os
import socket
from contextlib import chdir
from pathlib import Path

import pytest

from inspan.errors import StateUnusable
from inspan.protocol.commands import Cancel
from inspan.runs.control_client import send_command
from inspan.stores.paths import (
    cache_home,
    data_home,
    is_private,
    make_private_folder,
    runtime_home,
    socket_path,
    state_error,
    state_home,
)


@pytest.mark.parametrize(
    ("look", "variable", "below_home"),
    [
        (state_home, "XDG_STATE_HOME", ".local/state"),
        (cache_home, "XDG_CACHE_HOME", ".cache"),
        (data_home, "XDG_DATA_HOME", ".local/share"),
    ],
)
def test_folders_follow_the_xdg_rules(look: object, variable: str, below_home: str) -> None:
    assert callable(look)
    assert look({"HOME": "/h"}) == f"/h/{below_home}/inspan"
    assert look({"HOME": "/h", variable: ""}) == f"/h/{below_home}/inspan"
    assert look({"HOME": "/h", variable: "/x"}) == "/x/inspan"


def test_looking_a_folder_up_makes_none(tmp_path: Path) -> None:
    state_home({"XDG_STATE_HOME": str(tmp_path / "a")})
    runtime_home({"XDG_RUNTIME_DIR": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []


def test_a_runtime_folder_that_is_missing_or_too_long_for_a_socket_is_not_used(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    fallback = f"/tmp/inspan-{os.getuid()}"
    assert runtime_home({"XDG_RUNTIME_DIR": str(long)}) == fallback
    assert runtime_home({"XDG_RUNTIME_DIR": "/not/there"}) == fallback
    assert runtime_home({}) == fallback
    assert runtime_home({"XDG_RUNTIME_DIR": "/tmp"}) == "/tmp/inspan"


def test_the_longest_runtime_folder_that_is_used_still_holds_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    for length in range(1, 107):
        folder = "/tmp" + "/" * (length - 4) if length >= 4 else "/"
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        assert len(socket_path("/any", "20260101-000000000-4194304").encode()) <= 107


def test_a_file_where_the_sockets_should_be_names_the_variable_that_moves_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inspan.stores.paths.runtime_home", lambda: str(tmp_path / "there"))
    (tmp_path / "there").write_text("a file")
    with pytest.raises(StateUnusable) as refusal:
        make_private_folder(str(tmp_path / "there"))
    assert "XDG_RUNTIME_DIR" in refusal.value.next_step


def test_runs_of_two_state_folders_never_share_a_socket() -> None:
    assert socket_path("/a/runs/x", "x") != socket_path("/b/runs/x", "x")


def test_a_private_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    made = make_private_folder(str(tmp_path / "a"))
    assert os.stat(made).st_mode & 0o777 == 0o700
    assert make_private_folder(made) == made


@pytest.mark.parametrize("kind", ["file", "below a file", "link", "dangling link"])
def test_what_is_no_folder_of_ours_is_refused_in_a_sentence(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "there"
    if kind == "link":
        path.symlink_to(tmp_path)
    elif kind == "dangling link":
        path.symlink_to(tmp_path / "nowhere")
    else:
        path.touch()
    with pytest.raises(StateUnusable) as caught:
        make_private_folder(str(path / "below" if kind == "below a file" else path))
    assert str(path) in caught.value.message
    assert caught.value.next_step


def test_a_folder_of_another_user_is_refused_and_its_owner_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(0o700)
    real = os.lstat

    def lstat(path: str) -> os.stat_result:
        found = real(path)
        return os.stat_result((*found[:4], 65534, *found[5:])) if path == str(theirs) else found

    assert is_private(str(theirs))
    monkeypatch.setattr(os, "lstat", lstat)
    with pytest.raises(StateUnusable, match=r"is not a folder of yours: it belongs to .*65534") as caught:
        make_private_folder(str(theirs))
    assert "XDG_STATE_HOME" in caught.value.next_step
    assert not is_private(str(theirs))


def test_nothing_is_sent_to_a_socket_in_a_folder_that_is_not_ours(tmp_path: Path) -> None:
    real, path = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    path.symlink_to(real)
    with socket.socket(socket.AF_UNIX) as listener, chdir(real):  # Its whole path may be too long to be bound.
        listener.bind("s.sock")
        listener.listen()
        assert not send_command("../link/s.sock", Cancel())
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_process_without_descriptors_is_told_of_its_limit_and_not_of_the_folder() -> None:
    error = state_error("/x", OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
    assert "`ulimit -n`" in error.next_step and "XDG_STATE_HOME" not in str(error)
