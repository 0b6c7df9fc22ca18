"""Which files count, which of them wins, and what is said of each value."""

import os
from pathlib import Path

import pytest

from inspan.config import AgentSettings, Layer, Settings, load
from inspan.config.editor import FileName
from inspan.config.locations import list_files
from inspan.config.settings import LimitSettings, Runtime, Server

from .home import AGENTS, Home


def test_without_any_layer_there_are_the_defaults(home: Home) -> None:
    config = home.load()
    assert (config.settings, dict(config.given)) == (Settings(), {})
    assert config.origin("runtime.default") == Layer("default")


def test_each_layer_wins_over_the_one_before(home: Home) -> None:
    assert home.load().settings.runtime.model == ""
    for name in ("user", "project", "local"):
        home.write(name, f'[runtime]\nmodel = "{name}"\n')
        config = home.load()
        assert config.settings.runtime.model == name
        assert config.origin("runtime.model") == Layer(name, str(home.paths[name]))
    config = home.load({"INSPAN_RUNTIME_MODEL": "variable"})
    assert config.settings.runtime.model == "variable"
    assert config.origin("runtime.model") == Layer("environment", "INSPAN_RUNTIME_MODEL")
    config = home.load({"INSPAN_RUNTIME_MODEL": "variable"}, flags={"runtime.model": "flag"})
    assert config.settings.runtime.model == "flag"
    assert config.origin("runtime.model") == Layer("flag")


def test_tables_are_merged_key_by_key_and_lists_are_replaced(home: Home) -> None:
    home.write(
        "user",
        f"""
        [projects]
        trusted = ["{home.work}"]
        [models]
        fast = "small"
        deep = "large"
        [agents.codex]
        model = "deep"
        options = ["--one", "--two"]
        env = {{ A = "1", B = "2" }}
        """,
    )
    home.write(
        "project",
        """
        [models]
        deep = "larger"
        [agents.codex]
        effort = "high"
        options = ["--three"]
        env = { B = "3" }
        """,
    )
    config = home.load()
    assert config.settings.models == {"fast": "small", "deep": "larger"}
    assert config.settings.agents == {
        "codex": AgentSettings(model="deep", effort="high", options=("--three",), env={"A": "1", "B": "3"})
    }
    assert config.origin("agents.codex.env.A").name == "user"
    assert config.origin("agents.codex.env").name == "project"
    assert config.origin("agents.codex.model").name == "user"


def test_every_key_can_be_set(home: Home) -> None:
    home.write(
        "user",
        """
        [runtime]
        default = "my-agent"
        model = "m"
        mode = "review"
        profile = "clean"
        sandbox = "bwrap"
        effort = "low"
        print_command = "p"
        [models]
        "gpt-5.2" = "x"
        [limits]
        timeout = "1h"
        start_timeout = 5
        idle_timeout = 0.5
        stall_timeout = "off"
        max_turns = 3
        [agents.my-agent]
        model = "n"
        effort = "high"
        program = "~/bin/agent"
        login = true
        key_file = "/keys/one"
        env = { A = "1" }
        models = { fast = "f" }
        options = ["-v"]
        append_system_prompt = "Be\\nbrief."
        system_prompt = "You are."
        [mcp.docs]
        command = "serve"
        args = ["-p", "1"]
        env = { T = "t" }
        [mcp.web]
        url = "https://example.org/mcp"
        headers = { Authorization = "x" }
        """,
    )
    assert home.load().settings == Settings(
        runtime=Runtime(
            default="my-agent",
            model="m",
            mode="review",
            profile="clean",
            sandbox="bwrap",
            effort="low",
            print_command="p",
        ),
        models={"gpt-5.2": "x"},
        limits=LimitSettings(
            timeout_s=3600.0, start_timeout_s=5.0, idle_timeout_s=0.5, stall_timeout_s=None, max_turns=3
        ),
        agents={
            "my-agent": AgentSettings(
                model="n",
                effort="high",
                program=f"{home.root}/bin/agent",
                login=True,
                key_file="/keys/one",
                env={"A": "1"},
                models={"fast": "f"},
                options=("-v",),
                append_system_prompt="Be\nbrief.",
                system_prompt="You are.",
            )
        },
        mcp={
            "docs": Server(command="serve", args=("-p", "1"), env={"T": "t"}),
            "web": Server(url="https://example.org/mcp", headers={"Authorization": "x"}),
        },
    )


def test_flags_may_be_values_of_a_program(home: Home) -> None:
    flags: dict[str, object] = {"limits.timeout": None, "limits.idle_timeout": 2.5, "agents.codex.options": ("-v",)}
    settings = home.load(flags=flags).settings
    assert (settings.limits.timeout_s, settings.limits.idle_timeout_s) == (None, 2.5)
    assert settings.agent("codex").options == ("-v",)


def test_a_flag_that_is_no_key_or_a_table_is_refused(home: Home) -> None:
    assert "Did you mean 'limits.timeout'?" in home.expect_refusal(flags={"limits.timeuot": 1}).next_step
    assert "is a table of keys" in home.expect_refusal(flags={"limits": 1}).message


def test_the_users_file_follows_the_xdg_rules(home: Home, tmp_path: Path) -> None:
    home.env["XDG_CONFIG_HOME"] = str(tmp_path / "elsewhere")
    assert home.load().settings == Settings()
    folder = tmp_path / "elsewhere" / "inspan"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text('[runtime]\nmodel = "there"\n')
    assert home.load().settings.runtime.model == "there"
    home.env["XDG_CONFIG_HOME"] = "elsewhere"
    assert list_files(str(home.work), home.env)[0] == Layer("user", str(home.paths["user"]))


def folder_of_project(cwd: Path, home: Path) -> str:
    return os.path.dirname(list_files(str(cwd), {"HOME": str(home)})[1].path)


def test_the_projects_file_is_found_from_below_and_not_above_the_top_level(home: Home) -> None:
    deep = home.work / "a" / "b"
    deep.mkdir(parents=True)
    (home.root / "inspan.toml").write_text("[runtime]\nmodel = 'outside'\n")
    assert load(str(deep), env=home.env, known_agents=AGENTS).settings.runtime.model == ""
    home.write("project", "[runtime]\nmodel = 'inside'\n")
    assert load(str(deep), env=home.env, known_agents=AGENTS).settings.runtime.model == "inside"
    (home.work / "a" / "inspan.toml").write_text("[runtime]\nmodel = 'nearer'\n")
    assert load(str(deep), env=home.env, known_agents=AGENTS).settings.runtime.model == "nearer"


def test_a_local_file_alone_makes_a_project_too(home: Home) -> None:
    below = home.work / "below"
    below.mkdir()
    home.write("local", "[runtime]\nmodel = 'mine'\n")
    assert load(str(below), env=home.env, known_agents=AGENTS).settings.runtime.model == "mine"


def test_outside_of_git_the_search_ends_at_home(tmp_path: Path) -> None:
    home, plain = tmp_path / "home", tmp_path / "home" / "plain" / "deep"
    plain.mkdir(parents=True)
    (tmp_path / "inspan.toml").touch()
    assert folder_of_project(plain, home) == str(plain)
    (home / "inspan.toml").touch()
    assert folder_of_project(plain, home) == str(home)


def test_outside_of_git_and_home_the_search_ends_at_the_root(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "inspan.toml").touch()
    assert folder_of_project(tmp_path / "a" / "b", tmp_path / "a" / "b" / "home") == str(tmp_path)


def test_a_folder_that_everybody_may_write_to_is_nobodys_project(home: Home) -> None:
    shared, mine = home.root / "shared", home.root / "shared" / "mine"
    mine.mkdir(parents=True)
    shared.chmod(0o1777)
    (shared / ".git").mkdir()
    (shared / "inspan.toml").write_text("[runtime]\nmodel = 'planted'\n")
    for folder in (mine, shared):
        assert load(str(folder), env=home.env, known_agents=AGENTS).settings == Settings()
    assert [layer.name for layer in list_files(str(shared), home.env)] == ["user"]
    assert folder_of_project(mine, home.root) == str(mine)


def test_a_folder_that_is_gone_has_no_project_and_is_no_error(home: Home) -> None:
    home.write("user", "[runtime]\nmodel = 'm'\n")
    gone = str(home.work / "gone" / "deeper")
    assert load(gone, env=home.env, known_agents=AGENTS).settings.runtime.model == "m"


@pytest.mark.parametrize("name", ["user", "project", "local"])
def test_an_empty_file_says_nothing(home: Home, name: FileName) -> None:
    home.write(name, "# nothing yet\n[limits]\n[agents.codex.env]\n")
    assert home.load().settings == Settings()


@pytest.mark.parametrize(
    ("text", "problem", "next_step"),
    [
        ("[mcp.docs]\nargs = ['x']\n", "key 'mcp.docs': has neither command nor url", "Set mcp.docs.command first."),
        (
            "[mcp.docs]\ncommand = 'a'\nurl = 'b'\n",
            "key 'mcp.docs': has command and url, which exclude each other",
            'Leave one of them; mcp.docs.command = "" switches off what a weaker layer says.',
        ),
        (
            "[agents.codex]\nkey_env = 'A'\nkey_cmd = 'b'\n",
            "key 'agents.codex': has key_env and key_cmd, which exclude each other",
            'Leave one of them; agents.codex.key_env = "" switches off what a weaker layer says.',
        ),
    ],
)
def test_keys_that_do_not_go_together_are_refused(home: Home, text: str, problem: str, next_step: str) -> None:
    path = home.write("user", text)
    refused = home.expect_refusal()
    assert (refused.message, refused.next_step) == (f"{problem} (in {path}).", next_step)


def test_a_stronger_layer_can_switch_off_what_a_weaker_one_says(home: Home) -> None:
    home.write("user", "[mcp.docs]\ncommand = 'a'\n")
    assert "exclude each other" in home.expect_refusal({"INSPAN_MCP_DOCS_URL": "https://example.org"}).message
    home.write("user", f"projects.trusted = ['{home.work}']\n[mcp.docs]\ncommand = 'a'\n")
    home.write("local", "[mcp.docs]\ncommand = ''\nurl = 'https://example.org'\n")
    assert home.load().settings.mcp == {"docs": Server(url="https://example.org")}
