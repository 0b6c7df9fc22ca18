"""Pages that follow from the code are up to date, and tables of facts are complete."""

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast, get_args

import msgspec
import pytest

from inspan.engine.registry import drivers
from inspan.protocol.events import Event

from .pages import ROOT, shown

GENERATED = cast(Callable[[], dict[Path, str]], runpy.run_path(str(ROOT / "docs" / "generate.py"))["pages"])()


@pytest.mark.parametrize("page", GENERATED, ids=shown)
def test_a_generated_page_is_up_to_date(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == GENERATED[page], "run `.venv/bin/python docs/generate.py`"


def test_the_event_table_lists_exactly_the_events_and_their_fields() -> None:
    text = (ROOT / "docs" / "concepts" / "events.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", text, re.MULTILINE)
    listed = {kind: re.findall(r"`(\w+)`", fields) for kind, fields in rows}
    infos: list[Any] = [msgspec.inspect.type_info(event) for event in get_args(Event)]
    assert listed == {info.tag: [field.name for field in info.fields] for info in infos}
    assert len(rows) == len(listed)


def test_every_variable_that_the_code_reads_is_on_the_page() -> None:
    page = (ROOT / "docs" / "reference" / "environment-variables.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([A-Z][A-Z0-9_]+)`", page))
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "inspan").rglob("*.py"))
    used = set(re.findall(r"\"((?:INSPAN|JRUN|XDG)_[A-Z_]+|NO_COLOR|FORCE_COLOR|TASK_FOLDER|RUN_FOLDER)\"", source))
    used |= {driver.program_variable for driver in drivers() if not (driver.hosted or driver.family)}
    used |= {driver.config_variable for driver in drivers()} - {""}
    assert used <= named
