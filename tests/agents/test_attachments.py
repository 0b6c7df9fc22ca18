"""Images and files that go with a prompt: the model gets what was attached, or nobody starts anything."""

import struct
import zlib
from base64 import b64encode
from pathlib import Path

import pytest

from tests.cli_env import CliEnv

from .protected_folders import build_scenario, say_step
from .run_checks import DONE, check_end
from .styles import CODE_MODE, PER_CALL, Style, each_agent, each_style

PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"


def _png(red: int) -> bytes:
    """A picture of two by two pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    pixels = (b"\0" + bytes([red, 0, 0]) * 2) * 2
    head = struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")


@each_style
@pytest.mark.parametrize("box", ["none", "bwrap"])
def test_images_and_texts_reach_the_model(cli_env: CliEnv, style: Style, box: str) -> None:
    first, second, text = cli_env.work / "one, two.png", cli_env.root / "three.PNG", cli_env.root / "notes of mine.txt"
    first.write_bytes(_png(200))
    second.write_bytes(_png(100))
    text.write_text("The meeting is at nine.\n")
    held = [b64encode(path.read_bytes()).decode() for path in (first, second)]
    seen = [*held, f"The file {text}:\nThe meeting is at nine.", "do it"]
    scenario = build_scenario(say_step("Seen.") + f"expect_anywhere = {_array(seen)}\n")
    files = ("--attach", "one, two.png", "--attach", str(second), "--attach", str(text))
    mode = ("--mode", "complete", "--sandbox", box)
    done = cli_env.run(style.agent, scenario, *style.arguments, *mode, *files)
    check_end(cli_env, done.run_id, end=DONE, usage=PER_CALL)


@each_agent
def test_what_is_attached_to_a_later_message_reaches_the_model_too(cli_env: CliEnv, style: Style) -> None:
    (cli_env.work / "a.png").write_bytes(_png(50))
    cli_env.run(style.agent, build_scenario(say_step("Ready.")))
    shown = b64encode(_png(50)).decode()
    model = cli_env.scenario(
        build_scenario(say_step("Seen.") + f"expect_anywhere = {_array([shown, 'look at this', 'Ready.'])}\n")
    )
    done = cli_env.inspan("run", "look at this", "--resume", "@last", "--attach", "a.png", "--model-from", model)
    assert (done.returncode, done.stdout) == (0, "Seen.\n"), done.stderr


def test_a_document_reaches_an_agent_that_takes_it(cli_env: CliEnv) -> None:
    (cli_env.work / "a.pdf").write_bytes(PDF)
    scenario = build_scenario(
        say_step("Read.") + f"expect_anywhere = ['application/pdf', '{b64encode(PDF).decode()}']\n"
    )
    done = cli_env.run("claude", scenario, "--mode", "complete", "--attach", "a.pdf")
    check_end(cli_env, done.run_id, end=DONE, usage=PER_CALL)


def _large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(30_000_000)


REFUSED = {
    "missing": ("gone.png", None, "no such file."),
    "folder": ("folder", "folder", "it is not a file."),
    "large": ("large.txt", _large, "30.0 MB is too large."),
    "no-image": ("text.png", b"plain words", "its content is no image/png."),
    "no-document": ("text.pdf", b"plain words", "its content is no application/pdf."),
    "empty-image": ("empty.jpg", b"", "its content is no image/jpeg."),
}


@each_agent
@pytest.mark.parametrize(("name", "content", "problem"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_attached_is_refused_before_anything_starts(
    cli_env: CliEnv, style: Style, name: str, content: object, problem: str
) -> None:
    path = cli_env.work / name
    if content == "folder":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        _large(path)
    _is_refused(cli_env, style, name, problem)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.pdf", PDF, "Codex does not take application/pdf."),
        ("a.zip", b"PK\x03\x04\xff\x00", "Codex does not take such files."),
    ],
)
def test_a_kind_of_file_that_the_agent_does_not_take_is_refused(
    cli_env: CliEnv, name: str, content: bytes, problem: str
) -> None:
    (cli_env.work / name).write_bytes(content)
    _is_refused(cli_env, CODE_MODE, name, problem)


def _is_refused(cli_env: CliEnv, style: Style, name: str, problem: str) -> None:
    model = cli_env.scenario(build_scenario(say_step("Done.")))
    done = cli_env.inspan("run", "do it", "-a", style.agent, "--attach", name, "--model-from", model)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"inspan: attachments '{cli_env.work / name}': {problem}\n")
    assert not cli_env.state.exists()


def _array(texts: list[str]) -> str:
    """A TOML array of literal strings."""
    return "[" + ", ".join(f"'''{text}'''" for text in texts) + "]"
