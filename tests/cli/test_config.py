"""`inspan config`: what counts, where it comes from, and changing it."""

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from inspan.engine.registry import all_names
from tests.house import House

from .refusal import refusal_of

SECRET = "plum-4711-quince"


def user_file(house: House) -> Path:
    return house.root / "home" / ".config" / "inspan" / "config.toml"


def write(house: House, text: str) -> Path:
    path = user_file(house)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def printed(house: House, *arguments: str, env: dict[str, str] | None = None) -> str:
    done = house.inspan("config", *arguments, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def answer(house: House, *arguments: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(printed(house, *arguments, "--json", env=env))
    assert value.pop("schema") == 1
    return value


def test_a_value_that_was_set_is_the_one_that_counts(house: House) -> None:
    assert printed(house, "get", "limits.timeout") == "10m\n"
    assert printed(house, "set", "limits.timeout", "20m") == f'limits.timeout = "20m" in {user_file(house)}\n'
    assert printed(house, "get", "limits.timeout") == "20m\n"
    assert stat.S_IMODE(user_file(house).stat().st_mode) == 0o600
    assert answer(house, "set", "--project", "limits.timeout", "30m") == {
        "key": "limits.timeout",
        "value": "30m",
        "file": str(house.work / "inspan.toml"),
    }
    assert printed(house, "set", "limits.timeout", "5", "--local").endswith("inspan.local.toml\n")
    assert printed(house, "get", "limits.timeout") == "5s\n"
    assert printed(house, "get", "limits.timeout", env={"INSPAN_LIMITS_TIMEOUT": "off"}) == "off\n"
    assert printed(house, "unset", "limits.timeout", "--local") == (
        f"limits.timeout is no longer in {house.work / 'inspan.local.toml'}\n"
    )
    assert answer(house, "unset", "limits.timeout", "--project")["file"] == str(house.work / "inspan.toml")
    assert answer(house, "get", "limits.timeout") == {"key": "limits.timeout", "value": "20m"}


def test_get_prints_lists_line_by_line_and_tables_key_by_key(house: House) -> None:
    write(house, "agents.codex.options = ['-a', 'b c']\nagents.codex.login = true\nmodels.'gpt-5.2' = 'x'\n")
    assert printed(house, "get", "agents.codex.options") == "-a\nb c\n"
    assert answer(house, "get", "agents.codex.options")["value"] == ["-a", "b c"]
    assert printed(house, "get", "agents.codex.login") == "true\n"
    assert printed(house, "get", "agents.codex.model") == "\n"
    assert printed(house, "get", "models") == 'models."gpt-5.2" = "x"\n'
    assert printed(house, "get", "models.'gpt-5.2'") == "x\n"
    assert answer(house, "get", "models")["value"] == {"gpt-5.2": "x"}
    assert answer(house, "get", "limits")["value"] == {
        "timeout": "10m",
        "start_timeout": "1m",
        "idle_timeout": "off",
        "stall_timeout": "2m",
        "max_turns": "off",
        "largest_answer": "off",
    }


def test_explain_tells_the_layer_of_every_key(house: House) -> None:
    user = write(house, "[runtime]\ndefault = 'codex'\nmodel = 'm'\n")
    project = house.work / "inspan.toml"
    project.write_text("[runtime]\nmodel = 'n'\n[models]\nfast = 'f'\n")
    env = {"INSPAN_LIMITS_TIMEOUT": "1h"}
    rows = {row["key"]: row for row in answer(house, "explain", env=env)["keys"]}
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
    assert printed(house, "explain", "runtime.model") == (
        f'KEY            VALUE  LAYER    FROM\nruntime.model  "n"    project  {project}\n'
    )


def test_explain_of_an_agent_lists_also_what_was_not_said(house: House) -> None:
    keys = [row["key"] for row in answer(house, "explain", "agents.codex")["keys"]]
    assert keys[:3] == ["agents.codex.model", "agents.codex.effort", "agents.codex.program"]
    assert answer(house, "explain", "agents")["keys"] == []


def test_path_lists_the_files_and_which_exist(house: House) -> None:
    (house.work / "below").mkdir()
    (house.work / ".git").mkdir()
    (house.work / "inspan.toml").touch()
    work = house.work
    house.work = work / "below"
    assert answer(house, "path")["files"] == [
        {"layer": "user", "file": str(user_file(house)), "exists": False},
        {"layer": "project", "file": str(work / "inspan.toml"), "exists": True},
        {"layer": "local", "file": str(work / "inspan.local.toml"), "exists": False},
    ]
    assert printed(house, "path").splitlines()[2].split() == ["project", "yes", str(work / "inspan.toml")]


def test_the_schema_is_json_and_knows_the_agents(house: House) -> None:
    schema = json.loads(printed(house, "schema"))
    assert schema["$id"] == "inspan:config:1"
    assert list(schema["properties"]["agents"]["properties"]) == list(all_names())


@pytest.mark.parametrize(
    ("key", "table"),
    [
        ("agents.codex.env.TOKEN", "agents.codex"),
        ("mcp.docs.env.TOKEN", "mcp.docs"),
        ("mcp.docs.headers.Authorization", "mcp"),
    ],
)
def test_a_secret_is_never_printed(house: House, key: str, table: str) -> None:
    write(house, "[mcp.docs]\ncommand = 'serve'\n")
    shown = [
        house.inspan("config", *arguments, *more)
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
    assert SECRET in user_file(house).read_text()
    assert [done.args for done in shown if SECRET in done.stdout + done.stderr] == []
    assert printed(house, "get", key) == "***\n"
    assert answer(house, "get", key)["value"] == "***"


def test_a_project_is_refused_until_it_is_trusted(house: House) -> None:
    (house.work / "inspan.toml").write_text("agents.codex.program = '/tmp/evil'\n")
    refusal = refusal_of(house, "config", "get", "runtime.default")
    assert (refusal.exit_code, refusal.code) == (2, "bad_config")
    assert refusal.message.startswith("agents.codex.program '/tmp/evil': is not taken from a project")
    trust = refusal.next.rpartition("`inspan ")[2].partition("`")[0].split()
    assert trust == ["config", "set", "projects.trusted", str(house.work)]
    assert house.inspan(*trust).returncode == 0
    assert printed(house, "get", "agents.codex.program") == "/tmp/evil\n"


@pytest.mark.parametrize(
    ("arguments", "says", "next"),
    [
        (("get", ""), "key '': is empty.", "runtime.default"),
        (("get", "runtime.defalt"), "key 'runtime.defalt': is not a known key.", "Did you mean 'runtime.default'?"),
        (("get", "models.fast"), "key 'models.fast': is not set.", "inspan config set models.fast VALUE"),
        (("get", "a\udcff"), r"key 'a\udcff': is no path", "runtime.default"),
        (("explain", "agents.cdoex"), "key 'agents.cdoex': names no agent.", "Did you mean 'agents.codex'?"),
        (("set", "", "x"), "key '': is empty.", "runtime.default"),
        (("set", "runtime.defalt", "x"), "key 'runtime.defalt'", "Did you mean 'runtime.default'?"),
        (("set", "runtime.default", "cdoex"), "runtime.default 'cdoex': no such agent.", "Did you mean 'codex'?"),
        (("set", "runtime.model", "a\udcff"), r"runtime.model 'a\udcff'", "It takes a text."),
        (("set", "limits.timeout", "soon"), "limits.timeout 'soon': is no duration.", "90, 90s, 10m, 1h or off"),
        (
            ("set", "--project", "agents.codex.key_cmd", "x"),
            "agents.codex.key_cmd 'x': is not taken",
            "projects.trusted",
        ),
        (("set", "--local", "projects.trusted", "."), "projects.trusted ['", "inspan config set projects.trusted"),
        (("unset", "runtime.model"), "key 'runtime.model': is not set", "inspan config explain"),
        (("unset", "a..b"), "key 'a..b': is no path", "runtime.default"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(
    untouched: House, arguments: tuple[str, ...], says: str, next: str
) -> None:
    refusal = refusal_of(untouched, "config", *arguments)
    assert (refusal.exit_code, refusal.code) == (2, "bad_config")
    assert refusal.message.startswith(says)
    assert next in refusal.next


@pytest.mark.parametrize(
    "arguments", [("get",), ("set", "runtime.model"), ("unset",), ("gte", "x"), ("set", "a", "b", "c")]
)
def test_a_command_that_is_used_wrongly_is_told_how(untouched: House, arguments: tuple[str, ...]) -> None:
    refusal = refusal_of(untouched, "config", *arguments)
    assert (refusal.exit_code, refusal.code) == (2, "usage")
    assert "--help" in refusal.next


def test_a_broken_file_is_refused_with_its_line_and_path_still_works(house: House) -> None:
    path = write(house, "[runtime]\ndefault = \n")
    for arguments in (("get", "runtime.default"), ("explain",), ("set", "runtime.model", "m"), ("unset", "runtime")):
        refusal = refusal_of(house, "config", *arguments)
        assert (refusal.exit_code, refusal.code) == (2, "bad_config")
        assert refusal.message.startswith(f"file '{path}': is not TOML: ")
        assert "line 2" in refusal.message
    assert answer(house, "path")["files"][0]["exists"] is True
    assert printed(house, "schema")


@pytest.mark.parametrize("arguments", [("get", "runtime.default"), ("set", "runtime.model", "m")])
def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(house: House, arguments: tuple[str, ...]) -> None:
    path = write(house, "")
    path.unlink()
    os.mkfifo(path)
    done = house.inspan("config", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"inspan: file '{path}': is no file.\n  → ")


@pytest.mark.parametrize("made", ["a file", "nothing"])
def test_a_folder_that_cannot_be_made_is_told(house: House, made: str) -> None:
    if made == "a file":
        (house.root / "home" / ".config").touch()
        env: dict[str, str] = {}
    else:
        env = {"XDG_CONFIG_HOME": "/proc/none"}
    refusal = refusal_of(house, "config", "set", "runtime.model", "m", env=env)
    assert (refusal.exit_code, refusal.code) == (2, "bad_config")
    assert "cannot be written: " in refusal.message


def test_a_folder_that_may_not_be_written_to_is_told(user_house: House) -> None:
    path = write(user_house, "[runtime]\nmodel = 'm'\n")
    path.parent.chmod(0o500)
    refusal = refusal_of(user_house, "config", "set", "runtime.model", "n")
    assert refusal.message == f"file '{path}': cannot be written: Permission denied."
    path.parent.chmod(0o700)
    assert path.read_text() == "[runtime]\nmodel = 'm'\n"


def test_a_file_that_may_not_be_read_is_told(user_house: House) -> None:
    path = write(user_house, "[runtime]\nmodel = 'm'\n")
    path.chmod(0)
    refusal = refusal_of(user_house, "config", "get", "runtime.model")
    assert refusal.message == f"file '{path}': cannot be read: Permission denied."
    path.chmod(0o600)
    path.parent.chmod(0)
    refusal = refusal_of(user_house, "config", "get", "runtime.model")
    assert refusal.message == f"file '{path}': cannot be read: Permission denied."
    path.parent.chmod(0o700)


def test_a_working_folder_that_is_gone_is_told(house: House) -> None:
    command = 'mkdir gone; cd gone; rmdir ../gone; exec "$@"'
    argv = house.argv("config", "get", "runtime.default")
    done = subprocess.run(
        ["sh", "-c", command, "sh", *argv],
        env=house.env,
        cwd=house.work,
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


def test_without_configuration_nothing_is_imported_to_find_that_out(house: House) -> None:
    argv = [house.argv()[0], "-c", _LOAD]
    done = subprocess.run(argv, env=house.env, cwd=house.work, capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
    write(house, "")
    done = subprocess.run(argv, env=house.env, cwd=house.work, capture_output=True, text=True, check=True)
    assert {"tomllib", "inspan.config.reading"} <= set(done.stdout.split())
    assert "tomlkit" not in done.stdout.split()
