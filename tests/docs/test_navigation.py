"""The navigation of the site: every page once, what people want to do first, decisions last."""

import tomllib
from collections.abc import Iterator
from typing import Any

from .pages import ROOT

DOCS = ROOT / "docs"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
NAVIGATION: list[dict[str, Any]] = PROJECT["nav"]


def list_pages(entry: Any) -> Iterator[str]:
    """The pages of an entry: a page, a title with a page, a title with entries."""
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        for below in entry.values():  # pyright: ignore[reportUnknownVariableType]
            yield from list_pages(below)
    else:
        for below in entry:
            yield from list_pages(below)


def test_every_page_is_in_the_navigation_exactly_once() -> None:
    pages = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
    assert sorted(list_pages(NAVIGATION)) == pages


def test_it_begins_with_the_way_in_and_ends_with_the_decisions() -> None:
    titles = [title for entry in NAVIGATION for title in entry]
    assert titles == ["Home", "Get started", "Guides", "Concepts", "Reference", "Decisions"]


def test_every_guide_stands_under_something_that_people_want_to_do() -> None:
    groups: list[dict[str, list[str]]] = next(entry["Guides"] for entry in NAVIGATION if "Guides" in entry)
    assert [title for group in groups for title in group] == [
        "Run and follow",
        "Talk and approve",
        "Try until it is done",
        "Money and limits",
        "Confine",
        "See, undo, clean up",
        "Keys and agents",
        "Embed in Python",
        "Test without a model",
        "Extend",
    ]
    assert all(page.startswith("guides/") for page in list_pages(groups))


def test_decisions_are_in_their_order() -> None:
    (decisions,) = (entry["Decisions"] for entry in NAVIGATION if "Decisions" in entry)
    assert decisions == ["decisions/README.md", *sorted(decisions[1:])]


def test_the_front_page_leads_to_every_guide() -> None:
    front = (DOCS / "index.md").read_text(encoding="utf-8")
    guides = [page for page in list_pages(NAVIGATION) if page.startswith("guides/")]
    assert [page for page in guides if f"({page})" not in front] == []
