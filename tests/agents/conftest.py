"""Prints, after a verbose run, which scenario held for which agent."""

from collections.abc import Callable

import pytest

from .styles import Style

_MARKS = {"passed": "pass", "failed": "FAIL", "error": "FAIL", "skipped": "skip"}


@pytest.fixture(autouse=True)
def cell(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> None:
    """Notes the row and the column of a test in the matrix."""
    name, _, parameters = request.node.name.partition("[")
    style = request.node.callspec.params.get("style") if parameters else None
    column = str(style) if isinstance(style, Style) else "any"
    case = parameters.rstrip("]").removesuffix(column).strip("-")
    row = name.removeprefix("test_").replace("_", " ")
    record_property("row", f"{row} ({case})" if case else row)
    record_property("column", column)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if terminalreporter.verbosity < 1:
        return
    cells: dict[str, dict[str, str]] = {}
    for outcome, mark in _MARKS.items():
        for report in terminalreporter.stats.get(outcome, []):
            _enter(cells, dict(report.user_properties), mark)
    if cells:
        terminalreporter.section("scenario x agent")
    for row, marks in sorted(cells.items()):
        told = ", ".join(f"{column} {mark}" for column, mark in sorted(marks.items()))
        terminalreporter.write_line(f"{row}: {told}")


def _enter(cells: dict[str, dict[str, str]], properties: dict[str, str], mark: str) -> None:
    if "row" in properties:
        cells.setdefault(properties["row"], {})[properties["column"]] = mark
