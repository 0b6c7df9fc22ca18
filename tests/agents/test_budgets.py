"""A budget stops real agents within one call: nothing over it reaches the provider, and the run says who said no."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from inspan.gateway.scripts.scenario import Use
from inspan.protocol.usage import Usage
from inspan.stores.ledger_file import LedgerFile
from tests.cli.refusal import Refusal
from tests.cli_env import WAIT_S, CliEnv

from .account import Account, Bill, configure
from .fake_provider import KEY, FakeProvider, PlannedAnswer, ReceivedCall, plan_tool_calls, usage_of
from .run_checks import check_no_processes
from .styles import Style, each_agent, each_style

LIMITED = ("limited", "budget", 6)
NEXT = "Raise the budget with --budget; `inspan budget` shows what was spent."
MODELS = {"claude": "claude-opus-5-5", "codex": "gpt-6.1-sol"}
# A million tokens for a dollar, whatever they are: so limits in tokens and in dollars are the same numbers.
ONE_DOLLAR = "".join(
    f'[prices."{model}"]\ninput = 1.0\noutput = 1.0\ncache_read = 1.0\ncache_write = 1.0\n' for model in MODELS.values()
)
LARGE = Usage(input=100_000, output=10, cache_read=20, cache_write=30, reasoning=5)
DELEGATES = {"description": "part", "prompt": "do a part", "subagent_type": "general-purpose"}
DAY_S = 86_400


def plan_large_calls(asked: ReceivedCall) -> PlannedAnswer:
    """A conversation without end, whose every call is a large one."""
    return PlannedAnswer(uses=("true",), usage=LARGE)


def plan_small_calls(asked: ReceivedCall) -> PlannedAnswer:
    return PlannedAnswer(uses=("true",), usage=usage_of(asked.number))


def assert_refused(bill: Bill, till: FakeProvider, *, after: int, node: str = "") -> str:
    """The run stopped at the call after these, which only the gateway has seen; gives what was said of it."""
    node = node or f"run {bill.run_id}"
    assert bill.verdict == LIMITED, bill.ended
    (refusal,) = bill.select_events("budget_refused")
    assert (refusal["node"], refusal["call"]) == (node, after + 1)
    assert [call.get("problem", "") for call in bill.calls] == [*[""] * after, f"refused: budget of {node}"]
    assert len(till.received) == after
    # Of dollars and tokens it says what would fit.
    assert (bill.ended["message"], bill.ended["next"]) == (refusal["message"], refusal.get("next", NEXT))
    assert refusal.get("next", "Use --budget ").startswith("Use --budget ")
    assert [event["reason"] for event in bill.select_events("ending_began")] == ["budget"]
    return refusal["message"]


@pytest.mark.parametrize(
    ("limit", "after"),
    [("2calls", 2), ("120ktok", 1), ("0.12usd", 1), ("20ktok", 0), ("0.02usd", 0)],
    ids=["calls", "tokens", "dollars", "tokens at first", "dollars at first"],
)
@each_agent
def test_a_call_over_the_budget_ends_the_run_and_never_reaches_the_provider(
    cli_env: CliEnv, style: Style, limit: str, after: int
) -> None:
    configure(cli_env, ONE_DOLLAR)
    with FakeProvider(plan_large_calls, cwd=cli_env.work) as till:
        account = Account(cli_env, till)
        bill = account.run(style.agent, "--budget", limit)
        message = assert_refused(bill, till, after=after)
    assert f" of run {bill.run_id}" in message
    assert bill.ended["exit_code"] == 1
    assert bill.usage == till.stated
    assert [row.usage for row in account.ledger] == [LARGE] * after
    assert {node["reserved"]["calls"] for node in account.budget()} == {0}
    check_no_processes(cli_env, bill.run_id)


@each_style
def test_a_budget_stops_the_call_after_several_tools_at_once(cli_env: CliEnv, style: Style) -> None:
    def plan(asked: ReceivedCall) -> PlannedAnswer:
        return PlannedAnswer(uses=("touch a", "touch b", "touch c"), usage=usage_of(asked.number))

    with FakeProvider(plan, cwd=cli_env.work) as till:
        bill = Account(cli_env, till).run(style.agent, *style.arguments, "--budget", "1calls")
        assert_refused(bill, till, after=1)
    assert sorted(path.name for path in cli_env.work.iterdir()) == ["a", "b", "c"]


@each_agent
def test_a_budget_stops_an_answer_without_tools(cli_env: CliEnv, style: Style) -> None:
    with FakeProvider(plan_tool_calls(1, usage=usage_of), cwd=cli_env.work) as till:
        bill = Account(cli_env, till).run(style.agent, "--mode", "complete", "--budget", "20ktok")
        assert_refused(bill, till, after=0)


def test_a_budget_stops_a_subagent_and_the_agent_that_waits_for_it(cli_env: CliEnv) -> None:
    def plan(asked: ReceivedCall) -> PlannedAnswer:
        return PlannedAnswer(uses=(Use(tool="Agent", input=DELEGATES),), usage=usage_of(asked.number))

    with FakeProvider(plan, cwd=cli_env.work) as till:
        bill = Account(cli_env, till).run("claude", "--budget", "1calls")
    assert bill.verdict == LIMITED
    assert len(till.received) == 1
    # The subagent's first, and the one in which its agent hears of the end.
    assert [call["call"] for call in bill.refused] == [2, 3]
    assert [event["call"] for event in bill.select_events("budget_refused")] == [2, 3]
    assert bill.ended["message"] == bill.select_events("budget_refused")[0]["message"]


def test_an_agent_that_waits_for_another_of_its_subagents_is_not_waited_for(cli_env: CliEnv) -> None:
    def plan(asked: ReceivedCall) -> PlannedAnswer:
        delegated = "x-claude-code-agent-id" in asked.headers
        uses = ("sleep 300",) if delegated else (Use(tool="Agent", input=DELEGATES),) * 2
        return PlannedAnswer(uses=uses, usage=usage_of(asked.number))

    with FakeProvider(plan, cwd=cli_env.work) as till:
        bill = Account(cli_env, till).run("claude", "--budget", "2calls")
        assert_refused(bill, till, after=2)
    # Five seconds to leave by itself, and the steps by which a run is ended: far from what its tool wants.
    assert 5.0 <= bill.ended["duration_s"] < 100.0
    check_no_processes(cli_env, bill.run_id)


def test_an_agent_that_gets_over_a_refusal_and_leaves_in_peace_was_limited_all_the_same(cli_env: CliEnv) -> None:
    configure(cli_env, ONE_DOLLAR)

    def plan(asked: ReceivedCall) -> PlannedAnswer:
        uses = () if asked.results else (Use(tool="Agent", input={**DELEGATES, "model": "haiku"}),)
        return PlannedAnswer(words="all is well", uses=uses, usage=usage_of(asked.number))

    with FakeProvider(plan, cwd=cli_env.work) as till:
        account = Account(cli_env, till, "--env", "ANTHROPIC_DEFAULT_HAIKU_MODEL=nobody-knows-its-price")
        bill = account.run("claude", "--budget", "5usd")
    assert (bill.verdict, bill.ended["exit_code"]) == (LIMITED, 0)
    assert [asked.ask.model for asked in till.received] == [MODELS["claude"]] * 2
    assert [call["model"] for call in bill.refused] == ["nobody-knows-its-price"]
    assert "No price is known for the model 'nobody-knows-its-price'" in bill.ended["message"]
    assert [event["text"] for event in bill.select_events("text_said")][-1] == "all is well"


DEAF = """
import http.client, json, os, signal, sys, time
if sys.argv[1:] == ["--version"]:
    print("2.1.325 (Claude Code)")
    sys.exit()
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
print(json.dumps({"type": "system", "subtype": "init", "session_id": "0"}), flush=True)
body = {"model": "claude-opus-5-5", "max_tokens": 10, "messages": [{"role": "user", "content": "more"}], "tools": []}
while True:
    gate = http.client.HTTPConnection(os.environ["ANTHROPIC_BASE_URL"].removeprefix("http://"))
    gate.request("POST", "/v1/messages", json.dumps(body), {"x-api-key": os.environ["ANTHROPIC_API_KEY"]})
    gate.getresponse().read()
    time.sleep(0.1)
"""


def test_an_agent_that_hears_no_refusal_is_made_to_leave(cli_env: CliEnv, fake: Callable[[str, str], str]) -> None:
    cli_env.env["INSPAN_CLAUDE_BIN"] = fake("deaf", DEAF)
    with FakeProvider(plan_tool_calls(1, usage=usage_of), cwd=cli_env.work) as till:
        account = Account(cli_env, till, "--sandbox", "none", "--allow-tool", "Bash")
        bill = account.run("claude", "--budget", "3calls")
    assert bill.verdict == LIMITED
    assert len(till.received) == 3
    assert len(bill.refused) > 1
    assert bill.ended["signal"] == 9
    # Five seconds to leave by itself, three after an interrupt, two after a request to terminate; then it is killed.
    assert 10.0 <= bill.ended["duration_s"] < 100.0
    check_no_processes(cli_env, bill.run_id)


@each_agent
def test_a_program_gets_a_result_that_says_limited(cli_env: CliEnv, style: Style) -> None:
    with FakeProvider(plan_small_calls, cwd=cli_env.work) as till:
        result, spent = _run_in_python(cli_env, style.agent, till, {"run": "2calls", "task": "2calls"})
    assert len(till.received) == 2
    # A task's limit is looked at before that of its run.
    message = "The budget of task default is 2 model calls: 2 model calls spent, 1 model call asked for."
    assert result == {
        "outcome": "limited",
        "reason": "budget",
        "error": message,
        "next_step": NEXT,
        "exit_code": 1,
        "raised": ["AgentFailed", "budget", f"{message} {NEXT}"],
    }
    assert spent == [
        "BudgetSpent",
        "budget_spent",
        "The budget of task default is 2 model calls: 2 model calls spent. "
        "Raise the budget; `inspan budget` shows what was spent.",
    ]


def test_a_budget_that_is_spent_lets_no_other_run_begin(cli_env: CliEnv) -> None:
    configure(cli_env, ONE_DOLLAR)
    spent = {"2calls": "2 model calls", "3ktok": "3000 tokens", "0.003usd": "$0.003"}
    used = {
        "2calls": "2 model calls",
        "3ktok": f"{usage_of(1).total + usage_of(2).total} tokens",
        "0.003usd": "$0.0037",
    }
    with FakeProvider(plan_tool_calls(2, usage=usage_of), cwd=cli_env.work) as till:
        account = Account(cli_env, till)
        assert account.run("codex").verdict == ("completed", "done", 0)
        before = account.cost(), account.budget()
        for node in ("task default", "project shop"):
            for limit in spent:
                refusal = account.expect_refusal("claude", "--budget", f"{node.partition(' ')[0]}={limit}")
                assert refusal == Refusal(
                    exit_code=6,
                    code="budget_spent",
                    message=f"The budget of {node} is {spent[limit]}: {used[limit]} spent.",
                    next="Raise the budget; `inspan budget` shows what was spent.",
                )
        assert (account.cost(), account.budget()) == before
        # A run's own budget is its own.
        assert account.run("codex", "--budget", "2calls").verdict == ("completed", "done", 0)


def test_a_budget_per_day_begins_anew_with_the_day(cli_env: CliEnv) -> None:
    _wait_past_midnight()
    with FakeProvider(plan_tool_calls(2, usage=usage_of), cwd=cli_env.work) as till:
        account = Account(cli_env, till, "--budget", "project=2calls/day")
        assert account.run("codex").verdict == ("completed", "done", 0)
        assert (
            account.expect_refusal("codex").message
            == "The budget of project shop is 2 model calls per day: 2 model calls spent."
        )
        _age_ledger_by_a_day(cli_env)
        assert account.run("codex").verdict == ("completed", "done", 0)
        assert account.node("project", "shop")["spent"]["calls"] == 2
        assert account.cost()["total"]["calls"] == 4


def test_a_task_may_be_started_again_as_often_as_its_budget_says(cli_env: CliEnv) -> None:
    with FakeProvider(plan_tool_calls(1, usage=usage_of), cwd=cli_env.work) as till:
        account = Account(cli_env, till, "--mode", "complete", "--budget", "task=2restarts")
        assert [account.run("codex").verdict[1] for _ in range(3)] == ["done"] * 3
        refusal = account.expect_refusal("codex")
        assert (refusal.exit_code, refusal.message) == (
            6,
            "The budget of task default is 2 restarts: 2 restarts spent, 1 restart asked for.",
        )
        assert account.run("codex", "--task", "another").verdict[1] == "done"


@each_agent
def test_a_budget_of_time_ends_a_run_whose_tool_hangs(cli_env: CliEnv, style: Style) -> None:
    with FakeProvider(plan_tool_calls(9, usage=usage_of, command="sleep 300"), cwd=cli_env.work) as till:
        account = Account(cli_env, till)
        bill = account.run(style.agent, "--budget", "3s")
    assert bill.verdict == LIMITED
    assert [event["node"] for event in bill.select_events("budget_refused")] == [f"run {bill.run_id}"]
    said, _, spent = bill.ended["message"].removesuffix(" s of run time spent.").rpartition(": ")
    assert (said, float(spent) >= 3.0) == (f"The budget of run {bill.run_id} is 3 s of run time", True)
    # Counted from before the agent's start, which its own duration leaves out.
    assert account.node("task")["spent"]["seconds"] >= 3.0
    check_no_processes(cli_env, bill.run_id)


def test_two_runs_at_once_share_the_time_of_their_task(cli_env: CliEnv) -> None:
    limit_s = 20.0
    with FakeProvider(plan_tool_calls(9, usage=usage_of, command="sleep 300"), cwd=cli_env.work) as till:
        account = Account(cli_env, till, "--budget", f"task={limit_s:g}s")
        run_ids = [account.detach("codex"), account.detach("codex")]
        bills = [account.wait_for_run(run_id) for run_id in run_ids]
        spent_s = account.node("task")["spent"]["seconds"]
        assert account.expect_refusal("codex").exit_code == 6
    assert [bill.verdict for bill in bills] == [LIMITED] * 2
    assert {event["node"] for bill in bills for event in bill.select_events("budget_refused")} == {"task default"}
    # Each for itself would have had all of it.
    assert limit_s <= spent_s < 2 * limit_s


@each_agent
def test_a_session_that_goes_on_goes_on_spending_its_tasks_budget(cli_env: CliEnv, style: Style) -> None:
    def plan(asked: ReceivedCall) -> PlannedAnswer:
        return (
            PlannedAnswer(words="done", usage=LARGE)
            if asked.number == 2
            else PlannedAnswer(uses=("true",), usage=LARGE)
        )

    with FakeProvider(plan, cwd=cli_env.work) as till:
        account = Account(cli_env, till, "--budget", "task=3calls")
        first = account.run(style.agent)
        assert first.verdict == ("completed", "done", 0)
        again = account.run(style.agent, "--resume", first.run_id)
        assert again.verdict == LIMITED
        assert [event["node"] for event in again.select_events("budget_refused")] == ["task default"]
        assert [len(bill.calls) - len(bill.refused) for bill in (first, again)] == [2, 1]
        assert len(again.refused) == 1
        assert len(till.received) == 3
        assert account.expect_refusal(style.agent, "--resume", first.run_id).code == "budget_spent"


_PROGRAM = """
import json, sys
import inspan

given = json.load(sys.stdin)
runner = inspan.create_agent_runner(given["agent"], profile="clean")
options = {"cwd": given["cwd"], "base_url": given["url"], "budgets": given["budgets"]}
result = inspan.run_sync(runner.exec("do it", **options))
said = {name: getattr(result, name) for name in ("outcome", "reason", "error", "next_step", "exit_code")}
try:
    result.check()
except inspan.InspanError as error:
    said["raised"] = [type(error).__name__, error.reason, str(error)]
try:
    inspan.run_sync(runner.exec("do it", **options))
except inspan.InspanError as error:
    spent = [type(error).__name__, error.code, str(error)]
print(json.dumps([said, spent]))
"""


def _run_in_python(
    cli_env: CliEnv, agent: str, till: FakeProvider, budgets: dict[str, str]
) -> tuple[dict[str, Any], list[str]]:
    """What a program is told of a run over its budget, and of a second one."""
    given = {"agent": agent, "cwd": str(cli_env.work), "url": till.url, "budgets": budgets}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env={**cli_env.env, "ANTHROPIC_API_KEY": KEY, "CODEX_API_KEY": KEY},
        cwd=cli_env.work,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said, spent = json.loads(done.stdout)
    return said, spent


def _wait_past_midnight() -> None:
    left_s = DAY_S - time.time() % DAY_S
    if left_s < 120:
        time.sleep(left_s)


def _age_ledger_by_a_day(cli_env: CliEnv) -> None:
    """As if all that is in the ledger had been spent a day earlier."""
    ledger = LedgerFile(str(cli_env.state))
    with ledger.write_transaction() as database:
        database.execute("UPDATE sum SET day = day - 1 WHERE day >= 0")
        database.execute("UPDATE spending SET at = at - ?", (DAY_S,))
    ledger.close()
