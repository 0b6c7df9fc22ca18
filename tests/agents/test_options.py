"""What a task says beside its prompt reaches the model: prompts, effort and model; and its limits and folders hold."""

from typing import Any

import pytest

from tests.gateway.stage import Stage
from tests.house import House

from .ground import Ground, calls, run, say, use
from .proof import DONE, End, prove
from .styles import CLASSIC, CLAUDE, CODE_MODE, PER_CALL, Style, each_agent, each_style
from .test_direct import settings

Json = dict[str, Any]
MAX_TURNS = End(outcome="limited", reason="max_turns", code=6)
MODELS = {CLAUDE: "claude-sonnet-4-5", CODE_MODE: "gpt-6.1-sol", CLASSIC: "gpt-5.5"}
PARROT, TWICE, CROW, ONCE = "You are a parrot.", "Say it \"twice\".\nAnd 'again'.", "You are a crow.", "Say it once."


@each_style
def test_prompts_effort_and_model_reach_the_provider_and_a_later_run_may_change_them(
    house: House, style: Style
) -> None:
    (house.work / "parrot.md").write_text(PARROT)
    model = ("-m", MODELS[style])
    with Stage(calls(say("One."), say("Two.")), cwd=str(house.work)) as provider:
        env = settings(house, style.agent, provider.port)
        said = ("--system-prompt", "@parrot.md", "--append-system-prompt", TWICE, "--effort", "high")
        first = house.inspan("run", "Hello.", "-a", style.agent, *model, *said, "--mode", "complete", env=env)
        said = ("--system-prompt", CROW, "--append-system-prompt", ONCE, "--effort", "low")
        second = house.inspan("run", "Again.", "--resume", "@last", *model, *said, "--mode", "complete", env=env)
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
def test_words_behind_the_agents_own_prompt_leave_it_in_place(house: House, style: Style) -> None:
    with Stage(calls(say("One.")), cwd=str(house.work)) as provider:
        env = settings(house, style.agent, provider.port)
        said = ("--append-system-prompt", TWICE, "--mode", "complete", *style.arguments)
        done = house.inspan("run", "Hello.", "-a", style.agent, *said, "--effort", "high", env=env)
    assert done.returncode == 0, done.stderr
    [body] = provider.bodies
    if style is CLAUDE:
        own, _, appended = body["system"][-1]["text"].rpartition("\n\nSay it ")
        assert (len(own) > 1000, f"Say it {appended}", body["output_config"]["effort"]) == (True, TWICE, "high")
    else:
        own, appended = _texts(body, "developer")[:2]
        assert (own.startswith("You are Codex"), appended) == (True, TWICE)


def test_instructions_that_are_too_long_for_an_argument_reach_the_model_all_the_same(house: House) -> None:
    (house.work / "long.md").write_text("Be kind. " * 20_000 + "The end of it.")
    for agent in ("claude", "codex"):
        model = house.scenario(calls(say("Done.") + "expect_anywhere = 'Be kind. The end of it.'\n"))
        options = ("--profile", "clean", "--mode", "complete", "--model-from", model)
        done = house.inspan("run", "Hello.", "-a", agent, *options, "--append-system-prompt", "@long.md")
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("agent", "known"),
    [("claude", "low, medium, high, xhigh, max"), ("codex", "none, minimal, low, medium, high, xhigh")],
)
def test_an_effort_that_the_agent_does_not_know_is_refused(house: House, agent: str, known: str) -> None:
    model = house.scenario(calls(say("Done.")))
    done = house.inspan("run", "do it", "-a", agent, "--effort", "heroic", "--model-from", model)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("inspan: effort 'heroic': ")
    assert done.stderr.endswith(f"\n  → Use one of {known}.\n")
    assert not house.state.exists()


@each_style
def test_a_run_ends_at_its_limit_of_turns(house: House, style: Style) -> None:
    scenario = calls(f"{run('echo hi >> said.txt')}repeat = 'always'")
    done = house.run(style.agent, scenario, *style.arguments, "--max-turns", "2")
    ended = prove(house, done.run_id, end=MAX_TURNS, usage=PER_CALL + PER_CALL)
    assert done.code == 6
    assert (house.work / "said.txt").read_text() == "hi\nhi\n"
    assert "2" in ended.message
    answered = [event for event in done.of("model_call_ended") if event["status"] == 200]
    assert len(answered) == 2


@each_style
def test_a_limit_of_turns_that_is_not_reached_changes_nothing(house: House, style: Style) -> None:
    done = house.run(style.agent, calls(run("echo hi"), say("Done.")), *style.arguments, "--max-turns", "2")
    prove(house, done.run_id, end=DONE, usage=PER_CALL + PER_CALL)


def test_without_a_gateway_a_limit_that_the_agent_does_not_keep_is_refused(house: House) -> None:
    done = house.inspan(
        "run", "do it", "-a", "codex", "--max-turns", "2", "--direct", env={"CODEX_API_KEY": "sk-0123456789"}
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "inspan: max_turns 2: Codex has no way to do this.\n"
        "  → It counts no turns; with a gateway, inspan counts its model calls.\n"
    )


@pytest.mark.parametrize("turns", ["0", "-1"])
def test_a_limit_of_no_turns_is_refused(house: House, turns: str) -> None:
    model = house.scenario(calls(say("Done.")))
    done = house.inspan("run", "do it", "-a", "claude", "--max-turns", turns, "--model-from", model)
    assert done.returncode == 2
    assert done.stderr.startswith(f"inspan: max_turns {turns}: a limit must be more than 0 turns.")


@each_agent
@pytest.mark.parametrize("box", ["none", "bwrap"])
def test_another_folder_can_be_worked_in(house: House, style: Style, box: str) -> None:
    if style is CLAUDE and box == "none":
        return _writes_beside(house, "--allow-tool", "Write", "--allow-tool", "Read")
    ground = Ground(house)
    path = ground.neighbour / "new.txt"
    scenario = calls(run(f"cat {ground.neighbour}/kept.txt && touch {path}"), say("Done.", expect="original words"))
    done = house.run(style.agent, scenario, "--sandbox", box, "--add-dir", str(ground.neighbour))
    prove(house, done.run_id, end=DONE, usage=PER_CALL + PER_CALL)
    assert ground.changes() == [str(path)]
    return None


@each_agent
@pytest.mark.parametrize("box", ["none", "bwrap"])
def test_a_review_may_read_another_folder_and_not_write_there(house: House, style: Style, box: str) -> None:
    ground = Ground(house)
    kept = ground.neighbour / "kept.txt"
    scenario = calls(
        run(f"cat {kept}"),
        run(f"touch {ground.neighbour}/new.txt", expect="original words"),
        say("Done."),
    )
    review = ("--mode", "review", "--sandbox", box, "--add-dir", str(ground.neighbour))
    done = house.run(style.agent, scenario, *review)
    assert done.verdict == ("completed", "done", 0), done.stderr
    assert ground.changes() == []


def test_another_folder_that_is_not_there_is_refused(house: House) -> None:
    model = house.scenario(calls(say("Done.")))
    (house.work / "a-file").touch()
    for name, problem in (("gone", "no such folder."), ("a-file", "it is no folder.")):
        done = house.inspan("run", "do it", "-a", "codex", "--add-dir", name, "--model-from", model)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"inspan: extra_dirs '{house.work / name}': {problem}\n")
    assert not house.state.exists()


def _writes_beside(house: House, *tools: str) -> None:
    """With a list of tools and no box the agent itself holds the folders: this one is open, by its tools alone."""
    ground = Ground(house)
    path = ground.neighbour / "new.txt"
    scenario = calls(
        use("Write", file_path=str(path), content="x\n"),
        use("Read", file_path=str(ground.neighbour / "kept.txt")),
        use("Bash", expect="original words", command=f"touch {ground.neighbour}/no.txt"),
        say("Done.", expect="No such tool available"),
    )
    done = house.run("claude", scenario, "--add-dir", str(ground.neighbour), *tools)
    prove(house, done.run_id, end=DONE, usage=PER_CALL + PER_CALL + PER_CALL + PER_CALL)
    assert ground.changes() == [str(path)]


def _texts(body: Json, role: str) -> list[str]:
    """The first text of each message of this role."""
    messages = [item for item in body["input"] if item.get("role") == role and item.get("content")]
    return [message["content"][0]["text"] for message in messages]
