"""What real agents use is what their provider says they used: call by call, in every place that tells of it."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from inspan.gateway.scripts.scenario import Use
from inspan.protocol.spending import NANO_PER_USD
from inspan.protocol.usage import Usage
from tests.cli_env import CliEnv, kill_process, wait_until

from .account import Account, Bill, configure
from .fake_provider import AnsweredCall, FakeProvider, PlannedAnswer, ReceivedCall, plan_tool_calls, usage_of
from .styles import Style, each_agent

TEN = ("claude", "codex") * 5
ROLES = ("main", "side", "retry")
TOKENS = Usage.__struct_fields__
# A million tokens for a dollar, and few set aside for an answer: a call is estimated at 15 to 20 thousand tokens.
PRICES = "[limits]\nlargest_answer = 1000\n" + "".join(
    f'[prices."{model}"]\ninput = 1.0\noutput = 1.0\ncache_read = 1.0\ncache_write = 1.0\n'
    for model in ("claude-opus-5-5", "gpt-6.1-sol")
)
RETRIES = {
    "claude": ("--env", "CLAUDE_CODE_MAX_RETRIES=9"),
    "codex": (
        *("--option=-c", "--option=model_providers.inspan.request_max_retries=9"),
        *("--option=-c", "--option=model_providers.inspan.stream_max_retries=9"),
    ),
}


def is_aside(asked: ReceivedCall) -> bool:
    """A request for a search, or for the sum of a conversation: both offer nothing that the agent could do."""
    return not any(tool.fields or tool.kind == "custom" for tool in asked.ask.tools)


class Trouble:
    """A provider under which runs work on for so many calls each, with errors, cuts and side requests on the way."""

    def __init__(self, calls: int) -> None:
        self._calls = calls
        self._came: Counter[str] = Counter()
        self._answered: Counter[str] = Counter()

    def __call__(self, asked: ReceivedCall) -> PlannedAnswer:
        usage = usage_of(asked.number)
        self._came[asked.session] += 1
        came = self._came[asked.session]
        # Never near the gateway's own: an agent gives up after three of them.
        if came % 21 == 0:
            return PlannedAnswer(status=529)
        if is_aside(asked):
            return PlannedAnswer(words="what was asked for", usage=usage)
        if came % 27 == 0:
            return PlannedAnswer(words="so far", usage=usage, cut=True)
        self._answered[asked.session] += 1
        count = self._answered[asked.session]
        if count >= self._calls:
            return PlannedAnswer(words="done", usage=usage)
        searches = count % 12 == 5 and "anthropic-version" in asked.headers
        return PlannedAnswer(
            uses=(Use(tool="WebSearch", input={"query": "weather"}) if searches else "true",), usage=usage
        )


def test_usage_is_the_providers_own_count_over_two_hundred_calls(cli_env: CliEnv) -> None:
    faults = ("--fault", "every 17: 529", "--fault", "5%: cut")
    compacts = ("-m", "gpt-5.5", "--option=-c", "--option=model_auto_compact_token_limit=3000")
    # Under each of these seeds several of the first calls are cut.
    crew = {8: ("claude",), 16: ("claude",), 1: ("codex",), 9: ("codex", *compacts)}
    with FakeProvider(Trouble(46), cwd=cli_env.work) as till:
        account = Account(cli_env, till)
        started = [
            account.start(agent, *more, *RETRIES[agent], *faults, "--fault-seed", str(seed))
            for seed, (agent, *more) in crew.items()
        ]
        bills = account.wait_all(started)
    assert [bill.verdict for bill in bills] == [("completed", "done", 0)] * len(crew)
    books = {bill.run_id: [each for each in till.entries if each.asked.session == _session(bill)] for bill in bills}
    assert sum(map(len, books.values())) == len(till.entries) == len(till.received) >= 200
    for bill in bills:
        _assert_counted(bill, books[bill.run_id], account)
    assert _tokens(account.cost()["total"]) == till.stated
    assert all(bill.select_events("rate_limited") == [] for bill in bills)


def _assert_counted(bill: Bill, entries: list[AnsweredCall], account: Account) -> None:
    """The calls of one run, in all places that tell of them, are those in the provider's books."""
    made = [call for call in bill.calls if call.get("message") != "Overloaded."]
    spoilt = [call for call in bill.calls if call.get("status") != 200 or call.get("problem")]
    # Every call that the provider has seen, once and in order, with what it stated; an error states nothing.
    assert [_usage(call) for call in made] == [entry.stated for entry in entries]
    assert [call["status"] for call in made] == [entry.status for entry in entries]
    assert len(bill.calls) - len(made) == len(bill.calls) // 17
    # Whatever was spoilt was asked again, by an agent that may; everything else is what the provider took it for.
    roles = [call.get("role", "main") for call in bill.calls]
    assert roles.count("retry") == len(spoilt) > 4
    told = [
        (role, "side" if is_aside(entry.asked) else "main") for role, entry in zip(_roles(made), entries, strict=True)
    ]
    assert [pair for pair in told if pair[0] not in ("retry", pair[1])] == []
    assert (roles.count("side") > 0) == (made[0]["model"] != "gpt-6.1-sol")
    stated = sum((entry.stated for entry in entries if entry.stated), Usage())
    assert (bill.usage, bill.ended["model_calls"]) == (stated, len(bill.calls))
    rows = sorted((row for row in account.ledger if row.run_id == bill.run_id), key=lambda row: row.call)
    assert [(row.call, row.role) for row in rows] == [(call["call"], call.get("role", "main")) for call in made]
    assert [row.usage for row in rows] == [entry.stated if entry.status == 200 else Usage() for entry in entries]
    (group,) = [each for each in account.cost("--by", "run")["groups"] if each["name"] == bill.run_id]
    assert (_tokens(group), group["calls"]) == (stated, len(entries))
    assert {role: group["roles"][role]["calls"] for role in ROLES} == {role: _roles(made).count(role) for role in ROLES}
    _assert_difference_told(bill, stated)


def _assert_difference_told(bill: Bill, stated: Usage) -> None:
    """The agent does not know of answers that never reached it whole, which is more than one percent here."""
    (event,) = bill.select_events("usage_differs")
    told = Usage(**bill.ended["told"])
    assert (Usage(**event["told"]), Usage(**event["measured"])) == (told, stated)
    off = [100 * abs(getattr(told, name) - getattr(stated, name)) / getattr(stated, name) for name in TOKENS]
    assert event["percent"] == round(max(off), 1) > 1.0


@each_agent
def test_an_answer_that_the_agent_does_not_hear_to_its_end_is_counted(cli_env: CliEnv, style: Style) -> None:
    def plan(asked: ReceivedCall) -> PlannedAnswer:
        uses = ("true",) if asked.results < 2 else ()
        return PlannedAnswer(words="x", uses=uses, usage=usage_of(asked.number), keeps_open=style.agent == "codex")

    with FakeProvider(plan, cwd=cli_env.work) as till:
        account = Account(cli_env, till)
        bill = account.run(style.agent)
    assert bill.verdict == ("completed", "done", 0)
    assert [(_usage(call), call.get("problem", "")) for call in bill.calls] == [(usage_of(n), "") for n in (1, 2, 3)]
    assert (bill.usage, Usage(**bill.ended["told"])) == (till.stated, till.stated)
    assert [row.usage for row in account.ledger] == [usage_of(n) for n in (1, 2, 3)]
    # Where both counts agree there is nothing to tell.
    assert bill.select_events("usage_differs") == []
    assert bill.select_events("error_reported") == []


def test_an_answer_that_breaks_off_is_paid_for_and_asked_again(cli_env: CliEnv) -> None:
    def plan(asked: ReceivedCall) -> PlannedAnswer:
        return PlannedAnswer(words="so far", usage=usage_of(asked.number), cut=asked.ask.stream)

    with FakeProvider(plan, cwd=cli_env.work) as till:
        account = Account(cli_env, till)
        bill = account.run("claude")
    # Whatever its setting for retries, it asks once more for an answer that broke off, and then not for a stream.
    assert bill.verdict == ("completed", "done", 0)
    assert [(asked.ask.stream, asked.results) for asked in till.received] == [(True, 0), (False, 0)]
    assert [(call.get("problem", ""), _usage(call)) for call in bill.calls] == [
        ("cut", till.entries[0].stated),
        ("", usage_of(2)),
    ]
    assert _roles(bill.calls) == [row.role for row in account.ledger] == ["main", "retry"]
    # Whether it counts the first one too depends on how much it had read when that broke off: the gateway knows both.
    assert bill.usage == till.stated
    assert Usage(**bill.ended["told"]) in (till.stated, usage_of(2))
    assert bool(bill.select_events("usage_differs")) == (Usage(**bill.ended["told"]) != till.stated)
    assert account.cost()["total"]["roles"]["retry"]["calls"] == 1


def test_an_answer_that_is_cut_on_its_way_is_known_whole_and_asked_again(cli_env: CliEnv) -> None:
    def plan(asked: ReceivedCall) -> PlannedAnswer:
        # The second request is there before the first answer has been read to its end.
        return PlannedAnswer(words="x", usage=usage_of(asked.number), interval_s=0.5 if asked.number == 1 else 0.0)

    with FakeProvider(plan, cwd=cli_env.work) as till:
        account = Account(cli_env, till)
        bill = account.run("claude", "--fault", "call 1: cut")
    assert bill.verdict == ("completed", "done", 0)
    assert [(call.get("problem", ""), call.get("role", "main"), _usage(call)) for call in bill.calls] == [
        ("cut", "main", usage_of(1)),
        ("", "retry", usage_of(2)),
    ]
    assert {row.call: row.usage for row in account.ledger} == {1: usage_of(1), 2: usage_of(2)}
    assert bill.usage == till.stated


class Crowd:
    """Ten runs that want four calls each, of which none is answered before `go`.

    A victim, whose session that is, is the first to come: its first call is answered at once, and its second never.
    """

    def __init__(self, usage: Callable[[int], Usage], *, has_victim: bool) -> None:
        self.go = threading.Event()
        self.never = threading.Event()
        self.victim = ""
        self._has_victim = has_victim
        self._usage = usage

    def __call__(self, asked: ReceivedCall) -> PlannedAnswer:
        says = plan_tool_calls(4, usage=self._usage)(asked)
        if not self._has_victim or (asked.number > 1 and asked.session != self.victim):
            return PlannedAnswer(words=says.words, uses=says.uses, usage=says.usage, after=self.go)
        self.victim = asked.session
        return says if asked.number == 1 else PlannedAnswer(after=self.never)


def test_ten_agents_share_a_budget_of_calls_and_one_that_dies_has_spent_its_part(cli_env: CliEnv) -> None:
    most = 20
    crowd = Crowd(usage_of, has_victim=True)
    with FakeProvider(crowd, cwd=cli_env.work) as till:
        account = Account(cli_env, till, "--budget", f"project={most}calls")
        run_ids = [account.detach(agent) for agent in TEN]
        wait_until(lambda: len(till.received) > len(TEN), "all ten, and one of them twice")
        wait_until(lambda: _calls(account) == (1, len(TEN)), "the end of the first call, in the ledger")
        crowd.go.set()
        # All but the victim's part is used; whoever wants more waits for it.
        wait_until(lambda: _calls(account) == (most - 1, 1), "the rest")
        assert len(till.received) == most
        (victim,) = wait_until(
            lambda: [run_id for run_id in run_ids if _find_session(cli_env, run_id) == crowd.victim], "victim"
        )
        kill_process(cli_env.supervisor(victim))
        bills = [account.wait_for_run(run_id) for run_id in run_ids if run_id != victim]
        entries = till.entries
        crowd.never.set()
    # The one call that nobody heard the end of is spent all the same: no other was made in its place.
    assert len(till.received) == len(account.ledger) == most
    assert len(entries) == most - 1
    assert sum((row.usage for row in account.ledger if row.usage), Usage()) == _sum(entry.stated for entry in entries)
    assert [row.usage for row in account.ledger if row.run_id == victim] == [usage_of(1), None]
    assert _calls(account) == (most, 0)
    _assert_the_rest_was_refused(bills, node="project shop")
    assert sum(len(bill.calls) - len(bill.refused) for bill in bills) == most - 2
    lost = account.wait_for_run(victim)
    assert (lost.usage, [call.get("problem", "") for call in lost.calls]) == (usage_of(1), ["", "lost"])
    _assert_nothing_is_given_back(cli_env, account, run_ids)


def test_ten_agents_share_a_budget_of_dollars(cli_env: CliEnv) -> None:
    most_usd, each = 0.10, Usage(input=11_000, output=100, cache_read=600, cache_write=300, reasoning=50)
    configure(cli_env, PRICES)
    crowd = Crowd(lambda number: each, has_victim=False)
    with FakeProvider(crowd, cwd=cli_env.work) as till:
        account = Account(cli_env, till, "--budget", f"project={most_usd}usd")
        run_ids = [account.detach(agent) for agent in TEN]
        wait_until(lambda: till.received and all(_find_session(cli_env, run_id) for run_id in run_ids), "all ten")
        # All want to ask at once, and there is room for some: a moment for the others to come too, if they could.
        time.sleep(1.0)
        under_way = account.node("project", "shop")
        crowd.go.set()
        bills = [account.wait_for_run(run_id) for run_id in run_ids]
    assert 0 < under_way["reserved"]["calls"] < len(TEN)
    assert (under_way["spent"]["usd"], under_way["reserved"]["usd"] <= most_usd) == (0, True)
    nano = [row.nano for row in account.ledger if row.nano is not None]
    assert nano == [each.total * 1_000] * len(till.entries)
    # What was set aside was enough for every call here, so that nothing at all is over the limit; and no run was
    # refused while there was room for what its call would have set aside.
    asked_for = [_parse_asked_usd(event["message"]) for bill in bills for event in bill.select_events("budget_refused")]
    assert sum(nano) <= most_usd * NANO_PER_USD < sum(nano) + max(asked_for) * NANO_PER_USD
    assert account.node("project", "shop")["spent"]["usd"] == sum(nano) / NANO_PER_USD
    assert round(sum(bill.ended["cost_usd"] for bill in bills) * NANO_PER_USD) == sum(nano)
    _assert_the_rest_was_refused(bills, node="project shop")


def _assert_the_rest_was_refused(bills: list[Bill], *, node: str) -> None:
    """A run either came to its end or was refused a call, by this node and once."""
    ends = {bill.verdict for bill in bills}
    assert {("limited", "budget", 6)} <= ends <= {("completed", "done", 0), ("limited", "budget", 6)}
    for bill in bills:
        refused = [node] if bill.ended["reason"] == "budget" else []
        assert [event["node"] for event in bill.select_events("budget_refused")] == refused
        assert len(bill.refused) == len(refused)
        assert bill.select_events("usage_differs") == []


def _assert_nothing_is_given_back(cli_env: CliEnv, account: Account, run_ids: list[str]) -> None:
    before = account.cost("--by", "project"), account.budget()
    assert cli_env.inspan("reindex").returncode == 0
    assert (account.cost("--by", "project"), account.budget()) == before
    assert cli_env.inspan("rm", "--yes", *run_ids).returncode == 0
    assert (account.cost("--by", "project"), account.budget()) == before
    assert cli_env.inspan("reindex").returncode == 0
    assert (account.cost("--by", "project"), account.budget()) == before
    assert account.expect_refusal("codex").code == "budget_spent"


def _calls(account: Account) -> tuple[int, int]:
    """Those that the project has spent, and those under way."""
    project = account.node("project", "shop")
    return project["spent"]["calls"], project["reserved"]["calls"]


def _find_session(cli_env: CliEnv, run_id: str) -> str:
    """The agent's own name for the conversation of a living run."""
    return next((event["session_id"] for event in cli_env.events(run_id) if event["kind"] == "thread_started"), "")


def _parse_asked_usd(message: str) -> float:
    return float(message.partition("up to $")[2].split()[0])


def _session(bill: Bill) -> str:
    return bill.ended["session_id"]


def _roles(calls: Iterable[dict[str, Any]]) -> list[str]:
    return [call.get("role", "main") for call in calls]


def _usage(call: dict[str, Any]) -> Usage | None:
    return Usage(**call["usage"]) if "usage" in call else None


def _tokens(part: dict[str, Any]) -> Usage:
    return Usage(**{name: part[name] for name in TOKENS})


def _sum(usages: Iterable[Usage | None]) -> Usage:
    return sum((usage for usage in usages if usage), Usage())
