"""`inspan matrix`: what it lists, refuses, prints and writes; a failed cell is a failure of the command."""

import json
from pathlib import Path

import pytest

from inspan.testing.matrix.scenario import list_scenarios
from tests.cli_env import CliEnv
from tests.running.fake_agent import PRELUDE, Fake

from .refusal import expect_refusal


def test_the_scenarios_are_listed_with_their_titles(readonly_env: CliEnv) -> None:
    done = readonly_env.inspan("matrix", "--list")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [f"{each.name}: {each.title}" for each in list_scenarios()]
    assert readonly_env.inspan("matrix", "--list", "-s", "cut", "-s", "answer").stdout.count("\n") == 2


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("-s", "answr"), 2, "scenario 'answr': unknown scenario."),
        (("--list", "-s", ""), 2, "scenario '': unknown scenario."),
        (("-a", "codx"), 2, "agent 'codx': unknown agent."),
        (("-a", "codex@new"), 2, "agent 'codex@new': unknown version."),
        (("-a", "codex", "--channel", "telepathy"), 2, "--channel 'telepathy': Codex has no such channel."),
        (("-a", "codex@0.100.0"), 5, "Codex 0.100.0 is too old; the oldest supported version is 0.149.0."),
    ],
)
def test_what_there_is_not_is_refused(readonly_env: CliEnv, words: tuple[str, ...], code: int, says: str) -> None:
    refusal = expect_refusal(readonly_env, "matrix", *words)
    assert (refusal.exit_code, refusal.message) == (code, says)


def test_cells_that_hold_are_printed_written_and_no_failure(cli_env: CliEnv, tmp_path: Path) -> None:
    words = ("matrix", "-a", "codex", "-s", "answer", "-s", "status_401", "--write", str(tmp_path / "new" / "pages"))
    done = cli_env.inspan(*words)
    assert (done.returncode, done.stderr) == (0, "")
    *marks, counts, _ = done.stdout.splitlines()
    assert [line.split()[:4] for line in sorted(marks)] == [
        ["✔", "codex", "0.163.0", "answer"],
        ["✔", "codex", "0.163.0", "status_401"],
    ]
    assert counts == "codex: 2 pass, 0 fail, 0 cannot, 0 asked"
    cells = json.loads((tmp_path / "new" / "pages" / "matrix.json").read_text())["cells"]
    assert [(cell["scenario"], cell["result"], cell["reason"]) for cell in cells] == [
        ("answer", "pass", ""),
        ("status_401", "pass", ""),
    ]
    assert (tmp_path / "new" / "pages" / "matrix.md").read_text().endswith("\n\nEvery cell is a pass.\n")


def test_a_cell_that_fails_is_a_failure_told_as_data_and_kept(cli_env: CliEnv, fake: Fake, tmp_path: Path) -> None:
    env = {"INSPAN_CODEX_BIN": fake("codex", PRELUDE + "begin(); say('nonsense'); finish()")}
    words = ("matrix", "-a", "codex", "-s", "answer", "--json", "--keep", str(tmp_path / "kept"))
    done = cli_env.inspan(*words, env=env)
    assert (done.returncode, done.stderr) == (1, "")
    value = json.loads(done.stdout)
    assert (value["schema"], [cell["result"] for cell in value["cells"]]) == (1, ["fail"])
    assert list((tmp_path / "kept" / "codex-answer").glob("state/inspan/projects/*/*/runs/*/events.jsonl"))
