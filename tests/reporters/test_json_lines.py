"""The reporter for programs: every call is a line, redacted and cut, and what was not reported is null."""

import io
import json
from typing import Any

import pytest

from inspan.contracts.reporter import NodeResult
from inspan.protocol.events import TextDelta, TextSaid, ToolStarted
from inspan.reporters.events import report_events
from inspan.reporters.json_lines import JsonLinesReporter
from inspan.reporters.text import MAX_OUTPUT_BYTES

from .results import BUILT, FIXED, LIMITED, node, report
from .sample_events import ENDED, run_started

SECRET = "Qz7-4kP9vX2mN8bT5wR1"
ENV = {"MY_TOKEN": SECRET}


def lines_of(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_it_writes_to_stdout_with_the_schema_first(capsys: pytest.CaptureFixture[str]) -> None:
    JsonLinesReporter().node_start("build", "command")
    assert capsys.readouterr() == ('{"schema":1,"report":"node_start","node":"build","type":"command"}\n', "")


def test_every_call_is_a_line() -> None:
    stream = io.StringIO()
    reporter = JsonLinesReporter(stream=stream)
    reporter.node_start("fix", "agent")
    reporter.node_output("fix", "words")
    reporter.node_complete("fix", FIXED)
    reporter.node_complete("check", LIMITED)
    reporter.run_complete(report(node("fix", FIXED), node("check", LIMITED), status="failed"))
    usage = {"input": 200, "output": 14, "cache_read": 40, "cache_write": 20, "reasoning": 6}
    fixed = {
        "status": "success",
        "duration_s": 62.0,
        "usage": usage,
        "cost_usd": 0.0125,
        "cost_kind": "paid",
        "session_id": "s-1",
        "outcome": "completed",
        "reason": "done",
        "files_changed": ["a.py", "b.py"],
    }
    limited = {
        "status": "failed",
        "duration_s": 2.0,
        "usage": {"input": 10, "output": 1},
        "cost_usd": None,
        "cost_kind": "unknown",
        "outcome": "limited",
        "reason": "rate_limit",
        "next_step": "Wait.",
    }
    assert lines_of(stream) == [
        {"schema": 1, "report": "node_start", "node": "fix", "type": "agent"},
        {"schema": 1, "report": "node_output", "node": "fix", "kind": "plain", "text": "words"},
        {"schema": 1, "report": "node_complete", "node": "fix", "result": {**fixed, "output": "It is fixed."}},
        {"schema": 1, "report": "node_complete", "node": "check", "result": {**limited, "error": "too many requests"}},
        {
            "schema": 1,
            "report": "run_complete",
            "status": "failed",
            "duration_s": 65.0,
            "usage": {**usage, "input": 210, "output": 15},
            "cost_usd": 0.0125,
            "cost_kind": "partial",
            "not_paid_usd": None,
            "unpriced": ["check"],
            "nodes": [
                {"node": "fix", "type": "agent", "result": fixed},
                {"node": "check", "type": "agent", "result": limited},
            ],
        },
    ]


def test_what_nobody_reported_is_null_and_not_0() -> None:
    stream = io.StringIO()
    reporter = JsonLinesReporter(stream=stream)
    reporter.node_complete("build", BUILT)
    reporter.run_complete(report(node("build", BUILT)))
    complete, run = lines_of(stream)
    assert (complete["result"]["usage"], complete["result"]["cost_usd"]) == (None, None)
    assert (run["usage"], run["cost_usd"]) == (None, None)
    assert (complete["result"]["cost_kind"], run["cost_kind"]) == (None, "unknown")


def test_the_chunks_of_an_agent_say_what_they_are() -> None:
    stream = io.StringIO()
    told = report_events(JsonLinesReporter(stream=stream), "fix")
    for event in (
        run_started(),
        TextDelta(block="1", text="I look."),
        TextSaid(text="I look."),
        ToolStarted(id="1", name="bash", input={"command": "a\nb"}),
        ENDED,
    ):
        told.show(event)
    chunks = [(line["kind"], line["text"]) for line in lines_of(stream) if line["report"] == "node_output"]
    assert chunks[1:] == [("piece", "I look."), ("piece_end", "\n"), ("tool", "● bash  a\nb\n")]


@pytest.mark.parametrize("at", range(1, len(SECRET)))
def test_a_secret_that_is_split_over_two_chunks_is_redacted(at: int) -> None:
    stream = io.StringIO()
    reporter = JsonLinesReporter(ENV, stream=stream)
    reporter.node_output("build", f"it is {SECRET[:at]}")
    reporter.node_output("build", f"{SECRET[at:]}, ok")
    reporter.node_complete("build", BUILT)
    text = "".join(line["text"] for line in lines_of(stream)[:-1])
    assert text == "it is [REDACTED:MY_TOKEN], ok"


def test_what_only_looked_like_a_secret_is_written_when_the_node_ends() -> None:
    stream = io.StringIO()
    reporter = JsonLinesReporter(ENV, stream=stream)
    reporter.node_output("build", f"it is {SECRET[:9]}")
    reporter.node_complete("build", BUILT)
    *outputs, complete = lines_of(stream)
    assert "".join(line["text"] for line in outputs) == f"it is {SECRET[:9]}"
    assert complete["report"] == "node_complete"


def test_texts_are_cut_after_redaction_and_the_line_says_how_much_is_missing() -> None:
    stream = io.StringIO()
    reporter = JsonLinesReporter(ENV, stream=stream)
    text = "x" * (MAX_OUTPUT_BYTES - 3) + SECRET
    reporter.node_output("build", text)
    reporter.node_complete("build", NodeResult(status="failed", output=text, error=text))
    output, complete = lines_of(stream)
    kept = "x" * (MAX_OUTPUT_BYTES - 3) + "[RE"
    missing = len("[REDACTED:MY_TOKEN]") - 3
    assert (output["text"], output["left_out_bytes"]) == (kept, missing)
    assert (complete["result"]["output"], complete["result"]["error"]) == (kept, kept)
    assert complete["left_out_bytes"] == 2 * missing
