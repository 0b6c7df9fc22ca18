"""The page: files that the wheel carries, served to everybody, for it is the token that opens the rest."""

import os
import re

from starlette.types import Receive, Scope, Send

from .access import PREFIX
from .problems import Refusal

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
# Vite puts a hash of the content into these names: under one name there is one content, for ever.
_HASHED = re.compile(r"assets/.+-[A-Za-z0-9_-]{8,}\.\w+")
_MISSING = (
    b"<!doctype html><title>inspan</title><p>The page is not built: this inspan was installed from its source. "
    b"The API is at <code>/api/v1</code>.</p>"
)


class Page:
    """Every file below a folder, found once; any other path outside of the API is the page itself, which routes it."""

    def __init__(self, folder: str) -> None:
        self._files = _find_files(folder)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/api" or scope["path"].startswith(("/api/", PREFIX)):
            raise Refusal(
                404,
                "not_found",
                "There is nothing at this address.",
                next_step=f"`{PREFIX}/openapi.json` lists what there is.",
            )
        if scope["method"] not in ("GET", "HEAD"):
            raise Refusal(405, "method_not_allowed", "The page can only be read.", headers={"allow": "GET, HEAD"})
        name = scope["path"].lstrip("/")
        if name.startswith("assets/") and name not in self._files:
            raise Refusal(404, "not_found", "There is no such file.", next_step="Load the page again.")
        path = self._files.get(name) or self._files.get("index.html", "")
        body = _read(path) if path else _MISSING
        await _send_file(scope, send, path or "index.html", body, is_hashed=bool(_HASHED.fullmatch(name)))


async def _send_file(scope: Scope, send: Send, path: str, body: bytes, *, is_hashed: bool) -> None:
    media_type = _TYPES.get(os.path.splitext(path)[1], "application/octet-stream")
    caching = b"public, max-age=31536000, immutable" if is_hashed else b"no-cache"
    headers = [
        (b"content-type", media_type.encode()),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", caching),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def find_page_folder() -> str:
    """Where the built page lies in the installed package."""
    return os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "web")


def _find_files(folder: str) -> dict[str, str]:
    """Names below the folder and where they lie: what is not found here is never opened, whatever a path says."""
    found: dict[str, str] = {}
    for above, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(above, name)
            if os.path.splitext(name)[1] in _TYPES and not os.path.islink(path):
                found[os.path.relpath(path, folder).replace(os.sep, "/")] = path
    return found


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError as error:
        raise Refusal(
            404, "not_found", "The file is gone.", next_step="inspan was upgraded: start the server again."
        ) from error
