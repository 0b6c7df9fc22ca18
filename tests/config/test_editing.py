"""Changing a file: comments and order stay, what is bad changes nothing, and no change is lost."""

import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inspan.config.editor import FileName, assign, remove
from inspan.errors import BadConfig
from tests.soak import rounds

from .home import AGENTS, Home

COMMENTED = """\
# My settings.

[limits]
timeout = "5m"  # long enough
start_timeout = 9

[runtime]  # what I like
default = "codex"
"""


def test_a_new_file_is_made_with_its_folders_for_its_owner_alone(home: Home) -> None:
    assert assign(home.open_editor(), "runtime.default", "codex") == "codex"
    path = home.paths["user"]
    assert path.read_text() == '[runtime]\ndefault = "codex"\n'
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [each.name for each in path.parent.iterdir()] == ["config.toml"]


def test_comments_and_order_stay(home: Home) -> None:
    path = home.write("user", COMMENTED)
    assign(home.open_editor(), "limits.timeout", "20m")
    assign(home.open_editor(), "runtime.model", "m")
    assert path.read_text() == COMMENTED.replace('"5m"', '"20m"') + 'model = "m"\n'
    remove(home.open_editor(), "runtime.model")
    assert path.read_text() == COMMENTED.replace('"5m"', '"20m"')


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("runtime.model", "5", "5"),
        ("runtime.model", "", ""),
        ("limits.timeout", "90", 90),
        ("limits.timeout", "1.5h", "1.5h"),
        ("limits.idle_timeout", "off", "off"),
        ("limits.max_turns", "3", 3),
        ("limits.max_turns", "off", "off"),
        ("agents.codex.login", "yes", True),
        ("agents.codex.options", "-a, --b=c", ["-a", "--b=c"]),
        ("agents.codex.options", '["a,b", "c"]', ["a,b", "c"]),
        ("agents.codex.options", "[]", []),
        ("agents.codex.options", "", []),
        ("agents.codex.env.TOKEN", "a,b", "a,b"),
        ("agents.codex.env", '{ A = "1", B = "2" }', {"A": "1", "B": "2"}),
        ("agents.codex.system_prompt", 'Say "hi".\n\ttwice \\', 'Say "hi".\n\ttwice \\'),
        ("agents.codex.key_file", "~/key", "~/key"),
        ("agents.codex.program", "bin/agent", "{work}/bin/agent"),
        ('models."gpt-5.2"', "x", "x"),
        ("projects.trusted", ".", ["{work}"]),
        ("projects.trusted", "../a,/b/", ["{root}/a", "/b"]),
    ],
)
def test_a_value_is_written_as_its_key_takes_it(home: Home, key: str, text: str, value: object) -> None:
    expected = _in(home, value)
    assert assign(home.open_editor(), key, text) == expected
    written: object = tomllib.loads(home.paths["user"].read_text())
    for name in key.replace('"gpt-5.2"', "gpt-5:2").split("."):
        written = cast(dict[str, object], written)[name.replace(":", ".")]
    assert written == expected
    home.load()


def _in(home: Home, value: object) -> object:
    if isinstance(value, list):
        return [_in(home, each) for each in cast(list[object], value)]
    return value.format(work=home.work, root=home.root) if isinstance(value, str) else value


def test_trust_is_added_to_what_is_trusted_already(home: Home) -> None:
    assign(home.open_editor(), "projects.trusted", "/one")
    assign(home.open_editor(), "projects.trusted", "/two")
    assert assign(home.open_editor(), "projects.trusted", "/one") == ["/one", "/two"]
    assert assign(home.open_editor(), "projects.trusted", '["/three"]') == ["/three"]


def test_a_project_whose_file_is_refused_can_still_be_trusted(home: Home) -> None:
    home.write("project", "agents.codex.program = '/bin/agent'\n")
    home.expect_refusal()
    assign(home.open_editor(), "projects.trusted", ".")
    assert home.load().settings.agent("codex").program == "/bin/agent"


BAD = [
    ("", "x", "key '': is empty."),
    ("runtime.", "x", "key 'runtime.': is not a path"),
    ("runtime.defalt", "codex", "key 'runtime.defalt': is not a known key."),
    ("runtime", "x", "key 'runtime': is a table of keys, not a value."),
    ("agents.cdoex.model", "x", "key 'agents.cdoex': names no agent."),
    ("runtime.default", "cdoex", "runtime.default 'cdoex': unknown agent."),
    ("limits.timeout", "soon", "limits.timeout 'soon': is not a duration."),
    ("limits.timeout", "0", "limits.timeout 0: is not a limit"),
    ("limits.max_turns", "-1", "limits.max_turns '-1': is not a whole number"),
    ("runtime.model", "a\udcff", r"runtime.model 'a\udcff': contains the character"),
    ("runtime.model", "a\x1b", r"runtime.model 'a\x1b': contains the character"),
    ("agents.codex.login", "perhaps", "agents.codex.login 'perhaps': is neither"),
    ("agents.codex.options", "[1]", "agents.codex.options [1]: is not text."),
    ("agents.codex.options", "[", "agents.codex.options '['"),
    ("agents.codex.options", "[]\nx = 1", "agents.codex.options '[]\\nx = 1': is more than one value."),
    ("agents.codex.env", "{ A = 1 }", "agents.codex.env.A '***': is not text"),
    ("mcp.docs.args", "x", "key 'mcp.docs': has neither command nor url"),
]


@pytest.mark.parametrize("before", [None, COMMENTED], ids=["no file", "a file"])
@pytest.mark.parametrize(("key", "text", "problem"), BAD)
def test_a_bad_key_or_value_changes_nothing(home: Home, before: str | None, key: str, text: str, problem: str) -> None:
    path = home.paths["user"]
    if before is not None:
        home.write("user", before)
    with pytest.raises(BadConfig) as refused:
        assign(home.open_editor(), key, text)
    assert refused.value.message.startswith(problem)
    assert refused.value.next_step
    assert (path.read_text() if path.exists() else None) == before
    assert before is not None or not (home.root / ".config").exists()


@pytest.mark.parametrize("file", ["project", "local"])
def test_a_project_gets_no_key_that_would_be_refused_from_it(home: Home, file: FileName) -> None:
    with pytest.raises(BadConfig, match="that you do not trust"):
        assign(home.open_editor(file), "agents.codex.program", "/bin/agent")
    with pytest.raises(BadConfig, match="your own file alone"):
        assign(home.open_editor(file), "projects.trusted", ".")
    assert not home.paths[file].exists()
    home.trust()
    assign(home.open_editor(file), "agents.codex.program", "/bin/agent")
    assert home.load().origin("agents.codex.program").name == file


def test_a_file_that_is_broken_elsewhere_is_not_changed(home: Home) -> None:
    path = home.write("user", "[runtime]\nmodle = 'x'\n")
    with pytest.raises(BadConfig, match=r"key 'runtime\.modle'"):
        assign(home.open_editor(), "runtime.model", "m")
    assert path.read_text() == "[runtime]\nmodle = 'x'\n"


def test_another_file_that_is_broken_does_not_matter(home: Home) -> None:
    home.write("project", "no TOML")
    assign(home.open_editor(), "runtime.model", "m")
    assert "m" in home.paths["user"].read_text()


def test_an_unknown_key_can_be_taken_out(home: Home) -> None:
    path = home.write("user", "[runtime]\nmodle = 'x'\nefort = 'y'\nmodel = 'm'\n")
    remove(home.open_editor(), "runtime.modle")
    remove(home.open_editor(), "runtime.efort")
    assert path.read_text() == "[runtime]\nmodel = 'm'\n"


def test_a_whole_table_can_be_taken_out(home: Home) -> None:
    path = home.write("user", "[mcp.docs]\ncommand = 'x'\nargs = ['y']\n\n[limits]\ntimeout = 5\n")
    with pytest.raises(BadConfig, match="has neither command nor url"):
        remove(home.open_editor(), "mcp.docs.command")
    remove(home.open_editor(), "mcp.docs")
    assert tomllib.loads(path.read_text()).get("mcp", {}) == {}
    assert home.load().settings.limits.timeout_s == 5.0


@pytest.mark.parametrize("key", ["runtime.model", "runtime.zzz", "zzz", "limits.timeout.x", "mcp.docs"])
def test_a_key_that_is_not_there_cannot_be_taken_out(home: Home, key: str) -> None:
    path = home.write("user", COMMENTED)
    with pytest.raises(BadConfig) as refused:
        remove(home.open_editor(), key)
    assert refused.value.message == f"key {key!r}: is not set (in {path})."
    assert path.read_text() == COMMENTED


LAYOUTS = [
    "",
    "# only words\n",
    COMMENTED,
    "runtime.model = 'a' # mine\nlimits.timeout = 5\nagents.codex.model = 'x'\n",
    "runtime = { model = 'a' }\nagents = { codex = { model = 'x' } }\n",
    "[agents.codex.env]\nA = '1'\n\n[runtime]\nmodel = 'a'\n\n[agents.codex]\nmodel = 'm'\n",
    "[agents]\ncodex.model = 'x'\n[agents.scripted]\neffort = 'high'\n[limits]\ntimeout = 5\n",
    "[limits]\r\ntimeout = 5\r\n",
    "[agents.codex]\noptions = [\n  '-a', # first\n  '-b',\n]\n",
]
NEW = [
    ("runtime.model", "new"),
    ("limits.timeout", "7m"),
    ("limits.idle_timeout", "7m"),
    ("agents.codex.model", "new"),
    ("agents.codex.options", "-x"),
    ("agents.codex.env.B", "new"),
    ("agents.scripted.model", "new"),
    ("models.fast", "new"),
    ("mcp.docs.command", "new"),
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=rounds(150))
@given(layout=st.sampled_from(LAYOUTS), changes=st.lists(st.sampled_from(NEW), min_size=1, max_size=5))
def test_whatever_the_layout_a_change_does_what_was_asked_and_nothing_else_or_is_refused(
    home: Home, layout: str, changes: list[tuple[str, str]]
) -> None:
    path = home.write("user", "")
    path.write_bytes(layout.encode())
    wanted = {key: given.value for key, given in home.load().given.items()}
    for key, text in changes:
        before = path.read_bytes()
        try:
            assign(home.open_editor(), key, text)
        except BadConfig as refused:
            assert "cannot be changed without harm" in refused.message
            assert path.read_bytes() == before
        else:
            now = home.load().given
            wanted[tuple(key.split("."))] = now[tuple(key.split("."))].value
            assert {key: given.value for key, given in now.items()} == wanted


_ADD_ALIAS = f"""
import sys
from inspan.config.editor import assign, open_editor
home, name = sys.argv[1:]
for number in range(5):
    editor = open_editor("user", cwd=home, env={{"HOME": home}}, known_agents={AGENTS})
    assign(editor, f"models.{{name}}{{number}}", "m")
"""


def test_changes_at_the_same_time_are_all_kept(home: Home) -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", _ADD_ALIAS, str(home.root), name]) for name in ("a", "b", "c", "d")
    ]
    assert [process.wait(timeout=240) for process in started] == [0, 0, 0, 0]
    assert len(home.load().settings.models) == 20


def test_in_a_folder_that_everybody_may_write_to_there_is_no_project_to_change(home: Home, tmp_path: Path) -> None:
    home.work = tmp_path / "shared"
    home.work.mkdir()
    home.work.chmod(0o1777)
    with pytest.raises(BadConfig, match="everybody may write here"):
        home.open_editor("project")
