"""The pictures of the README show what the same sessions look like now."""

import pytest

from tests.cli_env import CliEnv
from tests.pictures import SESSIONS, THEMES, picture_path, read_picture, read_words, record_session


@pytest.mark.parametrize("name", SESSIONS)
def test_a_picture_has_the_words_of_its_session(cli_env: CliEnv, name: str) -> None:
    rows = ["".join(char.data for char in row) for row in record_session(name, cli_env)]
    for theme in THEMES:
        kept = read_picture(picture_path(name, theme))
        assert read_words(kept) == read_words(rows), "make pictures writes them anew"
