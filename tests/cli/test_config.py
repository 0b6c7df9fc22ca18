"""`inspan config`: what counts, where it comes from, and changing it."""

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from inspan.agents.registry import all_agent_names
from tests.cli_env import CliEnv

from .refusal import expect_refusal

SECRET = "plum-4711-quince"


def user_file(cli_env: CliEnv) -> Path:
    return cli_env.root / "home" / ".config" / "inspan" / "config.toml"


def write(cli_env: CliEnv, text: str) -> Path:
    path = user_file(cli_env)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def run_config(cli_env: CliEnv, *arguments: str, env: dict[str, str] | None = None) -> str:
    done = cli_env.inspan("config", *arguments, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def run_config_json(cli_env: CliEnv, *arguments: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(run_config(cli_env, *arguments, "--json", env=env))
    assert value.pop("schema") == 1
    return value


def test_a_value_that_was_set_is_the_one_that_counts(cli_env: CliEnv) -> None:
    assert run_config(cli_env, "get", "limits.timeout") == "10m\n"
    assert run_config(cli_env, "set", "limits.timeout", "20m") == f'limits.timeout = "20m" in {user_file(cli_env)}\n'
    assert run_config(cli_env, "get", "limits.timeout") == "20m\n"
    assert stat.S_IMODE(user_file(cli_env).stat().st_mode) == 0o600
    assert run_config_json(cli_env, "set", "--project", "limits.timeout", "30m") == {
        "key": "limits.timeout",
        "value": "30m",
        "file": str(cli_env.work / "inspan.toml"),
    }
    assert run_config(cli_env, "set", "limits.timeout", "5", "--local").endswith("inspan.local.toml\n")
    assert run_config(cli_env, "get", "limits.timeout") == "5s\n"
    assert run_config(cli_env, "get", "limits.timeout", env={"INSPAN_LIMITS_TIMEOUT": "off"}) == "off\n"
    assert run_config(cli_env, "unset", "limits.timeout", "--local") == (
        f"limits.timeout is no longer in {cli_env.work / 'inspan.local.toml'}\n"
    )
    assert run_config_json(cli_env, "unset", "limits.timeout", "--project")["file"] == str(cli_env.work / "inspan.toml")
    assert run_config_json(cli_env, "get", "limits.timeout") == {"key": "limits.timeout", "value": "20m"}


def test_get_prints_lists_line_by_line_and_tables_key_by_key(cli_env: CliEnv) -> None:
    write(cli_env, "agents.codex.options = ['-a', 'b c']\nagents.codex.login = true\nmodels.'gpt-5.2' = 'x'\n")
    assert run_config(cli_env, "get", "agents.codex.options") == "-a\nb c\n"
    assert run_config_json(cli_env, "get", "agents.codex.options")["value"] == ["-a", "b c"]
    assert run_config(cli_env, "get", "agents.codex.login") == "true\n"
    assert run_config(cli_env, "get", "agents.codex.model") == "\n"
    assert run_config(cli_env, "get", "models") == 'models."gpt-5.2" = "x"\n'
    assert run_config(cli_env, "get", "models.'gpt-5.2'") == "x\n"
    assert run_config_json(cli_env, "get", "models")["value"] == {"gpt-5.2": "x"}
    assert run_config_json(cli_env, "get", "limits")["value"] == {
        "timeout": "10m",
        "start_timeout": "1m",
        "idle_timeout": "off",
        "stall_timeout": "2m",
        "max_turns": "off",
        "largest_answer": "off",
        "answer_timeout": "10m",
        "idle_close": "1h",
        "hook_timeout": "1m",
        "memory": "off",
        "cpus": "off",
        "pids": "off",
    }


def test_explain_tells_the_layer_of_every_key(cli_env: CliEnv) -> None:
    user = write(cli_env, "[runtime]\ndefault = 'codex'\nmodel = 'm'\n")
    project = cli_env.work / "inspan.toml"
    project.write_text("[runtime]\nmodel = 'n'\n[models]\nfast = 'f'\n")
    env = {"INSPAN_LIMITS_TIMEOUT": "1h"}
    rows = {row["key"]: row for row in run_config_json(cli_env, "explain", env=env)["keys"]}
    assert rows["runtime.default"] == {
        "key": "runtime.default",
        "value": "codex",
        "layer": "user",
        "from": str(user),
    }
    told = {key: (row["value"], row["layer"], row["from"]) for key, row in rows.items() if row["layer"] != "default"}
    assert told == {
        "runtime.default": ("codex", "user", str(user)),
        "runtime.model": ("n", "project", str(project)),
        "models.fast": ("f", "project", str(project)),
        "limits.timeout": ("1h", "environment", "INSPAN_LIMITS_TIMEOUT"),
    }
    assert rows["limits.idle_timeout"] == {"key": "limits.idle_timeout", "value": "off", "layer": "default", "from": ""}
    assert run_config(cli_env, "explain", "runtime.model") == (
        f'KEY            VALUE  LAYER    FROM\nruntime.model  "n"    project  {project}\n'
    )


def test_explain_of_an_agent_lists_also_what_was_not_said(cli_env: CliEnv) -> None:
    keys = [row["key"] for row in run_config_json(cli_env, "explain", "agents.codex")["keys"]]
    assert keys[:3] == ["agents.codex.model", "agents.codex.effort", "agents.codex.program"]
    assert run_config_json(cli_env, "explain", "agents")["keys"] == []


def test_path_lists_the_files_and_which_exist(cli_env: CliEnv) -> None:
    (cli_env.work / "below").mkdir()
    (cli_env.work / ".git").mkdir()
    (cli_env.work / "inspan.toml").touch()
    work = cli_env.work
    cli_env.work = work / "below"
    assert run_config_json(cli_env, "path")["files"] == [
        {"layer": "user", "file": str(user_file(cli_env)), "exists": False},
        {"layer": "project", "file": str(work / "inspan.toml"), "exists": True},
        {"layer": "local", "file": str(work / "inspan.local.toml"), "exists": False},
    ]
    assert run_config(cli_env, "path").splitlines()[2].split() == ["project", "yes", str(work / "inspan.toml")]


def test_the_schema_is_json_and_knows_the_agents(cli_env: CliEnv) -> None:
    schema = json.loads(run_config(cli_env, "schema"))
    assert schema["$id"] == "inspan:config:1"
    assert list(schema["properties"]["agents"]["properties"]) == list(all_agent_names())


@pytest.mark.parametrize(
    ("key", "table"),
    [
        ("agents.codex.env.TOKEN", "agents.codex"),
        ("mcp.docs.env.TOKEN", "mcp.docs"),
        ("mcp.docs.headers.Authorization", "mcp"),
    ],
)
def test_a_secret_is_never_printed(cli_env: CliEnv, key: str, table: str) -> None:
    write(cli_env, "[mcp.docs]\ncommand = 'serve'\n")
    shown = [
        cli_env.inspan("config", *arguments, *more)
        for more in ((), ("--json",))
        for arguments in (
            ("set", key, SECRET),
            ("get", key),
            ("get", table),
            ("explain",),
            ("explain", key),
            ("set", table, '{ zzz = "' + SECRET + '" }'),
        )
    ]
    assert SECRET in user_file(cli_env).read_text()
    assert [done.args for done in shown if SECRET in done.stdout + done.stderr] == []
    assert run_config(cli_env, "get", key) == "***\n"
    assert run_config_json(cli_env, "get", key)["value"] == "***"


def test_a_project_is_refused_until_it_is_trusted(cli_env: CliEnv) -> None:
    (cli_env.work / "inspan.toml").write_text("agents.codex.program = '/tmp/evil'\n")
    refusal = expect_refusal(cli_env, "config", "get", "runtime.default")
    assert (refusal.exit_code, refusal.code) == (2, "bad_config")
    assert refusal.message.startswith("agents.codex.program '/tmp/evil': is not taken from a project")
    trust = refusal.next.rpartition("`inspan ")[2].partition("`")[0].split()
    assert trust == ["config", "set", "projects.trusted", str(cli_env.work)]
    assert cli_env.inspan(*trust).returncode == 0
    assert run_config(cli_env, "get", "agents.codex.program") == "/tmp/evil\n"


@pytest.mark.parametrize(
    ("arguments", "says", "next"),
    [
        (("get", ""), "key '': is empty.", "runtime.default"),
        (("get", "runtime.defalt"), "key 'runtime.defalt': is not a known key.", "Did you mean 'runtime.default'?"),
        (("get", "models.fast"), "key 'models.fast': is not set.", "inspan config set models.fast VALUE"),
        (("get", "a\udcff"), r"key 'a\udcff': is not a path", "runtime.default"),
        (("explain", "agents.cdoex"), "key 'agents.cdoex': names no agent.", "Did you mean 'agents.codex'?"),
        (("set", "", "x"), "key '': is empty.", "runtime.default"),
        (("set", "runtime.defalt", "x"), "key 'runtime.defalt'", "Did you mean 'runtime.default'?"),
        (("set", "runtime.default", "cdoex"), "runtime.default 'cdoex': unknown agent.", "Did you mean 'codex'?"),
        (("set", "runtime.model", "a\udcff"), r"runtime.model 'a\udcff'", "It takes a text."),
        (("set", "limits.timeout", "soon"), "limits.timeout 'soon': is not a duration.", "90, 90s, 10m, 1h or off"),
        (
            ("set", "--project", "agents.codex.key_cmd", "x"),
            "agents.codex.key_cmd 'x': is not taken",
            "projects.trusted",
        ),
        (("set", "--local", "projects.trusted", "."), "projects.trusted ['", "inspan config set projects.trusted"),
        (("unset", "runtime.model"), "key 'runtime.model': is not set", "inspan config explain"),
        (("unset", "a..b"), "key 'a..b': is not a path", "runtime.default"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(
    readonly_env: CliEnv, arguments: tuple[str, ...], says: str, next: str
) -> None:
    refusal = expect_refusal(readonly_env, "config", *arguments)
    assert (refusal.exit_code, refusal.code) == (2, "bad_config")
    assert refusal.message.startswith(says)
    assert next in refusal.next


@pytest.mark.parametrize(
    "arguments", [("get",), ("set", "runtime.model"), ("unset",), ("gte", "x"), ("set", "a", "b", "c")]
)
def test_a_command_that_is_used_wrongly_is_told_how(readonly_env: CliEnv, arguments: tuple[str, ...]) -> None:
    refusal = expect_refusal(readonly_env, "config", *arguments)
    assert (refusal.exit_code, refusal.code) == (2, "usage")
    assert "--help" in refusal.next


def test_a_broken_file_is_refused_with_its_line_and_path_still_works(cli_env: CliEnv) -> None:
    path = write(cli_env, "[runtime]\ndefault = \n")
    for arguments in (("get", "runtime.default"), ("explain",), ("set", "runtime.model", "m"), ("unset", "runtime")):
        refusal = expect_refusal(cli_env, "config", *arguments)
        assert (refusal.exit_code, refusal.code) == (2, "bad_config")
        assert refusal.message.startswith(f"file '{path}': is not TOML: ")
        assert "line 2" in refusal.message
    assert run_config_json(cli_env, "path")["files"][0]["exists"] is True
    assert run_config(cli_env, "schema")


@pytest.mark.parametrize("arguments", [("get", "runtime.default"), ("set", "runtime.model", "m")])
def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(cli_env: CliEnv, arguments: tuple[str, ...]) -> None:
    path = write(cli_env, "")
    path.unlink()
    os.mkfifo(path)
    done = cli_env.inspan("config", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"inspan: file '{path}': is not a file.\n  → ")


@pytest.mark.parametrize("made", ["a file", "nothing"])
def test_a_folder_that_cannot_be_made_is_told(cli_env: CliEnv, made: str) -> None:
    if made == "a file":
        (cli_env.root / "home" / ".config").touch()
        env: dict[str, str] = {}
    else:
        env = {"XDG_CONFIG_HOME": "/proc/none"}
    refusal = expect_refusal(cli_env, "config", "set", "runtime.model", "m", env=env)
    assert (refusal.exit_code, refusal.code) == (2, "bad_config")
    assert "cannot be written: " in refusal.message


def test_a_folder_that_may_not_be_written_to_is_told(user_cli_env: CliEnv) -> None:
    path = write(user_cli_env, "[runtime]\nmodel = 'm'\n")
    path.parent.chmod(0o500)
    refusal = expect_refusal(user_cli_env, "config", "set", "runtime.model", "n")
    assert refusal.message == f"file '{path}': cannot be written: Permission denied."
    path.parent.chmod(0o700)
    assert path.read_text() == "[runtime]\nmodel = 'm'\n"


def test_a_file_that_may_not_be_read_is_told(user_cli_env: CliEnv) -> None:
    path = write(user_cli_env, "[runtime]\nmodel = 'm'\n")
    path.chmod(0)
    refusal = expect_refusal(user_cli_env, "config", "get", "runtime.model")
    assert refusal.message == f"file '{path}': cannot be read: Permission denied."
    path.chmod(0o600)
    path.parent.chmod(0)
    refusal = expect_refusal(user_cli_env, "config", "get", "runtime.model")
    assert refusal.message == f"file '{path}': cannot be read: Permission denied."
    path.parent.chmod(0o700)


def test_a_working_folder_that_is_gone_is_told(cli_env: CliEnv) -> None:
    command = 'mkdir gone; cd gone; rmdir ../gone; exec "$@"'
    argv = cli_env.argv("config", "get", "runtime.default")
    done = subprocess.run(
        ["sh", "-c", command, "sh", *argv],
        env=cli_env.env,
        cwd=cli_env.work,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, "inspan: cwd '.': it is gone.\n  → Go to another folder.\n")


_LOAD = """
import os, sys
import inspan.config
before = set(sys.modules)
inspan.config.load(os.getcwd(), env=os.environ, known_agents=("codex",))
print(*sorted(set(sys.modules) - before))
"""


def test_without_configuration_nothing_is_imported_to_find_that_out(cli_env: CliEnv) -> None:
    argv = [cli_env.argv()[0], "-c", _LOAD]
    done = subprocess.run(argv, env=cli_env.env, cwd=cli_env.work, capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
    write(cli_env, "")
    done = subprocess.run(argv, env=cli_env.env, cwd=cli_env.work, capture_output=True, text=True, check=True)
    assert {"tomllib", "inspan.config.layer_values"} <= set(done.stdout.split())
    assert "tomlkit" not in done.stdout.split()
