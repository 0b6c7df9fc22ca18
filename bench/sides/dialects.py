"""Every dialect on its recordings. Arguments: rounds, and how many CPU milliseconds each takes of a dialect.

Prints, for each, the least CPU of a round per line, by the dialect and by a parser of JSON alone.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import cast

import msgspec

from bench.sides.spent import tell
from bench.stage.recordings import Recorded, recorded
from inspan.contracts.dialect import Dialect, DialectOutput, InteractiveDialect
from inspan.contracts.file_requests import FileResult
from inspan.dialects.acp.session_setup import SessionSetup
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals

_TASK = Task(prompt="do it", cwd="/WORK", partial=True)  # So that a piece of a text is an event, too.
_OPENING = msgspec.json.encode(SessionSetup(cwd="/WORK", prompt=[{"type": "text", "text": "do it"}]))
_NOTHING_TOLD = SessionTotals()


def main(rounds: int, round_ms: int) -> None:
    every = recorded()
    events = {each.name: _read(each, _opened(each)) for each in every}
    ours: dict[str, list[float]] = {each.name: [] for each in every}
    peer: dict[str, list[float]] = {each.name: [] for each in every}
    for _ in range(rounds):
        for each in every:
            ours[each.name].append(_least_s(each, _read, _opened, round_ms=round_ms))
            peer[each.name].append(_least_s(each, _parse, _nothing, round_ms=round_ms))
    figures = {
        each.name: {
            "ours_s": min(ours[each.name]),
            "peer_s": min(peer[each.name]),
            "runs": len(each.runs),
            "lines": each.lines,
            "bytes": each.size_bytes,
            "events": events[each.name],
        }
        for each in every
    }
    tell(**figures)


def _least_s(
    each: Recorded,
    read: Callable[[Recorded, Sequence[Dialect]], int],
    opened: Callable[[Recorded], Sequence[Dialect]],
    *,
    round_ms: int,
) -> float:
    """The least CPU seconds of reading all recordings once; a dialect is opened before the clock starts."""
    spent: list[float] = []
    while sum(spent) * 1e3 < round_ms:
        dialects = opened(each)
        before = time.process_time_ns()
        read(each, dialects)
        spent.append((time.process_time_ns() - before) / 1e9)
    return min(spent)


def _opened(each: Recorded) -> list[Dialect]:
    return [_begun(each.dialect(_TASK, _NOTHING_TOLD)) for _ in each.runs]


def _begun(dialect: Dialect) -> Dialect:
    if isinstance(dialect, InteractiveDialect):
        dialect.begin(_OPENING)
    else:
        dialect.open()
    return dialect


def _read(each: Recorded, dialects: Sequence[Dialect]) -> int:
    """How many events all recordings give."""
    events = 0
    for run, dialect in zip(each.runs, dialects, strict=True):
        receive = dialect.receive
        for line in run:
            said = receive(line)
            events += len(said.events) + (_worked(dialect, said) if said.file_requests else 0)
    return events


def _worked(dialect: Dialect, said: DialectOutput) -> int:
    """The events of work that is done for an agent: the files that it asks for are there, and empty."""
    conversation = cast(
        InteractiveDialect, dialect
    )  # Nobody else asks for work, and to check it takes longer than to do it.
    answers = [conversation.receive_file_result(FileResult(id=work.id, path=work.path)) for work in said.file_requests]
    return sum(len(answer.events) + _worked(dialect, answer) for answer in answers)


def _nothing(_: Recorded) -> list[Dialect]:
    return []


def _parse(each: Recorded, _: Sequence[Dialect]) -> int:
    """What no reader in Python can do without; a line that is no JSON is left at that."""
    parsed = 0
    for run in each.runs:
        for line in run:
            try:
                json.loads(line)
            except ValueError:
                continue
            parsed += 1
    return parsed


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
