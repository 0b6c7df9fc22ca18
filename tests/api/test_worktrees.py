"""A worktree for a run of somebody's own program: the same as at the command line."""

import asyncio
import subprocess
from pathlib import Path

import msgspec
import pytest

import inspan
from inspan.errors import BudgetSpent
from inspan.protocol.budget import Budget
from tests.api.run_env import RunEnv, make_run_env
from tests.stores.snapshot_repository import IDENTITY

WRITES = '[[call]]\nwrite = {path = "new.txt", content = "new\\n"}\n[[call]]\nsay = "done"\n'


@pytest.fixture
def run_env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunEnv:
    made = make_run_env(tmp_path, monkeypatch)
    (made.work / "kept.txt").write_text("kept\n")
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "first")):
        subprocess.run(["git", *IDENTITY, *arguments], cwd=made.work, check=True)
    made.task = msgspec.structs.replace(
        made.task, agent="scripted", sandbox="worktree", model_from=made.scenario(WRITES)
    )
    return made


def test_runs_in_this_process_work_in_worktrees_and_are_applied(run_env: RunEnv) -> None:
    async def run_two() -> list[inspan.AgentResult]:
        return list(await asyncio.gather(inspan.run(run_env.task), inspan.run(run_env.task)))

    results = asyncio.run(run_two())
    assert [result.outcome for result in results] == ["completed", "completed"]
    places = {Path(file).parent for result in results for file in result.files_changed}
    assert len(places) == 2
    assert not (run_env.work / "new.txt").exists()
    applied = asyncio.run(inspan.apply_run(results[0].run_id))
    assert (applied.top, [file.path for file in applied.files]) == (str(run_env.work), ["new.txt"])
    assert (run_env.work / "new.txt").read_text() == "new\n"


def test_a_run_that_is_refused_after_its_worktree_was_made_leaves_none(run_env: RunEnv) -> None:
    spends = msgspec.structs.replace(run_env.task, budgets={"project": Budget(calls=1)})
    asyncio.run(inspan.run(spends))
    before = sorted(run_env.state.glob("worktrees/*/*")), run_env.folders(), _list_branches(run_env)
    with pytest.raises(BudgetSpent):
        asyncio.run(inspan.run(spends))
    assert (sorted(run_env.state.glob("worktrees/*/*")), run_env.folders(), _list_branches(run_env)) == before


def _list_branches(run_env: RunEnv) -> str:
    return subprocess.run(["git", "branch"], cwd=run_env.work, check=True, capture_output=True, text=True).stdout
