"""The page: its files as they are, itself for every other path, and nothing else of the machine."""

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from inspan.server.page import Page
from inspan.server.problems import Refusal

from .server_process import ServerProcess


class Sent(NamedTuple):
    """What the page has answered."""

    status: int
    headers: dict[str, str]
    body: bytes


@pytest.fixture
def page(tmp_path: Path) -> Page:
    folder = tmp_path / "web"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html>the page")
    (folder / "assets" / "index-Bx3_kL9a.js").write_text("let a = 1")
    (folder / "assets" / "index-Bx3_kL9a.css").write_text("a {}")
    (folder / "icon.svg").write_text("<svg/>")
    (folder / "notes.py").write_text("secret = 1")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    return Page(str(folder))


def ask(page: Page, path: str, method: str = "GET") -> Sent:
    sent = list[dict[str, Any]]()

    async def receive() -> dict[str, Any]:
        return {}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(page({"type": "http", "method": method, "path": path}, receive, send))
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Sent(sent[0]["status"], headers, sent[1]["body"])


@pytest.mark.parametrize(
    ("path", "media_type", "body"),
    [
        ("/", "text/html; charset=utf-8", b"<!doctype html>the page"),
        ("/runs/brave-otter", "text/html; charset=utf-8", b"<!doctype html>the page"),
        ("/icon.svg", "image/svg+xml", b"<svg/>"),
        ("/assets/index-Bx3_kL9a.js", "text/javascript; charset=utf-8", b"let a = 1"),
        ("/assets/index-Bx3_kL9a.css", "text/css; charset=utf-8", b"a {}"),
    ],
)
def test_a_file_comes_with_its_type_and_any_other_path_is_the_page(
    page: Page, path: str, media_type: str, body: bytes
) -> None:
    sent = ask(page, path)
    assert (sent.status, sent.headers["content-type"], sent.body) == (200, media_type, body)
    is_hashed = "assets" in path
    assert sent.headers["cache-control"] == ("public, max-age=31536000, immutable" if is_hashed else "no-cache")


@pytest.mark.parametrize(
    "path", ["/notes.py", "/link.txt", "/../secret.txt", "//etc/passwd", "/assets/../../secret.txt", "/%2e%2e/x", "/\0"]
)
def test_nothing_else_is_found(page: Page, path: str) -> None:
    try:
        assert b"secret" not in ask(page, path).body
    except Refusal as refusal:
        assert refusal.status == 404


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [("/assets/index-old.js", "GET", 404), ("/api", "GET", 404), ("/api/v2/runs", "GET", 404), ("/", "POST", 405)],
)
def test_what_the_page_is_not_is_refused(page: Page, path: str, method: str, status: int) -> None:
    with pytest.raises(Refusal) as refused:
        ask(page, path, method)
    assert refused.value.status == status


def test_a_head_has_no_body(page: Page) -> None:
    sent = ask(page, "/", "HEAD")
    assert (sent.headers["content-length"], sent.body) == ("23", b"")


def test_without_a_built_page_there_is_a_plain_sentence(tmp_path: Path) -> None:
    sent = ask(Page(str(tmp_path / "none")), "/")
    assert (sent.status, b"The page is not built" in sent.body) == (200, True)


def test_a_server_serves_its_page_to_everybody_and_nothing_of_the_machine(idle_server: ServerProcess) -> None:
    answer = idle_server.page("/")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    for path in ("/..%2f..%2f..%2fetc/passwd", "/assets/..%2f..%2fserver/token_file.py", "/../../etc/passwd"):
        assert b"root:" not in idle_server.page(path).body
        assert b"import" not in idle_server.page(path).body
