"""Files that are no files, not text, not TOML or far too large: each is refused at once, and named."""

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from inspan.config.editor import FileName, assign
from inspan.config.toml_file import MAX_BYTES, parse, read, replace
from inspan.errors import BadConfig

from .home import Home


def a_folder(path: Path) -> None:
    path.mkdir()


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    here = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as bound:  # By a short name: a path of a socket ends at 107 bytes.
        bound.bind(f"/proc/self/fd/{here}/{path.name}")
    os.close(here)


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_dangling_link(path: Path) -> None:
    path.symlink_to(path.with_name("gone"))


def a_link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def bytes_that_are_no_text(path: Path) -> None:
    path.write_bytes(b"[runtime]\nmodel = 'caf\xe9'\n")


def a_huge_file(path: Path) -> None:
    path.write_bytes(b"#" * (MAX_BYTES + 1))


def words(path: Path) -> None:
    path.write_text("[runtime]\nthis is no TOML\n")


def a_key_twice(path: Path) -> None:
    path.write_text("[runtime]\nmodel = 'a'\nmodel = 'b'\n")


def a_table_twice(path: Path) -> None:
    path.write_text("runtime.model = 'a'\n[runtime]\neffort = 'b'\n")


def deep_lists(path: Path) -> None:
    path.write_text("a = " + "[" * 100_000)


def a_long_key(path: Path) -> None:
    path.write_text("\n" + "a." * 20_000 + "b = 1\n")


def a_long_key_inside(path: Path) -> None:
    path.write_text("x = { " + "a . " * 20_000 + "b = 1 }\n")


def a_long_number(path: Path) -> None:
    path.write_text("limits.timeout = 1" + "0" * 5000)


BAD = [
    (a_folder, "is not a file."),
    (a_pipe, "is not a file."),
    (a_socket, "cannot be read: "),
    (a_device, "is not a file."),
    (a_dangling_link, "is a link that leads nowhere."),
    (a_link_to_itself, "cannot be read: Too many levels of symbolic links."),
    (bytes_that_are_no_text, "is not UTF-8 at line 2."),
    (a_huge_file, "is larger than 1 MB."),
    (words, "is not TOML: "),
    (a_key_twice, "is not TOML: "),
    (a_table_twice, "is not TOML: "),
    (deep_lists, "is not TOML: "),
    (a_long_key, "has a key of more than 32 parts at line 2."),
    (a_long_key_inside, "has a key of more than 32 parts at line 1."),
    (a_long_number, "is not TOML: "),
]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("file", ["user", "project", "local"])
@pytest.mark.parametrize(("made", "problem"), BAD, ids=lambda each: getattr(each, "__name__", ""))
def test_what_is_no_configuration_file_is_refused_and_named(
    home: Home, file: FileName, made: Callable[[Path], None], problem: str
) -> None:
    path = home.paths[file]
    path.parent.mkdir(parents=True, exist_ok=True)
    made(path)
    refused = home.expect_refusal()
    assert refused.message.startswith(f"file '{path}': {problem}")
    assert refused.next_step


def test_the_line_that_is_no_toml_is_named(home: Home) -> None:
    words(home.write("user", ""))
    assert "(at line 2, " in home.expect_refusal().message


def test_a_file_of_exactly_the_largest_size_is_read(home: Home) -> None:
    path = home.write("user", "[runtime]\nmodel = 'm'\n".ljust(MAX_BYTES, "#"))
    assert path.stat().st_size == MAX_BYTES
    assert home.load().settings.runtime.model == "m"


def test_prose_with_many_dots_is_no_long_key() -> None:
    text = "One. Two. Three.\n" * 500 + "www." * 20
    assert parse(f'agents.codex.system_prompt = """{text}"""\n', "x")["agents"]["codex"]["system_prompt"] == text


def test_no_file_and_a_file_in_the_place_of_its_folder_are_no_file(tmp_path: Path) -> None:
    assert read(str(tmp_path / "gone" / "config.toml")) is None
    (tmp_path / "plain").touch()
    assert read(str(tmp_path / "plain" / "config.toml")) is None


def test_a_link_to_a_file_is_read(home: Home) -> None:
    elsewhere = home.root / "dotfiles.toml"
    elsewhere.write_text("[runtime]\nmodel = 'm'\n")
    path = home.write("user", "")
    path.unlink()
    path.symlink_to(elsewhere)
    assert home.load().settings.runtime.model == "m"


def test_a_file_is_replaced_behind_its_link_and_keeps_its_mode(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    replace(str(link), "new")
    assert (link.is_symlink(), target.read_text(), stat.S_IMODE(target.stat().st_mode)) == (True, "new", 0o640)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "target"]


def test_a_file_that_cannot_be_replaced_is_left_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "config.toml"
    folder.mkdir()
    with pytest.raises(BadConfig, match="cannot be written: Is a directory"):
        replace(str(folder), "new")
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


@pytest.mark.parametrize("name", ["user", "project", "local"])
def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path, name: FileName) -> None:
    home = Home(tmp_path)
    path = home.write(name, "\ufeff[runtime]\nmodel = 'café'\n")
    assert home.load().settings.runtime.model == "café"
    assign(home.open_editor(name), "runtime.effort", "high")
    assert home.load().settings.runtime.effort == "high"
    assert path.read_text() == "[runtime]\nmodel = 'café'\neffort = \"high\"\n"
