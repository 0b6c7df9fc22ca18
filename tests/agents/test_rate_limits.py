"""One run's 429 holds back all that ask the same with the same key, and the user's own rates hold over all runs."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from inspan.protocol.usage import Usage
from inspan.stores.ledger_file import LedgerFile
from tests.cli_env import CliEnv, wait_until

from .account import Account, configure
from .conversation import WAIT_STEP
from .fake_provider import KEY, FakeProvider, PlannedAnswer, ReceivedCall, plan_tool_calls, usage_of
from .styles import Style, each_agent

# Longer than an agent may take from the end of a tool to its next call, on a machine that has much else to do.
HOLD_S = 10
OTHER_KEY = "another-key-9876543210"
OF_CODEX, ANOTHER = "gpt-6.1-sol", "gpt-5.5"
WAITS = WAIT_STEP.removeprefix("run = '").removesuffix("'")
NO_ROOM = "Too many calls to openai: 3 requests per minute leaves no room for the next "
Headers = Callable[[], dict[str, str]]


def _plan_limit_headers() -> dict[str, str]:
    """As a plan says that its window is used up; for longer than a run that waits goes without looking again."""
    status = {"anthropic-ratelimit-unified-status": "rejected"}
    return {**status, "anthropic-ratelimit-unified-reset": str(int(time.time()) + HOLD_S + 4)}


WAYS: dict[str, tuple[str, int, Headers]] = {
    "retry-after": ("claude", 429, lambda: {"retry-after": str(HOLD_S)}),
    "unified window": ("claude", 429, _plan_limit_headers),
    "window of requests": (
        "codex",
        429,
        lambda: {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": f"{HOLD_S}s"},
    ),
    "overload": ("codex", 503, lambda: {"retry-after": str(HOLD_S)}),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_a_provider_says_to_one_run_holds_another_until_then(cli_env: CliEnv, way: str) -> None:
    agent, status, headers = WAYS[way]

    def plan(asked: ReceivedCall) -> PlannedAnswer:
        """The first run to come is at work; the second is refused."""
        if asked.number == 1:
            return PlannedAnswer(uses=(WAITS,), usage=usage_of(1))
        if asked.number == 2:
            return PlannedAnswer(status=status, headers=headers())
        return PlannedAnswer(words="done", usage=usage_of(asked.number))

    with FakeProvider(plan, cwd=cli_env.work) as till:
        account = Account(cli_env, till)
        held_id = account.detach(agent)
        wait_until((cli_env.work / "started").exists, "tool")
        refused_id = account.detach(agent)
        wait_until(lambda: _is_known(cli_env), "hold")
        (cli_env.work / "go").touch()
        refused, held = account.wait_for_run(refused_id), account.wait_for_run(held_id)
        entries = till.entries
    assert refused.ended["reason"] == ("rate_limit" if status == 429 else "overloaded")
    (told,) = refused.select_events("rate_limited")
    assert not told.get("held")
    assert told["resets_at"] - entries[1].answered_at >= HOLD_S
    assert held.verdict == ("completed", "done", 0)
    (event,) = held.select_events("rate_limited")
    assert (event["held"], event["resets_at"]) == (True, told["resets_at"])
    # The call was made, and not before the provider wanted it.
    assert [entry.status for entry in entries] == [200, status, 200]
    assert entries[2].asked.at >= told["resets_at"]
    assert (held.usage, held.ended["model_calls"]) == (till.stated, 2)


@each_agent
def test_a_limit_that_lifts_too_late_is_told_at_once_and_only_to_its_own_key(cli_env: CliEnv, style: Style) -> None:
    def plan(asked: ReceivedCall) -> PlannedAnswer:
        refused = PlannedAnswer(status=429, headers={"retry-after": "3600"})
        return refused if asked.key == KEY else PlannedAnswer(words="done", usage=usage_of(asked.number))

    with FakeProvider(plan, cwd=cli_env.work) as till:
        account = Account(cli_env, till)
        bills = [account.run(style.agent, key=key) for key in (KEY, KEY, OTHER_KEY)]
    told, refused, free = bills
    assert [bill.verdict[:2] for bill in bills] == [("limited", "rate_limit")] * 2 + [("completed", "done")]
    assert [asked.key for asked in till.received] == [KEY, OTHER_KEY]
    assert [event.get("held", False) for bill in bills for event in bill.select_events("rate_limited")] == [False, True]
    resets_at = told.select_events("rate_limited")[0]["resets_at"]
    assert [bill.select_events("rate_limited")[0]["resets_at"] for bill in (told, refused)] == [resets_at] * 2
    assert resets_at >= till.entries[0].answered_at + 3600
    assert (refused.ended["resets_at"], refused.calls[0]["problem"]) == (resets_at, "refused: rate limit")
    assert [row.run_id for row in account.ledger if row.usage != Usage()] == [free.run_id]


def test_a_limit_of_one_model_holds_neither_another_model_nor_another_host(cli_env: CliEnv) -> None:
    def plan(asked: ReceivedCall) -> PlannedAnswer:
        refused = PlannedAnswer(status=429, headers={"retry-after": "3600"})
        return refused if asked.ask.model == OF_CODEX else PlannedAnswer(words="done", usage=usage_of(asked.number))

    with (
        FakeProvider(plan, cwd=cli_env.work) as till,
        FakeProvider(plan_tool_calls(1, usage=usage_of), cwd=cli_env.work) as elsewhere,
    ):
        account = Account(cli_env, till)
        bills = [account.run("codex", *more) for more in ((), (), ("-m", ANOTHER), ("-m", ANOTHER), ())]
        bills.append(Account(cli_env, elsewhere).run("codex"))
    held, free = ("limited", "rate_limit"), ("completed", "done")
    assert [bill.verdict[:2] for bill in bills] == [held, held, free, free, held, free]
    # Whom it concerns is told which model, where, and until when; and the provider is not asked again.
    assert [asked.ask.model for asked in till.received] == [OF_CODEX, ANOTHER, ANOTHER]
    assert [asked.ask.model for asked in elsewhere.received] == [OF_CODEX]
    (told,) = bills[1].select_events("rate_limited")
    moment = f"{datetime.fromtimestamp(told['resets_at'], UTC):%Y-%m-%d %H:%M:%S} UTC"
    host = till.url.removeprefix("http://")
    assert told["message"] == (
        f"{host} has refused a call to {OF_CODEX} with the same key, and takes none until {moment}"
    )
    assert bills[1].calls[0]["message"].startswith(f"Too many calls to {OF_CODEX} at {host}: the provider's own limit")


def test_another_model_that_is_told_to_wait_is_held_too(cli_env: CliEnv) -> None:
    def plan(asked: ReceivedCall) -> PlannedAnswer:
        return PlannedAnswer(status=429, headers={"retry-after": "3600" if asked.ask.model == OF_CODEX else "1800"})

    with FakeProvider(plan, cwd=cli_env.work) as till:
        account = Account(cli_env, till)
        bills = [account.run("codex", *more) for more in ((), ("-m", ANOTHER), (), ("-m", ANOTHER))]
    assert [bill.verdict[:2] for bill in bills] == [("limited", "rate_limit")] * 4
    assert [asked.ask.model for asked in till.received] == [OF_CODEX, ANOTHER]
    resets = [bill.select_events("rate_limited")[0]["resets_at"] for bill in bills]
    assert (resets[:2], resets[0] - resets[1] > 1700) == (resets[2:], True)


def test_calls_at_once_are_no_more_than_the_user_allows_over_all_runs(cli_env: CliEnv) -> None:
    configure(cli_env, "[providers.openai]\nconcurrent_calls = 1\n")

    def plan(asked: ReceivedCall) -> PlannedAnswer:
        uses = ("true",) if asked.results < 2 else ()
        return PlannedAnswer(words="x", uses=uses, usage=usage_of(asked.number), pause_s=0.3)

    with FakeProvider(plan, cwd=cli_env.work) as till:
        account = Account(cli_env, till)
        bills = account.wait_all([account.start("codex"), account.start("codex")])
        entries = till.entries
    assert [bill.verdict for bill in bills] == [("completed", "done", 0)] * 2
    assert len(entries) == 6
    assert all(earlier.answered_at <= later.asked.at for earlier, later in pairwise(entries))


def test_calls_in_a_minute_are_no_more_than_the_user_allows_over_all_runs(cli_env: CliEnv) -> None:
    configure(cli_env, '[providers.openai]\nrequests_per_minute = 3\nlongest_hold = "1s"\n')
    with FakeProvider(plan_tool_calls(2, usage=usage_of), cwd=cli_env.work) as till:
        account = Account(cli_env, till)
        bills = account.wait_all([account.start("codex"), account.start("codex")])
    assert len(till.received) == len(account.ledger) == 3
    ends: dict[str, list[dict[str, Any]]] = {bill.ended["reason"]: bill.calls for bill in bills}
    assert ends.keys() == {"done", "rate_limit"}
    refused = ends["rate_limit"][-1]
    assert (refused["status"], refused["problem"]) == (429, "refused: rate limit")
    assert refused["message"].startswith(NO_ROOM)


def _is_known(cli_env: CliEnv) -> bool:
    """Whether the ledger, which all runs look into, has heard that somebody is to wait."""
    ledger = LedgerFile(str(cli_env.state))
    with ledger.read_transaction() as database:
        count: int = database.execute("SELECT count(*) FROM hold").fetchone()[0]
    ledger.close()
    return count > 0
