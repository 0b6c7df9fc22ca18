"""Pages that follow from the code are up to date, and tables of facts are complete."""

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast, get_args

import msgspec
import pytest
from python_page import list_documented

import inspan
from inspan.agents.registry import load_drivers
from inspan.contracts.driver import Capabilities
from inspan.protocol.events import Event

from .pages import ROOT, relative_name

SCRIPT = runpy.run_path(str(ROOT / "docs" / "generate.py"))
GENERATED = cast(Callable[[], dict[Path, str]], SCRIPT["pages"])()


@pytest.mark.parametrize("page", GENERATED, ids=relative_name)
def test_a_generated_page_is_up_to_date(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == GENERATED[page], "run `.venv/bin/python docs/generate.py`"


def test_the_event_table_lists_exactly_the_events_and_their_fields() -> None:
    text = (ROOT / "docs" / "concepts" / "events.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", text, re.MULTILINE)
    listed = {kind: re.findall(r"`(\w+)`", fields) for kind, fields in rows}
    infos: list[Any] = [msgspec.inspect.type_info(event) for event in get_args(Event)]
    assert listed == {info.tag: [field.name for field in info.fields] for info in infos}
    assert len(rows) == len(listed)


def test_every_capability_stands_in_exactly_one_table() -> None:
    tables = cast(dict[str, dict[str, str]], SCRIPT["_CAPABILITIES"])
    listed = [field for columns in tables.values() for field in columns]
    assert sorted(listed) == sorted(set(Capabilities.__struct_fields__) - {"notes"})


def test_what_holds_an_agent_is_told_of_every_one() -> None:
    text = (ROOT / "docs" / "concepts" / "agents.md").read_text(encoding="utf-8")
    table = text.partition("## Who holds it")[2].partition("\n## ")[0]
    told = {name for row in re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE) for name in row.split(", ")}
    named = {driver.name for driver in load_drivers() if not (driver.built_in or driver.family)}
    assert told - {"agent"} == named | {f"any by `{driver.name}`" for driver in load_drivers() if driver.family}


def test_every_variable_that_the_code_reads_is_on_the_page() -> None:
    page = (ROOT / "docs" / "reference" / "environment-variables.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([A-Z][A-Z0-9_]+)`", page))
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "inspan").rglob("*.py"))
    used = set(re.findall(r"\"((?:INSPAN|JRUN|XDG)_[A-Z_]+|NO_COLOR|FORCE_COLOR|TASK_FOLDER|RUN_FOLDER)\"", source))
    used |= {driver.program_variable for driver in load_drivers() if not (driver.program.hosted or driver.family)}
    used |= {driver.state.config_variable for driver in load_drivers()} - {""}
    assert used <= named


def test_every_public_name_stands_on_the_page_of_python_once() -> None:
    assert sorted(list_documented()) == sorted(inspan.__all__)
