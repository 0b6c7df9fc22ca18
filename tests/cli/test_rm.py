"""`rm`: one run goes at once, of several each is named and somebody is asked; `--dry-run` wherever something goes."""

import json
from collections.abc import Iterator

import pytest

from inspan.protocol.ids import make_short_name
from tests.cli_env import CliEnv, SavedCliEnv

from .dialogue import type_answer
from .refusal import parse_refusal
from .scenarios import run_to_end


@pytest.fixture(scope="module")
def saved_runs(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, str]) -> tuple[SavedCliEnv, list[str]]:
    made = CliEnv(tmp_path_factory.mktemp("own"), binaries=binaries)
    ids = [run_to_end(made) for _ in range(2)]
    return SavedCliEnv(made), ids


@pytest.fixture
def two_runs(saved_runs: tuple[SavedCliEnv, list[str]]) -> Iterator[tuple[CliEnv, list[str]]]:
    """Two runs of the test's own."""
    saved, ids = saved_runs
    yield saved.restore(), ids
    saved.close()


@pytest.fixture(scope="module")
def kept_runs(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, str]) -> Iterator[tuple[CliEnv, list[str]]]:
    """Two runs that every test leaves as they are."""
    made = CliEnv(tmp_path_factory.mktemp("kept"), binaries=binaries)
    ids = [run_to_end(made) for _ in range(2)]
    yield made, ids
    assert list_ids(made) == sorted(ids)
    made.close()


def list_ids(cli_env: CliEnv) -> list[str]:
    return sorted(path.name for path in cli_env.state.glob("projects/*/*/runs/*"))


@pytest.mark.parametrize("more", [(), ("--json",)], ids=["text", "json"])
def test_several_are_not_deleted_where_nobody_can_be_asked(
    kept_runs: tuple[CliEnv, list[str]], more: tuple[str, ...]
) -> None:
    cli_env, ids = kept_runs
    done = cli_env.inspan("rm", *ids, *more, stdin="y\n")
    assert (done.returncode, done.stdout) == (2, "")
    said = "Delete 2 runs and their sessions? Cannot ask here: use --yes to delete, --dry-run to look."
    assert said in done.stderr
    assert list_ids(cli_env) == ids


def test_several_are_deleted_without_a_question_where_yes_is_said(two_runs: tuple[CliEnv, list[str]]) -> None:
    cli_env, ids = two_runs
    done = cli_env.inspan("rm", *ids, "-y")
    assert (done.returncode, done.stdout, done.stderr) == (0, "".join(f"{run_id}\n" for run_id in ids), "")
    assert list_ids(cli_env) == []


@pytest.mark.parametrize("keys", ["n\n", "\n", "\x03", "\x04"], ids=["n", "Enter", "Ctrl-C", "Ctrl-D"])
def test_anything_but_a_yes_deletes_nothing(kept_runs: tuple[CliEnv, list[str]], keys: str) -> None:
    cli_env, ids = kept_runs
    printed, code = type_answer(cli_env, keys, "rm", *ids)
    assert (code, printed.splitlines()[-1]) == (1, "nothing deleted"), printed
    assert list_ids(cli_env) == ids


def test_several_are_named_before_the_question(two_runs: tuple[CliEnv, list[str]]) -> None:
    cli_env, ids = two_runs
    printed, code = type_answer(cli_env, "y\n", "rm", *ids)
    named, _, after = printed.partition("Delete 2 runs and their sessions? [y/N]:")
    assert code == 0, printed
    assert [line.split()[:2] for line in named.splitlines()] == [
        ["RUN", "AGENT"],
        *([make_short_name(each), "scripted"] for each in ids),
    ]
    assert all(line.endswith(f"{cli_env.work}  do it") for line in named.splitlines()[1:])
    assert after.split()[-2:] == [make_short_name(each) for each in ids]
    assert list_ids(cli_env) == []


@pytest.mark.parametrize("count", [1, 2])
def test_a_look_deletes_nothing(kept_runs: tuple[CliEnv, list[str]], count: int) -> None:
    cli_env, ids = kept_runs
    done = cli_env.inspan("rm", *ids[:count], "--dry-run")
    said = "".join(f"{run_id} would be deleted\n" for run_id in ids[:count])
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")
    found = json.loads(cli_env.inspan("rm", *ids[:count], "--dry-run", "--json").stdout)
    assert found == {"schema": 1, "dry_run": True, "removed": ids[:count], "worktrees": []}
    assert list_ids(cli_env) == ids


def test_one_that_cannot_be_read_is_named_too(kept_runs: tuple[CliEnv, list[str]]) -> None:
    cli_env, ids = kept_runs
    description = cli_env.folder(ids[0]) / "run.json"
    kept = description.read_bytes()
    try:
        description.write_text("{")
        printed, code = type_answer(cli_env, "n\n", "rm", *ids)
        assert code == 1
        assert any(ids[0] in line and "cannot be read" in line for line in printed.splitlines()), printed
    finally:
        description.write_bytes(kept)


def test_a_setting_stays_where_it_is_only_looked(cli_env: CliEnv) -> None:
    cli_env.inspan("config", "set", "limits.timeout", "5m", "--project")
    file = cli_env.work / "inspan.toml"
    kept = file.read_bytes()
    done = cli_env.inspan("config", "unset", "limits.timeout", "--project", "--dry-run")
    assert (done.returncode, done.stdout) == (0, f"limits.timeout would be taken out of {file}\n")
    assert file.read_bytes() == kept
    refused = cli_env.inspan("config", "unset", "limits.idle", "--project", "--dry-run", "--json")
    assert "is not set" in parse_refusal(refused).message


def test_a_look_at_what_would_be_revoked_needs_something_to_revoke(readonly_env: CliEnv) -> None:
    assert "--revoke" in parse_refusal(readonly_env.inspan("approvals", "--dry-run", "--json")).message
    unknown = readonly_env.inspan("approvals", "--revoke", "Bash(ls)", "--dry-run", "--json")
    assert "nothing like it is kept" in parse_refusal(unknown).message
