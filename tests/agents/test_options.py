"""What a task says beside its prompt reaches the model: prompts, effort and model; and its limits and folders hold."""

from typing import Any

import pytest

from tests.cli_env import CliEnv
from tests.gateway.scripted_gateway import ScriptedGateway

from .protected_folders import ProtectedFolders, build_scenario, run_step, say_step, use_step
from .run_checks import DONE, End, check_end
from .styles import CLASSIC, CLAUDE, CODE_MODE, PER_CALL, Style, each_agent, each_style
from .test_direct import settings

Json = dict[str, Any]
MAX_TURNS = End(outcome="limited", reason="max_turns", code=6)
MODELS = {CLAUDE: "claude-sonnet-4-5", CODE_MODE: "gpt-6.1-sol", CLASSIC: "gpt-5.5"}
PARROT, TWICE, CROW, ONCE = "You are a parrot.", "Say it \"twice\".\nAnd 'again'.", "You are a crow.", "Say it once."


@each_style
def test_prompts_effort_and_model_reach_the_provider_and_a_later_run_may_change_them(
    cli_env: CliEnv, style: Style
) -> None:
    (cli_env.work / "parrot.md").write_text(PARROT)
    model = ("-m", MODELS[style])
    with ScriptedGateway(build_scenario(say_step("One."), say_step("Two.")), cwd=str(cli_env.work)) as provider:
        env = settings(cli_env, style.agent, provider.port)
        said = ("--system-prompt", "@parrot.md", "--append-system-prompt", TWICE, "--effort", "high")
        first = cli_env.inspan("run", "Hello.", "-a", style.agent, *model, *said, "--mode", "complete", env=env)
        said = ("--system-prompt", CROW, "--append-system-prompt", ONCE, "--effort", "low")
        second = cli_env.inspan("run", "Again.", "--resume", "@last", *model, *said, "--mode", "complete", env=env)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    bodies = provider.bodies
    assert [body["model"] for body in bodies] == [MODELS[style]] * 2
    if style is CLAUDE:
        assert [body["system"][-1]["text"] for body in bodies] == [f"{PARROT}\n\n{TWICE}", f"{CROW}\n\n{ONCE}"]
    else:
        assert [body["reasoning"]["effort"] for body in bodies] == ["high", "low"]
        assert [_texts(body, "developer")[0] for body in bodies] == [PARROT, CROW]
        # Instructions behind its own are taken at the start of a thread alone: later they stand before the prompt.
        assert [_texts(body, "developer")[1] for body in bodies] == [TWICE, TWICE]
        assert [_texts(body, "user")[-1] for body in bodies] == ["Hello.", f"{ONCE}\n\nAgain."]


@each_style
def test_words_behind_the_agents_own_prompt_leave_it_in_place(cli_env: CliEnv, style: Style) -> None:
    with ScriptedGateway(build_scenario(say_step("One.")), cwd=str(cli_env.work)) as provider:
        env = settings(cli_env, style.agent, provider.port)
        said = ("--append-system-prompt", TWICE, "--mode", "complete", *style.arguments)
        done = cli_env.inspan("run", "Hello.", "-a", style.agent, *said, "--effort", "high", env=env)
    assert done.returncode == 0, done.stderr
    [body] = provider.bodies
    if style is CLAUDE:
        own, _, appended = body["system"][-1]["text"].rpartition("\n\nSay it ")
        assert (len(own) > 1000, f"Say it {appended}", body["output_config"]["effort"]) == (True, TWICE, "high")
    else:
        own, appended = _texts(body, "developer")[:2]
        assert (own.startswith("You are Codex"), appended) == (True, TWICE)


def test_instructions_that_are_too_long_for_an_argument_reach_the_model_all_the_same(cli_env: CliEnv) -> None:
    (cli_env.work / "long.md").write_text("Be kind. " * 20_000 + "The end of it.")
    for agent in ("claude", "codex"):
        model = cli_env.scenario(build_scenario(say_step("Done.") + "expect_anywhere = 'Be kind. The end of it.'\n"))
        options = ("--profile", "clean", "--mode", "complete", "--model-from", model)
        done = cli_env.inspan("run", "Hello.", "-a", agent, *options, "--append-system-prompt", "@long.md")
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("agent", "known"),
    [("claude", "low, medium, high, xhigh, max"), ("codex", "none, minimal, low, medium, high, xhigh")],
)
def test_an_effort_that_the_agent_does_not_know_is_refused(cli_env: CliEnv, agent: str, known: str) -> None:
    model = cli_env.scenario(build_scenario(say_step("Done.")))
    done = cli_env.inspan("run", "do it", "-a", agent, "--effort", "heroic", "--model-from", model)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("inspan: --effort 'heroic': ")
    assert done.stderr.endswith(f"\n  → Use one of {known}.\n")
    assert not cli_env.state.exists()


@each_style
def test_a_run_ends_at_its_limit_of_turns(cli_env: CliEnv, style: Style) -> None:
    scenario = build_scenario(f"{run_step('echo hi >> said.txt')}repeat = 'always'")
    done = cli_env.run(style.agent, scenario, *style.arguments, "--max-turns", "2")
    ended = check_end(cli_env, done.run_id, end=MAX_TURNS, usage=PER_CALL + PER_CALL)
    assert done.code == 6
    assert (cli_env.work / "said.txt").read_text() == "hi\nhi\n"
    assert "2" in ended.message
    answered = [event for event in done.select_events("model_call_ended") if event["status"] == 200]
    assert len(answered) == 2


@each_style
def test_a_limit_of_turns_that_is_not_reached_changes_nothing(cli_env: CliEnv, style: Style) -> None:
    done = cli_env.run(
        style.agent, build_scenario(run_step("echo hi"), say_step("Done.")), *style.arguments, "--max-turns", "2"
    )
    check_end(cli_env, done.run_id, end=DONE, usage=PER_CALL + PER_CALL)


def test_without_a_gateway_a_limit_that_the_agent_does_not_keep_is_refused(cli_env: CliEnv) -> None:
    done = cli_env.inspan(
        "run", "do it", "-a", "codex", "--max-turns", "2", "--direct", env={"CODEX_API_KEY": "sk-0123456789"}
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "inspan: --max-turns 2: Codex does not support this.\n"
        "  → It counts no turns; with a gateway, inspan counts its model calls.\n"
    )


@pytest.mark.parametrize("turns", ["0", "-1"])
def test_a_limit_of_no_turns_is_refused(cli_env: CliEnv, turns: str) -> None:
    model = cli_env.scenario(build_scenario(say_step("Done.")))
    done = cli_env.inspan("run", "do it", "-a", "claude", "--max-turns", turns, "--model-from", model)
    assert done.returncode == 2
    assert done.stderr.startswith(f"inspan: --max-turns {turns}: a limit must be more than 0 turns.")


@each_agent
@pytest.mark.parametrize("box", ["none", "bwrap"])
def test_another_folder_can_be_worked_in(cli_env: CliEnv, style: Style, box: str) -> None:
    if style is CLAUDE and box == "none":
        return _check_sibling_writable(cli_env, "--allow-tool", "Write", "--allow-tool", "Read")
    ground = ProtectedFolders(cli_env)
    path = ground.sibling / "new.txt"
    scenario = build_scenario(
        run_step(f"cat {ground.sibling}/kept.txt && touch {path}"), say_step("Done.", expect="original words")
    )
    done = cli_env.run(style.agent, scenario, "--sandbox", box, "--add-dir", str(ground.sibling))
    check_end(cli_env, done.run_id, end=DONE, usage=PER_CALL + PER_CALL)
    # A box takes the names that git reads settings from, by what changes nothing for git.
    names = ("commondir", "config.worktree", "hooks", "modules", "worktrees", "remotes", "branches")
    names += ("objects/info/alternates", "objects/info/http-alternates")
    taken = tuple(f"/.git/{name}" for name in names)
    assert [each for each in ground.changes() if not each.endswith(taken)] == [str(path)]
    return None


@each_agent
@pytest.mark.parametrize("box", ["none", "bwrap"])
def test_a_review_may_read_another_folder_and_not_write_there(cli_env: CliEnv, style: Style, box: str) -> None:
    ground = ProtectedFolders(cli_env)
    kept = ground.sibling / "kept.txt"
    scenario = build_scenario(
        run_step(f"cat {kept}"),
        run_step(f"touch {ground.sibling}/new.txt", expect="original words"),
        say_step("Done."),
    )
    review = ("--mode", "review", "--sandbox", box, "--add-dir", str(ground.sibling))
    done = cli_env.run(style.agent, scenario, *review)
    assert done.verdict == ("completed", "done", 0), done.stderr
    assert ground.changes() == []


def test_another_folder_that_is_not_there_is_refused(cli_env: CliEnv) -> None:
    model = cli_env.scenario(build_scenario(say_step("Done.")))
    (cli_env.work / "a-file").touch()
    for name, problem in (("gone", "no such folder."), ("a-file", "it is not a folder.")):
        done = cli_env.inspan("run", "do it", "-a", "codex", "--add-dir", name, "--model-from", model)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"inspan: extra_dirs '{cli_env.work / name}': {problem}\n")
    assert not cli_env.state.exists()


def _check_sibling_writable(cli_env: CliEnv, *tools: str) -> None:
    """With a list of tools and no box the agent itself holds the folders: this one is open, by its tools alone."""
    ground = ProtectedFolders(cli_env)
    path = ground.sibling / "new.txt"
    scenario = build_scenario(
        use_step("Write", file_path=str(path), content="x\n"),
        use_step("Read", file_path=str(ground.sibling / "kept.txt")),
        use_step("Bash", expect="original words", command=f"touch {ground.sibling}/no.txt"),
        say_step("Done.", expect="No such tool available"),
    )
    done = cli_env.run("claude", scenario, "--add-dir", str(ground.sibling), *tools)
    check_end(cli_env, done.run_id, end=DONE, usage=PER_CALL + PER_CALL + PER_CALL + PER_CALL)
    assert ground.changes() == [str(path)]


def _texts(body: Json, role: str) -> list[str]:
    """The first text of each message of this role."""
    messages = [item for item in body["input"] if item.get("role") == role and item.get("content")]
    return [message["content"][0]["text"] for message in messages]
