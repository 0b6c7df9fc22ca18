"""Events of a run on an emulated terminal: tools, text, failures, endings, and the status line below them."""

import io
from typing import Any

import pyte
from msgspec.structs import replace

from inspan.protocol.events import (
    CommandExecuted,
    EndingBegan,
    ErrorReported,
    Event,
    FileChanged,
    MessageEnded,
    ModelCallEnded,
    PermissionAnswered,
    PermissionAsked,
    RateLimited,
    RunEnded,
    TextDelta,
    TextSaid,
    ThreadStarted,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from inspan.protocol.usage import Usage
from inspan.protocol.wire import Record
from inspan.reporters.live_console import LiveConsole, LiveOptions
from inspan.reporters.live_screen import LiveScreen

from .sample_events import run_started

BEGUN: list[Event] = [ThreadStarted(session_id="s"), TurnStarted()]


class Session:
    """A console on an emulated terminal; each event comes a second after the one before."""

    def __init__(self, *, columns: int = 80, rows: int = 40, colour: bool = True, **options: Any) -> None:
        self.emulated = pyte.Screen(columns, rows)
        self._feed = pyte.Stream(self.emulated)
        self.stream = io.StringIO()
        self.now = 1000.0
        self.screen = LiveScreen(self.stream, colour=colour, size=lambda: (columns, rows), clock=lambda: self.now)
        self.console = LiveConsole(self.screen, LiveOptions(**options), clock=lambda: self.now)

    def show(self, *events: Event) -> "Session":
        for event in events:
            self.now += 1.0
            self.console.show(Record(number=1, at=self.now, event=event))
        return self

    @property
    def rows(self) -> list[str]:
        self._feed.feed(self.stream.getvalue().replace("\n", "\r\n"))
        self.stream.seek(0)
        self.stream.truncate()
        rows = [row.rstrip() for row in self.emulated.display]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    @property
    def text(self) -> list[str]:
        """What is left when the status line is gone."""
        self.console.close()
        return self.rows


def shell(command: str = "pytest -q", *, id: str = "1") -> ToolStarted:
    return ToolStarted(id=id, name="bash", input={"command": command})


def test_a_tool_is_shown_when_it_starts_and_its_line_ends_with_it() -> None:
    session = Session().show(*BEGUN, shell())
    assert session.rows == ["● pytest -q", "● working · pytest -q (0s) · 2s · Ctrl-C stops"]
    session.now += 5
    session.console.tick()
    assert session.rows[-1] == "● working · pytest -q (5s) · 7s · Ctrl-C stops"
    session.show(ToolCompleted(id="1", output="12 passed\n"))
    assert session.rows[0] == "● pytest -q"
    session.show(CommandExecuted(id="1", command="pytest -q", exit_code=0))
    assert session.text == [f"{'● pytest -q':<70} 6.0s  ok", "  │ 12 passed"]


def test_an_exit_code_that_never_comes_is_not_waited_for() -> None:
    session = Session().show(*BEGUN, shell(), ToolFailed(id="1", output="no"))
    session.now += 1
    session.console.tick()
    assert session.rows[0] == "● pytest -q"
    session.now += 10
    session.console.tick()
    assert session.rows[0].endswith("1.0s  failed")


def test_what_failed_is_shown_by_its_end() -> None:
    output = "".join(f"line {number}\n" for number in range(1, 101)) + "E  assert 1 == 3\n"
    session = Session().show(shell(), ToolCompleted(id="1", output=output))
    session.show(CommandExecuted(id="1", command="x", exit_code=1))
    rows = session.text
    assert rows[0].endswith("1.0s  exit 1")
    assert rows[1:3] == ["  │ … 89 more lines: inspan logs", "  │ line 90"]
    assert rows[-1] == "  │ E  assert 1 == 3"


def test_a_success_is_folded_to_a_few_lines_and_all_is_shown_on_request() -> None:
    events = shell(), ToolCompleted(id="1", output="a\nb\nc\nd\ne\nf\n"), TurnCompleted()
    assert Session().show(*events).text[1:] == ["  │ … 2 more lines: inspan logs"] + [f"  │ {each}" for each in "cdef"]
    assert Session(lines=None).show(*events).text[1:] == [f"  │ {each}" for each in "abcdef"]


def test_on_a_narrow_terminal_the_ending_stands_below_the_command() -> None:
    session = Session(columns=40).show(shell("pytest -q tests/with/a/long/path/test_basket.py"))
    session.show(ToolCompleted(id="1"), CommandExecuted(id="1", command="x", exit_code=1))
    assert session.text == ["● pytest -q tests/with/a/long/path/tes…", "  1.0s  exit 1"]


def test_tools_side_by_side_are_named_where_they_end() -> None:
    session = Session().show(shell("sleep 1"), shell("sleep 2", id="2"))
    session.show(ToolCompleted(id="1"), CommandExecuted(id="1", command="x", exit_code=0))
    session.show(ToolCompleted(id="2"), CommandExecuted(id="2", command="x", exit_code=3))
    assert session.text == ["● sleep 1", "● sleep 2", "  └ sleep 1  2.0s  ok", "  └ sleep 2  3.0s  exit 3"]


def test_an_edit_is_shown_as_a_diff_and_its_file_is_not_named_again() -> None:
    given = {"file_path": "/w/basket.py", "old_string": "a\nb", "new_string": "a\nc"}
    session = Session().show(run_started(), ToolStarted(id="1", name="Edit", input=given))
    session.show(ToolCompleted(id="1", output="done"), FileChanged(path="/w/basket.py", change="modified", id="1"))
    assert session.text[2:] == ["● edit basket.py  +1 −1", "  │ -b", "  │ +c"]


def test_an_edit_that_failed_shows_why_instead() -> None:
    given = {"file_path": "/w/a", "old_string": "a", "new_string": "b"}
    session = Session().show(ToolStarted(id="1", name="Edit", input=given), ToolFailed(id="1", output="not found"))
    assert session.text[0].endswith("1.0s  failed")
    assert session.text[1:] == ["  │ not found"]


def test_a_file_that_no_title_names_is_told() -> None:
    session = Session().show(run_started(), shell("make"), FileChanged(path="/w/out.bin", change="added", id="1"))
    assert session.text[2:] == ["● make", "  added out.bin"]


def test_text_streams_in_one_line_with_the_status_below_it() -> None:
    session = Session().show(*BEGUN, TextDelta(block="1", text="I will "), TextDelta(block="1", text="look **now**"))
    assert session.rows[0].startswith("I will look")
    assert session.rows[1].startswith("● working · 3s")
    session.show(TextSaid(text="I will look **now**"), shell())
    assert session.text == ["I will look now", "● pytest -q"]


def test_without_colours_the_text_is_as_it_was_written() -> None:
    assert Session(colour=False).show(TextSaid(text="# It **works**")).text == ["# It **works**"]


def list_commands(ended: RunEnded) -> tuple[str, ...]:
    return "inspan diff", "inspan undo"


OVERLOADED = ModelCallEnded(call=1, wire="messages", status=529, message="Overloaded.")
FAILED_TURN = TurnFailed(failure="overloaded", message="API Error: 529, and many words")


def test_a_failure_is_told_once_and_in_our_words() -> None:
    ended = RunEnded(
        outcome="failed", reason="overloaded", message=FAILED_TURN.message, next="Try again.", duration_s=3
    )
    session = Session().show(OVERLOADED, ErrorReported(message=FAILED_TURN.message), FAILED_TURN, ended)
    assert session.text == [
        "✘ failed: the provider is overloaded (overloaded)",
        "  529 Overloaded.",
        "  → Try again.",
        "  3.0s",
        "  What the agent said: inspan logs --raw",
    ]


def test_what_the_agent_says_is_shown_where_nothing_else_is_known() -> None:
    ended = RunEnded(outcome="failed", reason="unknown", message=FAILED_TURN.message, next="Look.")
    assert Session().show(FAILED_TURN, ended).text[:2] == ["✘ failed (unknown)", f"  {FAILED_TURN.message}"]


def test_a_warning_that_says_something_else_is_not_lost() -> None:
    ended = RunEnded(outcome="failed", reason="crashed", message="exit code 1")
    session = Session().show(ErrorReported(message="no space left"), ErrorReported(message="exit code 1"), ended)
    assert session.text[:3] == ["! no space left", "", "✘ failed: the agent's program crashed (crashed)"]
    silent = RunEnded(outcome="failed", reason="crashed")
    assert Session().show(ErrorReported(message="no space left"), silent).text[0] == "! no space left"


def test_our_own_message_is_not_replaced_by_a_call_that_failed() -> None:
    ended = RunEnded(outcome="limited", reason="budget", message="The budget is spent.")
    refused = ModelCallEnded(call=2, wire="chat", status=402, problem="refused: budget of run 1")
    shown = Session().show(EndingBegan(reason="budget", message="The budget is spent."), refused, FAILED_TURN, ended)
    assert shown.text[:2] == [
        "✘ limited: the budget has no room for the next model call (budget)",
        "  The budget is spent.",
    ]


def test_a_fault_that_the_agent_got_over_is_told_before_it_goes_on() -> None:
    session = Session().show(OVERLOADED, OVERLOADED, TextSaid(text="Again."))
    assert session.text == ["! model call 1: 529 Overloaded. (2 times)", "Again."]


def test_what_was_held_is_told_where_there_is_no_end_to_tell_it() -> None:
    session = Session().show(OVERLOADED)
    assert session.text == []
    session.console.tell_held()
    assert session.text == ["! model call 1: 529 Overloaded."]


def test_every_warning_is_shown_on_request() -> None:
    session = Session(every_warning=True).show(OVERLOADED, FAILED_TURN, RunEnded(outcome="failed", reason="overloaded"))
    assert session.text[:2] == ["! model call 1: 529 Overloaded.", f"! turn failed (overloaded): {FAILED_TURN.message}"]


def test_a_success_is_one_line_and_what_can_be_typed_next() -> None:
    used = Usage(input=4000, output=1000, cache_read=43_000)
    ended = RunEnded(
        outcome="completed", reason="done", duration_s=14.0, usage=used, cost_usd=0.031, files_changed=["/w/a"]
    )
    session = Session(commands=list_commands).show(TextSaid(text="Done."), ended)
    assert session.text == [
        "Done.",
        "",
        "✔ completed in 14.0s · 1 file changed · 48k tokens (43k cached) · $0.031",
        "  inspan diff · inspan undo",
    ]


def test_a_summary_that_does_not_fit_is_broken_between_its_facts() -> None:
    ended = RunEnded(outcome="completed", reason="done", duration_s=14.0, usage=Usage(input=4000), cost_usd=0.031)
    assert Session(columns=40).show(ended).text == ["✔ completed in 14.0s · 4.0k tokens", "  $0.031"]


def test_a_fact_of_the_first_lines_that_does_not_fit_is_broken_between_its_words() -> None:
    confined = replace(
        run_started(), cwd="/shop", access="sandbox", private=True, sandbox="bwrap", net="gateway", timeout_s=None
    )
    rows = Session(columns=40).show(confined).rows
    assert rows[1:4] == [
        "  writes only in its folder, sees it",
        "  and the system alone (bwrap), reaches",
        "  nothing but its model",
    ]


def test_a_question_and_a_limit_are_told_in_the_status() -> None:
    session = Session().show(*BEGUN, PermissionAsked(id="q", tool="bash", input={"command": "git push"}))
    assert session.rows[-1].startswith("▲ needs you: allow git push?")
    limited = Session().show(*BEGUN, RateLimited(message="slow", resets_at=1000.0 + 3 + 845))
    assert limited.rows[-1].startswith("◷ limit lifts in 14:05")


def test_the_last_minute_is_told_and_waiting_for_a_person_does_not_count() -> None:
    session = Session(timeout_s=100.0).show(*BEGUN)
    session.now += 40
    session.console.tick()
    assert " · ends in 0:59 · " in session.rows[-1]
    session.show(PermissionAsked(id="q", tool="bash", input={"command": "git push"}))
    session.now += 500
    session.console.tick()
    assert "ends in" not in session.rows[-1]
    session.show(PermissionAnswered(id="q", allowed=True, by="person"))
    assert " · ends in 0:58 · " in session.rows[-1]


def test_the_clock_alone_is_drawn_once_a_second() -> None:
    session = Session().show(*BEGUN)
    session.now += 0.3
    session.show(shell())
    assert session.rows
    drawn: list[str] = []
    for _ in range(50):
        session.now += 0.05
        session.console.tick()
        drawn += session.stream.getvalue().split("\x1b8")[:-1]
        assert session.rows
    assert len(drawn) == 2


def test_a_spinner_turns_four_times_a_second_and_a_clock_once() -> None:
    session = Session(spins=True).show(*BEGUN)
    session.now += 0.3
    session.show(shell())
    assert session.rows
    drawn: list[str] = []
    for _ in range(40):
        session.now += 0.05
        session.console.tick()
        drawn += session.stream.getvalue().split("\x1b8")[:-1]
        assert session.rows
    assert (len(drawn), sum("working" in each for each in drawn)) == (8, 2)
    assert session.console.wait_s == 0.25
    session.show(ToolCompleted(id="1"), CommandExecuted(id="1", command="pytest", exit_code=0))
    assert session.console.wait_s == 0.5, "nothing turns while the model is waited for"


def test_a_run_that_is_over_has_no_status_line() -> None:
    session = Session(status=False).show(*BEGUN, shell())
    assert session.rows == ["● pytest -q"]


def test_a_megabyte_without_a_newline_is_one_line_and_the_status_stays_whole() -> None:
    wild = "\x1b[2J👍漢" * 200_000
    session = Session().show(*BEGUN, shell(), ToolCompleted(id="1", output=wild), TurnCompleted())
    assert session.rows[1].startswith("  │ … ")
    assert session.rows[2].startswith("  │ ")
    assert len([row for row in session.rows if row]) == 4
    assert session.rows[-1].startswith("● working · ")


def test_a_notice_that_comes_while_something_is_drawn_waits_for_it() -> None:
    session = Session().show(*BEGUN)
    written: list[str] = []

    def interrupt() -> tuple[int, int]:
        session.console.interject(lambda: written.append(session.stream.getvalue()))
        return 80, 40

    assert session.rows
    session.screen._ask_size = interrupt  # pyright: ignore[reportPrivateUsage]  a signal may come at any line
    session.show(shell())
    assert len(written) == 1
    assert written[0].endswith("\x1b8")
    session.screen._ask_size = lambda: (80, 40)  # pyright: ignore[reportPrivateUsage]
    session.stream.write("\x1b[J\n")
    assert session.show(TurnCompleted()).text == ["● pytest -q"]


def test_of_an_open_session_the_failure_of_a_message_is_told_once() -> None:
    ended = MessageEnded(id="m", outcome="failed", reason="overloaded", message="no")
    assert Session(stays_open=True).show(OVERLOADED, FAILED_TURN, ended).text == ["! failed (overloaded): no"]
