"""What a blueprint does next, by its log alone."""

from typing import Any

import msgspec
import pytest

from inspan.blueprints.decide import End, FailNode, SkipNode, StartNode, decide
from inspan.blueprints.files import parse_blueprint
from inspan.blueprints.graph import Graph, build_graph
from inspan.folds.blueprint import BlueprintFold
from inspan.protocol.events import Event, NodeEnded, NodeStarted, RunEnded, RunStarted
from inspan.protocol.wire import Record


def make(**nodes: str) -> Graph:
    text = "".join(f'[nodes.{name}]\nkind = "check"\nrun = "true"\n{more}\n' for name, more in nodes.items())
    return build_graph(parse_blueprint(text, source="x"), {})


def loop(**nodes: str) -> Graph:
    """Nodes of which `work` and `test` are run again until `test` passes, three times at most."""
    text = "".join(f'[nodes.{name}]\nkind = "check"\nrun = "true"\n{more}\n' for name, more in nodes.items())
    text += '[loops.l]\nnodes = ["work", "test"]\nuntil = "test"\n'
    return build_graph(parse_blueprint(text, source="x"), {})


def started(node: str, *, round: int = 1, run_id: str = "") -> NodeStarted:
    return NodeStarted(node=node, type="check", round=round, run_id=run_id)


def ended(node: str, status: Any = "success", *, round: int = 1, **more: Any) -> NodeEnded:
    return NodeEnded(node=node, type="check", status=status, round=round, **more)


BEGAN = RunStarted(
    schema=1,
    run_id="20260101-000000000-1",
    agent="x",
    mode="exec",
    project="p",
    task="t",
    cwd="/",
    profile="clean",
    sandbox="",
    containment="",
    inspan="0",
)


def step(graph: Graph, *events: Event, living: tuple[str, ...] = ()) -> list[Any]:
    fold = BlueprintFold(graph.blueprint)
    for number, event in enumerate((BEGAN, *events), 1):
        fold.add(Record(number, float(number), event))
    return decide(graph, fold.state, {}, living=living)


def test_all_that_need_nothing_begin_at_once() -> None:
    assert step(make(a="", b="", c='after = ["a"]')) == [StartNode(node="a"), StartNode(node="b")]


def test_a_node_begins_once_what_it_needs_has_ended() -> None:
    graph = make(a="", b="", c='after = ["a", "b"]')
    assert step(graph, ended("a"), living=("b",)) == []
    assert step(graph, ended("a"), ended("b")) == [StartNode(node="c")]


def test_it_ends_well_once_all_have() -> None:
    assert step(make(a=""), ended("a")) == [End(reason="done")]


def test_a_failure_ends_what_needs_it_and_nothing_else() -> None:
    graph = make(a="", b='after = ["a"]', c='after = ["b"]', d="")
    failed = ended("a", "failed", error="no")
    assert step(graph, failed, living=("d",)) == [SkipNode(node="b", why="It needs a, which did not succeed.")]
    skipped = ended("b", "skipped", error="It needs a, which did not succeed.")
    assert step(graph, failed, skipped, living=("d",)) == [SkipNode(node="c", why="It needs b, which did not succeed.")]
    last = ended("c", "skipped", error="It needs b, which did not succeed.")
    assert step(graph, failed, skipped, last, ended("d")) == [End(reason="node_failed", message="a failed: no")]


def test_a_failure_that_is_allowed_stops_nothing() -> None:
    graph = make(a="allow_failure = true", b='after = ["a"]')
    failed = ended("a", "failed", error="no")
    assert step(graph, failed) == [StartNode(node="b")]
    assert step(graph, failed, ended("b")) == [End(reason="done")]


@pytest.mark.parametrize(
    ("value", "wanted"), [("1", True), ("0", False), ("", False), ("false", False), ("yes", True), ("[]", False)]
)
def test_a_node_may_depend_on_a_value(value: str, wanted: bool) -> None:
    done = ended("a", outputs={"a": value})
    begun, left_out = StartNode(node="b"), SkipNode(node="b")
    assert step(make(a="", b='when = "a"'), done) == [begun if wanted else left_out]
    assert step(make(a="", b='unless = "a"'), done) == [left_out if wanted else begun]


def test_a_node_that_is_not_wanted_blocks_nothing() -> None:
    graph = make(a="", b='when = "a"', c='after = ["b"]')
    assert step(graph, ended("a", outputs={"a": "0"}), ended("b", "skipped")) == [StartNode(node="c")]


def test_a_value_that_has_no_such_part_fails_the_node() -> None:
    (failed,) = step(make(a="", b='when = "a.ok"'), ended("a", outputs={"a": '{"no": 1}'}))
    assert isinstance(failed, FailNode)
    assert "there is no 'ok' in it" in failed.why and "Its parts are: no." in failed.why


def test_a_loop_is_run_again_until_its_check_passes() -> None:
    graph = loop(work="", test='after = ["work"]', last='after = ["test"]')
    red = [ended("work"), ended("test", "failed", error="red")]
    assert step(graph, *red) == [StartNode(node="work", round=2)]
    green = [*red, ended("work", round=2), ended("test", round=2)]
    assert step(graph, *green) == [StartNode(node="last")]
    assert step(graph, *green, ended("last")) == [End(reason="done")]


def test_a_loop_has_so_many_rounds() -> None:
    graph = loop(work="", test='after = ["work"]', last='after = ["test"]')
    rounds = [
        event
        for round in (1, 2, 3)
        for event in (ended("work", round=round), ended("test", "failed", round=round, error="red"))
    ]
    assert step(graph, *rounds) == [SkipNode(node="last", why="It needs test, which did not succeed.")]
    last = ended("last", "skipped", error="It needs test, which did not succeed.")
    assert step(graph, *rounds, last) == [End(reason="node_failed", message="test failed: red")]


def test_what_had_begun_when_its_process_died_goes_on() -> None:
    graph = make(a="", b="")
    assert step(graph, started("a", run_id="20260101-000000000-2"), ended("b")) == [
        StartNode(node="a", run_id="20260101-000000000-2")
    ]


def test_whoever_goes_on_with_a_failed_one_tries_what_failed_again_and_nothing_else() -> None:
    graph = make(a="", b='after = ["a"]', c='after = ["b"]')
    failed = [ended("a"), ended("b", "failed", error="no"), ended("c", "skipped", error="It needs b.")]
    over = RunEnded(outcome="failed", reason="node_failed")
    assert step(graph, *failed, over, BEGAN) == [StartNode(node="b")]


SPENT = [
    event
    for round in (1, 2, 3)
    for event in (ended("work", round=round), ended("test", "failed", round=round, error="red"))
]
FAILED = RunEnded(outcome="failed", reason="node_failed")


def test_whoever_goes_on_with_a_loop_whose_rounds_are_spent_has_them_anew() -> None:
    graph = loop(work="", test='after = ["work"]', last='after = ["test"]')
    skipped = ended("last", "skipped", error="It needs test, which did not succeed.")
    over = [*SPENT, skipped, FAILED, BEGAN]
    assert step(graph, *over) == [StartNode(node="work", round=4)]
    second = [msgspec.structs.replace(event, round=event.round + 3) for event in SPENT]
    assert step(graph, *over, *second[:4]) == [StartNode(node="work", round=6)]
    assert step(graph, *over, *second) == [SkipNode(node="last", why="It needs test, which did not succeed.")]
    assert step(graph, *over, *second, skipped, FAILED, BEGAN) == [StartNode(node="work", round=7)]


def test_a_check_of_a_loop_that_was_stopped_is_run_again_in_its_round() -> None:
    graph = loop(work="", test='after = ["work"]')
    stopped = ended("test", "failed", round=2, error="It was stopped.", reason="stopped")
    over = RunEnded(outcome="cancelled", reason="stopped")
    assert step(graph, *SPENT[:3], stopped, over, BEGAN) == [StartNode(node="test", round=2)]


def test_a_loop_that_may_fail_has_no_more_rounds_than_it_had() -> None:
    graph = loop(work="", test='after = ["work"]\nallow_failure = true', last='after = ["test"]')
    red = ended("last", "failed", error="no")
    assert step(graph, *SPENT, red, FAILED, BEGAN) == [StartNode(node="last")]


def test_a_lost_one_forgets_no_failure() -> None:
    graph = make(a="", b='after = ["a"]')
    lost = RunEnded(outcome="lost", reason="supervisor_lost")
    assert step(graph, ended("a", "failed", error="no"), lost, BEGAN) == [
        SkipNode(node="b", why="It needs a, which did not succeed.")
    ]
