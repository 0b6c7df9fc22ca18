"""Each call is reserved by its size and settled by what it used; without room, it is refused before it costs."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from inspan.gateway.control import Refusal
from inspan.gateway.upstream import Inputs
from inspan.protocol.amounts import Amounts
from inspan.protocol.usage import Usage
from inspan.spending.budgets import BudgetControl
from inspan.spending.estimates import Estimator
from inspan.spending.refusals import Excess
from inspan.stores.ledger import Ledger, read_spendings
from inspan.stores.ledger_tree import BudgetStatus, read_tree
from tests.stores.accounts import parse_budgets

from .spending_run import IMPATIENT_S, MODEL, NANO, SpendingRun, call, cancel_while_writing, play, price, request

WAIT_S = 30.0


def _run(state: str) -> BudgetStatus:
    return next(each for each in read_tree(state) if each.node == "run")


def test_a_call_is_set_aside_at_the_dearest_price_and_settled_at_what_it_used(tmp_path: Path) -> None:
    async def act(scene: SpendingRun) -> tuple[Amounts, Amounts, Amounts]:
        control = scene.budget()
        assert await control.admit(request(300, max_output=1000), 1) is None
        kept = _run(scene.state).reserved
        control.on_ended(call(1))
        await scene.wait_settled()
        return kept, _run(scene.state).reserved, _run(scene.state).spent._replace(seconds=0.0)

    kept, after, spent = play(tmp_path, act, run="1usd")
    assert kept == Amounts(nano=101 * NANO["cache_write"] + 1000 * NANO["output"], tokens=1101, calls=1)
    assert after == Amounts()
    assert spent == Amounts(nano=100 * NANO["input"] + 10 * NANO["output"], tokens=110, calls=1)


def test_a_cache_for_an_hour_is_the_dearest_where_the_request_asks_for_one(tmp_path: Path) -> None:
    async def act(scene: SpendingRun) -> Amounts:
        body = b'{"cache_control":{"type":"ephemeral","ttl":"1h"}}' + b"x" * 251
        assert await scene.budget().admit(request(plain=body, max_output=1), 1) is None
        return _run(scene.state).reserved

    assert play(tmp_path, act, run="1usd").nano == 101 * NANO["cache_write_1h"] + NANO["output"]


def test_input_that_is_not_in_the_request_is_set_aside_as_all_that_the_model_takes_in(tmp_path: Path) -> None:
    async def act(scene: SpendingRun) -> tuple[Amounts, Refusal | None]:
        control = scene.budget(context=200_000)
        elsewhere = request(60, max_output=1, inputs=Inputs(unsized=("document",)))
        assert await control.admit(elsewhere, 1) is None
        return _run(scene.state).reserved, await control.admit(elsewhere, 2)

    kept, refusal = play(tmp_path, act, run="1usd")
    assert kept == Amounts(nano=200_000 * NANO["cache_write"] + NANO["output"], tokens=200_001, calls=1)
    assert refusal and refusal.message == (
        "Model call 2 would reserve up to $0.7501 (200,000 tokens in, 1 out, at the prices of some-model), and $0.2499 "
        "is left of the $1.00 of run r1, with $0.75 reserved for calls under way."
        " The request does not show the size of its input (document), so the model's whole context window is set aside."
    )


def test_searches_that_the_request_allows_are_set_aside_with_their_price(tmp_path: Path) -> None:
    async def act(scene: SpendingRun) -> Amounts:
        control = scene.budget()
        assert await control.admit(request(300, max_output=1, inputs=Inputs(searches=2)), 1) is None
        return _run(scene.state).reserved

    kept = play(tmp_path, act, run="1usd")
    tokens = 101 + 2 * 8000
    assert kept.nano == tokens * NANO["cache_write"] + NANO["output"] + 2 * NANO["search"]


def test_a_call_without_room_is_refused_with_the_node_and_the_numbers(tmp_path: Path) -> None:
    async def act(scene: SpendingRun) -> tuple[Refusal | None, list[Excess]]:
        return await scene.budget().admit(request(300, max_output=1000), 1), scene.refused

    refusal, heard = play(tmp_path, act, project="1ktok/day")
    sentence = (
        "Model call 1 would reserve up to 1,101 tokens (101 tokens in, 1,000 out), "
        "and 1,000 tokens are left of the 1,000 tokens per day of project web-1a2b."
    )
    assert refusal == Refusal(problem="refused: budget of project web-1a2b", message=sentence)
    step = "Use --budget project=2ktok/day."
    assert heard == [Excess(node="project web-1a2b", message=sentence, call=1, next_step=step)]


def test_a_model_without_a_price_is_refused_under_a_budget_in_dollars(tmp_path: Path) -> None:
    async def act(scene: SpendingRun) -> Refusal | None:
        return await scene.budget().admit(request(model="nobody-knows"), 1)

    refusal = play(tmp_path, act, task="1usd", run="1mtok")
    assert refusal and refusal.message == (
        "No price is known for the model 'nobody-knows', and the budget of task default is in dollars."
    )


def test_a_model_without_a_price_is_fine_under_any_other_budget(tmp_path: Path) -> None:
    async def act(scene: SpendingRun) -> BudgetStatus:
        control = scene.budget()
        assert await control.admit(request(model="nobody-knows"), 1) is None
        control.on_ended(call(1, model="nobody-knows"))
        await scene.wait_settled()
        return _run(scene.state)

    standing = play(tmp_path, act, run="1mtok,5calls")
    assert (standing.spent.nano, standing.spent.tokens, standing.unpriced) == (0, 110, 1)


def test_without_a_limit_nothing_is_reserved_and_the_row_is_written_after_the_call(tmp_path: Path) -> None:
    async def act(scene: SpendingRun) -> None:
        control = scene.budget()
        assert await control.admit(request(), 1) is None
        assert _run(scene.state).reserved == Amounts()
        control.on_ended(call(1, role="side"))
        await scene.wait_settled()

    play(tmp_path, act, run="1h,3restarts")
    (row,) = read_spendings(str(tmp_path / "state"))
    assert row._replace(at=0.0)._asdict() == {
        "run_id": "r1",
        "call": 1,
        "at": 0.0,
        "project": "web-1a2b",
        "task": "default",
        "session": "s1",
        "agent": "scripted",
        "model": MODEL,
        "role": "side",
        "usage": Usage(input=100, output=10),
        "nano": price(MODEL, Usage(input=100, output=10), {}),
        "source": "gateway",
        "scripted": False,
        "charged_nano": None,
        "charged_tokens": None,
    }


_KEPT = Usage(input=101)  # What a request of 300 bytes is guessed to hold.


@pytest.mark.parametrize(
    ("changes", "stated", "charged"),
    [
        ({}, Usage(input=100, output=10), Usage(input=100, output=10)),
        ({"status": 500, "usage": None, "whole": False}, Usage(), Usage()),
        ({"status": 429, "usage": None}, Usage(), Usage()),
        ({"status": None, "usage": None, "whole": False, "problem": "unreachable: refused"}, Usage(), Usage()),
        ({"usage": None, "whole": False, "answer_bytes": 0}, None, None),
        ({"usage": None, "whole": False, "answer_bytes": 2997}, None, _KEPT + Usage(output=1000)),
        ({"usage": None, "whole": False, "answer_bytes": 10**6}, None, _KEPT + Usage(output=5000)),
        ({"usage": None, "whole": True, "answer_bytes": 297}, None, _KEPT + Usage(output=100)),
        (
            {"status": None, "usage": None, "whole": False, "problem": "client hung up", "answer_bytes": 0},
            None,
            None,
        ),
        ({"status": None, "usage": None, "whole": False, "problem": "never sent"}, Usage(), Usage()),
        ({"status": 502, "usage": None, "whole": False, "problem": "unanswered: gone"}, None, None),
        ({"status": 500, "usage": None, "whole": False, "problem": "gateway broke: KeyError()"}, None, None),
        (
            {"usage": Usage(input=90, output=1), "whole": False, "answer_bytes": 297, "problem": "cut"},
            Usage(input=90, output=1),
            Usage(input=90, output=100),
        ),
        ({"status": 500, "usage": Usage(input=90)}, Usage(input=90), Usage(input=90)),
    ],
    ids=str,
)
def test_budgets_stay_safe_and_rows_stay_honest(
    tmp_path: Path, changes: dict[str, object], stated: Usage | None, charged: Usage | None
) -> None:
    """`charged` None: all that was set aside."""

    async def act(scene: SpendingRun) -> BudgetStatus:
        control = scene.budget()
        assert await control.admit(request(300, max_output=5000), 1) is None
        control.on_ended(call(1, **changes))
        await scene.wait_settled()
        return _run(scene.state)

    standing = play(tmp_path, act, run="1usd")
    (row,) = read_spendings(str(tmp_path / "state"))
    assert (row.usage, row.nano) == (stated, None if stated is None else price(MODEL, stated, {}))
    usage, spent = charged or Usage(cache_write=101, output=5000), standing.spent
    assert (spent.nano, spent.tokens, spent.calls) == (price(MODEL, usage, {}), usage.total, 1)
    assert standing.estimated == int(charged is None or stated != charged)


def test_a_call_that_another_control_refused_is_no_call(tmp_path: Path) -> None:
    async def act(scene: SpendingRun) -> BudgetStatus:
        control = scene.budget()
        assert await control.admit(request(), 1) is None
        control.on_ended(call(1, status=402, usage=None, problem="refused: rate limit"))
        await scene.wait_settled()
        return _run(scene.state)

    standing = play(tmp_path, act, run="1usd")
    assert (standing.spent._replace(seconds=0.0), standing.reserved) == (Amounts(), Amounts())
    assert read_spendings(str(tmp_path / "state")) == []


def test_a_client_that_goes_while_its_call_waits_leaves_nothing_set_aside(tmp_path: Path) -> None:
    async def act(scene: SpendingRun) -> Amounts:
        control = scene.budget(wait_s=WAIT_S)
        assert await control.admit(request(max_output=900), 1) is None
        waiting = asyncio.ensure_future(control.admit(request(max_output=900), 2))
        await asyncio.sleep(0.1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        control.on_ended(call(1, usage=Usage(input=1)))
        await scene.wait_settled()
        return _run(scene.state).reserved

    assert play(tmp_path, act, run="1100tok") == Amounts()


def test_a_client_that_goes_while_its_call_is_being_reserved_leaves_nothing_set_aside(tmp_path: Path) -> None:
    async def act() -> Amounts:
        scene = SpendingRun(tmp_path, budgets=parse_budgets(run="1usd"), wait_s=WAIT_S)
        await scene.open()
        await cancel_while_writing(scene, scene.budget().admit(request(), 1))
        reserved = _run(scene.state).reserved
        await scene.close()
        return reserved

    assert asyncio.run(act()) == Amounts()


def test_a_call_waits_for_those_under_way_when_only_they_are_in_its_way(tmp_path: Path) -> None:
    async def act(scene: SpendingRun) -> Refusal | None:
        control = scene.budget(wait_s=WAIT_S)
        assert await control.admit(request(max_output=900), 1) is None
        waiting = asyncio.ensure_future(control.admit(request(max_output=900), 2))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        control.on_ended(call(1, usage=Usage(input=50, output=10)))
        return await waiting

    assert play(tmp_path, act, run="1100tok") is None


def test_a_call_does_not_wait_for_what_others_cannot_give_back(tmp_path: Path) -> None:
    async def act(scene: SpendingRun) -> Refusal | None:
        control = scene.budget(wait_s=3600)
        assert await control.admit(request(max_output=900), 1) is None
        return await control.admit(request(max_output=2000), 2)

    assert play(tmp_path, act, run="1100tok") is not None


def test_two_runs_share_their_projects_budget_through_the_ledger(tmp_path: Path) -> None:
    async def act() -> list[Refusal | None]:
        scenes = [SpendingRun(tmp_path, name, budgets=parse_budgets(project="1100tok")) for name in ("r1", "r2")]
        for scene in scenes:
            await scene.open()
        answers = [await scene.budget().admit(request(max_output=900), 1) for scene in scenes]
        for scene in scenes:
            await scene.close()
        return answers

    first, second = asyncio.run(act())
    assert first is None
    assert second and "with 1,001 tokens reserved for calls under way" in second.message


def test_a_ledger_that_cannot_be_used_refuses_what_has_a_limit(tmp_path: Path) -> None:
    async def act(scene: SpendingRun) -> Refusal | None:
        other = Ledger(scene.state)
        with other.file.write_transaction():
            refusal = await scene.budget().admit(request(), 1)
        other.close()
        return refusal

    refusal = play(tmp_path, act, wait_s=IMPATIENT_S, run="1usd")
    assert refusal and refusal.problem == "refused: budget of ledger"
    assert "ledger.db cannot be used: database is locked" in refusal.message


def test_what_could_not_be_written_at_once_is_written_later(tmp_path: Path) -> None:
    async def act(scene: SpendingRun) -> list[str]:
        control = scene.budget()
        other = Ledger(scene.state)
        with other.file.write_transaction():
            for number in (1, 2):
                assert await control.admit(request(), number) is None
                control.on_ended(call(number))
            await scene.wait_settled()
        other.close()
        assert read_spendings(scene.state) == []
        await scene.wait_settled()
        return scene.troubles

    troubles = play(tmp_path, act, wait_s=IMPATIENT_S)
    assert [row.call for row in read_spendings(str(tmp_path / "state"))] == [1, 2]
    assert len(troubles) == 1
    assert "database is locked" in troubles[0]


def test_what_is_owed_at_the_end_is_written_or_told(tmp_path: Path) -> None:
    async def act(scene: SpendingRun) -> None:
        control, other = scene.budget(), Ledger(scene.state)
        with other.file.write_transaction():
            assert await control.admit(request(), 1) is None
            control.on_ended(call(1))
            await scene.wait_settled()
        await scene.books.close()
        assert [row.call for row in read_spendings(scene.state)] == [1]
        late = SpendingRun(tmp_path, "r2", wait_s=IMPATIENT_S)
        await late.open()
        control = late.budget()
        with other.file.write_transaction():
            assert await control.admit(request(), 1) is None
            control.on_ended(call(1))
            await late.close()
            await asyncio.sleep(0)
        other.close()
        lost = "The ledger could not be written at the end of the run; entries that are lost: 1."
        assert late.troubles[1:] == [lost]

    play(tmp_path, act, wait_s=IMPATIENT_S)


def test_the_books_write_what_they_owe_before_they_close(tmp_path: Path) -> None:
    async def act(scene: SpendingRun) -> None:
        control = scene.budget()
        for number in range(50):
            assert await control.admit(request(), number) is None
            control.on_ended(call(number))

    play(tmp_path, act)
    assert len(read_spendings(str(tmp_path / "state"))) == 50


def test_work_that_breaks_does_not_keep_the_rest_from_being_written(tmp_path: Path) -> None:
    def breaks(ledger: Ledger) -> None:
        raise ZeroDivisionError

    async def act(scene: SpendingRun) -> None:
        control = scene.budget()
        assert await control.admit(request(), 1) is None
        scene.books.submit(breaks)
        control.on_ended(call(1))
        await scene.wait_settled()
        assert scene.troubles == ["An entry of the ledger is lost: ZeroDivisionError()."]

    play(tmp_path, act)
    assert [row.call for row in read_spendings(str(tmp_path / "state"))] == [1]


def test_closed_books_take_nothing_more(tmp_path: Path) -> None:
    async def act(scene: SpendingRun) -> None:
        control = scene.budget()
        assert await control.admit(request(), 1) is None
        await scene.books.close()
        control.on_ended(call(1))
        refusal = await control.admit(request(), 2)
        assert refusal and "The ledger of this run is closed." in refusal.message

    play(tmp_path, act, run="1usd")
    # What could not be settled any more is what was set aside.
    (row,) = read_spendings(str(tmp_path / "state"))
    assert (row.call, row.usage, row.charged_tokens) == (1, None, 101 + 32_000)


def test_a_price_that_cannot_be_found_out_is_unknown_and_what_was_used_is_kept(tmp_path: Path) -> None:
    def breaks(model: str, usage: Usage, extras: Mapping[str, int]) -> int | None:
        raise TimeoutError

    async def act(scene: SpendingRun) -> None:
        control = scene.budget(price=breaks)
        assert await control.admit(request(), 1) is None
        control.on_ended(call(1))
        await scene.wait_settled()
        assert scene.troubles == []

    play(tmp_path, act, run="1mtok")
    (row,) = read_spendings(str(tmp_path / "state"))
    assert (row.usage, row.nano) == (Usage(input=100, output=10), None)


def test_the_loop_goes_on_while_the_ledger_is_busy(tmp_path: Path) -> None:
    async def act(scene: SpendingRun) -> int:
        other, beats = Ledger(scene.state), 0
        with other.file.write_transaction():
            asking = asyncio.ensure_future(scene.budget().admit(request(), 1))
            while not asking.done():
                await asyncio.sleep(0.01)
                beats += 1
        other.close()
        return beats

    assert play(tmp_path, act, wait_s=5.0, run="1usd") > 5


def test_what_is_no_call_to_a_model_is_no_matter_of_budgets(tmp_path: Path) -> None:
    async def act(scene: SpendingRun) -> Refusal | None:
        return await scene.budget().admit(replace(request(), ask=None, purpose="count tokens"), 1)

    assert play(tmp_path, act, run="1tok") is None


def test_a_configured_largest_answer_bounds_what_is_set_aside(tmp_path: Path) -> None:
    async def act(scene: SpendingRun) -> Amounts:
        control = scene.budget(estimator=Estimator(largest_answer=700))
        assert await control.admit(request(300, max_output=64_000), 1) is None
        return _run(scene.state).reserved

    assert play(tmp_path, act, run="1usd").tokens == 101 + 700


def _run_and_die(
    root: Path, act: Callable[[SpendingRun, BudgetControl], Awaitable[None]], **budgets: str
) -> BudgetStatus:
    """How a run's project stands when the run has died after this."""

    async def played() -> None:
        scene = SpendingRun(root, budgets=parse_budgets(**budgets))
        await scene.open()
        control = scene.budget()
        assert await control.admit(request(300, max_output=5000), 1) is None
        await act(scene, control)
        await scene.wait_settled()
        await scene.close()

    asyncio.run(played())
    return read_tree(str(root / "state"))[0]


async def _wait_for_row(scene: SpendingRun, where: str) -> None:
    """Until the ledger has heard of it."""
    for _ in range(1000):
        await asyncio.sleep(0.01)
        found = await scene.books.execute(lambda ledger: _count(ledger, where))
        if found:
            return
    raise AssertionError(where)


def _count(ledger: Ledger, where: str) -> int:
    with ledger.file.read_transaction() as database:
        return database.execute(f"SELECT count(*) FROM reservation WHERE {where}").fetchone()[0]


@pytest.mark.parametrize("budget", [{"run": "1usd"}, {"project": "9calls"}, {}], ids=str)
def test_a_run_that_dies_in_a_call_that_nothing_came_of_is_charged_all_that_was_estimated(
    tmp_path: Path, budget: dict[str, str]
) -> None:
    async def act(scene: SpendingRun, control: BudgetControl) -> None:
        await _wait_for_row(scene, "call = 1")

    standing = _run_and_die(tmp_path, act, **budget)
    most = Usage(cache_write=101, output=5000)
    assert standing.spent[:3] == (price(MODEL, most, {}), most.total, 1)
    (row,) = read_spendings(str(tmp_path / "state"))
    assert (row.usage, row.nano, row.model, row.agent, row.session) == (None, None, MODEL, "scripted", "s1")


@pytest.mark.parametrize(
    ("heard", "charged"),
    [
        # Up to the next report, so much more may have come.
        ({"usage": None, "answer_bytes": 300}, Usage(input=101, output=(300 + 8192) // 3 + 1)),
        ({"usage": Usage(input=90, output=1), "answer_bytes": 300}, Usage(input=90, output=(300 + 8192) // 3 + 1)),
        ({"usage": Usage(input=90, output=1), "answer_bytes": 90_000}, Usage(input=90, output=5000)),
        ({"usage": Usage(input=90, output=70), "answer_bytes": 900, "whole": True}, Usage(input=90, output=70)),
    ],
    ids=str,
)
@pytest.mark.parametrize("budget", [{"run": "1usd"}, {}], ids=str)
def test_a_run_that_dies_in_the_middle_of_an_answer_is_charged_what_may_have_come_of_it(
    tmp_path: Path, heard: dict[str, object], charged: Usage, budget: dict[str, str]
) -> None:
    async def act(scene: SpendingRun, control: BudgetControl) -> None:
        control.on_progress(call(1, **{"whole": False, "role": "side", **heard}))
        await _wait_for_row(scene, "call = 1 AND role = 'side'")

    standing = _run_and_die(tmp_path, act, **budget)
    assert standing.spent[:3] == (price(MODEL, charged, {}), charged.total, 1)
    (row,) = read_spendings(str(tmp_path / "state"))
    assert (row.usage, row.role) == (heard["usage"], "side")
    assert standing.estimated == int(not heard.get("whole"))


def test_an_answer_that_does_not_stream_says_nothing_by_its_size(tmp_path: Path) -> None:
    async def act(scene: SpendingRun) -> BudgetStatus:
        control, asked = scene.budget(), request(300, max_output=5000)
        assert asked.ask
        assert await control.admit(replace(asked, ask=replace(asked.ask, stream=False)), 1) is None
        control.on_ended(call(1, usage=None, whole=False, answer_bytes=300, problem="cut"))
        await scene.wait_settled()
        return _run(scene.state)

    assert play(tmp_path, act, run="1usd").spent.tokens == 101 + 5000


def test_a_call_that_is_over_at_once_is_written_twice_and_not_more(tmp_path: Path) -> None:
    async def act(scene: SpendingRun) -> list[str]:
        seen: list[str] = []
        await scene.books.execute(lambda ledger: _trace_queries(ledger, seen))
        control = scene.budget()
        assert await control.admit(request(300, max_output=5000), 1) is None
        for size in (100, 100_000, 200_000):
            control.on_progress(call(1, whole=False, answer_bytes=size))
        control.on_ended(call(1))
        await scene.wait_settled()
        await asyncio.sleep(0.2)
        await scene.wait_settled()
        return [statement for statement in seen if statement == "BEGIN IMMEDIATE"]

    assert play(tmp_path, act, run="1usd") == ["BEGIN IMMEDIATE"] * 2


def _trace_queries(ledger: Ledger, seen: list[str]) -> None:
    with ledger.file.read_transaction() as database:
        database.set_trace_callback(seen.append)
