"""A program's own functions as tools: what the agent is told of them, and what comes of a call."""

import asyncio
import dataclasses
import time
from typing import Annotated, Any, Literal, cast

import msgspec
import pytest

import inspan
from inspan import AgentResult, ToolContext, ToolError
from inspan.api.tools import collect_tools
from inspan.errors import BadInput, CommandRefused
from inspan.protocol.events import ToolAnswered, ToolFailed, ToolRequested

from .run_env import RunEnv

both = pytest.mark.parametrize("agent", ["claude", "codex"])


@dataclasses.dataclass
class Place:
    """Where it is."""

    city: str
    zip: int | None = None


@inspan.tool
def add(a: int, b: Annotated[int, msgspec.Meta(ge=0)] = 1) -> int:
    """Adds two numbers."""
    return a + b


@inspan.tool(name="find-it", description="Finds a place.")
async def find(place: Place, unit: Literal["km", "mile"] = "km") -> dict[str, str]:
    return {"city": place.city, "unit": unit}


def test_a_tool_is_described_by_its_types() -> None:
    assert add.spec.name == "add"
    assert add.spec.description == "Adds two numbers."
    assert add.spec.input_schema == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "minimum": 0, "default": 1}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert add(2, 3) == 5
    assert (find.name, find.spec.description) == ("find-it", "Finds a place.")
    assert find.spec.input_schema["properties"]["place"] == {"$ref": "#/$defs/Place"}
    assert find.spec.input_schema["$defs"]["Place"]["required"] == ["city"]


def _untyped(a) -> str:  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]
    return str(a)  # pyright: ignore[reportUnknownArgumentType]  the mistake itself


def _many(*words: str) -> str:
    return "".join(words)


def _odd(a: asyncio.Future[int]) -> str:
    return str(a)


def _bad__name(a: int) -> int:
    return a


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ("add", "it is not a list"),
        ([1], "it is not a function"),
        ([str], "it is not a function"),
        ([cast(Any, _untyped)], "parameter a has no type"),
        ([_many], "cannot be described"),
        ([_odd], "type cannot be described"),
        ([_bad__name], "not a valid name"),
        ([lambda: 1], "not a valid name"),
        ([add, add], "two tools have this name"),
    ],
)
def test_what_is_no_tool_is_refused(tools: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        collect_tools(tools)


def test_tools_need_a_gateway(agents: RunEnv) -> None:
    runner = inspan.create_agent_runner("claude", cwd=agents.work, model_from="direct")
    with pytest.raises(BadInput, match="there is no gateway"):
        asyncio.run(runner.exec("x", tools=[add]))


def _use(tool: str, given: str, expect: str, say: str) -> str:
    return f"""
        [[call]]
        use = {{tool = "{tool}", server = "inspan", input = {given}}}
        [[call]]
        expect = "{expect}"
        say = "{say}"
    """


@both
@pytest.mark.parametrize("mode", ["exec", "review", "complete"])
def test_the_agent_calls_a_function_in_every_mode(agents: RunEnv, agent: str, mode: Any) -> None:
    scenario = agents.scenario(_use("add", "{a = 2, b = 40}", "42", "forty-two"))
    runner = inspan.create_agent_runner(agent, cwd=agents.work, profile="clean", model_from=scenario, tools=[add])
    result = asyncio.run(runner.run_mode(mode, "add them", {}))
    assert (result.message, result.reason) == ("forty-two", "done"), result.error
    (requested,) = [event for event in agents.events() if isinstance(event, ToolRequested)]
    assert (requested.name, requested.input) == ("add", {"a": 2, "b": 40})


@inspan.tool
def fail(why: str) -> str:
    """Fails."""
    raise KeyError(why)


@inspan.tool
def be_large() -> str:
    """Gives 10 MB."""
    return "x" * 10_000_000


@inspan.tool
def be_odd() -> object:
    """Gives what is no JSON."""
    return object()


@inspan.tool
def be_unspeakable() -> str:
    """Gives what is no text."""
    return "\ud800"


def block(seconds: float) -> str:
    """Blocks the thread that it is called in."""
    time.sleep(seconds)
    return "slept"


@both
def test_what_goes_wrong_in_a_function_is_told_to_the_agent(agents: RunEnv, agent: str) -> None:
    scenario = "".join(
        [
            _use("fail", '{why = "boom"}', "fail raised KeyError", "one"),
            _use("be_large", "{}", "it gave 10.0 MB", "two"),
            _use("be_odd", "{}", "be_odd raised TypeError", "three"),
            _use("block", "{seconds = 0.2}", "slept", "four"),
            _use("be_unspeakable", "{}", "be_unspeakable raised UnicodeEncodeError", "unspeakable"),
            _use("add", '{a = "x"}', "Expected `int`, got `str`", "five"),
        ]
    )

    async def scene() -> list[AgentResult]:
        options: Any = {"profile": "clean", "cwd": agents.work, "model_from": agents.scenario(scenario)}
        tools = [fail, be_large, be_odd, block, be_unspeakable, add]
        async with inspan.open_session(agent, tools=tools, **options) as session:
            return [await session.send_message(f"message {number}") for number in range(6)]

    results = asyncio.run(scene())
    assert [(each.message, each.reason) for each in results] == [
        (word, "done") for word in ("one", "two", "three", "four", "unspeakable", "five")
    ], [each.error for each in results]
    events = agents.events()
    assert [event.failed for event in events if isinstance(event, ToolAnswered)] == [
        True,
        True,
        True,
        False,
        True,
        True,
    ]
    assert len([event for event in events if isinstance(event, ToolFailed)]) == 5


def test_a_declared_tool_is_answered_by_hand(agents: RunEnv) -> None:
    clock = inspan.declare_tool("clock", "Tells the time.", input_schema={"type": "object", "properties": {}})
    scenario = agents.scenario(_use("clock", "{}", "noon", "one") + _use("clock", "{}", "broken", "two"))

    async def scene() -> list[AgentResult]:
        async with inspan.open_session(
            "claude", profile="clean", cwd=agents.work, model_from=scenario, tools=[clock]
        ) as session:
            answers = iter(["noon", ToolError("broken")])
            first, second = await session.follow_up("when?"), await session.follow_up("and now?")
            count = 0
            async for record in session:
                if isinstance(record.event, ToolRequested):
                    await session.submit_tool_results({record.event.id: next(answers)})
                    with pytest.raises(CommandRefused, match="no call"):
                        await session.submit_tool_results({"tool-99": "late"})
                    count += 1
                if count == 2 or record.kind == "run_ended":
                    break
            with pytest.raises(BadInput, match="they are not by id"):
                await session.submit_tool_results(["noon"])  # pyright: ignore[reportArgumentType]  the mistake itself
            return [await first, await second]

    assert [(each.message, each.reason) for each in asyncio.run(scene())] == [("one", "done"), ("two", "done")]


def test_an_interrupt_cancels_a_function_that_never_returns(agents: RunEnv) -> None:
    begun = asyncio.Event()
    cancelled: list[bool] = []

    @inspan.tool
    async def hang() -> str:
        """Hangs."""
        begun.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return "never"

    call = '[[call]]\nuse = {tool = "hang", server = "inspan", input = {}}\n'
    scenario = agents.scenario(call + '[[call]]\nsay = "on"')

    async def scene() -> list[AgentResult]:
        async with inspan.open_session(
            "claude", profile="clean", cwd=agents.work, model_from=scenario, tools=[hang]
        ) as session:
            waiting = await session.follow_up("hang")
            await begun.wait()
            await session.abort()
            return [await waiting, await session.send_message("go on")]

    first, second = asyncio.run(scene())
    assert (first.reason, second.message) == ("interrupted", "on")
    assert cancelled == [True]


def test_a_function_tells_how_far_it_has_come(agents: RunEnv) -> None:
    @inspan.tool
    async def work(steps: int, context: ToolContext) -> str:
        """Works."""
        for step in range(steps):
            await context.report_progress(step + 1, steps, f"step {step + 1}")
        return "worked"

    scenario = agents.scenario(_use("work", "{steps = 3}", "worked", "done"))
    runner = inspan.create_agent_runner("claude", cwd=agents.work, profile="clean", model_from=scenario)
    assert asyncio.run(runner.exec("work", tools=[work])).message == "done"


def test_the_tools_of_a_supervised_session_live_in_the_program(agents: RunEnv) -> None:
    scenario = agents.scenario(_use("add", "{a = 1}", "2", "two"))

    async def scene() -> AgentResult:
        async with inspan.open_session(
            "claude", profile="clean", cwd=agents.work, model_from=scenario, tools=[add], supervised=True
        ) as session:
            return await session.send_message("add")

    assert asyncio.run(scene()).message == "two"
