"""The reporter for a person at a terminal: on stderr, redacted, then cut, one idea per line, a summary at the end."""

import os
import sys
from collections.abc import Iterable, Mapping
from typing import TextIO

from inspan.contracts.reporter import NodeResult, RunReport

from .narration import TextChunk
from .redactor import ReportRedactor, Secrets
from .screen import Screen
from .styles import Line, format_chunk
from .summary import format_node, format_run
from .text import CUT, MAX_OUTPUT_BYTES, Cut, Truncator, truncate, truncation_note


def create_console_reporter(env: Mapping[str, str] | None = None) -> "ConsoleReporter":
    """Shows runs on stderr, without the secrets that it finds in `env`; without one, in this program's environment."""
    return ConsoleReporter(os.environ if env is None else env)


class ConsoleReporter:
    """Shows a run on a stream, stderr unless another is given; raises what the stream raises.

    `secrets` is an environment, in which secrets are found by name and look, or a `SecretSet`; `None` is for what is
    redacted already. `lines` limits what is shown of an agent's tool output, `None` shows all, and `cut`
    of any text. `alone` is for a run that is its only node: no names are shown, and the node's ending is the run's.
    """

    def __init__(
        self,
        secrets: Secrets = None,
        *,
        stream: TextIO | None = None,
        colour: bool | None = None,
        lines: int | None = 12,
        alone: bool = False,
        cut: Cut = CUT,
    ) -> None:
        self._screen = Screen(stream or sys.stderr, colour=colour)
        self._redactor = ReportRedactor(secrets)
        self._lines = lines
        self._alone = alone
        self._cut = cut
        self._current_node: str | None = None
        self._running: dict[str, None] = {}
        self._pieces: dict[str, Truncator] = {}
        self._open_lines: dict[str, str] = {}

    def node_start(self, name: str, type: str, /) -> None:
        self._running[name] = None
        if not self._alone:
            self._screen.write_line(
                f"── {self._redactor.redact_text(name)} ({self._redactor.redact_text(type)})", "bold"
            )
        self._current_node = name
        self._screen.flush()

    def node_output(self, name: str, chunk: str, /) -> None:
        self._running[name] = None
        for redacted in self._redactor.redact_chunk(name, chunk):
            self._show(name, redacted)
        self._screen.flush()

    def node_complete(self, name: str, result: NodeResult, /) -> None:
        self._finish(name)
        if not self._alone:
            self._sum_up(format_node(self._redactor.redact_result(result), name=self._redactor.redact_text(name)))
        self._current_node = None
        self._screen.flush()

    def run_complete(self, report: RunReport, /) -> None:
        for name in list(self._running):
            self._finish(name)
        report = self._redactor.redact_report(report)
        only = report.nodes[0] if self._alone and len(report.nodes) == 1 else None
        self._sum_up(format_node(only.result) if only else format_run(report))
        self._screen.flush()

    def _show(self, name: str, chunk: TextChunk) -> None:
        if chunk.kind == "piece":
            self._write_text(name, self._pieces.setdefault(name, Truncator(self._cut)).truncate(chunk))
            return
        if chunk.kind == "plain":
            shown = truncate(chunk, self._cut)
            self._write_text(name, shown if shown == chunk else f"{shown}\n")
            return
        self._end_text(name)
        if chunk.kind != "piece_end":
            self._switch_node(name)
            self._write(format_chunk(chunk, lines=self._lines, cut=self._cut))

    def _write_text(self, name: str, text: str) -> None:
        """Writes at once while one node runs; of nodes side by side, whole lines."""
        text = self._open_lines.pop(name, "") + text
        if len(self._running) > 1:
            text, self._open_lines[name] = _split_complete_lines(text)
        if text:
            self._switch_node(name)
            self._screen.write(text)

    def _switch_node(self, name: str) -> None:
        if name != self._current_node and not self._alone:
            self._screen.write_line(f"── {self._redactor.redact_text(name)}", "dim")
        self._current_node = name

    def _end_text(self, name: str) -> None:
        rest = self._open_lines.pop(name, "")
        if rest:
            self._switch_node(name)
            self._screen.write(rest)
        if name == self._current_node:
            self._screen.end_line()
        cutter = self._pieces.pop(name, None)
        if cutter and cutter.missing_bytes:
            self._screen.write_line(truncation_note(cutter.missing_bytes, self._cut))

    def _finish(self, name: str) -> None:
        """Nothing more comes of this node: shows what was held back."""
        for chunk in self._redactor.flush(name):
            self._show(name, chunk)
        self._end_text(name)
        self._running.pop(name, None)

    def _sum_up(self, lines: Iterable[Line]) -> None:
        for text, style in lines:
            self._screen.write_words(text, style)

    def _write(self, lines: Iterable[Line]) -> None:
        for text, style in lines:
            self._screen.write_line(text, style)


def _split_complete_lines(text: str) -> tuple[str, str]:
    """The lines that are whole, and what is left; a line without an end is not waited for."""
    at = len(text) if len(text) > MAX_OUTPUT_BYTES else text.rfind("\n") + 1
    return text[:at], text[at:]
