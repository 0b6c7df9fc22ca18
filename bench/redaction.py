"""What redaction costs: a stream against 1,000 secrets, and single lines against 50, in CPU time."""

import hashlib
import inspect
import json
import random
import string
import sys
from collections.abc import Callable, Sequence
from time import process_time
from types import ModuleType
from typing import Any
from uuid import UUID

from inspan.redaction import Redactor, SecretSet
from inspan.redaction.engines import Engine

_CHUNK_BYTES = 64 * 1024
_LOG_BYTES = 16_000_000
_ROUNDS = 3
_ALPHABET = string.ascii_letters + string.digits
_PREFIXES = ("sk-ant-api03-", "ghp_", "AKIA", "xoxb-", "")


def measure(*, quick: bool = False) -> list[dict[str, Any]]:
    """One row per figure; the peer is what is usually done: `bytes.replace` for each secret as it is."""
    chance = random.Random(7)
    lines = _log(chance, size_bytes=_LOG_BYTES // 8 if quick else _LOG_BYTES)
    many, few = _secrets(chance, 1000), _secrets(chance, 50)
    return [
        _stream_row("redaction_mb_per_cpu_s", lines, many, "ahocorasick"),
        _stream_row("redaction_mb_per_cpu_s_hyperscan", lines, many, "hyperscan"),
        _stream_row("redaction_mb_per_cpu_s_50", lines, few, "ahocorasick"),
        _line_row("redaction_us_per_line_50", lines, few, "ahocorasick"),
        _line_row("redaction_us_per_line_50_hyperscan", lines, few, "hyperscan"),
        _delta_row("redaction_us_per_delta_50", lines, few),
    ]


def _stream_row(name: str, lines: Sequence[bytes], secrets: dict[str, str], engine: Engine) -> dict[str, Any]:
    log = b"".join(lines)
    chunks = [log[start : start + _CHUNK_BYTES] for start in range(0, len(log), _CHUNK_BYTES)]
    compiled = SecretSet(secrets, engine=engine)
    ours = len(log) / 1e6 / _cpu_s(lambda: _each(chunks, Redactor(compiled).feed))
    sample = chunks[:8]
    peer = sum(map(len, sample)) / 1e6 / _cpu_s(lambda: _each(sample, _replacer(secrets)))
    return _row(name, ours, peer, ours / peer, "MB/CPU s", _note(compiled, engine))


def _line_row(name: str, lines: Sequence[bytes], secrets: dict[str, str], engine: Engine) -> dict[str, Any]:
    compiled = SecretSet(secrets, engine=engine)
    ours = _cpu_s(lambda: _each(lines, compiled.has_secret)) / len(lines) * 1e6
    sample = lines[:500]
    peer = _cpu_s(lambda: _each(sample, _replacer(secrets))) / len(sample) * 1e6
    average = sum(map(len, lines)) / len(lines)
    return _row(name, ours, peer, peer / ours, "us/line", f"{average:.0f} bytes a line, {_note(compiled, engine)}")


def _delta_row(name: str, lines: Sequence[bytes], secrets: dict[str, str]) -> dict[str, Any]:
    compiled = SecretSet(secrets)
    deltas = [line[start : start + 12] for line in lines[:200] for start in range(0, len(line), 12)]
    ours = _cpu_s(lambda: _each(deltas, Redactor(compiled).feed)) / len(deltas) * 1e6
    peer = _cpu_s(lambda: _each(deltas[:5000], _replacer(secrets))) / 5000 * 1e6
    return _row(name, ours, peer, peer / ours, "us/delta", f"12 bytes a delta, {_note(compiled, 'auto')}")


def _row(name: str, ours: float, peer: float, ratio: float, unit: str, note: str) -> dict[str, Any]:
    figures = {"ours": round(ours, 2), "peer": round(peer, 2), "ratio": round(ratio, 2)}
    return {"name": name, **figures, "unit": unit, "note": note}


def _note(compiled: SecretSet, engine: Engine) -> str:
    size = f"{len(compiled.names)} secrets, {len(compiled.patterns)} spellings"
    return f"{size}, {engine}; peer: bytes.replace, raw only"


def _replacer(secrets: dict[str, str]) -> Callable[[bytes], bytes]:
    pairs = [(value.encode(), f"[REDACTED:{name}]".encode()) for name, value in secrets.items()]

    def replace(data: bytes) -> bytes:
        for value, marker in pairs:
            data = data.replace(value, marker)
        return data

    return replace


def _each(pieces: Sequence[bytes], work: Callable[[bytes], object]) -> None:
    for piece in pieces:
        work(piece)


def _cpu_s(work: Callable[[], None]) -> float:
    def once() -> float:
        before = process_time()
        work()
        return process_time() - before

    return min(once() for _ in range(_ROUNDS))


def _secrets(chance: random.Random, count: int) -> dict[str, str]:
    def value() -> str:
        return chance.choice(_PREFIXES) + "".join(chance.choices(_ALPHABET + "+/-_", k=chance.randrange(20, 60)))

    return {f"SECRET_{number}": value() for number in range(count)}


def _log(chance: random.Random, *, size_bytes: int) -> list[bytes]:
    """JSON lines like an agent's, about 1.8 KB each: ids, counts, and source code as what tools returned."""
    source = "".join(map(_source, [module for module in list(sys.modules.values()) if module]))
    lines: list[bytes] = []
    size = 0
    while size < size_bytes:
        lines.append(_line(chance, source))
        size += len(lines[-1])
    return lines


def _line(chance: random.Random, source: str) -> bytes:
    length = chance.randrange(200, 2600)
    start = chance.randrange(len(source) - length)
    result = {
        "type": "tool_result",
        "tool_use_id": "toolu_01" + "".join(chance.choices(_ALPHABET, k=22)),
        "content": source[start : start + length],
    }
    event = {
        "type": "user",
        "uuid": str(UUID(int=chance.getrandbits(128))),
        "session_id": hashlib.sha1(chance.randbytes(8)).hexdigest(),
        "message": {"role": "user", "content": [result]},
        "usage": {"input_tokens": chance.randrange(99_999), "output_tokens": chance.randrange(9_999)},
    }
    return json.dumps(event).encode() + b"\n"


def _source(module: ModuleType) -> str:
    try:
        return inspect.getsource(module)
    except (OSError, TypeError):
        return ""


if __name__ == "__main__":
    for row in measure():
        print(json.dumps(row))
