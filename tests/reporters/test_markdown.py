"""Markdown on a terminal: the same in any pieces, and as early as it can be decided."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspan.reporters.live_screen import Span
from inspan.reporters.markdown import MarkdownStream
from inspan.reporters.text import MAX_OUTPUT_BYTES


def render(*pieces: str) -> list[Span]:
    """What is shown of a text that came in these pieces; neighbours that look alike are one."""
    stream = MarkdownStream()
    spans = [span for piece in pieces for span in stream.feed(piece)] + list(stream.end())
    joined: list[Span] = []
    for text, style in spans:
        if joined and joined[-1][1] == style:
            joined[-1] = joined[-1][0] + text, style
        elif text:
            joined.append((text, style))
    return joined


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain words", [("plain words", "")]),
        ("# Title\ntext", [("Title", "bold"), ("\ntext", "")]),
        ("a **bold** word", [("a ", ""), ("bold", "bold"), (" word", "")]),
        ("an *italic* one", [("an ", ""), ("italic", "italic"), (" one", "")]),
        ("see `a*b*c` there", [("see ", ""), ("`a*b*c`", "cyan"), (" there", "")]),
        ("- one\n* two", [("• one\n• two", "")]),
        ("  - nested", [("  • nested", "")]),
        ("[docs](https://a.example/x)", [("docs", ""), (" (https://a.example/x)", "dim")]),
        ("```py\na = '**x**'\n```\n**b**", [("```py", "dim"), ("\n", ""), ("a = '**x**'", "cyan"), ("\n", ""),
         ("```", "dim"), ("\n", ""), ("b", "bold")]),
        ("| a | b |\n|---|---|\n| c | **d** |", [("  ", ""), ("a", "bold"), ("  ", ""), ("b", "bold"), ("\n", ""),
         ("  ─  ─", "dim"), ("\n  c  ", ""), ("d", "bold"), ("\n", "")]),
        ("| a | b |\nno table", [("| a | b |\nno table", "")]),
        ("> quoted", [("> quoted", "")]),
    ],
)  # fmt: skip
def test_each_mark_is_shown_as_what_it_means(text: str, shown: list[Span]) -> None:
    assert render(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "snake_case_name",
        "2*3*4",
        "2 * 3 * 4",
        "*.py and *.md",
        "**open",
        "a ` tick",
        "[not a link]",
        "__init__.py",
        "\\*x\\*",
    ],
)
def test_what_only_looks_like_a_mark_is_left_alone(text: str) -> None:
    assert render(text) == [(text, "")]


ALPHABET = ["**", "*", "_", "`", "[a](b)", "# ", "- ", "| ", "|-|\n", "```\n", "\n", "word", " ", "x"]


@given(st.lists(st.sampled_from(ALPHABET), max_size=14), st.data())
def test_every_chunking_shows_what_the_whole_would_show(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert render(*pieces) == render(text)


def test_a_paragraph_is_shown_before_its_line_ends() -> None:
    stream = MarkdownStream()
    assert "".join(text for text, _ in stream.feed("A long paragraph with no end ")) == "A long paragraph with no end "


def test_an_open_mark_is_waited_for_and_not_for_ever() -> None:
    stream = MarkdownStream()
    assert "".join(text for text, _ in stream.feed("Words **and then")) == "Words "
    assert "".join(text for text, _ in stream.feed(" many more" * 30)).startswith("**and then many more")


@pytest.mark.parametrize("mark", ["**a ", "*a ", "`a ", "``a` ", "[a](b ", "**`*[~~ "])
def test_a_long_line_of_marks_that_never_close_takes_no_minutes(mark: str) -> None:
    text = mark * (MAX_OUTPUT_BYTES // len(mark))
    began = time.process_time()
    stream = MarkdownStream()
    shown = "".join(text for text, _ in [*stream.feed(text), *stream.end()])
    assert shown == text
    assert time.process_time() - began < 5.0
