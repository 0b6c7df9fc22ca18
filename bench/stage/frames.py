"""Streams of an agent for benches: the frames of real runs in `bench/data`, with texts of a usual length put in."""

import argparse
import inspect
import json
import os
import random
from itertools import cycle, islice
from typing import Any

from .place import ROOT

_DATA = os.path.join(ROOT, "bench", "data")
_KINDS = ("init", "text", "bash_call", "bash_result", "write_call", "write_result", "result")
_CYCLE = ("text", "bash_call", "bash_result", "text", "write_call", "write_result")
_PROSE, _OUTPUT, _FILE = (100, 900), (400, 2900), (200, 2400)


def write_stream(path: str, *, lines: int) -> float:
    """Writes a whole run of so many lines, from init to result; gives the average line's bytes."""
    frames = _recorded()
    chance, text = random.Random(5), inspect.getsource(argparse)
    filled = [frames["init"]]
    for number, kind in enumerate(islice(cycle(_CYCLE), lines - 2)):
        filled.append(_filled(kind, frames[kind], number=number, chance=chance, text=text))
    filled.append(_unspent(frames["result"]))
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(_line(frame) for frame in filled)
    return os.path.getsize(path) / lines


def write_long_line(path: str, *, limit_bytes: int) -> int:
    """Writes a run whose tool result is one line of about so many bytes; gives its exact length."""
    frames = _recorded()
    text = inspect.getsource(argparse)
    long = _copy(frames["bash_result"])
    long["message"]["content"][0]["content"] = text * (limit_bytes // len(json.dumps(text)))
    line = _line(long)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(_line(frames[kind]) for kind in ("init", "text", "bash_call"))
        file.write(line)
        file.writelines(map(_line, (frames["text"], _unspent(frames["result"]))))
    return len(line.encode())


def initialize_answer() -> str:
    """What the real program answers to the control request `initialize`, with REQUEST_ID to be filled in."""
    with open(os.path.join(_DATA, "claude-initialize.json"), encoding="utf-8") as file:
        return file.read()


def _unspent(result: dict[str, Any]) -> dict[str, Any]:
    """The last frame without tokens: a program that calls no model has spent none, and is not believed otherwise."""
    counted = ("usage", "modelUsage", "model_usage_since_last_result")
    return {name: value for name, value in result.items() if name not in counted} | {"total_cost_usd": 0}


def _recorded() -> dict[str, dict[str, Any]]:
    with open(os.path.join(_DATA, "claude.jsonl"), encoding="utf-8") as file:
        return dict(zip(_KINDS, map(json.loads, file), strict=True))


def _filled(kind: str, frame: dict[str, Any], *, number: int, chance: random.Random, text: str) -> dict[str, Any]:
    """The frame with a text put in where the real one has one, and the number of its tool call."""

    def piece(sizes: tuple[int, int]) -> str:
        length = chance.randrange(*sizes)
        start = chance.randrange(len(text) - length)
        return text[start : start + length]

    made = _copy(frame)
    block = made["message"]["content"][0]
    if kind == "text":
        block["text"] = piece(_PROSE)
    elif kind == "bash_call":
        block["id"] = f"toolu_bash{number:012d}"
    elif kind == "bash_result":
        block["tool_use_id"] = made["tool_result_meta"][0]["id"] = f"toolu_bash{number - 1:012d}"
        block["content"] = made["tool_use_result"]["stdout"] = piece(_OUTPUT)
    elif kind == "write_call":
        block["id"] = f"toolu_write{number:011d}"
        block["input"]["content"] = piece(_FILE)
    elif kind == "write_result":
        block["tool_use_id"] = made["tool_result_meta"][0]["id"] = f"toolu_write{number - 1:011d}"
        made["tool_use_result"]["content"] = piece(_FILE)
    return made


def _copy(frame: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(frame))


def _line(frame: dict[str, Any]) -> str:
    return json.dumps(frame, separators=(",", ":"), ensure_ascii=False) + "\n"
