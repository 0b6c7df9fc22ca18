"""Sessions of the real agents: gone on with by any name, forked, found again after a loss, used by one at a time."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.engine.puppet import Fake
from tests.house import House, end, until

from .conversation import HOLD_ON, STALLS, Conversation, answered, runs, scene, session_keys
from .proof import LOST, STOPPED, prove, prove_nothing_lives
from .styles import CLASSIC, NONE_USED, PER_CALL, Style, each_agent

UNKNOWN = "00000000-0000-4000-8000-000000000000"
each_profile = pytest.mark.parametrize("profile", ["clean", "user"])


@each_profile
@each_agent
def test_a_session_goes_on_by_every_name_it_has(house: House, style: Style, profile: str) -> None:
    talk = Conversation(house, style.agent, profile=profile)
    first = talk.say("alpha-word")
    said = ["alpha-word", "re:alpha-word"]
    turns = [first]
    for prompt, name in (
        ("beta-word", first.run_id),
        ("gamma-word", first.run_id[:-1]),
        ("delta-word", "@last"),
        ("epsilon-word", first.session_id),
    ):
        turns.append(talk.say(prompt, "--resume", name, holds=said))
        said += [prompt, f"re:{prompt}"]
    assert {turn.session_id for turn in turns} == {first.session_id}
    assert [turn.started.get("resumes", "") for turn in turns] == [
        "",
        first.run_id,
        first.run_id,
        turns[2].run_id,
        first.session_id,
    ]
    assert session_keys(house) == [first.run_id]


@each_agent
def test_every_run_begins_a_session_of_its_own_unless_one_is_named(house: House, style: Style) -> None:
    talk = Conversation(house, style.agent)
    first, second = talk.say("alpha-word"), talk.say("beta-word", lacks=["alpha-word"])
    assert first.session_id != second.session_id
    assert session_keys(house) == [first.run_id, second.run_id]


@each_profile
@each_agent
def test_a_fork_goes_its_own_way_and_so_does_the_original(house: House, style: Style, profile: str) -> None:
    talk = Conversation(house, style.agent, profile=profile)
    first = talk.say("alpha-word")
    fork = talk.say("fork-word", "--resume", first.run_id, "--fork", holds=["re:alpha-word"])
    second = talk.say("beta-word", "--resume", first.run_id, holds=["re:alpha-word"], lacks=["fork-word"])
    inner = talk.say("inner-word", "--resume", fork.run_id, "--fork", holds=["re:fork-word"], lacks=["beta-word"])
    again = talk.say("again-word", "--resume", fork.run_id, holds=["re:fork-word"], lacks=["inner-word", "beta-word"])
    talk.say("last-word", "--resume", inner.run_id, holds=["re:inner-word"], lacks=["again-word", "beta-word"])
    assert (second.session_id, again.session_id) == (first.session_id, fork.session_id)
    assert len({first.session_id, fork.session_id, inner.session_id}) == 3
    assert session_keys(house) == [first.run_id, fork.run_id, inner.run_id]


@each_agent
def test_a_session_can_be_forked_while_it_is_in_use(house: House, style: Style) -> None:
    talk = Conversation(house, style.agent)
    running = talk.hold("alpha-word")
    # The first run of a session: only its log has the session's id so far.
    fork = talk.say("fork-word", "--resume", running, "--fork", holds=["alpha-word"])
    talk.let_go(running)
    after = talk.say("beta-word", "--resume", running, holds=["re:alpha-word"], lacks=["fork-word"])
    talk.say("more-word", "--resume", fork.run_id, holds=["re:fork-word"], lacks=["beta-word"])
    assert after.session_id != fork.session_id


def test_a_session_keeps_its_model(house: House) -> None:
    # Left to itself Codex takes its default again, and has the old model sum everything up in a call of its own.
    talk = Conversation(house, CLASSIC.agent)
    first = talk.say("alpha-word", *CLASSIC.arguments)
    second = talk.say("beta-word", "--resume", first.run_id, holds=["re:alpha-word"])
    talk.say("fork-word", "--resume", second.run_id, "--fork", holds=["re:beta-word"])
    assert [event["model"] for event in second.events if event["kind"] == "model_call_ended"] == ["gpt-5.5"]


# Lost, stopped, timed out, failed


@pytest.mark.parametrize("moment", ["tool", "turn"])
@each_agent
def test_a_lost_run_can_be_gone_on_with(house: House, style: Style, moment: str) -> None:
    talk = Conversation(house, style.agent)
    lost = talk.hold("alpha-word") if moment == "tool" else _stalled(talk, "alpha-word")
    end(house.supervisor(lost))
    prove_nothing_lives(house, lost)
    turn = talk.say("beta-word", "--resume", lost, holds=["alpha-word"])
    prove(house, lost, end=LOST, usage=PER_CALL if moment == "tool" else NONE_USED)
    assert turn.session_id == house.events(lost)[-1]["session_id"]


@each_agent
def test_a_lost_run_is_found_by_the_agents_own_id(house: House, style: Style) -> None:
    talk = Conversation(house, style.agent)
    lost = talk.hold("alpha-word")
    (session_id,) = [event["session_id"] for event in house.events(lost) if event["kind"] == "thread_started"]
    end(house.supervisor(lost))
    talk.say("beta-word", "--resume", session_id, holds=["alpha-word"])
    assert house.events(lost)[-1]["outcome"] == "lost"


@each_agent
def test_a_lost_later_run_of_a_session_is_settled_by_going_on(house: House, style: Style) -> None:
    talk = Conversation(house, style.agent)
    first = talk.say("alpha-word")
    lost = talk.hold("beta-word", "--resume", first.run_id)
    end(house.supervisor(lost))
    talk.say("gamma-word", "--resume", first.run_id, holds=["re:alpha-word", "beta-word"])
    assert house.events(lost)[-1]["outcome"] == "lost"


@each_agent
def test_a_stopped_run_can_be_gone_on_with(house: House, style: Style) -> None:
    talk = Conversation(house, style.agent)
    stopped = talk.hold("alpha-word")
    assert house.inspan("stop", stopped).returncode == 0
    prove(house, stopped, end=STOPPED, usage=PER_CALL)
    talk.say("beta-word", "--resume", stopped, holds=["alpha-word"])


@pytest.mark.parametrize(
    ("scenario", "arguments", "verdict"),
    [
        (STALLS, ("--stall-timeout", "0.2s"), ("timed_out", "model_stall")),
        ("[[call]]\nfail = {status = 500}\n", (), ("failed", "overloaded")),
    ],
    ids=["timed out", "failed"],
)
@each_agent
def test_a_run_that_did_not_complete_can_be_gone_on_with(
    house: House, style: Style, scenario: str, arguments: tuple[str, ...], verdict: tuple[str, str]
) -> None:
    talk = Conversation(house, style.agent)
    broken = talk.turn("alpha-word", *arguments, scenario=scenario)
    assert broken.verdict == verdict
    talk.say("beta-word", "--resume", broken.run_id, holds=["alpha-word"])


@each_agent
def test_a_run_lost_before_its_first_word_has_nothing_to_go_on_with(house: House, style: Style, fake: Fake) -> None:
    name = f"INSPAN_{style.agent.upper()}_BIN"
    house.env[name] = _hesitant(fake, house, house.env[name])
    talk = Conversation(house, style.agent)
    (house.work / "hesitate").touch()
    # Not in the box, which a root's `exec` would be: it hides the real program where that lies below /tmp.
    lost = talk.detach("alpha-word", "--mode", "complete", scenario=answered("alpha-word"))
    until((house.work / "hesitating").exists, "agent that hesitates")
    until(lambda: _kinds(house, lost), "first record")
    end(house.supervisor(lost))
    prove_nothing_lives(house, lost)
    (house.work / "hesitate").unlink()
    if not house.events(lost)[0].get("session_id"):
        refusal = talk.refused("beta-word", "--resume", lost)
        assert (refusal.exit_code, refusal.code) == (2, "session_not_found")
        assert refusal.message == f"Run {lost} opened no session that could be continued."
        return
    # Its id was given to it before it could make a session of it: only the agent knows that there is none.
    never = scene("never", more="repeat = 'always'")
    turn = talk.turn("beta-word", "--mode", "complete", "--resume", lost, scenario=never)
    assert (turn.verdict, turn.code) == (("failed", "session_not_found"), 1)
    assert "without --resume" in turn.ended["next"]


# In use


@each_agent
def test_of_two_who_go_on_with_a_session_at_once_one_does(house: House, style: Style) -> None:
    talk = Conversation(house, style.agent)
    first = talk.say("alpha-word")
    waits = "[[call]]\nrun = 'until test -e go; do python3 -c \"import time; time.sleep(0.02)\"; done'\n"
    both = {
        prompt: talk.start(prompt, "--resume", first.run_id, scenario=waits + scene(f"re:{prompt}"))
        for prompt in ("left-word", "right-word")
    }
    (loser,) = until(lambda: [prompt for prompt, process in both.items() if process.poll() is not None], "loser")
    output, errors = both[loser].communicate()
    error = json.loads(errors)["error"]
    assert (both[loser].returncode, output, error["code"]) == (1, b"", "session_busy")
    assert first.run_id in error["message"]
    assert "--fork" in error["next"]
    (house.work / "go").touch()
    (winner,) = both.keys() - {loser}
    assert both[winner].wait(timeout=60) == 0
    assert len(runs(house)) == 2
    talk.say("beta-word", "--resume", first.run_id, holds=[f"re:{winner}"], lacks=[loser])


@each_profile
@each_agent
def test_a_session_whose_first_run_goes_on_is_in_use_by_every_name(house: House, style: Style, profile: str) -> None:
    talk = Conversation(house, style.agent, profile=profile)
    running = talk.hold("alpha-word")
    (session_id,) = [event["session_id"] for event in house.events(running) if event["kind"] == "thread_started"]
    for name in (running, "@last", session_id):
        refusal = talk.refused("beta-word", "--resume", name)
        assert (refusal.exit_code, refusal.code) == (1, "session_busy"), name
    talk.let_go(running)
    talk.say("beta-word", "--resume", session_id, holds=["re:alpha-word"])


@each_agent
def test_a_program_and_the_command_line_share_a_session_one_after_the_other(house: House, style: Style) -> None:
    talk = Conversation(house, style.agent)
    first = talk.say("alpha-word")
    running = talk.hold("beta-word", "--resume", first.run_id)
    assert _embedded(house, first.run_id).communicate(timeout=60)[0] == b"session_busy\n"
    talk.let_go(running)
    program = _embedded(house, first.run_id, holds=["re:beta-word"])
    until((house.work / "started").exists, "tool")
    assert talk.refused("delta-word", "--resume", first.run_id).code == "session_busy"
    (house.work / "go").touch()
    assert program.communicate(timeout=60)[0] == b"completed done\n"
    talk.say("delta-word", "--resume", first.run_id, holds=["re:gamma-word"])


# Where it belongs


@each_agent
def test_a_session_goes_on_in_its_own_folder_and_in_no_other(house: House, style: Style) -> None:
    deep = house.work / "deep"
    deep.mkdir()
    talk = Conversation(house, style.agent)
    first = talk.say("alpha-word", "-C", "deep")
    second = talk.say("beta-word", "--resume", first.run_id, holds=["re:alpha-word"])
    assert second.started["cwd"] == str(deep)
    elsewhere = talk.refused("gamma-word", "--resume", first.run_id, "-C", ".")
    assert (elsewhere.exit_code, elsewhere.code) == (2, "bad_input")
    assert elsewhere.message == f"cwd '{house.work}': the session belongs to {deep}."
    deep.rmdir()
    gone = talk.refused("gamma-word", "--resume", first.run_id)
    assert (gone.exit_code, gone.code) == (2, "bad_input")
    assert gone.message == f"cwd '{deep}': the folder of the session is gone."
    assert "--cwd" not in gone.next


@each_agent
def test_a_session_is_no_other_agents(house: House, style: Style) -> None:
    first = Conversation(house, style.agent).say("alpha-word")
    other = "codex" if style.agent == "claude" else "claude"
    refusal = Conversation(house, other).refused("beta-word", "--resume", first.run_id)
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")
    assert refusal.message == f"agent '{other}': the session is one of {style.agent}."


@each_agent
def test_going_on_needs_no_word_about_agent_or_profile(house: House, style: Style) -> None:
    first = Conversation(house, style.agent).say("alpha-word")
    model = house.scenario(answered("beta-word", holds=["re:alpha-word"]))
    done = house.inspan("run", "beta-word", "-r", first.run_id, "--model-from", model)
    assert (done.returncode, done.stdout) == (0, "re:beta-word\n"), done.stderr
    described = json.loads((house.folder(house.inspan("ps", "-aq").stdout.split()[0]) / "run.json").read_text())
    assert (described["agent"], described["task"]["profile"]) == (style.agent, "clean")


@each_agent
def test_a_session_that_is_gone_on_with_without_a_prompt_continues(house: House, style: Style) -> None:
    talk = Conversation(house, style.agent)
    first = talk.say("alpha-word")
    turn = talk.say("", "--resume", first.run_id, scenario="[[call]]\nexpect = 'Continue.'\nsay = 'on'\n")
    assert (house.folder(turn.run_id) / "prompt.md").read_text() == "Continue."


# Deleting


@each_agent
def test_a_session_goes_with_its_last_run(house: House, style: Style) -> None:
    talk = Conversation(house, style.agent)
    first = talk.say("alpha-word")
    second = talk.say("beta-word", "--resume", first.run_id)
    assert house.inspan("rm", first.run_id).returncode == 0
    assert talk.refused("x", "--resume", first.run_id).code == "session_not_found"
    third = talk.say("gamma-word", "--resume", second.run_id, holds=["re:alpha-word", "re:beta-word"])
    assert house.inspan("rm", second.run_id, third.run_id).returncode == 0
    assert session_keys(house) == []
    refusal = talk.refused("x", "--resume", first.session_id)
    assert (refusal.exit_code, refusal.code) == (2, "session_not_found")
    assert refusal.message == f"There is no run {first.session_id!r}. No session has this id either."
    assert "deleted with its last run" in refusal.next


@each_agent
def test_a_deleted_session_leaves_its_fork_what_it_needs(house: House, style: Style) -> None:
    talk = Conversation(house, style.agent)
    first = talk.say("alpha-word")
    fork = talk.say("fork-word", "--resume", first.run_id, "--fork")
    assert house.inspan("rm", first.run_id).returncode == 0
    for name in (first.run_id, first.session_id):
        assert talk.refused("x", "--resume", name).code == "session_not_found"
    last = talk.say("more-word", "--resume", fork.run_id, holds=["re:alpha-word", "re:fork-word"])
    assert session_keys(house) == [first.run_id, fork.run_id]
    assert house.inspan("rm", fork.run_id, last.run_id).returncode == 0
    assert session_keys(house) == []


@each_agent
def test_a_session_of_the_user_outlives_its_runs(house: House, style: Style) -> None:
    talk = Conversation(house, style.agent, profile="user")
    first = talk.say("alpha-word")
    assert house.inspan("rm", first.run_id).returncode == 0
    assert session_keys(house) == []
    (house.work / "deep").mkdir()
    # Now it is one that inspan knows nothing of: it goes on where the command is.
    second = talk.say("beta-word", "--resume", first.session_id, holds=["re:alpha-word"])
    assert (second.session_id, second.started["cwd"]) == (first.session_id, str(house.work))
    fork = talk.say("fork-word", "--resume", first.session_id, "--fork", holds=["re:beta-word"])
    third = talk.say("gamma-word", "--resume", first.session_id, holds=["re:beta-word"], lacks=["fork-word"])
    assert house.inspan("rm", second.run_id, third.run_id, fork.run_id).returncode == 0
    assert session_keys(house) == []


@each_agent
def test_a_session_that_inspan_knows_nothing_of_is_used_by_one_at_a_time(house: House, style: Style) -> None:
    talk = Conversation(house, style.agent, profile="user")
    first = talk.say("alpha-word")
    assert house.inspan("rm", first.run_id).returncode == 0
    running = talk.hold("beta-word", "--resume", first.session_id)
    assert talk.refused("gamma-word", "--resume", first.session_id).code == "session_busy"
    talk.let_go(running)
    talk.say("gamma-word", "--resume", first.session_id, holds=["re:beta-word"])


# Names of nothing


@each_agent
def test_an_unknown_id_is_for_the_users_agent_to_know(house: House, style: Style) -> None:
    talk = Conversation(house, style.agent, profile="user")
    turn = talk.turn("alpha-word", "--resume", UNKNOWN, scenario=scene("never", more="repeat = 'always'"))
    assert (turn.verdict, turn.code) == (("failed", "session_not_found"), 1)
    assert UNKNOWN in turn.ended["message"]
    assert "without --resume" in turn.ended["next"]


@pytest.mark.parametrize("name", ["no-such-session", "../../escape", "@first", "2"])
@each_profile
@each_agent
def test_what_can_be_no_session_is_refused(house: House, style: Style, profile: str, name: str) -> None:
    refusal = Conversation(house, style.agent, profile=profile).refused("alpha-word", "--resume", name)
    assert (refusal.exit_code, refusal.code) == (2, "session_not_found")
    assert repr(name) in refusal.message


@each_agent
def test_an_unknown_id_is_refused_in_the_profile_clean(house: House, style: Style) -> None:
    refusal = Conversation(house, style.agent).refused("alpha-word", "--resume", UNKNOWN)
    assert (refusal.exit_code, refusal.code) == (2, "session_not_found")


def test_the_first_run_of_all_has_nothing_to_go_on_with(house: House) -> None:
    refusal = Conversation(house, "claude").refused("alpha-word", "--resume", "@last")
    assert (refusal.exit_code, refusal.code, refusal.message) == (2, "session_not_found", "There is no run yet.")


def test_a_beginning_of_several_runs_is_told_apart(house: House) -> None:
    talk = Conversation(house, "codex")
    ids = sorted([talk.say("alpha-word").run_id, talk.say("beta-word").run_id])
    refusal = talk.refused("gamma-word", "--resume", ids[0][:9])
    assert (refusal.exit_code, refusal.code) == (2, "session_not_found")
    assert all(run_id in refusal.next for run_id in ids)


def test_nothing_can_be_forked_without_a_session(house: House) -> None:
    refusal = Conversation(house, "claude").refused("alpha-word", "--fork")
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")


@each_agent
def test_an_agent_in_a_box_cannot_write_its_sessions_record(house: House, style: Style, bubblewrap: str) -> None:
    assert os.path.isabs(bubblewrap)
    talk = Conversation(house, style.agent, "--sandbox", "bwrap")
    first = talk.say("alpha-word")
    record = house.state / "sessions" / first.run_id / "session.json"
    spoils = f"run = 'echo spoiled > {record}; rm -f {record.parent}/lock; true'"
    talk.say("beta-word", "--resume", first.run_id, scenario=f"[[call]]\n{spoils}\n" + scene("done"))
    assert json.loads(record.read_text())["session_id"] == first.session_id
    assert (record.parent / "lock").exists()


def _stalled(talk: Conversation, prompt: str) -> str:
    """Starts a run whose model never answers; gives its id once the agent has noted the prompt in its transcript."""
    run_id = talk.detach(prompt, scenario=STALLS)
    config = talk.house.state / "sessions" / run_id / "config"
    until(lambda: [path for path in config.rglob("*-*.jsonl") if prompt in path.read_text()], "transcript")
    return run_id


def _kinds(house: House, run_id: str) -> list[str]:
    log = house.folder(run_id) / "events.jsonl"
    return house.kinds(run_id) if log.exists() else []


def _hesitant(fake: Fake, house: House, program: str) -> str:
    """The agent, but for a wait before its first word while a file is there."""
    return fake(
        "hesitant",
        "import os, sys, time\n"
        f"hesitate = {str(house.work / 'hesitate')!r}\n"
        "if sys.argv[1:] != ['--version'] and os.path.exists(hesitate):\n"
        f"    open({str(house.work / 'hesitating')!r}, 'w').close()\n"
        "    time.sleep(600)\n"
        f"os.execv({program!r}, [{program!r}, *sys.argv[1:]])\n",
    )


def _embedded(house: House, resume: str, *, holds: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """A program that goes on with a session by itself, with a tool that waits; it prints how that ended."""
    model = house.scenario(f"[[call]]\n{HOLD_ON}\n{answered('gamma-word', holds=holds)}", name="embedded")
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, resume, model],
        env=house.env,
        cwd=house.work,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    house.started.append(process)
    return process


_PROGRAM = """
import asyncio, sys
import inspan

task = inspan.Task(prompt="gamma-word", cwd="", resume=sys.argv[1], model_from=sys.argv[2])
try:
    ended = asyncio.run(inspan.run(task))
    print(ended.outcome, ended.reason)
except inspan.InspanError as error:
    print(error.code)
"""
