"""A provider that is down, slow, broken or says no: real agents behind the gateway end at once, with reason."""

import gzip
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from inspan.protocol.usage import Usage
from tests.cli_env import WAIT_S, CliEnv, FinishedRun
from tests.gateway.provider import (
    Act,
    Provider,
    ProviderConnection,
    chunk,
    closes,
    full_response,
    head,
    says,
    stream,
    then,
)

from .child_processes import agent_pid_of
from .gateway_runs import KEY, KEY_HEADER, KEY_VARIABLE, QUIET, build_argv, run_live
from .gateway_runs import make_provider as playing
from .netns import NetworkNamespace
from .run_checks import CRASHED, DONE, End, check_end
from .styles import NONE_USED, Style, each_agent
from .test_failing_models import (
    AUTHENTICATION,
    CONTEXT_TOO_LONG,
    INVALID_RESPONSE,
    MODEL_NOT_FOUND,
    NETWORK,
    OVERLOADED,
    RATE_LIMIT,
)

Json = dict[str, Any]
STALLED = End(outcome="timed_out", reason="model_stall", code=124)
# Far below what an agent takes that asks ten times, and far above what a run takes where there is much else to do.
BOUND_S = 90.0
HTML = b"<html>Bad gateway</html>"
SSE = head(content_type="text/event-stream", transfer_encoding="chunked")
COUNTED = {"input_tokens": 100, "output_tokens": 1, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 10}
MESSAGE: Json = {"id": "m", "type": "message", "role": "assistant", "model": "x", "content": [], "usage": COUNTED}
# How each wire begins an answer, and how the last event of one states what it has used.
BEGINS: dict[str, Json] = {
    "claude": {"type": "message_start", "message": MESSAGE},
    "codex": {"type": "response.created", "response": {"id": "r"}},
}
ENDS: dict[str, list[Json]] = {
    "claude": [
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ],
    "codex": [
        {
            "type": "response.completed",
            "response": {
                "id": "r",
                "status": "completed",
                "output": [],
                "usage": {"input_tokens": 100, "output_tokens": 7, "total_tokens": 107},
            },
        }
    ],
}
FAILS: dict[str, Json] = {
    "claude": {"type": "error", "error": {"type": "overloaded_error", "message": "overloaded for now"}},
    "codex": {
        "type": "response.failed",
        "response": {"id": "r", "error": {"code": "server_error", "message": "overloaded for now"}},
    },
}
SPENT = {
    "claude": Usage(input=100, output=7, cache_read=20, cache_write=10),
    "codex": Usage(input=100, output=7),
}


def sse(*events: Json) -> bytes:
    return b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events)


def refusal(status: int, **headers: str) -> bytes:
    """An error as both wires have it."""
    body = json.dumps({"type": "error", "error": {"type": "some_error", "message": "the provider's words"}}).encode()
    return head(status, content_type="application/json", content_length=str(len(body)), **headers) + body


def check_live(cli_env: CliEnv, style: Style, url: str, *more: str, end: End, usage: Usage = NONE_USED) -> list[Json]:
    """Runs an agent with a key and proves its end and that nothing is left of it; gives its model calls."""
    before = time.monotonic()
    run = run_live(cli_env, style.agent, url, *style.arguments, *more)
    assert time.monotonic() - before < BOUND_S
    assert run.code == end.code, run.stderr
    ended = check_end(cli_env, run.run_id, end=end, usage=usage)
    assert ended.next or end is DONE
    return run.select_events("model_call_ended")


@each_agent
@pytest.mark.parametrize(
    ("status", "end"),
    [
        (401, AUTHENTICATION),
        (403, AUTHENTICATION),
        (404, MODEL_NOT_FOUND),
        (413, CONTEXT_TOO_LONG),
        (429, RATE_LIMIT),
        (500, OVERLOADED),
        (529, OVERLOADED),
    ],
    ids=str,
)
def test_a_refusal_of_the_provider_fails_the_run_as_a_scripted_one(
    cli_env: CliEnv, style: Style, status: int, end: End
) -> None:
    with Provider(says(refusal(status, x_ratelimit_reset="4102444800"))) as provider:
        calls = check_live(cli_env, style, provider.url, end=end)
    assert [(call["status"], call.get("message")) for call in calls] == [(status, "the provider's words")] * len(calls)
    assert len(provider.asked) == len(calls)
    named = KEY_HEADER[style.agent].items()
    assert all(named <= asked.headers.items() for asked in provider.asked)


def _break_off(style: Style) -> Act:
    return then(says(SSE + chunk(sse(BEGINS[style.agent]))), closes)


def _fail_in_stream(style: Style) -> Act:
    """Who asks again, without a stream, gets a plain refusal."""
    failed = stream(sse(BEGINS[style.agent], FAILS[style.agent]))

    def act(line: ProviderConnection) -> None:
        assert line.asked
        line.send(failed if b'"stream":true' in line.asked.body else refusal(529))

    return act


# What the provider does → how the run ends, and what is said of the first call.
TROUBLES: dict[str, tuple[Callable[[Style], Act], End, str]] = {
    "hangs up at once": (lambda style: closes, NETWORK, "unanswered: {url} cannot be reached"),
    "breaks off": (_break_off, NETWORK, "cut"),
    "is a page": (lambda style: says(full_response(HTML, kind="text/html")), INVALID_RESPONSE, "garbage"),
    "is a page of errors": (lambda style: says(full_response(HTML, status=502, kind="text/html")), OVERLOADED, ""),
    "fails in its stream": (_fail_in_stream, OVERLOADED, ""),
}


@each_agent
@pytest.mark.parametrize(("act", "end", "problem"), TROUBLES.values(), ids=TROUBLES)
def test_an_answer_that_is_none_fails_the_run(
    cli_env: CliEnv, style: Style, act: Callable[[Style], Act], end: End, problem: str
) -> None:
    with Provider(act(style)) as provider:
        run = run_live(cli_env, style.agent, provider.url)
    assert run.verdict == (end.outcome, end.reason, end.code), run.stderr
    check_end(cli_env, run.run_id, end=end, usage=Usage(**run.ended.get("usage", {})))
    calls = run.select_events("model_call_ended")
    assert str(calls[0].get("problem", "")).startswith(problem.format(url=provider.url))
    assert [call.get("role", "main") for call in calls] == ["main", *["retry"] * (len(calls) - 1)]
    assert len(provider.asked) == len(calls)


# On an island nobody listens but whom it was made for.
ABSENT = {
    "http://127.0.0.1:9": "the connection was refused",
    "https://provider.invalid": "the name of the host is not known",
}


@each_agent
def test_a_provider_that_is_not_there_is_named(tmp_path: Path, binaries: dict[str, str], style: Style) -> None:
    (tmp_path / "house").mkdir()
    with NetworkNamespace() as island:
        cli_env = CliEnv(tmp_path / "house", prefix=island.prefix, binaries=binaries)
        for url, problem in ABSENT.items():
            argv = build_argv(style.agent, url, "--json")
            before = time.monotonic()
            done = cli_env.inspan(*argv, env={**QUIET, KEY_VARIABLE[style.agent]: KEY})
            assert time.monotonic() - before < BOUND_S
            run_id = json.loads(done.stdout.partition("\n")[0])["event"]["run_id"]
            ended = check_end(cli_env, run_id, end=NETWORK)
            assert f"{url} cannot be reached: {problem}" in ended.message
        cli_env.close()


@each_agent
def test_a_provider_that_stays_silent_is_given_up(cli_env: CliEnv, style: Style) -> None:
    quiet = threading.Event()
    with Provider(lambda line: _await(quiet)) as provider:
        calls = check_live(cli_env, style, provider.url, "--stall-timeout", "1s", end=STALLED)
        quiet.set()
    assert [(call["call"], call.get("problem")) for call in calls] == [(1, "stalled")]


@each_agent
def test_a_call_whose_agent_is_killed_is_told_once_with_what_was_spent(cli_env: CliEnv, style: Style) -> None:
    started: SimpleQueue[str] = SimpleQueue()

    def kill_agent(line: ProviderConnection) -> None:
        """In the middle of the answer, whose rest follows at once: the gateway does not wait long for it any more."""
        os.kill(agent_pid_of(cli_env, started.get(timeout=WAIT_S), style.agent), signal.SIGKILL)

    goes_on = then(
        says(SSE + chunk(sse(BEGINS[style.agent]))),
        kill_agent,
        says(chunk(sse(*ENDS[style.agent])) + chunk(b"")),
    )
    with Provider(goes_on) as provider:
        argv = build_argv(style.agent, provider.url, "-d")
        run_id = cli_env.inspan(*argv, env={KEY_VARIABLE[style.agent]: KEY}).stdout.strip()
        started.put(run_id)
        check_end(cli_env, run_id, end=CRASHED, usage=SPENT[style.agent])
    calls = [event for event in cli_env.events(run_id) if event["kind"] == "model_call_ended"]
    assert [(call["call"], call["status"]) for call in calls] == [(1, 200)]
    assert len(provider.asked) == 1


@each_agent
def test_an_answer_that_is_compressed_unasked_is_metered(cli_env: CliEnv, style: Style) -> None:
    packed = gzip.compress(sse(BEGINS[style.agent], *ENDS[style.agent]))
    headers = head(content_type="text/event-stream", content_encoding="gzip", content_length=str(len(packed)))
    with Provider(says(headers + packed)) as provider:
        run = run_live(cli_env, style.agent, provider.url)
    assert [Usage(**call["usage"]) for call in run.select_events("model_call_ended")][:1] == [SPENT[style.agent]]
    assert {asked.headers["accept-encoding"] for asked in provider.asked} == {"identity"}


def test_a_request_of_30_mb_goes_through_whole(cli_env: CliEnv) -> None:
    paper = cli_env.work / "paper.pdf"
    paper.write_bytes(b"%PDF-1.4\n" + os.urandom(7_600_000))
    attached = [word for _ in range(3) for word in ("--attach", str(paper))]
    with playing("[[call]]\nsay = 'Read.'\n", cli_env) as provider:
        run = run_live(cli_env, "claude", provider.url, *attached)
    assert (run.verdict, run.stdout) == (("completed", "done", 0), "Read.\n"), run.stderr
    assert len(provider.heard) > 30_000_000


@each_agent
def test_a_proxy_of_the_users_is_not_asked_for_the_gateway(cli_env: CliEnv, style: Style) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        nobody = f"http://127.0.0.1:{unused.getsockname()[1]}"
        cli_env.env |= {"HTTP_PROXY": nobody, "http_proxy": nobody, "ALL_PROXY": nobody, "NO_PROXY": "example.org"}
        scenario = "[[call]]\nrun = 'echo $NO_PROXY $no_proxy > proxies.txt'\n[[call]]\nsay = 'Done.'\n"
        with playing(scenario, cli_env) as provider:
            run = run_live(cli_env, style.agent, provider.url)
    assert run.verdict == ("completed", "done", 0), run.stderr
    assert (cli_env.work / "proxies.txt").read_text() == "example.org,127.0.0.1 example.org,127.0.0.1\n"


@pytest.mark.parametrize("whose", ["project", "user"])
@each_agent
def test_a_proxy_of_the_agents_own_settings_is_not_asked_for_the_gateway(
    cli_env: CliEnv, style: Style, whose: str
) -> None:
    folder = cli_env.work if whose == "project" else Path(cli_env.env["HOME"])
    with socket.create_server(("127.0.0.1", 0)) as unused:
        nobody = f"http://127.0.0.1:{unused.getsockname()[1]}"
        names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
        env = {spelled: nobody for name in names for spelled in (name, name.lower())} | {"NO_PROXY": "", "no_proxy": ""}
        for name in (".claude", ".codex"):
            (folder / name).mkdir()
        (folder / ".claude" / "settings.json").write_text(json.dumps({"env": env}))
        # A list of exceptions in this file would win: what comes of that is told at the end of a run.
        lines = [f"{name}={value}\n" for name, value in env.items() if value]
        for path in (folder / ".env", folder / ".codex" / ".env"):
            path.write_text("".join(lines))
        cli_env.env["NO_PROXY"] = "example.org"
        with playing("[[call]]\nsay = 'Done.'\n", cli_env) as provider:
            key = {KEY_VARIABLE[style.agent]: KEY}
            asked = build_argv(style.agent, provider.url, "--timeout", "100s", profile="user")
            run = FinishedRun(cli_env, cli_env.inspan(*asked, env={**QUIET, **key}))
    assert run.verdict == ("completed", "done", 0), run.ended
    assert run.ended["model_calls"] == 1


def _await(event: threading.Event) -> None:
    assert event.wait(WAIT_S)
