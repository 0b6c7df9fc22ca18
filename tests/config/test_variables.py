"""The layer of variables: which key a name in capitals means, and how its text is read."""

import pytest

from inspan.config import Layer
from inspan.config.keys import key_tree, leaves
from inspan.config.locations import list_variables
from inspan.config.variables import variable_name

from .home import Home


@pytest.mark.parametrize(
    ("variable", "text", "key", "value"),
    [
        ("INSPAN_RUNTIME_DEFAULT", "codex", "runtime.default", "codex"),
        ("INSPAN_RUNTIME_PRINT_COMMAND", "p", "runtime.print_command", "p"),
        ("INSPAN_LIMITS_TIMEOUT", "10m", "limits.timeout", 600.0),
        ("INSPAN_LIMITS_TIMEOUT", "90", "limits.timeout", 90.0),
        ("INSPAN_LIMITS_IDLE_TIMEOUT", "off", "limits.idle_timeout", None),
        ("INSPAN_LIMITS_MAX_TURNS", "5", "limits.max_turns", 5),
        ("INSPAN_MODELS_FAST", "m", "models.fast", "m"),
        ("INSPAN_MODELS_VERY_FAST", "m", "models.very_fast", "m"),
        ("INSPAN_AGENTS_CODEX_MODEL", "m", "agents.codex.model", "m"),
        ("INSPAN_AGENTS_MY_AGENT_MODEL", "m", "agents.my-agent.model", "m"),
        ("INSPAN_AGENTS_CODEX_SYSTEM_PROMPT", "s", "agents.codex.system_prompt", "s"),
        ("INSPAN_AGENTS_CODEX_APPEND_SYSTEM_PROMPT", "s", "agents.codex.append_system_prompt", "s"),
        ("INSPAN_AGENTS_CODEX_LOGIN", "true", "agents.codex.login", True),
        ("INSPAN_AGENTS_CODEX_LOGIN", "0", "agents.codex.login", False),
        ("INSPAN_AGENTS_CODEX_MODELS_FAST", "m", "agents.codex.models.fast", "m"),
        ("INSPAN_AGENTS_CODEX_OPTIONS", "-a, -b", "agents.codex.options", ("-a", "-b")),
        ("INSPAN_MCP_DOCS_URL", "https://example.org", "mcp.docs.url", "https://example.org"),
        ("INSPAN_MCP_MY_DOCS_COMMAND", "serve", "mcp.my_docs.command", "serve"),
    ],
)
def test_a_variable_sets_the_key_that_it_spells(home: Home, variable: str, text: str, key: str, value: object) -> None:
    config = home.load({variable: text})
    assert {tuple(path): given.value for path, given in config.given.items()} == {tuple(key.split(".")): value}
    assert config.origin(key) == Layer("environment", variable)


@pytest.mark.parametrize(
    "variable", ["INSPAN_CODEX_BIN", "INSPAN_CONTAINMENT", "INSPAN_DEBUG", "INSPAN_AGENT_NAME", "INSPAN_RUN_TOKEN"]
)
def test_other_variables_of_ours_are_no_keys(home: Home, variable: str) -> None:
    assert dict(home.load({variable: "x"}).given) == {}


def test_an_empty_variable_says_nothing(home: Home) -> None:
    assert (
        dict(home.load({"INSPAN_RUNTIME_DEFAULT": "", "INSPAN_LIMITS_TIMEOUT": "", "INSPAN_LIMITS_X": ""}).given) == {}
    )


@pytest.mark.parametrize(
    ("variable", "next_step"),
    [
        ("INSPAN_RUNTIME_DEFALT", "Did you mean INSPAN_RUNTIME_DEFAULT?"),
        ("INSPAN_LIMITS_TIME_OUT", "Did you mean INSPAN_LIMITS_TIMEOUT?"),
        ("INSPAN_AGENTS_CDOEX_MODEL", "Did you mean INSPAN_AGENTS_CODEX_MODEL?"),
        ("INSPAN_AGENTS_MODEL", "Did you mean INSPAN_AGENTS_CODEX_MODEL?"),
        ("INSPAN_MCP__URL", "`inspan config explain` lists the keys."),
    ],
)
def test_a_variable_that_names_no_key_is_refused_with_the_nearest(home: Home, variable: str, next_step: str) -> None:
    refused = home.expect_refusal({variable: "plum-4711"})
    assert refused.message == f"variable {variable!r}: names no key of the configuration."
    assert refused.next_step == next_step


@pytest.mark.parametrize(
    ("variable", "text", "told"),
    [
        ("INSPAN_RUNTIME_DEFAULT", "cdoex", "runtime.default 'cdoex': unknown agent"),
        ("INSPAN_LIMITS_TIMEOUT", "soon", "limits.timeout 'soon': is not a duration"),
        ("INSPAN_LIMITS_MAX_TURNS", "many", "limits.max_turns 'many': is not a whole number from 1"),
        ("INSPAN_AGENTS_CODEX_LOGIN", "perhaps", "agents.codex.login 'perhaps': is neither true nor false"),
        ("INSPAN_RUNTIME_MODEL", "a\udcff", r"runtime.model 'a\udcff': contains the character '\udcff'"),
        ("INSPAN_AGENTS_CODEX_PROGRAM", "bin/x", "agents.codex.program 'bin/x': is not an absolute path"),
    ],
)
def test_a_variable_whose_text_cannot_be_used_is_named(home: Home, variable: str, text: str, told: str) -> None:
    refused = home.expect_refusal({variable: text})
    assert refused.message.startswith(told)
    assert refused.message.endswith(f"(in the variable {variable}).")


def test_names_that_capitals_would_change_are_not_set_by_a_variable(home: Home) -> None:
    assert "names no key" in home.expect_refusal({"INSPAN_AGENTS_CODEX_ENV_TOKEN": "plum-4711"}).message
    assert "names no key" in home.expect_refusal({"INSPAN_MCP_DOCS_HEADERS_X": "plum-4711"}).message


def test_the_name_that_is_told_for_a_key_is_one_that_counts(home: Home) -> None:
    names = {variable_name(path): path for path, _ in leaves(key_tree()) if variable_name(path)}
    assert list_variables(dict.fromkeys(names, "x")) == list(names)
    assert variable_name(("agents", "*", "env", "*")) == ""
    assert variable_name(("agents", "my-agent", "model")) == "INSPAN_AGENTS_MY_AGENT_MODEL"
