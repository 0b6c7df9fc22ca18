"""The host process of a call, started as a run starts it."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import inspan

SCRIPT = Path(inspan.__file__).parent / "transports" / "http_agent.py"
WAIT_S = 120.0
KEY = "sk-of-a-call-8Zr5Tn2Lx9Vk4Hd7"


def encode_request(fields: Mapping[str, str], body: bytes = b"{}") -> bytes:
    """What it reads."""
    return "".join(f"{name}: {value}\n" for name, value in fields.items()).encode() + b"\n" + body


def start_host(stdin: bytes, *, env: Mapping[str, str] | None = None) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-I", str(SCRIPT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(env or {}),
    )
    assert process.stdin is not None
    process.stdin.write(stdin)
    process.stdin.close()
    process.stdin = None
    return process


def run_call(
    address: str, *, body: bytes = b'{"model":"m"}', env: Mapping[str, str] | None = None, **fields: str
) -> tuple[list[Any], int]:
    """The lines of one call, those that are JSON as values, and its exit code; it has nothing to say on stderr."""
    given = {"path": "/chat/completions", "address": address, "key-from": "A_KEY"}
    given |= {name.replace("_", "-"): value for name, value in fields.items()}
    process = start_host(encode_request(given, body), env=env)
    out, err = process.communicate(timeout=WAIT_S)
    assert err == b""
    assert out == b"" or out.endswith(b"\n")
    return [_read(line) for line in out.split(b"\n")[:-1]], process.returncode


def _read(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return line.decode()
