"""Runs behind a gateway that leads to a provider on loopback, and where a secret of theirs must not stand."""

import socket
from collections.abc import Sequence
from pathlib import Path

from tests.house import Finished, House, pids

from .provider import Provider

KEY = "sk-given-Qw8Zr5Tn2Lx9Vk4Hd7Pj"
KEY_VARIABLE = {"claude": "ANTHROPIC_API_KEY", "codex": "CODEX_API_KEY"}
KEY_HEADER = {"claude": {"x-api-key": KEY}, "codex": {"authorization": f"Bearer {KEY}"}}
TOKEN_VARIABLE = {"claude": "ANTHROPIC_API_KEY", "codex": "INSPAN_RUN_TOKEN"}
# An agent with the user's settings would else tell its vendor of itself.
QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
WINDOW = 12


def provider(scenario: str, house: House) -> Provider:
    """A provider on loopback; to be entered."""
    return Provider(scenario, cwd=str(house.work), listener=socket.create_server(("127.0.0.1", 0)))


def words(agent: str, url: str, *more: str, profile: str = "clean") -> list[str]:
    """The command of a run whose provider is there."""
    address = f"{url}/v1" if agent == "codex" else url
    return ["run", "do it", "-a", agent, "--profile", profile, "--base-url", address, *more]


def run_live(house: House, agent: str, url: str, *more: str, env: dict[str, str] | None = None) -> Finished:
    """Runs with a key in the usual variable, to the end."""
    keys = {KEY_VARIABLE[agent]: KEY} if env is None else env
    return Finished(house, house.inspan(*words(agent, url, *more), env={**QUIET, **keys}))


def looks(house: House) -> str:
    """All that inspan prints of its runs."""
    said = [house.inspan(*look.split()) for look in ("logs", "show --json", "cost")]
    return "".join(done.stdout + done.stderr for done in said)


def leaks(secrets: Sequence[str], *, below: Sequence[Path], printed: str = "") -> list[tuple[str, str]]:
    """Every file below these folders, and `printed`, with a piece of a secret that stands in it."""
    places = {str(path): path.read_bytes() for top in below for path in top.rglob("*") if path.is_file()}
    places |= {"printed": printed.encode()}
    pieces = [secret[at : at + WINDOW].encode() for secret in secrets for at in range(len(secret) - WINDOW + 1)]
    return [(name, piece.decode()) for name, held in places.items() for piece in pieces if piece in held]


def proc(pid: int, name: str) -> bytes:
    """What the kernel tells of a process; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def descendants(pid: int) -> set[int]:
    parents = {each: int((proc(each, "stat").rpartition(b")")[2].split() or [b"0", b"0"])[1]) for each in pids()}
    found = {pid}
    while more := {each for each, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def variable(pid: int, name: str) -> str:
    """A variable of a process, as it was started."""
    rows = proc(pid, "environ").split(b"\0")
    return next((row.partition(b"=")[2].decode() for row in rows if row.startswith(f"{name}=".encode())), "")


def listed(path: Path) -> dict[str, str]:
    """The variables in what `env` has written."""
    return {name: value for name, _, value in (line.partition("=") for line in path.read_text().splitlines())}
