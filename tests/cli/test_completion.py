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

from inspan.engine.registry import agent_names
from inspan.stores import index
from inspan.stores.index import Entry, Row
from tests.house import WAIT_S, House

from .scenes import FAILS, SAYS_HELLO, ended_run, let_go, waiting_run

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


def environment(house: House) -> dict[str, str]:
    return {**house.env, "PATH": f"{PROGRAMS}{os.pathsep}{house.env['PATH']}"}


def offered(house: House, *words: str, env: dict[str, str] | None = None) -> list[str]:
    """What Bash offers for the last of these words."""
    done = subprocess.run(
        ["bash", "--norc", "-c", _ASK_BASH, "bash", *words],
        env={**environment(house), **(env or {})},
        cwd=house.work,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def answered(house: House, shell: str, line: str, word: str | int) -> str:
    """What inspan answers to a shell's script."""
    env = {**house.env, "_INSPAN_COMPLETE": f"{shell}_complete", "COMP_WORDS": line, "COMP_CWORD": str(word)}
    done = subprocess.run(
        house.argv(), env=env, cwd=house.work, capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, str]) -> Iterator[House]:
    """A house with two ended runs and a living one."""
    made = House(tmp_path_factory.mktemp("busy"), binaries=binaries)
    for scenario in (SAYS_HELLO, FAILS):
        ended_run(made, scenario)
    waiting_run(made)
    yield made
    let_go(made)
    made.close()


@pytest.fixture(scope="module")
def ids(busy: House) -> tuple[str, str, str]:
    """Its runs: living, failed, completed."""
    living, failed, completed = busy.inspan("ps", "-aq").stdout.split()
    return living, failed, completed


def test_commands_are_offered_by_their_beginning(busy: House) -> None:
    assert offered(busy, "inspan", "sto") == ["stop"]
    assert offered(busy, "inspan", "re") == ["record", "reindex", "replay"]
    every = offered(busy, "inspan", "")
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
        (("inspan", "agents", ""), ["install", "show"]),
        (("inspan", "run", "-a", ""), AGENTS),
        (("inspan", "run", "'fix it'", "--agent", "co"), ["codex", "copilot"]),
        (("inspan", "zzz"), []),
        (("inspan", "show", "zzz"), []),
    ],
    ids=lambda value: " ".join(value),
)
def test_options_and_their_values_are_offered(busy: House, words: tuple[str, ...], expected: list[str]) -> None:
    assert offered(busy, *words) == expected


@pytest.mark.parametrize(
    "words", [("inspan", "-a", ""), ("inspan", "'fix it'", "-a", ""), ("inspan", "-q", "-a", "")], ids=" ".join
)
def test_the_short_form_of_run_is_completed_like_the_long_one(busy: House, words: tuple[str, ...]) -> None:
    assert offered(busy, *words) == AGENTS


@pytest.mark.parametrize("command", ["stop", "kill"])
def test_only_living_runs_are_offered_where_runs_are_ended(
    busy: House, ids: tuple[str, str, str], command: str
) -> None:
    assert offered(busy, "inspan", command, "") == [ids[0], "@last"]


@pytest.mark.parametrize("command", ["logs", "wait", "show", "events"])
def test_living_runs_are_offered_first_and_then_the_newest(
    busy: House, ids: tuple[str, str, str], command: str
) -> None:
    living, failed, completed = ids
    assert offered(busy, "inspan", command, "") == [living, "@last", failed, completed]
    assert offered(busy, "inspan", command, "--json", "") == [living, "@last", failed, completed]


def test_runs_are_offered_whose_session_may_go_on(busy: House, ids: tuple[str, str, str]) -> None:
    living, failed, completed = ids
    assert offered(busy, "inspan", "run", "--resume", "") == [living, "@last", failed, completed]
    assert offered(busy, "inspan", "'go on'", "-r", completed[:-1]) == [completed]


@pytest.mark.parametrize("command", ["rm", "record"])
def test_only_ended_runs_are_offered_where_a_living_one_is_refused(
    busy: House, ids: tuple[str, str, str], command: str
) -> None:
    assert offered(busy, "inspan", command, "") == ["@last", *ids[1:]]


def test_runs_are_offered_by_their_beginning(busy: House, ids: tuple[str, str, str]) -> None:
    for run_id in ids:
        assert offered(busy, "inspan", "show", run_id[:-1]) == [run_id]
    assert offered(busy, "inspan", "show", ids[0][:2]) == list(ids)
    assert offered(busy, "inspan", "show", "19") == []


def test_a_run_that_stands_on_the_line_is_not_offered_again(busy: House, ids: tuple[str, str, str]) -> None:
    assert offered(busy, "inspan", "rm", ids[1], "") == ["@last", ids[2]]
    assert offered(busy, "inspan", "stop", "@last", ids[0], "") == []


def test_no_more_than_fifty_runs_are_offered_and_older_ones_by_their_beginning(house: House) -> None:
    names = [f"20260102-{number:09d}-7" for number in range(60)]
    rows = [Row(name, "p", "t", "a", 0.0, 0.0, "completed", "done", "", 0, None, "") for name in names]
    index.put(str(house.state), [Entry(row=row) for row in rows])
    assert offered(house, "inspan", "rm", "") == ["@last", *names[:-50:-1]]
    assert offered(house, "inspan", "rm", names[0][:-2]) == [names[0]]


@pytest.mark.parametrize("typed", ["@", "@l", "@last"])
def test_the_last_run_is_completed_though_bash_cuts_words_there(busy: House, typed: str) -> None:
    assert typed_into_bash(busy, f"inspan show {typed}\t") == "inspan show @last "


def test_a_line_is_completed_as_it_is_typed(busy: House, ids: tuple[str, str, str]) -> None:
    assert typed_into_bash(busy, "inspan sto\t2\t") == f"inspan stop {ids[0]} "
    assert typed_into_bash(busy, "inspan kill @la\t2\t") == f"inspan kill @last {ids[0]} "
    assert typed_into_bash(busy, "inspan zzz\t") == "inspan zzz"
    (busy.work / "kept.jsonl").touch()
    assert typed_into_bash(busy, "inspan replay ke\t") == "inspan replay kept.jsonl "


def typed_into_bash(house: House, keys: str) -> str:
    """The line that stands in an interactive Bash after these keys."""
    ours, theirs = pty.openpty()
    env = {**environment(house), "TERM": "dumb", "PS1": "", "INPUTRC": "/dev/null"}
    process = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        env=env,
        cwd=house.work,
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
def test_each_shell_is_answered_in_its_own_way(busy: House, shell: str, word: str | int, expected: str) -> None:
    assert answered(busy, shell, "inspan sto", word) == expected


def test_what_a_prompt_holds_cannot_disturb_the_line(house: House) -> None:
    model = house.scenario(SAYS_HELLO)
    house.inspan("run", "a\x1b[2J\x07\tb\nc", "-a", "scripted", "--model-from", model)
    run_id = house.inspan("ps", "-aq").stdout.strip()
    assert answered(house, "zsh", "inspan show 2", 2) == f"plain\n{run_id}\nscripted completed: a [2J b c\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_asks_in_silence(untouched: House, shell: str) -> None:
    done = untouched.inspan("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    asking = [line for line in done.stdout.splitlines() if "_INSPAN_COMPLETE=" in line or "COMP_CWORD=(comm" in line]
    assert [line for line in asking if "2>/dev/null" not in line and not line.endswith("\\")] == []
    assert asking
    assert shell != "fish" or "--max 1" in done.stdout
    as_json = untouched.inspan("completion", shell, "--json").stdout
    assert json.loads(as_json) == {"schema": 1, "shell": shell, "script": done.stdout}
    assert not untouched.state.exists()


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shutil.which(shell)])
def test_the_script_is_one_of_its_shell(untouched: House, shell: str) -> None:
    script = untouched.root / f"completion.{shell}"
    script.write_text(untouched.inspan("completion", shell).stdout)
    done = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("shell", ["csh", ""])
def test_an_unknown_shell_is_refused(untouched: House, shell: str) -> None:
    done = untouched.inspan("completion", shell)
    assert (done.returncode, done.stdout) == (2, "")
    assert all(f"'{known}'" in done.stderr for known in SHELLS)


def _no_database(house: House) -> None:
    house.state.mkdir(mode=0o700)
    (house.state / "index.db").write_bytes(b"no database at all, " * 300)


def _no_folder(house: House) -> None:
    house.state.write_text("mine")


def _odd_runs(house: House) -> None:
    run_id = waiting_run(house)
    (house.folder(run_id) / "run.json").write_text("[]")
    let_go(house)


@pytest.mark.parametrize("spoil", [_no_database, _no_folder, _odd_runs])
def test_a_broken_state_folder_is_no_reason_to_disturb_the_line(house: House, spoil: object) -> None:
    assert callable(spoil)
    spoil(house)
    assert set(offered(house, "inspan", "show", "")) <= {"@last"}
    assert offered(house, "inspan", "sho") == ["show"]


def test_a_living_run_is_offered_though_the_index_is_broken(house: House) -> None:
    run_id = waiting_run(house)
    (house.state / "index.db").write_bytes(b"no database at all, " * 300)
    assert offered(house, "inspan", "show", "") == [run_id, "@last"]
    let_go(house)


def test_an_inspan_that_is_gone_is_no_reason_to_disturb_the_line(untouched: House) -> None:
    script = untouched.inspan("completion", "bash").stdout
    ask = script + 'COMP_WORDS=(inspan s) COMP_CWORD=1\n_inspan_words inspan\nprintf "%s" "${COMPREPLY[@]}"\n'
    done = subprocess.run(["bash", "--norc", "-c", ask], env=untouched.env, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_completing_a_command_imports_none(untouched: House) -> None:
    asked = {"COMP_WORDS": "inspan s", "COMP_CWORD": "1", "_INSPAN_COMPLETE": "bash_complete"}
    script = "import sys; from inspan.cli.start import run\ntry: run([])\nfinally: print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", script], env={**untouched.env, **asked}, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["plain,schema", "plain,show", "plain,stop"]
    assert [name for name in done.stderr.split() if name.startswith(("inspan.cli.commands.", "msgspec"))] == []
