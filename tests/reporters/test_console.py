"""The console reporter: stderr, redacted and then cut, nodes one by one and side by side, and a summary."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inspan.protocol.events import Event, TextDelta, TextSaid, ToolCompleted, ToolStarted
from inspan.redaction import SecretSet, find_secrets
from inspan.reporters.console import ConsoleReporter
from inspan.reporters.events import report_events
from inspan.reporters.text import MAX_OUTPUT_BYTES
from tests.soak import rounds

from .results import BROKEN, BUILT, FIXED, LIMITED, SKIPPED, node, report
from .sample_events import ENDED, run_started

BOUNDED = settings(max_examples=rounds(300))
SECRET = "Qz7-4kP9vX2mN8bT5wR1"
ENV = {"MY_TOKEN": SECRET, "HOME": "/home/somebody", "EDITOR": "supersecretvi"}
MARKER = "[REDACTED:MY_TOKEN]"
TOKENS = "tokens: 200 in, 40 cache read, 20 cache write, 14 out (6 reasoning)"


def outputs(*chunks: str, env: dict[str, str] | SecretSet | None = None) -> str:
    """What is shown of the chunks of one node."""
    screen = io.StringIO()
    reporter = ConsoleReporter(env, stream=screen, alone=True)
    for chunk in chunks:
        reporter.node_output("build", chunk)
    reporter.node_complete("build", BUILT)
    return screen.getvalue()


def show_events(*events: Event, lines: int | None = 12, colour: bool = False) -> str:
    screen = io.StringIO()
    told = report_events(ConsoleReporter(ENV, stream=screen, lines=lines, colour=colour, alone=True))
    for event in events:
        told.show(event)
    return screen.getvalue()


def test_it_writes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    ConsoleReporter({"MY_TOKEN": "supersecretvalue123"}).node_output("test", "found supersecretvalue123 in output\n")
    assert capsys.readouterr() == ("", "── test\nfound [REDACTED:MY_TOKEN] in output\n")


def test_a_process_without_stderr_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    reporter = ConsoleReporter()
    reporter.node_output("build", "words\n")
    reporter.run_complete(report(node("build", BUILT)))


def test_a_node_begins_says_something_and_ends() -> None:
    screen = io.StringIO()
    reporter = ConsoleReporter(stream=screen)
    reporter.node_start("build", "command")
    reporter.node_output("build", "compiling, ")
    reporter.node_output("build", "linking")
    reporter.node_complete("build", BROKEN)
    assert screen.getvalue() == "── build (command)\ncompiling, linking\n✘ build: failed in 0.5s\n  exit code 2\n"


def test_the_ending_of_an_agents_node_has_everything_that_is_known() -> None:
    screen = io.StringIO()
    reporter = ConsoleReporter(stream=screen)
    reporter.node_complete("fix", FIXED)
    reporter.node_complete("check", LIMITED)
    reporter.node_complete("deploy", SKIPPED)
    assert screen.getvalue().splitlines() == [
        "✔ fix: completed in 1m02s",
        "  files changed: a.py, b.py",
        f"  {TOKENS} · cost: $0.0125",
        "✘ check: limited (rate_limit) in 2.0s",
        "  too many requests",
        "  files changed: none reported",
        "  tokens: 10 in, 1 out · cost: unknown",
        "  → Wait.",
        "– deploy: skipped",
    ]


def test_the_summary_of_a_run_has_duration_statuses_tokens_and_cost() -> None:
    screen = io.StringIO()
    nodes = node("build", BROKEN), node("fix", FIXED), node("check", LIMITED), node("deploy", SKIPPED)
    ConsoleReporter(stream=screen).run_complete(report(*nodes, status="failed"))
    assert screen.getvalue().splitlines() == [
        "✘ run: failed in 1m05s",
        "  ✘ build   command  failed in 0.5s",
        "  ✔ fix     agent    completed in 1m02s",
        "  ✘ check   agent    limited (rate_limit) in 2.0s",
        "  – deploy  command  skipped",
        "  tokens: 210 in, 40 cache read, 20 cache write, 15 out (6 reasoning) · cost: $0.0125 + unknown for check",
    ]


def test_tokens_and_cost_that_nobody_reported_are_called_so() -> None:
    screen = io.StringIO()
    ConsoleReporter(stream=screen).run_complete(report(node("build", BUILT)))
    assert screen.getvalue().splitlines() == [
        "✔ run: success in 1m05s",
        "  ✔ build  command  success in 0.2s",
        "  tokens: not reported · cost: unknown",
    ]


def test_a_run_that_is_its_only_node_is_summed_up_once_and_without_names() -> None:
    assert show_events(run_started(model_from="script:/s"), TextSaid(text="Done."), ENDED).splitlines() == [
        "▶ anyone 1.2 · /w · scripted model s",
        "  run hkb3 (20260101-000000000-1)",
        "Done.",
        "✔ completed in 1.5s",
        "  files changed: /w/a",
        "  tokens: 3 in, 2 out · cost: not paid ($0.50 at list prices)",
    ]


def test_nodes_side_by_side_are_shown_in_whole_lines_with_their_names() -> None:
    screen = io.StringIO()
    reporter = ConsoleReporter(stream=screen)
    reporter.node_start("build", "command")
    reporter.node_output("build", "one\ntw")
    reporter.node_start("fix", "agent")
    for name, chunk in [("build", "o\nth"), ("fix", "I "), ("build", "ree"), ("fix", "look.\nAnd"), ("build", "\n")]:
        reporter.node_output(name, chunk)
    reporter.node_complete("build", BUILT)
    reporter.node_output("fix", " now?")
    reporter.node_complete("fix", BUILT)
    assert screen.getvalue().splitlines() == [
        "── build (command)",
        "one",
        "tw",
        "── fix (agent)",
        "── build",
        "o",
        "── fix",
        "I look.",
        "── build",
        "three",
        "✔ build: success in 0.2s",
        "── fix",
        "And now?",
        "✔ fix: success in 0.2s",
    ]


def test_a_node_is_named_again_after_the_ending_of_another() -> None:
    screen = io.StringIO()
    reporter = ConsoleReporter(stream=screen)
    reporter.node_output("fix", "one\n")
    reporter.node_complete("build", BUILT)
    reporter.node_output("fix", "two\n")
    assert screen.getvalue().splitlines() == ["── fix", "one", "✔ build: success in 0.2s", "── fix", "two"]


def test_a_line_that_does_not_end_is_not_waited_for() -> None:
    screen = io.StringIO()
    reporter = ConsoleReporter(stream=screen)
    reporter.node_output("fix", "I look.\n")
    reporter.node_output("build", "." * 40_000)
    assert "." not in screen.getvalue().removeprefix("── fix\nI look.\n")
    reporter.node_output("build", "." * 40_000)
    assert screen.getvalue() == f"── fix\nI look.\n── build\n{'.' * 80_000}"


@pytest.mark.parametrize("at", range(1, len(SECRET)))
def test_a_secret_that_is_split_over_two_chunks_is_redacted(at: int) -> None:
    assert outputs(f"it is {SECRET[:at]}", f"{SECRET[at:]}, ok\n", env=ENV) == f"it is {MARKER}, ok\n"


def test_secrets_of_different_nodes_are_different_streams() -> None:
    screen = io.StringIO()
    reporter = ConsoleReporter(ENV, stream=screen)
    for name, chunk in [("a", f"{SECRET[:9]}"), ("b", f"x {SECRET[:9]}"), ("a", SECRET[9:]), ("b", f"{SECRET[9:]} y")]:
        reporter.node_output(name, chunk)
    reporter.node_complete("a", BUILT)
    reporter.node_complete("b", BUILT)
    assert screen.getvalue().splitlines()[0::3] == ["── a", "── b"]
    assert screen.getvalue().splitlines()[1::3] == [MARKER, f"x {MARKER} y"]


def test_what_only_looked_like_a_secret_is_shown_when_the_node_ends() -> None:
    assert outputs(f"it is {SECRET[:9]}", env=ENV) == f"it is {SECRET[:9]}\n"


def test_what_only_looked_like_a_secret_is_shown_before_what_follows_it() -> None:
    pieces = TextDelta(block="1", text="it is "), TextDelta(block="1", text=SECRET[:9])
    shown = show_events(*pieces, ToolStarted(id="1", name="bash", input="ls"))
    assert shown == f"it is {SECRET[:9]}\n● bash  ls\n"


def test_what_only_looked_like_a_secret_is_shown_when_the_run_ends_first() -> None:
    screen = io.StringIO()
    reporter = ConsoleReporter(ENV, stream=screen)
    reporter.node_output("build", SECRET[:9])
    reporter.run_complete(report())
    assert screen.getvalue().splitlines()[:2] == ["── build", SECRET[:9]]


def test_only_variables_that_look_secret_are_redacted() -> None:
    assert outputs("/home/somebody supersecretvi\n", env=ENV) == "/home/somebody supersecretvi\n"


def test_a_set_of_secrets_is_used_as_it_is() -> None:
    assert outputs("supersecretvi\n", env=SecretSet({"EDITOR": "supersecretvi"})) == "[REDACTED:EDITOR]\n"


def test_a_value_of_seven_characters_is_no_secret_and_one_of_eight_is() -> None:
    assert outputs("Qz7-4kP Qz7-4kP9\n", env={"A_TOKEN": "Qz7-4kP"}) == "Qz7-4kP Qz7-4kP9\n"
    assert outputs("Qz7-4kP Qz7-4kP9\n", env={"A_TOKEN": "Qz7-4kP9"}) == "Qz7-4kP [REDACTED:A_TOKEN]\n"


@BOUNDED
@given(st.lists(st.sampled_from([SECRET, SECRET[:7], SECRET[-7:], "\n", "漢", "z " * 9]), max_size=8), st.data())
def test_every_chunking_shows_what_the_whole_would_show(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts) + "."
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    chunks = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert outputs(*chunks, env=ENV) == SecretSet(find_secrets(ENV)).redact_text(text) + "\n"


def test_a_chunk_over_the_limit_is_cut_and_the_next_one_is_shown() -> None:
    shown = outputs("x" * (MAX_OUTPUT_BYTES + 9), "more\n")
    assert shown == "x" * MAX_OUTPUT_BYTES + "\n[… 9 more bytes]\nmore\n"


@pytest.mark.parametrize("before_border", [1, 10, len(SECRET) - 1])
def test_redaction_comes_before_the_cut(before_border: int) -> None:
    head = "x" * (MAX_OUTPUT_BYTES - before_border)
    whole = head + MARKER + "y" * 1000
    missing = len(whole) - MAX_OUTPUT_BYTES
    assert outputs(f"{head}{SECRET}{'y' * 1000}", env=ENV) == f"{whole[:MAX_OUTPUT_BYTES]}\n[… {missing} more bytes]\n"


def test_redaction_comes_before_everything_that_shortens_an_event() -> None:
    events = (
        ToolStarted(id="1", name="bash", input={"command": "x" * 150 + SECRET}),
        ToolStarted(id="1", name="odd", input={"k": f"two\nlines {SECRET}"}),
        ToolCompleted(id="1", output="x" * (MAX_OUTPUT_BYTES - 5) + SECRET),
    )
    shown = show_events(*events, ENDED)
    assert not any(SECRET[at : at + 4] in shown for at in range(len(SECRET) - 3))
    assert shown.startswith(f"● bash  {'x' * 150}[REDACTED…\n● odd  {{'k': 'two lines {MARKER}'}}\n  x")


def test_a_secret_of_several_lines_is_found_in_a_tools_output() -> None:
    screen = io.StringIO()
    key = "-----BEGIN KEY-----\nQz74kP9vX2mN8bT5wR1\n-----END KEY-----"
    told = report_events(ConsoleReporter(SecretSet({"KEY": key}), stream=screen, alone=True))
    told.show(ToolCompleted(id="1", output=f"{key}\nend\n"))
    assert screen.getvalue() == "  [REDACTED:KEY]\n  end\n"


def test_pieces_of_a_text_are_cut_together() -> None:
    pieces = [TextDelta(block="1", text=letter * 20_000) for letter in "abcd"]
    shown = show_events(*pieces, TextSaid(text="…"), TextSaid(text="next"))
    whole = "".join(piece.text for piece in pieces)
    assert shown == f"{whole[:MAX_OUTPUT_BYTES]}\n[… {80_000 - MAX_OUTPUT_BYTES} more bytes]\nnext\n"


def test_a_tools_output_is_cut_before_it_is_indented() -> None:
    shown = show_events(ToolCompleted(id="1", output="x" * MAX_OUTPUT_BYTES + "yz"))
    assert shown == f"  {'x' * MAX_OUTPUT_BYTES}\n  [… 2 more bytes]\n"


def test_the_texts_of_two_blocks_are_two_lines() -> None:
    blocks = [TextDelta(block="1", text="one"), TextSaid(text="one"), TextDelta(block="2", text="two")]
    assert show_events(*blocks, TextSaid(text="two")) == "one\ntwo\n"


@pytest.mark.parametrize(("lines", "count"), [(12, 12), (None, 40)])
def test_only_so_many_lines_of_a_tools_output_are_shown(lines: int | None, count: int) -> None:
    output = "".join(f"{number}\n" for number in range(1, 41))
    more = ["  … 28 more lines: inspan logs"] if lines else []
    shown = show_events(ToolCompleted(id="1", output=output), lines=lines)
    assert shown.splitlines() == [*(f"  {number}" for number in range(1, count + 1)), *more]


def test_colours_are_used_where_they_are_wanted() -> None:
    shown = show_events(ToolStarted(id="1", name="bash", input="ls"), TextSaid(text="Done."), ENDED, colour=True)
    assert shown.splitlines()[:3] == ["\x1b[36m● bash  ls\x1b[0m", "Done.", "\x1b[32m✔ completed in 1.5s\x1b[0m"]


@pytest.mark.parametrize(
    ("env", "wanted"), [({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False), ({}, False)]
)
def test_the_environment_decides_about_colours(
    monkeypatch: pytest.MonkeyPatch, env: dict[str, str], wanted: bool
) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    screen = io.StringIO()
    ConsoleReporter(stream=screen).node_start("build", "command")
    assert ("\x1b" in screen.getvalue()) is wanted


def test_no_words_of_a_node_are_obeyed_by_the_terminal() -> None:
    spell = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\x00"
    screen = io.StringIO()
    reporter = ConsoleReporter(stream=screen)
    result = type(FIXED)(status="failed", error=spell, files_changed=(spell,), next_step=spell)
    reporter.node_start(spell, spell)
    reporter.node_output(spell, spell)
    reporter.node_complete(spell, result)
    reporter.run_complete(report(node(spell, result), status="failed"))
    assert {character for character in screen.getvalue() if not character.isprintable()} == {"\n"}


def test_a_stream_that_is_not_utf8_shows_what_it_can() -> None:
    raw = io.BytesIO()
    reporter = ConsoleReporter(stream=io.TextIOWrapper(raw, encoding="ascii"))
    reporter.node_output("build", "漢 ok \ud83e\n")
    assert raw.getvalue() == b"\\u2500\\u2500 build\n\\u6f22 ok ?\n"


def test_what_is_shown_is_there_at_once() -> None:
    raw = io.BytesIO()
    reporter = ConsoleReporter(stream=io.TextIOWrapper(raw, encoding="utf-8", write_through=False))
    reporter.node_output("build", "no line end")
    assert raw.getvalue().endswith(b"no line end")
