"""The blueprints that come with inspan, each on two real agents whose models follow a script."""

import pytest

from .conftest import Blueprints

AGENTS = ("claude", "codex")
OTHER = {"claude": "codex", "codex": "claude"}
SAY = '[[call]]\nsay = "{}"\n'
SET = '[[call]]\nrun = "echo {} > n"\n[[call]]\nsay = "Done."\n'


def write_scripts(blueprints: Blueprints, **scripts: str) -> str:
    """A scenario for each node and round, by names as `review_2`; gives what `--model-from` takes."""
    for name, text in scripts.items():
        blueprints.cli_env.scenario(text, name.replace("_", "-"))
    return f"script:{blueprints.cli_env.root}/{{node}}-{{round}}.toml"


def changed(blueprints: Blueprints) -> str:
    return (blueprints.cli_env.work / "n").read_text().strip()


@pytest.mark.parametrize("agent", AGENTS)
def test_a_failing_test_is_fixed(blueprints: Blueprints, agent: str) -> None:
    blueprints.make_repository(n="1")
    inputs = ("-i", 'check=echo "n is $(cat n)"; test "$(cat n)" = 2', "-i", f"agent={agent}")
    model = write_scripts(blueprints, fix_1=SET.format(2))
    run = blueprints.run_named("fix-failing-test", *inputs, model=model)
    assert (blueprints.code, changed(blueprints)) == (0, "2"), blueprints.stderr
    assert blueprints.nodes(run) == {"before": "failed", "fix": "success"}
    assert "n is 1" in blueprints.read_prompt(run, "fix")
    again = blueprints.run_named("fix-failing-test", *inputs, model=model)
    assert (blueprints.code, blueprints.nodes(again)) == (0, {"before": "success", "fix": "skipped"})


@pytest.mark.parametrize("agent", AGENTS)
def test_a_reviewer_of_another_vendor_finds_something_and_then_agrees(blueprints: Blueprints, agent: str) -> None:
    blueprints.make_repository(n="1")
    model = write_scripts(
        blueprints,
        implement_1=SET.format(2),
        review_1=SAY.format("It should be 3, not 2.\\nNot APPROVED"),
        fix_1=SAY.format("Never asked."),
        fix_2=SET.format(3),
        review_2=SAY.format("Fine.\\nAPPROVED"),
    )
    inputs = ("-i", "task=set n", "-i", f"agent={agent}", "-i", f"reviewer={OTHER[agent]}")
    run = blueprints.run_named("implement-review-fix", *inputs, model=model)
    assert (blueprints.code, changed(blueprints)) == (0, "3"), blueprints.stderr
    ended = [(each["node"], each.get("round", 1), each["status"]) for each in blueprints.select(run, "node_ended")]
    assert ended == [
        ("implement", 1, "success"),
        *(("fix", 1, "skipped"), ("review", 1, "success"), ("approved", 1, "failed")),
        *(("fix", 2, "success"), ("review", 2, "success"), ("approved", 2, "success")),
    ]
    assert "It should be 3, not 2." in blueprints.read_prompt(run, "fix", round=2)
    runs = {each["node"]: each["runs"][0] for each in blueprints.select(run, "node_ended") if each.get("runs")}
    began = {node: blueprints.cli_env.events(each)[0] for node, each in runs.items()}
    assert (began["review"]["agent"], began["review"]["mode"]) == (OTHER[agent], "review")
    assert began["fix"]["resumes"] and began["fix"]["agent"] == agent


@pytest.mark.parametrize("agent", AGENTS)
def test_the_judge_chooses_and_the_best_is_brought_in(blueprints: Blueprints, agent: str) -> None:
    blueprints.make_repository(n="0")
    model = write_scripts(
        blueprints,
        **{"attempt-1_1": SET.format(1), "attempt-2_1": SET.format(2), "attempt-3_1": SET.format(3)},
        choose_1='[[call]]\nanswer = { winner = "attempt-2", reason = "it passes" }\n',
    )
    names = [f"{name}={agent}" for name in ("first", "second", "third", "judge")]
    inputs = [word for each in ("task=set n", "check=grep -q 2 n", *names) for word in ("-i", each)]
    run = blueprints.run_named("best-of-n", *inputs, model=model)
    assert (blueprints.code, changed(blueprints)) == (0, "2"), blueprints.stderr
    nodes = blueprints.nodes(run)
    assert (nodes["check-1"], nodes["check-2"], nodes["check-3"]) == ("failed", "success", "failed")
    told = blueprints.read_prompt(run, "choose")
    assert "attempt-2, exit code of the check 0:" in told and "+2" in told and "exit code of the check 1:" in told


@pytest.mark.parametrize("agent", AGENTS)
def test_a_dependency_is_upgraded_once_the_check_passes(blueprints: Blueprints, agent: str) -> None:
    blueprints.make_repository(n="1")
    model = write_scripts(blueprints, upgrade_1=SET.format(2), message_1=SAY.format("Upgrade it to 2."))
    inputs = ("-i", "package=it", "-i", "check=test -s n", "-i", f"agent={agent}")
    run = blueprints.run_named("upgrade-dependency", *inputs, model=model)
    assert (blueprints.code, changed(blueprints)) == (0, "2"), blueprints.stderr
    assert blueprints.outputs(run)["message"] == "Upgrade it to 2."
    assert "+2" in blueprints.read_prompt(run, "message")
    red = blueprints.run_named("upgrade-dependency", *inputs[:2], "-i", "check=false", *inputs[4:], model=model)
    assert (blueprints.code, blueprints.nodes(red)["upgrade"]) == (1, "skipped")
