"""Sessions of the real agents: gone on with by any name, forked, found again after a loss, used by one at a time."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.cli.refusal import parse_refusal
from tests.cli_env import CliEnv, SavedCliEnv, kill_process, wait_until
from tests.running.fake_agent import Fake

from .conversation import (
    STALLS,
    WAIT_FOR_GO,
    WAIT_STEP,
    Conversation,
    Turn,
    build_answer_scenario,
    build_turn_scenario,
    has_saved_tool_use,
    list_runs,
    session_keys,
)
from .run_checks import LOST, STOPPED, check_end, check_no_processes
from .styles import CLASSIC, NONE_USED, PER_CALL, Style, each_agent

Begin = Callable[..., tuple[CliEnv, Conversation, Turn]]
UNKNOWN = "00000000-0000-4000-8000-000000000000"
each_profile = pytest.mark.parametrize("profile", ["clean", "user"])


@pytest.fixture(scope="module")
def houses() -> dict[tuple[str, str], tuple[SavedCliEnv, Turn]]:
    """Those in which an agent, in a profile, has ended the first turn of a session."""
    return {}


@pytest.fixture
def begin_session(
    houses: dict[tuple[str, str], tuple[SavedCliEnv, Turn]],
    tmp_path_factory: pytest.TempPathFactory,
    binaries: dict[str, str],
) -> Iterator[Begin]:
    """Gives a session of the test's own, whose first turn was `alpha-word`, in a house that is set up once."""

    def begin(style: Style, *, profile: str = "clean") -> tuple[CliEnv, Conversation, Turn]:
        if (style.agent, profile) not in houses:
            made = CliEnv(tmp_path_factory.mktemp("begun"), binaries=binaries)
            turn = Conversation(made, style.agent, profile=profile).say("alpha-word")
            houses[style.agent, profile] = SavedCliEnv(made), turn
        saved, turn = houses[style.agent, profile]
        made = saved.restore()
        return made, Conversation(made, style.agent, profile=profile), turn

    yield begin
    for saved, _ in houses.values():
        saved.close()


@each_profile
@each_agent
def test_a_session_goes_on_by_every_name_it_has(begin_session: Begin, style: Style, profile: str) -> None:
    cli_env, talk, first = begin_session(style, profile=profile)
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
    assert session_keys(cli_env) == [first.run_id]


@each_agent
def test_every_run_begins_a_session_of_its_own_unless_one_is_named(cli_env: CliEnv, style: Style) -> None:
    talk = Conversation(cli_env, style.agent)
    first, second = talk.say("alpha-word"), talk.say("beta-word", lacks=["alpha-word"])
    assert first.session_id != second.session_id
    assert session_keys(cli_env) == [first.run_id, second.run_id]


@each_profile
@each_agent
def test_a_fork_goes_its_own_way_and_so_does_the_original(begin_session: Begin, style: Style, profile: str) -> None:
    cli_env, talk, first = begin_session(style, profile=profile)
    fork = talk.say("fork-word", "--resume", first.run_id, "--fork", holds=["re:alpha-word"])
    second = talk.say("beta-word", "--resume", first.run_id, holds=["re:alpha-word"], lacks=["fork-word"])
    inner = talk.say("inner-word", "--resume", fork.run_id, "--fork", holds=["re:fork-word"], lacks=["beta-word"])
    again = talk.say("again-word", "--resume", fork.run_id, holds=["re:fork-word"], lacks=["inner-word", "beta-word"])
    talk.say("last-word", "--resume", inner.run_id, holds=["re:inner-word"], lacks=["again-word", "beta-word"])
    assert (second.session_id, again.session_id) == (first.session_id, fork.session_id)
    assert len({first.session_id, fork.session_id, inner.session_id}) == 3
    assert session_keys(cli_env) == [first.run_id, fork.run_id, inner.run_id]


@each_agent
def test_a_session_can_be_forked_while_it_is_in_use(cli_env: CliEnv, style: Style) -> None:
    talk = Conversation(cli_env, style.agent)
    running = talk.start_waiting("alpha-word")
    # The first run of a session: only its log has the session's id so far.
    fork = talk.say("fork-word", "--resume", running, "--fork", holds=["alpha-word"])
    talk.release(running)
    after = talk.say("beta-word", "--resume", running, holds=["re:alpha-word"], lacks=["fork-word"])
    talk.say("more-word", "--resume", fork.run_id, holds=["re:fork-word"], lacks=["beta-word"])
    assert after.session_id != fork.session_id


def test_a_session_keeps_its_model(cli_env: CliEnv) -> None:
    # Left to itself Codex takes its default again, and has the old model sum everything up in a call of its own.
    talk = Conversation(cli_env, CLASSIC.agent)
    first = talk.say("alpha-word", *CLASSIC.arguments)
    second = talk.say("beta-word", "--resume", first.run_id, holds=["re:alpha-word"])
    talk.say("fork-word", "--resume", second.run_id, "--fork", holds=["re:beta-word"])
    assert [event["model"] for event in second.events if event["kind"] == "model_call_ended"] == ["gpt-5.5"]


# Lost, stopped, timed out, failed


@pytest.mark.parametrize("moment", ["tool", "turn"])
@each_agent
def test_a_lost_run_can_be_gone_on_with(cli_env: CliEnv, style: Style, moment: str) -> None:
    talk = Conversation(cli_env, style.agent)
    lost = talk.start_waiting("alpha-word") if moment == "tool" else _start_stalled(talk, "alpha-word")
    kill_process(cli_env.supervisor(lost))
    check_no_processes(cli_env, lost)
    turn = talk.say("beta-word", "--resume", lost, holds=["alpha-word"])
    check_end(cli_env, lost, end=LOST, usage=PER_CALL if moment == "tool" else NONE_USED)
    assert turn.session_id == cli_env.events(lost)[-1]["session_id"]


@each_agent
def test_a_lost_run_is_found_by_the_agents_own_id(cli_env: CliEnv, style: Style) -> None:
    talk = Conversation(cli_env, style.agent)
    lost = talk.start_waiting("alpha-word")
    (session_id,) = [event["session_id"] for event in cli_env.events(lost) if event["kind"] == "thread_started"]
    kill_process(cli_env.supervisor(lost))
    talk.say("beta-word", "--resume", session_id, holds=["alpha-word"])
    assert cli_env.events(lost)[-1]["outcome"] == "lost"


@each_agent
def test_a_lost_later_run_of_a_session_is_settled_by_going_on(begin_session: Begin, style: Style) -> None:
    cli_env, talk, first = begin_session(style)
    lost = talk.start_waiting("beta-word", "--resume", first.run_id)
    kill_process(cli_env.supervisor(lost))
    talk.say("gamma-word", "--resume", first.run_id, holds=["re:alpha-word", "beta-word"])
    assert cli_env.events(lost)[-1]["outcome"] == "lost"


@each_agent
def test_a_stopped_run_can_be_gone_on_with(cli_env: CliEnv, style: Style) -> None:
    talk = Conversation(cli_env, style.agent)
    stopped = talk.start_waiting("alpha-word")
    assert cli_env.inspan("stop", stopped).returncode == 0
    check_end(cli_env, stopped, end=STOPPED, usage=PER_CALL)
    talk.say("beta-word", "--resume", stopped, holds=["alpha-word"])


@pytest.mark.parametrize(
    ("scenario", "arguments", "verdict"),
    [
        (STALLS, ("--stall-timeout", "2s"), ("timed_out", "model_stall")),
        ("[[call]]\nfail = {status = 500}\n", (), ("failed", "overloaded")),
    ],
    ids=["timed out", "failed"],
)
@each_agent
def test_a_run_that_did_not_complete_can_be_gone_on_with(
    cli_env: CliEnv, style: Style, scenario: str, arguments: tuple[str, ...], verdict: tuple[str, str]
) -> None:
    talk = Conversation(cli_env, style.agent)
    broken = talk.run_turn("alpha-word", *arguments, scenario=scenario)
    assert broken.verdict == verdict
    talk.say("beta-word", "--resume", broken.run_id, holds=["alpha-word"])


@each_agent
def test_a_run_lost_before_its_first_word_is_begun_by_whoever_goes_on_with_it(
    cli_env: CliEnv, style: Style, fake: Fake
) -> None:
    name = f"INSPAN_{style.agent.upper()}_BIN"
    cli_env.env[name] = _make_hesitant(fake, cli_env, cli_env.env[name])
    talk = Conversation(cli_env, style.agent)
    (cli_env.work / "hesitate").touch()
    # Not in the box, which a root's `exec` would be: it hides the real program where that lies below /tmp.
    lost = talk.detach("alpha-word", "--mode", "complete", scenario=build_answer_scenario("alpha-word"))
    wait_until((cli_env.work / "hesitating").exists, "agent that hesitates")
    wait_until(lambda: cli_env.kinds(lost), "first record")
    kill_process(cli_env.supervisor(lost))
    check_no_processes(cli_env, lost)
    (cli_env.work / "hesitate").unlink()
    # Nothing was begun that could be continued: whoever goes on with it begins, whatever id it had been given.
    turn = talk.run_turn(
        "beta-word", "--mode", "complete", "--resume", lost, scenario=build_answer_scenario("beta-word")
    )
    assert (turn.verdict, turn.code) == (("completed", "done"), 0)
    talk.say("gamma-word", "--resume", lost, holds=["beta-word"])


# In use


@each_agent
def test_of_two_who_go_on_with_a_session_at_once_one_does(begin_session: Begin, style: Style) -> None:
    cli_env, talk, first = begin_session(style)
    waits = f"[[call]]\nrun = '{WAIT_FOR_GO}'\n"
    both = {
        prompt: talk.start(prompt, "--resume", first.run_id, scenario=waits + build_turn_scenario(f"re:{prompt}"))
        for prompt in ("left-word", "right-word")
    }
    (loser,) = wait_until(lambda: [prompt for prompt, process in both.items() if process.poll() is not None], "loser")
    output, errors = both[loser].communicate()
    error = json.loads(errors)["error"]
    assert (both[loser].returncode, output, error["code"]) == (1, b"", "session_busy")
    assert first.run_id in error["message"]
    assert "--fork" in error["next"]
    (cli_env.work / "go").touch()
    (winner,) = both.keys() - {loser}
    assert both[winner].wait(timeout=120) == 0
    assert len(list_runs(cli_env)) == 2
    talk.say("beta-word", "--resume", first.run_id, holds=[f"re:{winner}"], lacks=[loser])


@each_profile
@each_agent
def test_a_session_whose_first_run_goes_on_is_in_use_by_every_name(cli_env: CliEnv, style: Style, profile: str) -> None:
    talk = Conversation(cli_env, style.agent, profile=profile)
    running = talk.start_waiting("alpha-word")
    (session_id,) = [event["session_id"] for event in cli_env.events(running) if event["kind"] == "thread_started"]
    for name in (running, "@last", session_id):
        refusal = talk.expect_refusal("beta-word", "--resume", name)
        assert (refusal.exit_code, refusal.code) == (1, "session_busy"), name
    talk.release(running)
    talk.say("beta-word", "--resume", session_id, holds=["re:alpha-word"])


@each_agent
def test_a_program_and_the_command_line_share_a_session_one_after_the_other(begin_session: Begin, style: Style) -> None:
    cli_env, talk, first = begin_session(style)
    running = talk.start_waiting("beta-word", "--resume", first.run_id)
    assert _start_embedded(cli_env, first.run_id).communicate(timeout=120)[0] == b"session_busy\n"
    talk.release(running)
    program = _start_embedded(cli_env, first.run_id, holds=["re:beta-word"])
    wait_until((cli_env.work / "started").exists, "tool")
    assert talk.expect_refusal("delta-word", "--resume", first.run_id).code == "session_busy"
    (cli_env.work / "go").touch()
    assert program.communicate(timeout=120)[0] == b"completed done\n"
    talk.say("delta-word", "--resume", first.run_id, holds=["re:gamma-word"])


# Where it belongs


@each_agent
def test_a_session_goes_on_in_its_own_folder_and_in_no_other(cli_env: CliEnv, style: Style) -> None:
    deep = cli_env.work / "deep"
    deep.mkdir()
    talk = Conversation(cli_env, style.agent)
    first = talk.say("alpha-word", "-C", "deep")
    second = talk.say("beta-word", "-C", "deep", "--resume", first.run_id, holds=["re:alpha-word"])
    assert second.started["cwd"] == str(deep)
    for where in ((), ("-C", ".")):
        elsewhere = talk.expect_refusal("gamma-word", "--resume", first.run_id, *where)
        assert (elsewhere.exit_code, elsewhere.code) == (2, "bad_input")
        assert elsewhere.message == f"cwd '{cli_env.work}': the session belongs to {deep}."
    deep.rmdir()
    gone = talk.expect_refusal("gamma-word", "--resume", first.run_id)
    assert (gone.exit_code, gone.code) == (2, "bad_input")
    assert gone.message == f"cwd '{deep}': the folder of the session is gone."
    assert "--cwd" not in gone.next


@each_agent
def test_the_last_session_is_that_of_the_project_one_stands_in(cli_env: CliEnv, style: Style) -> None:
    """A run in A, one in B, then `--resume @last` in A: it goes on in A, and nothing in B is touched."""
    a, b = _repositories(cli_env)
    first, other = (_edit(cli_env, style, cwd=place, file="first.txt") for place in (a, b))
    _edit(cli_env, style, "--resume", "@last", cwd=a, file="second.txt", holds=["first.txt"])
    assert sorted(os.listdir(a)) == [".git", "deep", "first.txt", "second.txt"]
    assert sorted(os.listdir(b)) == [".git", "deep", "first.txt"]
    assert session_keys(cli_env) == sorted([first, other])


@each_agent
def test_a_session_of_another_folder_is_resumed_only_where_that_folder_is_named(cli_env: CliEnv, style: Style) -> None:
    a, b = _repositories(cli_env)
    first, other = (_edit(cli_env, style, cwd=place, file="first.txt") for place in (a, b))
    session_id = cli_env.events(other)[-1]["session_id"]
    before = list_runs(cli_env)
    for name in (other, other[:-1], "@last-anywhere", session_id):
        for where, *more in ((a,), (a, "--fork"), (a / "deep",), (b / "deep",)):
            refusal = parse_refusal(_try_edit(cli_env, style, "--json", "--resume", name, *more, cwd=where))
            assert (refusal.exit_code, refusal.code) == (2, "bad_input"), (name, where)
            assert refusal.message == f"cwd '{where}': the session belongs to {b}."
            resumed = session_id if name == session_id else other
            forks = "--fork " if more else ""
            assert f"`inspan resume -C {b} {forks}{resumed} 'make never.txt'`" in refusal.next
    assert list_runs(cli_env) == before
    assert sorted(os.listdir(a)) == [".git", "deep", "first.txt"]
    _edit(cli_env, style, "--cwd", str(b), "--resume", other, cwd=a, file="second.txt", holds=["first.txt"])
    assert sorted(os.listdir(a)) == [".git", "deep", "first.txt"]
    assert sorted(os.listdir(b)) == [".git", "deep", "first.txt", "second.txt"]
    # `@last` is of the folder that was named, and a link to a folder is that folder.
    (cli_env.root / "link").symlink_to(a)
    _edit(cli_env, style, "--cwd", str(cli_env.root / "link"), "--resume", "@last", cwd=b, file="third.txt")
    assert sorted(os.listdir(a)) == [".git", "deep", "first.txt", "third.txt"]
    assert session_keys(cli_env) == sorted([first, other])


def _repositories(cli_env: CliEnv) -> list[Path]:
    places = [cli_env.root / "a", cli_env.root / "b"]
    for place in places:
        (place / "deep").mkdir(parents=True)
        subprocess.run(["git", "init", "-q", str(place)], check=True, env=cli_env.env)
    return places


def _edit(cli_env: CliEnv, style: Style, *more: str, cwd: Path, file: str, holds: Sequence[str] = ()) -> str:
    """A run whose agent makes a file by a relative name; gives its id."""
    done = _try_edit(cli_env, style, *more, cwd=cwd, file=file, holds=holds)
    assert done.returncode == 0, done.stderr
    return list_runs(cli_env)[-1]


def _try_edit(
    cli_env: CliEnv, style: Style, *more: str, cwd: Path, file: str = "never.txt", holds: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    expected = json.dumps(list(holds))
    call = f"[[call]]\nexpect_anywhere = {expected}\nrun = 'echo made > {file}'\n{build_turn_scenario('made')}"
    model = cli_env.scenario(call, name=f"{len(os.listdir(cli_env.root))}")
    always = ("run", f"make {file}", "-a", style.agent, "--profile", "clean", "--model-from", model, *style.arguments)
    return cli_env.inspan(*always, *more, cwd=cwd)


@each_agent
def test_a_session_is_no_other_agents(begin_session: Begin, style: Style) -> None:
    cli_env, _, first = begin_session(style)
    other = "codex" if style.agent == "claude" else "claude"
    refusal = Conversation(cli_env, other).expect_refusal("beta-word", "--resume", first.run_id)
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")
    assert refusal.message == f"agent '{other}': the session is one of {style.agent}."


@each_agent
def test_going_on_needs_no_word_about_agent_or_profile(begin_session: Begin, style: Style) -> None:
    cli_env, _, first = begin_session(style)
    model = cli_env.scenario(build_answer_scenario("beta-word", holds=["re:alpha-word"]))
    done = cli_env.inspan("run", "beta-word", "-r", first.run_id, "--model-from", model)
    assert (done.returncode, done.stdout) == (0, "re:beta-word\n"), done.stderr
    described = json.loads((cli_env.folder(cli_env.inspan("ps", "-aq").stdout.split()[0]) / "run.json").read_text())
    assert (described["agent"], described["task"]["profile"]) == (style.agent, "clean")


@each_agent
def test_a_session_that_is_gone_on_with_without_a_prompt_continues(begin_session: Begin, style: Style) -> None:
    cli_env, talk, first = begin_session(style)
    turn = talk.say("", "--resume", first.run_id, scenario="[[call]]\nexpect = 'Continue.'\nsay = 'on'\n")
    assert (cli_env.folder(turn.run_id) / "prompt.md").read_text() == "Continue."


# Deleting


@each_agent
def test_a_session_goes_with_its_last_run(begin_session: Begin, style: Style) -> None:
    cli_env, talk, first = begin_session(style)
    second = talk.say("beta-word", "--resume", first.run_id)
    assert cli_env.inspan("rm", first.run_id).returncode == 0
    assert talk.expect_refusal("x", "--resume", first.run_id).code == "session_not_found"
    third = talk.say("gamma-word", "--resume", second.run_id, holds=["re:alpha-word", "re:beta-word"])
    assert cli_env.inspan("rm", "--yes", second.run_id, third.run_id).returncode == 0
    assert session_keys(cli_env) == []
    refusal = talk.expect_refusal("x", "--resume", first.session_id)
    assert (refusal.exit_code, refusal.code) == (2, "session_not_found")
    assert refusal.message == f"There is no run {first.session_id!r}. No session has this id either."
    assert "deleted with its last run" in refusal.next


@each_agent
def test_a_deleted_session_leaves_its_fork_what_it_needs(begin_session: Begin, style: Style) -> None:
    cli_env, talk, first = begin_session(style)
    fork = talk.say("fork-word", "--resume", first.run_id, "--fork")
    assert cli_env.inspan("rm", first.run_id).returncode == 0
    for name in (first.run_id, first.session_id):
        assert talk.expect_refusal("x", "--resume", name).code == "session_not_found"
    last = talk.say("more-word", "--resume", fork.run_id, holds=["re:alpha-word", "re:fork-word"])
    assert session_keys(cli_env) == [fork.run_id]
    assert cli_env.inspan("rm", "--yes", fork.run_id, last.run_id).returncode == 0
    assert session_keys(cli_env) == []


@each_agent
def test_a_session_of_the_user_outlives_its_runs(begin_session: Begin, style: Style) -> None:
    cli_env, talk, first = begin_session(style, profile="user")
    assert cli_env.inspan("rm", first.run_id).returncode == 0
    assert session_keys(cli_env) == []
    (cli_env.work / "deep").mkdir()
    # Now it is one that inspan knows nothing of: it goes on where the command is.
    second = talk.say("beta-word", "--resume", first.session_id, holds=["re:alpha-word"])
    assert (second.session_id, second.started["cwd"]) == (first.session_id, str(cli_env.work))
    fork = talk.say("fork-word", "--resume", first.session_id, "--fork", holds=["re:beta-word"])
    third = talk.say("gamma-word", "--resume", first.session_id, holds=["re:beta-word"], lacks=["fork-word"])
    assert cli_env.inspan("rm", "--yes", second.run_id, third.run_id, fork.run_id).returncode == 0
    assert session_keys(cli_env) == []


@each_agent
def test_a_session_that_inspan_knows_nothing_of_is_used_by_one_at_a_time(begin_session: Begin, style: Style) -> None:
    cli_env, talk, first = begin_session(style, profile="user")
    assert cli_env.inspan("rm", first.run_id).returncode == 0
    running = talk.start_waiting("beta-word", "--resume", first.session_id)
    assert talk.expect_refusal("gamma-word", "--resume", first.session_id).code == "session_busy"
    talk.release(running)
    talk.say("gamma-word", "--resume", first.session_id, holds=["re:beta-word"])


# Names of nothing


@each_agent
def test_an_unknown_id_is_for_the_users_agent_to_know(cli_env: CliEnv, style: Style) -> None:
    talk = Conversation(cli_env, style.agent, profile="user")
    turn = talk.run_turn(
        "alpha-word", "--resume", UNKNOWN, scenario=build_turn_scenario("never", more="repeat = 'always'")
    )
    assert (turn.verdict, turn.code) == (("failed", "session_not_found"), 1)
    assert UNKNOWN in turn.ended["message"]
    assert "without --resume" in turn.ended["next"]


@pytest.mark.parametrize("kept", [0, 10])
@each_agent
def test_a_conversation_that_was_never_written_down_is_not_found(cli_env: CliEnv, style: Style, kept: int) -> None:
    """An agent that is killed at its first request has only begun the file that it keeps its conversation in."""
    talk = Conversation(cli_env, style.agent)
    first = talk.say("alpha-word")
    (file,) = (each for each in cli_env.state.rglob(f"*{first.session_id}.jsonl") if each.is_file())
    file.write_bytes(file.read_bytes()[:kept])
    turn = talk.run_turn(
        "beta-word", "--resume", first.run_id, scenario=build_turn_scenario("never", more="repeat = 'always'")
    )
    assert (turn.verdict, turn.code) == (("failed", "session_not_found"), 1)


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", ["no-such-session", "../../escape", "@first", "2"])
@each_profile
@each_agent
def test_what_can_be_no_session_is_refused(cli_env: CliEnv, style: Style, profile: str, name: str) -> None:
    refusal = Conversation(cli_env, style.agent, profile=profile).expect_refusal("alpha-word", "--resume", name)
    assert (refusal.exit_code, refusal.code) == (2, "session_not_found")
    assert repr(name) in refusal.message


@each_agent
def test_an_unknown_id_is_refused_in_the_profile_clean(cli_env: CliEnv, style: Style) -> None:
    refusal = Conversation(cli_env, style.agent).expect_refusal("alpha-word", "--resume", UNKNOWN)
    assert (refusal.exit_code, refusal.code) == (2, "session_not_found")


def test_the_first_run_of_all_has_nothing_to_go_on_with(cli_env: CliEnv) -> None:
    refusal = Conversation(cli_env, "claude").expect_refusal("alpha-word", "--resume", "@last")
    assert (refusal.exit_code, refusal.code, refusal.message) == (2, "session_not_found", "There is no run yet.")


def test_a_beginning_of_several_runs_is_told_apart(cli_env: CliEnv) -> None:
    talk = Conversation(cli_env, "codex")
    ids = sorted([talk.say("alpha-word").run_id, talk.say("beta-word").run_id])
    refusal = talk.expect_refusal("gamma-word", "--resume", ids[0][:9])
    assert (refusal.exit_code, refusal.code) == (2, "session_not_found")
    assert all(run_id in refusal.next for run_id in ids)


def test_nothing_can_be_forked_without_a_session(cli_env: CliEnv) -> None:
    refusal = Conversation(cli_env, "claude").expect_refusal("alpha-word", "--fork")
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")


@each_agent
def test_an_agent_in_a_box_cannot_write_its_sessions_record(cli_env: CliEnv, style: Style, bubblewrap: str) -> None:
    assert os.path.isabs(bubblewrap)
    talk = Conversation(cli_env, style.agent, "--sandbox", "bwrap")
    first = talk.say("alpha-word")
    record = cli_env.state / "sessions" / first.run_id / "session.json"
    spoils = f"run = 'echo spoiled > {record}; rm -f {record.parent}/lock; true'"
    talk.say("beta-word", "--resume", first.run_id, scenario=f"[[call]]\n{spoils}\n" + build_turn_scenario("done"))
    assert json.loads(record.read_text())["session_id"] == first.session_id
    assert (record.parent / "lock").exists()


def _start_stalled(talk: Conversation, prompt: str) -> str:
    """Starts a run whose model never answers; gives its id once the agent and the log have noted the conversation."""
    run_id = talk.detach(prompt, scenario=STALLS)
    wait_until(lambda: has_saved_tool_use(talk.cli_env, prompt), "transcript")
    talk.cli_env.wait_for_events(run_id, "thread_started")
    return run_id


def _make_hesitant(fake: Fake, cli_env: CliEnv, program: str) -> str:
    """The agent, but for a wait before its first word while a file is there."""
    return fake(
        "hesitant",
        "import os, sys, time\n"
        f"hesitate = {str(cli_env.work / 'hesitate')!r}\n"
        "if sys.argv[1:] != ['--version'] and os.path.exists(hesitate):\n"
        f"    open({str(cli_env.work / 'hesitating')!r}, 'w').close()\n"
        "    time.sleep(600)\n"
        f"os.execv({program!r}, [{program!r}, *sys.argv[1:]])\n",
    )


def _start_embedded(cli_env: CliEnv, resume: str, *, holds: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """A program that goes on with a session by itself, with a tool that waits; it prints how that ended."""
    model = cli_env.scenario(
        f"[[call]]\n{WAIT_STEP}\n{build_answer_scenario('gamma-word', holds=holds)}", name="embedded"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, resume, model],
        env=cli_env.env,
        cwd=cli_env.work,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    cli_env.processes.append(process)
    return process


_PROGRAM = """
import asyncio, os, sys
import inspan

task = inspan.Task(prompt="gamma-word", cwd=os.getcwd(), resume=sys.argv[1], model_from=sys.argv[2])
try:
    ended = asyncio.run(inspan.run(task))
    print(ended.outcome, ended.reason)
except inspan.InspanError as error:
    print(error.code)
"""


@each_agent
def test_what_was_left_in_a_sessions_config_folder_is_not_obeyed(begin_session: Begin, style: Style) -> None:
    cli_env, talk, first = begin_session(style)
    config = cli_env.state / "sessions" / first.run_id / "config"
    mark, precious = cli_env.work / "obeyed", cli_env.root / "precious"
    precious.write_text("mine")
    hook = {"hooks": [{"type": "command", "command": f"touch {mark}"}]}
    (config / "settings.json").write_text(json.dumps({"hooks": {"SessionStart": [hook], "UserPromptSubmit": [hook]}}))
    (config / "config.toml").write_text(f'[mcp_servers.x]\ncommand = "touch"\nargs = ["{mark}"]\n')
    for name in ("CLAUDE.md", "AGENTS.md"):
        (config / name).unlink(missing_ok=True)
        (config / name).symlink_to(precious)
    talk.say("beta-word", "--resume", first.run_id, holds=["re:alpha-word"])
    assert (mark.exists(), precious.read_text()) == (False, "mine")
