"""Runs behind a gateway that leads to a provider on loopback, and where a secret of theirs must not stand."""

import socket
from collections.abc import Sequence
from pathlib import Path

from tests.cli_env import CliEnv, FinishedRun, list_pids

from .provider import Provider

KEY = "sk-given-Qw8Zr5Tn2Lx9Vk4Hd7Pj"
KEY_VARIABLE = {"claude": "ANTHROPIC_API_KEY", "codex": "CODEX_API_KEY"}
KEY_HEADER = {"claude": {"x-api-key": KEY}, "codex": {"authorization": f"Bearer {KEY}"}}
TOKEN_VARIABLE = {"claude": "ANTHROPIC_API_KEY", "codex": "INSPAN_RUN_TOKEN"}
# An agent with the user's settings would else tell its vendor of itself.
QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
WINDOW = 12


def make_provider(scenario: str, cli_env: CliEnv) -> Provider:
    """A provider on loopback; to be entered."""
    return Provider(scenario, cwd=str(cli_env.work), listener=socket.create_server(("127.0.0.1", 0)))


def build_argv(agent: str, url: str, *more: str, profile: str = "clean") -> list[str]:
    """The command of a run whose provider is there."""
    address = f"{url}/v1" if agent == "codex" else url
    return ["run", "do it", "-a", agent, "--profile", profile, "--base-url", address, *more]


def run_live(cli_env: CliEnv, agent: str, url: str, *more: str, env: dict[str, str] | None = None) -> FinishedRun:
    """Runs with a key in the usual variable, to the end."""
    keys = {KEY_VARIABLE[agent]: KEY} if env is None else env
    return FinishedRun(cli_env, cli_env.inspan(*build_argv(agent, url, *more), env={**QUIET, **keys}))


def collect_output(cli_env: CliEnv) -> str:
    """All that inspan prints of its runs."""
    said = [cli_env.inspan(*look.split()) for look in ("logs", "show --json", "cost")]
    return "".join(done.stdout + done.stderr for done in said)


def find_leaks(secrets: Sequence[str], *, below: Sequence[Path], printed: str = "") -> list[tuple[str, str]]:
    """Every file below these folders, and `printed`, with a piece of a secret that stands in it."""
    places = {str(path): path.read_bytes() for top in below for path in top.rglob("*") if path.is_file()}
    places |= {"printed": printed.encode()}
    pieces = [secret[at : at + WINDOW].encode() for secret in secrets for at in range(len(secret) - WINDOW + 1)]
    return [(name, piece.decode()) for name, held in places.items() for piece in pieces if piece in held]


def read_proc(pid: int, name: str) -> bytes:
    """What the kernel tells of a process; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def descendants(pid: int) -> set[int]:
    parents = {
        each: int((read_proc(each, "stat").rpartition(b")")[2].split() or [b"0", b"0"])[1]) for each in list_pids()
    }
    found = {pid}
    while more := {each for each, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def read_variable(pid: int, name: str) -> str:
    """A variable of a process, as it was started."""
    rows = read_proc(pid, "environ").split(b"\0")
    return next((row.partition(b"=")[2].decode() for row in rows if row.startswith(f"{name}=".encode())), "")


def parse_variables(path: Path) -> dict[str, str]:
    """The variables in what `env` has written."""
    return {name: value for name, _, value in (line.partition("=") for line in path.read_text().splitlines())}
