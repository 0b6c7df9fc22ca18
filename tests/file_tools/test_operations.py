"""What each operation does to ordinary files, and where it stops: limits, odd names, other writers, a full disk."""

import json
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from inspan.errors import BadInput, FileChanged, FileRefused, InspanError
from inspan.file_tools import reading, search, writing
from inspan.file_tools.operations import OPERATIONS
from inspan.file_tools.root import Root
from tests.cli_env import CliEnv
from tests.conftest import skip

from .conftest import Ground


def call(root: Root, operation: str, **given: object) -> dict[str, Any]:
    return OPERATIONS[operation].call(root, given)


def refusal(root: Root, operation: str, **given: object) -> InspanError:
    with pytest.raises(InspanError) as caught:
        call(root, operation, **given)
    assert caught.value.next_step
    return caught.value


@pytest.mark.parametrize(
    ("given", "text", "lines"),
    [
        ({}, "one\ntwo\nthree\n", (1, 3)),
        ({"offset": 2}, "two\nthree\n", (2, 3)),
        ({"offset": 2, "limit": 1}, "two\n", (2, 2)),
        ({"limit": 9}, "one\ntwo\nthree\n", (1, 3)),
        ({"offset": 4}, "", (4, 3)),
        ({"offset": 3, "numbers": True}, "3\tthree\n", (3, 3)),
    ],
)
def test_a_file_is_read_whole_or_by_lines(
    root: Root, given: dict[str, object], text: str, lines: tuple[int, int]
) -> None:
    found = call(root, "read", path="kept.txt", **given)
    assert (found["text"], found["first"], found["last"], found["lines"]) == (text, *lines, 3)


def test_only_a_line_feed_ends_a_line(root: Root, ground: Ground) -> None:
    (ground.inside / "odd.txt").write_bytes("a\rb\u2028c\x0bd\ne".encode())
    assert call(root, "read", path="odd.txt", limit=1)["text"] == "a\rb\u2028c\x0bd\n"
    assert call(root, "read", path="odd.txt", numbers=True)["text"] == "1\ta\rb\u2028c\x0bd\n2\te"


def test_a_long_file_is_cut_at_a_line_and_says_where_to_go_on(root: Root, ground: Ground) -> None:
    (ground.inside / "long.txt").write_text("0123456789\n" * 50_000)
    found = call(root, "read", path="long.txt")
    count = reading.MAX_TEXT_BYTES // 11
    assert found["text"] == "0123456789\n" * count
    assert found["notes"] == [f"Cut after {reading.MAX_TEXT_BYTES} bytes: go on with offset {count + 1}."]
    (ground.inside / "line.txt").write_text("x" + "é" * 300_000)
    found = call(root, "read", path="line.txt")
    assert (found["text"], len(found["notes"])) == ("x" + "é" * (reading.MAX_TEXT_BYTES // 2 - 1), 1)


def test_bytes_that_are_no_text_are_refused_and_others_shown(root: Root, ground: Ground) -> None:
    (ground.inside / "binary").write_bytes(b"\x7fELF\0\1")
    assert refusal(root, "read", path="binary").message == "path 'binary': it is not text."
    (ground.inside / "latin").write_bytes(b"caf\xe9 one\n")
    found = call(root, "read", path="latin")
    assert (found["text"], len(found["notes"])) == ("caf\N{REPLACEMENT CHARACTER} one\n", 1)
    call(root, "edit", path="latin", old="one", new="two")
    assert (ground.inside / "latin").read_bytes() == b"caf\xe9 two\n"


def test_a_file_is_written_with_its_folders_and_keeps_its_mode(root: Root, ground: Ground) -> None:
    assert call(root, "write", path="new/folder/a.txt", content="héllo\n") == {
        "path": "new/folder/a.txt",
        "bytes": 7,
        "created": True,
    }
    script = ground.inside / "kept.txt"
    script.chmod(0o751)
    assert call(root, "write", path="kept.txt", content="x")["created"] is False
    assert (script.read_text(), stat.S_IMODE(script.stat().st_mode)) == ("x", 0o751)
    call(root, "write", path="kept.txt", content="y", append=True)
    call(root, "write", path="log.txt", content="z", append=True)
    assert (script.read_text(), (ground.inside / "log.txt").read_text()) == ("xy", "z")
    assert _list_drafts(ground.inside) == []


def test_a_new_file_is_never_a_program(root: Root, ground: Ground) -> None:
    call(root, "write", path="inspan", content="#!/bin/sh\n")
    assert not (ground.inside / "inspan").stat().st_mode & 0o111


def test_a_mode_that_lends_powers_is_not_kept(root: Root, ground: Ground) -> None:
    (ground.inside / "kept.txt").chmod(0o4755)
    call(root, "write", path="kept.txt", content="x")
    assert stat.S_IMODE((ground.inside / "kept.txt").stat().st_mode) == 0o755


@pytest.mark.parametrize("path", ["sub", "sub/", ".", "kept.txt/below", "sub/..", "new/../.."])
def test_what_is_no_place_for_a_file_is_refused(root: Root, ground: Ground, path: str) -> None:
    refusal(root, "write", path=path, content="x")
    assert (ground.inside / "kept.txt").read_text() == "one\ntwo\nthree\n"


def test_a_link_that_leads_nowhere_yet_is_written_through(root: Root, ground: Ground) -> None:
    (ground.inside / "soon").symlink_to("sub/later.txt")
    call(root, "write", path="soon", content="x")
    assert (ground.inside / "sub" / "later.txt").read_text() == "x"
    (ground.inside / "nowhere").symlink_to("gone")
    refusal(root, "write", path="nowhere/a.txt", content="x")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"old": "four", "new": "x"}, "path 'kept.txt': it does not contain --old."),
        ({"old": "e", "new": "x"}, "path 'kept.txt': it contains --old 3 times."),
        ({"old": "", "new": "x"}, "--old '': it is empty."),
        ({"old": "two", "new": "two"}, "--new 'two': it is the same as --old."),
        ({"old": "two", "new": "\ud800"}, "--new '\\ud800': it holds half of a character."),
    ],
)
def test_an_edit_that_is_not_clear_changes_nothing(
    root: Root, ground: Ground, given: dict[str, str], problem: str
) -> None:
    assert refusal(root, "edit", path="kept.txt", **given).message == problem
    assert (ground.inside / "kept.txt").read_text() == "one\ntwo\nthree\n"


def test_an_edit_of_a_missing_file_makes_nothing(root: Root, ground: Ground) -> None:
    assert refusal(root, "edit", path="new/x.txt", old="a", new="b").message.startswith("path 'new/x.txt': ")
    assert not (ground.inside / "new").exists()


def test_line_ends_that_are_not_typed_are_named(root: Root, ground: Ground) -> None:
    (ground.inside / "dos.txt").write_bytes(b"one\r\ntwo\r\n")
    assert "CRLF" in refusal(root, "edit", path="dos.txt", old="one\ntwo", new="x").next_step
    call(root, "edit", path="dos.txt", old="one\r\ntwo", new="x")
    assert (ground.inside / "dos.txt").read_bytes() == b"x\r\n"


_TEXTS = st.text(st.sampled_from("ab\n\r é\U0001f600{}'\"#$\\"), max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(before=_TEXTS, old=_TEXTS.filter(bool), new=_TEXTS, after=_TEXTS)
def test_an_edit_replaces_what_was_named_and_nothing_else(
    root: Root, ground: Ground, before: str, old: str, new: str, after: str
) -> None:
    assume(old != new)
    path = ground.inside / "text"
    text = before + old + after
    path.write_bytes(text.encode())
    count = text.count(old)
    if count == 1:
        assert call(root, "edit", path="text", old=old, new=new)["replacements"] == 1
        assert path.read_bytes() == text.replace(old, new).encode()
    else:
        refusal(root, "edit", path="text", old=old, new=new)
        assert path.read_bytes() == text.encode()
        assert call(root, "edit", path="text", old=old, new=new, all=True)["replacements"] == count
        assert path.read_bytes() == text.replace(old, new).encode()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_what_was_written_is_read_to_the_letter(root: Root, text: str) -> None:
    call(root, "write", path="text", content=text)
    assert call(root, "read", path="text")["text"] == text


def test_edits_at_once_are_all_kept(root: Root, ground: Ground) -> None:
    path = ground.inside / "count"
    path.write_text("".join(f"<{number}>\n" for number in range(40)))
    errors: list[BaseException] = []

    def edit(first: int) -> None:
        try:
            for number in range(first, 40, 4):
                call(root, "edit", path="count", old=f"<{number}>", new=f"[{number}]")
        except InspanError as error:
            errors.append(error)

    threads = [threading.Thread(target=edit, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert path.read_text() == "".join(f"[{number}]\n" for number in range(40))


def test_a_change_by_another_program_is_not_lost(root: Root, ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    path, whole = ground.inside / "kept.txt", writing.is_binary

    def write_meanwhile(data: bytes) -> bool:
        path.write_text("another's two\n")
        return whole(data)

    monkeypatch.setattr(writing, "is_binary", write_meanwhile)  # Between reading and writing there is no other handle.
    error = refusal(root, "edit", path="kept.txt", old="two", new="2")
    assert isinstance(error, FileChanged) and error.retry_helps
    assert path.read_text() == "another's two\n"
    assert _list_drafts(ground.inside) == []


def test_a_lock_that_is_not_let_go_is_told(root: Root, ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_LOCK_S", 0.05)
    hold = "import fcntl, os, sys; f = os.open(sys.argv[1], 0); fcntl.flock(f, 2); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(ground.inside)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout and holder.stdin
        holder.stdout.readline()
        assert isinstance(refusal(root, "edit", path="kept.txt", old="two", new="2"), FileChanged)
        holder.stdin.close()
        holder.wait()
    call(root, "edit", path="kept.txt", old="two", new="2")


def test_files_over_the_limit_are_neither_read_nor_written(root: Root, ground: Ground) -> None:
    root.max_bytes = 20
    (ground.inside / "large").write_text("x" * 21)
    for operation, more in {"read": {}, "edit": {"old": "x", "new": "y"}}.items():
        assert "it has 21 bytes; at most 20" in refusal(root, operation, path="large", **more).message
    assert "it has 21 bytes" in refusal(root, "write", path="new", content="y" * 21).message
    assert "it has 24 bytes" in refusal(root, "write", path="kept.txt", content="y" * 10, append=True).message
    assert not (ground.inside / "new").exists()
    assert call(root, "search", pattern="x")["notes"] == ["Not searched, too large or with several names: large."]


def test_a_list_is_sorted_and_bounded(root: Root, ground: Ground) -> None:
    (ground.inside / ".git").mkdir()
    (ground.inside / ".git" / "config").write_text("two\n")
    (ground.inside / "near").symlink_to("kept.txt")
    os.mkfifo(ground.inside / "pipe")
    found = call(root, "list", recursive=True)
    assert [(entry["path"], entry["kind"]) for entry in found["entries"]] == [
        (".git", "folder"),
        ("kept.txt", "file"),
        ("near", "link"),
        ("pipe", "other"),
        ("sub", "folder"),
        ("sub/deep.txt", "file"),
    ]
    assert OPERATIONS["list"].format(found) == (
        ".git/\nkept.txt\nnear -> kept.txt\npipe (not an ordinary file)\nsub/\nsub/deep.txt\n"
    )
    assert [entry["path"] for entry in call(root, "list", path=".git")["entries"]] == [".git/config"]
    cut = call(root, "list", limit=2)
    assert (len(cut["entries"]), len(cut["notes"])) == (2, 1)
    assert refusal(root, "list", limit=0).message == "--limit 0: it is not between 1 and 10000."
    assert refusal(root, "list", path="kept.txt").message == "path 'kept.txt': it is not a folder."


def test_a_tree_without_end_is_bounded_too(root: Root, ground: Ground) -> None:
    deep = ground.inside
    for _ in range(100):
        deep = deep / "d"
        deep.mkdir()
    found = call(root, "list", recursive=True)
    assert (len(found["entries"]), found["notes"]) == (3 + 64, ["Not listed: what is more than 64 folders deep."])


@pytest.mark.parametrize("name", ["a\nb", "-dash", "--json", "é", "\udcff\udcfe", "a\\b", "\x1b[31m", " ", "*"])
def test_odd_names_are_listed_and_used_like_any_other(root: Root, ground: Ground, name: str) -> None:
    call(root, "write", path=name, content="odd words\n")
    assert os.fsencode(name) in os.listdir(os.fsencode(ground.inside))
    listed = call(root, "list")
    assert name in [entry["path"] for entry in listed["entries"]]
    assert OPERATIONS["list"].format(listed).count("\n") == 3
    assert "\x1b" not in OPERATIONS["list"].format(listed)
    assert call(root, "read", path=name)["text"] == "odd words\n"
    [match] = call(root, "search", pattern="odd")["matches"]
    assert match["path"] == name
    assert json.loads(json.dumps(match)) == match
    assert [("as JSON" in note) for note in listed["notes"]] == ([] if name.isprintable() else [True])


def test_a_line_behind_the_end_is_told_of(root: Root, ground: Ground) -> None:
    assert call(root, "read", path="kept.txt", offset=4)["notes"] == ["There is no line 4: the file has 3."]
    (ground.inside / "empty").touch()
    assert call(root, "read", path="empty")["notes"] == []


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize(
    ("operation", "given"),
    [("list", {}), ("read", {"path": "a"}), ("write", {"path": "a", "content": ""}), ("stat", {"path": "."})],
)
def test_a_root_that_was_deleted_is_told_of(
    tmp_path: Path, operation: str, given: dict[str, object], again: bool
) -> None:
    (tmp_path / "root").mkdir()
    root = Root(str(tmp_path / "root"))
    (tmp_path / "root").rmdir()
    if again:
        (tmp_path / "root").mkdir()
    assert "it was deleted" in str(refusal(root, operation, **given))
    root.close()
    assert not again or os.listdir(tmp_path / "root") == []


def test_lines_are_found_by_expression_or_text(root: Root, ground: Ground) -> None:
    (ground.inside / "a.py").write_text("x = f(1)\ny = F(2)\n")

    def lines(**given: object) -> list[tuple[str, int]]:
        return [(match["path"], match["line"]) for match in call(root, "search", **given)["matches"]]

    assert lines(pattern=r"f\(\d") == [("a.py", 1)]
    assert lines(pattern=r"f\(\d", ignore_case=True) == [("a.py", 1), ("a.py", 2)]
    assert lines(pattern="f(", literal=True) == [("a.py", 1)]
    assert lines(pattern="t|x", glob="*.txt") == [("kept.txt", 2), ("kept.txt", 3)]
    assert lines(pattern=".", glob="sub/*") == [("sub/deep.txt", 1)]
    assert lines(pattern="two", path="kept.txt") == [("kept.txt", 2)]
    assert lines(pattern="two", path="sub") == []
    assert refusal(root, "search", pattern="f(").message.startswith("pattern 'f(': it is not a regular expression")
    cut = call(root, "search", pattern=".", limit=2)
    assert (len(cut["matches"]), cut["notes"]) == (
        2,
        ["Cut after 2 matches: search a folder below, or for something else."],
    )


def test_a_pattern_that_never_ends_is_ended(root: Root, ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "LIMIT_S", 2.0)
    (ground.inside / "a.txt").write_text("first aab\n")
    (ground.inside / "bad.txt").write_text("a" * 60 + "!\n")
    began = time.monotonic()
    found = call(root, "search", pattern="(a+a+)+b")
    assert time.monotonic() - began < 20
    assert [match["path"] for match in found["matches"]] == ["a.txt"]
    assert found["notes"] == ["Cut after 2 s: search a folder below, or for something else."]


def test_what_is_at_a_path_is_told(root: Root, ground: Ground) -> None:
    (ground.inside / "way").symlink_to("/etc/hostname")
    (ground.inside / "kept.txt").chmod(0o640)
    found = call(root, "stat", path="kept.txt")
    assert {name: found[name] for name in ("kind", "size", "mode", "hard_links")} == {
        "kind": "file",
        "size": 14,
        "mode": "0640",
        "hard_links": 1,
    }
    link = call(root, "stat", path="way")
    assert (link["kind"], link["target"]) == ("link", "/etc/hostname")
    assert call(root, "stat", path=".")["kind"] == "folder"
    assert isinstance(refusal(root, "stat", path="none"), FileRefused)


@pytest.mark.parametrize(
    ("operation", "given", "problem"),
    [
        ("read", {"path": 1}, "path 1: it is not a text."),
        ("read", {"path": "x", "limit": True}, "limit True: it is not a whole number."),
        ("read", {"path": "x", "offset": 0}, "--offset 0: lines are counted from 1."),
        ("read", {"path": "x", "limit": -1}, "--limit -1: lines are counted from 1."),
        ("read", {"path": "x", "file": "y"}, "read 'file': there is no such argument."),
        ("edit", {"path": "x"}, "edit ['path']: it needs --old, --new."),
        ("write", {"path": "\ud800", "content": ""}, "path '\\ud800': it is empty, has a NUL in it, or half of"),
    ],
)
def test_arguments_that_do_not_fit_are_named(
    root: Root, operation: str, given: dict[str, object], problem: str
) -> None:
    error = refusal(root, operation, **given)
    assert isinstance(error, BadInput)
    assert error.message.startswith(problem)


def test_a_read_only_root_is_not_written(root: Root, ground: Ground) -> None:
    root.read_only = True
    for operation, more in {"write": {"content": "x"}, "edit": {"old": "two", "new": "x"}}.items():
        assert "read-only" in refusal(root, operation, path="kept.txt", **more).message
    assert (ground.inside / "kept.txt").read_text() == "one\ntwo\nthree\n"


def test_an_ordinary_user_replaces_no_file_that_may_not_be_written(user_cli_env: CliEnv) -> None:
    path = user_cli_env.work / "kept.txt"
    path.write_text("old\n")
    path.chmod(0o444)
    done = user_cli_env.inspan("file-tools", str(user_cli_env.work), "write", "kept.txt", "--content", "x")
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, "inspan: path 'kept.txt': Permission denied.")
    assert path.read_text() == "old\n"


def test_a_full_disk_leaves_the_old_file_and_no_draft(cli_env: CliEnv) -> None:
    alone = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    if subprocess.run([*alone, "true"], check=False).returncode:
        skip("no-namespaces")
    (cli_env.work / "large").write_text("x" * 1_000_000)
    script = (
        f"mount -t tmpfs -o size=256k small {cli_env.root / 'data'} || exit 99\n"
        f"cd {cli_env.root / 'data'} && echo old > kept.txt\n"
        f"{' '.join(cli_env.argv('file-tools', str(cli_env.root / 'data'), 'write', 'kept.txt'))}"
        f" < {cli_env.work / 'large'} && exit 98\ncat kept.txt; ls -A\n"
    )
    done = subprocess.run(
        [*alone, "sh", "-c", script], env=cli_env.env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "old\nkept.txt\n"), done.stderr
    assert done.stderr.startswith("inspan: path 'kept.txt': the disk is full.\n  → ")


def _list_drafts(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*.draft")]
