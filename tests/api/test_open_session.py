"""Open sessions with the real programs: one process, many messages, whatever the agent."""

import asyncio
import fcntl
import json
import os
import sys
import termios
from contextlib import suppress
from typing import Unpack

import pytest

import inspan
from inspan import AgentResult, PermissionRequest, SessionState
from inspan.agents.registry import load_drivers
from inspan.api.options import SessionOptions
from inspan.contracts.driver import SessionSupport
from inspan.errors import CommandRefused, SessionClosed
from inspan.protocol.events import Question, ToolCompleted
from tests.agents.conversation import WAIT_STEP
from tests.cli_env import kill_process, list_pids, open_files, wait_until

from .run_env import RunEnv, descriptors, wait_until_async


def _support(driver: object) -> SessionSupport:
    channels = getattr(driver, "channels", ())
    return next((each.session for each in channels if each.session.messages), SessionSupport())


# One line: a table of TOML ends with it.
_QUESTION = (
    'use = {tool = "AskUserQuestion", input = {questions = [{question = "Which colour?", header = "Colour", '
    'multiSelect = false, options = [{label = "red", description = "warm"}, {label = "blue", description = "cold"}]}]}}'
)
_DRIVERS = {driver.name: driver for driver in load_drivers() if driver.program.install.package}
# Those whose programs come with the tests, by their usual channel for sessions and by the vendor's SDK; `inspan matrix`
# does the same for all of them.
_LOCAL = {name: driver for name, driver in _DRIVERS.items() if driver.program.install.source == "wheel"}
_HERE = {name: _support(driver) for name, driver in _LOCAL.items()} | {
    f"{name} {channel.name}": channel.session
    for name, driver in _LOCAL.items()
    for channel in driver.channels
    if channel.package
}


def can_hold(**wanted: bool) -> pytest.MarkDecorator:
    """Every agent whose session can do all of this, with a channel behind its name where it is not the usual one."""
    names = [name for name, support in _HERE.items() if all(getattr(support, field) for field in wanted)]
    return pytest.mark.parametrize("agent", names)


def test_every_agent_with_a_program_holds_a_session() -> None:
    holding = [name for name, driver in _DRIVERS.items() if _support(driver).messages]
    assert sorted(holding) == sorted(_DRIVERS)
    assert len(holding) == 8


def open_session(agents: RunEnv, agent: str, scenario: str, **options: Unpack[SessionOptions]) -> inspan.AgentSession:
    given: SessionOptions = {"profile": "clean", "cwd": agents.work, "model_from": agents.scenario(scenario)}
    name, _, channel = agent.partition(" ")
    return inspan.open_session(name, **{**given, "channel": channel, **options})


_STORY = f"""
    [[call]]
    say = "Good morning."
    [[call]]
    {WAIT_STEP}
    [[call]]
    when = "what did I say"
    expect_anywhere = "my name is Ada"
    say = "Ada"
    repeat = "always"
    [[call]]
    say = "next"
    repeat = "always"
"""


@can_hold(interrupt=True)
def test_a_session_remembers_and_goes_on_after_an_interrupt(agents: RunEnv, agent: str) -> None:
    async def scene() -> tuple[AgentResult, AgentResult, AgentResult, SessionState]:
        async with open_session(agents, agent, _STORY) as session:
            first = await session.send_message("my name is Ada")
            waiting = await session.follow_up("wait for me")
            await wait_until_async(lambda: (agents.work / "started").exists(), "tool")
            async for record in session:
                if record.kind == "tool_started":
                    break
            state = await session.get_state()
            await session.abort()
            interrupted = await waiting
            return first, interrupted, await session.send_message("what did I say?"), state

    first, interrupted, last, state = asyncio.run(scene())
    assert (first.message, first.reason) == ("Good morning.", "done")
    assert (state.status, bool(state.tool)) == ("working", True)
    assert (interrupted.outcome, interrupted.reason) == ("cancelled", "interrupted")
    assert (last.message, last.reason) == ("Ada", "done")
    assert first.session_id == last.session_id != ""
    assert first.run_id == last.run_id
    assert first.tokens_used == last.tokens_used  # Each message has its own count, not the session's.
    (ended,) = [event for event in agents.events() if isinstance(event, inspan.RunEnded)]
    assert (ended.outcome, ended.reason) == ("completed", "done")


@can_hold(steer=True)
def test_a_message_goes_into_the_running_turn(agents: RunEnv, agent: str) -> None:
    scenario = f"""
        [[call]]
        {WAIT_STEP}
        [[call]]
        expect_anywhere = "turn left"
        say = "left"
    """

    async def scene() -> tuple[AgentResult, AgentResult]:
        async with open_session(agents, agent, scenario) as session:
            waiting = await session.follow_up("drive")
            await wait_until_async(lambda: (agents.work / "started").exists(), "tool")
            before = _count_unread()
            steered = await session.steer("turn left")
            await wait_until_async(lambda: _is_read(before), "agent that has read it")
            (agents.work / "go").touch()
            return await waiting, await steered

    first, second = asyncio.run(scene())
    assert (first.message, first.reason) == ("left", "done")
    assert (second.message, second.reason) == ("left", "done")


def _count_unread() -> dict[int, int]:
    """How much lies unread in each pipe that this process writes to; a pipe of a test's runner may never be read."""
    found: dict[int, int] = {}
    for fd in [fd for fd, path in descriptors() if path.startswith("pipe:")]:
        with suppress(OSError):  # It was closed meanwhile.
            if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY:
                found[fd] = int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)
    return found


def _is_read(before: dict[int, int]) -> bool:
    """Whether nothing more lies unread than before."""
    return all(count <= before.get(fd, 0) for fd, count in _count_unread().items())


def _decide(request: PermissionRequest) -> inspan.Decision | bool:
    if "no.txt" in request.subject:
        return inspan.deny("not that file")
    return True


_ASKING = """
    [[call]]
    run = "echo hi > yes.txt"
    [[call]]
    say = "written"
    [[call]]
    run = "echo hi > no.txt"
    [[call]]
    say = "not written"
"""


@can_hold(ask=True)
def test_a_function_decides_what_the_agent_may_do(agents: RunEnv, agent: str) -> None:
    asked: list[PermissionRequest] = []

    def decide(request: PermissionRequest) -> inspan.Decision | bool:
        asked.append(request)
        return _decide(request)

    async def scene() -> list[AgentResult]:
        async with open_session(agents, agent, _ASKING, on_permission=decide) as session:
            return [await session.send_message("write it"), await session.send_message("write another")]

    allowed, denied = asyncio.run(scene())
    assert (allowed.reason, denied.reason) == ("done", "done"), denied.error
    assert (agents.work / "yes.txt").read_text() == "hi\n"
    assert not (agents.work / "no.txt").exists()
    assert [request.subject for request in asked] == ["echo hi > yes.txt", "echo hi > no.txt"]
    assert len(denied.denied) == 1


@can_hold(ask=True, interrupt=True)
def test_a_turn_is_interrupted_while_a_question_is_open(agents: RunEnv, agent: str) -> None:
    scenario = """
        [[call]]
        run = "echo hi > asked.txt"
        [[call]]
        say = "Good."
        repeat = "always"
    """

    async def scene() -> list[AgentResult]:
        async with open_session(agents, agent, scenario, ask=["*"]) as session:
            waiting = await session.follow_up("write it")
            async for record in session:
                if record.kind == "permission_asked":
                    break
            await session.abort()
            return [await waiting, await session.send_message("and now?")]

    first, second = asyncio.run(scene())
    assert (first.reason, second.reason, second.message) == ("interrupted", "done", "Good.")
    assert not (agents.work / "asked.txt").exists()


@can_hold(ask=True, changed_input=True)
def test_an_answer_may_change_what_the_agent_does(agents: RunEnv, agent: str) -> None:
    def decide(request: PermissionRequest) -> inspan.Decision:
        return inspan.allow(input={**request.input, "command": "echo good > changed.txt"})

    async def scene() -> AgentResult:
        scenario = '[[call]]\nrun = "echo bad > changed.txt"\n[[call]]\nsay = "done"'
        async with open_session(agents, agent, scenario, on_permission=decide) as session:
            return await session.send_message("write it")

    assert asyncio.run(scene()).reason == "done"
    assert (agents.work / "changed.txt").read_text() == "good\n"


def _choose_blue(questions: list[Question]) -> dict[str, str]:
    return {each.text: each.options[1] for each in questions}


@pytest.mark.parametrize("agent", ["claude", "claude sdk"])
def test_the_agents_question_is_answered_by_a_function(agents: RunEnv, agent: str) -> None:
    scenario = f"""
        [[call]]
        {_QUESTION}
        [[call]]
        expect = "blue"
        say = "blue it is"
    """

    async def scene() -> AgentResult:
        async with open_session(agents, agent, scenario, ask=["*"], on_question=_choose_blue) as session:
            return await session.send_message("paint it")

    assert asyncio.run(scene()).message == "blue it is"


def test_a_session_is_taken_up_by_another_program(agents: RunEnv) -> None:
    async def scene() -> tuple[str, str, str]:
        async with open_session(
            agents, "claude", _STORY.replace(WAIT_STEP, 'say = "from there"'), supervised=True
        ) as session:
            first = await session.send_message("my name is Ada")
            async with inspan.attach_session(session.run_id) as other:
                second = await other.send_message("hello")
            kinds = [record.kind async for record in _until_idle(session)]
            assert kinds[:2] == ["run_started", "message_sent"]
            return first.message, second.message, (await session.send_message("what did I say?")).message

    assert asyncio.run(scene()) == ("Good morning.", "from there", "Ada")
    with pytest.raises(inspan.InspanError, match="not open any more"):
        asyncio.run(_enter(inspan.attach_session("@last-anywhere")))


async def _enter(session: inspan.AgentSession) -> None:
    async with session:
        pass


async def _until_idle(session: inspan.AgentSession):
    ended = 0
    async for record in session:
        yield record
        ended += record.kind == "message_ended"
        if ended == 2:
            return


@pytest.mark.parametrize("agent", ["claude", "claude sdk", "codex sdk"])
def test_a_session_whose_supervisor_was_killed_goes_on_in_a_new_one(agents: RunEnv, agent: str) -> None:
    async def scene() -> tuple[str, str]:
        scenario = _STORY.replace(WAIT_STEP, 'say = "unused"')
        async with open_session(agents, agent, scenario, supervised=True) as session:
            await session.send_message("my name is Ada")
            run_id = session.run_id
            kill_process(_supervisor_of(agents, run_id))
            with pytest.raises((SessionClosed, CommandRefused)):
                for _ in range(500):
                    await session.send_message("are you there?")
        async with open_session(agents, agent, _STORY, resume=run_id) as session:
            return run_id, (await session.send_message("what did I say?")).message

    _, message = asyncio.run(scene())
    assert message == "Ada"


def _supervisor_of(agents: RunEnv, run_id: str) -> int:
    """The other process that has the run's lock open."""
    lock = str(next(agents.state.glob(f"projects/*/*/runs/{run_id}/lock")))

    def find() -> list[int]:
        found = [pid for pid in list_pids() if pid != os.getpid() and lock in open_files(pid)]
        # For a moment, a child of it that is about to become another program has it open as well.
        return found if len(found) == 1 else []

    return wait_until(find, "supervisor")[0]


@pytest.mark.parametrize("agent", ["xai", "perplexity", "openai-compatible"])
def test_an_api_is_told_again_what_was_said(agents: RunEnv, agent: str) -> None:
    scenario = """
        [[call]]
        say = "Good morning."
        [[call]]
        when = "a bad message"
        fail = {status = 400, message = "not that"}
        [[call]]
        when = "a bad message"
        fail = {status = 500, message = "it was sent again"}
        [[call]]
        expect_anywhere = ["my name is Ada", "Good morning."]
        say = "Ada"
    """

    async def scene() -> list[AgentResult]:
        async with open_session(agents, agent, scenario, system_prompt="Be brief.") as session:
            messages = ("my name is Ada", "a bad message", "what did I say?")
            results = [await session.send_message(message) for message in messages]
            with pytest.raises(CommandRefused, match="no turn is running"):
                await session.abort()
            return results

    first, bad, last = asyncio.run(scene())
    assert (first.message, first.reason) == ("Good morning.", "done")
    assert (bad.outcome, "not that" in bad.error) == ("failed", True)
    assert (last.message, last.reason) == ("Ada", "done"), last.error
    assert _support(next(each for each in load_drivers() if each.name == agent)).messages


@can_hold(interrupt=True)
def test_a_message_that_is_interrupted_at_once_leaves_the_conversation_as_it_was(agents: RunEnv, agent: str) -> None:
    scenario = '[[call]]\nsay = "Good."\nrepeat = "always"\n'

    async def scene() -> list[AgentResult]:
        async with open_session(agents, agent, scenario) as session:
            waiting = await session.follow_up("hello")
            with suppress(CommandRefused):
                await session.abort()
            return [await waiting, await session.send_message("and now?")]

    first, second = asyncio.run(scene())
    assert first.reason in ("interrupted", "done")  # The answer may have been quicker.
    assert (second.message, second.reason) == ("Good.", "done")
    assert second.session_id != ""


def test_a_command_of_the_agents_own_is_a_message_like_any_other(agents: RunEnv) -> None:
    async def scene() -> list[AgentResult]:
        async with open_session(agents, "claude", '[[call]]\nsay = "Good."\nrepeat = "always"\n') as session:
            return [await session.send_message("/help"), await session.send_message("and now?")]

    first, second = asyncio.run(scene())
    assert first.run_id == second.run_id
    assert (second.message, second.reason) == ("Good.", "done")


def test_a_session_that_was_let_go_of_stays_open(agents: RunEnv) -> None:
    scenario = '[[call]]\nsay = "Good."\nrepeat = "always"\n'

    async def scene() -> list[str]:
        async with open_session(agents, "claude", scenario, supervised=True) as session:
            first = await session.send_message("one")
            await session.detach()
        async with inspan.attach_session(session.run_id) as one, inspan.attach_session(session.run_id) as other:
            told = [first.message, (await one.send_message("two")).message, (await other.send_message("three")).message]
            await other.close()
            return told

    assert asyncio.run(scene()) == ["Good."] * 3
    (ended,) = [event for event in agents.events() if isinstance(event, inspan.RunEnded)]
    assert ended.reason == "done"


# An MCP server that asks the user something in the middle of a call, and gives back what it was told.
_ELICITING = """
import json
import sys

SCHEMA = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "title": "How large?"},
        "colour": {"type": "string", "enum": ["red", "blue"], "description": "Which colour?"},
    },
    "required": ["size"],
}


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    method, identity = message.get("method"), message.get("id")
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "shop", "version": "1"}}
        send({"id": identity, "result": {"protocolVersion": version, **about}})
    elif method == "tools/list":
        tool = {"name": "order", "description": "Orders.", "inputSchema": {"type": "object", "properties": {}}}
        send({"id": identity, "result": {"tools": [tool]}})
    elif method == "tools/call":
        called = identity
        send({"id": 900, "method": "elicitation/create", "params": {"message": "Order", "requestedSchema": SCHEMA}})
    elif identity == 900:
        told = json.dumps(message["result"], sort_keys=True)
        send({"id": called, "result": {"content": [{"type": "text", "text": told}]}})
    elif method and identity is not None:
        send({"id": identity, "result": {}})
"""


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ({"size": "3", "colour": "blue"}, {"action": "accept", "content": {"colour": "blue", "size": 3}}),
        ({"size": "many", "colour": "blue"}, {"action": "decline"}),
    ],
    ids=["fit", "unfit"],
)
# Claude Code's SDK keeps such a request to itself, and answers that nobody is there.
@pytest.mark.parametrize("agent", ["claude", "codex", "codex sdk"])
def test_what_an_mcp_server_asks_is_a_question(
    agents: RunEnv, agent: str, answers: dict[str, str], told: dict[str, object]
) -> None:
    program = agents.root / "shop.py"
    program.write_text(_ELICITING)
    servers = {"shop": inspan.McpServer(command=sys.executable, args=(str(program),))}
    scenario = '[[call]]\nuse = {tool = "order", server = "shop", input = {}}\n[[call]]\nsay = "ordered"\n'

    def answer(questions: list[Question]) -> dict[str, str]:
        return {each.text: answers["colour" if each.options else "size"] for each in questions}

    async def scene() -> AgentResult:
        async with open_session(
            agents, agent, scenario, mcp_servers=servers, on_permission=lambda _: True, on_question=answer
        ) as session:
            return await session.send_message("order it")

    result = asyncio.run(scene())
    assert (result.message, result.reason) == ("ordered", "done"), result.error
    (output,) = [event.output for event in agents.events() if isinstance(event, ToolCompleted)]
    assert json.loads(output) == told
