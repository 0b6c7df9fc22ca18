"""The end of what a command has put out, kept while it works."""

from inspan.dialects.output_end import append_output


def test_a_short_output_is_kept_whole() -> None:
    assert append_output(append_output("", "one\ntw"), "o") == "one\ntwo"


def test_a_long_output_is_kept_from_the_beginning_of_a_line_on() -> None:
    kept = append_output("first\n" + "a" * 9000 + "\n" + "b" * 9000, "\nlast")
    assert kept == "b" * 9000 + "\nlast"


def test_of_a_line_that_is_too_long_nothing_is_kept() -> None:
    assert append_output("x" * 20_000, "y") == ""
