"""Where things lie, by names alone."""

import os
import pwd

import pytest

from inspan.system.paths import expand_home, find_home, is_below, is_within


@pytest.mark.parametrize(
    ("path", "folder", "within", "below"),
    [
        ("/a", "/a", True, False),
        ("/a/b", "/a", True, True),
        ("/a/b", "/a/", True, True),
        ("/ab", "/a", False, False),
        ("/a", "/a/b", False, False),
        ("/a", "/", True, True),
        ("/", "/", True, False),
    ],
)
def test_a_path_lies_in_a_folder(path: str, folder: str, within: bool, below: bool) -> None:
    assert (is_within(path, folder), is_below(path, folder)) == (within, below)


@pytest.mark.parametrize("env", [{}, {"HOME": ""}, {"HOME": "here"}, {"HOME": "."}], ids=str)
def test_a_home_that_is_none_is_the_accounts_own(env: dict[str, str]) -> None:
    assert find_home(env) == pwd.getpwuid(os.getuid()).pw_dir
    assert find_home({"HOME": "/h"}) == "/h"


def test_a_user_without_home_and_account_never_gets_a_folder_in_the_working_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    assert find_home({}) == "/"
    assert expand_home("~/.claude", {}) == "/.claude"


def test_a_tilde_is_the_home_of_the_environment_in_question() -> None:
    assert [expand_home(path, {"HOME": "/h"}) for path in ("~", "~/a", "/a", "b")] == ["/h", "/h/a", "/a", "b"]
