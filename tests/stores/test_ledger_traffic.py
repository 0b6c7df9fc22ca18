"""Providers that want less: holds that all runs with a key share, and rates that a user has set."""

import sqlite3
from pathlib import Path

import pytest

from inspan.protocol.limits import Rates
from inspan.stores.ledger_rates import Hold, RateLedger, Wait

from .accounts import NOON, Accounts

FREE = Rates()


def _traffic(accounts: Accounts, *, host: str = "api.example.org", key: str = "secret-key-1") -> RateLedger:
    return RateLedger(accounts.ledger, provider="example", host=host, key=key)


def test_a_hold_is_known_to_everybody_with_the_same_key_until_it_lifts(accounts: Accounts) -> None:
    assert _traffic(accounts).record_hold(NOON + 20, model="a") == Hold(NOON + 20, True, "a")
    wait = _traffic(accounts).acquire("r2", 1, model="a", rates=FREE, tokens=0)
    assert wait == Wait(20.0, Hold(NOON + 20, True, "a"), "the provider's own limit")
    assert _traffic(accounts, key="other").acquire("r3", 1, model="a", rates=FREE, tokens=0) is None
    assert _traffic(accounts, host="other").acquire("r3", 1, model="a", rates=FREE, tokens=0) is None
    assert _traffic(accounts).acquire("r3", 1, model="b", rates=FREE, tokens=0) is None
    accounts.clock.now += 20
    assert _traffic(accounts).acquire("r2", 1, model="a", rates=FREE, tokens=0) is None


def test_models_are_held_each_for_itself(accounts: Accounts) -> None:
    traffic = _traffic(accounts)
    traffic.record_hold(NOON + 3600, model="a")
    traffic.record_hold(NOON + 20, model="b")
    assert [traffic.find_hold(model) for model in "abc"] == [
        Hold(NOON + 3600, True, "a"),
        Hold(NOON + 20, True, "b"),
        None,
    ]
    accounts.clock.now += 20
    traffic.clear_hold("b")
    assert [traffic.find_hold(model) for model in "ab"] == [Hold(NOON + 3600, True, "a"), None]


def test_a_limit_of_the_account_holds_every_model_of_that_key_and_host(accounts: Accounts) -> None:
    traffic = _traffic(accounts)
    traffic.record_hold(NOON + 3600, model="a")
    traffic.record_hold(NOON + 60, model="")
    # The one that lasts longest stands.
    assert [traffic.find_hold(model) for model in "ab"] == [Hold(NOON + 3600, True, "a"), Hold(NOON + 60, True, "")]
    assert _traffic(accounts, host="other").find_hold("a") is None
    assert _traffic(accounts, key="other").find_hold("a") is None


def test_a_hold_is_not_made_shorter_by_a_call_that_was_told_less(accounts: Accounts) -> None:
    traffic = _traffic(accounts)
    traffic.record_hold(NOON + 20, model="a")
    assert traffic.record_hold(NOON + 5, model="a") == Hold(NOON + 20, True, "a")
    assert traffic.record_hold(NOON + 60, model="a") == Hold(NOON + 60, True, "a")


def test_what_the_provider_says_takes_the_place_of_a_guess(accounts: Accounts) -> None:
    traffic = _traffic(accounts)
    traffic.record_hold(None, model="a")
    assert traffic.record_hold(NOON + 1, model="a") == Hold(NOON + 1, True, "a")


def test_without_a_time_the_wait_is_doubled_each_time_up_to_half_a_minute(accounts: Accounts) -> None:
    traffic, waits = _traffic(accounts), list[float]()
    for _ in range(6):
        hold = traffic.record_hold(None, model="a")
        waits.append(hold.until - accounts.clock())
        accounts.clock.now = hold.until
    assert waits == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_calls_that_were_under_way_do_not_make_a_guess_longer(accounts: Accounts) -> None:
    traffic = _traffic(accounts)
    assert [traffic.record_hold(None, model="a") for _ in range(3)] == [Hold(NOON + 2, False, "a")] * 3


@pytest.mark.parametrize("quiet", ["an answer", "a minute"])
def test_guessing_begins_anew_after_an_answer_or_a_quiet_minute(accounts: Accounts, quiet: str) -> None:
    traffic = _traffic(accounts)
    traffic.record_hold(None, model="a")
    accounts.clock.now += 3 if quiet == "an answer" else 63
    if quiet == "an answer":
        traffic.clear_hold("a")
    assert traffic.record_hold(None, model="a") == Hold(accounts.clock() + 2, False, "a")


def test_an_answer_does_not_lift_a_hold_that_is_on(accounts: Accounts) -> None:
    traffic = _traffic(accounts)
    traffic.record_hold(NOON + 20, model="a")
    traffic.clear_hold("a")
    assert traffic.find_hold("a") == Hold(NOON + 20, True, "a")


def test_the_key_itself_is_nowhere_in_the_ledger(accounts: Accounts) -> None:
    _traffic(accounts).record_hold(NOON + 20, model="a")
    kept = sqlite3.connect(Path(accounts.state) / "ledger.db")
    found = kept.execute("SELECT key FROM hold").fetchall()
    kept.close()
    assert len(found) == 1
    assert "secret" not in found[0][0]
    assert all(b"secret-key-1" not in path.read_bytes() for path in Path(accounts.state).iterdir())


def test_requests_are_spread_over_the_minute(accounts: Accounts) -> None:
    traffic, rates = _traffic(accounts), Rates(requests_per_minute=6)
    accounts.open("r1")
    assert [traffic.acquire("r1", call, model="a", rates=rates, tokens=0) for call in range(6)] == [None] * 6
    assert traffic.acquire("r1", 7, model="a", rates=rates, tokens=0) == Wait(10.0, None, "6 requests per minute")
    accounts.clock.now += 10
    assert traffic.acquire("r1", 7, model="a", rates=rates, tokens=0) is None
    assert traffic.acquire("r1", 8, model="a", rates=rates, tokens=0) is not None


def test_tokens_are_corrected_by_what_a_call_really_used(accounts: Accounts) -> None:
    traffic, rates = _traffic(accounts), Rates(tokens_per_minute=6000)
    accounts.open("r1")
    assert traffic.acquire("r1", 1, model="a", rates=rates, tokens=5000) is None
    traffic.release("r1", 1, rates=rates, guessed=5000, used=1000)
    assert traffic.acquire("r1", 2, model="a", rates=rates, tokens=5000) is None
    traffic.release("r1", 2, rates=rates, guessed=5000, used=11_000)
    assert traffic.acquire("r1", 3, model="a", rates=rates, tokens=1000) == Wait(70.0, None, "6000 tokens per minute")


def test_a_call_that_never_entered_gives_nothing_back(accounts: Accounts) -> None:
    traffic, rates = _traffic(accounts), Rates(tokens_per_minute=6000)
    accounts.open("r1")
    assert traffic.acquire("r1", 1, model="a", rates=rates, tokens=6000) is None
    traffic.release("r1", 2, rates=rates, guessed=6000, used=0)
    assert traffic.acquire("r1", 2, model="a", rates=rates, tokens=6000) == Wait(60.0, None, "6000 tokens per minute")


def test_a_call_that_is_larger_than_a_minute_is_let_through_alone(accounts: Accounts) -> None:
    traffic, rates = _traffic(accounts), Rates(tokens_per_minute=600)
    accounts.open("r1")
    assert traffic.acquire("r1", 1, model="a", rates=rates, tokens=6000) is None
    assert traffic.acquire("r1", 2, model="a", rates=rates, tokens=6000) == Wait(600.0, None, "600 tokens per minute")


def test_so_many_calls_at_a_time_and_no_more_by_all_runs_together(accounts: Accounts) -> None:
    traffic, rates = _traffic(accounts), Rates(concurrent_calls=2)
    for run_id in ("r1", "r2", "r3"):
        accounts.open(run_id)
    assert [traffic.acquire(run_id, 1, model="a", rates=rates, tokens=0) for run_id in ("r1", "r2")] == [None, None]
    wait = traffic.acquire("r3", 1, model="a", rates=rates, tokens=0)
    assert wait and wait.why == "2 calls at a time"
    traffic.release("r1", 1, rates=rates, guessed=0, used=None)
    assert traffic.acquire("r3", 1, model="a", rates=rates, tokens=0) is None


@pytest.mark.parametrize("end", ["death", "end"])
def test_the_places_of_a_run_that_is_over_are_free(accounts: Accounts, end: str) -> None:
    traffic, rates = _traffic(accounts), Rates(concurrent_calls=1)
    accounts.open("r1")
    accounts.open("r2")
    traffic.acquire("r1", 1, model="a", rates=rates, tokens=0)
    if end == "death":
        accounts.kill_run("r1")
    else:
        accounts.ledger.end_run("r1", 1.0)
    assert traffic.acquire("r2", 1, model="a", rates=rates, tokens=0) is None


def test_nothing_is_taken_while_a_hold_is_on(accounts: Accounts) -> None:
    traffic, rates = _traffic(accounts), Rates(requests_per_minute=1)
    accounts.open("r1")
    traffic.record_hold(NOON + 5, model="a")
    assert traffic.acquire("r1", 1, model="a", rates=rates, tokens=0) is not None
    accounts.clock.now += 5
    assert traffic.acquire("r1", 1, model="a", rates=rates, tokens=0) is None


def test_a_clock_that_goes_back_does_not_empty_a_bucket(accounts: Accounts) -> None:
    traffic, rates = _traffic(accounts), Rates(requests_per_minute=2)
    accounts.open("r1")
    traffic.acquire("r1", 1, model="a", rates=rates, tokens=0)
    accounts.clock.now -= 3600
    assert traffic.acquire("r1", 2, model="a", rates=rates, tokens=0) is None
