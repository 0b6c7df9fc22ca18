"""A conversation in the terminal: over a pipe, at a dumb terminal, and at one that can do more."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from inspan.protocol.ids import make_short_name
from tests.agents.conversation import WAIT_STEP
from tests.cli_env import WAIT_S, CliEnv, wait_until

from .conftest import Open

_ESCAPES = re.compile(rb"\x1b(\[[0-9;?]*[A-Za-z]|[=>]|\][^\x07]*\x07)")


def _scenario(cli_env: CliEnv, text: str) -> str:
    path = cli_env.root / "chat.toml"
    path.write_text(text)
    return f"script:{path}"


def _argv(cli_env: CliEnv, scenario: str, *more: str) -> list[str]:
    return ["chat", "-a", "claude", "--profile", "clean", "--model-from", _scenario(cli_env, scenario), *more]


_TALK = """
[[call]]
say = "Good morning."
[[call]]
run = "echo hi > made.txt"
[[call]]
say = "Written."
[[call]]
expect = "/slash"
say = "Sent as it is."
[[call]]
expect = "two"
say = "Two lines."
"""
_SAYS = '[[call]]\nsay = "Well."\nrepeat = "always"\n'


def _chat(cli_env: CliEnv, lines: str, scenario: str, *more: str) -> subprocess.CompletedProcess[str]:
    """A chat whose lines come from a pipe."""
    argv = [sys.executable, "-m", "inspan", *_argv(cli_env, scenario, *more)]
    return subprocess.run(
        argv,
        input=lines,
        env=cli_env.env,
        cwd=cli_env.work,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


def test_lines_from_a_pipe_are_a_conversation(cli_env: CliEnv) -> None:
    lines = "hello\nwrite it\ny\n/cost\n/nope\n//slash\n\none \\\ntwo\n"
    done = _chat(cli_env, lines, _TALK, "--ask", "*")
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    wanted = ["Good morning.", "  allowed by person", "Written.", "Sent as it is.", "Two lines."]
    assert [line for line in said if line in wanted] == wanted
    assert "3 model calls" in done.stdout
    assert "There is no command /nope." in done.stdout
    assert (cli_env.work / "made.txt").exists()
    run_id = cli_env.folder().name
    assert re.findall(r"inspan chat --resume (\S+)`", done.stderr) == [make_short_name(run_id)]
    cli_env.wait_for_end(run_id)  # The command itself waits for it ten seconds at the most.
    assert cli_env.events(run_id)[-1]["reason"] == "done"


def test_the_exit_code_is_that_of_the_last_message(cli_env: CliEnv) -> None:
    done = _chat(cli_env, "hello\n", "[[call]]\nfail = {status = 401}\n")
    assert done.returncode == 4, done.stdout + done.stderr


def test_a_conversation_that_was_closed_goes_on(cli_env: CliEnv) -> None:
    _chat(cli_env, "my name is Ada\n", '[[call]]\nsay = "Good morning."\n')
    done = _chat(cli_env, "who am I?\n", '[[call]]\nexpect_anywhere = "Ada"\nsay = "Ada."\n', "--resume", "@last")
    assert (done.returncode, "Ada." in done.stdout) == (0, True), done.stdout + done.stderr


class _Terminal:
    """A chat at a terminal of its own: what is typed, and what the screen was told."""

    def __init__(self, cli_env: CliEnv, scenario: str, *, term: str) -> None:
        self._master, self._slave = pty.openpty()
        # The leader of a session gets the first terminal that it opens, and with it the signals of its keys.
        shell = ["/bin/sh", "-c", 'exec "$@" < "$0" > "$0" 2>&1', os.ttyname(self._slave)]
        self._process = subprocess.Popen(
            [*shell, sys.executable, "-m", "inspan", *_argv(cli_env, scenario)],
            env={**cli_env.env, "TERM": term},
            cwd=cli_env.work,
            start_new_session=True,
        )
        self._written = b""
        self._told = 0

    @property
    def text(self) -> str:
        return _ESCAPES.sub(b"", self._written).decode(errors="replace")

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def wait_for(self, words: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while words not in self.text:
            assert time.monotonic() < deadline, self.text
            self._read()

    def leave(self, *, keys: str = "") -> int:
        """Waits for the end; the keys are pressed again every half second, as a person would whom nobody hears."""
        pressed_at = time.monotonic()
        while self._process.poll() is None:
            self._read()
            if keys and time.monotonic() > pressed_at + 0.5:
                pressed_at = time.monotonic()
                self.type(keys)
        return self._process.returncode

    def leave_by_ctrl_c(self) -> None:
        """One Ctrl-C, and one more whenever it is said that this leaves: after two seconds it is the first one again,
        and none may come while the session is being closed.
        """
        heard = -1
        while self._process.poll() is None:
            if (said := self.text.count("(Ctrl-C again leaves)")) > heard:
                heard = said
                self.type("\x03")
            self._read()

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(timeout=WAIT_S)
        os.close(self._master)
        os.close(self._slave)

    def _read(self) -> None:
        if not select.select([self._master], [], [], 0.1)[0]:
            return
        with suppress(OSError):  # The other end is closed.
            self._written += os.read(self._master, 65536)
            while self._told < self._written.count(b"\x1b[6n"):
                self._told += 1
                os.write(self._master, b"\x1b[1;1R")  # Where the cursor is.


@pytest.fixture(params=["dumb", "xterm"])
def terminal(cli_env: CliEnv, request: pytest.FixtureRequest) -> Iterator[_Terminal]:
    last = '[[call]]\nsay = "Still here."\nrepeat = "always"\n'
    scenario = f'[[call]]\nsay = "Good morning."\n[[call]]\n{WAIT_STEP}\n{last}'
    made = _Terminal(cli_env, scenario, term=request.param)
    yield made
    made.close()


def test_a_turn_is_stopped_and_the_conversation_goes_on(cli_env: CliEnv, terminal: _Terminal) -> None:
    terminal.wait_for("›")
    terminal.type("hello\r")
    terminal.wait_for("Good morning.")
    terminal.type("wait\r")
    terminal.wait_for("touch started")
    _wait_for(cli_env.work / "started")
    terminal.type("/stop\r")
    terminal.wait_for("cancelled (interrupted)")
    terminal.type("go on\r")
    terminal.wait_for("Still here.")
    wait_until(lambda: cli_env.kinds().count("message_ended") == 3, "end of the turn")
    assert terminal.leave(keys="\x04") == 0
    terminal.wait_for("go on with `inspan chat --resume")


@pytest.mark.parametrize(("terminal", "key"), [("dumb", "Ctrl-C"), ("xterm", "Esc")], indirect=["terminal"])
def test_the_help_names_the_key_that_interrupts_here(terminal: _Terminal, key: str) -> None:
    terminal.wait_for("›")
    terminal.type("/help\r")
    terminal.wait_for("//TEXT")
    assert f"interrupt the turn; {key} does the same" in terminal.text
    terminal.leave(keys="\x04")


@pytest.mark.parametrize("terminal", ["xterm"], indirect=True)
def test_escape_interrupts_and_ctrl_c_leaves(cli_env: CliEnv, terminal: _Terminal) -> None:
    terminal.wait_for("›")
    terminal.type("hello\r")
    terminal.wait_for("Good morning.")
    terminal.type("wait\r")
    _wait_for(cli_env.work / "started")
    terminal.type("\x1b")
    terminal.wait_for("cancelled (interrupted)")
    terminal.leave_by_ctrl_c()
    assert "(Ctrl-C again leaves)" in terminal.text
    terminal.wait_for("go on with `inspan chat --resume")


_TERMS = pytest.mark.parametrize("term", ["dumb", "xterm"])


@_TERMS
def test_an_answer_begins_on_a_line_of_its_own_and_the_prompt_comes_after_it(
    cli_env: CliEnv, open_terminal: Open, term: str
) -> None:
    said = f"[[call]]\n{WAIT_STEP}\n" + '[[call]]\nsay = ["Good ", "morning.\\n", "Second ", "line."]\n'
    terminal = open_terminal(*_argv(cli_env, said), env={"TERM": term})
    terminal.wait_for(lambda: terminal.lines[-1:] == ["›"], "a prompt")
    terminal.type_keys("hello\r")
    terminal.wait_for((cli_env.work / "started").exists, "tool")
    terminal.wait_for_text("touch started")
    assert "›" not in terminal.lines, "the agent's turn has no prompt"
    (cli_env.work / "go").touch()
    terminal.wait_for(lambda: terminal.lines[-1:] == ["›"], "the prompt again")
    rows = terminal.scrolled
    assert rows[-3:] == ["Good morning.", "Second line.", "›"]
    assert rows.index("› hello") == min(at for at, row in enumerate(rows) if row.startswith("●")) - 1
    assert [row for row in rows if row.startswith("›")] == ["› hello", "›"]
    terminal.type_keys("\x04")
    assert terminal.wait_for_end() == 0
    assert terminal.scrolled[-1].startswith("inspan: closed")


@_TERMS
def test_what_was_typed_before_a_question_does_not_answer_it(cli_env: CliEnv, open_terminal: Open, term: str) -> None:
    scenario = f"[[call]]\n{WAIT_STEP}\n" + '[[call]]\nwrite = {path = "made.txt", content = "x"}\n' + _SAYS
    terminal = open_terminal(*_argv(cli_env, scenario, "--ask", "Write"), env={"TERM": term})
    terminal.wait_for(lambda: terminal.lines[-1:] == ["›"], "a prompt")
    terminal.type_keys("hello\r")
    terminal.wait_for((cli_env.work / "started").exists, "tool")
    terminal.wait_for_text("touch started")
    terminal.type_keys("y")
    terminal.wait_for(lambda: terminal.lines[-1].endswith("y"), "what was typed")
    (cli_env.work / "go").touch()
    terminal.wait_for_text("[y] once")
    if term == "xterm":  # Here the line is kept, and is the message that it was meant to be.
        terminal.wait_for(lambda: terminal.lines[-1] == "› y", "the line below the question")
        terminal.type_keys("\r")
    terminal.wait_for(lambda: terminal.lines[-1] in ("›", "? ›"), "a prompt for the answer")
    terminal.type_keys("n\r")
    (answered,) = wait_until(
        lambda: [each for each in cli_env.events() if each["kind"] == "permission_answered" and each["by"] == "person"],
        "answer",
    )
    assert (answered["allowed"], answered["reason"]) == (False, "the user said no")
    sent = [each["text"] for each in cli_env.events() if each["kind"] == "message_sent"]
    assert sent == (["hello", "y"] if term == "xterm" else ["hello"])
    assert not (cli_env.work / "made.txt").exists()


def test_a_session_that_ends_elsewhere_ends_the_chat(cli_env: CliEnv, open_terminal: Open) -> None:
    for term in ("dumb", "xterm"):
        terminal = open_terminal(*_argv(cli_env, _SAYS, "--name", term), env={"TERM": term})
        terminal.wait_for(lambda shown=terminal: shown.lines[-1:] == ["›"], "a prompt")
        assert cli_env.inspan("close", term).returncode == 0
        terminal.wait_for_end()
        assert "the session has ended" in terminal.scrolled


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + WAIT_S
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
