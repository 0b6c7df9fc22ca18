"""Tokens of a task for whoever audits them: one file, whole at any moment, each run in it once."""

import asyncio
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import inspan
from inspan import AgentResult, Cost, Usage
from inspan.errors import StateUnusable
from tests.agents.styles import PER_CALL

from .conftest import Play
from .run_env import RunEnv

_MANY = """
import sys
from inspan import AgentResult, Usage
for number in range(20):
    name = f"{sys.argv[1]}-{number}"
    AgentResult(run_id=name, agent="a", outcome="completed", reason="done", tokens_used=Usage(input=1), model_calls=1,
           folder=f"{sys.argv[2]}/runs/{name}", attempts=(name,)).record_tokens()
"""


def test_a_run_is_recorded_with_everything_that_is_known(tmp_path: Path) -> None:
    paid = {"cost_cents": 1.5, "cost": Cost(kind="paid", usd=0.015)}
    first = _result(tmp_path, "r-1", tokens_used=Usage(input=3, cache_read=2), attempts=("r-0", "r-1"), **paid)
    second = _result(tmp_path, "r-2", tokens_used=Usage(output=4, reasoning=1))
    path = first.record_tokens()
    assert second.record_tokens() == path == str(tmp_path / "tokens-used.json")
    assert _read(tmp_path) == {
        "schema": 1,
        "total": {
            "runs": 3,
            "tokens": {"input": 3, "output": 4, "cache_read": 2, "cache_write": 0, "reasoning": 1},
            "cost_cents": 1.5,
            "cost_not_reported": 1,
            "not_paid": 0,
            "model_calls": 4,
        },
        "runs": [
            {
                "run_id": "r-1",
                "agent": "anyone",
                "outcome": "completed",
                "tokens": {"input": 3, "output": 0, "cache_read": 2, "cache_write": 0, "reasoning": 0},
                "cost_cents": 1.5,
                "model_calls": 2,
                "attempts": ["r-0", "r-1"],
                "cost_kind": "paid",
            },
            {
                "run_id": "r-2",
                "agent": "anyone",
                "outcome": "completed",
                "tokens": {"input": 0, "output": 4, "cache_read": 0, "cache_write": 0, "reasoning": 1},
                "cost_cents": None,
                "model_calls": 2,
                "attempts": ["r-2"],
                "cost_kind": "unknown",
            },
        ],
    }
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_a_run_that_is_recorded_twice_counts_once(tmp_path: Path) -> None:
    attempt, last = _result(tmp_path, "r-1"), _result(tmp_path, "r-2", attempts=("r-1", "r-2"))
    for result in (attempt, attempt, last, last):
        result.record_tokens()
    assert [run["run_id"] for run in _read(tmp_path)["runs"]] == ["r-2"]
    assert _read(tmp_path)["total"]["cost_cents"] is None


def test_many_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    processes = [subprocess.Popen([sys.executable, "-c", _MANY, name, str(tmp_path)]) for name in ("one", "two")]
    threads = [threading.Thread(target=_result(tmp_path, f"r-{number}").record_tokens) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [process.wait(60) for process in processes] == [0, 0]
    told = _read(tmp_path)
    assert sorted(run["run_id"] for run in told["runs"]) == sorted(
        [f"{name}-{number}" for name in ("one", "two") for number in range(20)]
        + [f"r-{number}" for number in range(10)]
    )
    assert told["total"]["runs"] == 50
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tokens-used.json", "tokens-used.json.lock"]


@pytest.mark.parametrize("text", ["{broken", "[]", '{"schema": 1}', '{"runs": [{"run_id": 3}]}', ""])
def test_a_file_that_cannot_be_read_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokens-used.json"
    path.write_text(text)
    with pytest.raises(StateUnusable) as caught:
        _result(tmp_path, "r-1").record_tokens()
    assert str(path) in caught.value.message and caught.value.next_step
    assert path.read_text() == text


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateUnusable, match="No such file"):
        _result(tmp_path / "gone", "r-1").record_tokens()


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_runner_records_its_runs_where_it_is_asked_to(agents: RunEnv, agent: str) -> None:
    scenario = '[[call]]\nwhen = "break-now-please"\nfail = {status = 401}\n[[call]]\nsay = "ok"\nrepeat = "always"\n'
    runner = inspan.create_agent_runner(
        agent,
        profile="clean",
        cwd=agents.work,
        project="p",
        task="t",
        model_from=agents.scenario(scenario),
        record_tokens=True,
    )

    async def scene() -> tuple[AgentResult, AgentResult]:
        return await runner.exec("x"), await runner.complete("break-now-please")

    good, bad = asyncio.run(scene())
    told = _read(agents.state / "projects" / "p" / "t")
    assert [(run["run_id"], run["outcome"]) for run in told["runs"]] == [
        (good.run_id, "completed"),
        (bad.run_id, "failed"),
    ]
    assert told["total"]["tokens"] == {name: getattr(PER_CALL, name) for name in PER_CALL.__struct_fields__}
    assert (told["total"]["cost_not_reported"], told["total"]["not_paid"]) == (0, 2)


def test_every_attempt_at_an_answer_is_recorded_once(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent("begin(); say('seven'); finish()")
    runner = inspan.create_agent_runner("codex", cwd=run_env.work, record_tokens=True, task="t")
    result = asyncio.run(runner.complete("x", output_schema={"type": "integer"}))
    (folder,) = run_env.state.glob("projects/*/t")
    assert [run["run_id"] for run in _read(folder)["runs"]] == list(result.attempts)
    before = _read(folder)["total"]
    assert before["tokens"]["output"] == result.tokens_used.output > 0
    result.record_tokens()
    assert [run["run_id"] for run in _read(folder)["runs"]] == [result.run_id]
    assert _read(folder)["total"] == {**before, "cost_not_reported": 1}


def test_nothing_is_recorded_where_nobody_asks(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent("begin(); finish()")
    asyncio.run(inspan.create_agent_runner("codex", cwd=run_env.work).exec("x"))
    assert list(run_env.state.rglob("tokens-used.json*")) == []


def _result(folder: Path, run_id: str, **fields: Any) -> AgentResult:
    given: dict[str, Any] = {"model_calls": 2, "attempts": (run_id,), **fields}
    return AgentResult(
        run_id=run_id,
        agent="anyone",
        outcome="completed",
        reason="done",
        folder=str(folder / "runs" / run_id),
        **given,
    )


def _read(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "tokens-used.json").read_text())
