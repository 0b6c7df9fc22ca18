"""Checks for reporters, ours and a stranger's: every call that a run can make, in good order and in bad."""

import inspect
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TextIO, TypeAlias

from inspan.contracts.reporter import NodeReport, NodeResult, Reporter, RunReport
from inspan.protocol.events import (
    ErrorReported,
    Event,
    FileChanged,
    ReasoningSaid,
    RunEnded,
    RunStarted,
    TextDelta,
    TextSaid,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
)
from inspan.protocol.usage import Usage
from inspan.reporters.events import report_events
from inspan.reporters.text import MAX_OUTPUT_BYTES

Call: TypeAlias = tuple[Any, ...]
"""A method and what it is called with."""

_SECRET = "Zq7-vK4xW9jP2mB6"
_FRAGMENT = 5
_NOTES_BYTES = 4096
_DONE = NodeResult(
    status="success",
    output="done",
    duration_s=1.5,
    usage=Usage(input=200, output=14, cache_read=40, cache_write=20, reasoning=6),
    cost_usd=0.01,
    session_id="s-1",
    outcome="completed",
    reason="done",
    files_changed=("a.txt", "b.txt"),
)
_FAILED = NodeResult(status="failed", error="exit code 2", duration_s=61.0, next_step="Look at the log.")
_SKIPPED = NodeResult(status="skipped")


def check_reporter(make: Callable[[], Reporter]) -> None:
    """Raises `AssertionError` with every call that a reporter did not take; each story has a reporter of its own."""
    problems = [problem for story, calls in _CALL_SEQUENCES.items() for problem in _play(make(), story, calls)]
    problems += _play_events(make())
    if problems:
        raise AssertionError("\n".join(problems))


def check_redaction(make: Callable[[Mapping[str, str], TextIO], Reporter]) -> None:
    """Raises `AssertionError` where a reporter, made for an environment and a stream, shows a part of a secret of that
    environment or more than `MAX_OUTPUT_BYTES` of a chunk. One that shows nothing passes.
    """
    problems = [problem for story, calls in _leak_stories() for problem in _check_leaks(make, story, calls)]
    if problems:
        raise AssertionError("\n".join(problems))


def _play(reporter: Reporter, story: str, calls: Sequence[Call]) -> list[str]:
    problems: list[str] = []
    for method, *arguments in calls:
        try:
            returned = getattr(reporter, method)(*arguments)
        except Exception as error:  # A stranger's code may raise anything, and that is what is looked for.
            problems.append(f"{story}: {method} raised {error!r}"[:500])
            continue
        if inspect.iscoroutine(returned):
            returned.close()
            problems.append(f"{story}: {method} is async, and nobody awaits it")
        elif returned is not None:
            problems.append(f"{story}: {method} returned {returned!r} instead of None"[:500])
    return problems


def _play_events(reporter: Reporter) -> list[str]:
    shown = report_events(_Recorder(calls := list[Call]()), "agent")
    for event in _EVENTS:
        shown.show(event)
    return _play(reporter, "the events of an agent", calls)


class _Recorder:
    """Notes the calls, so that one that raises does not hide the next."""

    def __init__(self, calls: list[Call]) -> None:
        self._calls = calls

    def node_start(self, name: str, type: str, /) -> None:
        self._calls.append(("node_start", name, type))

    def node_output(self, name: str, chunk: str, /) -> None:
        self._calls.append(("node_output", name, chunk))

    def node_complete(self, name: str, result: NodeResult, /) -> None:
        self._calls.append(("node_complete", name, result))

    def run_complete(self, report: RunReport, /) -> None:
        self._calls.append(("run_complete", report))


def _check_leaks(
    make: Callable[[Mapping[str, str], TextIO], Reporter], story: str, calls: Sequence[Call]
) -> Iterator[str]:
    screen = io.StringIO()
    yield from _play(make({"DEPLOY_TOKEN": _SECRET}, screen), story, calls)
    shown = screen.getvalue()
    fragments = (_SECRET[at : at + _FRAGMENT] for at in range(len(_SECRET) - _FRAGMENT + 1))
    if any(fragment in shown for fragment in fragments):
        yield f"{story}: a part of the secret is shown"
    if len(shown.encode()) > MAX_OUTPUT_BYTES + _NOTES_BYTES:
        yield f"{story}: {len(shown.encode())} bytes are shown, and at most {MAX_OUTPUT_BYTES} of a chunk may be"


def _leak_stories() -> Iterator[tuple[str, list[Call]]]:
    end = ("run_complete", _report(_node("build", _DONE)))
    for at in range(1, len(_SECRET)):
        yield (
            f"a secret split after {at} characters",
            [
                ("node_output", "build", f"the token is {_SECRET[:at]}"),
                ("node_output", "test", "another node speaks in between\n"),
                ("node_output", "build", f"{_SECRET[at:]}, they say"),
                ("node_complete", "build", _DONE),
                end,
            ],
        )
    for before in (1, 8, len(_SECRET) - 1):
        chunk = "x" * (MAX_OUTPUT_BYTES - before) + _SECRET + "y" * MAX_OUTPUT_BYTES
        yield f"a secret {before} bytes before the cut", [("node_output", "build", chunk), end]
    told = NodeResult(
        status="failed",
        output=_SECRET,
        error=f"{_SECRET} was refused",
        session_id=_SECRET,
        files_changed=(f"/tmp/{_SECRET}",),
        next_step=f"Change {_SECRET}.",
    )
    yield "a secret in a result", [("node_complete", "build", told), ("run_complete", _report(_node("build", told)))]
    yield (
        "a secret as a name",
        [
            ("node_start", _SECRET, _SECRET),
            ("node_output", _SECRET, "hello\n"),
            ("node_output", "build", "hello\n"),
            ("node_output", _SECRET, "hello\n"),
            ("node_complete", _SECRET, _FAILED),
            ("run_complete", _report(_node(_SECRET, _FAILED))),
        ],
    )


def _node(name: str, result: NodeResult, *, type: str = "command") -> NodeReport:
    return NodeReport(name=name, type=type, result=result)


def _report(*nodes: NodeReport) -> RunReport:
    failed = any(node.result.status == "failed" for node in nodes)
    return RunReport(nodes=nodes, status="failed" if failed else "success", duration_s=3.0)


def _chunks(name: str, *chunks: str) -> list[Call]:
    return [
        ("node_start", name, "command"),
        *(("node_output", name, chunk) for chunk in chunks),
        ("node_complete", name, _DONE),
        ("run_complete", _report(_node(name, _DONE))),
    ]


_CALL_SEQUENCES: dict[str, list[Call]] = {
    "one node": _chunks("build", "compiling\n", "linking, ", "done\n"),
    "a node without output": _chunks("build"),
    "empty words": _chunks("", "", ""),
    "emoji and other scripts": _chunks("naïve 🦀 漢字", "🦀\n", "e\u0301 \u202eright to left\n", "漢" * 100),
    "half a character": _chunks("half \udcff", "before \ud83e after\n", "\udcff\udcfe"),
    "control characters": _chunks("bell \x07", "\x1b]0;owned\x07\x1b[2J\x9b31m\r\x00", "\x7f\n"),
    "a chunk of a megabyte": _chunks("build", "漢" * 350_000, "x" * 1_000_000 + "\n"),
    "ten thousand chunks": _chunks("build", *["word "] * 10_000),
    "nodes side by side": [
        ("node_start", "build", "command"),
        ("node_start", "fix", "agent"),
        ("node_output", "build", "compil"),
        ("node_output", "fix", "I look at "),
        ("node_output", "build", "ing\n"),
        ("node_complete", "build", _FAILED),
        ("node_output", "fix", "the error.\n"),
        ("node_complete", "fix", _DONE),
        ("node_complete", "deploy", _SKIPPED),
        (
            "run_complete",
            _report(_node("build", _FAILED), _node("fix", _DONE, type="agent"), _node("deploy", _SKIPPED)),
        ),
    ],
    "a name that comes again": [
        *_chunks("build", "one")[:-1],
        *_chunks("build", "two")[:-1],
        ("run_complete", _report(_node("build", _DONE), _node("build", _DONE))),
    ],
    "a node that never ends": [
        ("node_start", "build", "command"),
        ("node_output", "build", "no line end"),
        ("run_complete", _report()),
    ],
    "no order at all": [
        ("node_output", "build", "before the start"),
        ("node_complete", "test", _FAILED),
        ("node_start", "build", "command"),
        ("node_start", "build", "command"),
        ("node_complete", "build", _DONE),
        ("node_complete", "build", _DONE),
        ("node_output", "build", "after the end"),
        ("run_complete", _report()),
    ],
}
_EVENTS: tuple[Event, ...] = (
    RunStarted(
        schema=1,
        run_id="20260101-000000000-1",
        agent="anyone",
        agent_version="1.0",
        mode="exec",
        project="p",
        task="default",
        cwd="/tmp",
        profile="clean",
        sandbox="none",
        containment="bwrap",
        inspan="0",
    ),
    TextDelta(block="1", text="I wi"),
    TextDelta(block="1", text="ll look."),
    TextSaid(text="I will look."),
    ReasoningSaid(text="Where is it?"),
    ToolStarted(id="1", name="bash", input={"command": "cat a\ncat b"}),
    ToolCompleted(id="1", output="line\n" * 100),
    ToolStarted(id="2", name="write", input={"content": ["🦀", {"deep": None}]}),
    ToolFailed(id="2", output="no", denied=True),
    FileChanged(path="a.txt", change="added"),
    ErrorReported(message="something broke"),
    TextSaid(text="Done."),
    RunEnded(outcome="failed", reason="crashed", message="signal 9", next="Look at the log.", duration_s=2.0),
)
