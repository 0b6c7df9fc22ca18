"""What every start says of those whose process died: once, in a line; and what `prune` leaves to go on with."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli_env import CliEnv, kill_process, processes_of, wait_until

SAY = '[[call]]\nsay = "Done."\n'
IDLE = '[[call]]\nstall = "before-headers"\n'
# What is limited for an hour: its loop waits.
LIMIT = """
[[call]]
run = "touch made"
[[call]]
fail = {status = 429, headers = {retry-after = "3600"}}
repeat = "always"
"""
HERE = "inspan: 1 process died here: `inspan recover` goes on with its work\n"


def run_and_kill(cli_env: CliEnv) -> str:
    run_id = cli_env.detach("scripted", IDLE)
    cli_env.wait_for_events(run_id, "turn_started")
    kill_process(cli_env.supervisor(run_id))
    wait_until(lambda: not processes_of(run_id), "empty house")
    return run_id


def build_start(cli_env: CliEnv, *words: str, agent: str = "scripted") -> list[str]:
    return [*words, "-a", agent, "--profile", "clean", "--model-from", cli_env.scenario(SAY)]


BLUEPRINT = '[nodes.a]\nkind = "check"\nrun = "test -e open"\n'


@pytest.mark.parametrize(
    "words",
    [
        ("ps",),
        ("run", "do it"),
        ("run", "do it", "-d"),
        ("loop", "do it", "-d"),
        ("resume", "RUN", "go on"),
        ("chat",),
        ("blueprint", "run", "FILE"),
        ("blueprint", "resume", "FAILED"),
    ],
)
def test_a_start_says_once_that_a_process_died(cli_env: CliEnv, words: tuple[str, ...]) -> None:
    (blueprint := cli_env.root / "work.toml").write_text(BLUEPRINT)
    names = {"FILE": str(blueprint)}
    if "RUN" in words:
        names["RUN"] = cli_env.run("claude", SAY).run_id
    if "FAILED" in words:
        names["FAILED"] = cli_env.inspan("blueprint", "run", str(blueprint), "-d").stdout.strip()
        cli_env.wait_for_end(names["FAILED"])
    run_and_kill(cli_env)
    given = [names.get(word, word) for word in words]
    cli_env.scenario(SAY)
    agent = "claude" if words[0] in ("chat", "resume") else "scripted"
    start = given if words[0] in ("ps", "blueprint") else build_start(cli_env, *given, agent=agent)
    told = [cli_env.inspan(*start).stderr.count(HERE) for _ in range(2)]
    assert told == [1, 0]


@pytest.mark.parametrize("flag", ["-q", "--json"])
def test_a_start_for_a_script_says_nothing_of_it(cli_env: CliEnv, flag: str) -> None:
    lost = run_and_kill(cli_env)
    assert "died here" not in cli_env.inspan(*build_start(cli_env, "run", "do it", flag)).stderr
    assert "died here" not in cli_env.inspan("ps", flag).stderr
    assert cli_env.events(lost)[-1]["outcome"] == "lost"


def test_a_death_in_another_project_is_told_as_one(cli_env: CliEnv) -> None:
    run_and_kill(cli_env)
    other = cli_env.root / "other"
    other.mkdir()
    cli_env.work = other
    assert "inspan: 1 process died in other projects: `inspan recover --all`" in cli_env.inspan("ps").stderr


def test_a_start_goes_on_with_nothing(cli_env: CliEnv) -> None:
    lost = run_and_kill(cli_env)
    new = cli_env.inspan(*build_start(cli_env, "run", "do it", "-d")).stdout.strip()
    cli_env.wait_for_end(new)
    assert sorted(path.name for path in cli_env.state.glob("projects/*/*/runs/*")) == sorted((lost, new))


# Retention


def prune(cli_env: CliEnv, *words: str) -> list[str]:
    done = cli_env.inspan("prune", "--older-than", "0d", "--yes", "--json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["runs"]


def start_waiting_loop(cli_env: CliEnv, *words: str) -> tuple[str, str]:
    """A loop that waits for a limit, and the run that met it."""
    model = cli_env.scenario(LIMIT)
    argv = ["loop", "do it", "-d", "-a", "codex", "--profile", "clean", "--model-from", model, *words]
    done = cli_env.inspan(*argv)
    assert done.returncode == 0, done.stderr
    loop = done.stdout.strip()
    cli_env.wait_for_events(loop, "wait_started")
    run = next(event["run_id"] for event in cli_env.events(loop) if event["kind"] == "attempt_started")
    cli_env.wait_for_end(run)
    return loop, run


def test_what_did_not_complete_is_kept(cli_env: CliEnv) -> None:
    completed = cli_env.run("scripted", SAY).run_id
    failed = cli_env.detach("scripted", '[[call]]\nfail = {status = 401}\nrepeat = "always"\n')
    cli_env.wait_for_end(failed)
    assert prune(cli_env, "--keep-failed") == [completed]
    assert prune(cli_env) == [failed]


def test_the_runs_of_a_living_loop_stay_and_so_does_its_worktree(cli_env: CliEnv) -> None:
    git(cli_env.work, "init", "-q")
    git(cli_env.work, "commit", "-q", "--allow-empty", "-m", "First commit")
    loop, run = start_waiting_loop(cli_env, "--sandbox", "worktree")
    (worktree,) = cli_env.state.glob("worktrees/*/*/")
    assert prune(cli_env) == []
    assert cli_env.inspan("worktrees", "prune", "--yes").returncode == 0
    assert worktree.is_dir() and cli_env.folder(run).is_dir()
    cli_env.inspan("stop", loop)
    cli_env.wait_for_end(loop)
    assert sorted(prune(cli_env)) == sorted((loop, run))


def test_a_run_of_a_loop_that_lives_is_not_removed(cli_env: CliEnv) -> None:
    loop, run = start_waiting_loop(cli_env)
    for words in (("rm", run), ("rm", run, "--dry-run")):
        refused = cli_env.inspan(*words)
        assert f"Run {run} belongs to the loop {loop}, which is still running." in refused.stderr, refused.stderr
        assert refused.returncode == 1 and cli_env.folder(run).is_dir()
    kill_process(cli_env.supervisor(loop))
    new = cli_env.inspan("recover", "--yes").stdout.strip()
    cli_env.wait_for_events(new, "wait_started")
    assert f"Run {run} belongs to the loop {new}, which is still running." in cli_env.inspan("rm", run).stderr
    cli_env.inspan("stop", new)
    cli_env.wait_for_end(new)
    assert cli_env.inspan("rm", run).returncode == 0


def test_a_lost_loop_that_waits_to_go_on_keeps_its_runs(cli_env: CliEnv) -> None:
    loop, run = start_waiting_loop(cli_env)
    kill_process(cli_env.supervisor(loop))
    assert prune(cli_env) == []
    assert prune(cli_env, "--outcome", "lost") == [loop]
    assert prune(cli_env) == [run]


@pytest.mark.parametrize("dies", [False, True], ids=["living", "lost"])
def test_a_blueprint_that_lives_or_waits_to_go_on_keeps_its_loops_and_runs(cli_env: CliEnv, dies: bool) -> None:
    nodes = """
        [nodes.a]
        kind = "agent"
        agent = "scripted"
        prompt = "do it"
        [nodes.b]
        kind = "check"
        after = ["a"]
        run = "until test -e go; do sleep 0.05; done"
        """
    (path := cli_env.root / "work.toml").write_text(nodes)
    model = cli_env.scenario(SAY)
    argv = ["blueprint", "run", str(path), "-d", "--profile", "clean", "--model-from", model]
    blueprint = cli_env.inspan(*argv).stdout.strip()
    cli_env.wait_for_events(blueprint, "node_ended")
    all_three = sorted(folder.name for folder in cli_env.state.glob("projects/*/*/runs/*"))
    assert len(all_three) == 3
    if dies:
        kill_process(cli_env.supervisor(blueprint))
    assert prune(cli_env) == []
    assert sorted(folder.name for folder in cli_env.state.glob("projects/*/*/runs/*")) == all_three
    (cli_env.work / "go").touch()
    last = cli_env.inspan("recover", "--yes").stdout.strip() if dies else blueprint
    cli_env.wait_for_end(last)
    assert sorted(prune(cli_env)) == sorted({*all_three, last})


def test_the_worktree_that_a_node_of_a_living_blueprint_works_in_stays(cli_env: CliEnv) -> None:
    git(cli_env.work, "init", "-q")
    git(cli_env.work, "commit", "-q", "--allow-empty", "-m", "First commit")
    nodes = f"""
        [nodes.a]
        kind = "agent"
        agent = "scripted"
        sandbox = "worktree"
        prompt = "do it"
        [nodes.b]
        kind = "check"
        after = ["a"]
        where = "a"
        run = "until test -e {cli_env.work}/go; do sleep 0.05; done; test -e made"
        """
    (path := cli_env.root / "work.toml").write_text(nodes)
    model = cli_env.scenario('[[call]]\nrun = "touch made"\n[[call]]\nsay = "Done."\n')
    argv = ["blueprint", "run", str(path), "-d", "--profile", "clean", "--model-from", model]
    blueprint = cli_env.inspan(*argv).stdout.strip()
    cli_env.wait_for_events(blueprint, "node_ended")
    (worktree,) = cli_env.state.glob("worktrees/*/*/")
    assert cli_env.inspan("worktrees", "prune", "--yes").returncode == 0
    assert (worktree / "made").exists()
    (cli_env.work / "go").touch()
    cli_env.wait_for_end(blueprint)
    assert cli_env.events(blueprint)[-1]["reason"] == "done"


def test_what_a_loop_continues_stays_with_it(cli_env: CliEnv) -> None:
    loop, run = start_waiting_loop(cli_env)
    kill_process(cli_env.supervisor(loop))
    new = cli_env.inspan("recover", "--yes").stdout.strip()
    cli_env.wait_for_events(new, "run_started")
    assert prune(cli_env) == []
    cli_env.inspan("stop", new)
    cli_env.wait_for_end(new)
    assert sorted(prune(cli_env)) == sorted((loop, run, new))


def test_what_was_gone_on_with_does_not_go_on_again_when_that_was_deleted(cli_env: CliEnv) -> None:
    lost = run_and_kill(cli_env)
    cli_env.scenario(SAY)
    new = cli_env.inspan("recover", "--yes").stdout.strip()
    cli_env.wait_for_end(new)
    assert prune(cli_env, "--keep-failed") == [new]
    assert cli_env.inspan("recover", "--yes").stdout == ""
    assert cli_env.folder().name == lost


def test_what_belongs_to_a_blueprint_that_failed_is_kept_with_it(cli_env: CliEnv) -> None:
    blueprint = fail_after_agent(cli_env)
    assert prune(cli_env, "--keep-failed") == []
    (cli_env.work / "open").touch()
    done = cli_env.inspan("blueprint", "resume", blueprint)
    assert done.returncode == 0, done.stderr
    cli_env.wait_for_end(last := find_last_blueprint(cli_env))
    assert prune(cli_env, "--keep-failed") == [last]
    assert len(prune(cli_env)) == 3


def test_a_node_that_needs_a_run_which_cannot_be_read_waits_for_no_disk(cli_env: CliEnv) -> None:
    blueprint = fail_after_agent(cli_env)
    (run,) = [event["runs"][0] for event in cli_env.events(blueprint) if event.get("runs")]
    (cli_env.folder(run) / "run.json").write_text("{")
    done = cli_env.inspan("blueprint", "resume", blueprint)
    ended = cli_env.events(find_last_blueprint(cli_env))[-1]
    assert (ended["outcome"], ended["reason"]) == ("failed", "environment"), done.stderr
    assert "is not readable as JSON" in done.stderr and "disk space" not in done.stderr
    assert cli_env.inspan("recover", "--yes").stderr == "inspan: nothing was lost here\n"


def test_a_node_that_needs_a_run_which_was_deleted_says_so_and_waits_for_no_disk(cli_env: CliEnv) -> None:
    blueprint = fail_after_agent(cli_env)
    (run,) = [event["runs"][0] for event in cli_env.events(blueprint) if event.get("runs")]
    assert cli_env.inspan("rm", run).returncode == 0
    done = cli_env.inspan("blueprint", "resume", blueprint)
    ended = cli_env.events(find_last_blueprint(cli_env))[-1]
    assert (done.returncode, ended["outcome"], ended["reason"]) == (1, "failed", "environment")
    assert f"There is no run '{run}'." in done.stderr and "disk space" not in done.stderr + ended["next"]
    assert cli_env.inspan("recover", "--yes").stderr == "inspan: nothing was lost here\n"


def fail_after_agent(cli_env: CliEnv) -> str:
    """A blueprint whose agent has done its work, and whose check failed in the agent's worktree."""
    git(cli_env.work, "init", "-q")
    git(cli_env.work, "commit", "-q", "--allow-empty", "-m", "First commit")
    nodes = f"""
        [nodes.a]
        kind = "agent"
        agent = "scripted"
        sandbox = "worktree"
        prompt = "do it"
        [nodes.b]
        kind = "check"
        after = ["a"]
        where = "a"
        run = "test -e made && test -e {cli_env.work}/open"
        """
    (path := cli_env.root / "work.toml").write_text(nodes)
    model = cli_env.scenario('[[call]]\nrun = "touch made"\n[[call]]\nsay = "Done."\n')
    argv = ["blueprint", "run", str(path), "-d", "--profile", "clean", "--model-from", model]
    blueprint = cli_env.inspan(*argv).stdout.strip()
    cli_env.wait_for_end(blueprint)
    assert cli_env.events(blueprint)[-1]["reason"] == "node_failed"
    return blueprint


def find_last_blueprint(cli_env: CliEnv) -> str:
    texts = [path.read_text() for path in cli_env.state.glob("projects/*/*/runs/*/run.json")]
    described = [json.loads(text) for text in texts if text != "{"]
    return max(each["run_id"] for each in described if each.get("work") == "blueprint")


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.com")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)
