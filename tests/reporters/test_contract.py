"""A report of several nodes: sums over those that told something, and never a 0 that nobody reported."""

from inspan.contracts.reporter import Reporter
from inspan.protocol.usage import Usage
from inspan.reporters.console import ConsoleReporter
from inspan.reporters.json_lines import JsonLinesReporter
from inspan.reporters.quiet import QuietReporter
from inspan.reporters.safe_reporter import SafeReporter

from .results import BUILT, FIXED, LIMITED, SKIPPED, node, report

# What a type checker holds us to: each of them is a reporter.
OURS: tuple[type[Reporter], ...] = (ConsoleReporter, JsonLinesReporter, QuietReporter, SafeReporter)


def test_tokens_and_cost_are_sums_over_the_nodes_that_reported_them() -> None:
    run = report(node("fix", FIXED), node("build", BUILT), node("again", FIXED))
    assert run.usage == Usage(input=400, output=28, cache_read=80, cache_write=40, reasoning=12)
    assert run.cost_usd == 0.025
    assert run.unpriced == ()


def test_what_nobody_reported_is_none() -> None:
    run = report(node("build", BUILT), node("deploy", SKIPPED))
    assert (run.usage, run.cost_usd, run.unpriced) == (None, None, ())
    assert (report().usage, report().cost_usd) == (None, None)


def test_a_node_that_used_tokens_and_told_no_cost_is_named() -> None:
    run = report(node("fix", FIXED), node("check", LIMITED), node("build", BUILT))
    assert (run.cost_usd, run.unpriced) == (0.0125, ("check",))
