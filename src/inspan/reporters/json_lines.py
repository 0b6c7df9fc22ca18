"""The reporter for programs: one JSON object per line, each with the schema number first."""

import sys
from typing import Any, TextIO

import msgspec
from msgspec.structs import replace

from inspan.contracts.reporter import NodeReport, NodeResult, RunReport
from inspan.protocol.wire import SCHEMA

from .narration import TextChunk
from .redactor import ReportRedactor, Secrets
from .text import truncate_bytes


class JsonLinesReporter:
    """Writes to a stream, stdout unless another is given; raises what the stream raises.

    Texts are redacted and cut like those of a console; `left_out_bytes` says how much of a line's text is missing.
    `usage` and `cost_usd` are null where they were not reported; `cost_kind` says whether there was anything to pay.
    The last line has the nodes without their words.
    """

    def __init__(self, secrets: Secrets = None, *, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._redactor = ReportRedactor(secrets)
        self._unfinished: dict[str, None] = {}

    def node_start(self, name: str, type: str, /) -> None:
        self._write("node_start", node=self._redactor.redact_text(name), type=self._redactor.redact_text(type))

    def node_output(self, name: str, chunk: str, /) -> None:
        self._unfinished[name] = None
        for redacted in self._redactor.redact_chunk(name, chunk):
            self._write_output(name, redacted)

    def node_complete(self, name: str, result: NodeResult, /) -> None:
        self._finish(name)
        result = self._redactor.redact_result(result)
        output, output_missing = truncate_bytes(result.output)
        error, error_missing = truncate_bytes(result.error)
        self._write(
            "node_complete",
            node=self._redactor.redact_text(name),
            result=_to_dict(replace(result, output=output, error=error)),
            **_format_missing(output_missing + error_missing),
        )

    def run_complete(self, report: RunReport, /) -> None:
        for name in list(self._unfinished):
            self._finish(name)
        report = self._redactor.redact_report(report)
        self._write(
            "run_complete",
            status=report.status,
            duration_s=report.duration_s,
            usage=report.usage,
            **report.cost.to_fields(),
            unpriced=report.unpriced,
            nodes=list(map(_node_to_dict, report.nodes)),
        )

    def _finish(self, name: str) -> None:
        self._unfinished.pop(name, None)
        for chunk in self._redactor.flush(name):
            self._write_output(name, chunk)

    def _write_output(self, name: str, chunk: TextChunk) -> None:
        text, missing_bytes = truncate_bytes(chunk)
        node = self._redactor.redact_text(name)
        self._write("node_output", node=node, kind=chunk.kind, text=str(text), **_format_missing(missing_bytes))

    def _write(self, report: str, **values: Any) -> None:
        line = msgspec.json.encode({"schema": SCHEMA, "report": report, **values})
        self._stream.write(line.decode() + "\n")
        self._stream.flush()


def _to_dict(result: NodeResult) -> dict[str, Any]:
    cost = result.cost
    kind = cost.kind if cost else None
    return {**msgspec.to_builtins(result), "usage": result.usage, "cost_usd": result.cost_usd, "cost_kind": kind}


def _node_to_dict(node: NodeReport) -> dict[str, Any]:
    return {"node": node.name, "type": node.type, "result": _to_dict(replace(node.result, output="", error=""))}


def _format_missing(missing_bytes: int) -> dict[str, int]:
    return {"left_out_bytes": missing_bytes} if missing_bytes else {}
