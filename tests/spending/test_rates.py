"""One run's refusal holds the others back, and users' own rates hold for all runs together."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from inspan.gateway.control import Refusal
from inspan.protocol.limits import Rates
from inspan.protocol.usage import Usage
from inspan.spending.rates import RateControl, RateLimitNotice
from inspan.stores.ledger import Ledger

from .spending_run import IMPATIENT_S, MODEL, PATIENT_S, SpendingRun, call, cancel_while_writing, request

WAIT_S = 60.0
LONG_S = 4000.0
# A hold that is waited for: long enough for whoever is to meet it on a machine that is busy.
HOLD_S = 6.0
FREE = Rates()


def _play(root: Path, act: Callable[[SpendingRun, SpendingRun], Awaitable[None]], *, wait_s: float = PATIENT_S) -> None:
    """Runs a test's part on a loop, with two runs that share a ledger."""

    async def played() -> None:
        scenes = [SpendingRun(root, name, wait_s=wait_s) for name in ("r1", "r2")]
        for scene in scenes:
            await scene.open()
        try:
            await act(*scenes)
        finally:
            for scene in scenes:
                await scene.close()

    asyncio.run(played())


async def _meets_429(scene: SpendingRun, control: RateControl, *, number: int = 1, **changes: object) -> None:
    assert await control.admit(request(key="its own"), number) is None
    told: dict[str, object] = {"status": 429, "usage": None, "message": "slow down", **changes}
    control.on_ended(call(number, **told))
    await scene.wait_settled()


def test_a_429_with_a_time_holds_back_another_run_that_asks_the_same_until_then(tmp_path: Path) -> None:
    async def act(first: SpendingRun, second: SpendingRun) -> None:
        until = time.time() + HOLD_S
        await _meets_429(first, first.rates(FREE), resets_at=until)
        assert await asyncio.wait_for(second.rates(FREE).admit(request(), 1), WAIT_S) is None
        assert time.time() >= until
        assert first.limited == [RateLimitNotice(message="slow down", until=until, held=False)]
        moment = f"{datetime.fromtimestamp(until, UTC):%Y-%m-%d %H:%M:%S} UTC"
        message = f"api.example.org has refused a call to {MODEL} with the same key, and takes none until {moment}"
        assert second.limited == [RateLimitNotice(message=message, until=until, held=True)]

    _play(tmp_path, act)


@pytest.mark.parametrize("other", [{"key": "key-2"}, {"host": "other.example.org"}])
def test_another_key_or_host_is_not_held_back(tmp_path: Path, other: dict[str, str]) -> None:
    async def act(first: SpendingRun, second: SpendingRun) -> None:
        await _meets_429(first, first.rates(FREE), resets_at=time.time() + LONG_S)
        assert await second.rates(FREE, **other).admit(request(), 1) is None
        assert second.limited == []

    _play(tmp_path, act)


def test_another_model_goes_through_until_it_is_told_to_wait_itself(tmp_path: Path) -> None:
    async def act(first: SpendingRun, second: SpendingRun) -> None:
        await _meets_429(first, first.rates(FREE), resets_at=time.time() + LONG_S)
        control, until = second.rates(FREE), time.time() + LONG_S / 2
        assert await control.admit(request(model="b"), 1) is None
        assert second.limited == []
        control.on_ended(call(1, model="b", status=429, usage=None, message="slow down", resets_at=until))
        await second.wait_settled()
        refusal = await control.admit(request(model="b"), 2)
        assert refusal and int(refusal.headers["retry-after"]) <= LONG_S / 2
        # Two that were told do not show that the third would be: it is told the same at no cost, if it is so.
        assert await control.admit(request(model="c"), 3) is None
        assert second.limited == [RateLimitNotice(message="slow down", until=until, held=False)]

    _play(tmp_path, act)


def test_a_limit_of_the_account_holds_back_every_model(tmp_path: Path) -> None:
    async def act(first: SpendingRun, second: SpendingRun) -> None:
        until = time.time() + LONG_S
        await _meets_429(first, first.rates(FREE), resets_at=until, limits_account=True)
        refusal = await second.rates(FREE).admit(request(model="b"), 1)
        assert refusal and refusal.message.startswith("Too many calls to api.example.org: the provider's own limit")
        (told,) = second.limited
        assert told.until == until
        assert told.message.startswith("api.example.org has refused a call with the same key, for every model, and ")
        assert await second.rates(FREE, host="other.example.org").admit(request(model="b"), 2) is None

    _play(tmp_path, act)


def test_an_answer_of_another_model_does_not_end_a_hold(tmp_path: Path) -> None:
    async def act(first: SpendingRun, second: SpendingRun) -> None:
        control = first.rates(FREE)
        await _meets_429(first, control, resets_at=time.time() + LONG_S)
        assert await control.admit(request(model="b"), 2) is None
        control.on_ended(call(2, model="b"))
        await first.wait_settled()
        assert await second.rates(FREE).admit(request(), 1) is not None
        assert await control.admit(request(), 3) is not None
        assert len(first.limited) == 1

    _play(tmp_path, act)


def test_a_hold_that_is_too_long_to_wait_for_is_the_same_429_at_once(tmp_path: Path) -> None:
    async def act(first: SpendingRun, second: SpendingRun) -> None:
        await _meets_429(first, first.rates(FREE), resets_at=time.time() + LONG_S)
        refusal = await second.rates(FREE).admit(request(), 1)
        assert refusal
        assert (refusal.status, refusal.problem) == (429, "refused: rate limit")
        assert LONG_S - WAIT_S < int(refusal.headers["retry-after"]) <= LONG_S
        assert refusal.message.startswith(
            f"Too many calls to {MODEL} at api.example.org: the provider's own limit leaves no room"
        )
        again = await first.rates(FREE).admit(request(), 2)
        assert again and again.status == 429

    _play(tmp_path, act)


def test_users_say_how_long_to_wait(tmp_path: Path) -> None:
    async def act(first: SpendingRun, second: SpendingRun) -> None:
        await _meets_429(first, first.rates(FREE), resets_at=time.time() + 30)
        assert await second.rates(Rates(longest_hold_s=5)).admit(request(), 1) is not None

    _play(tmp_path, act)


def test_a_hold_is_told_once_to_each_run_and_again_when_it_lasts_longer(tmp_path: Path) -> None:
    async def act(first: SpendingRun, second: SpendingRun) -> None:
        now = time.time()
        one, other = first.rates(FREE), second.rates(FREE)
        for number in (1, 2, 3):
            assert await one.admit(request(), number) is None
        for number, until in enumerate((now + LONG_S, now + LONG_S + 0.4, now + 2 * LONG_S), 1):
            one.on_ended(call(number, status=429, usage=None, message="slow down", resets_at=until))
            await first.wait_settled()
            for _ in range(2):
                assert await other.admit(request(), 1) is not None
        assert [each.until for each in first.limited] == [now + LONG_S, now + 2 * LONG_S]
        assert [each.until for each in second.limited] == [now + LONG_S, now + 2 * LONG_S]

    _play(tmp_path, act)


def test_a_429_without_a_time_holds_for_a_little_while_and_is_told_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inspan.stores.ledger_rates._FIRST_HOLD_S", HOLD_S)

    async def act(first: SpendingRun, second: SpendingRun) -> None:
        began = time.time()
        control = first.rates(FREE)
        for number in (2, 3, 4):
            assert await control.admit(request(), number) is None
        await _meets_429(first, control)
        assert await asyncio.wait_for(second.rates(FREE).admit(request(), 1), WAIT_S) is None
        assert time.time() - began >= HOLD_S - 0.1
        assert [each.until for each in (*first.limited, *second.limited)] == [None, None]
        control.on_ended(call(2, status=429, usage=None))
        assert len(first.limited) == 1
        control.on_ended(call(3))
        control.on_ended(call(4, status=429, usage=None))
        assert len(first.limited) == 2

    _play(tmp_path, act)


@pytest.mark.parametrize(
    ("status", "after_s", "is_held"),
    [(529, 30.0, True), (503, 30.0, True), (529, None, False), (500, 30.0, False), (400, 30.0, False)],
)
def test_an_overload_holds_only_with_a_time(tmp_path: Path, status: int, after_s: float | None, is_held: bool) -> None:
    async def act(first: SpendingRun, second: SpendingRun) -> None:
        until = None if after_s is None else time.time() + after_s
        await _meets_429(first, first.rates(FREE), status=status, resets_at=until)
        refusal = await second.rates(Rates(longest_hold_s=1)).admit(request(), 1)
        assert (refusal is not None) == is_held

    _play(tmp_path, act)


def test_an_overload_holds_for_a_minute_at_most(tmp_path: Path) -> None:
    async def act(first: SpendingRun, second: SpendingRun) -> None:
        await _meets_429(first, first.rates(FREE), status=529, resets_at=time.time() + LONG_S)
        refusal = await second.rates(Rates(longest_hold_s=1)).admit(request(), 1)
        assert refusal and int(refusal.headers["retry-after"]) <= 60

    _play(tmp_path, act)


def test_agents_with_their_own_login_are_told_apart_by_their_headers(tmp_path: Path) -> None:
    async def act(first: SpendingRun, second: SpendingRun) -> None:
        await _meets_429(first, first.rates(FREE, key=""), resets_at=time.time() + LONG_S)
        assert await second.rates(FREE, key="").admit(request(key="another"), 1) is None
        assert await second.rates(FREE, key="").admit(request(key="its own"), 2) is not None

    _play(tmp_path, act)


def test_our_own_refusal_is_no_news_of_the_provider(tmp_path: Path) -> None:
    async def act(first: SpendingRun, second: SpendingRun) -> None:
        await _meets_429(first, first.rates(FREE), problem="refused: turns", resets_at=time.time() + LONG_S)
        assert await second.rates(FREE).admit(request(), 1) is None
        assert first.limited == []

    _play(tmp_path, act)


def test_a_client_that_goes_while_its_call_waits_takes_nothing(tmp_path: Path) -> None:
    async def act(first: SpendingRun, second: SpendingRun) -> None:
        rates = Rates(concurrent_calls=1)
        one, other = first.rates(rates), second.rates(rates)
        assert await one.admit(request(), 1) is None
        waiting = asyncio.ensure_future(other.admit(request(), 1))
        await asyncio.sleep(0.3)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        one.on_ended(call(1))
        await first.wait_settled()
        assert await asyncio.wait_for(one.admit(request(), 2), WAIT_S) is None

    _play(tmp_path, act)


def test_a_client_that_goes_while_its_call_enters_takes_nothing(tmp_path: Path) -> None:
    async def act() -> Refusal | None:
        scene = SpendingRun(tmp_path, wait_s=WAIT_S)
        await scene.open()
        control = scene.rates(Rates(concurrent_calls=1, longest_hold_s=0.0))
        await cancel_while_writing(scene, control.admit(request(), 1))
        refusal = await control.admit(request(), 2)
        await scene.close()
        return refusal

    assert asyncio.run(act()) is None


def test_calls_wait_for_a_place_and_the_loop_goes_on(tmp_path: Path) -> None:
    async def act(first: SpendingRun, second: SpendingRun) -> None:
        rates, beats = Rates(concurrent_calls=1), 0
        one, other = first.rates(rates), second.rates(rates)
        assert await one.admit(request(), 1) is None
        waiting = asyncio.ensure_future(other.admit(request(), 1))
        for _ in range(20):
            await asyncio.sleep(0.02)
            beats += 1
        assert not waiting.done()
        one.on_ended(call(1, status=None, usage=None, problem="client hung up"))
        assert await asyncio.wait_for(waiting, WAIT_S) is None
        assert (beats, second.limited) == (20, [])

    _play(tmp_path, act)


def test_a_place_that_does_not_come_in_time_is_a_429(tmp_path: Path) -> None:
    async def act(first: SpendingRun, second: SpendingRun) -> None:
        rates = Rates(concurrent_calls=1, longest_hold_s=0.3)
        assert await first.rates(rates).admit(request(), 1) is None
        refusal = await second.rates(rates).admit(request(), 1)
        assert refusal and refusal.message == (
            "Too many calls to example: 1 call at a time leaves no room for the next 1 s."
        )

    _play(tmp_path, act)


def test_tokens_are_counted_by_what_was_used(tmp_path: Path) -> None:
    async def act(first: SpendingRun, second: SpendingRun) -> None:
        rates = Rates(tokens_per_minute=3000, longest_hold_s=0.0)
        one, other = first.rates(rates), second.rates(rates)
        assert await one.admit(request(6000), 1) is None
        one.on_ended(call(1, usage=Usage(input=50, output=50)))
        await first.wait_settled()
        assert await other.admit(request(6000), 1) is None
        assert await one.admit(request(6000), 2) is not None
        other.on_ended(call(1, status=500, usage=None))
        await second.wait_settled()
        assert await one.admit(request(6000), 2) is None

    _play(tmp_path, act)


def test_a_ledger_that_cannot_be_used_holds_nobody_back(tmp_path: Path) -> None:
    async def act(first: SpendingRun, second: SpendingRun) -> None:
        other = Ledger(second.state)
        with other.file.write_transaction():
            assert await first.rates(Rates(requests_per_minute=5)).admit(request(), 1) is None
        other.close()

    _play(tmp_path, act, wait_s=IMPATIENT_S)
