"""Whose settings an agent obeys: in the profile `clean` nobody's, in the profile `user` all of the user's."""

import json
from pathlib import Path

import pytest

from tests.gateway.stage import Stage
from tests.house import House

from .conversation import Conversation, scene
from .planted import LOGINS, MEMORY, Planted, Sentry
from .styles import CLAUDE, CODE_MODE, Style, each_agent, each_style
from .test_direct import settings

# Every planted word begins with it.
PLANTED = "planted-"


@each_agent
def test_the_profile_clean_reads_and_changes_nothing_of_the_users(house: House, style: Style) -> None:
    _prove_clean(house, style)


@each_agent
def test_the_profile_clean_reads_and_changes_nothing_of_an_ordinary_users(user_house: House, style: Style) -> None:
    _prove_clean(user_house, style)


@each_agent
def test_the_profile_clean_is_not_led_astray_by_variables(house: House, style: Style) -> None:
    planted = Planted(house, logins=False)
    names = {"CLAUDE_CONFIG_DIR": ".claude", "CODEX_HOME": ".codex"}
    env = {name: str(planted.home / folder) for name, folder in names.items()}
    with Sentry(planted.home) as sentry:
        Conversation(house, style.agent).say("alpha-word", lacks=[PLANTED], env=env)
    assert sentry.touched == []


def test_the_profile_clean_shows_no_skills_of_the_users(house: House) -> None:
    skill = Path(house.env["HOME"]) / ".agents" / "skills" / "planted" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: planted\ndescription: planted-skill-word\n---\nDo it.\n")
    Conversation(house, CODE_MODE.agent).say("alpha-word", lacks=[PLANTED])


def test_the_profile_clean_does_not_look_where_the_vendors_other_programs_log_in(user_house: House) -> None:
    folder = Path(user_house.env["HOME"]) / ".config" / "anthropic"
    folder.mkdir(parents=True)
    (folder / "active_config").write_text("default")
    with Sentry(folder) as sentry:
        Conversation(user_house, CLAUDE.agent).say("alpha-word")
    assert sentry.touched == []


@each_agent
def test_sessions_of_the_profile_clean_have_nothing_in_common(house: House, style: Style) -> None:
    talk = Conversation(house, style.agent)
    first, second = talk.say("alpha-word"), talk.say("beta-word")
    folders = [house.state / "sessions" / turn.run_id / "config" for turn in (first, second)]
    assert all(any(folder.rglob("*.jsonl")) for folder in folders)
    for folder, foreign in zip(folders, (b"beta-word", b"alpha-word"), strict=True):
        assert [path for path in folder.rglob("*") if path.is_file() and foreign in path.read_bytes()] == []


@each_style
def test_the_profile_user_obeys_what_the_user_has_set_up(house: House, style: Style) -> None:
    _prove_user(house, style)


@each_agent
def test_the_profile_user_obeys_what_an_ordinary_user_has_set_up(user_house: House, style: Style) -> None:
    _prove_user(user_house, style)


@pytest.mark.parametrize("gateway", [False, True], ids=["direct", "gateway"])
@each_agent
def test_a_config_folder_that_the_user_has_named_is_the_users(house: House, style: Style, gateway: bool) -> None:
    home, scenario = Path(house.env["HOME"]), scene("re:alpha-word", holds=[MEMORY])
    variable, memory = {
        "claude": ("CLAUDE_CONFIG_DIR", "CLAUDE.md"),
        "codex": ("CODEX_HOME", "AGENTS.md"),
    }[style.agent]
    with Stage(scenario, cwd=str(house.work)) as provider:
        own = settings(house, style.agent, provider.port)
        named = home / "elsewhere"
        named.mkdir()
        for path in home.glob(f".{style.agent}/*"):
            path.rename(named / path.name)
        (named / memory).write_text(f"Remember the {MEMORY}.\n")
        model = ("--model-from", house.scenario(scenario)) if gateway else ()
        env = {**own, variable: str(named)}
        done = house.inspan("run", "alpha-word", "-a", style.agent, "--profile", "user", *model, env=env)
    assert (done.returncode, done.stdout) == (0, "re:alpha-word\n"), done.stderr
    assert any("alpha-word" in path.read_text() for path in named.rglob("*-*.jsonl"))


def _prove_clean(house: House, style: Style) -> None:
    planted = Planted(house, logins=True)
    before = planted.listing()
    talk = Conversation(house, style.agent)
    with Sentry(planted.home) as sentry:
        first = talk.say("alpha-word", lacks=[PLANTED])
        talk.say("beta-word", "--resume", first.run_id, holds=["re:alpha-word"], lacks=[PLANTED])
    assert planted.listing() == before
    assert not planted.mark.exists()
    # What inspan keeps out of its logs it has to know.
    assert set(sentry.touched) <= {str(planted.home / path) for path in LOGINS}


def _prove_user(house: House, style: Style) -> None:
    planted = Planted(house, logins=False)
    own = {name: text for name, text in planted.listing().items() if name != ".claude.json"}
    calls = f"[[call]]\nexpect_anywhere = {json.dumps([MEMORY])}\nuse = {{tool = 'mcp__planted__echo'}}\n"
    talk = Conversation(house, style.agent, *style.arguments, profile="user")
    with Sentry(planted.home) as sentry:
        turn = talk.say("alpha-word", scenario=calls + "[[call]]\nexpect = 'planted-echo-word'\nsay = 'heard'\n")
    assert [event["text"] for event in turn.events if event["kind"] == "text_said"] == ["heard"]
    memory = {"claude": ".claude/CLAUDE.md", "codex": ".codex/AGENTS.md"}[style.agent]
    assert str(planted.home / memory) in sentry.touched
    # Its own notes are its own matter, and so is this file, in which Claude Code keeps what it knows of projects.
    assert own.items() <= planted.listing().items()
    assert planted.mark.exists() == (style.agent == "claude")
