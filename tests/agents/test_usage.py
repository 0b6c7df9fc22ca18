"""A run's tokens and cost are its own, whatever its session used before: as its agent tells them, and as counted."""

import json
from typing import Any

import pytest

from inspan.protocol.usage import Usage
from tests.cli_env import CliEnv, kill_process, wait_until
from tests.gateway.scripted_gateway import ScriptedGateway

from .conversation import STALLS, WAIT_STEP, Conversation, has_saved_tool_use
from .styles import CLAUDE, Style, each_agent
from .test_direct import settings

FIRST = Usage(input=1000, output=100, cache_read=10, cache_write=20, reasoning=5)
SECOND = Usage(input=2000, output=200, cache_read=30, cache_write=40, reasoning=6)
THIRD = Usage(input=4000, output=400, cache_read=50, cache_write=60, reasoning=7)
FOURTH = Usage(input=8000, output=800, cache_read=70, cache_write=80, reasoning=8)
DELEGATES = (
    "use = {tool = 'Agent', input = {description = 'part', prompt = 'do a part', subagent_type = 'general-purpose'}}"
)


def call(step: str, usage: Usage) -> str:
    """A call of a scenario that does one thing and states this usage."""
    stated = ", ".join(f"{name} = {getattr(usage, name)}" for name in usage.__struct_fields__)
    return f"[[call]]\n{step}\nusage = {{{stated}}}\n"


def build_say_calls(*usages: Usage) -> str:
    """Calls that say something, one for each usage."""
    return "".join(call("say = 'x'", usage) for usage in usages)


class Direct:
    """Runs of one agent that ask a provider of the test's own, with no gateway between them."""

    def __init__(self, cli_env: CliEnv, style: Style, provider: ScriptedGateway) -> None:
        self._house = cli_env
        self._provider = provider
        self._command = ("run", "do it", "-a", style.agent, "--profile", "user", "--direct")
        self._env = settings(cli_env, style.agent, provider.port)

    def run(self, *more: str) -> tuple[str, Usage, float | None]:
        """The id, tokens and cost of a run that completes."""
        done = self._house.inspan(*self._command, *more, "--json", env=self._env)
        events = [json.loads(line)["event"] for line in done.stdout.splitlines()]
        assert done.returncode == 0, done.stderr or events[-1]
        return events[0]["run_id"], Usage(**events[-1]["usage"]), events[-1].get("cost_usd")

    def detach(self, *more: str) -> str:
        done = self._house.inspan(*self._command, *more, "-d", env=self._env)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def start_waiting(self, *more: str) -> str:
        """The id of a run whose tool is at work and waits."""
        run_id = self.detach(*more)
        wait_until((self._house.work / "started").exists, "tool")
        wait_until(lambda: has_saved_tool_use(self._house), "transcript")
        (self._house.work / "started").unlink()
        return run_id

    def release(self, run_id: str) -> Usage:
        (self._house.work / "go").touch()
        assert self._house.inspan("wait", run_id).returncode == 0
        return Usage(**self._house.events(run_id)[-1]["usage"])

    def lose(self, *more: str, moment: str) -> str:
        """The id of a run whose supervisor is killed: while its tool is at work, later, or before any answer."""
        run_id = self.detach(*more) if moment == "start" else self.start_waiting(*more)
        if moment == "turn":
            (self._house.work / "go").touch()
        if moment != "tool":
            self._provider.next_stall()
        # An agent may call its model before it has told, or its supervisor written down, how its session is called.
        self._house.wait_for_events(run_id, "thread_started")
        kill_process(self._house.supervisor(run_id))
        return run_id


@each_agent
def test_each_run_of_a_session_tells_its_own_tokens_and_cost(cli_env: CliEnv, style: Style) -> None:
    usages = (FIRST, SECOND, THIRD, FOURTH, FIRST)
    with ScriptedGateway(build_say_calls(*usages), cwd=str(cli_env.work)) as provider:
        direct = Direct(cli_env, style, provider)
        first = direct.run()
        second = direct.run("--resume", first[0])
        fork = direct.run("--resume", first[0], "--fork")
        inner = direct.run("--resume", fork[0], "--fork")
        again = direct.run("--resume", fork[0])
    told = (first, second, fork, inner, again)
    assert tuple(usage for _, usage, _ in told) == usages
    costs = [cost for *_, cost in told]
    assert costs[-1] == costs[0]
    assert all(costs) == (style is CLAUDE)


@pytest.mark.parametrize("moment", ["tool", "turn"])
@pytest.mark.parametrize("opening", [False, True], ids=["later run", "first run"])
@each_agent
def test_a_lost_runs_tokens_are_not_told_by_the_next(cli_env: CliEnv, style: Style, opening: bool, moment: str) -> None:
    stalls = STALLS if moment == "turn" else ""
    steps = (
        build_say_calls(*([] if opening else [FIRST]))
        + call(WAIT_STEP, SECOND)
        + stalls
        + build_say_calls(THIRD, FOURTH, FIRST)
    )
    with ScriptedGateway(steps, cwd=str(cli_env.work), stall_timeout_s=0.1) as provider:
        direct = Direct(cli_env, style, provider)
        resumed = () if opening else ("--resume", direct.run()[0])
        lost = direct.lose(*resumed, moment=moment)
        fork = direct.run("--resume", lost, "--fork")
        after = direct.run("--resume", lost)
        again = direct.run("--resume", fork[0])
    assert [usage for _, usage, _ in (fork, after, again)] == [THIRD, FOURTH, FIRST]


@each_agent
def test_what_was_counted_before_a_fork_is_known_when_the_fork_is_lost(cli_env: CliEnv, style: Style) -> None:
    steps = call(WAIT_STEP, FIRST) + STALLS + STALLS + build_say_calls(SECOND)
    with ScriptedGateway(steps, cwd=str(cli_env.work), stall_timeout_s=0.1) as provider:
        direct = Direct(cli_env, style, provider)
        lost = direct.lose(moment="turn")
        fork = direct.lose("--resume", lost, "--fork", moment="start")
        after = direct.run("--resume", fork)
    assert after[1] == SECOND


@each_agent
def test_a_fork_beside_a_running_original_tells_its_own_tokens(cli_env: CliEnv, style: Style) -> None:
    steps = build_say_calls(FIRST) + call(WAIT_STEP, SECOND) + build_say_calls(THIRD, FOURTH)
    with ScriptedGateway(steps, cwd=str(cli_env.work)) as provider:
        direct = Direct(cli_env, style, provider)
        first = direct.run()
        running = direct.start_waiting("--resume", first[0])
        fork = direct.run("--resume", first[0], "--fork")
        original = direct.release(running)
    assert (fork[1], original) == (THIRD, SECOND + FOURTH)


@each_agent
def test_a_gateway_counts_each_run_for_itself(cli_env: CliEnv, style: Style) -> None:
    talk = Conversation(cli_env, style.agent)
    first = talk.say("alpha-word", scenario=build_say_calls(FIRST))
    second = talk.say("beta-word", "--resume", first.run_id, scenario=build_say_calls(SECOND))
    fork = talk.say("fork-word", "--resume", first.run_id, "--fork", scenario=build_say_calls(THIRD))
    third = talk.say("gamma-word", "--resume", first.run_id, scenario=build_say_calls(FOURTH))
    told = [Usage(**turn.ended["usage"]) for turn in (first, second, fork, third)]
    assert told == [FIRST, SECOND, THIRD, FOURTH]
    # What the agent itself says of each turn, which is all there is without a gateway.
    own = [_sum_reported(turn.events) for turn in (first, second, fork, third)]
    assert own == told


def test_a_direct_run_counts_subagents_once(cli_env: CliEnv) -> None:
    steps = call(DELEGATES, FIRST) + build_say_calls(SECOND, THIRD, FOURTH)
    with ScriptedGateway(steps, cwd=str(cli_env.work)) as provider:
        direct = Direct(cli_env, CLAUDE, provider)
        delegating = direct.run()
        after = direct.run("--resume", delegating[0])
    assert (delegating[1], after[1]) == (_strip_reasoning(SECOND) + FIRST + THIRD, FOURTH)


def test_a_gateway_counts_subagents_once(cli_env: CliEnv) -> None:
    talk = Conversation(cli_env, CLAUDE.agent)
    turn = talk.say("alpha-word", scenario=call(DELEGATES, FIRST) + build_say_calls(SECOND, THIRD))
    assert Usage(**turn.ended["usage"]) == FIRST + SECOND + THIRD
    assert _sum_reported(turn.events) == FIRST + _strip_reasoning(SECOND) + THIRD


def _strip_reasoning(usage: Usage) -> Usage:
    """Of a subagent's output Claude Code does not say how much was reasoning."""
    return usage - Usage(reasoning=usage.reasoning)


def _sum_reported(events: list[dict[str, Any]]) -> Usage:
    (told,) = [event["usage"] for event in events if event["kind"] == "turn_completed"]
    return Usage(**told)
