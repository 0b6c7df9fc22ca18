"""Providers that want less: holds that all runs with a key share, and rates that a user has set."""

import sqlite3
from pathlib import Path

import pytest

from inspan.protocol.limits import Rates
from inspan.stores.ledger_traffic import Hold, Traffic, Wait

from .accounts import NOON, Accounts

FREE = Rates()


def _traffic(accounts: Accounts, *, provider: str = "example.org", key: str = "secret-key-1") -> Traffic:
    return Traffic(accounts.ledger, provider=provider, key=key)


def test_a_hold_is_known_to_everybody_with_the_same_key_until_it_lifts(accounts: Accounts) -> None:
    assert _traffic(accounts).told_to_wait(NOON + 20) == Hold(NOON + 20, True)
    wait = _traffic(accounts).enter("r2", 1, rates=FREE, tokens=0)
    assert wait == Wait(20.0, Hold(NOON + 20, True), "the provider's own limit")
    assert _traffic(accounts, key="other").enter("r3", 1, rates=FREE, tokens=0) is None
    assert _traffic(accounts, provider="other").enter("r3", 1, rates=FREE, tokens=0) is None
    accounts.clock.now += 20
    assert _traffic(accounts).enter("r2", 1, rates=FREE, tokens=0) is None


def test_a_hold_is_not_made_shorter_by_a_call_that_was_told_less(accounts: Accounts) -> None:
    traffic = _traffic(accounts)
    traffic.told_to_wait(NOON + 20)
    assert traffic.told_to_wait(NOON + 5) == Hold(NOON + 20, True)
    assert traffic.told_to_wait(NOON + 60) == Hold(NOON + 60, True)


def test_what_the_provider_says_takes_the_place_of_a_guess(accounts: Accounts) -> None:
    traffic = _traffic(accounts)
    traffic.told_to_wait(None)
    assert traffic.told_to_wait(NOON + 1) == Hold(NOON + 1, True)


def test_without_a_time_the_wait_is_doubled_each_time_up_to_half_a_minute(accounts: Accounts) -> None:
    traffic, waits = _traffic(accounts), list[float]()
    for _ in range(6):
        hold = traffic.told_to_wait(None)
        waits.append(hold.until - accounts.clock())
        accounts.clock.now = hold.until
    assert waits == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_calls_that_were_under_way_do_not_make_a_guess_longer(accounts: Accounts) -> None:
    traffic = _traffic(accounts)
    assert [traffic.told_to_wait(None) for _ in range(3)] == [Hold(NOON + 2, False)] * 3


@pytest.mark.parametrize("quiet", ["an answer", "a minute"])
def test_guessing_begins_anew_after_an_answer_or_a_quiet_minute(accounts: Accounts, quiet: str) -> None:
    traffic = _traffic(accounts)
    traffic.told_to_wait(None)
    accounts.clock.now += 3 if quiet == "an answer" else 63
    if quiet == "an answer":
        traffic.answered()
    assert traffic.told_to_wait(None) == Hold(accounts.clock() + 2, False)


def test_an_answer_does_not_lift_a_hold_that_is_on(accounts: Accounts) -> None:
    traffic = _traffic(accounts)
    traffic.told_to_wait(NOON + 20)
    traffic.answered()
    assert traffic.hold() == Hold(NOON + 20, True)


def test_the_key_itself_is_nowhere_in_the_ledger(accounts: Accounts) -> None:
    _traffic(accounts).told_to_wait(NOON + 20)
    kept = sqlite3.connect(Path(accounts.state) / "ledger.db")
    found = kept.execute("SELECT key FROM hold").fetchall()
    kept.close()
    assert len(found) == 1
    assert "secret" not in found[0][0]
    assert all(b"secret-key-1" not in path.read_bytes() for path in Path(accounts.state).iterdir())


def test_requests_are_spread_over_the_minute(accounts: Accounts) -> None:
    traffic, rates = _traffic(accounts), Rates(requests_per_minute=6)
    accounts.open("r1")
    assert [traffic.enter("r1", call, rates=rates, tokens=0) for call in range(6)] == [None] * 6
    assert traffic.enter("r1", 7, rates=rates, tokens=0) == Wait(10.0, None, "6 requests per minute")
    accounts.clock.now += 10
    assert traffic.enter("r1", 7, rates=rates, tokens=0) is None
    assert traffic.enter("r1", 8, rates=rates, tokens=0) is not None


def test_tokens_are_corrected_by_what_a_call_really_used(accounts: Accounts) -> None:
    traffic, rates = _traffic(accounts), Rates(tokens_per_minute=6000)
    accounts.open("r1")
    assert traffic.enter("r1", 1, rates=rates, tokens=5000) is None
    traffic.leave("r1", 1, rates=rates, guessed=5000, used=1000)
    assert traffic.enter("r1", 2, rates=rates, tokens=5000) is None
    traffic.leave("r1", 2, rates=rates, guessed=5000, used=11_000)
    assert traffic.enter("r1", 3, rates=rates, tokens=1000) == Wait(70.0, None, "6000 tokens per minute")


def test_a_call_that_never_entered_gives_nothing_back(accounts: Accounts) -> None:
    traffic, rates = _traffic(accounts), Rates(tokens_per_minute=6000)
    accounts.open("r1")
    assert traffic.enter("r1", 1, rates=rates, tokens=6000) is None
    traffic.leave("r1", 2, rates=rates, guessed=6000, used=0)
    assert traffic.enter("r1", 2, rates=rates, tokens=6000) == Wait(60.0, None, "6000 tokens per minute")


def test_a_call_that_is_larger_than_a_minute_is_let_through_alone(accounts: Accounts) -> None:
    traffic, rates = _traffic(accounts), Rates(tokens_per_minute=600)
    accounts.open("r1")
    assert traffic.enter("r1", 1, rates=rates, tokens=6000) is None
    assert traffic.enter("r1", 2, rates=rates, tokens=6000) == Wait(600.0, None, "600 tokens per minute")


def test_so_many_calls_at_a_time_and_no_more_by_all_runs_together(accounts: Accounts) -> None:
    traffic, rates = _traffic(accounts), Rates(concurrent_calls=2)
    for run_id in ("r1", "r2", "r3"):
        accounts.open(run_id)
    assert [traffic.enter(run_id, 1, rates=rates, tokens=0) for run_id in ("r1", "r2")] == [None, None]
    wait = traffic.enter("r3", 1, rates=rates, tokens=0)
    assert wait and wait.why == "2 calls at a time"
    traffic.leave("r1", 1, rates=rates, guessed=0, used=None)
    assert traffic.enter("r3", 1, rates=rates, tokens=0) is None


@pytest.mark.parametrize("end", ["death", "end"])
def test_the_places_of_a_run_that_is_over_are_free(accounts: Accounts, end: str) -> None:
    traffic, rates = _traffic(accounts), Rates(concurrent_calls=1)
    accounts.open("r1")
    accounts.open("r2")
    traffic.enter("r1", 1, rates=rates, tokens=0)
    if end == "death":
        accounts.die("r1")
    else:
        accounts.ledger.end_run("r1", 1.0)
    assert traffic.enter("r2", 1, rates=rates, tokens=0) is None


def test_nothing_is_taken_while_a_hold_is_on(accounts: Accounts) -> None:
    traffic, rates = _traffic(accounts), Rates(requests_per_minute=1)
    accounts.open("r1")
    traffic.told_to_wait(NOON + 5)
    assert traffic.enter("r1", 1, rates=rates, tokens=0) is not None
    accounts.clock.now += 5
    assert traffic.enter("r1", 1, rates=rates, tokens=0) is None


def test_a_clock_that_goes_back_does_not_empty_a_bucket(accounts: Accounts) -> None:
    traffic, rates = _traffic(accounts), Rates(requests_per_minute=2)
    accounts.open("r1")
    traffic.enter("r1", 1, rates=rates, tokens=0)
    accounts.clock.now -= 3600
    assert traffic.enter("r1", 2, rates=rates, tokens=0) is None
