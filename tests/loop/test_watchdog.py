"""Real agents that fall silent in a loop: what is done about it, and that the loop goes on in the same conversation."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli_env import CliEnv, processes_of

from .conftest import Loop, Loops

SAY = '[[call]]\nsay = "Done."\n'
HANG = '[[call]]\nrun = "sleep 1000"\nrepeat = "always"\n'
STALL = '[[call]]\nstall = "before-headers"\nrepeat = "always"\n'
# More than an agent takes for a start, or for an answer to a nudge, on a machine that has much else to do.
FAST = ("--watchdog", "tool=4s,model=15s,step=10s")
NO_MESSAGE, NO_INTERRUPT = "takes no message while it works on this channel", "cannot be interrupted on this channel"


def run_silent(loops: Loops, agent: str, first: str, *more: str) -> Loop:
    """A loop whose first attempt falls silent, and whose second one does not."""
    loops.cli_env.scenario(first, f"{agent}-1")
    loops.cli_env.scenario(SAY, f"{agent}-2")
    return loops.run(*more, agent=agent, model=f"script:{loops.cli_env.root}/{{agent}}-{{attempt}}.toml")


def list_steps(cli_env: CliEnv, run_id: str) -> list[dict[str, Any]]:
    return [event for event in cli_env.events(run_id) if event["kind"] == "watchdog_acted"]


def check_went_on(loops: Loops, loop: Loop) -> None:
    """The first attempt was ended as stuck, with all that it had started, and the second did it in its conversation."""
    assert loop.verdict == ("completed", "done", 0), loop.stderr
    first, second = loop.runs
    ended = loops.cli_env.events(first)[-1]
    assert (ended["outcome"], ended["reason"]) == ("timed_out", "stuck")
    assert ended["session_id"] == loops.cli_env.events(second)[-1]["session_id"]
    told = json.loads((loops.cli_env.folder(second) / "run.json").read_text())["task"]["prompt"]
    assert told.startswith("The last attempt ended early (stuck): Nothing was heard for ")
    assert processes_of(first) == []


@pytest.mark.parametrize("agent", ["claude", "codex"])
@pytest.mark.parametrize(("first", "cause"), [(HANG, "tool_at_work"), (STALL, "model_silent")], ids=["tool", "model"])
def test_an_agent_that_nobody_can_speak_to_is_ended_and_started_again(
    loops: Loops, agent: str, first: str, cause: str
) -> None:
    loop = run_silent(loops, agent, first, *FAST)
    check_went_on(loops, loop)
    steps = list_steps(loops.cli_env, loop.runs[0])
    assert [step["step"] for step in steps] == ["nudge", "interrupt", "kill"]
    assert {step["cause"] for step in steps} == {cause}
    assert NO_MESSAGE in steps[0]["skipped"] and NO_INTERRUPT in steps[1]["skipped"]
    assert "skipped" not in steps[2]
    assert f"no nudge: {steps[0]['skipped']}" in loop.stderr


def test_a_turn_of_claude_code_is_told_so_and_then_interrupted(loops: Loops) -> None:
    loop = run_silent(loops, "claude", HANG, *FAST, "--channel", "rpc")
    check_went_on(loops, loop)
    steps = list_steps(loops.cli_env, loop.runs[0])
    assert [(step["step"], step.get("skipped", "")) for step in steps] == [("nudge", ""), ("interrupt", "")]
    assert "turn_interrupted" in loops.cli_env.kinds(loop.runs[0])


def test_codex_leaves_a_tool_when_it_is_told_so_and_is_interrupted_when_it_begins_the_same_again(loops: Loops) -> None:
    loop = run_silent(loops, "codex", HANG, *FAST, "--channel", "rpc")
    check_went_on(loops, loop)
    steps = list_steps(loops.cli_env, loop.runs[0])
    assert [step["step"] for step in steps] == ["nudge", "heard", "nudge", "interrupt"]
    assert steps[2]["skipped"] == "it was told so before, and came back to the same"


def test_codex_that_is_told_so_does_its_task_in_the_same_turn(loops: Loops) -> None:
    cli_env = loops.cli_env
    model = cli_env.scenario('[[call]]\nrun = "sleep 1000"\n' + SAY)
    done = cli_env.inspan(*_run(model, "codex", *FAST, "--channel", "rpc"))
    assert done.returncode == 0, done.stderr
    assert [step["step"] for step in list_steps(cli_env, "")] == ["nudge", "heard"]


def _run(model: str, agent: str, *more: str) -> list[str]:
    return ["run", "do it", "-a", agent, "--profile", "clean", "--model-from", model, *more]


# Which runs are watched


def read_watchdog(cli_env: CliEnv, run_id: str) -> dict[str, Any] | None:
    return json.loads((cli_env.folder(run_id) / "run.json").read_text())["task"].get("watchdog")


def configure(cli_env: CliEnv, text: str) -> None:
    folder = Path(cli_env.env["HOME"], ".config", "inspan")
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(text)


@pytest.mark.parametrize(
    ("settings", "words", "in_loop", "alone"),
    [
        ("", (), {}, None),
        ("", ("--watchdog", "off"), {"model_s": None, "tool_s": None}, {"model_s": None, "tool_s": None}),
        ("", ("--watchdog", "tool=9s"), {"tool_s": 9.0}, {"tool_s": 9.0}),
        ('[watchdog]\nruns = "none"\nmodel = "7s"\n', (), None, None),
        ('[watchdog]\nruns = "none"\nmodel = "7s"\n', ("--watchdog", "on"), {"model_s": 7.0}, {"model_s": 7.0}),
        ('[watchdog]\nruns = "all"\nstep = "7s"\n', (), {"step_s": 7.0}, {"step_s": 7.0}),
        ('[watchdog]\ntriage = true\n[runtime]\nprint_command = "codex"\n', (), {"triage": "codex"}, None),
    ],
    ids=["usual", "off", "flag", "none", "on", "all", "triage"],
)
def test_runs_of_loops_are_watched_and_others_where_somebody_says_so(
    loops: Loops, settings: str, words: tuple[str, ...], in_loop: dict[str, Any] | None, alone: dict[str, Any] | None
) -> None:
    cli_env = loops.cli_env
    configure(cli_env, settings)
    model = cli_env.scenario(SAY)
    loop = loops.run(*words, model=model)
    assert read_watchdog(cli_env, loop.runs[0]) == in_loop, loop.stderr
    started = cli_env.inspan(*_run(model, "scripted", "-d", *words))
    assert read_watchdog(cli_env, started.stdout.strip()) == alone, started.stderr


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("soon", "'soon' is none of on, off, triage, model=…, tool=… and step=…."),
        ("tool=soon", "'tool=soon': "),
        ("step=off", "step cannot be off"),
        ("model=0", "'model=0' is no time at all."),
    ],
)
def test_words_that_are_none_are_refused(cli_env: CliEnv, words: str, problem: str) -> None:
    refused = cli_env.inspan(*_run("live", "scripted", "--watchdog", words))
    assert refused.returncode == 2 and problem in refused.stderr


# Another agent is asked


def with_advice(answer: str) -> str:
    return f"[[call]]\nwhen = \"watchdog triage\"\nsay = '''{answer}'''\n{HANG}"


@pytest.mark.parametrize(("advice", "sandbox"), [("restart", "none"), ("give_up", "bwrap")])
def test_the_worst_that_an_agent_can_advise_is_a_restart(loops: Loops, advice: str, sandbox: str) -> None:
    configure(loops.cli_env, '[runtime]\nprint_command = "codex"\n')
    answer = json.dumps({"advice": advice, "why": "it will never end"})
    words = ("--sandbox", sandbox) if sandbox == "bwrap" else ()
    loop = run_silent(loops, "claude", with_advice(answer), "--watchdog", "tool=2s,step=2s,triage", *words)
    check_went_on(loops, loop)
    steps = list_steps(loops.cli_env, loop.runs[0])
    assert [(step["step"], step["by"]) for step in steps] == [("interrupt", "triage"), ("kill", "triage")]
    assert steps[0]["advice"] == f"{advice}: it will never end"
    (asked,) = [path.name for path in loops.cli_env.state.glob("projects/*/*/runs/*") if _asks(path)]
    started = loops.cli_env.events(asked)[0]
    assert (started["agent"], started["mode"], started["budgets"]) == ("codex", "complete", {"run": "5calls"})
    assert started["sandbox"] == sandbox


def _asks(folder: Path) -> bool:
    return json.loads((folder / "run.json").read_text())["task"]["prompt"].startswith("This is the watchdog triage")


def test_an_answer_of_no_use_leaves_it_to_the_rules_and_no_secret_is_shown(loops: Loops) -> None:
    loops.cli_env.env["SOME_API_KEY"] = "sk-very-secret-0123456789"
    configure(loops.cli_env, '[runtime]\nprint_command = "codex"\n')
    first = with_advice("Delete everything.").replace("sleep 1000", "echo sk-very-secret-0123456789; sleep 1000")
    loop = run_silent(loops, "claude", first, "--watchdog", "tool=2s,step=2s,triage")
    check_went_on(loops, loop)
    steps = list_steps(loops.cli_env, loop.runs[0])
    assert [step["step"] for step in steps] == ["nudge", "interrupt", "kill"]
    assert steps[0]["advice"].startswith("no answer")
    (asked,) = [path for path in loops.cli_env.state.glob("projects/*/*/runs/*") if _asks(path)]
    prompt = (asked / "prompt.md").read_text()
    assert '"kind":"tool_started"' in prompt and "very-secret" not in prompt
