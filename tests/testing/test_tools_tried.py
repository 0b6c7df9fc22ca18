"""What a mode takes from an agent is tried on real programs: no name of a tool, and no silence, makes a cell pass."""

from pathlib import Path

import pytest

from inspan.agents.program import Program
from inspan.agents.registry import find_driver
from inspan.testing.matrix.cell import Cell
from inspan.testing.matrix.runner import Column, try_cell
from inspan.testing.matrix.scenario import list_scenarios
from tests.running.fake_agent import Fake

from .fake_programs import ACP, CODEX

_FNORD = "offers = [function('fnord', 'command')]\n"
_RUNS = "def use(name, given): return shell(given['command'])\n"
_REFUSES = "def use(name, given): return 'this tool is disabled'\n"
_IGNORES = "def use(name, given): return None\n"
_READS = """
def use(name, given):
    return shell(given["command"]) if given["command"].startswith("cat ") else "not allowed: " + given["command"]
"""


def _try_tools(root: Path, path: str, mode: str, *, agent: str = "codex") -> Cell:
    (root / "cells").mkdir()
    name = agent if agent == "codex" else f"acp:{path}"
    column = Column(
        agent=name, channel="", driver=find_driver(name), program=Program(path=path, version="0.163.0", source="test")
    )
    return try_cell(root / "cells", column, list_scenarios((mode,))[0])


@pytest.mark.parametrize(
    ("acts", "reason"),
    [
        (_FNORD + _RUNS, "a tool has changed files: by-a-tool-on-trial-1.txt"),
        (
            "offers = [function('reader', 'words')]\ndef use(name, given): return shell(given['words'])\n",
            "a tool has changed files: by-a-tool-on-trial-1.txt",
        ),
        (
            _FNORD + "def use(name, given): return shell('cd /proc; ' + given['command'].split(';')[1])\n",
            "a command ran: fnord",
        ),
        (_FNORD + _IGNORES, "nothing tells what became of the calls of fnord"),
        (
            "offers = [function('peek', 'at')]\ndef use(name, given): return 'what lies there'\n",
            "tools were not refused: peek (what lies there)",
        ),
        ("offers = [{'type': 'local_shell'}]\n" + _RUNS, "tools are on offer that could not be called: local_shell"),
        ("offers = [{'type': 'web_search'}]\n" + _RUNS, "tools are on offer that could not be called: web_search"),
    ],
)
def test_a_completion_with_a_tool_that_works_fails(tmp_path: Path, fake: Fake, acts: str, reason: str) -> None:
    cell = _try_tools(tmp_path, fake("codex", CODEX + acts + "work()"), "complete")
    assert (cell.result, cell.reason) == ("fail", reason)


@pytest.mark.parametrize(
    ("acts", "note"),
    [
        ("offers = []\n", ""),
        (_FNORD + _REFUSES, "1 on offer, each was called and none was carried out: fnord."),
    ],
)
def test_a_completion_holds_without_tools_or_with_tools_that_are_all_refused(
    tmp_path: Path, fake: Fake, acts: str, note: str
) -> None:
    cell = _try_tools(tmp_path, fake("codex", CODEX + acts + "work()"), "complete")
    assert (cell.result, cell.reason, cell.note) == ("pass", "", note)


@pytest.mark.parametrize(
    ("acts", "reason"),
    [
        (_FNORD + _RUNS, "files: ["),
        (
            "prompt += ' original words'\noffers = [function('fnord', 'words')]\n"
            "def use(name, given): return shell(given['words'])\n",
            "files: ['by-a-tool-on-trial-1.txt', 'kept.txt'], and ['kept.txt'] was wanted",
        ),
        (_FNORD + _IGNORES, "ended as ('failed', 'script') (Call 9 expected 'original words' anywhere"),
        ("prompt += ' original words'\n" + _FNORD + _IGNORES, "tools that were called in vain: ['fnord', "),
        (
            "prompt += ' original words'\noffers = [{'type': 'local_shell'}, function('read', 'path')]\n" + _REFUSES,
            "tools on offer that were not tried: ['local_shell']",
        ),
        (
            "prompt += ' original words'\noffers = [function('scribble', 'file', 'text')]\n"
            "def use(name, given): open(given['file'], 'w').write(given['text']); return 'written'\n",
            "files: ['by-a-tool-on-trial-1.txt', 'by-tool.txt', 'kept.txt'], and ['kept.txt'] was wanted",
        ),
    ],
)
def test_a_review_fails_whose_tools_write_or_were_not_tried(tmp_path: Path, fake: Fake, acts: str, reason: str) -> None:
    cell = _try_tools(tmp_path, fake("codex", CODEX + acts + "work()"), "review")
    assert (cell.result, cell.reason[: len(reason)]) == ("fail", reason)


def test_a_review_holds_where_a_shell_of_any_name_only_reads(tmp_path: Path, fake: Fake) -> None:
    cell = _try_tools(tmp_path, fake("codex", CODEX + _FNORD + _READS + "work()"), "review")
    assert (cell.result, cell.reason, cell.note, cell.skipped) == ("pass", "", "", [])


def test_a_review_without_a_shell_names_what_was_on_offer_and_every_step_it_skipped(tmp_path: Path, fake: Fake) -> None:
    acts = "offers = [function('view', 'at')]\nprompt += ' original words'\n"
    cell = _try_tools(tmp_path, fake("codex", CODEX + acts + "work()"), "review")
    assert (cell.result, cell.note) == ("pass", "No tool on offer runs or writes anything: view.")
    assert cell.skipped == [
        f"step {step}: no tool on offer can {what}; offered: view"
        for step, what in enumerate(
            [
                "run 'cat kept.txt'",
                "run 'echo no > by-shell.txt'",
                "write 'by-tool.txt'",
                "edit 'kept.txt'",
                "run \"python3 -c 'open(chr(110), chr(119))'\"",
                "run 'true $(touch by-words.txt)'",
                "run 'true `touch by-quotes.txt`'",
            ],
            start=1,
        )
    ]


@pytest.mark.parametrize(
    ("acts", "result", "said"),
    [
        (
            _FNORD + _RUNS,
            "asked",
            "It is told to use no tools, and uses them all the same: a tool has changed files: ",
        ),
        (_FNORD + _REFUSES, "pass", "1 on offer, each was called and none was carried out: fnord."),
        ("offers = []\n", "pass", ""),
    ],
)
def test_a_completion_of_an_agent_that_is_only_told_so(
    tmp_path: Path, fake: Fake, acts: str, result: str, said: str
) -> None:
    cell = _try_tools(tmp_path, fake("agent", ACP + acts + "work()"), "complete", agent="acp")
    assert (cell.result, (cell.reason or cell.note)[: len(said)]) == (result, said)
