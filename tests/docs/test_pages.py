"""The pages as a whole: their links lead somewhere, every room is introduced, no machine is named."""

import re
from pathlib import Path

import pytest

from .pages import ROOT, pages, prose, relative_name

_LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)(?:#[^)]*)?\)")
_PICTURE = re.compile(r"\b(?:src|srcset)=\"(?!https?://)([^\"]+)\"")
_MACHINE = re.compile(
    r"(?<![\w.…-])/(?:home|root|work|Users)/\w+|file://|https?://(?!json-schema\.org)\S*(?:index|registry)"
)
ROOMS = sorted(path.parent for path in (ROOT / "src" / "inspan").glob("*/__init__.py"))


@pytest.mark.parametrize("page", pages(), ids=relative_name)
def test_links_lead_to_files_that_exist(page: Path) -> None:
    links = [*_LINK.findall(prose(page)), *_PICTURE.findall(prose(page))]
    broken = [link for link in links if not (page.parent / link).exists()]
    assert broken == []


@pytest.mark.parametrize("page", pages(), ids=relative_name)
def test_no_page_names_a_machine(page: Path) -> None:
    assert _MACHINE.findall(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_a_room_introduces_itself_and_names_only_files_it_has(room: Path) -> None:
    text = (room / "README.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {room.name}\n")
    named = re.findall(r"`([\w/]+\.(?:py|toml))`", text)
    assert [name for name in named if not (room / name).exists()] == []


def test_the_map_on_the_first_page_has_every_room() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[`(\w+)/`\]\(src/inspan/\w+/README\.md\) ", text, re.MULTILINE)
    assert sorted(listed) == [room.name for room in ROOMS]


def test_decisions_are_numbered_without_gaps() -> None:
    names = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    assert [name[:3] for name in names] == [f"{number:03d}" for number in range(1, len(names) + 1)]


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")), ids=relative_name)
def test_a_decision_has_its_three_parts(page: Path) -> None:
    heads = re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert heads == ["Context", "Choice", "Cost"]
