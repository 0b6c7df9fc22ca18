"""Which way a run's model calls take, what is refused because it needs another one, and that no proxy is in between."""

from pathlib import Path
from typing import Any

import pytest

from inspan.engine import registry
from inspan.engine.access import Access
from inspan.engine.environment import agent_environment
from inspan.engine.route import Route, check_base_url, route
from inspan.errors import BadInput
from inspan.protocol.budget import Budget
from inspan.protocol.limits import Limits
from inspan.protocol.task import Task

KEY = "sk-given-Qw8Zr5Tn2Lx9Vk4Hd7Pj"
CLAUDE, CODEX = registry.driver("claude"), registry.driver("codex")
LOGIN = Access(kind="login", words="login")
NOTHING = Access(kind="none", words="nothing")
DIRECT = Route(model_from="direct")
WISHES: dict[str, dict[str, Any]] = {
    "budgets": {"budgets": {"run": Budget(calls=100)}},
    "faults": {"faults": ("call 1: 529",)},
    "max_turns": {"limits": Limits(max_turns=3)},
    "model_from": {"model_from": "live"},
}


def a_key(variable: str) -> Access:
    return Access(kind="key", words="key", key=KEY, variable=variable)


def way(agent: str, access: Access, parent: dict[str, str] | None = None, /, **fields: Any) -> Route:
    task = Task(prompt="do it", cwd="/", agent=agent, **fields)
    return route(task, registry.driver(agent), access, {"HOME": "/nowhere", **(parent or {})})


@pytest.mark.parametrize(
    ("agent", "variable", "url"),
    [
        ("claude", "ANTHROPIC_API_KEY", "https://api.anthropic.com"),
        ("claude", "ANTHROPIC_AUTH_TOKEN", "https://api.anthropic.com"),
        ("claude", "CLAUDE_CODE_OAUTH_TOKEN", "https://api.anthropic.com"),
        ("codex", "CODEX_API_KEY", "https://api.openai.com/v1"),
    ],
)
@pytest.mark.parametrize("profile", ["user", "clean"])
def test_a_key_goes_through_the_gateway_by_itself(agent: str, variable: str, url: str, profile: str) -> None:
    found = way(agent, a_key(variable), profile=profile)
    assert found == Route(model_from="live", url=url, key=KEY, variable=variable)


@pytest.mark.parametrize(
    ("agent", "url"), [("claude", "https://api.anthropic.com"), ("codex", "https://chatgpt.com/backend-api/codex")]
)
def test_a_login_is_left_alone_until_something_needs_the_gateway(agent: str, url: str) -> None:
    assert way(agent, LOGIN) == DIRECT
    needing = ["budgets", "faults", "model_from", *(["max_turns"] if agent == "codex" else [])]
    found = [way(agent, LOGIN, **WISHES[wish]) for wish in needing]
    assert found == [Route(model_from="live", url=url)] * len(needing)
    assert way("claude", LOGIN, **WISHES["max_turns"]) == DIRECT


def test_a_limit_on_time_alone_needs_no_gateway() -> None:
    assert way("claude", LOGIN, budgets={"run": Budget(seconds=60.0)}) == DIRECT


@pytest.mark.parametrize(
    ("fields", "env", "url"),
    [
        ({}, {"ANTHROPIC_BASE_URL": "http://parent/"}, "http://parent"),
        ({"env": {"ANTHROPIC_BASE_URL": "http://task"}}, {"ANTHROPIC_BASE_URL": "http://parent"}, "http://task"),
        (
            {"env": {"ANTHROPIC_BASE_URL": "http://task"}, "base_url": "http://said/path/"},
            {"ANTHROPIC_BASE_URL": "http://parent"},
            "http://said/path",
        ),
    ],
)
def test_the_nearest_address_counts(fields: dict[str, Any], env: dict[str, str], url: str) -> None:
    assert way("claude", a_key("ANTHROPIC_API_KEY"), env, **fields).url == url
    assert way("claude", LOGIN, env, model_from="live", **fields).url == url


# Settings of the user: an agent, its file with what stands in it, a variable, and by what they are told.
OWN: dict[str, tuple[str, str, str, dict[str, str], str]] = {
    "provider": ("codex", ".codex/config.toml", 'model_provider = "x"', {}, "model_provider in ~/.codex/config.toml"),
    "address": ("codex", ".codex/config.toml", 'openai_base_url = "x"', {}, "openai_base_url in ~/.codex/config.toml"),
    "profile": ("codex", ".codex/config.toml", 'profile = "x"', {}, "profile in ~/.codex/config.toml"),
    "helper": (
        *("claude", ".claude/settings.json", '{"apiKeyHelper": "x"}', {}),
        "apiKeyHelper in ~/.claude/settings.json",
    ),
    "helper behind comments": (
        *("claude", ".claude/settings.json", '{// "mine"\n"a": "/*", "b": [1,], /* own */ "apiKeyHelper": "x",}', {}),
        "apiKeyHelper in ~/.claude/settings.json",
    ),
    "bedrock in settings": (
        *("claude", ".claude/settings.json", '{"env": {"CLAUDE_CODE_USE_BEDROCK": "1"}}', {}),
        "env.CLAUDE_CODE_USE_BEDROCK in ~/.claude/settings.json",
    ),
    "bedrock": ("claude", "", "", {"CLAUDE_CODE_USE_BEDROCK": "1"}, "CLAUDE_CODE_USE_BEDROCK is set"),
    "vertex": ("claude", "", "", {"CLAUDE_CODE_USE_VERTEX": "1"}, "CLAUDE_CODE_USE_VERTEX is set"),
}


@pytest.mark.parametrize(("agent", "file", "content", "env", "told"), OWN.values(), ids=OWN)
def test_a_way_that_the_user_has_chosen_is_left_alone(
    tmp_path: Path, agent: str, file: str, content: str, env: dict[str, str], told: str
) -> None:
    if file:
        path = tmp_path / file
        path.parent.mkdir()
        path.write_text(content)
    env = {"HOME": str(tmp_path), **env}
    access = a_key(registry.driver(agent).credentials[0])
    assert way(agent, access, env) == DIRECT
    for field in ("budgets", "model_from"):
        with pytest.raises(BadInput, match=f"choose the way to the model: {told}") as caught:
            way(agent, access, env, **WISHES[field])
        assert (caught.value.field, caught.value.next_step) == (
            field,
            "Use a key and --profile clean, or leave it out.",
        )
    assert way(agent, access, env, profile="clean").model_from == "live"
    assert way(agent, access, env, base_url="http://said").model_from == "live"
    assert way(agent, access, env, mode="complete") == DIRECT
    # It leaves the files out in this mode.
    ignored = file and agent == "claude"
    assert way(agent, access, env, mode="review").model_from == ("live" if ignored else "direct")


def test_settings_that_lie_elsewhere_are_looked_at_there(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"apiKeyHelper": "x"}')
    moved = {"CLAUDE_CONFIG_DIR": str(tmp_path)}
    assert way("claude", a_key("ANTHROPIC_API_KEY"), moved) == DIRECT
    with pytest.raises(BadInput, match=f"apiKeyHelper in {tmp_path}/settings.json"):
        way("claude", LOGIN, moved, model_from="live")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"env": 3}', '{"apiKeyHelper": ""}', "[" * 100_000, "\0"])
def test_settings_that_say_nothing_or_cannot_be_read_choose_nothing(tmp_path: Path, content: str) -> None:
    for path in (".claude/settings.json", ".codex/config.toml"):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(content)
    env = {"HOME": str(tmp_path)}
    found = [way(agent.name, a_key(agent.credentials[0]), env).model_from for agent in (CLAUDE, CODEX)]
    assert found == ["live", "live"]


@pytest.mark.parametrize("field", ["budgets", "faults", "max_turns"])
def test_a_direct_run_has_nothing_that_only_a_gateway_can_do(field: str) -> None:
    access = a_key("CODEX_API_KEY")
    assert way("codex", access, model_from="direct") == DIRECT
    with pytest.raises(BadInput, match="the gateway keeps it, and a direct run has none") as caught:
        way("codex", access, model_from="direct", **WISHES[field])
    assert (caught.value.field, caught.value.next_step) == (field, "Leave direct out.")


@pytest.mark.parametrize(
    ("access", "told"),
    [
        (a_key("CODEX_ACCESS_TOKEN"), "CODEX_ACCESS_TOKEN works only without a gateway"),
        (NOTHING, "there is neither a key nor a login that it could pass on"),
    ],
    ids=["bound", "nothing"],
)
def test_what_cannot_be_passed_on_goes_direct(access: Access, told: str) -> None:
    assert way("codex", access) == DIRECT
    with pytest.raises(BadInput, match=told):
        way("codex", access, **WISHES["budgets"])


BAD_ADDRESSES = [
    "nonsense",
    "ftp://x",
    "http://",
    "http://x:99999",
    "http://me:pass-word@x",
    "http://x?q",
    "http://a b",
]


@pytest.mark.parametrize("url", BAD_ADDRESSES)
def test_an_address_that_is_none_is_refused_before_anything_starts(url: str) -> None:
    access = a_key("ANTHROPIC_API_KEY")
    for refused in (
        lambda: check_base_url(url),
        lambda: way("claude", access, {"ANTHROPIC_BASE_URL": url}),
    ):
        with pytest.raises(BadInput) as caught:
            refused()
        assert caught.value.field == "base_url"
        assert caught.value.next_step
        assert "pass-word" not in str(caught.value)


def test_a_key_or_a_proxy_that_cannot_be_used_is_refused_before_anything_starts() -> None:
    with pytest.raises(BadInput, match="cannot stand in a header") as caught:
        way("claude", Access(kind="key", words="key", key=f"{KEY}\n", variable="ANTHROPIC_API_KEY"))
    assert KEY not in str(caught.value)
    proxied = {"https_proxy": "socks5://me:pass-word@x"}
    with pytest.raises(BadInput, match="socks5 is not spoken") as caught:
        way("claude", a_key("ANTHROPIC_API_KEY"), proxied)
    assert "pass-word" not in str(caught.value)
    assert way("claude", a_key("ANTHROPIC_API_KEY"), proxied, base_url="http://127.0.0.1:9").proxies == proxied


@pytest.mark.parametrize(
    ("given", "listed"),
    [
        ({}, None),
        ({"HTTPS_PROXY": "http://x"}, None),
        ({"HTTP_PROXY": ""}, None),
        ({"HTTP_PROXY": "http://x"}, "127.0.0.1"),
        ({"all_proxy": "http://x", "NO_PROXY": "a.b, 127.0.0.1 c"}, "a.b,c,127.0.0.1"),
        ({"http_proxy": "http://x", "NO_PROXY": "upper", "no_proxy": "lower"}, "lower,127.0.0.1"),
    ],
    ids=str,
)
def test_no_proxy_stands_before_the_gateway(given: dict[str, str], listed: str | None) -> None:
    made = agent_environment(given, driver=CODEX, others=(), clean=False, gateway=True, added={})
    assert made == given | ({} if listed is None else {"NO_PROXY": listed, "no_proxy": listed})
    assert agent_environment(given, driver=CODEX, others=(), clean=False, gateway=False, added={}) == given
