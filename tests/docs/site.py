"""The site: built once for all tests of a round, its pages and their links, and a server of it on loopback."""

import fcntl
import functools
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from .pages import ROOT


def build_site(factory: pytest.TempPathFactory) -> Path:
    """Builds the site from a copy of its sources, strictly; workers of one round share it."""
    round_id = os.environ.get("PYTEST_XDIST_TESTRUNUID", "")
    folder = factory.getbasetemp().parent / f"site-{round_id}" if round_id else factory.mktemp("site")
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "built").exists():
            _build(folder)
            (folder / "built").touch()
    return folder / "build" / "site"


def _build(folder: Path) -> None:
    shutil.copytree(ROOT / "docs", folder / "docs", dirs_exist_ok=True)
    shutil.copy(ROOT / "zensical.toml", folder)
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


class Page(HTMLParser):
    """What a built page refers to, what can be referred to in it, and the file names that it shows."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.references: list[str] = []
        self.anchors: set[str] = set()
        self.file_names: list[str] = []
        self._in_name = False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.references += [value for name in ("href", "src") if (value := named.get(name))]
        self.anchors |= {value for name in ("id", "name") if (value := named.get(name))}
        self._in_name = named.get("class") == "filename"

    def handle_data(self, data: str) -> None:
        if self._in_name:
            self.file_names.append(data)
        self._in_name = False


def find_broken_links(site: Path) -> list[str]:
    """References to files of the site that are not there, and to anchors that their page does not have."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    return [
        f"{path.relative_to(site)}: {reference}"
        for path, page in pages.items()
        # The page for what is not found is shown at any depth, so its references begin at the top.
        for reference in page.references
        if not _leads_somewhere(site, path, reference, pages)
    ]


def _leads_somewhere(site: Path, path: Path, reference: str, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(reference)
    if parts.scheme or parts.netloc:
        return True
    name = unquote(parts.path)
    start = site if name.startswith("/") else path.parent
    target = (start / name.lstrip("/")).resolve() if name else path
    target = target / "index.html" if target.is_dir() else target
    if not target.is_file() or not target.is_relative_to(site):
        return False
    anchor = unquote(parts.fragment)
    # A picture's fragment is no place in it: the style shows it in one of the two looks.
    return not anchor or target.suffix != ".html" or anchor == "__search" or anchor in pages[target].anchors


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serve(folder: Path) -> Generator[str]:
    """Serves a folder while the block runs; gives its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
