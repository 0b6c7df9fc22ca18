"""Whose settings an agent obeys: in the profile `clean` nobody's, in the profile `user` all of the user's."""

import json
from pathlib import Path

import pytest

from tests.cli_env import CliEnv
from tests.gateway.scripted_gateway import ScriptedGateway

from .conversation import Conversation, build_turn_scenario
from .hostile_settings import HostileSettings
from .planted_settings import LOGINS, MEMORY, FileWatch, PlantedSettings
from .styles import CLAUDE, CODE_MODE, Style, each_agent, each_style
from .test_direct import settings

# Every planted word begins with it.
PLANTED = "planted-"


@each_agent
def test_the_profile_clean_reads_and_changes_nothing_of_the_users(cli_env: CliEnv, style: Style) -> None:
    _check_clean(cli_env, style)


@each_agent
def test_the_profile_clean_reads_and_changes_nothing_of_an_ordinary_users(user_cli_env: CliEnv, style: Style) -> None:
    _check_clean(user_cli_env, style)


@each_style
def test_the_profile_clean_obeys_nothing_of_the_projects_but_its_instructions(cli_env: CliEnv, style: Style) -> None:
    hostile = HostileSettings(cli_env, reachable=True)
    hostile.plant_in_repository()
    for name in ("CLAUDE.md", "AGENTS.md"):
        (cli_env.work / name).write_text(f"Remember the {MEMORY}.\n")
    talk = Conversation(cli_env, style.agent, *style.arguments)
    first = talk.say("alpha-word", holds=[MEMORY])
    talk.say("beta-word", "--resume", first.run_id, holds=["re:alpha-word", MEMORY])
    assert hostile.marks == []


@each_agent
def test_the_profile_clean_is_not_led_astray_by_variables(cli_env: CliEnv, style: Style) -> None:
    planted = PlantedSettings(cli_env, logins=False)
    names = {"CLAUDE_CONFIG_DIR": ".claude", "CODEX_HOME": ".codex"}
    env = {name: str(planted.home / folder) for name, folder in names.items()}
    with FileWatch(planted.home) as sentry:
        Conversation(cli_env, style.agent).say("alpha-word", lacks=[PLANTED], env=env)
    assert sentry.touched == []


def test_the_profile_clean_shows_no_skills_of_the_users(cli_env: CliEnv) -> None:
    skill = Path(cli_env.env["HOME"]) / ".agents" / "skills" / "planted" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: planted\ndescription: planted-skill-word\n---\nDo it.\n")
    Conversation(cli_env, CODE_MODE.agent).say("alpha-word", lacks=[PLANTED])


def test_the_profile_clean_does_not_look_where_the_vendors_other_programs_log_in(user_cli_env: CliEnv) -> None:
    folder = Path(user_cli_env.env["HOME"]) / ".config" / "anthropic"
    folder.mkdir(parents=True)
    (folder / "active_config").write_text("default")
    with FileWatch(folder) as sentry:
        Conversation(user_cli_env, CLAUDE.agent).say("alpha-word")
    assert sentry.touched == []


@each_agent
def test_sessions_of_the_profile_clean_have_nothing_in_common(cli_env: CliEnv, style: Style) -> None:
    talk = Conversation(cli_env, style.agent)
    first, second = talk.say("alpha-word"), talk.say("beta-word")
    folders = [cli_env.state / "sessions" / turn.run_id / "config" for turn in (first, second)]
    assert all(any(folder.rglob("*.jsonl")) for folder in folders)
    for folder, foreign in zip(folders, (b"beta-word", b"alpha-word"), strict=True):
        assert [path for path in folder.rglob("*") if path.is_file() and foreign in path.read_bytes()] == []


@each_style
def test_the_profile_user_obeys_what_the_user_has_set_up(cli_env: CliEnv, style: Style) -> None:
    _check_user(cli_env, style)


@each_agent
def test_the_profile_user_obeys_what_an_ordinary_user_has_set_up(user_cli_env: CliEnv, style: Style) -> None:
    _check_user(user_cli_env, style)


@pytest.mark.parametrize("gateway", [False, True], ids=["direct", "gateway"])
@each_agent
def test_a_config_folder_that_the_user_has_named_is_the_users(cli_env: CliEnv, style: Style, gateway: bool) -> None:
    home, scenario = Path(cli_env.env["HOME"]), build_turn_scenario("re:alpha-word", holds=[MEMORY])
    variable, memory = {
        "claude": ("CLAUDE_CONFIG_DIR", "CLAUDE.md"),
        "codex": ("CODEX_HOME", "AGENTS.md"),
    }[style.agent]
    with ScriptedGateway(scenario, cwd=str(cli_env.work)) as provider:
        own = settings(cli_env, style.agent, provider.port)
        named = home / "elsewhere"
        named.mkdir()
        for path in home.glob(f".{style.agent}/*"):
            path.rename(named / path.name)
        (named / memory).write_text(f"Remember the {MEMORY}.\n")
        model = ("--model-from", cli_env.scenario(scenario)) if gateway else ()
        env = {**own, variable: str(named)}
        done = cli_env.inspan("run", "alpha-word", "-a", style.agent, "--profile", "user", *model, env=env)
    assert (done.returncode, done.stdout) == (0, "re:alpha-word\n"), done.stderr
    assert any("alpha-word" in path.read_text() for path in named.rglob("*-*.jsonl"))


def _check_clean(cli_env: CliEnv, style: Style) -> None:
    planted = PlantedSettings(cli_env, logins=True)
    before = planted.listing()
    talk = Conversation(cli_env, style.agent)
    with FileWatch(planted.home) as sentry:
        first = talk.say("alpha-word", lacks=[PLANTED])
        talk.say("beta-word", "--resume", first.run_id, holds=["re:alpha-word"], lacks=[PLANTED])
    assert planted.listing() == before
    assert not planted.mark.exists()
    # What inspan keeps out of its logs it has to know.
    assert set(sentry.touched) <= {str(planted.home / path) for path in LOGINS}


def _check_user(cli_env: CliEnv, style: Style) -> None:
    planted = PlantedSettings(cli_env, logins=False)
    own = {name: text for name, text in planted.listing().items() if name != ".claude.json"}
    calls = f"[[call]]\nexpect_anywhere = {json.dumps([MEMORY])}\nuse = {{tool = 'mcp__planted__echo'}}\n"
    talk = Conversation(cli_env, style.agent, *style.arguments, profile="user")
    with FileWatch(planted.home) as sentry:
        turn = talk.say("alpha-word", scenario=calls + "[[call]]\nexpect = 'planted-echo-word'\nsay = 'heard'\n")
    assert [event["text"] for event in turn.events if event["kind"] == "text_said"] == ["heard"]
    memory = {"claude": ".claude/CLAUDE.md", "codex": ".codex/AGENTS.md"}[style.agent]
    assert str(planted.home / memory) in sentry.touched
    # Its own notes are its own matter, and so is this file, in which Claude Code keeps what it knows of projects.
    assert own.items() <= planted.listing().items()
    assert planted.mark.exists() == (style.agent == "claude")
