"""The names of keys: how they are written, and which one was meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspan.config.keys import find_node, format_key, parse_key
from inspan.config.locations import Scope
from inspan.errors import BadConfig

SCOPE = Scope(agents=("codex", "scripted"), home="/")


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("runtime.default", ("runtime", "default")),
        ('models."gpt-5.2"', ("models", "gpt-5.2")),
        ("models.'a\"b'", ("models", 'a"b')),
        ("models", ("models",)),
    ],
)
def test_a_key_is_a_path_of_names(key: str, path: tuple[str, ...]) -> None:
    assert parse_key(key) == path
    assert format_key(path) == key


@pytest.mark.parametrize("key", ["", ".", "a.", ".a", "a..b", 'a."b', "a b", "a\n", "a\udcff", "größe", "*"])
def test_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(BadConfig) as refused:
        parse_key(key)
    assert refused.value.message.startswith(f"key {key!r}: ")
    assert "runtime.default" in refused.value.next_step


@given(st.lists(st.text(st.characters(exclude_characters="\"'\\"), min_size=1), min_size=1).map(tuple))
def test_what_is_spelled_is_read_back(path: tuple[str, ...]) -> None:
    assert parse_key(format_key(path)) == path


@pytest.mark.parametrize(
    ("key", "problem", "next_step"),
    [
        ("runtime.defalt", "is not a known key.", "Did you mean 'runtime.default'?"),
        ("Runtime", "is not a known key.", "Did you mean 'runtime'?"),
        ("limits.start-timeout", "is not a known key.", "Did you mean 'limits.start_timeout'?"),
        ("limits.startTimeout", "is not a known key.", "Did you mean 'limits.start_timeout'?"),
        ("timeout", "is not a known key.", "Did you mean 'limits.timeout'?"),
        ("runtime.timeout", "is not a known key.", "Did you mean 'limits.timeout'?"),
        (
            "zzz",
            "is not a known key.",
            "Known here: runtime, models, limits, loop, watchdog, agents, mcp, budget, providers, prices, projects.",
        ),
        ("agents.codex.modle", "is not a known key.", "Did you mean 'agents.codex.model'?"),
        ("agents.cdoex", "names no agent.", "Did you mean 'agents.codex'? Known agents: codex, scripted."),
        ("agents.Codex", "names no agent.", "Did you mean 'agents.codex'? Known agents: codex, scripted."),
        ("agents.zzz", "names no agent.", "Known agents: codex, scripted."),
        ("mcp.docs.ulr", "is not a known key.", "Did you mean 'mcp.docs.url'?"),
        ("runtime.model.x", "runtime.model is a value and has nothing below it.", "Shorten the key."),
        ('models.""', "is not a name.", "Use letters, digits, - and _."),
        ('agents.codex.env."A=B"', "is not a name.", "Use letters, digits, - and _."),
    ],
)
def test_an_unknown_key_is_refused_with_the_one_that_was_meant(key: str, problem: str, next_step: str) -> None:
    with pytest.raises(BadConfig) as refused:
        find_node(parse_key(key), scope=SCOPE)
    assert (refused.value.message, refused.value.next_step) == (f"key {key!r}: {problem}", next_step)


def test_the_part_of_a_key_that_is_unknown_is_the_one_that_is_named() -> None:
    with pytest.raises(BadConfig, match=r"^key 'agents\.cdoex': "):
        find_node(("agents", "cdoex", "model"), scope=SCOPE)
