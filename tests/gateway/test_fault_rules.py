"""A fault is read as written or refused with an example, and the calls that it hits follow from the seed alone."""

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspan.errors import BadInput
from inspan.gateway.faults import FAULT_EXAMPLES, Fault, Faults, describe_fault_grammar, parse_fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("call 3: 529", Fault(text="", action="status", status=529, calls=((3, 3),))),
        ("call 2-5: 500", Fault(text="", action="status", status=500, calls=((2, 5),))),
        ("calls 1,4: cut", Fault(text="", action="cut", calls=((1, 1), (4, 4)))),
        (
            "calls 1, 4-6: cut before-headers",
            Fault(text="", action="cut", calls=((1, 1), (4, 6)), place="before-headers"),
        ),
        ("every 3: 429 retry-after 5s", Fault(text="", action="status", status=429, every=3, retry_after_s=5.0)),
        ("every 1: 503 retry-after 0", Fault(text="", action="status", status=503, every=1, retry_after_s=0.0)),
        ("5%: cut mid-stream", Fault(text="", action="cut", percent=5.0)),
        ("0.5 %: garbage", Fault(text="", action="garbage", percent=0.5)),
        ("100%: slow 200ms", Fault(text="", action="slow", percent=100.0, wait_s=0.2)),
        ("call 1: stall", Fault(text="", action="stall", calls=((1, 1),))),
        ("call 1: stall 30s", Fault(text="", action="stall", calls=((1, 1),), wait_s=30.0)),
        ("call 1: stall mid-stream 1.5m", Fault(text="", action="stall", calls=((1, 1),), wait_s=90.0)),
        (
            "call 1: stall 1h before-headers",
            Fault(text="", action="stall", calls=((1, 1),), wait_s=3600.0, place="before-headers"),
        ),
        ("  CALL  3 :\t529 ", Fault(text="", action="status", status=529, calls=((3, 3),))),
    ],
)
def test_a_fault_is_read_as_written(text: str, fault: Fault) -> None:
    found = parse_fault(text)
    assert msgspec.structs.replace(found, text="") == fault
    assert parse_fault(found.text) == found


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "a colon"),
        ("call 3 529", "a colon"),
        (": 529", "does not say which calls"),
        ("sometimes: 529", "'sometimes' does not say which calls"),
        ("call: 529", "'' is neither"),
        ("call x: 529", "'x' is neither"),
        ("call 0: 529", "'0' holds no call"),
        ("call -1: 529", "'-1' is neither"),
        ("call 5-2: 529", "'5-2' holds no call"),
        ("calls 1,,2: 529", "'' is neither"),
        ("call 99999999999999999999: 529", "is neither"),
        ("every 0: 529", "'0' is not a number"),
        ("every third: 529", "'third' is not a number"),
        ("every 1-2: 529", "'1-2' is not a number"),
        ("0%: cut", "'0%' is not a share"),
        ("101%: cut", "'101%' is not a share"),
        ("-5%: cut", "'-5%' is not a share"),
        ("call 3:", "'' is nothing that can happen"),
        ("call 3: explode", "'explode' is nothing that can happen"),
        ("call 3: 200", "'200' is not a status of an error"),
        ("call 3: 600", "'600' is not a status of an error"),
        ("call 3: 4290000", "'4290000' is not a status of an error"),
        ("call 3: 529 later", "'later' cannot follow a status"),
        ("call 3: 529 retry-after", "'retry-after' cannot follow a status"),
        ("call 3: 529 retry-after soon", "'soon' is not a time"),
        ("call 3: cut here", "'here' is not a place to cut"),
        ("call 3: cut mid-stream mid-stream", "is not a place to cut"),
        ("call 3: stall 5 days", "is more than a time and a place"),
        ("call 3: stall 5d", "'5d' is not a time"),
        ("call 3: stall 0s", "'0s' is not a time at all"),
        ("call 3: stall mid-stream before-headers", "is more than a time and a place"),
        ("call 3: garbage 5s", "'5s' does"),
        ("call 3: slow", "slow takes one time"),
        ("call 3: slow 1s 2s", "slow takes one time"),
        ("call 3: slow 1e3", "'1e3' is not a time"),
    ],
)
def test_a_slip_is_named_with_an_example(text: str, named: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_fault(text)
    assert refused.value.message.startswith(f"faults {text!r}: ")
    assert named in str(refused.value)
    parse_fault(refused.value.next_step.removeprefix("Write for example ").strip("'."))


@given(st.one_of(st.text(), st.text(alphabet="cal evry0123456789%:-,. stutghbow", max_size=40)))
def test_any_other_text_is_refused_and_never_breaks(text: str) -> None:
    try:
        fault = parse_fault(text)
    except BadInput as error:
        assert error.next_step.startswith("Write for example ")
    else:
        assert parse_fault(fault.text) == fault


@pytest.mark.parametrize("example", [example for example, _ in FAULT_EXAMPLES])
def test_every_example_of_the_help_can_be_written(example: str) -> None:
    assert parse_fault(example).text == example
    assert example.partition(" ")[0].rstrip(":") in describe_fault_grammar()


@pytest.mark.parametrize(
    ("text", "hit"),
    [
        ("call 3: cut", [3]),
        ("calls 1,4-6: cut", [1, 4, 5, 6]),
        ("every 3: cut", [3, 6, 9]),
        ("every 1: cut", list(range(1, 11))),
        ("100%: cut", list(range(1, 11))),
    ],
)
def test_a_rule_hits_the_calls_that_it_names(text: str, hit: list[int]) -> None:
    faults = Faults([parse_fault(text)])
    assert [number for number in range(1, 11) if faults.fault_for(number)] == hit


def test_the_first_rule_that_applies_wins() -> None:
    faults = Faults([parse_fault(text) for text in ("call 2: 500", "every 2: 529", "100%: cut")])
    assert [getattr(faults.fault_for(number), "text", "") for number in range(1, 5)] == [
        "100%: cut",
        "call 2: 500",
        "100%: cut",
        "every 2: 529",
    ]


def test_without_rules_nothing_goes_wrong() -> None:
    assert [Faults(()).fault_for(number) for number in range(1, 100)] == [None] * 99


@given(seed=st.integers(), percent=st.floats(min_value=0.01, max_value=100), order=st.randoms(use_true_random=False))
def test_the_same_seed_decides_the_same_in_any_order(seed: int, percent: float, order: random.Random) -> None:
    rules = [parse_fault(f"{percent:.2f}%: cut"), parse_fault(f"{percent:.2f}%: 500")]
    faults = Faults(rules, seed=seed)
    decided = {number: faults.fault_for(number) for number in range(1, 50)}
    numbers = list(decided)
    order.shuffle(numbers)
    assert {number: Faults(rules, seed=seed).fault_for(number) for number in numbers} == decided


def test_what_a_seed_decides_never_changes() -> None:
    faults = Faults([parse_fault("20%: cut")], seed=7)
    assert [number for number in range(1, 41) if faults.fault_for(number)] == [2, 8, 9, 13, 15, 22, 23, 24, 26, 37]


def test_spelling_does_not_change_what_is_hit() -> None:
    one, other = (Faults([parse_fault(text)], seed=1) for text in ("20%: cut", " 20.0 % :  CUT mid-stream"))
    assert [bool(one.fault_for(number)) for number in range(200)] == [
        bool(other.fault_for(number)) for number in range(200)
    ]


@pytest.mark.parametrize("percent", [1, 5, 50, 95])
def test_a_share_of_the_calls_is_hit(percent: int) -> None:
    faults = Faults([parse_fault(f"{percent}%: cut")], seed=3)
    hit = sum(faults.fault_for(number) is not None for number in range(10_000))
    assert abs(hit - percent * 100) < 250


def test_two_rules_of_the_same_share_hit_different_calls() -> None:
    cut, slow = (Faults([parse_fault(f"50%: {what}")]) for what in ("cut", "slow 1s"))
    both = sum(bool(cut.fault_for(number) and slow.fault_for(number)) for number in range(2000))
    assert 400 < both < 600
