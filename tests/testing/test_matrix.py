"""The matrix as it is run: cells in order, one fault at a time, and what is left of them; as a page and as data."""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from inspan.agents.program import Program
from inspan.agents.registry import find_driver, load_drivers
from inspan.contracts.driver import Trials
from inspan.errors import AgentMissing, BadInput
from inspan.testing.matrix import cell_environment as grounds
from inspan.testing.matrix.cell import Cell, NotEnforced, ScenarioFailed
from inspan.testing.matrix.cell_environment import CellEnvironment
from inspan.testing.matrix.page import to_json, to_markdown
from inspan.testing.matrix.runner import Column, build_columns, run_cells, try_cell
from inspan.testing.matrix.scenario import Scenario, list_scenarios
from tests.cli_env import processes_of, wait_until
from tests.running.fake_agent import PRELUDE, Fake

# What the matrix promises; it may ask for more.
_PROMISED = """
answer reasoning shell write edit failing_command resume fork system_prompt append_system_prompt model extra_tools
review complete schema max_turns status_401 status_429 status_500 status_529 cut stall garbage long_output unicode
timeout cancel kill secret usage transcript boxed_work boxed_install
"""
_NAMES = [each.name for each in list_scenarios()]


def _passes(ground: CellEnvironment) -> None:
    pass


def _fails(ground: CellEnvironment) -> None:
    (ground.work / "left.txt").write_text("left")
    os.mkfifo(ground.work / "pipe")
    raise ScenarioFailed("texts: [], and ['hello'] was wanted")


def _breaks(ground: CellEnvironment) -> None:
    raise ZeroDivisionError("a slip")


def _scenario(name: str, check: Any = _passes) -> Scenario:
    return Scenario(name=name, title=f"{name} | the title", check=check)


def _column(agent: str = "scripted", *, version: str = "1.0.0", channel: str = "", **fields: Any) -> Column:
    found = msgspec.structs.replace(find_driver("scripted"), name=agent.partition("@")[0], **fields)
    program = Program(path="/nowhere", version=version, source="test")
    return Column(agent=agent, channel=channel, driver=found, program=program)


def _cell(agent: str, scenario: str, result: Any = "pass", **fields: Any) -> Cell:
    plain = Cell(agent=agent, channel="stream", version="1.0.0", scenario=scenario, result=result)
    return msgspec.structs.replace(plain, **fields)


def _run(wanted: list[Column], scenes: list[Scenario], *, keep: str = "") -> tuple[list[Cell], list[Cell]]:
    """The cells in their order, and as they were told of; how long each took is left out."""
    told: list[Cell] = []
    cells = run_cells(wanted, scenes, jobs=3, keep=keep, on_cell=told.append)
    timeless = [msgspec.structs.replace(cell, seconds=0.0) for cell in cells]
    return timeless, told


def test_every_scenario_is_there_in_its_order() -> None:
    assert set(_PROMISED.split()) - set(_NAMES) == set()
    assert [each.name for each in list_scenarios(("cut", "answer"))] == ["answer", "cut"]
    assert len({each.title for each in list_scenarios()}) == len(_NAMES)
    with pytest.raises(BadInput, match="scenario 'answr': unknown scenario") as caught:
        list_scenarios(("answer", "answr"))
    assert "Known scenarios: answer, reasoning" in caught.value.next_step


@pytest.mark.parametrize("agent", [each.name for each in load_drivers()])
def test_what_an_agent_cannot_is_said_of_scenarios_that_there_are(agent: str) -> None:
    found = find_driver(agent)
    told = [found.trials.unsupported_scenarios, *(channel.unsupported_scenarios or {} for channel in found.channels)]
    assert [name for each in told for name in each if name not in _NAMES] == []
    assert [name for each in told for name, reason in each.items() if len(reason) < 20] == []


def test_cells_come_in_the_order_of_agents_and_scenarios() -> None:
    scenes = [_scenario("one"), _scenario("two")]
    cells, told = _run([_column("b"), _column("a")], scenes)
    assert cells == [_cell("b", "one"), _cell("b", "two"), _cell("a", "one"), _cell("a", "two")]
    assert {(cell.agent, cell.scenario) for cell in told} == {(cell.agent, cell.scenario) for cell in cells}


def test_a_fault_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    scenes = [_scenario("good"), _scenario("bad", _fails), _scenario("broken", _breaks), _scenario("never")]
    trials = Trials(unsupported_scenarios={"never": "It has no such thing."})
    cells, _ = _run([_column(trials=trials)], scenes, keep=str(tmp_path))
    assert cells == [
        _cell("scripted", "good"),
        _cell("scripted", "bad", "fail", reason="texts: [], and ['hello'] was wanted"),
        _cell("scripted", "broken", "fail", reason="the scenario broke: ZeroDivisionError('a slip')"),
        _cell("scripted", "never", "cannot", reason="It has no such thing."),
    ]
    assert sorted(os.listdir(tmp_path)) == ["scripted-bad", "scripted-broken"]
    assert (tmp_path / "scripted-bad" / "work" / "left.txt").read_text() == "left"


def test_one_agent_in_two_versions_and_by_two_channels_has_a_column_each() -> None:
    wanted = [_column("a"), _column("a@2.0.0", version="2.0.0"), _column("a", channel="stream")]
    scenes = [_scenario("one", _passes)]
    cells, _ = _run(wanted, scenes)
    assert [(cell.agent, cell.version) for cell in cells] == [("a", "1.0.0"), ("a", "2.0.0"), ("a", "1.0.0")]
    page = to_markdown([cells[0], msgspec.structs.replace(cells[1], result="fail", reason="why")], scenes)
    assert "| scenario | a 1.0.0 | a 2.0.0 |" in page
    assert "| one | the title | ✔ | ✘ |" in page
    assert "| a 1.0.0 | 1.0.0 | stream | 1 | 0 | 0 | 0 |\n| a 2.0.0 | 2.0.0 | stream | 0 | 1 | 0 | 0 |" in page
    assert "| a 2.0.0 | one | the title | ✘ why |" in page


def test_the_page_has_a_mark_for_each_cell_and_a_reason_for_all_that_is_no_pass() -> None:
    scenes = [Scenario(name=name, title=f"The {name}", check=_passes) for name in ("one", "two")]
    cells = [
        _cell("a", "one"),
        _cell("a", "two", "fail", reason="first\nline | second"),
        _cell("b", "one", "cannot", reason="It cannot.", channel="acp"),
    ]
    assert _below_the_legend(to_markdown(cells, scenes)) == (
        "| scenario | a | b (acp) |\n|---|---|---|\n"
        "| The one | ✔ | – |\n| The two | ✘ |  |\n\n</div>\n\n"
        "## Columns\n\n| column | version | channel | ✔ | ✘ | – | ○ |\n|---|---|---|---|---|---|---|\n"
        "| a | 1.0.0 | stream | 1 | 1 | 0 | 0 |\n| b (acp) | 1.0.0 | acp | 0 | 0 | 1 | 0 |\n\n"
        "## What is not a pass\n\n| agent | scenario | why |\n|---|---|---|\n"
        "| a 1.0.0 | The two | ✘ first line \\| second |\n| b 1.0.0 (acp) | The one | – It cannot. |\n"
    )
    assert to_markdown(cells[:1], scenes).endswith("\n\nEvery cell is a pass.\n")


def _below_the_legend(page: str) -> str:
    return page.partition('<div class="matrix" markdown>\n\n')[2]


def test_the_page_marks_what_is_only_asked_and_counts_and_names_what_was_skipped() -> None:
    scenes = [Scenario(name=name, title=f"The {name}", check=_passes) for name in ("one", "two")]
    cells = [
        _cell("a", "one", "asked", reason="It ran."),
        _cell("a", "two", note="It has none.", skipped=["step 1: no tool | on offer", "step 2: nor here"]),
    ]
    assert _below_the_legend(to_markdown(cells, scenes)) == (
        "| scenario | a |\n|---|---|\n| The one | ○ |\n| The two | ✔ 2 |\n\n</div>\n\n"
        "## Columns\n\n| column | version | channel | ✔ | ✘ | – | ○ |\n|---|---|---|---|---|---|---|\n"
        "| a | 1.0.0 | stream | 1 | 0 | 0 | 1 |\n\n"
        "## What is not a pass\n\n| agent | scenario | why |\n|---|---|---|\n| a 1.0.0 | The one | ○ It ran. |\n\n"
        "## What a pass rests on\n\n| agent | scenario | how |\n|---|---|---|\n| a 1.0.0 | The two | It has none. |\n\n"
        "## Steps that were skipped\n\n| agent | scenario | step |\n|---|---|---|\n"
        "| a 1.0.0 | The two | step 1: no tool \\| on offer |\n| a 1.0.0 | The two | step 2: nor here |\n"
    )


def _is_asked(ground: CellEnvironment) -> None:
    ground.skipped.append("step 1: why")
    ground.note = "left out: it is no pass"
    raise NotEnforced("It is told to.")


def test_a_cell_that_is_only_asked_has_a_value_of_its_own_and_what_it_skipped(tmp_path: Path) -> None:
    cell = try_cell(tmp_path, _column(), _scenario("one", _is_asked))
    wanted = _cell("scripted", "one", "asked", reason="It is told to.", skipped=["step 1: why"])
    assert msgspec.structs.replace(cell, seconds=0.0) == wanted


def test_the_data_has_a_line_for_each_cell() -> None:
    cells = [_cell("a", "one"), _cell("a", "two", "fail", reason='say "why"')]
    value = json.loads(to_json(cells))
    assert value == {"cells": [msgspec.to_builtins(cell) for cell in cells]}
    assert value["cells"][0].keys() >= {"agent", "version", "scenario", "result", "reason", "seconds"}
    assert to_json(cells).count(b"\n") == len(cells) + 2
    assert json.loads(to_json([])) == {"cells": []}


def test_the_columns_are_those_named_once_each_or_all_of_other_makers(
    tmp_path: Path, binaries: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name, path in binaries.items():
        monkeypatch.setenv(name, path)
    assert [column.title for column in build_columns(["codex", "claude", "codex"])] == ["codex", "claude"]
    with pytest.raises(BadInput, match="has no such channel"):
        build_columns(["codex"], channel="telepathy")
    assert build_columns([], channel="telepathy") == []


def test_a_program_that_the_user_names_and_that_is_not_there_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("INSPAN_CODEX_BIN", str(tmp_path / "nowhere"))
    with pytest.raises(AgentMissing, match="INSPAN_CODEX_BIN names"):
        build_columns(["codex"])
    assert list(tmp_path.iterdir()) == []


def _codex(path: str) -> Column:
    program = Program(path=path, version="0.163.0", source="test")
    return Column(agent="codex", channel="", driver=find_driver("codex"), program=program)


@pytest.mark.parametrize(
    ("acts", "reason"),
    [
        ("begin(); say('hello there'); finish()", "ended as ('failed', 'script')"),
        ("begin(); print('a banner'); put(type='new.kind'); finish()", "lines that nobody knows: "),
        ("sys.exit(3)", "ended as ('failed', "),
    ],
)
def test_an_agent_that_misbehaves_makes_a_real_cell_fail(tmp_path: Path, fake: Fake, acts: str, reason: str) -> None:
    """The first says the right words without asking the model."""
    (tmp_path / "cells").mkdir()
    cell = try_cell(tmp_path / "cells", _codex(fake("codex", PRELUDE + acts)), list_scenarios(("answer",))[0])
    assert (cell.result, cell.reason[: len(reason)]) == ("fail", reason)
    assert os.listdir(tmp_path / "cells") == ["cache"]


def test_a_cell_that_takes_too_long_fails_and_nothing_of_it_lives_on(
    tmp_path: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grounds, "_LONGEST_S", 15.0)  # Enough for a run to begin on a machine that is busy.
    (tmp_path / "cells").mkdir()
    path = fake("codex", PRELUDE + "begin(); time.sleep(86400)")
    cell = try_cell(tmp_path / "cells", _codex(path), list_scenarios(("answer",))[0], keep=str(tmp_path / "kept"))
    assert (cell.result, cell.reason) == ("fail", "inspan run took more than 15 s")
    (kept,) = (tmp_path / "kept").glob("codex-answer/state/inspan/projects/*/*/runs/*")
    wait_until(lambda: not processes_of(kept.name), "empty house")


def test_a_refused_run_is_a_failed_cell(tmp_path: Path) -> None:
    cell = try_cell(tmp_path, _codex("/nonexistent/codex"), list_scenarios(("answer",))[0])
    assert cell.result == "fail"
    assert cell.reason.startswith("the run was refused: ")
