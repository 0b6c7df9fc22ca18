"""The reporter for a person at a terminal: on stderr, redacted, then cut, one idea per line, a summary at the end."""

import sys
from collections.abc import Iterable
from typing import TextIO

from inspan.contracts.reporter import NodeResult, RunReport

from .narration import Passage
from .redacted import Redacted, Secrets
from .screen import Screen
from .shapes import Line, shaped
from .summary import node_lines, run_lines
from .text import MAX_OUTPUT_BYTES, Cutter, left_out, part


class ConsoleReporter:
    """Shows a run on a stream, stderr unless another is given; raises what the stream raises.

    `secrets` is an environment, in which secrets are found by name and look, or a `SecretSet`; `None` is for what is
    redacted already. `lines` limits what is shown of an agent's tool output, `None` shows all. `alone` is for a run
    that is its only node: no names are shown, and the node's ending is the run's.
    """

    def __init__(
        self,
        secrets: Secrets = None,
        *,
        stream: TextIO | None = None,
        colour: bool | None = None,
        lines: int | None = 12,
        alone: bool = False,
    ) -> None:
        self._screen = Screen(stream or sys.stderr, colour=colour)
        self._redacted = Redacted(secrets)
        self._lines = lines
        self._alone = alone
        self._speaker: str | None = None
        self._running: dict[str, None] = {}
        self._pieces: dict[str, Cutter] = {}
        self._open_lines: dict[str, str] = {}

    def node_start(self, name: str, type: str, /) -> None:
        self._running[name] = None
        if not self._alone:
            self._screen.line(f"── {self._redacted.text(name)} ({self._redacted.text(type)})", "bold")
        self._speaker = name
        self._screen.flush()

    def node_output(self, name: str, chunk: str, /) -> None:
        self._running[name] = None
        for passage in self._redacted.chunk(name, chunk):
            self._show(name, passage)
        self._screen.flush()

    def node_complete(self, name: str, result: NodeResult, /) -> None:
        self._finish(name)
        if not self._alone:
            self._write(node_lines(self._redacted.result(result), name=self._redacted.text(name)))
        self._speaker = None
        self._screen.flush()

    def run_complete(self, report: RunReport, /) -> None:
        for name in list(self._running):
            self._finish(name)
        report = self._redacted.report(report)
        only = report.nodes[0] if self._alone and len(report.nodes) == 1 else None
        self._write(node_lines(only.result) if only else run_lines(report))
        self._screen.flush()

    def _show(self, name: str, passage: Passage) -> None:
        if passage.kind == "piece":
            self._say(name, self._pieces.setdefault(name, Cutter()).take(passage))
            return
        if passage.kind == "plain":
            kept, missing_bytes = part(passage)
            self._say(name, f"{kept}\n{left_out(missing_bytes)}\n" if missing_bytes else kept)
            return
        self._end_text(name)
        if passage.kind != "piece_end":
            self._take_turn(name)
            self._write(shaped(passage, lines=self._lines))

    def _say(self, name: str, text: str) -> None:
        """Writes at once while one node runs; of nodes side by side, whole lines."""
        text = self._open_lines.pop(name, "") + text
        if len(self._running) > 1:
            text, self._open_lines[name] = _whole_lines(text)
        if text:
            self._take_turn(name)
            self._screen.write(text)

    def _take_turn(self, name: str) -> None:
        if name != self._speaker and not self._alone:
            self._screen.line(f"── {self._redacted.text(name)}", "dim")
        self._speaker = name

    def _end_text(self, name: str) -> None:
        rest = self._open_lines.pop(name, "")
        if rest:
            self._take_turn(name)
            self._screen.write(rest)
        if name == self._speaker:
            self._screen.end_line()
        cutter = self._pieces.pop(name, None)
        if cutter and cutter.missing_bytes:
            self._screen.line(left_out(cutter.missing_bytes))

    def _finish(self, name: str) -> None:
        """Nothing more comes of this node: shows what was held back."""
        for passage in self._redacted.rest(name):
            self._show(name, passage)
        self._end_text(name)
        self._running.pop(name, None)

    def _write(self, lines: Iterable[Line]) -> None:
        for text, style in lines:
            self._screen.line(text, style)


def _whole_lines(text: str) -> tuple[str, str]:
    """The lines that are whole, and what is left; a line without an end is not waited for."""
    at = len(text) if len(text) > MAX_OUTPUT_BYTES else text.rfind("\n") + 1
    return text[:at], text[at:]
