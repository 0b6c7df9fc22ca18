"""The reporter for scripts and for people who want no progress: what failed, and the answer."""

import sys
from collections.abc import Iterable
from typing import TextIO

from inspan.contracts.reporter import NodeResult, RunReport

from .redactor import ReportRedactor, Secrets
from .screen import Screen
from .styles import Line
from .summary import format_node, format_run
from .text import escape_controls


class QuietReporter:
    """Shows failures on a stream (stderr), and at the end the answer on another (stdout): the output of the last node
    that has one, redacted and whole; `tells_answer=False` leaves that to the caller. Raises what the streams raise.
    `secrets` and `alone` are those of the console.
    """

    def __init__(
        self,
        secrets: Secrets = None,
        *,
        stream: TextIO | None = None,
        answers: TextIO | None = None,
        colour: bool | None = None,
        alone: bool = False,
        tells_answer: bool = True,
    ) -> None:
        self._screen = Screen(stream or sys.stderr, colour=colour)
        self._answers = answers or sys.stdout
        self._redactor = ReportRedactor(secrets)
        self._alone = alone
        self._tells_answer = tells_answer

    def node_start(self, name: str, type: str, /) -> None:
        """Says nothing."""

    def node_output(self, name: str, chunk: str, /) -> None:
        """Says nothing."""

    def node_complete(self, name: str, result: NodeResult, /) -> None:
        if result.status == "failed":
            label = "" if self._alone else self._redactor.redact_text(name)
            self._write(format_node(self._redactor.redact_result(result), name=label))

    def run_complete(self, report: RunReport, /) -> None:
        report = self._redactor.redact_report(report)
        told = any(node.result.status == "failed" for node in report.nodes)
        if report.status == "failed" and not (self._alone and told):
            self._write(format_run(report))
        answer = next((node.result.output for node in reversed(report.nodes) if node.result.output), "")
        if answer and self._tells_answer:
            self._answers.write((escape_controls(answer) if self._answers.isatty() else answer) + "\n")
            self._answers.flush()

    def _write(self, lines: Iterable[Line]) -> None:
        for text, style in lines:
            self._screen.write_words(text, style)
        self._screen.flush()
