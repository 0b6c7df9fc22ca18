"""A value that cannot be used is named with its file, its key and what it should be."""

import pytest

from inspan.config.editor import FileName

from .home import Home

DURATION = "It takes 90, 90s, 10m, 1h or off."


@pytest.mark.parametrize("file", ["user", "project", "local"])
@pytest.mark.parametrize(
    ("line", "told", "next_step"),
    [
        ("runtime.model = 5", "runtime.model 5: is not text", "It takes a text."),
        ("runtime.model = 2026-01-01", "runtime.model datetime.date(2026, 1, 1): is not text", "It takes a text."),
        ("runtime.model.x = 5", "runtime.model {'x': 5}: is not text", "It takes a text."),
        (
            r'runtime.model = "a\u001b[2J"',
            r"runtime.model 'a\x1b[2J': contains the character '\x1b', which has no use here",
            "It takes a text.",
        ),
        (
            'runtime.default = "cdoex"',
            "runtime.default 'cdoex': unknown agent",
            "Did you mean 'codex'? Known agents: codex, my-agent, scripted.",
        ),
        (
            'runtime.default = "zzz"',
            "runtime.default 'zzz': unknown agent",
            "Known agents: codex, my-agent, scripted.",
        ),
        ('limits.timeout = "soon"', "limits.timeout 'soon': is not a duration", DURATION),
        ("limits.timeout = true", "limits.timeout True: is not a duration", DURATION),
        ("limits.timeout = []", "limits.timeout []: is not a duration", DURATION),
        ("limits.timeout = 0", "limits.timeout 0: is not a limit: it must be more than 0 seconds", DURATION),
        ("limits.timeout = -1", "limits.timeout -1: is not a limit: it must be more than 0 seconds", DURATION),
        ("limits.timeout = nan", "limits.timeout nan: is not a limit: it must be more than 0 seconds", DURATION),
        ("limits.timeout = inf", "limits.timeout inf: is not a limit: it must be more than 0 seconds", DURATION),
        (f"limits.timeout = 1{'0' * 400}", f"limits.timeout 1{'0' * 196}…': is not a duration", DURATION),
        (
            "limits.max_turns = 0",
            "limits.max_turns 0: is not a whole number",
            "It takes a whole number from 1, or off.",
        ),
        (
            "limits.max_turns = 1.5",
            "limits.max_turns 1.5: is not a whole number",
            "It takes a whole number from 1, or off.",
        ),
        ("models.fast = 1", "models.fast 1: is not text", "It takes a text."),
        ("models = 'x'", "key 'models': is a table of keys, not a value", "Write [models], and keys below it."),
        ("[[models]]", "key 'models': is a table of keys, not a value", "Write [models], and keys below it."),
        ("agents.codex = 1", "key 'agents.codex': is a table of keys", "Write [agents.codex], and keys below it."),
        ("agents.codex.key = 'sk-4711'", "key 'agents.codex.key': is not a known key", "Did you mean"),
        ('[models]\n"a\\u0007" = "x"', "key 'models.\"a\\x07\"': is not a name", "Use letters, digits, - and _."),
    ],
)
def test_a_value_that_cannot_be_used_is_named(home: Home, file: FileName, line: str, told: str, next_step: str) -> None:
    path = home.write(file, f"{line}\n")
    refused = home.expect_refusal()
    assert refused.message.startswith(told)
    assert refused.message.endswith(f"(in {path}).")
    assert refused.next_step.startswith(next_step)
    assert refused.code == "bad_config"


@pytest.mark.parametrize(
    ("line", "told", "next_step"),
    [
        ("runtime.mode = 'all'", "runtime.mode 'all': is none of the words", "It takes exec, review or complete."),
        ("runtime.profile = []", "runtime.profile []: is none of the words", "It takes user or clean."),
        ("agents.codex.login = 'yes'", "agents.codex.login 'yes': is neither", "It takes true or false."),
        (
            "agents.codex.program = 'a/b'",
            "agents.codex.program 'a/b': is not an absolute path",
            "It takes an absolute path",
        ),
        (
            "agents.codex.options = '-v'",
            "agents.codex.options '-v': is not a list of texts",
            "It takes a list of texts.",
        ),
        ("agents.codex.options = [1]", "agents.codex.options [1]: is not text", "It takes a list of texts."),
        ("agents.codex.keyring = 'me'", "agents.codex.keyring 'me': does not name", 'It takes "service/user".'),
        ("agents.codex.env.A = 4711", "agents.codex.env.A '***': is not text", "It takes a text."),
        ("mcp.docs.headers.A = 4711", "mcp.docs.headers.A '***': is not text", "It takes a text."),
        (
            "projects.trusted = ['here']",
            "projects.trusted ['here']: is not an absolute path",
            "It takes a list of absolute",
        ),
    ],
)
def test_a_guarded_value_that_cannot_be_used_is_named(home: Home, line: str, told: str, next_step: str) -> None:
    path = home.write("user", f"{line}\n")
    refused = home.expect_refusal()
    assert refused.message.startswith(told)
    assert refused.message.endswith(f"(in {path}).")
    assert refused.next_step.startswith(next_step)


def test_what_stands_behind_an_unknown_key_is_not_repeated(home: Home) -> None:
    home.write("user", "agents.codex.key = 'sk-4711'\n")
    assert "sk-4711" not in str(home.expect_refusal())
