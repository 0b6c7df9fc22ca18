"""Agents of the user's own in the configuration: by which keys they come into being, and what is refused."""

import pytest

from inspan.config.editor import assign, remove
from inspan.config.listing import list_rows
from inspan.errors import BadConfig

from .home import Home

MINE = '[agents.mine]\ndialect = "codex"\ncommand = "my-codex -q"\nflags = ["--x"]\nmodel = "m"\n'


def test_a_table_with_a_dialect_is_an_agent(home: Home) -> None:
    home.write("user", f'{MINE}[runtime]\ndefault = "mine"\n')
    settings = home.load({"INSPAN_AGENTS_MINE_EFFORT": "high"}).settings
    own = settings.agent("mine")
    assert (own.dialect, own.command, own.flags) == ("codex", "my-codex -q", ("--x",))
    assert (own.model, own.effort, settings.runtime.default) == ("m", "high", "mine")


def test_another_file_may_say_more_of_it(home: Home) -> None:
    home.write("user", MINE)
    home.write("local", '[agents.mine]\nmodel = "other"\n')
    assert home.load().settings.agent("mine").model == "other"


@pytest.mark.parametrize(
    ("text", "told", "next_step"),
    [
        (
            '[agents.mine]\nmodel = "m"\n',
            "key 'agents.mine': names no agent",
            "Known agents: codex, my-agent, scripted.",
        ),
        (
            '[agents.mine]\ndialect = "cdoex"\n',
            "agents.mine.dialect 'cdoex': unknown agent",
            "Did you mean 'codex'? Known agents: codex, my-agent, scripted, chat.",
        ),
        (
            f'{MINE}[agents.other]\ndialect = "mine"\n',
            "agents.other.dialect 'mine': unknown agent",
            "Known agents: codex, my-agent, scripted, chat.",
        ),
        (
            '[agents.codex]\ndialect = "scripted"\n',
            "key 'agents.codex': is an agent already, and stays what it is",
            "Choose another name for your own.",
        ),
        (
            '[agents.codex]\ncommand = "my-codex"\n',
            "key 'agents.codex.command': belongs to an agent of your own, and this is one of inspan's",
            "Name its program with agents.codex.program, and arguments with options.",
        ),
        (
            '[agents."My Agent"]\ndialect = "codex"\n',
            "key 'agents.\"My Agent\"': is not a name for an agent",
            "Use small letters, digits and - between them.",
        ),
        (
            '[agents."a:b"]\ndialect = "codex"\n',
            "key 'agents.\"a:b\"': is not a name for an agent",
            "Use small letters, digits and - between them.",
        ),
        (f'{MINE}dialect_ = "x"\n', "key 'agents.mine.dialect_': is not a known key", "Did you mean"),
        (
            f"{MINE}[agents.mined]\n[agents.mined.env]\nA = '1'\n",
            "key 'agents.mined': names no agent",
            "Did you mean 'agents.mine'?",
        ),
    ],
)
def test_what_makes_no_agent_is_refused(home: Home, text: str, told: str, next_step: str) -> None:
    path = home.write("user", text)
    refused = home.expect_refusal()
    assert refused.message == f"{told} (in {path})."
    assert refused.next_step.startswith(next_step)


def test_a_stronger_layer_can_take_it_away(home: Home) -> None:
    home.write("user", MINE)
    home.write("local", '[agents.mine]\ndialect = ""\n')
    home.trust()
    home.write("user", f'{MINE}[projects]\ntrusted = ["{home.work}"]\n')
    assert home.expect_refusal().message.startswith("key 'agents.mine': names no agent")


@pytest.mark.parametrize("key", ["dialect = 'codex'", "command = 'rm -rf /'", "flags = ['-v']"])
def test_a_project_that_is_not_trusted_brings_no_agent(home: Home, key: str) -> None:
    home.write("user", MINE)
    home.write("project", f"[agents.mine]\n{key}\n")
    assert "is not taken from a project that you do not trust" in home.expect_refusal().message


def test_it_is_made_and_changed_by_single_keys(home: Home) -> None:
    assign(home.open_editor(), "agents.mine.dialect", "codex")
    assign(home.open_editor(), "agents.mine.command", "my-codex")
    assign(home.open_editor(), "agents.mine.flags", "-q,-v")
    assign(home.open_editor(), "runtime.default", "mine")
    written = home.paths["user"].read_text()
    assert written == (
        '[agents.mine]\ndialect = "codex"\ncommand = "my-codex"\nflags = ["-q", "-v"]\n\n[runtime]\ndefault = "mine"\n'
    )
    assert {row.key: row.value for row in list_rows(home.load(), "agents.mine.flags")} == {
        "agents.mine.flags": ["-q", "-v"]
    }
    remove(home.open_editor(), "runtime.default")
    remove(home.open_editor(), "agents.mine")
    assert home.load().settings.agents == {}


@pytest.mark.parametrize(("key", "value"), [("agents.mine.model", "m"), ("agents.codex.dialect", "scripted")])
def test_a_key_that_makes_no_agent_changes_nothing(home: Home, key: str, value: str) -> None:
    with pytest.raises(BadConfig, match=r"names no agent|is an agent already"):
        assign(home.open_editor(), key, value)
    assert not home.paths["user"].exists()
