"""What a user chooses for a run: instructions, model, limits."""

from ..cell import must, same
from ..ground import Ground
from ..scenario import scenario

_HEARD = '[[call]]\nexpect_anywhere = "speak-as-a-walrus"\nsay = "heard"\n'


@scenario("a system prompt of the user's")
def system_prompt(ground: Ground) -> None:
    story = ground.run(_HEARD, "--system-prompt", "Please speak-as-a-walrus.")
    story.is_done()
    same("texts", story.texts, ["heard"])


@scenario("words behind the agent's own system prompt")
def append_system_prompt(ground: Ground) -> None:
    story = ground.run(_HEARD, "--append-system-prompt", "Please speak-as-a-walrus.")
    story.is_done()
    same("texts", story.texts, ["heard"])


@scenario("the model that was asked for")
def model(ground: Ground) -> None:
    wanted = ground.driver.trial_model
    must(wanted, "the driver names no model to try")
    story = ground.run('[[call]]\nsay = "hello"\n', "--model", wanted)
    story.is_done()
    asked = {event["model"] for event in story.of("model_call_ended") if event.get("role", "main") == "main"}
    # Some take the provider in front of it for themselves, others pass it on.
    same("models asked", asked, {wanted if wanted in asked else wanted.rpartition("/")[2]})


@scenario("a budget, refused before the call that it does not cover")
def budget(ground: Ground) -> None:
    if ground.driver.capabilities.exec == "no":  # One call for each run, so that the second run is refused.
        ground.run('[[call]]\nsay = "hello"\n', "--budget", "task=1calls").is_done()
        same("exit code", ground.refused('[[call]]\nsay = "hello"\n', "--budget", "task=1calls"), 6)
        return
    story = ground.run('[[call]]\nrun = "echo again"\nrepeat = "always"\n', "--budget", "2calls")
    story.ends("limited", "budget")
    same("exit code", story.code, 6)
    answered = [event for event in story.of("model_call_ended") if event.get("status") == 200]
    same("model calls", len(answered), 2)
    must(len(story.of("budget_refused")) == 1, f"the budget refused {len(story.of('budget_refused'))} times")


@scenario("a limit on turns")
def max_turns(ground: Ground) -> None:
    story = ground.run('[[call]]\nrun = "echo again"\nrepeat = "always"\n', "--max-turns", "2")
    story.ends("limited", "max_turns")
    answered = [event for event in story.of("model_call_ended") if event.get("status") == 200]
    same("model calls", len(answered), 2)
