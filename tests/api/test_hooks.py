"""Functions of the caller's that have a say while the real programs work: before a tool, after it, at the end."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Unpack, cast

import pytest

import inspan
from inspan import AgentResult, FinishedTurn, ToolCall
from inspan.api.options import SessionOptions
from inspan.errors import BadInput, SessionClosed, Unsupported
from inspan.protocol.events import ErrorReported, HookAnswered, HookCalled, PermissionAnswered, PermissionAsked
from inspan.protocol.limits import Limits
from tests.agents.conversation import WAIT_STEP

from .run_env import RunEnv, wait_until_async
from .test_open_session import can_hold, open_session

each_agent = pytest.mark.parametrize("agent", ["claude", "codex"])
_WRITES = """
    [[call]]
    run = "echo hi > made.txt"
    [[call]]
    say = "written"
"""
_SAYS = """
    [[call]]
    say = "done"
    repeat = "always"
"""


def _run(agents: RunEnv, agent: str, scenario: str, **options: Unpack[SessionOptions]) -> AgentResult:
    async def scene() -> AgentResult:
        async with open_session(agents, agent, scenario, **options) as session:
            return await session.send_message("do it")

    return asyncio.run(scene())


@each_agent
def test_a_tool_is_used_once_before_tool_lets_it_through(agents: RunEnv, agent: str) -> None:
    seen: list[tuple[str, bool]] = []

    def look(call: ToolCall) -> None:
        seen.append((call.subject, (agents.work / "made.txt").exists()))

    result = _run(agents, agent, _WRITES, before_tool=look)
    assert (result.message, result.reason) == ("written", "done"), result.error
    assert seen == [("echo hi > made.txt", False)]
    assert (agents.work / "made.txt").read_text() == "hi\n"
    # Nobody was asked but the function.
    assert not [event for event in agents.events() if isinstance(event, PermissionAsked | PermissionAnswered)]


@each_agent
def test_before_tool_holds_a_tool_back(agents: RunEnv, agent: str) -> None:
    async def refuse(call: ToolCall) -> inspan.Decision:
        return inspan.deny(f"{call.subject}: not today")

    result = _run(agents, agent, _WRITES, before_tool=refuse)
    assert result.reason == "done", result.error
    assert not (agents.work / "made.txt").exists()
    assert len(result.denied) == 1
    (answered,) = [event for event in agents.events() if isinstance(event, HookAnswered)]
    assert (answered.allowed, answered.reason) == (False, "echo hi > made.txt: not today")


@each_agent
def test_a_hook_hears_of_what_only_reads_too(agents: RunEnv, agent: str) -> None:
    seen: list[str] = []
    scenario = '[[call]]\nrun = "ls"\n[[call]]\nsay = "looked"\n'
    result = _run(agents, agent, scenario, before_tool=lambda call: seen.append(call.subject))
    assert (result.message, seen) == ("looked", ["ls"])


@can_hold(changed_input=True)
def test_before_tool_changes_what_is_done(agents: RunEnv, agent: str) -> None:
    def change(call: ToolCall) -> inspan.Decision:
        return inspan.allow(input={**call.input, "command": "echo changed > made.txt"})

    result = _run(agents, agent, _WRITES, before_tool=change)
    assert result.reason == "done", result.error
    assert (agents.work / "made.txt").read_text() == "changed\n"


@can_hold(changed_input=True)
def test_what_a_hook_has_changed_is_asked_about_as_it_is_then(agents: RunEnv, agent: str) -> None:
    asked: list[str] = []

    def change(call: ToolCall) -> inspan.Decision:
        return inspan.allow(input={**call.input, "command": "echo changed > made.txt"})

    def decide(request: inspan.PermissionRequest) -> bool:
        asked.append(request.subject)
        return True

    result = _run(agents, agent, _WRITES, before_tool=change, on_permission=decide, ask=["Bash(echo changed*)"])
    assert result.reason == "done", result.error
    assert asked == ["echo changed > made.txt"]
    assert (agents.work / "made.txt").read_text() == "changed\n"


def test_an_input_that_cannot_be_changed_is_not_used_as_it_was(agents: RunEnv) -> None:
    def change(call: ToolCall) -> inspan.Decision:
        return inspan.allow(input={"command": "echo changed > made.txt"})

    result = _run(agents, "codex", _WRITES, before_tool=change)
    assert not (agents.work / "made.txt").exists()
    assert len(result.denied) == 1
    (answered,) = [event for event in agents.events() if isinstance(event, HookAnswered)]
    assert not answered.allowed
    assert "takes no other input" in answered.reason


@each_agent
def test_a_hook_allows_nothing_that_a_rule_denies_or_a_person_is_asked_about(agents: RunEnv, agent: str) -> None:
    seen: list[str] = []

    def allow(call: ToolCall) -> bool:
        seen.append(call.subject)
        return True

    options: SessionOptions = {"before_tool": allow, "on_permission": lambda _: False, "ask": ["Bash(echo*)"]}
    result = _run(agents, agent, _WRITES, **options)
    assert not (agents.work / "made.txt").exists()
    assert (seen, len(result.denied)) == (["echo hi > made.txt"], 1)


@each_agent
@pytest.mark.parametrize("kind", ["raises", "gives nonsense", "never returns"])
def test_a_function_that_gives_no_answer_lets_nothing_through(agents: RunEnv, agent: str, kind: str) -> None:
    released = threading.Event()

    def judge(call: ToolCall) -> Any:
        if kind == "raises":
            raise SystemExit("out of order")
        if kind == "never returns":
            released.wait(60)
        return "perhaps"

    limits = Limits(hook_timeout_s=0.3 if kind == "never returns" else 60.0)
    try:
        result = _run(agents, agent, _WRITES, before_tool=judge, limits=limits)
    finally:
        released.set()
    assert not (agents.work / "made.txt").exists()
    assert len(result.denied) == 1


@each_agent
def test_what_after_tool_gives_is_told_to_the_agent(agents: RunEnv, agent: str) -> None:
    seen: list[ToolCall] = []
    scenario = """
        [[call]]
        run = "echo hi > made.txt; echo this is what it gave"
        [[call]]
        when = "the file is short"
        say = "I was told."
        [[call]]
        say = "Nobody told me."
        repeat = "always"
    """

    def review(call: ToolCall) -> str:
        seen.append(call)
        return "the file is short"

    result = _run(agents, agent, scenario, after_tool=review)
    assert (result.message, result.reason) == ("I was told.", "done"), result.error
    (call,) = seen
    assert ("echo hi > made.txt" in call.subject, call.failed) == (True, False)
    assert "this is what it gave" in call.output


@each_agent
def test_after_tool_hears_of_a_tool_that_failed(agents: RunEnv, agent: str) -> None:
    seen: list[bool] = []
    scenario = '[[call]]\nrun = "exit 3"\n[[call]]\nsay = "it failed"\n'
    result = _run(agents, agent, scenario, after_tool=lambda call: seen.append(call.failed))
    assert (result.message, seen) == ("it failed", [True])


@each_agent
def test_on_stop_sends_the_agent_on(agents: RunEnv, agent: str) -> None:
    seen: list[FinishedTurn] = []
    scenario = """
        [[call]]
        when = "the tests are red"
        say = "fixed"
        [[call]]
        say = "I think so"
        repeat = "always"
    """

    def check(turn: FinishedTurn) -> str | None:
        seen.append(turn)
        return None if turn.continued else "the tests are red"

    result = _run(agents, agent, scenario, on_stop=check)
    assert (result.message, result.reason) == ("fixed", "done"), result.error
    assert [(turn.message, turn.continued) for turn in seen] == [("I think so", 0), ("fixed", 1)]
    assert result.tokens_used.output == 14  # Of both turns: they are one message.


@pytest.mark.parametrize("hook", ["after_tool", "on_stop"])
@pytest.mark.parametrize("kind", ["raises", "gives nonsense", "never returns"])
@each_agent
def test_an_agent_goes_on_without_an_answer(agents: RunEnv, agent: str, kind: str, hook: str) -> None:
    released = threading.Event()

    def judge(_: object) -> object:
        if kind == "raises":
            raise RuntimeError("out of order")
        if kind == "never returns":
            released.wait(60)
        return 5

    limits = Limits(hook_timeout_s=0.3 if kind == "never returns" else 60.0)
    options = cast(SessionOptions, {hook: judge, "limits": limits})
    try:
        result = _run(agents, agent, _WRITES, **options)
    finally:
        released.set()
    assert (result.message, result.reason) == ("written", "done"), result.error
    problems = [event.message for event in agents.events() if isinstance(event, ErrorReported)]
    assert [hook in problem for problem in problems] == [True]


@each_agent
def test_a_message_can_be_interrupted_while_a_function_thinks(agents: RunEnv, agent: str) -> None:
    thinking = threading.Event()
    released = threading.Event()

    def think(_: FinishedTurn) -> str:
        thinking.set()
        released.wait(60)
        return "go on"

    async def scene() -> AgentResult:
        async with open_session(agents, agent, _SAYS, on_stop=think) as session:
            waiting = await session.follow_up("do it")
            await wait_until_async(thinking.is_set, "function")
            await session.abort()
            return await waiting

    try:
        result = asyncio.run(scene())
    finally:
        released.set()
    assert (result.message, result.outcome, result.reason) == ("done", "cancelled", "interrupted")
    (answered,) = [event for event in agents.events() if isinstance(event, HookAnswered)]
    assert (answered.by, answered.reason) == ("inspan", "the turn was interrupted")


@can_hold(messages=True)
def test_one_prompt_has_hooks_too(agents: RunEnv, agent: str) -> None:
    seen: list[str] = []

    async def scene() -> AgentResult:
        name, _, channel = agent.partition(" ")
        runner = inspan.create_agent_runner(name, profile="clean", cwd=agents.work, channel=channel)
        return await runner.exec(
            "do it",
            model_from=agents.scenario(_WRITES),
            before_tool=lambda call: seen.append("before"),
            after_tool=lambda call: seen.append("after"),
            on_stop=lambda turn: seen.append("stop"),
        )

    result = asyncio.run(scene())
    assert (result.message, result.reason, seen) == ("written", "done", ["before", "after", "stop"]), result.error


@each_agent
def test_a_supervised_session_calls_the_hooks_of_whoever_is_there(agents: RunEnv, agent: str) -> None:
    seen: list[str] = []

    async def scene() -> AgentResult:
        def look(call: ToolCall) -> None:
            seen.append("first")

        async with open_session(agents, agent, _WRITES + _SAYS, before_tool=look, supervised=True) as session:
            await session.send_message("do it")
            await session.detach()
            run_id = session.run_id
        attached = inspan.attach_session(run_id, cwd=agents.work, on_stop=lambda _: None)
        async with attached as session:
            result = await session.send_message("again")
            await session.close()
        return result

    result = asyncio.run(scene())
    assert (result.message, seen) == ("done", ["first"])


def test_hooks_need_a_channel_that_has_them(agents: RunEnv) -> None:
    async def scene(agent: str, **options: Unpack[SessionOptions]) -> None:
        async with open_session(agents, agent, _SAYS, **options):
            pass

    with pytest.raises(Unsupported, match="before_tool in review"):
        asyncio.run(scene("codex", before_tool=lambda _: None, mode="review"))
    with pytest.raises(Unsupported, match="hooks"):
        asyncio.run(scene("claude", on_stop=lambda _: None, channel="stream"))
    with pytest.raises(BadInput, match="before_tool"):
        asyncio.run(scene("claude", before_tool=cast(Any, "f")))
    assert agents.folders() == []


def test_a_review_has_hooks_where_the_program_calls_them_itself(agents: RunEnv) -> None:
    Path(agents.work / "here.txt").touch()
    seen: list[str] = []
    scenario = '[[call]]\nrun = "ls"\n[[call]]\nrun = "touch new.txt"\n[[call]]\nsay = "looked"\n'
    result = _run(agents, "claude", scenario, before_tool=lambda call: seen.append(call.subject), mode="review")
    assert (result.message, result.reason) == ("looked", "done"), result.error
    assert seen == ["ls", "touch new.txt"]
    assert not (agents.work / "new.txt").exists()


def test_what_a_hook_is_called_for_is_in_the_log(agents: RunEnv) -> None:
    _run(agents, "claude", _WRITES, before_tool=lambda _: None, after_tool=lambda _: "fine")
    told = [event for event in agents.events() if isinstance(event, HookCalled | HookAnswered)]
    assert [(type(event), event.hook) for event in told] == [
        (HookCalled, "before_tool"),
        (HookAnswered, "before_tool"),
        (HookCalled, "after_tool"),
        (HookAnswered, "after_tool"),
    ]
    called, _, after, answered = told
    assert isinstance(called, HookCalled)
    assert isinstance(after, HookCalled)
    assert isinstance(answered, HookAnswered)
    assert called.tool_id == after.tool_id != ""
    assert (called.tool, answered.text, answered.by) == ("Bash", "fine", "function")


def _raise_unprintable(_: object) -> Any:
    raise _Unprintable


class _Unprintable(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("not even that")

    __str__ = __repr__


_UNFIT: dict[str, Callable[[Any], Any]] = {
    "a reason that is no text": lambda _: inspan.deny(cast(Any, ["not", "here"])),
    "a reason that cannot be written": lambda _: inspan.deny("\ud800"),
    "an object as a reason": lambda _: inspan.deny(cast(Any, object())),
    "an input that is no dict": lambda _: inspan.allow(input=cast(Any, "echo safe")),
    "an empty input": lambda _: inspan.allow(input={}),
    "keys that are no text": lambda _: inspan.allow(input=cast(Any, {1: 2})),
    "what JSON does not have": lambda _: inspan.allow(input={"command": {1, 2}}),
    "text that cannot be written": lambda _: inspan.allow(input={"command": "\ud800"}),
    "neither yes nor no": lambda _: inspan.Decision(allowed=cast(Any, "no")),
    "a bare next()": lambda _: next(iter(())),
    "an exception that cannot be shown": _raise_unprintable,
}


@pytest.mark.parametrize("function", ["before_tool", "on_permission"])
@pytest.mark.parametrize("kind", _UNFIT)
def test_what_is_no_fit_answer_denies(agents: RunEnv, kind: str, function: str) -> None:
    options = cast(SessionOptions, {function: _UNFIT[kind]})
    if function == "on_permission":
        options["ask"] = ["Bash"]
    result = _run(agents, "claude", _WRITES, **options)
    assert (result.message, result.reason) == ("written", "done"), result.error
    assert not (agents.work / "made.txt").exists()
    assert len(result.denied) == 1


@pytest.mark.parametrize("function", ["before_tool", "on_permission"])
def test_an_input_that_is_given_back_as_it_was_is_no_change(agents: RunEnv, function: str) -> None:
    def give_back(call: Any) -> inspan.Decision:
        return inspan.allow(input={**call.input})

    options = cast(SessionOptions, {function: give_back, "ask": ["Bash"]})
    options.setdefault("on_permission", lambda _: True)
    result = _run(agents, "codex", _WRITES, **options)  # It could not take another one.
    assert (agents.work / "made.txt").exists(), result.denied


@each_agent
def test_a_tool_that_gives_an_unprintable_exception_is_answered(agents: RunEnv, agent: str) -> None:
    @inspan.tool
    def odd() -> str:
        """Is odd."""
        return _raise_unprintable(None)

    scenario = '[[call]]\nuse = {tool = "odd", server = "inspan", input = {}}\n[[call]]\nsay = "heard"\n'
    result = _run(agents, agent, scenario, tools=[odd])
    assert (result.message, result.reason) == ("heard", "done"), result.error


def test_a_rule_denies_what_an_answer_has_made_of_a_call(agents: RunEnv) -> None:
    def change(request: inspan.PermissionRequest) -> inspan.Decision:
        return inspan.allow(input={**request.input, "command": "touch evaded.txt"})

    result = _run(agents, "claude", _WRITES, on_permission=change, ask=["Bash"], disallowed_tools=["Bash(touch *)"])
    assert not (agents.work / "evaded.txt").exists()
    assert not (agents.work / "made.txt").exists()
    assert len(result.denied) == 1


def test_what_is_allowed_for_good_is_what_was_allowed(agents: RunEnv) -> None:
    asked: list[str] = []

    def change(request: inspan.PermissionRequest) -> inspan.Decision:
        asked.append(request.subject)
        return inspan.allow(input={**request.input, "command": "touch other.txt"}, always=True)

    scenario = _WRITES + _WRITES

    async def scene() -> None:
        async with open_session(agents, "claude", scenario, on_permission=change, ask=["Bash"]) as session:
            await session.send_message("write it")
            await session.send_message("again")

    asyncio.run(scene())
    assert asked == ["echo hi > made.txt", "echo hi > made.txt"]
    assert not (agents.work / "made.txt").exists()


@pytest.mark.parametrize("function", ["before_tool", "on_permission"])
def test_whoever_decides_sees_all_of_a_large_input(agents: RunEnv, function: str) -> None:
    seen: list[int] = []
    scenario = "[[call]]\nwrite = {path = 'big.txt', content = '" + "x" * 1_200_000 + "'}\n[[call]]\nsay = 'written'\n"

    def judge(call: ToolCall) -> inspan.Decision:
        seen.append(max(len(str(value)) for value in call.input.values()))
        return inspan.deny("too large")

    options = cast(SessionOptions, {function: judge, "ask": ["Write"]})
    result = _run(agents, "claude", scenario, **options)
    assert [size >= 1_200_000 for size in seen] == [True], result.error
    assert not (agents.work / "big.txt").exists()


def test_functions_that_never_return_hold_up_nobody_else(agents: RunEnv) -> None:
    """They would fill the loop's own threads, in which others wait, and which a program waits for at its end."""
    program = f"""
import asyncio, threading
import inspan

async def main():
    for _ in range(12):
        session = inspan.open_session("claude", profile="clean", cwd={str(agents.work)!r},
            model_from={agents.scenario(_WRITES + _SAYS)!r}, limits=inspan.Limits(hook_timeout_s=0.2),
            before_tool=lambda _: threading.Event().wait())
        async with session:
            result = await session.send_message("do it")
            assert len(result.denied) == 1
        if await asyncio.wait_for(asyncio.to_thread(lambda: 5), 60) != 5:
            raise SystemExit(1)
    print("over", flush=True)

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stdout) == (0, "over\n"), done.stderr


@pytest.mark.parametrize("agent", ["claude"])
def test_an_agent_is_not_sent_on_for_ever(agents: RunEnv, agent: str) -> None:
    seen: list[int] = []

    def go_on(turn: FinishedTurn) -> str:
        seen.append(turn.continued)
        return "go on"

    result = _run(agents, agent, _SAYS, on_stop=go_on, max_turns=3)
    assert (result.outcome, result.reason) == ("limited", "max_turns"), result.error
    assert seen == [0, 1, 2]


def test_whoever_waits_hears_that_a_session_was_let_go_of(agents: RunEnv) -> None:
    async def scene() -> None:
        scenario = f"[[call]]\n{WAIT_STEP}\n[[call]]\nsay = 'done'\n"
        session = open_session(agents, "claude", scenario, supervised=True)
        async with session:
            waiting = await session.follow_up("wait")
            await wait_until_async(lambda: (agents.work / "started").exists(), "tool")
            reading = asyncio.create_task(_read_all(session))
            await session.detach()
            with pytest.raises(SessionClosed, match="attach_session"):
                await waiting
            with pytest.raises(SessionClosed, match="attach_session"):
                await session.send_message("are you there?")
            await reading
        (agents.work / "go").touch()
        async with inspan.attach_session(session.run_id, cwd=agents.work) as again:
            await again.close()

    asyncio.run(scene())


async def _read_all(session: inspan.AgentSession) -> int:
    return len([record async for record in session])


def test_a_cancelled_start_leaves_no_session(agents: RunEnv) -> None:
    async def scene() -> None:
        opening = asyncio.create_task(_enter(open_session(agents, "claude", _SAYS, supervised=True)))
        await wait_until_async(lambda: agents.folders() and (agents.folders()[0] / "events.jsonl").exists(), "run")
        opening.cancel()
        await asyncio.wait({opening})
        if opening.cancelled():
            # Cancelled early, all of it is undone.
            await wait_until_async(lambda: not agents.folders() or agents.has_ended(), "end of the run")
        else:
            await opening.result().close()

    asyncio.run(scene())


async def _enter(session: inspan.AgentSession) -> inspan.AgentSession:
    return await session.__aenter__()
