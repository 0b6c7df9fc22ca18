"""Which way a run's model calls take, what is refused because it needs another one, and that no proxy is in between."""

from pathlib import Path
from typing import Any

import pytest

from inspan.agents import registry
from inspan.agents.select import select_provider
from inspan.credentials.resolve import Credential
from inspan.errors import BadInput
from inspan.planning.environment import build_agent_environment
from inspan.planning.route import check_base_url, choose_route
from inspan.protocol.budget import Budget
from inspan.protocol.limits import Limits
from inspan.protocol.plan import Route
from inspan.protocol.task import Task

KEY = "sk-given-Qw8Zr5Tn2Lx9Vk4Hd7Pj"
CLAUDE, CODEX = registry.find_driver("claude"), registry.find_driver("codex")
LOGIN = Credential(kind="login", description="login")
NOTHING = Credential(kind="none", description="nothing")
DIRECT = Route(model_from="direct")
WISHES: dict[str, dict[str, Any]] = {
    "budgets": {"budgets": {"run": Budget(calls=100)}},
    "faults": {"faults": ("call 1: 529",)},
    "max_turns": {"limits": Limits(max_turns=3)},
    "model_from": {"model_from": "live"},
}


def a_key(variable: str) -> Credential:
    return Credential(kind="key", description="key", key=KEY, variable=variable)


def build_route(agent: str, access: Credential, parent: dict[str, str] | None = None, /, **fields: Any) -> Route:
    task = Task(prompt="do it", cwd="/", agent=agent, **fields)
    return choose_route(task, registry.find_driver(agent), access, {"HOME": "/nowhere", **(parent or {})})


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
    found = build_route(agent, a_key(variable), profile=profile)
    assert found == Route(model_from="live", url=url, key=KEY, variable=variable)


@pytest.mark.parametrize(
    ("agent", "url"), [("claude", "https://api.anthropic.com"), ("codex", "https://chatgpt.com/backend-api/codex")]
)
def test_a_login_is_left_alone_until_something_needs_the_gateway(agent: str, url: str) -> None:
    assert build_route(agent, LOGIN) == DIRECT
    needing = ["budgets", "faults", "model_from", *(["max_turns"] if agent == "codex" else [])]
    found = [build_route(agent, LOGIN, **WISHES[wish]) for wish in needing]
    assert found == [Route(model_from="live", url=url)] * len(needing)
    assert build_route("claude", LOGIN, **WISHES["max_turns"]) == DIRECT


def test_a_login_that_is_to_go_elsewhere_goes_through_the_gateway() -> None:
    for agent in ("claude", "codex"):
        assert build_route(agent, LOGIN, base_url="http://said/v1") == Route(model_from="live", url="http://said/v1")


GIVEN = "http://said/v1"
# How a run without a gateway gets to another address: led there (by launch or variable), by itself, or not at all.
LED = {
    "claude": "ANTHROPIC_BASE_URL",
    "codex": "OPENAI_BASE_URL",
    "gemini": "GOOGLE_GEMINI_BASE_URL",
    "qwen": "OPENAI_BASE_URL",
    "goose": "ANTHROPIC_HOST",
    "opencode": "ANTHROPIC_BASE_URL",
}
DEAF = ("codex",)
REFUSED = {"pi": "", "copilot": "COPILOT_PROVIDER_BASE_URL", "acp:agent": "ANTHROPIC_BASE_URL"}
HOSTED = ("xai", "perplexity", "openai-compatible")


def build_direct_route(agent: str, parent: dict[str, str] | None = None, /, **fields: Any) -> Route:
    driver = registry.find_driver(agent)
    driver = select_provider(driver, driver.providers[0].name) if driver.providers else driver
    task = Task(prompt="do it", cwd="/", agent=agent, model_from="direct", **fields)
    access = a_key(driver.provider.credentials[0])
    return choose_route(task, driver, access, {"HOME": "/nowhere", **(parent or {})})


def test_every_agent_has_its_place_among_these() -> None:
    known = {*LED, *REFUSED, *HOSTED, "scripted", "acp"}
    assert {each.name for each in registry.load_drivers()} <= known


@pytest.mark.parametrize("profile", ["user", "clean"])
@pytest.mark.parametrize("agent", LED)
def test_a_direct_run_is_led_to_the_address_that_it_was_given(agent: str, profile: str) -> None:
    there = Route(model_from="direct", url=GIVEN)
    variable = {LED[agent]: f"{GIVEN}/"}
    assert build_direct_route(agent, profile=profile) == DIRECT
    assert build_direct_route(agent, {LED[agent]: "http://other"}, profile=profile, base_url=f"{GIVEN}/") == there
    expected = there if profile == "clean" or agent in DEAF else DIRECT
    assert build_direct_route(agent, variable, profile=profile) == expected
    assert build_direct_route(agent, {LED[agent]: "http://other"}, profile=profile, env=variable) == expected


@pytest.mark.parametrize("profile", ["user", "clean"])
@pytest.mark.parametrize("agent", REFUSED)
def test_a_direct_run_that_cannot_be_led_there_is_refused(agent: str, profile: str) -> None:
    with pytest.raises(BadInput, match="would go to its provider's usual address") as caught:
        build_direct_route(agent, profile=profile, base_url=GIVEN)
    assert caught.value.field == "base_url"
    assert caught.value.next_step.startswith(
        "Leave --direct out: behind the gateway the run goes there; or leave out --"
    )
    if not (variable := REFUSED[agent]):
        return
    if profile == "user":  # As by hand.
        assert build_direct_route(agent, {variable: GIVEN}) == DIRECT
        return
    with pytest.raises(BadInput) as caught:
        build_direct_route(agent, {variable: GIVEN}, profile=profile)
    assert (caught.value.field, variable in caught.value.next_step) == (variable, True)


@pytest.mark.parametrize("agent", ["gemini", "pi", "opencode", "copilot"])
@pytest.mark.parametrize("model_from", ["", "direct"])
def test_a_login_that_goes_to_its_vendor_alone_is_refused_another_address(agent: str, model_from: str) -> None:
    with pytest.raises(BadInput, match="with a login goes to its vendor's own address") as caught:
        build_route(agent, LOGIN, base_url=GIVEN, model_from=model_from)
    assert caught.value.next_step.startswith("Use a key and --profile clean; or leave out --base-url")


def test_settings_that_win_over_the_variable_of_an_address_are_named(tmp_path: Path) -> None:
    settings = tmp_path / ".qwen" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"security": {"auth": {"baseUrl": "http://other"}}}')
    with pytest.raises(BadInput, match=r"choose another provider: security\.auth\.baseUrl in ~"):
        build_direct_route("qwen", {"HOME": str(tmp_path)}, base_url=GIVEN)
    assert build_direct_route("qwen", {"HOME": str(tmp_path)}, base_url=GIVEN, profile="clean").url == GIVEN


@pytest.mark.parametrize("model", ["dashscope/x", "google/x"])
def test_a_provider_without_a_variable_for_its_address_is_refused_another(model: str) -> None:
    driver = select_provider(registry.find_driver("qwen"), model.partition("/")[0])
    task = Task(prompt="x", cwd="/", agent="qwen", model=model, model_from="direct", base_url=GIVEN)
    with pytest.raises(BadInput, match="would go to its provider's usual address"):
        choose_route(task, driver, a_key(driver.provider.credentials[0]), {"HOME": "/nowhere"})


@pytest.mark.parametrize("agent", HOSTED)
def test_an_api_is_asked_where_its_task_says(agent: str) -> None:
    assert build_direct_route(agent, base_url=GIVEN) == DIRECT  # Its request names the address itself.


def test_a_limit_on_time_alone_needs_no_gateway() -> None:
    assert build_route("claude", LOGIN, budgets={"run": Budget(seconds=60.0)}) == DIRECT


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
    assert build_route("claude", a_key("ANTHROPIC_API_KEY"), env, **fields).url == url
    assert build_route("claude", LOGIN, env, model_from="live", **fields).url == url


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
    access = a_key(registry.find_driver(agent).provider.credentials[0])
    assert build_route(agent, access, env) == DIRECT
    for field in ("budgets", "model_from"):
        with pytest.raises(BadInput, match=f"choose another provider: {told}") as caught:
            build_route(agent, access, env, **WISHES[field])
        assert (caught.value.field, caught.value.next_step) == (
            field,
            "Use a key and --profile clean, or leave it out.",
        )
    assert build_route(agent, access, env, profile="clean").model_from == "live"
    assert build_route(agent, access, env, base_url="http://said").model_from == "live"
    assert build_route(agent, access, env, mode="complete") == DIRECT
    # It leaves the files out in this mode.
    ignored = file and agent == "claude"
    assert build_route(agent, access, env, mode="review").model_from == ("live" if ignored else "direct")


def test_settings_that_lie_elsewhere_are_looked_at_there(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"apiKeyHelper": "x"}')
    moved = {"CLAUDE_CONFIG_DIR": str(tmp_path)}
    assert build_route("claude", a_key("ANTHROPIC_API_KEY"), moved) == DIRECT
    with pytest.raises(BadInput, match=f"apiKeyHelper in {tmp_path}/settings.json"):
        build_route("claude", LOGIN, moved, model_from="live")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"env": 3}', '{"apiKeyHelper": ""}', "[" * 100_000, "\0"])
def test_settings_that_say_nothing_or_cannot_be_read_choose_nothing(tmp_path: Path, content: str) -> None:
    for path in (".claude/settings.json", ".codex/config.toml"):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(content)
    env = {"HOME": str(tmp_path)}
    found = [build_route(agent.name, a_key(agent.provider.credentials[0]), env).model_from for agent in (CLAUDE, CODEX)]
    assert found == ["live", "live"]


@pytest.mark.parametrize("field", ["budgets", "faults", "max_turns"])
def test_a_direct_run_has_nothing_that_only_a_gateway_can_do(field: str) -> None:
    access = a_key("CODEX_API_KEY")
    assert build_route("codex", access, model_from="direct") == DIRECT
    with pytest.raises(BadInput, match="it needs the gateway, which a direct run does not use") as caught:
        build_route("codex", access, model_from="direct", **WISHES[field])
    assert (caught.value.field, caught.value.next_step) == (field, "Leave direct out.")


@pytest.mark.parametrize(
    ("access", "told"),
    [
        (a_key("CODEX_ACCESS_TOKEN"), "CODEX_ACCESS_TOKEN works only without a gateway"),
        (NOTHING, "there is neither a key nor a login that it could pass on"),
    ],
    ids=["bound", "nothing"],
)
def test_what_cannot_be_passed_on_goes_direct(access: Credential, told: str) -> None:
    assert build_route("codex", access) == DIRECT
    with pytest.raises(BadInput, match=told):
        build_route("codex", access, **WISHES["budgets"])


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
        lambda: build_route("claude", access, {"ANTHROPIC_BASE_URL": url}),
    ):
        with pytest.raises(BadInput) as caught:
            refused()
        assert caught.value.field == "base_url"
        assert caught.value.next_step
        assert "pass-word" not in str(caught.value)


def test_a_key_or_a_proxy_that_cannot_be_used_is_refused_before_anything_starts() -> None:
    with pytest.raises(BadInput, match="cannot be sent in a header") as caught:
        build_route("claude", Credential(kind="key", description="key", key=f"{KEY}\n", variable="ANTHROPIC_API_KEY"))
    assert KEY not in str(caught.value)
    with pytest.raises(BadInput) as caught:
        build_route("claude", Credential(kind="key", description="key in A_KEY", key="a\tb", variable="A_KEY"))
    assert caught.value.next_step == "Look at the key in A_KEY."
    proxied = {"https_proxy": "socks5://me:pass-word@x"}
    with pytest.raises(BadInput, match="socks5 is not supported") as caught:
        build_route("claude", a_key("ANTHROPIC_API_KEY"), proxied)
    assert "pass-word" not in str(caught.value)
    assert build_route("claude", a_key("ANTHROPIC_API_KEY"), proxied, base_url="http://127.0.0.1:9").proxies == proxied


@pytest.mark.parametrize(
    ("given", "listed"),
    [
        ({}, "127.0.0.1"),
        ({"HTTPS_PROXY": "http://x"}, "127.0.0.1"),
        ({"HTTP_PROXY": "http://x"}, "127.0.0.1"),
        ({"NO_PROXY": "a.b"}, "a.b,127.0.0.1"),
        ({"all_proxy": "http://x", "NO_PROXY": "a.b, 127.0.0.1 c"}, "a.b,c,127.0.0.1"),
        ({"http_proxy": "http://x", "NO_PROXY": "upper", "no_proxy": "lower"}, "lower,127.0.0.1"),
    ],
    ids=str,
)
def test_no_proxy_stands_before_the_gateway(given: dict[str, str], listed: str) -> None:
    made = build_agent_environment(given, driver=CODEX, others=(), clean=False, gateway=True, run_env={})
    assert made == given | {"NO_PROXY": listed, "no_proxy": listed}
    assert build_agent_environment(given, driver=CODEX, others=(), clean=False, gateway=False, run_env={}) == given


@pytest.mark.parametrize("rest", ["?key=s3cret-word", "#s3cret-word", "/v1?a=1&api_key=s3cret-word\n"])
def test_what_is_said_of_an_address_holds_no_key(rest: str) -> None:
    with pytest.raises(BadInput) as caught:
        check_base_url(f"https://me:s3cret-word@host{rest}")
    assert "s3cret-word" not in f"{caught.value}{caught.value.value}{caught.value.next_step}"
    assert "https://…@host" in str(caught.value)
