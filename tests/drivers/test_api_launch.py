"""How the agents that are an API are asked: the request that their host process is given."""

import json
from typing import Any

import pytest

from inspan.agents.registry import find_driver
from inspan.contracts.driver import Driver, Endpoint, LaunchContext
from inspan.drivers import openai_compatible, perplexity, xai

from .launches import build_launch

BEHIND = LaunchContext(
    program="/py", cwd="/w", endpoint=Endpoint(url="http://127.0.0.1:1", token="run-token", variable="XAI_API_KEY")
)
DIRECT = LaunchContext(program="/py", cwd="/w")
APIS = (openai_compatible.DRIVER, perplexity.DRIVER, xai.DRIVER)


def request(agent: Driver, place: LaunchContext = BEHIND, **fields: Any) -> tuple[dict[str, str], dict[str, Any]]:
    """The fields and the body of the request."""
    head, _, body = build_launch(agent, place, mode="complete", **fields).stdin.partition(b"\n\n")
    return dict(line.split(": ", 1) for line in head.decode().splitlines()), json.loads(body)


def test_behind_a_gateway_the_token_stands_in_the_place_of_the_key() -> None:
    launch = build_launch(xai.DRIVER, BEHIND, mode="complete")
    assert launch.env == {"XAI_API_KEY": "run-token"}
    assert launch.argv[:2] == ("/py", "-I")
    assert launch.argv[2].endswith("/transports/http_agent.py")
    fields, body = request(xai.DRIVER)
    assert fields == {"path": "/responses", "address": "http://127.0.0.1:1", "key-from": "XAI_API_KEY"}
    assert body == {
        "model": "grok-4.7",
        "input": [{"type": "message", "role": "user", "content": "do it"}],
        "stream": True,
        "store": False,
    }


def test_without_a_key_the_token_stands_in_the_address_and_no_key_is_looked_for() -> None:
    place = LaunchContext(program="/py", cwd="/w", endpoint=Endpoint(url="http://127.0.0.1:1/run/t", token="t"))
    fields, _ = request(openai_compatible.DRIVER, place, model="m")
    assert fields == {"path": "/chat/completions", "address": "http://127.0.0.1:1/run/t"}
    assert build_launch(openai_compatible.DRIVER, place, model="m").env == {}


def test_without_a_gateway_the_provider_is_asked_with_the_users_key() -> None:
    fields, _ = request(perplexity.DRIVER, DIRECT, base_url="https://h.example/v1")
    assert fields == {
        "path": "/responses",
        "address": "https://h.example/v1",
        "key-from": "PERPLEXITY_API_KEY PPLX_API_KEY",
        "clock": "yes",
    }


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        ("", {"model": "perplexity/sonar", "tools": [{"type": "web_search"}]}),
        ("openai/gpt-5.2", {"model": "openai/gpt-5.2", "tools": [{"type": "web_search"}]}),
        ("fast", {"model": "perplexity/sonar", "preset": "fast"}),
        ("sonar-pro", {"model": "perplexity/sonar", "preset": "fast"}),
        ("sonar-reasoning-pro", {"model": "perplexity/sonar", "preset": "low"}),
    ],
)
def test_a_preset_is_asked_for_with_the_providers_own_model(model: str, sent: dict[str, Any]) -> None:
    _, body = request(perplexity.DRIVER, model=model)
    assert {name: body[name] for name in ("model", "tools", "preset") if name in body} == sent


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        (("max_tokens=5",), {"max_tokens": 5}),
        (('stop=["a"]', "user=me"), {"stop": ["a"], "user": "me"}),
        (("temperature=0.5", "temperature=1"), {"temperature": 1}),
        (("x=",), {"x": ""}),
    ],
)
def test_options_are_fields_of_the_request(options: tuple[str, ...], sent: dict[str, Any]) -> None:
    plain, more = request(openai_compatible.DRIVER)[1], request(openai_compatible.DRIVER, options=options)[1]
    assert more == plain | sent


def test_an_option_that_is_null_leaves_a_field_out() -> None:
    _, body = request(perplexity.DRIVER, options=("tools=null", "stream=false"))
    assert ("tools" in body, body["stream"]) == (False, False)


@pytest.mark.parametrize("agent", APIS, ids=lambda agent: agent.name)
def test_an_api_says_that_it_cannot_act_and_why(agent: Driver) -> None:
    able = agent.capabilities
    assert (able.exec, able.review, able.complete, able.resume, able.mcp) == ("no", "yes", "yes", "no", ())
    assert {"exec", "review", "resume"} <= able.notes.keys()
    assert (agent.program.hosted, [channel.kind for channel in agent.channels]) == (True, ["http"])
    assert find_driver(agent.name) is agent
