"""One run's 429 holds back all that use the same key, and the user's own rates hold over all runs together."""

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from inspan.protocol.usage import Usage
from inspan.stores.ledger_file import LedgerFile
from tests.house import House, until

from .account import Account, configure
from .conversation import HOLD_ON
from .styles import Style, each_agent
from .till import KEY, Asked, Says, Till, usage_of, works

HOLD_S = 3
OTHER_KEY = "another-key-9876543210"
WAITS = HOLD_ON.removeprefix("run = '").removesuffix("'")
NO_ROOM = "Too many calls to openai: 3 requests per minute leaves no room for the next "
Headers = Callable[[], dict[str, str]]


def _unified() -> dict[str, str]:
    """As a plan says that its window is used up; for longer than a run that waits goes without looking again."""
    status = {"anthropic-ratelimit-unified-status": "rejected"}
    return {**status, "anthropic-ratelimit-unified-reset": str(int(time.time()) + 7)}


WAYS: dict[str, tuple[str, int, Headers]] = {
    "retry-after": ("claude", 429, lambda: {"retry-after": str(HOLD_S)}),
    "unified window": ("claude", 429, _unified),
    "window of requests": (
        "codex",
        429,
        lambda: {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": f"{HOLD_S}s"},
    ),
    "overload": ("codex", 503, lambda: {"retry-after": str(HOLD_S)}),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_a_provider_says_to_one_run_holds_another_until_then(house: House, way: str) -> None:
    agent, status, headers = WAYS[way]

    def plan(asked: Asked) -> Says:
        """The first run to come is at work; the second is refused."""
        if asked.number == 1:
            return Says(uses=(WAITS,), usage=usage_of(1))
        if asked.number == 2:
            return Says(status=status, headers=headers())
        return Says(words="done", usage=usage_of(asked.number))

    with Till(plan, cwd=house.work) as till:
        account = Account(house, till)
        held_id = account.detach(agent)
        until((house.work / "started").exists, "tool")
        refused_id = account.detach(agent)
        until(lambda: _is_known(house), "hold")
        (house.work / "go").touch()
        refused, held = account.end_of(refused_id), account.end_of(held_id)
        entries = till.entries
    assert refused.ended["reason"] == ("rate_limit" if status == 429 else "overloaded")
    (told,) = refused.of("rate_limited")
    assert not told.get("held")
    assert told["resets_at"] - entries[1].answered_at >= HOLD_S
    assert held.verdict == ("completed", "done", 0)
    (event,) = held.of("rate_limited")
    assert (event["held"], event["resets_at"]) == (True, told["resets_at"])
    # The call was made, and not before the provider wanted it.
    assert [entry.status for entry in entries] == [200, status, 200]
    assert entries[2].asked.at >= told["resets_at"]
    assert (held.usage, held.ended["model_calls"]) == (till.stated, 2)


@each_agent
def test_a_limit_that_lifts_too_late_is_told_at_once_and_only_to_its_own_key(house: House, style: Style) -> None:
    def plan(asked: Asked) -> Says:
        refused = Says(status=429, headers={"retry-after": "3600"})
        return refused if asked.key == KEY else Says(words="done", usage=usage_of(asked.number))

    with Till(plan, cwd=house.work) as till:
        account = Account(house, till)
        bills = [account.run(style.agent, key=key) for key in (KEY, KEY, OTHER_KEY)]
    told, refused, free = bills
    assert [bill.verdict[:2] for bill in bills] == [("limited", "rate_limit")] * 2 + [("completed", "done")]
    assert [asked.key for asked in till.arrived] == [KEY, OTHER_KEY]
    assert [event.get("held", False) for bill in bills for event in bill.of("rate_limited")] == [False, True]
    resets_at = told.of("rate_limited")[0]["resets_at"]
    assert [bill.of("rate_limited")[0]["resets_at"] for bill in (told, refused)] == [resets_at] * 2
    assert resets_at >= till.entries[0].answered_at + 3600
    assert (refused.ended["resets_at"], refused.calls[0]["problem"]) == (resets_at, "refused: rate limit")
    assert [row.run_id for row in account.ledger if row.usage != Usage()] == [free.run_id]


def test_calls_at_once_are_no_more_than_the_user_allows_over_all_runs(house: House) -> None:
    configure(house, "[providers.openai]\nconcurrent_calls = 1\n")

    def plan(asked: Asked) -> Says:
        uses = ("true",) if asked.results < 2 else ()
        return Says(words="x", uses=uses, usage=usage_of(asked.number), pause_s=0.3)

    with Till(plan, cwd=house.work) as till:
        account = Account(house, till)
        bills = account.all([account.start("codex"), account.start("codex")])
        entries = till.entries
    assert [bill.verdict for bill in bills] == [("completed", "done", 0)] * 2
    assert len(entries) == 6
    assert all(earlier.answered_at <= later.asked.at for earlier, later in pairwise(entries))


def test_calls_in_a_minute_are_no_more_than_the_user_allows_over_all_runs(house: House) -> None:
    configure(house, '[providers.openai]\nrequests_per_minute = 3\nlongest_hold = "1s"\n')
    with Till(works(2, usage=usage_of), cwd=house.work) as till:
        account = Account(house, till)
        bills = account.all([account.start("codex"), account.start("codex")])
    assert len(till.arrived) == len(account.ledger) == 3
    ends: dict[str, list[dict[str, Any]]] = {bill.ended["reason"]: bill.calls for bill in bills}
    assert ends.keys() == {"done", "rate_limit"}
    refused = ends["rate_limit"][-1]
    assert (refused["status"], refused["problem"]) == (429, "refused: rate limit")
    assert refused["message"].startswith(NO_ROOM)


def _is_known(house: House) -> bool:
    """Whether the ledger, which all runs look into, has heard that somebody is to wait."""
    ledger = LedgerFile(str(house.state))
    with ledger.reading() as database:
        count: int = database.execute("SELECT count(*) FROM hold").fetchone()[0]
    ledger.close()
    return count > 0
