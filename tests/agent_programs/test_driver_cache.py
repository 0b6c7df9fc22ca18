"""What a run knows of the agents that it does not use: kept in the cache folder, and never believed for too long."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import inspan
from inspan.agents import driver_cache as catalogue
from inspan.agents import modules, registry
from inspan.agents.driver_cache import agent_summaries, summarize_agent

# Whether all drivers were loaded for it, and the names and variables that it gave.
_ASKS = """
import json, sys
from inspan.agents.driver_cache import agent_summaries
found = [[each.name, list(each.variables)] for each in agent_summaries()]
print(json.dumps(["inspan.drivers.claude" in sys.modules, found]))
"""
_NEWCOMER = """
import msgspec
from .scripted import DRIVER as other
access = msgspec.structs.replace(other.access, variables=("{prefix}",))
DRIVER = msgspec.structs.replace(other, name="newcomer", built_in=False, access=access)
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}


@pytest.fixture(autouse=True)
def clear_cache() -> None:
    """A process looks once at each cache folder."""
    catalogue._load.cache_clear()  # pyright: ignore[reportPrivateUsage]  as a new process would begin


def _all() -> tuple[catalogue.AgentSummary, ...]:
    return tuple(map(summarize_agent, registry.load_drivers()))


def _file(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "cache" / "inspan").iterdir()
    return found


def _reload(env: dict[str, str]) -> tuple[catalogue.AgentSummary, ...]:
    catalogue._load.cache_clear()  # pyright: ignore[reportPrivateUsage]  as above
    return agent_summaries(env)


def test_it_is_every_driver_as_the_others_see_it(env: dict[str, str], tmp_path: Path) -> None:
    assert agent_summaries(env) == _all()
    assert [each["name"] for each in json.loads(_file(tmp_path).read_bytes())] == list(modules.agent_names())
    assert _reload(env) == _all()


@pytest.mark.parametrize(
    "content", [b"", b"[", b"[]", b"null", b'[{"name": "codex"}]', b'[{"title": 1}]', b"\xff\xfe", b"[" * 100_000]
)
def test_a_damaged_cache_is_made_anew(env: dict[str, str], tmp_path: Path, content: bytes) -> None:
    agent_summaries(env)
    _file(tmp_path).write_bytes(content)
    assert _reload(env) == _all()
    assert json.loads(_file(tmp_path).read_bytes())[0]["name"] == modules.agent_names()[0]


def test_a_cache_that_cannot_be_written_is_done_without(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert agent_summaries(env) == _all()
    assert (tmp_path / "cache").read_text() == "a file"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of inspan, to which a driver can be added."""
    target = tmp_path / "copy" / "inspan"
    shutil.copytree(Path(inspan.__file__).parent, target, ignore=shutil.ignore_patterns("__pycache__"))
    return target


def _run_copy(copy: Path, env: dict[str, str]) -> tuple[bool, dict[str, list[str]]]:
    given = {**env, "PATH": os.environ["PATH"], "PYTHONPATH": str(copy.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", _ASKS], env=given, capture_output=True, text=True, check=True)
    loaded, found = json.loads(done.stdout)
    return loaded, dict(found)


def test_a_driver_that_is_added_or_changed_is_noticed(env: dict[str, str], copy: Path) -> None:
    assert _run_copy(copy, env)[0]
    before = _run_copy(copy, env)
    assert not before[0]
    path = copy / "drivers" / "newcomer.py"
    path.write_text(_NEWCOMER.format(prefix="NEW_"))
    assert _run_copy(copy, env) == (True, {**before[1], "newcomer": ["NEW_"]})
    path.write_text(_NEWCOMER.format(prefix="OLD_"))
    assert _run_copy(copy, env)[1]["newcomer"] == ["OLD_"]
    path.unlink()
    path.with_suffix("").mkdir()
    (path.with_suffix("") / "__init__.py").write_text("from .inner.deep import DRIVER")
    (path.with_suffix("") / "inner").mkdir()
    deep = path.with_suffix("") / "inner" / "deep.py"
    deep.write_text(_NEWCOMER.format(prefix="ONE_").replace(".scripted", "...scripted"))
    assert _run_copy(copy, env)[1]["newcomer"] == ["ONE_"]
    deep.write_text(deep.read_text().replace("ONE_", "SECOND_"))
    assert _run_copy(copy, env)[1]["newcomer"] == ["SECOND_"]


def test_many_processes_at_once_make_one_cache(env: dict[str, str], tmp_path: Path, copy: Path) -> None:
    given = {**env, "PATH": os.environ["PATH"], "PYTHONPATH": str(copy.parent)}
    started = [
        subprocess.Popen([sys.executable, "-c", _ASKS], env=given, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    said = [process.communicate(timeout=240)[0] for process in started]
    assert {json.dumps(json.loads(each)[1]) for each in said} == {json.dumps(json.loads(said[0])[1])}
    assert _file(tmp_path).name.endswith(".json")
