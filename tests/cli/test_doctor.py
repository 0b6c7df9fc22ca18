"""`doctor`: which key or login a run would use, named and never shown; the disk, the configuration, the helpers."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from inspan.planning import disk
from tests.cli_env import CliEnv
from tests.conftest import skip

KEY = "sk-given-Qw8Zr5Tn2Lx9Vk4Hd7Pj"
TOKEN = "sk-ant-oat01-Hf4Lx7Pq2Zt9Wb5Nk0Rs3Vd8"
LOGINS = {"claude": ".claude/.credentials.json", "codex": ".codex/auth.json"}


def run_doctor(cli_env: CliEnv, *, code: int = 0, env: dict[str, str] | None = None) -> dict[str, dict[str, Any]]:
    """What the doctor says of each subject, as text and as JSON; neither shows a secret."""
    text, done = cli_env.inspan("doctor", env=env), cli_env.inspan("doctor", "--json", env=env)
    assert (text.returncode, done.returncode, done.stderr) == (code, code, "")
    assert not [each for each in (KEY, TOKEN) if each in text.stdout + text.stderr + done.stdout]
    return {each["subject"]: each for each in json.loads(done.stdout)["findings"]}


def configure(cli_env: CliEnv, text: str) -> None:
    path = Path(cli_env.env["HOME"], ".config", "inspan", "config.toml")
    path.parent.mkdir(parents=True)
    path.write_text(text)


def put_key(cli_env: CliEnv, *, mode: int = 0o600) -> None:
    path = Path(cli_env.env["HOME"], "key")
    path.write_text(f"{KEY}\n")
    path.chmod(mode)


@pytest.mark.parametrize("agent", sorted(LOGINS))
def test_a_login_is_named_until_a_key_wins_over_it(cli_env: CliEnv, agent: str) -> None:
    path = Path(cli_env.env["HOME"], LOGINS[agent])
    path.parent.mkdir()
    path.write_text(json.dumps({"access_token": TOKEN}))
    path.chmod(0o600)
    found = run_doctor(cli_env)[f"agent {agent}"]
    assert (found["state"], found["next_step"]) == ("ok", "")
    assert found["detail"].endswith(f"; login in ~/{LOGINS[agent]}")
    variable = {"claude": "ANTHROPIC_API_KEY", "codex": "OPENAI_API_KEY"}[agent]
    ways = {"claude": "; key in ANTHROPIC_API_KEY", "codex": f"; login in ~/{LOGINS['codex']}"}
    assert run_doctor(cli_env, env={variable: KEY})[f"agent {agent}"]["detail"].endswith(ways[agent])
    path.chmod(0o644)
    exposed = run_doctor(cli_env)[f"agent {agent}"]
    assert exposed["state"] == "warning"
    assert exposed["next_step"] == f"~/{LOGINS[agent]} can be read by others: chmod 600 ~/{LOGINS[agent]}."


@pytest.mark.parametrize(
    ("setting", "way"),
    [
        ("key_env = 'WORK_KEY'", "key from the variable WORK_KEY"),
        ("key_file = '~/key'", "/key"),
        ("key_cmd = 'cat ~/key'", "key from the key command 'cat'"),
    ],
)
def test_a_configured_key_is_fetched_as_a_run_would_and_named(cli_env: CliEnv, setting: str, way: str) -> None:
    put_key(cli_env)
    configure(cli_env, f"[agents.codex]\n{setting}\n")
    found = run_doctor(cli_env, env={"CODEX_API_KEY": "sk-less-than-the-other", "WORK_KEY": KEY})
    assert (found["agent codex"]["state"], found["config"]["state"]) == ("ok", "ok")
    assert found["agent codex"]["detail"].endswith(way)
    assert found["config"]["detail"].endswith("/.config/inspan/config.toml")


def test_a_key_file_that_others_can_read_is_a_warning(cli_env: CliEnv) -> None:
    put_key(cli_env, mode=0o644)
    configure(cli_env, "[agents.codex]\nkey_file = '~/key'\n")
    found = run_doctor(cli_env)["agent codex"]
    assert found["state"] == "warning"
    assert "can be read by others: chmod 600" in found["next_step"]


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("key_file = '~/key'", "gives no key: No such file or directory."),
        (f"key_cmd = 'echo {KEY}; echo locked >&2; exit 1'", "gives no key: exit code 1, and it said: locked."),
        ("login = true", "No login of Codex in ~/.codex/auth.json: there is no such file."),
    ],
)
def test_a_way_in_that_would_stop_a_run_is_a_problem_of_that_agent_alone(
    cli_env: CliEnv, setting: str, says: str
) -> None:
    configure(cli_env, f"[agents.codex]\n{setting}\n")
    found = run_doctor(cli_env, env={"CODEX_API_KEY": KEY})
    assert (found["agent codex"]["state"], found["agent claude"]["state"]) == ("problem", "warning")
    assert found["agent codex"]["detail"].endswith(says)
    assert found["agent codex"]["next_step"]


def test_a_configuration_that_cannot_be_read_is_told_and_the_rest_is_looked_at(cli_env: CliEnv) -> None:
    configure(cli_env, "[agents.codex]\nkey_fil = '~/key'\n")
    found = run_doctor(cli_env, code=1, env={"CODEX_API_KEY": KEY})
    assert found["config"]["state"] == "problem"
    assert "key_fil" in found["config"]["detail"]
    assert found["agent codex"]["detail"].endswith("; key in CODEX_API_KEY")


def test_a_missing_helper_is_a_warning(cli_env: CliEnv) -> None:
    folder = cli_env.root / "bin"
    folder.mkdir()
    for name in ("sh", "unshare", "setpriv", "true"):
        (folder / name).symlink_to(shutil.which(name) or "")
    found = run_doctor(cli_env, env={"PATH": str(folder)})
    assert {name: found[name]["state"] for name in ("git", "bwrap")} == dict.fromkeys(("git", "bwrap"), "warning")
    assert [found[name]["next_step"] for name in ("git", "bwrap")] == ["Install git.", "Install bubblewrap."]
    assert "an agent's package brings" in found["bwrap"]["detail"]
    if found["sandbox bwrap"]["state"] == "warning":
        assert "cannot be set up here" in found["sandbox bwrap"]["detail"], "it was found, at least"
    else:
        assert found["containment"]["detail"] == "a pid namespace by bwrap"
    check_limits(found["limits"])


def check_limits(found: dict[str, Any]) -> None:
    """Which limits can be held depends on the machine; those that cannot are told of with a way out."""
    held = "can be held by control groups" in found["detail"]
    assert found["state"] == ("ok" if held else "warning")
    assert "--pids" in found["detail"] and (held or "Run as root" in found["next_step"])


def test_a_podman_that_answers_nothing_is_not_said_to_work(user_cli_env: CliEnv) -> None:
    folder = user_cli_env.root / "bin"
    folder.mkdir()
    (folder / "podman").write_text("#!/bin/sh\n")
    (folder / "podman").chmod(0o755)
    found = run_doctor(user_cli_env, env={"PATH": f"{folder}:{os.environ['PATH']}"})
    assert found["sandbox podman"]["state"] == "warning"
    assert found["sandbox podman"]["next_step"]
    check_limits(found["limits"])


def test_the_disk_is_tried_out_and_left_as_it_was(cli_env: CliEnv) -> None:
    found = run_doctor(cli_env)["disk"]
    assert (found["state"], " GB free on " in found["detail"]) == ("ok", True)
    assert [path for path in cli_env.state.rglob("*") if "doctor" in path.name] == []


@pytest.mark.parametrize(
    ("mount", "state", "says"),
    [
        pytest.param("-o size=1m", "problem", "the disk is full", id="full"),
        pytest.param("-o size=50m", "warning", "there is little room", id="scarce"),
        pytest.param("-o nr_inodes=50", "problem", "the disk has no room for more files", id="few files"),
        pytest.param("-o nr_inodes=1", "problem", "a file cannot be made: No space left on device", id="no file"),
        pytest.param("-o ro", "problem", "Read-only file system", id="read-only"),
    ],
)
def test_a_disk_on_which_runs_cannot_be_kept_is_told(cli_env: CliEnv, mount: str, state: str, says: str) -> None:
    cli_env.state.mkdir()
    script = f'mount -t tmpfs {mount} none {cli_env.state} && exec "$@"'
    alone = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    cli_env.prefix = [*alone, "sh", "-c", script, "sh"]
    if cli_env.inspan("--version").returncode:
        skip("no-namespaces")
    found = run_doctor(cli_env, code=1 if state == "problem" else 0)["disk"]
    assert (found["state"], says in found["detail"]) == (state, True), found
    assert "XDG_STATE_HOME" in found["next_step"]


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs"])
def test_a_network_file_system_is_doubted(tmp_path: Path, kind: str) -> None:
    device = os.stat(tmp_path).st_dev
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"36 35 {os.major(device)}:{os.minor(device)} / / rw,noatime master:1 - {kind} server:/ rw\n")
    found = disk.inspect_disk(str(tmp_path), mounts=str(mounts))
    assert (found.kind, found.problem) == (kind, "")
    assert found.warning.startswith(f"{kind} is a network file system")


def test_the_doctor_waits_for_no_pipe(cli_env: CliEnv) -> None:
    os.mkfifo(Path(cli_env.env["HOME"], "key"))
    configure(cli_env, "[agents.codex]\nkey_file = '~/key'\n")
    assert run_doctor(cli_env)["agent codex"]["detail"].endswith("gives no key: it is not a regular file.")


def test_an_agent_that_cannot_run_yet_has_no_tick(cli_env: CliEnv) -> None:
    told = cli_env.inspan("doctor", "openai-compatible").stdout
    assert "! agent openai-compatible: OpenAI-compatible API, an API without a program; no base_url is set\n" in told
    assert "    → Name its address with --base-url https://HOST/v1.\n" in told
