"""The settings of a user, planted in a house's HOME: words that show up where they are read, and marks where obeyed."""

import ctypes
import json
import os
import struct
import sys
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.cli_env import CliEnv

MEMORY = "planted-memory-word"
# Where a login lies, and what must never be used of it.
LOGINS = (".claude/.credentials.json", ".codex/auth.json")
_OPEN, _MODIFY, _ATTRIB, _CREATE, _DELETE = 0x20, 0x2, 0x4, 0x100, 0x200
_HEAD = struct.Struct("iIII")
_SERVER = """
import json, pathlib, sys
for line in sys.stdin:
    asked = json.loads(line)
    tool = {"name": "echo", "description": "planted-tool-word", "inputSchema": {"type": "object"}}
    about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "planted", "version": "1"}}
    results = {
        "initialize": {"protocolVersion": asked.get("params", {}).get("protocolVersion"), **about},
        "tools/list": {"tools": [tool]},
        "tools/call": {"content": [{"type": "text", "text": "planted-echo-word"}]},
    }
    if "id" not in asked:
        continue
    known = asked["method"] in results
    said = {"result": results[asked["method"]]} if known else {"error": {"code": -32601, "message": "no such method"}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)
"""


class PlantedSettings:
    """Everything by which a user tells an agent how to behave; without `logins` nobody is logged in."""

    def __init__(self, cli_env: CliEnv, *, logins: bool) -> None:
        self.home = Path(cli_env.env["HOME"])
        self.mark = cli_env.work / "hook-ran"
        python = os.path.realpath(sys.executable)
        for folder in (".claude", ".codex"):
            self._write(f"{folder}/server.py", _SERVER)
        server = {"command": python, "args": [str(self.home / ".claude/server.py")]}
        hook = {"matcher": "*", "hooks": [{"type": "command", "command": f"touch {self.mark}"}]}
        self._write(
            ".claude/settings.json", {"env": {"PLANTED": "planted-env-word"}, "hooks": {"SessionStart": [hook]}}
        )
        self._write(".claude/CLAUDE.md", f"Remember the {MEMORY}.\n")
        self._write(".claude/commands/planted.md", "planted-command-word\n")
        self._write(".claude/agents/planted.md", _with_front_matter("planted-agent-word"))
        self._write(".claude/skills/planted/SKILL.md", _with_front_matter("planted-skill-word"))
        self._write(".claude.json", {"mcpServers": {"planted": {"type": "stdio", **server}}})
        self._write(
            ".codex/config.toml",
            'developer_instructions = "planted-instructions-word"\n'
            "check_for_update_on_startup = false\n"
            "[analytics]\nenabled = false\n[features]\nplugins = false\n"
            # Codex asks its model before a server is there that it is not told to wait for.
            f'[mcp_servers.planted]\ncommand = "{python}"\nargs = ["{self.home / ".codex/server.py"}"]\n'
            "required = true\nstartup_timeout_sec = 60\n",
        )
        self._write(".codex/AGENTS.md", f"Remember the {MEMORY}.\n")
        self._write(".codex/prompts/planted.md", "planted-prompt-word\n")
        self._write(".codex/rules/default.rules", 'prefix_rule(pattern=["true"], decision="allow")\n')
        if logins:
            for path in LOGINS:
                self._write(path, {"planted": "planted-login-word"})

    def listing(self) -> dict[str, str]:
        """Every file of the HOME with a hash of what it holds, but for caches."""
        found = [path for path in self.home.rglob("*") if path.is_file() and ".cache" not in path.parts]
        return {str(path.relative_to(self.home)): sha256(path.read_bytes()).hexdigest() for path in found}

    def _write(self, name: str, content: str | dict[str, Any]) -> None:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))


def _with_front_matter(words: str) -> str:
    return f"---\nname: planted\ndescription: {words}\n---\nDo it.\n"


class FileWatch:
    """Sees, while entered, who touches what below some folders: whatever opens, changes, makes or deletes a file there.

    A look at what a folder holds is an opening, too; asking whether a file exists is not.
    """

    def __init__(self, *folders: Path) -> None:
        self._folders = [path for top in folders for path in (top, *top.rglob("*")) if path.is_dir()]
        self._names: dict[int, Path] = {}
        self.touched: list[str] = []

    def __enter__(self) -> "FileWatch":
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        assert self._fd >= 0
        for folder in self._folders:
            watch: int = libc.inotify_add_watch(
                self._fd, os.fsencode(folder), _OPEN | _MODIFY | _ATTRIB | _CREATE | _DELETE
            )
            assert watch >= 0
            self._names[watch] = folder
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            while heard := os.read(self._fd, 1 << 16):
                self._note(heard)
        except BlockingIOError:
            pass
        os.close(self._fd)

    def _note(self, heard: bytes) -> None:
        place = 0
        while place < len(heard):
            watch, _, _, length = _HEAD.unpack_from(heard, place)
            place += _HEAD.size + length
            name = heard[place - length : place].rstrip(b"\0").decode()
            self.touched.append(str(self._names[watch] / name))
