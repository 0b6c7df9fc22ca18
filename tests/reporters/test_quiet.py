"""The quiet reporter: what failed, and the answer."""

import io

import pytest

from inspan.contracts.reporter import NodeResult
from inspan.reporters.quiet import QuietReporter
from inspan.reporters.text import MAX_OUTPUT_BYTES

from .results import BROKEN, BUILT, FIXED, LIMITED, SKIPPED, node, report

SECRET = "Qz7-4kP9vX2mN8bT5wR1"


def test_progress_is_not_told_and_the_answer_is_the_last_output(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = QuietReporter()
    reporter.node_start("build", "command")
    reporter.node_output("build", "words\n")
    reporter.node_complete("build", BUILT)
    reporter.node_complete("fix", FIXED)
    reporter.node_complete("deploy", SKIPPED)
    reporter.run_complete(report(node("build", BUILT), node("fix", FIXED), node("deploy", SKIPPED)))
    assert capsys.readouterr() == ("It is fixed.\n", "")


def test_a_failure_is_told_when_it_happens_and_the_run_is_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = QuietReporter()
    reporter.node_complete("build", BROKEN)
    assert capsys.readouterr() == ("", "✘ build: failed in 0.5s\n  exit code 2\n")
    reporter.run_complete(report(node("build", BROKEN), status="failed"))
    assert capsys.readouterr().err.splitlines()[:2] == ["✘ run: failed in 1m05s", "  ✘ build  command  failed in 0.5s"]


def test_a_failed_node_of_a_run_that_succeeded_is_told_alone(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = QuietReporter()
    reporter.node_complete("build", BROKEN)
    reporter.run_complete(report(node("build", BROKEN), node("again", BUILT)))
    assert capsys.readouterr() == ("built\n", "✘ build: failed in 0.5s\n  exit code 2\n")


def test_a_run_that_is_its_only_node_is_told_once_and_without_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = QuietReporter(alone=True)
    reporter.node_complete("fix", LIMITED)
    reporter.run_complete(report(node("fix", LIMITED), status="failed"))
    assert capsys.readouterr().err.splitlines() == [
        "✘ limited (rate_limit) in 2.0s",
        "  too many requests",
        "  files changed: none reported",
        "  tokens: 10 in, 1 out · cost: unknown",
        "  → Wait.",
    ]


def test_the_answer_is_redacted_and_whole() -> None:
    answers = io.StringIO()
    long = NodeResult(status="success", output="x" * MAX_OUTPUT_BYTES + SECRET)
    QuietReporter({"MY_TOKEN": SECRET}, answers=answers).run_complete(report(node("fix", long)))
    assert answers.getvalue() == "x" * MAX_OUTPUT_BYTES + "[REDACTED:MY_TOKEN]\n"


def test_the_answer_can_be_left_to_the_caller(capsys: pytest.CaptureFixture[str]) -> None:
    QuietReporter(tells_answer=False).run_complete(report(node("fix", FIXED)))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("terminal", "shown"), [(True, "␛[2J\n"), (False, "\x1b[2J\n")])
def test_the_answer_is_made_harmless_for_a_terminal_and_left_alone_for_a_file(terminal: bool, shown: str) -> None:
    class Answers(io.StringIO):
        def isatty(self) -> bool:
            return terminal

    answers = Answers()
    spell = NodeResult(status="success", output="\x1b[2J")
    QuietReporter(answers=answers).run_complete(report(node("fix", spell)))
    assert answers.getvalue() == shown
