"""Names a person can type: short ones, own ones, @1 and @2; what they mean, and what is refused as one."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inspan.protocol.ids import make_short_name
from inspan.runs.names import tell_apart
from inspan.runs.projects import project_of
from inspan.stores import index
from inspan.stores.index import Entry, Row
from inspan.stores.run_folder import run_path
from tests.agents.conversation import list_runs
from tests.cli_env import CliEnv

from .refusal import expect_refusal, parse_refusal
from .scenarios import SAYS_HELLO, release_tool, start_waiting_run
from .test_tables import show_in_pty

ONE_RUN = ("show", "logs", "events", "wait", "diff")


def run_named(cli_env: CliEnv, *more: str, cwd: Path | None = None) -> str:
    """Runs to the end and gives the id."""
    model = cli_env.scenario(SAYS_HELLO)
    words = ("run", "do it", "-d", "-a", "scripted", "--profile", "clean", "--model-from", model, *more)
    done = cli_env.inspan(*words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    run_id = done.stdout.strip()
    assert cli_env.inspan("wait", run_id).returncode == 0
    return run_id


def find(cli_env: CliEnv, name: str, *, cwd: Path | None = None) -> str:
    """The id of the run that a name means."""
    done = cli_env.inspan("show", name, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["run"]["run_id"]


def list_names(cli_env: CliEnv, *more: str, cwd: Path | None = None) -> list[str]:
    """The column RUN of `ps -a`."""
    return [line.split()[0] for line in cli_env.inspan("ps", "-a", *more, cwd=cwd).stdout.splitlines()[1:]]


@pytest.fixture(scope="module")
def three_runs(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, str]) -> Iterator[CliEnv]:
    """A house with three ended runs: one with a name in the working folder, one without, and one elsewhere."""
    made = CliEnv(tmp_path_factory.mktemp("named"), binaries=binaries)
    (made.root / "other").mkdir()
    run_named(made, "--name", "fix-login")
    run_named(made)
    run_named(made, "--name", "elsewhere", cwd=made.root / "other")
    yield made
    made.close()


@pytest.fixture
def ids(three_runs: CliEnv) -> tuple[str, str, str]:
    """Its runs, oldest first."""
    first, second, other = sorted(three_runs.inspan("ps", "-aq", "--all").stdout.split())
    return first, second, other


# What a name means


@pytest.mark.parametrize("command", ONE_RUN)
def test_a_run_answers_to_its_own_name_and_its_short_one(
    three_runs: CliEnv, ids: tuple[str, str, str], command: str
) -> None:
    by_id = three_runs.inspan(command, ids[0])
    for name in ("fix-login", make_short_name(ids[0])):
        done = three_runs.inspan(command, name)
        assert (done.returncode, done.stdout, done.stderr) == (by_id.returncode, by_id.stdout, by_id.stderr)


def test_runs_are_counted_from_the_newest_of_the_project(three_runs: CliEnv, ids: tuple[str, str, str]) -> None:
    first, second, other = ids
    assert [find(three_runs, name) for name in ("@1", "@2", "@last", "@last-anywhere")] == [
        second,
        first,
        second,
        other,
    ]
    assert find(three_runs, "@1", cwd=three_runs.root / "other") == other
    note = three_runs.inspan("show", "@2").stderr
    assert note.startswith(f"inspan: run {first}: scripted in {three_runs.work}, ")


@pytest.mark.parametrize("name", ["@0", "@", "@-1", "@01", "@1x", "@٣", f"@{10**20}"])
def test_what_is_no_place_is_no_run(three_runs: CliEnv, name: str) -> None:
    refusal = expect_refusal(three_runs, "show", name)
    assert (refusal.exit_code, refusal.code) == (2, "run_not_found")
    assert refusal.message == f"There is no run {name!r}."


def test_a_place_behind_the_oldest_says_how_many_there_are(three_runs: CliEnv) -> None:
    refusal = expect_refusal(three_runs, "show", "@99")
    assert (refusal.exit_code, refusal.code) == (2, "run_not_found")
    assert refusal.message == f"There is no run '@99' of this folder's project, {three_runs.work}: it has 2 runs."
    assert "`inspan ps -a`" in refusal.next
    nowhere = parse_refusal(three_runs.inspan("show", "@1", "--json", cwd=three_runs.root))
    assert nowhere.message == f"There is no run of this folder's project, {three_runs.root}."


def test_names_of_other_projects_are_found_too(three_runs: CliEnv, ids: tuple[str, str, str]) -> None:
    first, _, other = ids
    assert find(three_runs, "elsewhere") == find(three_runs, make_short_name(other)) == other
    assert find(three_runs, "fix-login", cwd=three_runs.root / "other") == first


def test_a_run_is_found_by_its_name_while_it_lives(cli_env: CliEnv) -> None:
    run_id = start_waiting_run(cli_env, "--name", "waits")
    assert find(cli_env, "waits") == find(cli_env, make_short_name(run_id)) == find(cli_env, "@1") == run_id
    assert cli_env.inspan("ps").stdout.splitlines()[1].split()[0] == "waits"
    taken = expect_refusal(cli_env, "run", "do it", "-a", "scripted", "--model-from", "script:x", "--name", "a b")
    assert taken.message.startswith("--name 'a b': ")
    release_tool(cli_env)
    assert cli_env.inspan("wait", "waits").returncode == 0
    assert find(cli_env, "waits") == run_id


def test_a_lost_index_loses_no_name(cli_env: CliEnv) -> None:
    run_id = run_named(cli_env, "--name", "kept")
    for path in cli_env.state.glob("index.db*"):
        path.unlink()
    assert find(cli_env, make_short_name(run_id)) == run_id
    assert cli_env.inspan("reindex").returncode == 0
    assert find(cli_env, "kept") == run_id
    assert list_names(cli_env) == ["kept"]


# Names that are the same


def put_run(cli_env: CliEnv, run_id: str, *, name: str = "", short: str = "", folder: str = "work") -> None:
    """Enters an ended run whose folder is nearly empty."""
    cwd = str(cli_env.root / folder)
    project = project_of(cwd)
    path = Path(run_path(str(cli_env.state), project=project, task="default", run_id=run_id))
    path.mkdir(parents=True)
    described: dict[str, Any] = {"agent": "a", "task": {"cwd": cwd, "prompt": "p"}, "created_at": 1.0}
    (path / "run.json").write_text(json.dumps(described))
    row = Row(
        run_id, project, "default", "a", 1.0, 0.0, "completed", "done", "p", 0, None, "", cwd, name=name, short=short
    )
    index.put(str(cli_env.state), [Entry(row=row)])


A, B, C = (f"20260102-03040500{number}-7" for number in range(3))


def remove(cli_env: CliEnv, name: str) -> subprocess.CompletedProcess[str]:
    return cli_env.inspan("rm", name, "--json")


def test_a_name_that_two_runs_share_is_refused_and_both_are_named(cli_env: CliEnv) -> None:
    put_run(cli_env, A, short="kkkk")
    put_run(cli_env, B, short="kkkk")
    refusal = parse_refusal(remove(cli_env, "kkkk"))
    assert (refusal.exit_code, refusal.code) == (2, "run_not_found")
    assert refusal.message == "'kkkk' is the name of more than one run."
    assert refusal.next == f"Use one of their ids: {A}, {B}."
    assert list_names(cli_env) == [B, A]


def test_an_own_name_wins_over_a_short_one_and_this_project_over_others(cli_env: CliEnv) -> None:
    (cli_env.root / "other").mkdir()
    put_run(cli_env, A, short="kkkk")
    put_run(cli_env, B, name="kkkk", short="mmmm", folder="other")
    # The short name of a run here comes before the name of one elsewhere.
    assert json.loads(remove(cli_env, "kkkk").stdout)["removed"] == [A]
    put_run(cli_env, A, short="kkkk")
    put_run(cli_env, C, name="kkkk", short="nnnn")
    assert list_names(cli_env) == ["nnnn", A]
    assert json.loads(remove(cli_env, "kkkk").stdout)["removed"] == [C]
    assert json.loads(remove(cli_env, "kkkk").stdout)["removed"] == [A]
    assert json.loads(remove(cli_env, "kkkk").stdout)["removed"] == [B]


def test_a_run_that_is_in_no_list_answers_to_its_short_name(cli_env: CliEnv) -> None:
    put_run(cli_env, A, short=make_short_name(A))
    index.remove(str(cli_env.state), A)
    assert json.loads(remove(cli_env, make_short_name(A)).stdout)["removed"] == [A]


# Giving a name


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "it is empty."),
        ("n" * 300, "it is too long: 300 characters."),
        ("--json", "it begins with -."),
        ("@1", "it begins with @."),
        ("2026", "it has only digits."),
        ("20260102-0304", "a run id could begin so."),
        ("a b", "it contains the character ' '."),
        ("a/b", "it contains the character '/'."),
        ("\x1b[31m", "it contains the character '\\x1b'."),
        ("名前", "it contains the character '名'."),
    ],
    ids=["empty", "300", "option", "place", "digits", "id", "space", "slash", "escape", "no ASCII"],
)
def test_a_name_that_could_not_be_typed_is_refused(readonly_env: CliEnv, name: str, problem: str) -> None:
    words = ("run", "do it", "-a", "scripted", "--model-from", readonly_env.scenario(SAYS_HELLO), f"--name={name}")
    refusal = expect_refusal(readonly_env, *words)
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")
    assert refusal.message.startswith(f"--name {name[:20]!r}"[:-1])
    assert refusal.message.endswith(f"': {problem}")
    assert not readonly_env.state.exists()


def test_a_name_is_given_once_in_a_project(cli_env: CliEnv) -> None:
    (cli_env.root / "other").mkdir()
    first = run_named(cli_env, "--name", "fix")
    words = ("run", "do it", "-a", "scripted", "--model-from", cli_env.scenario(SAYS_HELLO), "--name", "fix")
    for more in ((), ("--project", "boat")):
        refusal = expect_refusal(cli_env, *words, *more)
        assert (refusal.exit_code, refusal.code) == (2, "bad_input")
        assert refusal.message == f"--name 'fix': run {first} of this project has it."
        assert f"`inspan rm {first}`" in refusal.next
    other = run_named(cli_env, "--name", "fix", cwd=cli_env.root / "other")
    assert (find(cli_env, "fix"), find(cli_env, "fix", cwd=cli_env.root / "other")) == (first, other)
    assert list_names(cli_env, "--all") == [make_short_name(first), make_short_name(other)]
    assert cli_env.inspan("rm", "fix").stdout == f"{first}\n"
    again = run_named(cli_env, "--name", "fix")
    assert find(cli_env, "fix") == again


def test_a_name_that_a_living_run_has_can_be_had_by_ending_that_run(cli_env: CliEnv) -> None:
    living = start_waiting_run(cli_env, "--name", "fix")
    words = ("run", "do it", "-a", "scripted", "--model-from", cli_env.scenario(SAYS_HELLO), "--name", "fix")
    refused = cli_env.inspan(*words)
    assert refused.returncode == 2
    assert f"Give another one, or end that run: `inspan stop {living}` and `inspan rm` it." in refused.stderr
    release_tool(cli_env)
    cli_env.wait_for_end(living)


def test_of_two_that_start_at_once_one_has_the_name(cli_env: CliEnv) -> None:
    model = cli_env.scenario(SAYS_HELLO)
    words = ("run", "do it", "-d", "-a", "scripted", "--profile", "clean", "--model-from", model, "--name", "one")
    started = [cli_env.start(*words) for _ in range(4)]
    printed = [process.communicate(timeout=120) for process in started]
    codes = sorted(process.returncode for process in started)
    assert codes == [0, 2, 2, 2], printed
    (run_id,) = [out.decode().strip() for out, _ in printed if out]
    assert all(f"run {run_id} of this project has it".encode() in errors for out, errors in printed if not out)
    assert cli_env.inspan("wait", "one").returncode == 0


def test_a_name_may_be_the_short_name_of_another_run(cli_env: CliEnv) -> None:
    first = run_named(cli_env)
    second = run_named(cli_env, "--name", make_short_name(first))
    assert find(cli_env, make_short_name(first)) == second
    assert list_names(cli_env) == [make_short_name(second), first]


def test_what_a_run_is_called_is_told_by_everything(three_runs: CliEnv, ids: tuple[str, str, str]) -> None:
    first, second, other = ids
    assert list_names(three_runs) == [make_short_name(second), "fix-login"]
    assert list_names(three_runs, "--all") == [make_short_name(second), "fix-login", "elsewhere"]
    rows = json.loads(three_runs.inspan("ps", "-a", "--json").stdout)["runs"]
    assert [(row["run_id"], row["name"], row["short"], row["folder"]) for row in rows] == [
        (second, "", make_short_name(second), str(three_runs.work)),
        (first, "fix-login", make_short_name(first), str(three_runs.work)),
    ]
    assert three_runs.events(first)[0]["name"] == "fix-login"
    assert json.loads((three_runs.folder(first) / "run.json").read_text())["task"]["name"] == "fix-login"
    assert f"  name: fix-login or {make_short_name(first)}\n" in three_runs.inspan("show", first).stdout
    shown = json.loads(three_runs.inspan("show", other, "--json").stdout)
    assert (shown["name"], shown["short"]) == ("elsewhere", make_short_name(other))


# Whose runs are listed


def test_only_this_projects_runs_are_listed_and_the_others_counted(cli_env: CliEnv) -> None:
    other = cli_env.root / "other"
    other.mkdir()
    here = run_named(cli_env)
    living = start_waiting_run(cli_env, "--name", "waits")
    assert cli_env.inspan("ps", "-q").stdout == f"{living}\n"
    there = cli_env.inspan("ps", cwd=other)
    assert there.stdout.splitlines()[1:] == []
    assert there.stderr == "inspan: 1 more is running in another project: `inspan ps --all`\n"
    assert cli_env.inspan("ps", "--all", "-q", cwd=other).stdout == f"{living}\n"
    assert cli_env.inspan("ps", "--all", cwd=other).stderr == cli_env.inspan("ps").stderr == ""
    assert cli_env.inspan("ps", "-aq", cwd=other).stdout == ""
    hint = "inspan: no run of this folder's project: `inspan ps -a --all` lists the others\n"
    assert cli_env.inspan("ps", "-a", cwd=other).stderr == there.stderr + hint
    assert json.loads(cli_env.inspan("ps", "-a", "--json", cwd=other).stdout)["runs"] == []
    newest = run_named(cli_env, cwd=other)
    assert cli_env.inspan("ps", "-a", "--all", "-q").stdout.split() == [living, here, newest]
    assert cli_env.inspan("ps", "-a", "--all", "-q", cwd=other).stdout.split() == [living, newest, here]
    assert cli_env.inspan("ps", "-a", "--all", "-q", "-n", "2", cwd=other).stdout.split() == [living, newest]
    release_tool(cli_env)
    cli_env.inspan("wait", living)


def test_a_run_that_needs_a_person_is_listed_wherever_one_is(cli_env: CliEnv) -> None:
    other = cli_env.root / "other"
    other.mkdir()
    asks = cli_env.detach(
        "claude",
        "[[call]]\nrun = 'echo hi > made.txt'\n[[call]]\nsay = 'ok'\n",
        "--ask",
        "*",
        "--answer-timeout",
        "10m",
    )
    cli_env.wait_for_events(asks, "permission_asked")
    done = cli_env.inspan("ps", cwd=other)
    (line,) = done.stdout.splitlines()[1:]
    assert line.startswith(f"{make_short_name(asks)}  ▲ needs you: ")
    assert done.stderr.startswith("inspan: 1 run needs you.")
    # Whoever stops all that `ps -q` names must not stop it.
    assert cli_env.inspan("ps", "-q", cwd=other).stdout == ""
    assert json.loads(cli_env.inspan("ps", "--json", cwd=other).stdout)["runs"] == []
    cli_env.inspan("stop", asks)


def test_a_home_is_not_needed_to_list_runs(three_runs: CliEnv) -> None:
    env = {name: value for name, value in three_runs.env.items() if name != "HOME"}
    done = subprocess.run(
        three_runs.argv("ps", "-a"),
        env=env,
        cwd=three_runs.work,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert str(three_runs.work) in done.stdout


def first_words(cli_env: CliEnv, *words: str) -> list[str]:
    """The first word of each row of a table."""
    return [line.split()[0] for line in cli_env.inspan(*words).stdout.splitlines()[1:]]


def test_costs_are_listed_by_the_names_that_ps_shows(cli_env: CliEnv) -> None:
    ids = [run_named(cli_env, "--name", "greeting"), run_named(cli_env)]
    listed = first_words(cli_env, "ps", "-a")
    assert listed == [make_short_name(ids[1]), "greeting"]
    assert first_words(cli_env, "cost", "--by", "run")[:2] == listed
    groups = json.loads(cli_env.inspan("cost", "--by", "run", "--json").stdout)["groups"]
    assert [group["name"] for group in groups] == ids[::-1]


def test_a_deleted_run_keeps_its_short_name_in_costs(cli_env: CliEnv) -> None:
    run_id = run_named(cli_env, "--name", "greeting")
    assert cli_env.inspan("rm", run_id).returncode == 0
    assert first_words(cli_env, "cost", "--by", "run")[0] == make_short_name(run_id)


def test_budgets_name_living_and_refused_runs_as_ps_does(cli_env: CliEnv) -> None:
    model = cli_env.scenario('[[call]]\nrun = "true"\n\n[[call]]\nsay = "done"\n')
    words = ("run", "do it", "-a", "scripted", "--profile", "clean", "--model-from", model)
    refused = cli_env.inspan(*words, "--budget", "1calls", "--name", "refused")
    living = start_waiting_run(cli_env)
    shown = cli_env.inspan("budget").stdout
    assert refused.returncode == 6, refused.stderr
    assert "Ended by a budget: run refused.\n  The budget of run refused is 1 model call: " in shown
    assert f"run {make_short_name(living)} " in shown
    assert living not in shown
    told = json.loads(cli_env.inspan("budget", "--json").stdout)
    assert living in [node["run_id"] for node in told["nodes"]]
    assert [len(refusal["run_id"]) > len("refused") for refusal in told["refusals"]] == [True]
    release_tool(cli_env)


@pytest.mark.parametrize(
    ("runs", "told"),
    [
        ([("id-1", "", "aaaa"), ("id-2", "foo", "bbbb")], ["aaaa", "foo"]),
        ([("id-1", "foo", "aaaa"), ("id-2", "bar", "bbbb"), ("id-3", "foo", "cccc")], ["aaaa", "bar", "cccc"]),
        ([("id-1", "", "aaaa"), ("id-2", "foo", "aaaa")], ["id-1", "foo"]),
        ([("id-1", "", "aaaa"), ("id-2", "", "aaaa")], ["id-1", "id-2"]),
        # What is typed means an own name first.
        ([("id-1", "", "aaaa"), ("id-2", "aaaa", "bbbb")], ["id-1", "bbbb"]),
        ([("id-1", "foo", "aaaa"), ("id-2", "aaaa", "bbbb"), ("id-3", "foo", "cccc")], ["id-1", "aaaa", "cccc"]),
        ([("id-1", "foo", ""), ("id-2", "foo", "bbbb")], ["id-1", "bbbb"]),
    ],
)
def test_two_runs_with_one_name_are_told_by_their_short_ones_or_ids(
    runs: list[tuple[str, str, str]], told: list[str]
) -> None:
    assert tell_apart(runs) == told


def test_one_name_in_two_projects_is_listed_by_names_to_type(cli_env: CliEnv) -> None:
    other = cli_env.root / "other"
    other.mkdir()
    model = cli_env.scenario(SAYS_HELLO)
    for folder in (cli_env.work, other):
        cli_env.inspan("run", "do it", "-a", "scripted", "--model-from", model, "--name", "foo", cwd=folder)
    listed = [line.split()[0] for line in cli_env.inspan("ps", "-a", "--all").stdout.splitlines()[1:]]
    assert sorted(listed) == sorted(make_short_name(run_id) for run_id in list_runs(cli_env))
    assert [cli_env.inspan("show", name).returncode for name in listed] == [0, 0]


def test_a_person_who_waits_or_stops_reads_names_and_a_script_reads_ids(cli_env: CliEnv) -> None:
    model = cli_env.scenario(SAYS_HELLO)
    cli_env.inspan("run", "do it", "-a", "scripted", "--model-from", model, "--name", "foo")
    run_id = cli_env.folder().name
    for command, told in (("wait", "completed done"), ("stop", "completed"), ("rm --dry-run", "would be deleted")):
        assert show_in_pty(cli_env, *command.split(), "foo", columns=80) == f"foo {told}\n"
        assert cli_env.inspan(*command.split(), "foo").stdout == f"{run_id} {told}\n"
