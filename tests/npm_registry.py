"""A registry of npm packages on loopback, made by a test, for the real npm; and an agent that comes from it."""

import base64
import hashlib
import io
import json
import re
import tarfile
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import msgspec

from inspan.agents import registry
from inspan.contracts.driver import Driver, Install, ProgramSpec

PACKAGE = "@loop/tiny"
_LONGEST_WAIT_S = 120.0
PROGRAM = """#!/usr/bin/env node
if (process.argv[2] === "--version") console.log("tiny {version}");
else console.log(JSON.stringify({{node: process.versions.node, words: process.argv.slice(2), needs: {needs}}}));
"""
# What a package's scripts would do if anybody ran them.
TOUCHES = dict.fromkeys(("preinstall", "install", "postinstall", "prepare"), "touch ran-a-script")


class Registry:
    """Packages that npm can fetch; whoever makes it closes it. `asked` are the paths that were asked for.

    While `gives_archives` is cleared, whoever asks for one waits.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.gives_archives = threading.Event()
        self.gives_archives.set()
        self._packages: dict[str, dict[str, Any]] = {}
        self._archives: dict[str, bytes] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def env(self) -> dict[str, str]:
        """What leads npm here, and nowhere else."""
        return {"npm_config_registry": self.url, "npm_config_fetch_retries": "0", "npm_config_userconfig": "/dev/null"}

    def publish(
        self,
        name: str,
        version: str,
        files: Mapping[str, str | bytes],
        *,
        holds: str = "",
        archive: bytes = b"",
        **described: Any,
    ) -> None:
        """Puts a package on the shelf; `holds` is the version that its archive really has, where it is another."""
        manifest = {"name": name, "version": version, **described}
        inside = {"package.json": json.dumps({**manifest, "version": holds or version}), **files}
        made = archive or pack_archive({f"package/{path}": text for path, text in inside.items()})
        path = f"/{name}/-/{name.rpartition('/')[2]}-{version}.tgz"
        self._archives[path] = made
        integrity = f"sha512-{base64.b64encode(hashlib.sha512(made).digest()).decode()}"
        manifest["dist"] = {"tarball": f"{self.url}{path}", "integrity": integrity}
        known = self._packages.setdefault(name, {"name": name, "dist-tags": {}, "versions": {}})
        known["versions"][version] = manifest
        known["dist-tags"]["latest"] = version

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _look_up(self, path: str) -> bytes | None:
        self.asked.append(path)
        if path in self._archives:
            self.gives_archives.wait(_LONGEST_WAIT_S)
            return self._archives[path]
        known = self._packages.get(path.removeprefix("/"))
        return json.dumps(known).encode() if known else None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        found = self._look_up

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = found(unquote(self.path))
                self.send_response(404 if body is None else 200)
                self.send_header("content-length", str(len(body or b"{}")))
                self.end_headers()
                self.wfile.write(body or b"{}")

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


def pack_archive(files: Mapping[str, str | bytes], *, before: Sequence[tarfile.TarInfo] = ()) -> bytes:
    """An archive as npm has them; entries `before` have no content."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for entry in before:
            archive.addfile(entry)
        for path, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    return made.getvalue()


def program(version: str = "1.2.3", *, needs: str = "null") -> str:
    """A script for Node that answers as the tiny agent does; `needs` is what it requires."""
    return PROGRAM.format(version=version, needs=needs)


def tiny(**recipe: Any) -> Driver:
    """The driver of an agent that npm has, and that Node runs."""
    install = Install(
        source="npm", package=PACKAGE, version="1.2.3", program=f"node_modules/{PACKAGE}/cli.js", node=(22,)
    )
    return msgspec.structs.replace(
        registry.find_driver("scripted"),
        name="tiny",
        title="Tiny",
        program=ProgramSpec(
            command="tiny",
            install=msgspec.structs.replace(install, **recipe),
            version_pattern=re.compile(r"tiny (\d+)\.(\d+)\.(\d+)"),
            oldest=(1, 0, 0),
        ),
        built_in=False,
    )
