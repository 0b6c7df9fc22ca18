"""What a program says of itself is asked once, and again as soon as its file or the cache is another."""

import os
from pathlib import Path

import pytest

from inspan.agents import probe_cache as memory
from inspan.agents.probe_cache import memoize_output


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "program"
    path.write_text("one")
    return path


class CountingProbe:
    """Says the same each time, and counts."""

    def __init__(self, says: str = "1.0") -> None:
        self.says = says
        self.times = 0

    def __call__(self) -> str:
        self.times += 1
        return self.says


def _forget() -> None:
    """As a new process would begin."""
    memory._memory.clear()  # pyright: ignore[reportPrivateUsage]


def _files(tmp_path: Path) -> list[str]:
    return sorted(os.listdir(tmp_path / "cache" / "inspan"))


def test_it_is_asked_once_also_by_another_process(program: Path, tmp_path: Path) -> None:
    ask = CountingProbe()
    for _ in range(3):
        assert memoize_output(str(program), ask) == "1.0"
        _forget()
    assert (ask.times, _files(tmp_path)) == (1, ["versions.json"])


def test_a_long_text_stands_apart_and_is_another_question(program: Path, tmp_path: Path) -> None:
    version, words = CountingProbe("1.0"), CountingProbe("many words")
    for _ in range(2):
        assert memoize_output(str(program), version) == "1.0"
        assert memoize_output(str(program), words, subject="--help") == "many words"
        _forget()
    assert (version.times, words.times) == (1, 1)
    assert _files(tmp_path) == ["versions.json", "words.json"]


def test_a_file_that_changes_is_asked_anew(program: Path) -> None:
    ask = CountingProbe()
    memoize_output(str(program), ask)
    program.write_text("two!")
    ask.says = "2.0"
    assert memoize_output(str(program), ask) == "2.0"
    found = program.stat()
    os.utime(program, ns=(found.st_atime_ns, found.st_mtime_ns + 1))
    assert (memoize_output(str(program), ask), ask.times) == ("2.0", 3)


def test_a_link_that_leads_elsewhere_is_asked_anew(program: Path, tmp_path: Path) -> None:
    ask = CountingProbe()
    link = tmp_path / "link"
    link.symlink_to(program)
    memoize_output(str(link), ask)
    other = tmp_path / "other"
    other.write_text("one")
    os.utime(other, ns=(program.stat().st_atime_ns, program.stat().st_mtime_ns))
    link.unlink()
    link.symlink_to(other)
    memoize_output(str(link), ask)
    assert ask.times == 2


def test_what_is_not_worth_it_is_asked_again(program: Path) -> None:
    ask = CountingProbe("")
    assert [memoize_output(str(program), ask) for _ in range(2)] == ["", ""]
    useless = CountingProbe("error")
    assert [memoize_output(str(program), useless, is_valid=lambda said: said != "error") for _ in range(2)] == [
        "error"
    ] * 2
    assert (ask.times, useless.times) == (2, 2)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"a": 1}', b"\xff", b"[" * 100_000])
def test_a_damaged_cache_costs_one_question(program: Path, tmp_path: Path, content: bytes) -> None:
    ask = CountingProbe()
    memoize_output(str(program), ask)
    (tmp_path / "cache" / "inspan" / "versions.json").write_bytes(content)
    for _ in range(2):
        _forget()
        assert memoize_output(str(program), ask) == "1.0"
    assert ask.times == 2


def test_a_cache_that_cannot_be_written_is_done_without(program: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    ask = CountingProbe()
    assert [memoize_output(str(program), ask) for _ in range(2)] == ["1.0", "1.0"]
    _forget()
    memoize_output(str(program), ask)
    assert ask.times == 2


def test_a_pipe_in_the_place_of_the_cache_keeps_nobody_waiting(program: Path, tmp_path: Path) -> None:
    (tmp_path / "cache" / "inspan").mkdir(parents=True)
    os.mkfifo(tmp_path / "cache" / "inspan" / "versions.json")
    ask = CountingProbe()
    _forget()
    assert memoize_output(str(program), ask) == "1.0"
