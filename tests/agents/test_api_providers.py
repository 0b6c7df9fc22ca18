"""Agents that are an API, before a provider on loopback that keeps books: what it is asked, with which key, by whom."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inspan.protocol.usage import Usage
from tests.cli_env import CliEnv, FinishedRun
from tests.gateway.provider import Provider, authority, refusing_address, says, stream
from tests.gateway.provider import full_response as whole_answer

from .apis import (
    COMPATIBLE,
    KEY,
    PERPLEXITY,
    XAI,
    Api,
    agent_events,
    each_api,
    each_language,
    env_without_agents,
    run_on_loopback,
)
from .fake_provider import FakeProvider, PlannedAnswer, ReceivedCall
from .gateway_runs import collect_output, find_leaks

__all__ = ["env_without_agents"]
USED = Usage(input=1_000, output=200, cache_read=300, reasoning=50)
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)


def answers(asked: ReceivedCall) -> PlannedAnswer:
    return PlannedAnswer(words="all is well", usage=USED)


@each_api
@pytest.mark.parametrize("way", [(), ("--direct",)], ids=["gateway", "direct"])
def test_the_provider_gets_the_users_key_and_one_call(
    env_without_agents: CliEnv, api: Api, way: tuple[str, ...]
) -> None:
    with FakeProvider(answers, cwd=env_without_agents.work) as till:
        run = run_on_loopback(env_without_agents, api, till.url, *way)
    assert run.verdict == ("completed", "done", 0), run.stderr
    (entry,) = till.entries
    assert (entry.asked.key, entry.asked.ask.model, entry.asked.ask.stream) == (KEY, api.model, True)
    assert entry.asked.headers["user-agent"] == "inspan"
    assert (run.stdout, run.select_events("usage_differs")) == ("all is well\n", [])
    assert run.ended["usage"] == {"input": 1_000, "output": 200, "cache_read": 300, "reasoning": 50}
    assert len(run.select_events("model_call_ended")) == (0 if way else 1)
    assert (
        find_leaks(
            [KEY],
            below=[env_without_agents.state, env_without_agents.work],
            printed=run.stdout + run.stderr + collect_output(env_without_agents),
        )
        == []
    )


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "OPENAI_COMPATIBLE_API_KEY"])
def test_every_variable_for_a_key_is_taken(env_without_agents: CliEnv, name: str) -> None:
    with FakeProvider(answers, cwd=env_without_agents.work) as till:
        run_on_loopback(env_without_agents, COMPATIBLE, till.url, env={name: KEY})
    assert [entry.asked.key for entry in till.entries] == [KEY]


def test_a_key_can_come_from_a_file(env_without_agents: CliEnv) -> None:
    (env_without_agents.root / "key").write_text(f"{KEY}\n")
    (env_without_agents.root / "key").chmod(0o600)
    with FakeProvider(answers, cwd=env_without_agents.work) as till:
        run = run_on_loopback(
            env_without_agents, XAI, till.url, "--key-from", f"file:{env_without_agents.root / 'key'}", env={}
        )
    assert run.verdict == ("completed", "done", 0), run.stderr
    assert [entry.asked.key for entry in till.entries] == [KEY]


@pytest.mark.parametrize("way", [(), ("--direct",)], ids=["gateway", "direct"])
@pytest.mark.parametrize("profile", ["clean", "user"])
def test_a_server_that_wants_no_key_gets_none(env_without_agents: CliEnv, profile: str, way: tuple[str, ...]) -> None:
    with FakeProvider(answers, cwd=env_without_agents.work) as till:
        done = env_without_agents.inspan(
            *("run", "do it", "-a", "openai-compatible", "--mode", "complete", "-m", "llama", *way),
            *("--profile", profile, "--base-url", f"{till.url}/v1"),
        )
    run = FinishedRun(env_without_agents, done)
    assert run.verdict == ("completed", "done", 0), run.stderr
    (entry,) = till.entries
    assert "authorization" not in entry.asked.headers
    assert len(run.select_events("model_call_ended")) == (0 if way else 1)


@pytest.mark.parametrize("way", [(), ("--direct",)], ids=["gateway", "direct"])
@pytest.mark.parametrize("name", ["OPENAI_BASE_URL", "OPENAI_COMPATIBLE_BASE_URL"])
def test_the_address_can_come_from_a_variable(env_without_agents: CliEnv, name: str, way: tuple[str, ...]) -> None:
    with FakeProvider(answers, cwd=env_without_agents.work) as till:
        words = ("-a", "openai-compatible", "-m", "llama", "--mode", "complete", "--profile", "clean")
        done = env_without_agents.inspan("run", "hi", *words, *way, env={"OPENAI_API_KEY": KEY, name: f"{till.url}/v1"})
    assert (done.returncode, done.stdout) == (0, "all is well\n"), done.stderr
    assert [entry.asked.key for entry in till.entries] == [KEY]


def test_the_python_interface_asks_again_where_there_is_no_session(env_without_agents: CliEnv) -> None:
    def plan(asked: ReceivedCall) -> PlannedAnswer:
        return PlannedAnswer(words='{"n": 7}' if "could not be used" in asked.text else "seven", usage=USED)

    with FakeProvider(plan, cwd=env_without_agents.work) as till:
        code = (
            "import asyncio, inspan\n"
            f"made = inspan.create_agent_runner('xai', profile='clean', base_url='{till.url}/v1')\n"
            f"result = asyncio.run(made.complete('how many?', output_schema={SCHEMA!r}))\n"
            "print(result.reason, result.answer, len(result.attempts))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**env_without_agents.env, "XAI_API_KEY": KEY},
            cwd=env_without_agents.work,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert (done.stdout, done.stderr) == ("done {'n': 7} 2\n", "")
    assert ["how many?" in entry.asked.text for entry in till.entries] == [True, True]


def test_without_a_key_a_run_is_refused_or_fails_with_the_reason(env_without_agents: CliEnv) -> None:
    words = ("run", "hi", "-a", "xai", "--mode", "complete")
    clean = env_without_agents.inspan(*words, "--profile", "clean", "--json")
    assert (clean.returncode, json.loads(clean.stderr)["error"]["code"]) == (4, "credentials_missing")


@each_api
def test_files_and_instructions_are_in_the_request(env_without_agents: CliEnv, api: Api) -> None:
    (env_without_agents.work / "a.py").write_text("print('the file')\n")
    (env_without_agents.work / "b.png").write_bytes(PNG)
    more = (
        "--attach",
        "a.py",
        "--attach",
        "b.png",
        "--system-prompt",
        "Be brief.",
        "--append-system-prompt",
        "And kind.",
    )
    options = ("--option", "temperature=0.5", "--option", "stream_options=null", "--effort", "low")
    with FakeProvider(answers, cwd=env_without_agents.work) as till:
        run = run_on_loopback(env_without_agents, api, till.url, "--mode", "review", *more, *options)
    assert run.verdict == ("completed", "done", 0), run.stderr
    body = json.loads(till.entries[0].asked.text)
    prompt = f"do it\n\nThe file {env_without_agents.work / 'a.py'}:\nprint('the file')\n"
    data = "data:image/png;base64,iVBORw0KGgoAAAAAAAAAAA=="
    if api.wire == "chat":
        parts = [{"type": "text", "text": prompt}, {"type": "image_url", "image_url": {"url": data}}]
        said: list[Any] = [{"role": "system", "content": "Be brief.\n\nAnd kind."}, {"role": "user", "content": parts}]
        wanted: dict[str, Any] = {"model": "llama", "messages": said, "reasoning_effort": "low"}
    else:
        parts = [{"type": "input_text", "text": prompt}, {"type": "input_image", "image_url": data}]
        said = [
            {"type": "message", "role": "system", "content": "Be brief.\n\nAnd kind."},
            {"type": "message", "role": "user", "content": parts},
        ]
        wanted = {"model": api.model, "input": said, "store": False, "reasoning": {"effort": "low"}}
    wanted |= {"tools": [{"type": "web_search"}]} if api is PERPLEXITY else {}
    assert body == {**wanted, "stream": True, "temperature": 0.5}


@each_api
def test_an_answer_that_does_not_fit_is_asked_for_again_with_all_that_it_needs(
    env_without_agents: CliEnv, api: Api
) -> None:
    (env_without_agents.work / "schema.json").write_text(json.dumps(SCHEMA))

    def plan(asked: ReceivedCall) -> PlannedAnswer:
        return PlannedAnswer(words='{"n": 7}' if "could not be used" in asked.text else "seven", usage=USED)

    with FakeProvider(plan, cwd=env_without_agents.work) as till:
        words = ["-a", api.name, "--profile", "clean", "--mode", "complete", "--base-url", f"{till.url}/v1", *api.more]
        done = env_without_agents.inspan("run", "how many?", *words, "--schema", "schema.json", env={api.variable: KEY})
    assert (done.returncode, done.stdout) == (0, '{"n": 7}\n'), done.stderr
    assert "asking again (1 of 2)" in done.stderr
    bodies = [json.loads(entry.asked.text) for entry in till.entries]
    assert ["how many?" in json.dumps(body) for body in bodies] == [True, True]
    forms = [body.get("response_format") or body["text"]["format"] for body in bodies]
    assert [form.get("schema") or form["json_schema"]["schema"] for form in forms] == [SCHEMA, SCHEMA]


@each_language
def test_a_cassette_of_its_calls_is_played_without_a_key(env_without_agents: CliEnv, api: Api) -> None:
    tape = env_without_agents.root / "tape.jsonl"
    with FakeProvider(answers, cwd=env_without_agents.work) as till:
        first = run_on_loopback(env_without_agents, api, till.url, "--model-from", f"record:{tape}")
    recorded = agent_events(first)
    assert first.verdict == ("completed", "done", 0), first.stderr
    assert find_leaks([KEY], below=[tape.parent]) == []
    env_without_agents.inspan("rm", first.run_id)
    done = env_without_agents.inspan(
        *("run", "do it", "-a", api.name, "--mode", "complete", "--profile", "clean"),
        *("--model-from", f"replay:{tape}", *api.more),
    )
    again = FinishedRun(env_without_agents, done)
    assert (again.verdict, agent_events(again)) == (("completed", "done", 0), recorded), again.stderr


def test_a_limit_is_told_without_a_gateway_too(env_without_agents: CliEnv) -> None:
    plan = PlannedAnswer(status=429, headers={"retry-after": "3600"})
    with FakeProvider(lambda _: plan, cwd=env_without_agents.work) as till:
        run = run_on_loopback(env_without_agents, XAI, till.url, "--direct")
    assert run.verdict == ("limited", "rate_limit", 1)
    (limit,) = run.select_events("rate_limited")
    assert limit["resets_at"] == run.ended["resets_at"] > 1_700_000_000
    assert (run.ended["message"], len(till.entries)) == ("429: as the books say", 1)


@pytest.mark.parametrize(
    ("plan", "reason", "code"),
    [
        (PlannedAnswer(status=401), "authentication", 4),
        (PlannedAnswer(status=500), "overloaded", 1),
        (PlannedAnswer(words="so far", cut=True), "network", 1),
    ],
)
def test_a_call_that_goes_wrong_without_a_gateway_fails_the_run(
    env_without_agents: CliEnv, plan: PlannedAnswer, reason: str, code: int
) -> None:
    with FakeProvider(lambda _: plan, cwd=env_without_agents.work) as till:
        run = run_on_loopback(env_without_agents, COMPATIBLE, till.url, "--direct")
    assert run.verdict == ("failed", reason, code), run.stderr


def test_a_provider_that_is_gone_is_told_without_a_gateway(env_without_agents: CliEnv) -> None:
    with refusing_address() as url:
        run = run_on_loopback(env_without_agents, COMPATIBLE, url, "--direct")
    assert run.verdict == ("failed", "network", 1)
    assert run.ended["message"] == f"{url}: Connection refused."


@pytest.mark.parametrize("way", [(), ("--direct",)], ids=["gateway", "direct"])
def test_a_private_authority_is_trusted_on_both_ways(
    env_without_agents: CliEnv, tmp_path: Path, way: tuple[str, ...]
) -> None:
    made = authority(tmp_path)
    body = json.dumps({"model": "llama", "choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]})
    with Provider(says(whole_answer(body.encode())), tls=made.context) as provider:
        env = {COMPATIBLE.variable: KEY, "NODE_EXTRA_CA_CERTS": made.ca_file}
        run = run_on_loopback(env_without_agents, COMPATIBLE, provider.url, *way, env=env)
    assert (run.verdict, run.stdout) == (("completed", "done", 0), "hello\n"), run.stderr
    assert provider.asked[0].headers["authorization"] == f"Bearer {KEY}"


def test_sources_of_an_answer_are_kept_and_its_searches_are_priced(env_without_agents: CliEnv) -> None:
    result = {"id": 1, "title": "A page", "url": "https://a.example", "date": "2026-10-01", "snippet": "…"}
    usage = {
        "input_tokens": 1000,
        "output_tokens": 100,
        "total_tokens": 1100,
        "tool_calls_details": {"search_web": {"invocation": 2}},
        "cost": {"currency": "USD", "input_cost": 0.0, "output_cost": 0.0, "total_cost": 0.25},
    }
    content = [{"type": "output_text", "text": "So it is [1]."}]
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}
    response: dict[str, Any] = {
        "object": "response",
        "model": "perplexity/sonar",
        "status": "completed",
        "usage": usage,
    }
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**response, "status": "in_progress", "output": [], "usage": None}},
        {"type": "response.reasoning.search_queries", "queries": ["so it is"]},
        {"type": "response.reasoning.search_results", "results": [result]},
        {"type": "response.output_text.delta", "delta": "So it is [1]."},
        {"type": "response.completed", "response": {**response, "output": [message]}},
    ]
    pieces = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]
    with Provider(says(stream(*pieces))) as provider:
        run = run_on_loopback(env_without_agents, PERPLEXITY, provider.url)
    assert run.verdict == ("completed", "done", 0), run.stderr
    cited = {"url": "https://a.example", "title": "A page", "date": "2026-10-01", "number": 1}
    assert [event["citations"] for event in run.select_events("citations_given")] == [[cited]]
    assert "[1] A page https://a.example" in run.stderr
    (call,) = run.select_events("model_call_ended")
    assert call["extras"] == {"searches": 2}
    # $0.25 and $2.50 for a million tokens, $2.50 for a thousand searches.
    assert call["cost_usd"] == pytest.approx(0.00025 + 0.00025 + 0.005)
    assert [event["cost_usd"] for event in run.select_events("turn_completed")] == [0.25]
    assert run.select_events("usage_differs") == []
