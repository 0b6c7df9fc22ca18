"""A package index on loopback with one tiny wheel, for the real pip: installing is tried without anybody's network."""

import base64
import hashlib
import io
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PACKAGE = "inspan_tiny"
MODULE = f"{PACKAGE}.py"
SOURCE = 'WORD = "installed-in-a-box"\n'
# Not 127.0.0.1, which a box takes for itself and asks no proxy for: this one is a host like any other.
_HOST = "127.0.0.2"
_WHEEL = f"{PACKAGE}-1.0-py3-none-any.whl"
_DIST_INFO = f"{PACKAGE}-1.0.dist-info"


class PackageIndex:
    """Serves from when it is made until it is closed; `asked` are the paths that were asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        pages = {f"/simple/{PACKAGE.replace('_', '-')}/": _build_page(), f"/{_WHEEL}": _build_wheel()}
        self._server = ThreadingHTTPServer((_HOST, 0), _build_handler(pages, self.asked))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def authority(self) -> str:
        """Its host and port, as a rule of `--net allow=…` names them."""
        return f"{_HOST}:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.authority}/simple/"

    @property
    def gave_package(self) -> bool:
        """Whether anybody has fetched the wheel."""
        return f"/{_WHEEL}" in self.asked

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> "PackageIndex":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _build_handler(pages: dict[str, bytes], asked: list[str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = pages.get(self.path, b"")
            self.send_response(200 if body else 404)
            self.send_header("content-type", "text/html" if self.path.endswith("/") else "application/zip")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def _build_page() -> bytes:
    return f'<!DOCTYPE html><html><body><a href="/{_WHEEL}">{_WHEEL}</a></body></html>'.encode()


def _build_wheel() -> bytes:
    files = {
        MODULE: SOURCE,
        f"{_DIST_INFO}/METADATA": f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1.0\n",
        f"{_DIST_INFO}/WHEEL": "Wheel-Version: 1.0\nGenerator: inspan\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = [f"{path},sha256={_hash(text)},{len(text)}\n" for path, text in files.items()]
    files[f"{_DIST_INFO}/RECORD"] = "".join([*lines, f"{_DIST_INFO}/RECORD,,\n"])
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return made.getvalue()


def _hash(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
