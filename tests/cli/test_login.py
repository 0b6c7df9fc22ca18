"""`login` and `agents exec`: an agent's own program in the place of inspan, and a run that has no way in."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from inspan.agents.registry import load_drivers
from tests.cli_env import CliEnv

from .dialogue import answer_questions
from .refusal import expect_refusal

_PROGRAM = """#!/bin/sh
case $1 in --version) echo "{answer}"; exit;; esac
printf '%s\\n' "home $HOME" "cwd $PWD" "marker $MARKER" "terminal $(test -t 0 && echo yes || echo no)"
for word; do printf 'word %s\\n' "$word"; done
grep -E '^Sig(Ign|Blk)' /proc/self/status
cat
exit 7
"""
_END_OF_INPUT = b"\x04"
_VERSIONS = {"codex": "codex-cli 0.163.0", "gemini": "0.61.0", "claude": "2.1.325 (Claude Code)"}


@pytest.fixture
def cli_env(tmp_path: Path) -> Iterator[CliEnv]:
    """A house with small programs on PATH that answer as agents do and tell what they were started with."""
    (tmp_path / "house").mkdir()
    made = CliEnv(tmp_path / "house")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, answer in _VERSIONS.items():
        (programs / name).write_text(_PROGRAM.format(answer=answer))
        (programs / name).chmod(0o755)
    made.env["PATH"] = f"{programs}{os.pathsep}{made.env['PATH']}"
    made.env["MARKER"] = "of the user"
    yield made
    made.close()


def told(output: str) -> list[str]:
    return [line for line in output.splitlines() if not line.startswith("Sig")]


def test_login_opens_the_programs_own_login_and_passes_everything_on(cli_env: CliEnv) -> None:
    done = cli_env.inspan("login", "codex", "--device-auth", stdin="typed\n")
    assert (done.returncode, done.stderr) == (7, "")
    home = cli_env.env["HOME"]
    assert told(done.stdout) == [
        f"home {home}",
        f"cwd {cli_env.work}",
        "marker of the user",
        "terminal no",
        "word login",
        "word --device-auth",
        "typed",
    ]


def test_two_words_of_a_login_and_words_behind_a_dash_are_passed_on(cli_env: CliEnv) -> None:
    words = [line for line in told(cli_env.inspan("login", "claude", "--", "--console").stdout) if line[:4] == "word"]
    assert words == ["word auth", "word login", "word --console"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--", "exec", "--help"), ["exec", "--help"]),
        (("--help",), ["--help"]),
        (("a b", "", "--", "-x"), ["a b", "", "--", "-x"]),
        (("--", "--", "x"), ["--", "x"]),
        ((), []),
    ],
    ids=str,
)
def test_exec_gives_the_program_its_words_as_they_are(
    cli_env: CliEnv, given: tuple[str, ...], words: list[str]
) -> None:
    done = cli_env.inspan("agents", "exec", "codex", *given)
    assert (done.returncode, done.stderr) == (7, "")
    assert [line for line in told(done.stdout) if line.startswith("word")] == [f"word {word}" for word in words]


def test_the_program_ignores_no_signal_that_a_shell_would_not_have_it_ignore(cli_env: CliEnv) -> None:
    masks = dict(line.split(":\t") for line in cli_env.inspan("agents", "exec", "codex").stdout.splitlines()[4:6])
    assert masks.keys() == {"SigBlk", "SigIgn"}
    # What is ignored by whoever runs the tests stays so; Python's own two must not be added.
    ours = int(masks["SigIgn"], 16)
    assert [number for number in (signal.SIGPIPE, signal.SIGXFSZ) if ours >> (number - 1) & 1] == []


def test_nothing_is_left_behind_by_a_program_that_runs_as_it_is(cli_env: CliEnv) -> None:
    cli_env.inspan("agents", "exec", "codex", "x")
    assert not list(cli_env.state.glob("projects/*"))


def test_a_program_that_was_configured_is_the_one(cli_env: CliEnv, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("#!/bin/sh\n[ $1 = --version ] && echo codex-cli 0.163.0 || echo it is mine\n")
    mine.chmod(0o755)
    cli_env.inspan("config", "set", "agents.codex.program", str(mine))
    assert cli_env.inspan("agents", "exec", "codex", "x").stdout == "it is mine\n"


@pytest.mark.parametrize("command", [("login",), ("agents", "exec")], ids=" ".join)
@pytest.mark.parametrize(
    ("agent", "code", "exit_code"),
    [
        ("codx", "unknown_agent", 2),
        ("", "unknown_agent", 2),
        ("xai", "unsupported", 2),
        ("scripted", "unsupported", 2),
        ("acp:no-such-program", "agent_missing", 5),
    ],
)
def test_an_agent_without_a_program_is_refused(
    cli_env: CliEnv, command: tuple[str, ...], agent: str, code: str, exit_code: int
) -> None:
    done = cli_env.inspan(*command, agent)
    refusal = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (exit_code, "")
    assert refusal[0].startswith("inspan: ")
    assert refusal[1].startswith("  → ")
    assert "Traceback" not in done.stderr
    if command == ("login",):
        assert expect_refusal(cli_env, "login", "--print", agent).code == code


def test_an_agent_that_has_no_login_points_to_keys(cli_env: CliEnv, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "helper"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    done = cli_env.inspan("login", "acp:helper")
    assert (done.returncode, done.stdout) == (2, "")
    assert "has no login that inspan knows of" in done.stderr


def test_a_program_that_cannot_be_started_is_told(cli_env: CliEnv, tmp_path: Path) -> None:
    assert cli_env.inspan("agents", "exec", "codex").returncode == 7  # Its version is known from here on.
    file = tmp_path / "bin" / "codex"
    stamp = os.stat(file)
    file.write_text(file.read_text().replace("#!/bin/sh", "#!/nix/sh"))
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    done = cli_env.inspan("agents", "exec", "codex")
    assert (done.returncode, done.stdout) == (5, "")
    assert "codex cannot be started: No such file or directory." in done.stderr


def test_a_login_that_is_typed_needs_a_terminal_and_gets_it(cli_env: CliEnv) -> None:
    done = cli_env.inspan("login", "gemini")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Gemini CLI logs in at a terminal, and there is none here." in done.stderr
    code, shown = answer_questions(cli_env, ("login", "gemini"), [("SigIgn", _END_OF_INPUT)])
    assert code == 7
    assert "inspan: Gemini CLI comes up: choose how to sign in, then leave with /quit." in shown
    assert "terminal yes" in shown
    assert "\nword" not in shown


@pytest.mark.parametrize(
    ("agent", "words", "note"),
    [("claude", ["auth", "login"], ""), ("codex", ["login"], ""), ("gemini", [], "choose how to sign in")],
)
def test_the_command_of_a_login_can_be_printed(cli_env: CliEnv, agent: str, words: list[str], note: str) -> None:
    value = json.loads(cli_env.inspan("login", "--print", "--json", agent).stdout)
    assert (value["agent"], value["command"][1:]) == (agent, words)
    assert value["command"][0].endswith(f"/bin/{agent}")
    assert value["note"].startswith(note)
    assert cli_env.inspan("login", "--print", agent).stdout.startswith(" ".join(value["command"]))


def test_every_program_of_a_vendors_has_a_login() -> None:
    without = [each.name for each in load_drivers() if not each.access.login and each.program.install.package]
    assert without == []


@pytest.mark.parametrize("agent", list(_VERSIONS))
def test_a_run_without_key_and_login_starts_nothing_and_says_what_to_do(cli_env: CliEnv, agent: str) -> None:
    refusal = expect_refusal(cli_env, "run", "hi", "-a", agent)
    assert (refusal.exit_code, refusal.code) == (4, "credentials_missing")
    assert refusal.next.startswith(f"`inspan login {agent}`, or set ")
    assert not list(cli_env.state.glob("projects/*"))


def test_an_empty_key_is_none(cli_env: CliEnv) -> None:
    refusal = expect_refusal(cli_env, "run", "hi", "-a", "claude", env={"ANTHROPIC_API_KEY": ""})
    assert (refusal.exit_code, refusal.code) == (4, "credentials_missing")
    assert "ANTHROPIC_API_KEY is set, but empty" in refusal.message
