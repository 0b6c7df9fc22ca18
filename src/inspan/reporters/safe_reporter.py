"""A reporter that cannot break the run it reports: put it once around any that is not your own."""

import sys
from collections.abc import Callable

from inspan.contracts.reporter import NodeResult, Reporter, RunReport


class SafeReporter:
    """Passes every call on until one raises; `on_fault` then hears of it once, and the reporter is not called again.

    The sentence names the error's type and place but not its words, which may quote what the agent said. Without
    `on_fault` it goes to stderr.
    """

    def __init__(self, reporter: Reporter, *, on_fault: Callable[[str], None] | None = None) -> None:
        self._reporter: Reporter | None = reporter
        self._on_fault = on_fault or _print_fault

    def node_start(self, name: str, type: str, /) -> None:
        self._call(lambda reporter: reporter.node_start(name, type))

    def node_output(self, name: str, chunk: str, /) -> None:
        self._call(lambda reporter: reporter.node_output(name, chunk))

    def node_complete(self, name: str, result: NodeResult, /) -> None:
        self._call(lambda reporter: reporter.node_complete(name, result))

    def run_complete(self, report: RunReport, /) -> None:
        self._call(lambda reporter: reporter.run_complete(report))

    def _call(self, call: Callable[[Reporter], None]) -> None:
        if self._reporter is None:
            return
        try:
            call(self._reporter)
        except Exception as error:  # A stranger's code may raise anything.
            self._reporter = None
            self._on_fault(
                f"the reporter raised {type(error).__name__}{_format_location(error)} and is not called again"
            )


def _format_location(error: Exception) -> str:
    """Where the deepest frame of the traceback stands."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    return f" in {trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno}," if trace else ""


def _print_fault(message: str) -> None:
    try:
        sys.stderr.write(f"inspan: {message}\n")
    except (OSError, ValueError, AttributeError):
        pass  # There is no stderr, or nobody reads it any more.
