"""What a program may not give: each wrong type or name is refused by its own sentence before anything is started."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import inspan
from inspan import Budget, Task
from inspan.api.options import Options
from inspan.errors import BadInput, InspanError, RunNotFound, UnknownAgent
from inspan.reporters.quiet import QuietReporter

from .conftest import Play
from .run_env import RunEnv


def _run(work: Any) -> Any:
    """What a call comes to; one that is refused at once is refused here all the same."""
    return asyncio.run(work) if asyncio.iscoroutine(work) else work


def _codex(**options: Any) -> inspan.AgentRunner:
    return inspan.create_agent_runner("codex", **options)


def _client() -> inspan.CompletionClient:
    return inspan.CompletionClient(_codex())


_WHERE = "Give a run id, the beginning of one, @last or @last-anywhere."
_MODES = "Use exec, review or complete."
_SAID: Any = [{"role": "user", "content": "x"}]
_CALLS: dict[str, tuple[Callable[[Any], object], str]] = {
    "a mode": (
        lambda _: _codex().create_session().send_message("x", mode=_any("zap")),
        f"mode 'zap': unknown mode. {_MODES}",
    ),
    "a mode that cannot be looked up": (
        lambda _: _codex().create_session().send_message("x", mode=_any([])),
        "mode []: unknown mode. ",
    ),
    "a listener": (lambda _: _codex().exec("x", on_event=_any(3)), "on_event 3: it is not a function. "),
    "a listener of a task": (lambda task: inspan.run(task, on_event=_any(3)), "on_event 3: it is not a function. "),
    "a listener by default": (lambda _: _codex(on_event=3).exec("x"), "on_event 3: it is not a function. "),
    "a reporter": (
        lambda _: _codex().exec("x", reporter=_any(3)),
        "reporter 3: it is not a reporter: it has no node_start. ",
    ),
    "a reporter of a task": (
        lambda task: inspan.run(task, reporter=_any("console")),
        "reporter 'console': it is not a reporter",
    ),
    "a class of reporters": (
        lambda task: inspan.run(task, reporter=_any(QuietReporter)),
        "reporter <class 'inspan.reporters.quiet.QuietReporter'>: it is a class. ",
    ),
    "an audit": (
        lambda _: _codex().exec("x", record_tokens=_any("x")),
        "record_tokens 'x': it is neither True nor False. ",
    ),
    "repairs": (lambda _: _codex().complete("x", repairs=_any("2")), "repairs '2': it is not a whole number. "),
    "repairs of a completion": (
        lambda _: _client().complete(_SAID, repairs=_any(None)),
        "repairs None: it is not a whole number. ",
    ),
    "a check": (lambda _: _client().complete(_SAID, check=_any("x")), "check 'x': it is not a function. "),
    "messages": (lambda _: _client().complete(_any(5)), "messages 5: it is not a list. "),
    "a runner of a client": (lambda _: inspan.CompletionClient(_any("codex")), "runner 'codex': it is not a runner. "),
    "tools of the contract": (
        lambda _: _codex().execute("x", allowed_tools="Read"),
        "allowed_tools 'Read': it is not a list. ",
    ),
    "a system prompt of the contract": (
        lambda _: _codex().execute("x", system_prompt=_any(5)),
        "system_prompt 5: it is not text. ",
    ),
    "limits of the contract": (lambda _: _codex().execute("x", limits=_any(5)), "limits 5: they are not limits. "),
    "results of tools": (lambda _: _codex().create_session().submit_tool_results(_any(5)), "submit_tool_results 5: "),
    "budgets": (lambda _: _codex().exec("x", budgets=_any("2usd")), "budgets '2usd': it is not a mapping. "),
    "the node of a budget": (
        lambda _: _codex().exec("x", budgets=_any({"zap": "2usd"})),
        "budgets ['zap']: Invalid enum value 'zap'. Use project, task or run.",
    ),
    "the period of a budget": (
        lambda _: _codex().exec("x", budgets={"run": Budget(usd=1, per=_any("year"))}),
        "budgets[...].per ['run']: Invalid enum value 'year'. Use day or month,",
    ),
    "an agent": (lambda _: inspan.create_agent_runner(_any(5)), "agent 5: it is not a name. Known agents: "),
    "an agent in a list": (
        lambda _: inspan.create_agent_runner(_any(["codex"])),
        "agent ['codex']: it is not a name. Known agents: ",
    ),
    "an agent that is nobody": (
        lambda _: inspan.create_agent_runner(_any(None)),
        "agent None: it is not a name. Known agents: ",
    ),
    "an agent without a name": (lambda _: inspan.create_agent_runner(""), "agent '': it is empty. Known agents: "),
    "a session without a name": (
        lambda _: _codex().resume_session(""),
        "session_id '': it is empty. Use create_session for a new one.",
    ),
    "a session that is a number": (lambda _: _codex().resume_session(_any(5)), "session_id 5: it is not text. "),
    "the mode of a task": (
        lambda task: inspan.run(_with(task, mode="zap")),
        f"mode 'zap': Invalid enum value 'zap'. {_MODES}",
    ),
    "the profile of a task": (
        lambda task: inspan.start(_with(task, profile="me")),
        "profile 'me': Invalid enum value 'me'. Use user or clean.",
    ),
    "a run": (lambda _: inspan.find_run(_any(5)), f"name 5: it is not the name of a run. {_WHERE}"),
    "a run to follow": (lambda _: inspan.follow(_any(5)), f"name 5: it is not the name of a run. {_WHERE}"),
    "a run's folder": (
        lambda _: inspan.find_run("@last", cwd="a\0"),
        "cwd 'a\\x00': it contains a NUL byte. Remove it.",
    ),
    "a run's folder that is a number": (lambda _: inspan.follow("@last", cwd=_any(5)), "cwd 5: it is not a path. "),
    "where to follow from": (
        lambda _: inspan.follow("@last", from_number=_any("2")),
        "from_number '2': it is not a whole number. ",
    ),
    "work": (
        lambda _: inspan.run_sync(_any(42)),
        "run_sync 42: it is not a call to wait for. For example run_sync(inspan.run(task)).",
    ),
    "work that was not called": (lambda _: inspan.run_sync(_any(inspan.run)), "run_sync <function run at "),
    "an environment": (lambda _: inspan.validate_environment(_any(5)), "task 5: it is not a task. "),
    "a folder of the environment": (
        lambda task: inspan.validate_environment(_with(task, cwd=5)),
        "cwd 5: Expected str, got int. ",
    ),
    "a folder with a NUL byte": (
        lambda _: _codex().exec("x", cwd="/\0"),
        "cwd '/\\x00': it contains a NUL byte. Remove it.",
    ),
    "a prompt": (lambda _: _codex().exec(_any(5)), "prompt 5: Expected str, got int. "),
}


def _any(value: Any) -> Any:
    """A value that a type checker would refuse."""
    return value


def _with(task: Task, **fields: Any) -> Task:
    return msgspec.structs.replace(task, **fields)


@pytest.mark.parametrize(("call", "sentence"), _CALLS.values(), ids=_CALLS)
def test_what_has_a_wrong_type_or_name_is_refused_and_nothing_is_started(
    run_env: RunEnv, use_fake_agent: Play, call: Callable[[Task], object], sentence: str
) -> None:
    use_fake_agent("begin(); say('paid'); finish()")
    with pytest.raises(BadInput) as caught:
        _run(call(Task(prompt="x", cwd=str(run_env.work), agent="codex")))
    assert str(caught.value).startswith(sentence)
    assert caught.value.next_step
    assert not run_env.state.exists()


def test_an_agent_without_a_name_is_unknown_and_a_runner_without_one_is_the_default() -> None:
    with pytest.raises(UnknownAgent):
        inspan.create_agent_runner("")
    assert inspan.create_agent_runner().agent == inspan.create_agent_runner("claude").agent


@pytest.mark.parametrize("name", ["a\0b", "a\udcff", "ä", "*", "%", ""])
def test_no_name_of_a_run_is_too_strange_to_be_looked_for(run_env: RunEnv, name: str) -> None:
    with pytest.raises(RunNotFound):
        inspan.find_run(name, cwd=run_env.work)


def test_work_in_a_running_loop_is_refused_and_closed(run_env: RunEnv) -> None:
    async def scene() -> None:
        with pytest.raises(BadInput, match="a loop is running here already"):
            inspan.run_sync(inspan.run(run_env.task))
        with pytest.raises(BadInput, match="run_sync 42: it is not a call to wait for"):
            inspan.run_sync(_any(42))

    asyncio.run(scene())


def test_a_task_counts_its_folder_from_the_current_one_as_a_runner_does(
    run_env: RunEnv, use_fake_agent: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake_agent("begin(); say(os.getcwd()); finish()")
    (run_env.work / "below").mkdir()
    monkeypatch.chdir(run_env.work)
    for cwd in (".", "below", "below/.."):
        result = asyncio.run(inspan.run(_with(run_env.task, cwd=cwd)))
        assert result.message == os.path.realpath(run_env.work / cwd)
    started = asyncio.run(inspan.start(_with(run_env.task, cwd="below")))
    assert asyncio.run(started.wait()).message == str(run_env.work / "below")
    assert inspan.validate_environment(_with(run_env.task, cwd=".")).agent == "codex"
    assert asyncio.run(_codex(cwd=Path("below")).exec("x")).message == str(run_env.work / "below")


def test_a_folder_beside_is_named_by_its_whole_path(run_env: RunEnv) -> None:
    with pytest.raises(BadInput) as caught:
        asyncio.run(inspan.create_agent_runner("claude", cwd=run_env.work).exec("x", extra_dirs=["."]))
    assert str(caught.value) == "extra_dirs '.': it is not a whole path. Begin it with /."


@pytest.mark.parametrize("prompt", ["", " \n"])
def test_input_that_was_left_empty_does_not_run_what_an_agent_has_written_down(
    run_env: RunEnv, use_fake_agent: Play, prompt: str
) -> None:
    use_fake_agent(
        "open(os.environ['TASK_FOLDER'] + '/TASK.md', 'w').write('Sell it.'); begin(); say(prompt.strip()); finish()"
    )
    asyncio.run(_codex(cwd=run_env.work).exec("Write it down."))
    task = _with(run_env.task, prompt=prompt)
    calls: list[Callable[[], Any]] = [
        lambda: inspan.run(task),
        lambda: inspan.start(task),
        lambda: _codex(cwd=run_env.work).exec(prompt),
        lambda: _codex(cwd=run_env.work).complete(prompt),
        lambda: _codex(cwd=run_env.work).create_session().send_message(prompt),
        lambda: inspan.CompletionClient(_codex(cwd=run_env.work)).complete([]),
    ]
    for call in calls:
        with pytest.raises(BadInput) as caught:
            asyncio.run(call())
        assert caught.value.field == "prompt"
        assert "it is empty." in caught.value.message
    assert len(run_env.folders()) == 1


def test_a_conversation_goes_on_with_an_empty_message(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent("begin(); say(prompt.strip()); finish()")
    session = _codex(cwd=run_env.work).create_session()
    assert asyncio.run(session.send_message("Paint it.")).message == "Paint it."
    assert asyncio.run(session.send_message("")).message == "Continue."


def test_every_refusal_is_one_of_the_tree(run_env: RunEnv) -> None:
    """Whatever is given in the place of any argument, what comes back is an `InspanError` or a result."""
    odd: tuple[Any, ...] = (5, None, [], {}, b"x", object(), "a\0", "\udcff", 1e400, Path("/nowhere"), lambda: None)
    for name in sorted({*Options.__optional_keys__, "prompt"}):
        for value in odd:
            given: dict[str, Any] = {"prompt": "x", "cwd": run_env.root / "gone", name: value}
            with contextlib.suppress(InspanError):
                _run(_codex().exec(**given))
