"""A supervisor that is killed in the middle of a call has spent it: no budget is ever given back by a crash."""

import json
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from inspan.protocol.amounts import format_dollars
from inspan.protocol.usage import Usage
from inspan.stores.ledger_file import LedgerFile
from tests.cli_env import CliEnv, kill_process, processes_of, wait_until
from tests.soak import rounds

from .account import Account, configure
from .fake_provider import FakeProvider, PlannedAnswer, ReceivedCall

MODEL = "claude-opus-5-5"
# A million tokens for a dollar, whatever they are; an answer may have a thousand.
PRICES = f'[prices."{MODEL}"]\ninput = 1.0\noutput = 1.0\ncache_read = 1.0\ncache_write = 1.0\n'
MOST_OUTPUT = 1_000
# Asks without end, and does as it is told by a file whether it hears an answer to its end.
ASKS = """
import http.client, json, os, signal, sys, time
if sys.argv[1:] == ["--version"]:
    print("2.1.325 (Claude Code)")
    sys.exit()
print(json.dumps({"type": "system", "subtype": "init", "session_id": "0"}), flush=True)
body = {"model": "claude-opus-5-5", "max_tokens": 1000, "messages": [{"role": "user", "content": "more"}],
        "tools": [], "stream": True}
for number in range(1000):
    gate = http.client.HTTPConnection(os.environ["ANTHROPIC_BASE_URL"].removeprefix("http://"))
    gate.request("POST", "/v1/messages", json.dumps(body), {"x-api-key": os.environ["ANTHROPIC_API_KEY"]})
    if os.path.exists("hang-up"):
        while not os.path.exists("now"):
            time.sleep(0.01)
        gate.sock.close()
        break
    gate.getresponse().read()
    time.sleep(0.05)
print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": "done", "session_id": "0",
                  "num_turns": 1, "duration_ms": 1, "usage": {}}), flush=True)
"""
ALONE = ("--sandbox", "none", "--allow-tool", "Bash")
Fake = Callable[[str, str], str]
Moment = Callable[[CliEnv, FakeProvider, int], None]


def _account(cli_env: CliEnv, fake: Fake, till: FakeProvider, *more: str) -> Account:
    cli_env.env["INSPAN_CLAUDE_BIN"] = fake("asks", ASKS)
    return Account(cli_env, till, *ALONE, *more)


def _rows_under_way(cli_env: CliEnv, where: str) -> int:
    ledger = LedgerFile(str(cli_env.state))
    with ledger.read_transaction() as database:
        count: int = database.execute(f"SELECT count(*) FROM reservation WHERE {where}").fetchone()[0]
    ledger.close()
    return count


def _wait_for_call(cli_env: CliEnv, till: FakeProvider, before: int) -> None:
    wait_until(lambda: len(till.received) > before, "call")


def _wait_for_stream(cli_env: CliEnv, till: FakeProvider, before: int) -> None:
    """What the meter read is written down."""
    _wait_for_call(cli_env, till, before)
    wait_until(lambda: _rows_under_way(cli_env, "input IS NOT NULL"), "word of the meter")


def _wait_for_answer(cli_env: CliEnv, till: FakeProvider, before: int) -> None:
    """The provider has said all; whether it is settled yet is a matter of luck."""
    wait_until(lambda: len(till.entries) > before, "answer")


def _usage(number: int) -> Usage:
    """Within what is set aside for such a call, and that of no other."""
    return Usage(input=10 + number % 20, output=50 + number, cache_read=3, cache_write=4, reasoning=5)


def _plan_no_answer(asked: ReceivedCall) -> PlannedAnswer:
    return PlannedAnswer(after=threading.Event())


def _plan_slow_answer(asked: ReceivedCall) -> PlannedAnswer:
    return PlannedAnswer(words="a beginning", usage=_usage(asked.number), interval_s=600.0)


def _plan_answer(asked: ReceivedCall) -> PlannedAnswer:
    return PlannedAnswer(words="done", usage=_usage(asked.number))


MOMENTS: dict[str, tuple[Callable[[ReceivedCall], PlannedAnswer], Moment]] = {
    "before an answer": (_plan_no_answer, _wait_for_call),
    "in the middle of one": (_plan_slow_answer, _wait_for_stream),
    "after its beginning": (_plan_slow_answer, _wait_for_call),
    "after its end": (_plan_answer, _wait_for_answer),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_supervisors_that_are_killed_in_their_calls_make_no_more_than_the_budget_allows(
    cli_env: CliEnv, fake: Fake, moment: str
) -> None:
    plan, ready = MOMENTS[moment]
    most, rounds, before = 5, 0, 0
    with FakeProvider(plan, cwd=cli_env.work) as till:
        account = _account(cli_env, fake, till, "--budget", f"project={most}calls")
        while (run_id := _detach(account, cli_env)) and rounds < 3 * most:
            rounds += 1
            ready(cli_env, till, before)
            _kill(cli_env, run_id)
            before = len(till.received)
            # Whatever was asked of the provider is spent, and nothing waits for who is gone.
            calls, kept = _calls(account)
            assert (kept, calls >= before) == (0, True)
            # Where each run made one call, this is all.
            assert plan is _plan_answer or calls == before == rounds
        assert before <= most
        assert plan is _plan_answer or before == most
        assert account.expect_refusal("claude").message == (
            f"The budget of project shop is {most} model calls: {most} model calls spent."
        )


@pytest.mark.parametrize("seed", range(20, 20 + rounds(1)))
def test_supervisors_that_are_killed_at_any_moment_make_no_more_than_the_budget_allows(
    cli_env: CliEnv, fake: Fake, seed: int
) -> None:
    most, chance, spent = 5, random.Random(seed), 0

    def plan(asked: ReceivedCall) -> PlannedAnswer:
        return (_plan_no_answer, _plan_slow_answer, _plan_answer)[asked.number % 3](asked)

    with FakeProvider(plan, cwd=cli_env.work) as till:
        account = _account(cli_env, fake, till, "--budget", f"project={most}calls")
        # Every other one is left alone until it has called, so that the budget is used up on a slow machine too.
        for number in range(2 * most + 1):
            before, run_id = len(till.received), _detach(account, cli_env)
            if not run_id:
                break
            if number % 2:
                wait_until(lambda before=before: len(till.received) > before, "call")
            time.sleep(chance.uniform(0.0, 0.3 if number % 2 else 0.8))
            _kill(cli_env, run_id)
            calls, kept = _calls(account)
            assert len(till.received) <= calls <= most
            assert (kept, calls >= spent) == (0, True)
            spent = calls
        assert account.expect_refusal("claude").code == "budget_spent"
        assert len(till.received) <= most


def test_runs_at_once_that_are_all_killed_leave_their_tree_spent(cli_env: CliEnv, fake: Fake) -> None:
    most = 5
    with FakeProvider(_plan_no_answer, cwd=cli_env.work) as till:
        limits = (f"project={most}calls", "task=3calls", "run=2calls")
        account = _account(cli_env, fake, till, *(word for limit in limits for word in ("--budget", limit)))
        first = [account.detach("claude", "--task", "a") for _ in range(3)]
        second = [account.detach("claude", "--task", "b") for _ in range(3)]
        wait_until(lambda: len(till.received) == most, "all that fit")
        for run_id in (*first, *second):
            _kill(cli_env, run_id)
        assert len(till.received) == most
        found = {(each["node"], each["task"]): each["spent"]["calls"] for each in account.budget()}
        assert found.pop(("project", None)) == most
        assert sorted(found.values()) == [2, 3]
        assert account.expect_refusal("claude", "--task", "c").code == "budget_spent"


def test_a_run_does_not_wait_for_the_call_of_one_that_was_killed(cli_env: CliEnv, fake: Fake) -> None:
    with FakeProvider(_plan_no_answer, cwd=cli_env.work) as till:
        account = _account(cli_env, fake, till, "--budget", "project=1calls")
        victim, waiting = account.detach("claude"), account.detach("claude")
        wait_until(lambda: till.received, "call")
        wait_until(lambda: all(_has_begun(cli_env, each) for each in (victim, waiting)), "both")
        caller = wait_until(lambda: _owner(cli_env), "owner of the call")
        other = waiting if caller == victim else victim
        assert "run_ended" not in cli_env.kinds(other)
        _kill(cli_env, caller)
        bill = account.wait_for_run(other)
        assert (bill.verdict, len(till.received)) == (("limited", "budget", 6), 1)
        assert bill.ended["message"] == (
            "The budget of project shop is 1 model call: 1 model call spent, 1 model call asked for."
        )


@pytest.mark.parametrize("limit", ["0.006usd", "6ktok"])
def test_what_is_spent_never_falls_by_a_crash_nor_by_what_is_done_after_it(
    cli_env: CliEnv, fake: Fake, limit: str
) -> None:
    configure(cli_env, PRICES)
    plans = [_plan_no_answer, _plan_slow_answer, _plan_answer]

    def plan(asked: ReceivedCall) -> PlannedAnswer:
        return plans[asked.number % 3](asked)

    with FakeProvider(plan, cwd=cli_env.work) as till:
        account = _account(cli_env, fake, till, "--budget", f"project={limit}")
        run_ids: list[str] = []
        before = (0.0, 0, 0)
        # Counted before each start: its first call may arrive before the command that started it returns.
        came = 0
        while (run_id := _detach(account, cli_env)) and len(run_ids) < 40:
            run_ids.append(run_id)
            wait_until(lambda came=came, run_id=run_id: len(till.received) > came or _is_over(cli_env, run_id), "call")
            _kill(cli_env, run_id)
            now = _read_spent(account)
            assert all(new >= old for new, old in zip(now, before, strict=True)), (before, now)
            assert now[2] >= len(till.received)
            before = now
            if _is_over(cli_env, run_id) and cli_env.events(run_id)[-1]["reason"] == "budget":
                break
            came = len(till.received)
        tokens = sum(entry.stated.total for entry in till.entries if entry.stated)
        assert before[1] >= tokens
        _assert_nothing_changes(cli_env, account, run_ids)
    # A call that nobody heard anything of is charged all that was set aside for it: there are fewer of them than fit.
    assert before[1] <= 6_000
    # Without a limit in dollars nobody waits for a price, and a run may be killed before it is known.
    assert round(before[0] * 1e6) == before[1] or (limit.endswith("tok") and before[0] * 1e6 < before[1])


def _assert_nothing_changes(cli_env: CliEnv, account: Account, run_ids: list[str]) -> None:
    before = account.cost()["total"]["sources"]["gateway"], account.budget()
    for command in (("reindex",), ("ps", "-a"), ("rm", "--yes", *run_ids), ("reindex",)):
        assert cli_env.inspan(*command).returncode == 0
        assert (account.cost()["total"]["sources"]["gateway"], account.budget()) == before


def test_a_lost_run_keeps_its_price(cli_env: CliEnv, fake: Fake) -> None:
    configure(cli_env, PRICES)

    def plan(asked: ReceivedCall) -> PlannedAnswer:
        return (_plan_answer if asked.number < 3 else _plan_slow_answer)(asked)

    with FakeProvider(plan, cwd=cli_env.work) as till:
        account = _account(cli_env, fake, till, "--budget", "project=1usd")
        run_id = account.detach("claude")
        wait_until(lambda: len(till.received) == 3, "third call")
        wait_until(lambda: _rows_under_way(cli_env, "call = 3 AND input IS NOT NULL"), "word of the meter")
        wait_until(lambda: len(account.ledger) == 2, "two that are settled")
        wait_until(lambda: cli_env.kinds(run_id).count("model_call_ended") == 2, "both in the log")
        _kill(cli_env, run_id)
        bill = account.wait_for_run(run_id)
    begun = Usage(**{**_fields(_usage(3)), "output": 1, "reasoning": 0})
    stated = [_usage(1), _usage(2), begun]
    whole = sum(stated, Usage())
    # The log, the ledger and what is told of both say the same.
    assert [(call["call"], call.get("problem", "")) for call in bill.calls] == [(1, ""), (2, ""), (3, "lost")]
    assert [Usage(**call["usage"]) for call in bill.calls] == [row.usage for row in account.ledger] == stated
    assert (bill.verdict[:2], bill.usage) == (("lost", "supervisor_lost"), whole)
    assert bill.ended["model_calls"] == 3
    assert round(bill.ended["cost_usd"] * 1e6) == whole.total
    (group,) = account.cost("--by", "run")["groups"]
    assert (group["name"], group["calls"], group["estimated_calls"]) == (run_id, 3, 1)
    assert round(group["cost_usd"] * 1e6) == whole.total
    shown = json.loads(cli_env.inspan("show", run_id, "--json").stdout)
    assert (shown["calls"]["calls"], round(shown["calls"]["cost_usd"] * 1e6)) == (3, whole.total)
    # Budgets count what may have come of the third, and the difference is told.
    project = account.node("project", "shop")
    assert project["spent"]["tokens"] == whole.total + group["estimated_tokens"]
    assert round(project["spent"]["usd"] * 1e6) == project["spent"]["tokens"]
    assert 0 < group["estimated_tokens"] <= MOST_OUTPUT
    assert bill.ended["message"].endswith(
        f"budgets count {format_dollars(group['estimated_usd'] * 1e9)}"
        f" and {group['estimated_tokens']} tokens more for 1 model call of which the end was not seen"
    )


def test_a_scripted_run_that_is_killed_has_spent_its_call_too(cli_env: CliEnv, fake: Fake) -> None:
    cli_env.env["INSPAN_CLAUDE_BIN"] = fake("asks", ASKS)
    script = cli_env.scenario("[[call]]\nstall = 'before-headers'\nrepeat = 'always'\n")
    budget = ("--project", "shop", "--budget", "project=2calls")
    command = ("run", "do it", "-d", "-a", "claude", "--profile", "clean", "--model-from", script, *ALONE, *budget)
    codes: list[int] = []
    for number in (1, 2, 3):
        done = cli_env.inspan(*command)
        codes.append(done.returncode)
        if done.returncode == 0:
            wait_until(lambda: _rows_under_way(cli_env, "call = 1"), "call")
            _kill(cli_env, done.stdout.strip())
            project, *_ = json.loads(cli_env.inspan("budget", "--json").stdout)["nodes"]
            assert (project["scripted"], project["spent"]["calls"], project["reserved"]["calls"]) == (True, number, 0)
            # The next one has to write it down.
            assert _rows_under_way(cli_env, "call = 1") == 1
    assert codes == [0, 0, 6]


def test_a_lost_run_without_a_budget_keeps_its_price_too(cli_env: CliEnv, fake: Fake) -> None:
    configure(cli_env, PRICES)
    with FakeProvider(_plan_no_answer, cwd=cli_env.work) as till:
        account = _account(cli_env, fake, till)
        run_id = account.detach("claude")
        wait_until(lambda: _rows_under_way(cli_env, "call = 1"), "call under way")
        assert account.node("project", "shop")["reserved"]["calls"] == 0
        wait_until(lambda: till.received, "call")
        _kill(cli_env, run_id)
        bill = account.wait_for_run(run_id)
        assert [call["problem"] for call in bill.calls] == ["lost"]
        (row,) = account.ledger
        assert (row.usage, row.model) == (None, MODEL)
        assert row.charged_tokens and row.charged_tokens > MOST_OUTPUT
        assert _read_spent(account)[1:] == (row.charged_tokens, 1)
        assert f"{row.charged_tokens} tokens more" in bill.ended["message"]
        refusal = account.expect_refusal("claude", "--budget", "project=1calls")
        assert refusal.message == "The budget of project shop is 1 model call: 1 model call spent."


@pytest.mark.parametrize("streams", [True, False])
def test_an_agent_that_hangs_up_is_charged_what_was_streamed_and_the_estimate_where_nothing_was(
    cli_env: CliEnv, fake: Fake, streams: bool
) -> None:
    (cli_env.work / "hang-up").touch()
    with FakeProvider(_plan_slow_answer if streams else _plan_no_answer, cwd=cli_env.work) as till:
        account = _account(cli_env, fake, till, "--budget", "project=100ktok")
        run_id = account.detach("claude")
        (_wait_for_stream if streams else _wait_for_call)(cli_env, till, 0)
        set_aside = account.node("project", "shop")["reserved"]["tokens"]
        (cli_env.work / "now").touch()
        bill = account.wait_for_run(run_id)
    (call,) = bill.calls
    (row,) = account.ledger
    assert call["problem"] == "client hung up"
    _, tokens, calls = _read_spent(account)
    assert (calls, account.node("project", "shop")["reserved"]["tokens"]) == (1, 0)
    if streams:
        begun = Usage(**{**_fields(_usage(1)), "output": 1, "reasoning": 0})
        assert row.usage == Usage(**call["usage"]) == begun
        assert begun.total < tokens < begun.total + MOST_OUTPUT
    else:
        assert (row.usage, tokens) == (None, set_aside)


def test_the_time_of_a_killed_run_is_not_given_back(cli_env: CliEnv, fake: Fake) -> None:
    with FakeProvider(_plan_no_answer, cwd=cli_env.work) as till:
        account = _account(cli_env, fake, till, "--budget", "project=30min")
        run_id = account.detach("claude")
        wait_until(lambda: till.received, "call")
        wait_until(lambda: account.node("project", "shop")["spent"]["seconds"] > 3.0, "time")
        before = account.node("project", "shop")["spent"]["seconds"]
        _kill(cli_env, run_id)
        after = account.node("project", "shop")["spent"]["seconds"]
        assert before <= after
        assert cli_env.inspan("ps", "-a").returncode == 0
        assert account.node("project", "shop")["spent"]["seconds"] == after
        assert cli_env.inspan("rm", run_id).returncode == 0
        assert account.node("project", "shop")["spent"]["seconds"] == after


def _detach(account: Account, cli_env: CliEnv) -> str:
    """The id of a run that was let in; empty where nothing is left for one."""
    done = cli_env.inspan(*account.command("claude", "-d"), env=account.keys)
    assert done.returncode in (0, 6), done.stderr
    return json.loads(done.stdout)["run_id"] if done.returncode == 0 else ""


def _kill(cli_env: CliEnv, run_id: str) -> None:
    """Ends the supervisor without a word, unless the run is over or ends by itself meanwhile; nothing is left of it."""
    wait_until(lambda: _is_over(cli_env, run_id) or cli_env.find_supervisors(run_id), "supervisor, or the run's end")
    for pid in cli_env.find_supervisors(run_id):
        kill_process(pid)
    wait_until(lambda: not processes_of(run_id), "empty house")


def _has_begun(cli_env: CliEnv, run_id: str) -> bool:
    return "thread_started" in cli_env.kinds(run_id)


def _is_over(cli_env: CliEnv, run_id: str) -> bool:
    return "run_ended" in cli_env.kinds(run_id)


def _owner(cli_env: CliEnv) -> str:
    ledger = LedgerFile(str(cli_env.state))
    with ledger.read_transaction() as database:
        found = database.execute("SELECT run_id FROM reservation").fetchone()
    ledger.close()
    return found[0] if found else ""


def _calls(account: Account) -> tuple[int, int]:
    project = account.node("project", "shop")
    return project["spent"]["calls"], project["reserved"]["calls"]


def _read_spent(account: Account) -> tuple[float, int, int]:
    spent = account.node("project", "shop")["spent"]
    return spent["usd"], spent["tokens"], spent["calls"]


def _fields(usage: Usage) -> dict[str, Any]:
    return {name: getattr(usage, name) for name in Usage.__struct_fields__}
