"""Comparisons on the real command line, with real agents on scripted models whose outcome differs by design."""

import json
import signal

import pytest

from tests.cli_env import CliEnv, kill_process, processes_of, wait_until

from .conftest import CHECK, CLAIM, IDLE, SET_ONE, Repository


def test_three_agents_are_told_apart_by_what_they_did(repository: Repository) -> None:
    many = '[[call]]\nrun = "echo 1 > n; seq 50 > more"\n[[call]]\nsay = "Done."\n'
    done = repository.compare("set n to 1", agents="claude,codex,scripted", claude=many, codex=CLAIM)
    assert done.returncode == 0, done.stderr
    found = {each["agent"]: each for each in repository.results}
    assert {agent: (each["passed"], each["files"], each["lines_added"]) for agent, each in found.items()} == {
        "claude": (True, ["more", "n"], 51),
        "codex": (False, [], 0),
        "scripted": (True, ["n"], 1),
    }
    assert found["codex"]["message"] == f"`{CHECK}` failed with exit code 1."
    rows = [line.split()[:2] for line in done.stdout.splitlines()]
    assert rows[0] == ["AGENT", "PASSED"] and rows[3] == ["codex", "0/1"]
    assert {tuple(row) for row in rows[1:3]} == {("claude", "1/1"), ("scripted", "1/1")}
    page = (repository.store / "report.html").read_text()
    assert "+50" in page and "<script" not in page and "http" not in page
    assert ((repository.path / "n").read_text(), repository.git("status", "--porcelain")) == ("0\n", "")


def test_what_the_best_one_did_can_be_applied(repository: Repository) -> None:
    hide = SET_ONE.replace("echo 1 > n", "echo 1 > n; echo hidden > .gitignore; touch hidden")
    done = repository.compare("set n to 1", "--times", "2", scripted=hide)
    assert done.returncode == 0, done.stderr
    ignored = "task: git ignores 1 file or folder that its checks could use, and apply leaves out\n"
    assert done.stderr.endswith(ignored)
    command = done.stderr.rpartition("To take its changes: inspan ")[2].partition("\n")[0].split()
    assert [each["passed"] for each in repository.results] == [True, True]
    assert repository.cli_env.inspan(*command, "--yes").returncode == 0
    assert (repository.path / "n").read_text() == "1\n"


def test_all_begin_at_the_commit_of_their_task(repository: Repository) -> None:
    first = repository.git("rev-parse", "HEAD")
    (repository.path / "n").write_text("7\n")
    repository.commit("Later")
    tasks = repository.cli_env.root / "tasks"
    tasks.mkdir()
    look = '[[call]]\nrun = "cp n seen"\n[[call]]\nsay = "Done."\n'
    (tasks / "old.toml").write_text(f'prompt = "look"\nstart = "{first}"\ncheck = \'test "$(cat seen)" = 0\'\n')
    (tasks / "new.toml").write_text('prompt = "look"\ncheck = \'test "$(cat seen)" = 7\'\n')
    done = repository.compare("--tasks", str(tasks), check="", scripted=look)
    assert done.returncode == 0, done.stderr
    assert {each["task"]: each["passed"] for each in repository.results} == {"old": True, "new": True}


def test_a_failed_check_is_told_to_the_agent_where_restarts_are_allowed(repository: Repository) -> None:
    count = '[[call]]\nrun = "echo $(( $(cat n) + 1 )) > n"\n[[call]]\nsay = "Done."\n'
    done = repository.compare("count", "--max-restarts", "3", check='test "$(cat n)" = 2', scripted=count)
    assert done.returncode == 0, done.stderr
    (result,) = repository.results
    assert (result["passed"], result["attempts"], len(result["runs"])) == (True, 2, 2)
    for run in result["runs"]:
        assert repository.cli_env.inspan("apply", run, "--yes").returncode == 0
    assert (repository.path / "n").read_text() == "2\n"


def test_a_check_that_passes_before_anything_was_done_is_said_to_prove_nothing(repository: Repository) -> None:
    done = repository.compare("do nothing", check="true", scripted=CLAIM)
    assert "`true` passes before anything was done: that it passes proves nothing" in done.stderr
    assert "passed before anything was done" in (repository.store / "report.html").read_text()


def test_what_a_check_leaves_before_the_agents_begin_is_not_kept(repository: Repository) -> None:
    done = repository.compare("set n to 1", check=f"touch rubbish; {CHECK}")
    assert done.returncode == 0, done.stderr
    (result,) = repository.results
    assert result["files"] == ["n"]
    assert "refs/inspan" not in repository.git("for-each-ref")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("-a", "nosuch"), "nosuch"),
        (("-a", "scripted,"), "a name is missing"),
        (("--times", "0"), "each agent has to be tried once"),
        (("--start", "nosuch"), "has no such commit"),
        (("--start=--help",), "has no such commit"),
        (("--tasks", "."), "the tasks of --tasks have their own"),
        (("--jobs", "0"), "nothing would ever run"),
        (("--jobs", "-1"), "nothing would ever run"),
        (("--jobs", "off"), "'off' is not a valid integer"),
        (("--times", "off"), "'off' is not a valid integer"),
        (("--tasks", ".", "--start", "HEAD"), "the tasks of --tasks have their own"),
        (("--resume", "@last"), "a comparison that goes on is the one that was asked for"),
    ],
)
def test_bad_input_is_refused_before_anything_is_started(
    repository: Repository, arguments: tuple[str, ...], problem: str
) -> None:
    done = repository.compare("do it", *arguments)
    assert done.returncode == 2, done
    assert problem in done.stderr and "Traceback" not in done.stderr
    assert not list(repository.cli_env.state.glob("comparisons/*"))


def test_a_comparison_that_is_not_there_cannot_go_on(repository: Repository) -> None:
    done = repository.cli_env.inspan("compare", "--resume", "2020")
    assert "There is no such comparison" in done.stderr and "Traceback" not in done.stderr and done.returncode != 0


def test_changes_that_no_agent_would_see_are_refused_unless_they_are_meant_to_be_left_out(
    repository: Repository,
) -> None:
    (repository.path / "n").write_text("dirty\n")
    done = repository.compare("do it")
    assert done.returncode == 2 and "1 tracked file has changes that no agent would get to see" in done.stderr
    assert repository.compare("do it", "--start", "HEAD").returncode == 0
    assert (repository.path / "n").read_text() == "dirty\n"


def test_files_that_git_does_not_know_are_left_out_and_told(repository: Repository) -> None:
    for name in ("a", "b"):
        (repository.path / name).write_text("x")
    done = repository.compare("set n to 1")
    assert done.returncode == 0, done.stderr
    words = f"2 untracked files or folders in {repository.path} that no agent gets to see"
    assert done.stderr.count(words) == 1 and words in (repository.store / "report.html").read_text()


def test_without_git_it_is_refused_with_the_next_step(cli_env: CliEnv) -> None:
    done = cli_env.inspan("compare", "do it", "-a", "scripted", "--check", "true")
    assert done.returncode == 2 and "it is in no git repository" in done.stderr and "git init" in done.stderr


def test_cells_that_a_budget_of_all_refuses_are_judged_once_there_is_room(repository: Repository) -> None:
    budget = ("--times", "2", "--jobs", "1", "--budget", "project=3calls")
    done = repository.compare("set n to 1", *budget, agents="scripted,codex", codex=SET_ONE)
    assert [(each["passed"], bool(each["problem"])) for each in repository.results] == [
        (True, False),
        *[(False, True)] * 3,
    ]
    assert "scripted (1 not judged)  1/1" in done.stdout and "codex (2 not judged)     0/0" in done.stdout
    assert "3 cells were not judged" in done.stderr and done.returncode == 1
    more = ("--budget", "project=30calls")
    done = repository.cli_env.inspan("compare", "--resume", "@last", *more)
    assert "codex     2/2" in done.stdout and "scripted  2/2" in done.stdout, done.stderr
    assert done.returncode == 0 and len(repository.results) == 7
    again = repository.cli_env.inspan("compare", "--resume", "@last", *more)
    assert again.returncode == 0 and len(repository.results) == 7
    elsewhere = repository.cli_env.root / "elsewhere"
    elsewhere.mkdir()
    assert (
        "no comparison of this folder's project"
        in repository.cli_env.inspan("compare", "--resume", "@last", cwd=elsewhere).stderr
    )
    refused = repository.cli_env.inspan("compare", "--resume", "@last", "--times", "5")
    assert "--times 5: a comparison that goes on is the one that was asked for" in refused.stderr


def test_a_cell_that_spends_its_own_budget_has_failed(repository: Repository) -> None:
    done = repository.compare("set n to 1", "--budget", "1calls")
    (result,) = repository.results
    assert (result["reason"], result["problem"], done.returncode) == ("budget", "", 0)


def test_killed_it_goes_on_and_runs_nothing_twice(repository: Repository) -> None:
    cli_env = repository.cli_env
    hold = SET_ONE.replace('run = "', 'run = "until [ -e ../go ]; do sleep 0.05; done; ').replace(
        "../go", f"{cli_env.root}/go"
    )
    process = cli_env.start(
        *repository.build("set n to 1", "--jobs", "1", agents="scripted,codex", scripted=SET_ONE, codex=hold)
    )
    wait_until(lambda: len(repository.lines) == 3, "the second cell's loop")
    cli_env.wait_for_events(repository.lines[2]["loop"], "attempt_started")  # Before that, it would be begun again.
    kill_process(process.pid)
    (cli_env.root / "go").touch()
    with (repository.store / "results.jsonl").open("a") as file:
        file.write('{"kind":"cell_en')
    done = cli_env.inspan("compare", "--resume", "@last")
    assert done.returncode == 0, done.stderr
    assert [(each["agent"], each["passed"]) for each in repository.results] == [("scripted", True), ("codex", True)]
    assert [line["kind"] for line in repository.lines].count("cell_started") == 2
    again = cli_env.inspan("compare", "--resume", repository.store.name, "--json")
    assert (again.returncode, again.stdout) == (0, "")


def test_one_that_died_is_told_once_by_the_next_start_and_by_recover(repository: Repository) -> None:
    cli_env = repository.cli_env
    process = cli_env.start(*repository.build("set n to 1", "--jobs", "1", agents="scripted,codex", codex=IDLE))
    wait_until(lambda: len(repository.lines) == 3, "the second cell's loop")
    finished, second = repository.lines[0]["loop"], repository.lines[2]["loop"]
    cli_env.wait_for_events(second, "attempt_started")
    kill_process(process.pid)
    kill_process(cli_env.supervisor(second))
    name = repository.store.name
    told = f"inspan: a comparison died here: `inspan compare --resume {name}` goes on with it\n"
    assert [cli_env.inspan("ps").stderr.count(told) for _ in range(2)] == [1, 0]
    lost = cli_env.inspan("recover", "--dry-run")
    assert lost.stderr == f"  comparison: inspan compare --resume {name}\n"
    assert json.loads(cli_env.inspan("recover", "--json").stdout)["comparisons"] == [name]
    way = f"It is part of a comparison: `inspan compare --resume {name}` goes on with it."
    assert way in cli_env.inspan("show", second).stdout
    assert way in cli_env.inspan("recover", second, "--yes").stderr
    pruned = cli_env.inspan("prune", "--older-than", "0d", "--yes", "--json")
    assert json.loads(pruned.stdout)["runs"] == [] and cli_env.folder(finished).is_dir()
    cli_env.scenario(SET_ONE, "codex")
    for run in {event["run_id"] for event in cli_env.events(second) if event["kind"] == "attempt_started"}:
        cli_env.inspan("stop", run)
    done = cli_env.inspan("compare", "--resume", name)
    assert (done.returncode, len(repository.results)) == (0, 2), done.stderr
    assert cli_env.inspan("recover", "--dry-run").stderr == "inspan: nothing was lost here\n"
    assert "died" not in cli_env.inspan("ps").stderr


def test_one_that_was_interrupted_has_not_died_and_keeps_its_runs_where_what_failed_is_kept(
    repository: Repository,
) -> None:
    cli_env = repository.cli_env
    process = cli_env.start(*repository.build("set n to 1", "--jobs", "1", agents="scripted,codex", codex=IDLE))
    wait_until(lambda: len(repository.lines) == 3, "the second cell's loop")
    second = repository.lines[2]["loop"]
    cli_env.wait_for_events(second, "attempt_started")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    cli_env.wait_for_end(second)
    assert "died" not in cli_env.inspan("ps").stderr
    assert cli_env.inspan("recover", "--dry-run").stderr == "inspan: nothing was lost here\n"
    prune = ("prune", "--older-than", "0d", "--yes", "--json")
    assert json.loads(cli_env.inspan(*prune, "--keep-failed").stdout)["runs"] == []
    assert len(json.loads(cli_env.inspan(*prune).stdout)["runs"]) == 4


def test_it_goes_on_with_as_many_at_a_time_as_before(repository: Repository) -> None:
    cli_env = repository.cli_env
    process = cli_env.start(*repository.build("set n to 1", "--jobs", "1", "--times", "2", scripted=IDLE))
    loop = wait_until(lambda: repository.lines, "the first cell")[0]["loop"]
    cli_env.wait_for_events(loop, "attempt_started")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    cli_env.wait_for_end(loop)
    before = len(repository.lines)
    cli_env.scenario(SET_ONE, "scripted")
    done = cli_env.inspan("compare", "--resume", "@last")
    assert done.returncode == 0, done.stderr
    assert [line["kind"] for line in repository.lines[before:]] == ["cell_started", "cell_ended"] * 2


def test_interrupted_it_stops_its_loops_and_can_go_on(repository: Repository) -> None:
    cli_env = repository.cli_env
    process = cli_env.start(*repository.build("set n to 1", scripted=IDLE))
    started = wait_until(lambda: repository.lines, "a cell")
    loop = started[0]["loop"]
    cli_env.wait_for_events(loop, "attempt_started")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr.decode()
    assert b"--resume" in stderr and b"Traceback" not in stderr
    cli_env.wait_for_events(loop, "run_ended")
    wait_until(lambda: not processes_of(cli_env.events(loop)[1]["run_id"]), "end of its agent")
    cli_env.scenario(SET_ONE, "scripted")
    done = cli_env.inspan("compare", "--resume", "@last", "--json")
    assert done.returncode == 0, done.stderr
    (result,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert result["passed"] and result["loop"] != loop


def test_another_process_is_kept_out(repository: Repository) -> None:
    cli_env = repository.cli_env
    process = cli_env.start(*repository.build("set n to 1", scripted=IDLE))
    wait_until(lambda: repository.lines, "a cell")
    done = cli_env.inspan("compare", "--resume", "@last")
    assert "Another process works on the comparison" in done.stderr and done.returncode != 0
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)


def test_a_secret_is_not_written_down(repository: Repository) -> None:
    secret = "sk-very-secret-0123456789"
    tell = SET_ONE.replace("echo 1 > n", "echo 1 > n; echo $SOME_API_KEY > token; cp token $SOME_API_KEY")
    done = repository.compare("set n to 1", "--env", f"SOME_API_KEY={secret}", "--json", scripted=tell)
    assert done.returncode == 0, done.stderr
    written = [path.read_text() for path in repository.store.iterdir()]
    assert all(secret not in text for text in (*written, done.stdout))
    assert "+[REDACTED:SOME_API_KEY]" in (repository.store / "report.html").read_text()
    again = repository.cli_env.inspan("compare", "--resume", "@last")
    assert again.returncode == 2 and "it was given a secret, which is not stored" in again.stderr


def test_killed_while_it_looked_at_the_checks_it_goes_on(repository: Repository) -> None:
    cli_env = repository.cli_env
    begun, gate = cli_env.root / "begun", cli_env.root / "gate"
    check = f"touch {begun}; until test -e {gate}; do sleep 0.05; done; {CHECK}"
    process = cli_env.start(*repository.build("set n to 1", check=check))
    wait_until(begun.exists, "the check before the agents")
    process.kill()
    process.wait()
    (left,) = json.loads(cli_env.inspan("worktrees", "--all", "--json").stdout)["worktrees"]
    gate.touch()
    done = cli_env.inspan("compare", "--resume", "@last")
    assert done.returncode == 0, done.stderr
    assert [each["passed"] for each in repository.results] == [True]
    assert left["path"] not in cli_env.inspan("worktrees", "--all", "--json").stdout


def test_a_repository_that_a_check_leaves_behind_is_in_nobodys_way(repository: Repository) -> None:
    done = repository.compare("set n to 1", check=f"git init -q inner && echo x > inner/x && {CHECK}")
    assert done.returncode == 0, done.stderr
    assert [each["passed"] for each in repository.results] == [True]


@pytest.mark.parametrize("agents", ["codex,claude", "scripted"])
def test_an_agent_that_does_nothing_does_not_pass_by_what_the_users_checkout_holds(
    repository: Repository, agents: str
) -> None:
    (repository.path / "n").write_text("1\n")
    repository.commit("n is 1 already")
    seen = repository.cli_env.root / "seen"
    check = f"pwd >> {seen}; echo left > left-by-check; {CHECK}"
    scripts = {"claude": SET_ONE, "codex": CLAIM, "scripted": CLAIM}
    done = repository.compare("set n to 1", "--start", "HEAD~1", agents=agents, check=check, **scripts)
    assert done.returncode == 0, done.stderr
    assert {each["agent"]: each["passed"] for each in repository.results} == {
        agent: agent == "claude" for agent in agents.split(",")
    }
    folders = seen.read_text().split()
    assert len(folders) == 1 + len(agents.split(","))
    assert all(folder.startswith(str(repository.cli_env.state / "worktrees")) for folder in folders)
    assert repository.git("status", "--porcelain") == ""


def test_what_was_left_out_on_purpose_lets_no_agent_pass(repository: Repository) -> None:
    (repository.path / "n").write_text("42\n")
    done = repository.compare("set n to 42", "--start", "HEAD", check="grep -q 42 n", scripted=CLAIM)
    assert done.returncode == 0, done.stderr
    assert [each["passed"] for each in repository.results] == [False]


def test_an_agent_that_does_nothing_leaves_no_worktree_behind(repository: Repository) -> None:
    assert repository.compare("set n to 1", scripted=CLAIM).returncode == 0
    assert [path for path in repository.cli_env.state.glob("worktrees/*/*") if path.is_dir()] == []


def test_the_sandbox_that_is_configured_holds_for_agents_and_checks(repository: Repository) -> None:
    cli_env = repository.cli_env
    assert cli_env.inspan("config", "set", "runtime.sandbox", "bwrap").returncode == 0
    outside = cli_env.root / "outside"
    plant = f'[[call]]\nrun = "echo 1 > n; echo x >> {outside}"\n[[call]]\nsay = "Done."\n'
    done = repository.compare("set n to 1", check=f"{CHECK} && {{ echo x >> {outside} || true; }}", scripted=plant)
    assert done.returncode == 0, done.stderr
    assert [each["passed"] for each in repository.results] == [True] and not outside.exists()
