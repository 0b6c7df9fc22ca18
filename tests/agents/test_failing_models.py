"""A model that refuses, breaks off or talks nonsense: the run fails for the right reason, and says what was used."""

import time

import pytest

from tests.cli_env import CliEnv

from .run_checks import End, run_to_end
from .styles import PER_CALL, Style, each_agent, each_style

AUTHENTICATION = End(outcome="failed", reason="authentication", code=4)
OVERLOADED = End(outcome="failed", reason="overloaded", code=1)
MODEL_NOT_FOUND = End(outcome="failed", reason="model_not_found", code=1)
CONTEXT_TOO_LONG = End(outcome="failed", reason="context_too_long", code=1)
NETWORK = End(outcome="failed", reason="network", code=1)
INVALID_RESPONSE = End(outcome="failed", reason="invalid_response", code=1)
RATE_LIMIT = End(outcome="limited", reason="rate_limit", code=1)
RESETS_AT = 4102444800
TOO_LONG = {
    "claude": 'message = "prompt is too long: 210000 tokens > 200000 maximum"',
    "codex": 'type = "context_length_exceeded", message = "Your input exceeds the context window of this model."',
}


@each_agent
@pytest.mark.parametrize(
    ("status", "end"),
    [
        (401, AUTHENTICATION),
        (403, AUTHENTICATION),
        (404, MODEL_NOT_FOUND),
        (500, OVERLOADED),
        (503, OVERLOADED),
        (529, OVERLOADED),
    ],
    ids=str,
)
def test_a_refused_call_fails_the_run(cli_env: CliEnv, style: Style, status: int, end: End) -> None:
    ended = run_to_end(cli_env, style, f"[[call]]\nfail = {{status = {status}}}\nrepeat = 'always'\n", end=end)
    assert ended.exit_code == 1
    assert ended.next


@each_style
def test_a_refusal_after_work_keeps_the_tokens_of_the_work(cli_env: CliEnv, style: Style) -> None:
    scenario = '[[call]]\nrun = "echo hi"\n[[call]]\nfail = {status = 401}\nrepeat = "always"\n'
    run_to_end(cli_env, style, scenario, end=AUTHENTICATION, usage=PER_CALL)


@each_agent
def test_a_context_that_is_too_long_is_told_from_a_bad_request(cli_env: CliEnv, style: Style) -> None:
    scenario = f"[[call]]\nfail = {{status = 400, {TOO_LONG[style.agent]}}}\nrepeat = 'always'\n"
    run_to_end(cli_env, style, scenario, end=CONTEXT_TOO_LONG)


@pytest.mark.parametrize(
    ("message", "reason"), [("prompt is too long: 250000 tokens", "context_too_long"), ("no", "unknown")]
)
def test_what_a_provider_says_of_a_bad_request_is_no_fault_of_the_network(
    cli_env: CliEnv, message: str, reason: str
) -> None:
    run = cli_env.run("scripted", f"[[call]]\nfail = {{status = 400, message = '{message}'}}\nrepeat = 'always'\n")
    assert run.verdict == ("failed", reason, 1), run.stderr


@each_agent
@pytest.mark.parametrize(
    "fail",
    [
        pytest.param(f'headers = {{anthropic-ratelimit-unified-reset = "{RESETS_AT}"}}', id="unified-reset"),
        pytest.param(f'headers = {{x-ratelimit-reset = "{RESETS_AT}"}}', id="x-ratelimit-reset"),
        pytest.param(f'body = {{error = {{type = "usage_limit_reached", resets_at = {RESETS_AT}}}}}', id="body"),
    ],
)
def test_a_rate_limit_tells_when_it_resets(cli_env: CliEnv, style: Style, fail: str) -> None:
    scenario = f"[[call]]\nfail = {{status = 429, {fail}}}\nrepeat = 'always'\n"
    ended = run_to_end(cli_env, style, scenario, end=RATE_LIMIT)
    assert ended.resets_at == RESETS_AT
    limited = [event["resets_at"] for event in cli_env.events() if event["kind"] == "rate_limited"]
    assert set(limited) == {RESETS_AT}


@each_agent
def test_a_pause_asked_for_in_seconds_becomes_a_moment(cli_env: CliEnv, style: Style) -> None:
    scenario = "[[call]]\nfail = {status = 429, headers = {retry-after = '3600'}}\nrepeat = 'always'\n"
    before = time.time()
    ended = run_to_end(cli_env, style, scenario, end=RATE_LIMIT)
    assert before + 3600 <= (ended.resets_at or 0) <= time.time() + 3600


@each_agent
def test_a_stream_that_breaks_off_is_a_network_failure(cli_env: CliEnv, style: Style) -> None:
    scenario = '[[call]]\nsay = "so far"\ncut = true\nrepeat = "always"\n'
    run_to_end(cli_env, style, scenario, end=NETWORK, usage=style.told_early)


@each_agent
@pytest.mark.parametrize("garbage", ["<html>Bad gateway</html>", "data: {broken\\n\\n"], ids=["html", "stream"])
def test_an_answer_that_nobody_can_read_is_an_invalid_response(cli_env: CliEnv, style: Style, garbage: str) -> None:
    scenario = f'[[call]]\ngarbage = "{garbage}"\nrepeat = "always"\n'
    ended = run_to_end(cli_env, style, scenario, end=INVALID_RESPONSE)
    assert "`inspan logs " in ended.next
    assert "gateway</html>" in (shown := cli_env.inspan("logs").stdout) or "data: {broken" in shown, shown
