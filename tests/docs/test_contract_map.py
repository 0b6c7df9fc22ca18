"""The page that says where each contract lives: complete, and every file and test on it is there."""

import re

import pytest

from .pages import ROOT

PAGE = ROOT / "docs" / "where-each-contract-lives.md"
IDS = [
    f"{letter}{number}"
    for letter, count in zip("ABCDE", (8, 9, 7, 9, 9), strict=True)
    for number in range(1, count + 1)
]
_ROW = re.compile(r"^\| ([A-E]\d+) \| ([^|]+) \| (yes|part|not yet) \|([^|]*)\|([^|]*)\|$", re.MULTILINE)
ROWS = {row[0]: row for row in _ROW.findall(PAGE.read_text(encoding="utf-8"))}


def test_every_contract_is_on_the_page_exactly_once() -> None:
    found = re.findall(r"^\| ([A-E]\d+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(found) == sorted(IDS)
    assert sorted(ROWS) == sorted(IDS), "a row does not have five cells, or its state is none of yes, part, not yet"


@pytest.mark.parametrize("row", IDS)
def test_what_is_claimed_names_a_module_and_a_test(row: str) -> None:
    _, _, state, where, proof = ROWS[row]
    if state != "not yet":
        assert re.search(r"`src/inspan/[\w/]+\.py`", where)
        assert re.search(r"`tests/[\w/]+\.py", proof)


def test_every_module_and_test_on_the_page_exists() -> None:
    named = re.findall(r"`((?:src|tests)/[\w/.]+?)(?:::(\w+))?`", PAGE.read_text(encoding="utf-8"))
    missing = [path for path, _ in named if not (ROOT / path).is_file()]
    assert missing == []
    gone = [name for path, name in named if name and f"def {name}(" not in (ROOT / path).read_text(encoding="utf-8")]
    assert gone == []
