"""`completion`: what a shell offers while a line is typed, asked through the shells themselves, and never an error."""

import json
import os
import pty
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from inspan.agents.modules import agent_names
from inspan.protocol.ids import make_short_name
from inspan.stores import index
from inspan.stores.index import Entry, Row
from tests.cli_env import WAIT_S, CliEnv

from .scenarios import FAILS, SAYS_HELLO, release_tool, run_to_end, start_waiting_run

SHELLS = ("bash", "zsh", "fish")
AGENTS = list(agent_names())
PROGRAMS = str(Path(sys.executable).parent)
# Types a line into Bash's own completion and prints what it would offer.
_ASK_BASH = """
eval "$(inspan completion bash)"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
_inspan_words "$1"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def environment(cli_env: CliEnv) -> dict[str, str]:
    return {**cli_env.env, "PATH": f"{PROGRAMS}{os.pathsep}{cli_env.env['PATH']}"}


def complete_in_bash(cli_env: CliEnv, *words: str, env: dict[str, str] | None = None) -> list[str]:
    """What Bash offers for the last of these words."""
    done = subprocess.run(
        ["bash", "--norc", "-c", _ASK_BASH, "bash", *words],
        env={**environment(cli_env), **(env or {})},
        cwd=cli_env.work,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def run_completion(cli_env: CliEnv, shell: str, line: str, word: str | int) -> str:
    """What inspan answers to a shell's script."""
    env = {**cli_env.env, "_INSPAN_COMPLETE": f"{shell}_complete", "COMP_WORDS": line, "COMP_CWORD": str(word)}
    done = subprocess.run(
        cli_env.argv(), env=env, cwd=cli_env.work, capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module")
def env_with_runs(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, str]) -> Iterator[CliEnv]:
    """A house with two ended runs and a living one."""
    made = CliEnv(tmp_path_factory.mktemp("busy"), binaries=binaries)
    for scenario in (SAYS_HELLO, FAILS):
        run_to_end(made, scenario)
    start_waiting_run(made, "--timeout", "off")
    yield made
    release_tool(made)
    made.close()


@pytest.fixture(scope="module")
def ids(env_with_runs: CliEnv) -> tuple[str, str, str]:
    """Its runs: living, failed, completed."""
    living, failed, completed = env_with_runs.inspan("ps", "-aq").stdout.split()
    return living, failed, completed


def test_commands_are_offered_by_their_beginning(env_with_runs: CliEnv) -> None:
    assert complete_in_bash(env_with_runs, "inspan", "sto") == ["stop"]
    assert complete_in_bash(env_with_runs, "inspan", "re") == ["recover", "reindex", "resume"]
    every = complete_in_bash(env_with_runs, "inspan", "")
    assert {"run", "ps", "completion"} < set(every)
    assert [name for name in every if name.startswith("_")] == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("inspan", "--"), ["--version", "--help"]),
        (("inspan", "stop", "--"), ["--json", "--help"]),
        (("inspan", "run", "--model"), ["--model", "--model-from"]),
        (("inspan", "cost", "--by", ""), ["agent", "model", "run", "day", "project", "session", "task", "role"]),
        (("inspan", "prune", "--outcome", "com"), ["completed"]),
        (("inspan", "completion", ""), list(SHELLS)),
        (("inspan", "agents", ""), ["exec", "install", "show", "uninstall", "update"]),
        (("inspan", "run", "-a", ""), AGENTS),
        (("inspan", "run", "'fix it'", "--agent", "co"), ["codex", "copilot"]),
        (("inspan", "zzz"), []),
        (("inspan", "show", "zzz"), []),
    ],
    ids=lambda value: " ".join(value),
)
def test_options_and_their_values_are_offered(
    env_with_runs: CliEnv, words: tuple[str, ...], expected: list[str]
) -> None:
    assert complete_in_bash(env_with_runs, *words) == expected


@pytest.mark.parametrize(
    "words", [("inspan", "-a", ""), ("inspan", "'fix it'", "-a", ""), ("inspan", "-q", "-a", "")], ids=" ".join
)
def test_the_short_form_of_run_is_completed_like_the_long_one(env_with_runs: CliEnv, words: tuple[str, ...]) -> None:
    assert complete_in_bash(env_with_runs, *words) == AGENTS


@pytest.mark.parametrize("command", ["stop", "kill"])
def test_only_living_runs_are_offered_where_runs_are_ended(
    env_with_runs: CliEnv, ids: tuple[str, str, str], command: str
) -> None:
    assert complete_in_bash(env_with_runs, "inspan", command, "") == [ids[0], "@last"]


@pytest.mark.parametrize("command", ["logs", "wait", "show", "events"])
def test_living_runs_are_offered_first_and_then_the_newest(
    env_with_runs: CliEnv, ids: tuple[str, str, str], command: str
) -> None:
    living, failed, completed = ids
    assert complete_in_bash(env_with_runs, "inspan", command, "") == [living, "@last", failed, completed]
    assert complete_in_bash(env_with_runs, "inspan", command, "--json", "") == [living, "@last", failed, completed]


def test_runs_are_offered_whose_session_may_go_on(env_with_runs: CliEnv, ids: tuple[str, str, str]) -> None:
    living, failed, completed = ids
    assert complete_in_bash(env_with_runs, "inspan", "run", "--resume", "") == [living, "@last", failed, completed]
    assert complete_in_bash(env_with_runs, "inspan", "'go on'", "-r", completed[:-1]) == [completed]


@pytest.mark.parametrize("command", ["rm", "export"])
def test_only_ended_runs_are_offered_where_a_living_one_is_refused(
    env_with_runs: CliEnv, ids: tuple[str, str, str], command: str
) -> None:
    assert complete_in_bash(env_with_runs, "inspan", command, "") == ["@last", *ids[1:]]


def test_runs_are_offered_by_their_beginning(env_with_runs: CliEnv, ids: tuple[str, str, str]) -> None:
    for run_id in ids:
        assert complete_in_bash(env_with_runs, "inspan", "show", run_id[:-1]) == [run_id]
    assert complete_in_bash(env_with_runs, "inspan", "show", ids[0][:2]) == list(ids)
    assert complete_in_bash(env_with_runs, "inspan", "show", "19") == []


def test_a_run_that_stands_on_the_line_is_not_offered_again(env_with_runs: CliEnv, ids: tuple[str, str, str]) -> None:
    assert complete_in_bash(env_with_runs, "inspan", "rm", ids[1], "") == ["@last", ids[2]]
    assert complete_in_bash(env_with_runs, "inspan", "stop", "@last", ids[0], "") == []


def test_no_more_than_fifty_runs_are_offered_and_older_ones_by_their_beginning(cli_env: CliEnv) -> None:
    names = [f"20260102-{number:09d}-7" for number in range(60)]
    rows = [Row(name, "p", "t", "a", 0.0, 0.0, "completed", "done", "", 0, None, "") for name in names]
    index.put(str(cli_env.state), [Entry(row=row) for row in rows])
    # They are of another project.
    assert complete_in_bash(cli_env, "inspan", "rm", "") == ["@last", "@last-anywhere", *names[:-49:-1]]
    assert complete_in_bash(cli_env, "inspan", "rm", names[0][:-2]) == [names[0]]


def test_this_projects_runs_are_offered_before_those_of_the_others(cli_env: CliEnv) -> None:
    (cli_env.root / "other").mkdir()
    here, there = run_to_end(cli_env), run_to_end(cli_env, cwd=cli_env.root / "other")
    assert complete_in_bash(cli_env, "inspan", "show", "") == ["@last", here, "@last-anywhere", there]
    assert complete_in_bash(cli_env, "inspan", "show", "@last-") == ["@last-anywhere"]
    cli_env.work = cli_env.root / "other"
    assert complete_in_bash(cli_env, "inspan", "show", "") == ["@last", there, "@last-anywhere", here]
    assert complete_in_bash(cli_env, "inspan", "show", "2") == [there, here]


def test_own_names_are_offered_and_short_ones_by_their_beginning(cli_env: CliEnv) -> None:
    model = cli_env.scenario(SAYS_HELLO)
    plain = run_to_end(cli_env)
    cli_env.inspan("run", "do it", "-q", "-a", "scripted", "--model-from", model, "--name", "fix-login")
    living = start_waiting_run(cli_env, "--name", "waits")
    assert complete_in_bash(cli_env, "inspan", "show", "") == ["waits", "@last", "fix-login", plain]
    assert complete_in_bash(cli_env, "inspan", "show", "fi") == ["fix-login"]
    assert complete_in_bash(cli_env, "inspan", "stop", "w") == ["waits"]
    for run_id in (plain, living):
        assert make_short_name(run_id) in complete_in_bash(cli_env, "inspan", "logs", make_short_name(run_id)[:3])
    assert plain in complete_in_bash(cli_env, "inspan", "resume", plain[:-1])
    release_tool(cli_env)
    cli_env.inspan("wait", living)


@pytest.mark.parametrize("typed", ["@", "@l", "@last"])
def test_the_last_run_is_completed_though_bash_cuts_words_there(env_with_runs: CliEnv, typed: str) -> None:
    assert type_into_bash(env_with_runs, f"inspan show {typed}\t") == "inspan show @last "


def test_a_line_is_completed_as_it_is_typed(env_with_runs: CliEnv, ids: tuple[str, str, str]) -> None:
    assert type_into_bash(env_with_runs, "inspan sto\t2\t") == f"inspan stop {ids[0]} "
    assert type_into_bash(env_with_runs, "inspan kill @la\t2\t") == f"inspan kill @last {ids[0]} "
    assert type_into_bash(env_with_runs, "inspan zzz\t") == "inspan zzz"
    (env_with_runs.work / "kept.jsonl").touch()
    assert type_into_bash(env_with_runs, "inspan play ke\t") == "inspan play kept.jsonl "


def type_into_bash(cli_env: CliEnv, keys: str) -> str:
    """The line that stands in an interactive Bash after these keys."""
    ours, theirs = pty.openpty()
    env = {**environment(cli_env), "TERM": "dumb", "PS1": "", "INPUTRC": "/dev/null"}
    process = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        env=env,
        cwd=cli_env.work,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        os.write(
            ours, b"PS1=; bind 'set enable-bracketed-paste off'; eval \"$(inspan completion bash)\"; echo READY''\n"
        )
        _until(ours, re.compile(rb"READY\r"))
        # To the line's beginning, and to its end: what was typed and completed becomes an argument.
        os.write(ours, f"{keys}\x01printf 'LINE:[%s]\\n' \"\x05\"\n".encode())
        return _until(ours, re.compile(rb"LINE:\[(?!%)([^\]]*)\]"))[1].decode()
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _until(fd: int, words: re.Pattern[bytes]) -> re.Match[bytes]:
    seen, deadline = b"", time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        seen += os.read(fd, 65536)
        found = words.search(seen)
        if found:
            return found
    raise AssertionError(f"no {words} in {seen!r}")


@pytest.mark.parametrize(
    ("shell", "word", "expected"),
    [
        ("bash", 1, "plain,stop\n"),
        ("zsh", 1, "plain\nstop\nAsk runs to end: politely first, then by force.\n"),
        ("fish", "sto", "plain,stop\tAsk runs to end: politely first, then by force.\n"),
    ],
)
def test_each_shell_is_answered_in_its_own_way(
    env_with_runs: CliEnv, shell: str, word: str | int, expected: str
) -> None:
    assert run_completion(env_with_runs, shell, "inspan sto", word) == expected


def test_what_a_prompt_holds_cannot_disturb_the_line(cli_env: CliEnv) -> None:
    model = cli_env.scenario(SAYS_HELLO)
    cli_env.inspan("run", "a\x1b[2J\x07\tb\nc", "-a", "scripted", "--model-from", model)
    run_id = cli_env.inspan("ps", "-aq").stdout.strip()
    assert run_completion(cli_env, "zsh", "inspan show 2", 2) == f"plain\n{run_id}\nscripted completed: a [2J b c\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_asks_in_silence(readonly_env: CliEnv, shell: str) -> None:
    done = readonly_env.inspan("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    asking = [line for line in done.stdout.splitlines() if "_INSPAN_COMPLETE=" in line or "COMP_CWORD=(comm" in line]
    assert [line for line in asking if "2>/dev/null" not in line and not line.endswith("\\")] == []
    assert asking
    assert shell != "fish" or "--max 1" in done.stdout
    as_json = readonly_env.inspan("completion", shell, "--json").stdout
    assert json.loads(as_json) == {"schema": 1, "shell": shell, "script": done.stdout}
    assert not readonly_env.state.exists()


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shutil.which(shell)])
def test_the_script_is_one_of_its_shell(readonly_env: CliEnv, shell: str) -> None:
    script = readonly_env.root / f"completion.{shell}"
    script.write_text(readonly_env.inspan("completion", shell).stdout)
    done = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("shell", ["csh", ""])
def test_an_unknown_shell_is_refused(readonly_env: CliEnv, shell: str) -> None:
    done = readonly_env.inspan("completion", shell)
    assert (done.returncode, done.stdout) == (2, "")
    assert all(f"'{known}'" in done.stderr for known in SHELLS)


def _no_database(cli_env: CliEnv) -> None:
    cli_env.state.mkdir(mode=0o700)
    (cli_env.state / "index.db").write_bytes(b"no database at all, " * 300)


def _no_folder(cli_env: CliEnv) -> None:
    cli_env.state.write_text("mine")


def _odd_runs(cli_env: CliEnv) -> None:
    run_id = start_waiting_run(cli_env)
    (cli_env.folder(run_id) / "run.json").write_text("[]")
    release_tool(cli_env)


@pytest.mark.parametrize("spoil", [_no_database, _no_folder, _odd_runs])
def test_a_broken_state_folder_is_no_reason_to_disturb_the_line(cli_env: CliEnv, spoil: object) -> None:
    assert callable(spoil)
    spoil(cli_env)
    assert set(complete_in_bash(cli_env, "inspan", "show", "")) <= {"@last"}
    assert complete_in_bash(cli_env, "inspan", "sho") == ["show"]


def test_a_living_run_is_offered_though_the_index_is_broken(cli_env: CliEnv) -> None:
    run_id = start_waiting_run(cli_env)
    (cli_env.state / "index.db").write_bytes(b"no database at all, " * 300)
    assert complete_in_bash(cli_env, "inspan", "show", "") == [run_id, "@last"]
    release_tool(cli_env)


def test_an_inspan_that_is_gone_is_no_reason_to_disturb_the_line(readonly_env: CliEnv) -> None:
    script = readonly_env.inspan("completion", "bash").stdout
    ask = script + 'COMP_WORDS=(inspan s) COMP_CWORD=1\n_inspan_words inspan\nprintf "%s" "${COMPREPLY[@]}"\n'
    done = subprocess.run(["bash", "--norc", "-c", ask], env=readonly_env.env, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_completing_a_command_imports_none(readonly_env: CliEnv) -> None:
    asked = {"COMP_WORDS": "inspan s", "COMP_CWORD": "1", "_INSPAN_COMPLETE": "bash_complete"}
    script = "import sys; from inspan.cli.main import run\ntry: run([])\nfinally: print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", script], env={**readonly_env.env, **asked}, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == [f"plain,{name}" for name in ("schema", "send", "serve", "show", "stop")]
    assert [name for name in done.stderr.split() if name.startswith(("inspan.cli.commands.", "msgspec"))] == []
