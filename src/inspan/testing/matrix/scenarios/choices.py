"""What a user chooses for a run: instructions, model, limits."""

from inspan.testing.matrix.cell import require, require_equal
from inspan.testing.matrix.cell_environment import CellEnvironment
from inspan.testing.matrix.scenario import scenario

_HEARD = '[[call]]\nexpect_anywhere = "speak-as-a-walrus"\nsay = "heard"\n'


@scenario("a system prompt of the user's")
def system_prompt(cell_env: CellEnvironment) -> None:
    story = cell_env.run(_HEARD, "--system-prompt", "Please speak-as-a-walrus.")
    story.require_completed()
    require_equal("texts", story.texts, ["heard"])


@scenario("words behind the agent's own system prompt")
def append_system_prompt(cell_env: CellEnvironment) -> None:
    story = cell_env.run(_HEARD, "--append-system-prompt", "Please speak-as-a-walrus.")
    story.require_completed()
    require_equal("texts", story.texts, ["heard"])


@scenario("the model that was asked for")
def model(cell_env: CellEnvironment) -> None:
    wanted = cell_env.driver.trials.trial_model
    require(wanted, "the driver names no model to try")
    story = cell_env.run('[[call]]\nsay = "hello"\n', "--model", wanted)
    story.require_completed()
    asked = {event["model"] for event in story.select_events("model_call_ended") if event.get("role", "main") == "main"}
    # Some take the provider in front of it for themselves, others pass it on.
    require_equal("models asked", asked, {wanted if wanted in asked else wanted.rpartition("/")[2]})


@scenario("a budget, refused before the call that it does not cover")
def budget(cell_env: CellEnvironment) -> None:
    if cell_env.driver.capabilities.exec == "no":  # One call for each run, so that the second run is refused.
        cell_env.run('[[call]]\nsay = "hello"\n', "--budget", "task=1calls").require_completed()
        require_equal("exit code", cell_env.expect_refusal('[[call]]\nsay = "hello"\n', "--budget", "task=1calls"), 6)
        return
    story = cell_env.run('[[call]]\nrun = "echo again"\nrepeat = "always"\n', "--budget", "2calls")
    story.require_outcome("limited", "budget")
    require_equal("exit code", story.code, 6)
    answered = [event for event in story.select_events("model_call_ended") if event.get("status") == 200]
    require_equal("model calls", len(answered), 2)
    require(
        len(story.select_events("budget_refused")) == 1,
        f"the budget refused {len(story.select_events('budget_refused'))} times",
    )


@scenario("a limit on turns")
def max_turns(cell_env: CellEnvironment) -> None:
    story = cell_env.run('[[call]]\nrun = "echo again"\nrepeat = "always"\n', "--max-turns", "2")
    story.require_outcome("limited", "max_turns")
    answered = [event for event in story.select_events("model_call_ended") if event.get("status") == 200]
    require_equal("model calls", len(answered), 2)
