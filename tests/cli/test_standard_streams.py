"""Standard streams as a shell may leave them: closed, full, or read by nobody."""

import json
import os
import shlex
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from inspan.protocol.events import RunEnded
from inspan.stores.event_log import read_log
from tests.cli_env import CliEnv
from tests.running.fake_agent import Fake, fake_agent_env

from .scenarios import SAYS_HELLO, strip_run_note

CLOSED = ["<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"]
COMMANDS = [
    "agents",
    "budget",
    "config path",
    "cost",
    "doctor scripted",
    "events",
    "events -f",
    "logs",
    "logs -f",
    "logs --raw",
    "ps",
    "ps -a",
    "reindex",
    "export",
    "schema events",
    "show",
    "wait @last",
    "prune --dry-run",
    "--help",
    "--version",
]
AS_JSON = [
    command for command in COMMANDS if not command.startswith(("schema", "--", "config", "export", "logs --raw"))
]
# Who prints its own descriptors, having looked at them before it opened anything.
_TELLS_DESCRIPTORS = """
found = {}
for number in os.listdir("/proc/self/fd"):
    try: found[number] = os.readlink(f"/proc/self/fd/{number}")
    except OSError: pass
begin(); say(json.dumps(found)); finish()
"""

Usual = Callable[[str], subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def usual_result(old_runs: CliEnv) -> Usual:
    """What a command does with its streams as usual; asked once."""

    @cache
    def ask(command: str) -> subprocess.CompletedProcess[str]:
        return old_runs.inspan(*command.split())

    return ask


def _shell(cli_env: CliEnv, script: str, *arguments: str, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    done = subprocess.run(
        ["bash", "-c", script, "bash", *cli_env.argv(*arguments)],
        env={**cli_env.env, **(env or {})},
        cwd=cli_env.work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def _run(cli_env: CliEnv, *more: str) -> tuple[str, ...]:
    scenario = cli_env.scenario(SAYS_HELLO)
    return "run", "do it", "-a", "scripted", "--profile", "clean", "--model-from", scenario, *more


@pytest.mark.sample(10)
@pytest.mark.parametrize("more", [(), ("-q",), ("--json",), ("-d",)], ids=lambda more: " ".join(more) or "text")
@pytest.mark.parametrize("closed", CLOSED)
def test_a_run_with_closed_descriptors_is_like_any_other(cli_env: CliEnv, closed: str, more: tuple[str, ...]) -> None:
    code, out, err = _shell(cli_env, f'exec "$@" {closed}', *_run(cli_env, *more))
    assert code == 0, err
    assert cli_env.inspan("wait", "@last").returncode == 0
    folder = cli_env.folder()
    ended = read_log(str(folder / "events.jsonl"))[-1].event
    assert isinstance(ended, RunEnded)
    assert ended.reason == "done"
    assert [(folder / name).read_bytes() for name in ("lock", "supervisor.log")] == [b"", b""]
    assert ">&-" in closed.split() or ("hello" in out) == ("-d" not in more)
    assert "Traceback" not in err


@pytest.mark.sample(9)
@pytest.mark.parametrize("way", ["bwrap", "unshare", "reaper"])
@pytest.mark.parametrize("closed", CLOSED)
def test_the_agent_has_standard_descriptors_of_its_own(cli_env: CliEnv, fake: Fake, closed: str, way: str) -> None:
    env = {**fake_agent_env(fake, _TELLS_DESCRIPTORS), "INSPAN_CONTAINMENT": way}
    arguments = ("run", "x", "-a", "codex", "--profile", "user", "-d")
    assert _shell(cli_env, f'exec "$@" {closed}', *arguments, env=env)[0] == 0
    assert cli_env.inspan("wait", "@last").returncode == 0
    found: dict[str, str] = json.loads((cli_env.folder() / "output.md").read_text())
    assert found["0"].startswith("/memfd:stdin")
    assert found["1"].startswith("pipe:")
    assert found["2"].startswith("pipe:")
    assert [path for path in found.values() if str(cli_env.state) in path] == []


@pytest.mark.sample(45)
@pytest.mark.parametrize("closed", CLOSED)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_works_with_closed_descriptors(
    old_runs: CliEnv, usual_result: Usual, command: str, closed: str
) -> None:
    before = _contents(old_runs)
    code, out, err = _shell(old_runs, f'exec "$@" {closed}', *command.split())
    whole = usual_result(command)
    assert code == whole.returncode, err
    assert bool(out) == (bool(whole.stdout) and ">&-" not in closed.split())
    assert "broke" not in out + err
    assert "Traceback" not in out + err
    assert _contents(old_runs) == before


def _contents(cli_env: CliEnv) -> dict[Path, bytes]:
    """All that belongs to the runs; the index is SQLite's to write."""
    return {path: path.read_bytes() for path in cli_env.state.glob("projects/**/*") if path.is_file()}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_stdout_is_told_in_a_sentence(old_runs: CliEnv, usual_result: Usual, command: str) -> None:
    whole = usual_result(command)
    code, _, err = _shell(old_runs, 'exec "$@" >/dev/full', *command.split())
    if not whole.stdout:
        assert code == whole.returncode
        return
    assert code == (whole.returncode or 1)
    sentence = strip_run_note(err).removeprefix(strip_run_note(whole.stderr)).splitlines()
    assert sentence[0].startswith("inspan: Cannot write to stdout: No space left on device.")
    assert len(sentence) == 2
    assert sentence[1].startswith("  → ")


@pytest.mark.parametrize("command", AS_JSON)
def test_a_full_stdout_is_told_as_json(old_runs: CliEnv, usual_result: Usual, command: str) -> None:
    code, _, err = _shell(old_runs, 'exec "$@" >/dev/full', *command.split(), "--json")
    assert code == (usual_result(f"{command} --json").returncode or 1)
    assert json.loads(err)["error"]["code"] == "output_refused"


@pytest.mark.parametrize("command", ["show", "ps -a", "events"])
def test_a_full_stdout_without_a_buffer_is_told_too(old_runs: CliEnv, command: str) -> None:
    code, _, err = _shell(old_runs, 'exec "$@" >/dev/full', *command.split(), env={"PYTHONUNBUFFERED": "1"})
    assert (code, err.count("Cannot write to stdout")) == (1, 1)
    assert "Exception ignored" not in err


@pytest.mark.parametrize("command", [*COMMANDS, "show nothing-like-this", "no-such-command x", "rm"])
def test_a_full_stderr_changes_nothing_else(old_runs: CliEnv, usual_result: Usual, command: str) -> None:
    whole = usual_result(command)
    code, out, err = _shell(old_runs, 'exec "$@" 2>/dev/full', *command.split())
    assert (code, len(out.splitlines()), err) == (whole.returncode, len(whole.stdout.splitlines()), "")


@pytest.mark.parametrize("streams", [">/dev/full 2>&1", "2>&1 | true", "2>/dev/full | true"])
@pytest.mark.parametrize("command", ["show", "ps -a", "show nothing-like-this", "--help"])
def test_streams_that_take_nothing_at_all_leave_the_exit_code(old_runs: CliEnv, command: str, streams: str) -> None:
    _, out, err = _shell(old_runs, f'set -o pipefail; "$@" {streams}; echo "code $?"', *command.split())
    assert out in ("code 0\n", "code 1\n", "code 2\n")
    assert err == ""


def test_a_run_that_cannot_be_shown_is_named_and_goes_on(cli_env: CliEnv) -> None:
    code, _, err = _shell(cli_env, 'exec "$@" >/dev/full', *_run(cli_env, "--json"))
    error = json.loads(err)["error"]
    run_id = cli_env.folder().name
    assert (code, error["next"]) == (1, f"Follow it: `inspan logs -f {run_id}`.")
    assert cli_env.inspan("wait", run_id).returncode == 0


def test_a_detached_run_whose_id_cannot_be_printed_is_named_on_stderr(cli_env: CliEnv) -> None:
    code, _, err = _shell(cli_env, 'exec "$@" >/dev/full', *_run(cli_env, "-d"))
    assert (code, cli_env.folder().name in err) == (1, True)
    assert cli_env.inspan("wait", "@last").returncode == 0


@pytest.mark.parametrize("streams", ["2>/dev/full", "2>&-"])
def test_a_run_whose_progress_cannot_be_shown_still_gives_its_answer(cli_env: CliEnv, streams: str) -> None:
    assert _shell(cli_env, f'exec "$@" {streams}', *_run(cli_env)) == (0, "hello\n", "")


@pytest.mark.parametrize("more", [(), ("--json",)], ids=["text", "json"])
def test_a_run_that_nobody_reads_any_more_is_not_called_completed(cli_env: CliEnv, more: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)  # Before the run begins: a reader that leaves in its own time may leave after the run has ended.
    done = subprocess.run(
        cli_env.argv(*_run(cli_env, *more)),
        env=cli_env.env,
        cwd=cli_env.work,
        stdin=subprocess.DEVNULL,
        stdout=write,
        stderr=write,
        timeout=120,
        check=False,
    )
    os.close(write)
    assert done.returncode == 1
    assert cli_env.inspan("wait", "@last").returncode == 0


@pytest.mark.parametrize("command", ["events", "ps -a", "show", "logs", "schema events"])
def test_a_pipe_that_closes_early_is_no_failure(old_runs: CliEnv, command: str) -> None:
    _, out, err = _shell(old_runs, 'set -o pipefail; "$@" | true; echo "code $?"', *command.split())
    assert (out, strip_run_note(err)) == ("code 0\n", "")


def test_a_stdout_that_does_not_block_gets_all_of_it(old_runs: CliEnv) -> None:
    whole = old_runs.inspan("schema", "events").stdout
    read, write = os.pipe()
    os.set_blocking(write, False)
    script = shlex.join(old_runs.argv("schema", "events"))
    many = subprocess.Popen(
        ["bash", "-c", f"for each in 1 2 3 4 5 6 7 8; do {script} || exit 1; done"],
        env=old_runs.env,
        cwd=old_runs.work,
        stdout=write,
        stderr=subprocess.PIPE,
    )
    os.close(write)
    with open(read, encoding="utf-8") as file:
        assert file.read() == whole * 8
    assert (many.wait(timeout=120), many.stderr and many.stderr.read()) == (0, b"")
    if many.stderr:
        many.stderr.close()
