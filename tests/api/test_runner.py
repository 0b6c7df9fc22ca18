"""One agent behind one object: three modes, options that are merged, checked and never lost, the driver contract."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import inspan
from inspan import BASE_ALLOWED_TOOLS, AgentResult, Cost, Limits, McpServer, Task, Usage
from inspan.api.options import Options, SharedOptions, build_task
from inspan.errors import BadInput, UnknownAgent, Unsupported
from tests.agents.styles import PER_CALL

from .conftest import Play
from .run_env import RunEnv

both = pytest.mark.parametrize("agent", ["claude", "codex"])
_WRITE = '[[call]]\nwrite = {path = "new.txt", content = "new\\n"}\n[[call]]\nsay = "Done."\n'
# The puppet says with which words it was called.
_TELLS = "begin(); say(json.dumps(sys.argv[1:])); finish()"


@both
def test_exec_changes_files_and_tells_what_it_took(agents: RunEnv, agent: str) -> None:
    result = asyncio.run(_runner(agents, agent, _WRITE).exec("write new.txt"))
    path = agents.work / "new.txt"
    assert path.read_text() == "new\n"
    (folder,) = agents.folders()
    session_id, duration_s = result.session_id, result.duration_s
    assert result == AgentResult(
        run_id=folder.name,
        agent=agent,
        outcome="completed",
        reason="done",
        message="Done.",
        tokens_used=PER_CALL + PER_CALL,
        cost=Cost(kind="not_paid"),
        session_id=session_id,
        files_changed=(str(path),),
        exit_code=0,
        model_calls=2,
        duration_s=duration_s,
        folder=str(folder),
        attempts=(folder.name,),
    )
    assert (result.ok, result.status, result.output, result.rate_limit_hit) == (True, "success", "Done.", None)
    assert session_id and duration_s > 0


@both
def test_review_reads_and_does_not_write(agents: RunEnv, agent: str) -> None:
    (agents.work / "old.txt").write_text("as it was\n")
    scenario = '[[call]]\nrun = "cat old.txt"\n[[call]]\nexpect = "as it was"\nsay = "Fine."\n'
    result = asyncio.run(_runner(agents, agent, scenario).review("is it fine?"))
    assert (result.ok, result.message, result.files_changed) == (True, "Fine.", ())
    tried = asyncio.run(_runner(agents, agent, _WRITE).review("write it"))
    assert tried.denied
    assert [path.name for path in agents.work.iterdir()] == ["old.txt"]


@both
def test_complete_gives_one_answer(agents: RunEnv, agent: str) -> None:
    result = asyncio.run(_runner(agents, agent, '[[call]]\nexpect = "two"\nsay = "three"\n').complete("what is two?"))
    assert (result.ok, result.message, result.answer, result.model_calls) == (True, "three", None, 1)
    assert list(agents.work.iterdir()) == []


@both
def test_complete_repairs_an_answer_that_does_not_fit_its_schema(agents: RunEnv, agent: str) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    scenario = """
        [[call]]
        when = "could not be used"
        answer = {n = 7}
        [[call]]
        say = "seven"
        repeat = "always"
    """
    result = asyncio.run(_runner(agents, agent, scenario).complete("as a number", output_schema=schema))
    assert (result.ok, result.answer, len(result.attempts)) == (True, {"n": 7}, 2)
    assert result.attempts == tuple(folder.name for folder in agents.folders())
    assert result.tokens_used == sum([PER_CALL] * result.model_calls, Usage())
    assert len({_read_run_json(folder)["session"] for folder in agents.folders()}) == 1


def test_an_unfit_answer_is_asked_for_again_at_most_so_often_and_all_is_counted(
    run_env: RunEnv, use_fake_agent: Play
) -> None:
    use_fake_agent("begin(); say('no number'); finish()")
    runner = inspan.create_agent_runner("codex", cwd=run_env.work)
    result = asyncio.run(runner.complete("a number", output_schema={"type": "integer"}, repairs=2))
    assert (result.outcome, result.reason, result.answer) == ("failed", "unfit_answer", None)
    assert result.attempts == tuple(folder.name for folder in run_env.folders())
    assert (len(result.attempts), result.run_id) == (3, result.attempts[-1])
    assert [_read_run_json(folder)["task"]["prompt"].partition(":")[0] for folder in run_env.folders()] == [
        "a number",
        "Your answer could not be used",
        "Your answer could not be used",
    ]
    assert len({_read_run_json(folder)["session"] for folder in run_env.folders()}) == 1
    once = asyncio.run(runner.complete("a number", output_schema={"type": "integer"}, repairs=0))
    assert (once.reason, len(once.attempts)) == ("unfit_answer", 1)


def test_a_repair_happens_in_the_folder_of_the_session_whatever_the_runner_has_by_default(
    run_env: RunEnv, use_fake_agent: Play
) -> None:
    use_fake_agent("begin(); say('7' if 'could not be used' in prompt else 'seven'); finish()")
    (run_env.root / "other").mkdir()
    runner = inspan.create_agent_runner("codex", cwd=run_env.root / "other")
    result = asyncio.run(runner.complete("a number", output_schema={"type": "integer"}, cwd=run_env.work))
    assert (result.ok, result.answer, len(result.attempts)) == (True, 7, 2)
    assert [_read_run_json(folder)["task"]["cwd"] for folder in run_env.folders()] == [str(run_env.work)] * 2


def test_an_unknown_agent_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownAgent) as caught:
        inspan.create_agent_runner("cluade")
    assert caught.value.code == "unknown_agent"
    assert caught.value.next_step.startswith("Did you mean 'claude'? Known agents: ")


def test_the_default_agent_is_used_where_none_is_named() -> None:
    assert repr(inspan.create_agent_runner()) == "AgentRunner('claude')"


def test_an_unknown_option_is_refused_with_the_nearest_one(run_env: RunEnv) -> None:
    wrong: Any = {"modle": "gpt-5.5"}
    runner = inspan.create_agent_runner("codex")
    client = inspan.CompletionClient(runner)
    calls: list[Any] = [
        lambda: inspan.create_agent_runner("codex", **wrong),
        lambda: inspan.CompletionClient(runner, **wrong),
        lambda: runner.create_session(**wrong),
        lambda: runner.resume_session("@last", **wrong),
        lambda: runner.validate_environment(**wrong),
        lambda: asyncio.run(runner.exec("x", **wrong)),
        lambda: asyncio.run(runner.review("x", **wrong)),
        lambda: asyncio.run(runner.complete("x", **wrong)),
        lambda: asyncio.run(runner.execute("x", **wrong)),
        lambda: asyncio.run(runner.create_session().send_message("x", **wrong)),
        lambda: asyncio.run(client.complete([{"role": "user", "content": "x"}], **wrong)),
    ]
    for call in calls:
        with pytest.raises(BadInput) as caught:
            call()
        assert str(caught.value) == "modle 'gpt-5.5': unknown option. Did you mean 'model'?"
    assert not run_env.state.exists()


def test_the_driver_contract_does_not_drop_an_option_that_it_has_another_word_for(run_env: RunEnv) -> None:
    wrong: Any = {"append_system_prompt": "be kind"}
    with pytest.raises(BadInput, match="append_system_prompt 'be kind': unknown option"):
        asyncio.run(inspan.create_agent_runner("claude").execute("x", **wrong))
    assert set(SharedOptions.__optional_keys__) < set(Options.__optional_keys__)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"cwd": 3}, "cwd 3: Expected str, got int. Give a value of that type."),
        ({"allowed_tools": "Read"}, "allowed_tools 'Read': it is not a list. Put it into one: [\"…\"]."),
        ({"options": 3}, 'options 3: it is not a list. Put it into one: ["…"].'),
        ({"extra_dirs": ["/", 3]}, "extra_dirs[1] ('/', 3): Expected str, got int. Give a value of that type."),
        ({"max_turns": "3"}, "limits.max_turns '3': Expected int | null, got str. Give a value of that type."),
        ({"limits": Limits(timeout_s="1")}, "limits.timeout_s '1': Expected float | null, got str. Give a value of"),  # pyright: ignore[reportArgumentType]  on purpose
        ({"env": {"TOKEN": "secret", "N": 1}}, "env[...] ['TOKEN', 'N']: Expected str, got int."),
        ({"mcp_servers": {"s": {"url": 1, "headers": {"k": "secret"}}}}, "mcp_servers[...].url ['s']: Expected str"),
        ({"profile": "mine"}, "profile 'mine': Invalid enum value 'mine'."),
        ({"mcp_servers": [McpServer(command="x")]}, "mcp_servers [McpServer("),
    ],
    ids=str,
)
def test_a_value_of_the_wrong_type_is_refused_with_its_field(
    run_env: RunEnv, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(BadInput) as caught:
        asyncio.run(inspan.create_agent_runner("codex").exec("x", **options))
    assert str(caught.value).startswith(sentence)
    assert "secret" not in str(caught.value)
    assert not run_env.state.exists()


def test_a_task_of_the_wrong_shape_is_refused_by_whoever_gets_it(run_env: RunEnv) -> None:
    wrong: Any = "fix the test"
    shaped: Any = Task(prompt="x", cwd=Path("/"))  # pyright: ignore[reportArgumentType]  on purpose
    for give in (inspan.run, inspan.start):
        with pytest.raises(BadInput, match="task 'fix the test': it is not a task"):
            asyncio.run(give(wrong))
        with pytest.raises(BadInput, match="Expected str, got PosixPath"):
            asyncio.run(give(shaped))


def test_defaults_are_merged_with_what_a_call_gives(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent(_TELLS)
    (run_env.root / "other").mkdir()
    runner = inspan.create_agent_runner(
        "codex", cwd=run_env.work, model="by-default", effort="low", limits=Limits(idle_timeout_s=50), env={"A": "1"}
    )
    asyncio.run(runner.exec("x", model="by-call", max_turns=None, extra_dirs=[run_env.root / "other"], task="mine"))
    (folder,) = run_env.folders()
    task = msgspec.convert(_read_run_json(folder)["task"], Task)
    assert task == Task(
        prompt="x",
        cwd=str(run_env.work),
        agent="codex",
        model="by-call",
        effort="low",
        extra_dirs=(str(run_env.root / "other"),),
        task="mine",
        limits=Limits(idle_timeout_s=50),
        env={"A": "1"},
    )
    assert folder.parent.parent.name == "mine"


def test_a_limit_of_turns_stands_beside_the_other_limits() -> None:
    given: Options = {"max_turns": 3, "limits": Limits(timeout_s=5), "cwd": "/"}
    assert build_task("anyone", "exec", "x", given).limits == Limits(timeout_s=5, max_turns=3)


def test_the_current_folder_is_used_where_none_is_given(
    run_env: RunEnv, use_fake_agent: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake_agent("begin(); say(os.getcwd()); finish()")
    monkeypatch.chdir(run_env.work)
    assert asyncio.run(inspan.create_agent_runner("codex").exec("x")).message == str(run_env.work)
    (run_env.work / "below").mkdir()
    assert asyncio.run(inspan.create_agent_runner("codex").exec("x", cwd="below")).message == str(
        run_env.work / "below"
    )


def test_a_current_folder_that_is_gone_is_named(run_env: RunEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run_env.work)
    run_env.work.rmdir()
    with pytest.raises(BadInput) as caught:
        asyncio.run(inspan.create_agent_runner("codex").exec("x"))
    assert str(caught.value) == ("cwd '.': the current folder is gone. Change to one that is there, or give cwd.")


def test_a_folder_that_is_given_is_worked_in_though_the_current_one_is_gone(
    run_env: RunEnv, use_fake_agent: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake_agent("begin(); say(os.getcwd()); finish()")
    (run_env.root / "gone").mkdir()
    monkeypatch.chdir(run_env.root / "gone")
    (run_env.root / "gone").rmdir()
    monkeypatch.setenv("CODEX_HOME", str(run_env.root / "codex"))
    runner = inspan.create_agent_runner("codex", cwd=run_env.work)
    assert asyncio.run(runner.exec("x")).message == str(run_env.work)
    assert runner.validate_environment().agent == "codex"
    task = Task(prompt="x", cwd=str(run_env.work), agent="codex")
    run = asyncio.run(inspan.start(task))
    assert asyncio.run(inspan.find_run("@last", cwd=run_env.work).wait()).run_id == run.run_id


def test_a_runner_starts_a_fresh_session_each_time_and_does_not_try_again(agents: RunEnv) -> None:
    runner = _runner(agents, "claude", "[[call]]\nfail = {status = 529}\nrepeat = 'always'\n")

    async def scene() -> list[AgentResult]:
        return [await runner.exec("x"), await runner.exec("x")]

    first, second = asyncio.run(scene())
    assert (first.reason, second.reason) == ("overloaded", "overloaded")
    assert len(agents.folders()) == 2
    assert first.session_id != second.session_id


def test_the_tools_of_the_driver_contract_are_exactly_these() -> None:
    assert BASE_ALLOWED_TOOLS == (
        "Read",
        "Edit",
        "Write",
        "Bash(pnpm *)",
        "Bash(git diff *)",
        "Bash(git status *)",
        "Glob",
        "Grep",
    )


def test_the_driver_contract_allows_its_tools_and_the_extras_and_nothing_else(agents: RunEnv) -> None:
    scenario = """
        [[call]]
        use = {tool = "Bash", input = {command = "touch by-shell.txt"}}
        [[call]]
        use = {tool = "Write", input = {file_path = "WORK/by-tool.txt", content = "x"}}
        [[call]]
        use = {tool = "Bash", input = {command = "echo extra"}}
        [[call]]
        expect = "extra"
        expect_anywhere = "be brief"
        say = "Done."
    """.replace("WORK", str(agents.work))
    runner = _runner(agents, "claude", scenario)
    result = asyncio.run(runner.execute("do it", system_prompt="be brief", allowed_tools=["Bash(echo *)", "Read"]))
    assert (result.ok, result.message) == (True, "Done.")
    assert [(call.name, call.input) for call in result.denied] == [("Bash", {"command": "touch by-shell.txt"})]
    assert [path.name for path in agents.work.iterdir()] == ["by-tool.txt"]
    argv = _read_run_json(agents.folders()[0])["argv"]
    assert _value_after(argv, "--permission-mode") == "dontAsk"
    assert _value_after(argv, "--allowedTools") == ",".join((*BASE_ALLOWED_TOOLS, "Bash(echo *)"))
    assert Path(_value_after(argv, "--append-system-prompt-file")).read_text() == "be brief"
    assert "--system-prompt-file" not in argv


def test_the_driver_contract_goes_on_with_a_session(agents: RunEnv) -> None:
    scenario = '[[call]]\nexpect = "first"\nsay = "one"\n'
    first = asyncio.run(_runner(agents, "claude", scenario).execute("first"))
    scenario = '[[call]]\nexpect = "second"\nexpect_anywhere = "first"\nsay = "two"\n'
    second = asyncio.run(_runner(agents, "claude", scenario).execute("second", session_id=first.session_id))
    assert (second.ok, second.message, second.session_id) == (True, "two", first.session_id), second
    argv = _read_run_json(agents.folders()[1])["argv"]
    assert _value_after(argv, "--resume") == first.session_id


def test_the_driver_contract_has_a_time_limit_and_says_so(agents: RunEnv) -> None:
    runner = _runner(agents, "claude", "[[call]]\nstall = 'before-headers'\nrepeat = 'always'\n")
    result = asyncio.run(runner.execute("do it", timeout_s=1.5, limits=Limits(start_timeout_s=30)))
    assert (result.status, result.reason, result.error) == (
        "failed",
        "run_timeout",
        "the run took longer than 1.5 s",
    )
    limits = _read_run_json(agents.folders()[0])["task"]["limits"]
    assert limits == {"timeout_s": 1.5, "start_timeout_s": 30.0}


def test_the_driver_contract_adds_to_what_the_runner_has_by_default(agents: RunEnv) -> None:
    runner = inspan.create_agent_runner(
        "claude",
        profile="clean",
        cwd=agents.work,
        allowed_tools=["WebFetch"],
        append_system_prompt="be kind",
        limits=Limits(idle_timeout_s=44),
        model_from=agents.scenario('[[call]]\nsay = "Done."\n'),
    )
    asyncio.run(runner.execute("do it", system_prompt="be brief", allowed_tools=["WebSearch"]))
    task = _read_run_json(agents.folders()[0])["task"]
    assert task["allowed_tools"] == [*BASE_ALLOWED_TOOLS, "WebFetch", "WebSearch"]
    assert task["append_system_prompt"] == "be kind\n\nbe brief"
    assert task["limits"] == {"timeout_s": 600.0, "idle_timeout_s": 44.0}


def test_the_driver_contract_is_refused_by_an_agent_that_cannot_keep_it(agents: RunEnv) -> None:
    with pytest.raises(Unsupported) as caught:
        asyncio.run(_runner(agents, "codex", '[[call]]\nsay = "Done."\n').execute("do it"))
    assert caught.value.code == "unsupported"
    assert agents.list_leftovers() == []


def _runner(run_env: RunEnv, agent: str, scenario: str) -> inspan.AgentRunner:
    return inspan.create_agent_runner(
        agent,
        profile="clean",
        cwd=run_env.work,
        model_from=run_env.scenario(scenario),
        limits=Limits(timeout_s=120),
    )


def _read_run_json(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run.json").read_text())


def _value_after(argv: list[str], flag: str) -> str:
    return argv[argv.index(flag) + 1]
