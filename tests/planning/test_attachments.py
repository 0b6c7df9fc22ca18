"""What is attached is looked at before anything starts: read, told apart by its content, handed over or inlined."""

import os
from pathlib import Path

import msgspec
import pytest

from inspan.agents import registry
from inspan.contracts.driver import Attachment, Capabilities
from inspan.errors import BadInput, Unsupported
from inspan.planning.attachments import LARGEST_BYTES, load_attachments
from inspan.protocol.task import Task

PNG, PDF = b"\x89PNG\r\n\x1a\nrest", b"%PDF-1.4"
SEES = msgspec.structs.replace(
    registry.find_driver("codex"), capabilities=Capabilities(attachments=("image/png", "image/jpeg"))
)
BLIND = msgspec.structs.replace(registry.find_driver("codex"), capabilities=Capabilities())


def _task(folder: Path, *names: str) -> Task:
    return Task(prompt="x", cwd=str(folder), attachments=names)


def test_images_are_handed_over_in_order_and_other_files_are_put_into_words(tmp_path: Path) -> None:
    (tmp_path / "a, b.PNG").write_bytes(PNG)
    (tmp_path / "notes.md").write_text("# é\n")
    (tmp_path / "c.jpeg").write_bytes(b"\xff\xd8\xff\xe0")
    (tmp_path / "code").write_text("x = 1")
    names = ("a, b.PNG", "notes.md", "c.jpeg", str(tmp_path / "code"))
    assert load_attachments(_task(tmp_path, *names), SEES) == (
        (
            Attachment(path=str(tmp_path / "a, b.PNG"), media_type="image/png", data=PNG),
            Attachment(path=str(tmp_path / "c.jpeg"), media_type="image/jpeg", data=b"\xff\xd8\xff\xe0"),
        ),
        f"The file {tmp_path}/notes.md:\n# é\n\n\nThe file {tmp_path}/code:\nx = 1",
    )


def test_nothing_attached_is_nothing(tmp_path: Path) -> None:
    assert load_attachments(_task(tmp_path), SEES) == ((), "")


def test_an_empty_text_and_one_of_the_largest_size_are_texts(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "large").write_bytes(b"x" * LARGEST_BYTES)
    _, texts = load_attachments(_task(tmp_path, "empty", "large"), BLIND)
    assert texts.startswith(f"The file {tmp_path}/empty:\n\n\nThe file {tmp_path}/large:\nxxx")


def test_a_home_is_a_place_to_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.png").write_bytes(PNG)
    [taken], _ = load_attachments(_task(Path("/"), "~/a.png"), SEES)
    assert taken.path == str(tmp_path / "a.png")


_BAD = {
    "gif": ("a.gif", PNG, "its content is no image/gif."),
    "webp": ("a.webp", PNG, "its content is no image/webp."),
    "png": ("a.png", b"", "its content is no image/png."),
    "pdf": ("a.pdf", b"plain", "its content is no application/pdf."),
    "large": ("a.txt", b"x" * (LARGEST_BYTES + 1), "10.0 MB is too large."),
}


@pytest.mark.parametrize(("name", "content", "problem"), _BAD.values(), ids=_BAD)
def test_a_file_that_is_not_what_it_seems_is_refused(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(content)
    _check_refused(tmp_path, name, problem)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "lost.png").symlink_to("gone")
    _check_refused(tmp_path, "folder.png", "it is not a file.")
    _check_refused(tmp_path, "pipe.png", "it is not a file.")
    _check_refused(tmp_path, "lost.png", "no such file.")
    _check_refused(tmp_path, "none.png", "no such file.")


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.pdf", PDF, "Codex does not take application/pdf."),
        ("a.png", PNG, "Codex does not take image/png."),
        ("a.bin", b"\xff\xfe", "Codex does not take such files."),
        ("a.txt", b"a\0b", "Codex does not take such files."),
    ],
)
def test_what_the_agent_has_no_way_to_take_is_refused(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Unsupported) as caught:
        load_attachments(_task(tmp_path, name), BLIND)
    assert (caught.value.field, caught.value.value) == ("attachments", str(tmp_path / name))
    assert caught.value.message.endswith(problem)


def _check_refused(folder: Path, name: str, problem: str) -> None:
    with pytest.raises(BadInput) as caught:
        load_attachments(_task(folder, name), SEES)
    assert caught.value.message == f"attachments '{folder / name}': {problem}"
    assert caught.value.next_step
