"""Naming runs: by id, by its beginning, as @last, several at once; and what is said when no run answers."""

import json

import pytest

from tests.cli_env import CliEnv

from .refusal import expect_refusal
from .scenarios import release_tool, start_waiting_run

ONE_RUN = ("show", "logs", "events")
SEVERAL_RUNS = ("wait", "stop", "kill", "rm")
each_command = pytest.mark.parametrize("command", [*ONE_RUN, *SEVERAL_RUNS])


@each_command
def test_an_unknown_run_is_named_and_changes_nothing(readonly_env: CliEnv, command: str) -> None:
    refusal = expect_refusal(readonly_env, command, "nosuch")
    assert (refusal.exit_code, refusal.code) == (2, "run_not_found")
    assert "'nosuch'" in refusal.message
    assert "inspan ps -a" in refusal.next


@pytest.mark.parametrize("name", ["", "3", "@first", "a\udcff", "%", "' OR 1=1 --", "../.."])
def test_no_name_is_too_strange_to_be_refused(old_runs: CliEnv, name: str) -> None:
    refusal = expect_refusal(old_runs, "show", name)
    assert (refusal.exit_code, refusal.code) == (2, "run_not_found")
    assert repr(name) in refusal.message


@each_command
def test_the_last_run_of_none_is_refused(readonly_env: CliEnv, command: str) -> None:
    refusal = expect_refusal(readonly_env, command, "@last")
    assert (refusal.exit_code, refusal.code) == (2, "run_not_found")
    assert refusal.message == "There is no run yet."
    assert "inspan run" in refusal.next


@each_command
def test_a_beginning_of_two_ids_is_refused_and_both_are_named(old_runs: CliEnv, command: str) -> None:
    ids = sorted(old_runs.inspan("ps", "-aq").stdout.split())
    refusal = expect_refusal(old_runs, command, "2")
    assert (refusal.exit_code, refusal.code) == (2, "run_not_found")
    assert "'2' begins more than one run id" in refusal.message
    assert refusal.next == f"Add characters: {', '.join(ids)}."


@pytest.mark.parametrize("command", ONE_RUN)
def test_the_last_run_is_meant_where_none_is_named(old_runs: CliEnv, command: str) -> None:
    last = old_runs.inspan("ps", "-aq").stdout.split()[0]
    by_id = old_runs.inspan(command, last)
    assert by_id.returncode == 0
    assert last in by_id.stdout
    assert old_runs.inspan(command).stdout == by_id.stdout
    assert old_runs.inspan(command, "@last").stdout == by_id.stdout


def test_a_run_answers_to_the_beginning_of_its_id(old_runs: CliEnv) -> None:
    first, second = sorted(old_runs.inspan("ps", "-aq").stdout.split())
    same = next(index for index, (one, other) in enumerate(zip(first, second, strict=False)) if one != other)
    for run_id in (first, second):
        done = old_runs.inspan("wait", run_id[: same + 1])
        assert done.stdout.startswith(run_id)


def test_several_runs_are_answered_in_their_order(old_runs: CliEnv) -> None:
    failed, completed = old_runs.inspan("ps", "-aq").stdout.split()
    lines = [f"{completed} completed done\n", f"{failed} failed overloaded\n"]
    forth = old_runs.inspan("wait", completed, failed)
    back = old_runs.inspan("wait", failed, completed)
    assert (forth.returncode, forth.stdout) == (1, "".join(lines))
    assert (back.returncode, back.stdout) == (0, "".join(reversed(lines)))


def test_one_unknown_run_among_several_ends_none(cli_env: CliEnv) -> None:
    run_id = start_waiting_run(cli_env)
    done = cli_env.inspan("stop", run_id, "nosuch")
    assert (done.returncode, done.stdout) == (2, "")
    assert cli_env.inspan("ps", "-q").stdout == f"{run_id}\n"
    release_tool(cli_env)


def test_a_living_run_answers_to_its_beginning_and_as_the_last(cli_env: CliEnv) -> None:
    run_id = start_waiting_run(cli_env)
    for name in (run_id, run_id[:9], "@last"):
        shown = json.loads(cli_env.inspan("show", name, "--json").stdout)
        assert shown["started"]["run_id"] == run_id
    release_tool(cli_env)
