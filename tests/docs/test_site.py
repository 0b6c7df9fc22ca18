"""The site as a reader gets it: it is built without a complaint, every link leads somewhere, and it fits the screen."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser import Browser
from tests.pictures import SESSIONS, THEMES, picture_path, read_picture

from .pages import ROOT, WriteFile, steps
from .site import Page, build_site, find_broken_links, serve

DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS) for path in DOCS.rglob("*.md"))
PHONE, DESK = 390, 1280
# All pages have the same style: their bodies are put into one document after the other, without going to each of them.
_MEASURE = """
(async () => {
  const widths = {};
  for (const page of PAGES) {
    const answer = await fetch('/' + page);
    const read = new DOMParser().parseFromString(await answer.text(), 'text/html');
    document.body.innerHTML = read.body.innerHTML;
    widths[page] = document.documentElement.scrollWidth;
  }
  return widths;
})()
"""
_TABLE = """
(() => {
  const box = document.querySelector('.matrix table').getBoundingClientRect();
  const heads = [...document.querySelectorAll('.matrix th')].map(each => each.getBoundingClientRect());
  return {right: box.right, heads: heads.length, seen: heads.filter(each => each.right <= innerWidth).length};
})()
"""
_PICTURES = "[...document.querySelectorAll('.picture img')].filter(each => each.offsetWidth).map(each => each.src)"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory)


def html_name(page: Path) -> str:
    return str(page.with_name("index.html") if page.name == "README.md" else page.with_suffix(".html"))


def test_the_site_has_every_page_and_nothing_that_is_none(site: Path) -> None:
    published = {str(path.relative_to(site)) for path in site.rglob("*.*") if path.is_file()}
    assert {name for name in published if name.endswith(".html")} == {"404.html", *map(html_name, PAGES)}
    shown = {name for name in published if name.endswith((".html", ".svg")) or re.fullmatch(r"pictures/.*\.png", name)}
    others = {name for name in published - shown if not name.startswith("assets/")}
    assert others <= {"search.json", "sitemap.xml", "sitemap.xml.gz", "objects.inv"}


def test_every_link_of_the_site_leads_to_a_page_and_a_place_in_it(site: Path) -> None:
    assert find_broken_links(site) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.html").write_text('<h1 id="top">There</h1>')
    links = (
        "there.html",
        "there.html#top",
        "there.html#gone",
        "gone.html",
        "/gone.css",
        "https://example.com/x",
        "#no",
    )
    (tmp_path / "index.html").write_text("".join(f'<a href="{link}">x</a>' for link in links))
    broken = [line.partition(": ")[2] for line in find_broken_links(tmp_path)]
    assert broken == ["there.html#gone", "gone.html", "/gone.css", "#no"]


def test_the_file_of_an_example_shows_its_name(site: Path) -> None:
    for page in PAGES:
        wanted = [step.name for step in steps(DOCS / page) if isinstance(step, WriteFile)]
        shown = Page(site / html_name(page)).file_names
        assert [name for name in shown if name in wanted] == wanted, page


def test_the_site_fits_a_phone_and_a_desk_and_asks_no_other_host(site: Path, browser: Browser) -> None:
    before = len(browser.requests)
    with serve(site) as address:
        browser.resize(DESK, 900)
        for name in ("index.html", "reference/matrix.html"):
            browser.open(f"{address}/{name}")
        table: dict[str, Any] = browser.evaluate(_TABLE)
        assert table["heads"] > 10
        assert table["seen"] == table["heads"] and table["right"] <= DESK, table
        measure = _MEASURE.replace("PAGES", json.dumps([html_name(page) for page in PAGES]))
        for width in (PHONE, DESK):
            browser.resize(width, 900)
            widths: dict[str, int] = browser.evaluate(measure)
            assert {page: each for page, each in widths.items() if each > width} == {}
            assert len(widths) == len(PAGES)
        # A worker of the page before may still ask for its script, from a server of ours that has gone since.
        ours = ("http://127.0.0.1:", "data:", "blob:", "about:")
        assert [asked for asked in browser.requests[before:] if not asked.startswith(ours)] == []


def test_the_picture_of_the_first_page_is_the_one_of_its_look(site: Path, browser: Browser) -> None:
    with serve(site) as address:
        for look in ("light", "dark"):
            browser.prefer(look)
            browser.open(f"{address}/index.html")
            browser.evaluate("localStorage.clear()")  # The page keeps the look that it had first.
            browser.open(f"{address}/index.html")
            assert browser.evaluate(_PICTURES) == [f"{address}/pictures/fix-{look}.svg#only-{look}"]


@pytest.mark.parametrize("theme", THEMES)
def test_a_browser_shows_every_space_of_a_picture(browser: Browser, theme: str) -> None:
    for name in SESSIONS:
        browser.open(picture_path(name, theme).as_uri())
        shown = browser.evaluate("[...document.querySelectorAll('text')].map(row => row.getNumberOfChars())")
        assert shown == [len(row) for row in read_picture(picture_path(name, theme))]
