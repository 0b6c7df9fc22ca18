"""Agents that are an API: a real host process on a scripted model, ended, broken and refused in every way."""

import json
from pathlib import Path

import pytest

from tests.cli.refusal import expect_refusal
from tests.cli_env import CliEnv, kill_process, processes_of

from .apis import COMPATIBLE, KEY, XAI, Api, agent_events, each_api, each_language, env_without_agents, run_scripted
from .run_checks import DONE, KILLED, STOPPED, End, check_end
from .styles import PER_CALL

__all__ = ["env_without_agents"]
SAYS = '[[call]]\nthink = "hm"\nsay = ["hel", "lo \\u2028 🙂"]\n'
TOKENS = {"input": 100, "output": 7, "cache_read": 20, "cache_write": 10, "reasoning": 3}
STALLS = '[[call]]\nsay = "so far"\nstall = "mid-stream"\n'
SECRET = "Qz7-4kP9vX2mN8bT5wR1"


def start_stalled(cli_env: CliEnv, agent: str) -> str:
    """A run whose model has begun to speak and does not go on."""
    run_id = cli_env.detach(agent, STALLS, "--mode", "complete", "--partial")
    cli_env.wait_for_events(run_id, "text_delta")
    return run_id


@each_api
def test_an_answer_is_told_with_its_reasoning_and_its_exact_usage(env_without_agents: CliEnv, api: Api) -> None:
    run = run_scripted(env_without_agents, api, SAYS)
    assert run.verdict == ("completed", "done", 0), run.stderr
    assert run.stdout == "hello \u2028 🙂\n"
    assert agent_events(run) == [
        {"kind": "thread_started", "session_id": "", "model": api.model},
        {"kind": "turn_started"},
        {"kind": "reasoning_said", "text": "hm"},
        {"kind": "text_said", "text": "hello \u2028 🙂"},
        {"kind": "turn_completed", "usage": TOKENS},
    ]
    (call,) = run.select_events("model_call_ended")
    assert (call["wire"], call["model"], call["usage"], call.get("role", "main")) == (
        api.wire,
        api.model,
        TOKENS,
        "main",
    )
    ended = check_end(env_without_agents, run.run_id, end=DONE, usage=PER_CALL)
    assert ended.told == PER_CALL
    assert (run.cli_env.folder() / "output.md").read_text() == "hello \u2028 🙂"


@each_language
def test_text_comes_piece_by_piece_where_it_is_asked_for(env_without_agents: CliEnv, api: Api) -> None:
    run = run_scripted(env_without_agents, api, '[[call]]\nsay = ["hel", "lo"]\n', "--partial")
    assert "".join(event["text"] for event in run.select_events("text_delta")) == "hello"
    assert [event["text"] for event in run.select_events("text_said")] == ["hello"]


@each_language
@pytest.mark.parametrize(
    ("fault", "outcome", "reason", "code"),
    [
        ("fail = {status = 401}", "failed", "authentication", 4),
        ("fail = {status = 404}", "failed", "model_not_found", 1),
        ("fail = {status = 500}", "failed", "overloaded", 1),
        ("fail = {status = 529}", "failed", "overloaded", 1),
        ("fail = {status = 400, message = 'maximum context length'}", "failed", "context_too_long", 1),
        ("say = 'so far'\ncut = true", "failed", "network", 1),
        ("garbage = '<html>Bad gateway</html>'", "failed", "invalid_response", 1),
        ('garbage = "data: {broken\\n\\n"', "failed", "invalid_response", 1),
    ],
)
def test_a_call_that_goes_wrong_fails_the_run_at_once(
    env_without_agents: CliEnv, api: Api, fault: str, outcome: str, reason: str, code: int
) -> None:
    run = run_scripted(env_without_agents, api, f"[[call]]\n{fault}\n")
    assert run.verdict == (outcome, reason, code), run.stderr
    assert [event["kind"] for event in run.events if event["kind"] in ("turn_completed", "usage_differs")] == []
    assert len(run.select_events("model_call_ended")) == 1
    assert run.ended["message"]
    assert run.ended["next"]


@each_language
def test_a_rate_limit_says_once_when_it_resets(env_without_agents: CliEnv, api: Api) -> None:
    limit = "[[call]]\nfail = {status = 429, headers = {x-ratelimit-reset = '4102444800'}}\n"
    run = run_scripted(env_without_agents, api, limit)
    assert run.verdict == ("limited", "rate_limit", 1)
    assert [event["resets_at"] for event in run.select_events("rate_limited")] == [4102444800]
    assert run.ended["resets_at"] == 4102444800


@each_language
def test_a_model_that_falls_silent_is_given_up(env_without_agents: CliEnv, api: Api) -> None:
    run = run_scripted(env_without_agents, api, STALLS, "--stall-timeout", "1s")
    assert run.verdict == ("timed_out", "model_stall", 124), run.stderr
    assert processes_of(run.run_id) == []


@each_language
def test_a_run_that_takes_too_long_is_ended(env_without_agents: CliEnv, api: Api) -> None:
    run = run_scripted(env_without_agents, api, STALLS, "--timeout", "1s")
    assert run.verdict == ("timed_out", "run_timeout", 124), run.stderr
    assert processes_of(run.run_id) == []


@pytest.mark.parametrize(("order", "end"), [("stop", STOPPED), ("kill", KILLED)], ids=str)
def test_a_run_can_be_stopped_and_nothing_is_left(env_without_agents: CliEnv, order: str, end: End) -> None:
    run_id = start_stalled(env_without_agents, "xai")
    env_without_agents.inspan(order, run_id)
    check_end(env_without_agents, run_id, end=end)
    assert (env_without_agents.folder(run_id) / "stderr").read_bytes() == b""


def test_a_supervisor_that_dies_takes_the_call_with_it(env_without_agents: CliEnv) -> None:
    run_id = start_stalled(env_without_agents, "xai")
    kill_process(env_without_agents.supervisor(run_id))
    check_end(env_without_agents, run_id, end=End(outcome="lost", reason="supervisor_lost", code=1))


@each_language
def test_a_secret_that_the_model_says_stands_nowhere(env_without_agents: CliEnv, api: Api) -> None:
    scenario = f'[[call]]\nthink = "{SECRET}"\nsay = ["the key is {SECRET[:7]}", "{SECRET[7:]}."]\n'
    run = run_scripted(env_without_agents, api, scenario, "--partial", "--env", f"SERVICE_TOKEN={SECRET}")
    assert run.verdict == ("completed", "done", 0)
    assert "the key is [REDACTED:SERVICE_TOKEN]." in run.stdout
    held = b"".join(path.read_bytes() for path in run.cli_env.folder().rglob("*") if path.is_file())
    assert SECRET.encode() not in held
    assert SECRET[:12].encode() not in held


@pytest.mark.parametrize(
    ("words", "message", "next_step"),
    [
        (
            ("-a", "xai"),
            "mode 'exec': xAI does not support this.",
            "It is an API without tools on this machine: use --mode complete, or --mode review with --attach.",
        ),
        (
            ("-a", "perplexity", "--mode", "review"),
            "attachments []: Perplexity sees no files but those.",
            "Give it what it should review with --attach FILE, as often as there are files.",
        ),
        (
            ("-a", "openai-compatible", "--mode", "complete", "-m", "x"),
            "base_url '': OpenAI-compatible API has no default for it.",
            "Name its address with --base-url https://HOST/v1.",
        ),
        (
            ("-a", "openai-compatible", "--mode", "complete", "--base-url", "http://127.0.0.1:9/v1"),
            "model '': OpenAI-compatible API has no default for it.",
            "Name one with --model, as the server calls it.",
        ),
        (
            ("-a", "xai", "--mode", "complete", "--effort", "extreme"),
            "--effort 'extreme': xAI does not support this.",
            "Use one of none, low, medium, high, xhigh.",
        ),
        (
            ("-a", "xai", "--mode", "complete", "--option=-v"),
            "--option '-v': it is not a field of a request.",
            "Write NAME=VALUE, a field of the request and its value as JSON: max_output_tokens=2000.",
        ),
        (
            ("-a", "xai", "--mode", "complete", "--login"),
            "--login: xAI has no login.",
            "Leave --login out.",
        ),
    ],
)
def test_what_an_api_cannot_do_is_refused_with_the_reason(
    env_without_agents: CliEnv, words: tuple[str, ...], message: str, next_step: str
) -> None:
    env = {"XAI_API_KEY": KEY, "PERPLEXITY_API_KEY": KEY}
    refusal = expect_refusal(env_without_agents, "run", "do it", *words, env=env)
    assert (refusal.exit_code, refusal.message, refusal.next) == (2, message, next_step)


def test_a_call_has_no_session_to_go_on_with(env_without_agents: CliEnv) -> None:
    run = run_scripted(env_without_agents, XAI, SAYS)
    refusal = expect_refusal(env_without_agents, "run", "more", "-r", run.run_id, "--mode", "complete")
    assert refusal.code == "session_not_found"
    assert refusal.message == f"Run {run.run_id} opened no session that could be continued."


@each_language
def test_a_recorded_run_is_replayed_to_the_same_events(env_without_agents: CliEnv, api: Api) -> None:
    run = run_scripted(env_without_agents, api, SAYS)
    assert env_without_agents.inspan("export", run.run_id, "-o", "r.jsonl").returncode == 0
    done = env_without_agents.inspan("play", "r.jsonl", "--json")
    events = [json.loads(line)["event"] for line in done.stdout.split("\n")[:-1]]
    assert (done.returncode, events[:-1]) == (0, agent_events(run))


def test_its_process_is_started_without_a_key_or_prompt_that_others_could_read(env_without_agents: CliEnv) -> None:
    run_id = start_stalled(env_without_agents, "openai-compatible")
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in processes_of(run_id)]
    assert any(line.rstrip(b"\0").endswith(b"http_agent.py") for line in lines)
    assert not any(b"do it" in line for line in lines)
    env_without_agents.inspan("kill", run_id)
    check_end(env_without_agents, run_id, end=KILLED)


def test_the_doctor_names_the_key_and_what_is_missing(env_without_agents: CliEnv) -> None:
    done = env_without_agents.inspan("doctor", "--json", env={"XAI_API_KEY": KEY})
    found = {each["subject"]: each for each in json.loads(done.stdout)["findings"]}
    assert found["agent xai"]["state"] == "ok"
    assert "key in XAI_API_KEY" in found["agent xai"]["detail"]
    assert (found["agent perplexity"]["state"], found["agent perplexity"]["next_step"]) == (
        "warning",
        "set PERPLEXITY_API_KEY",
    )
    assert found[f"agent {COMPATIBLE.name}"]["next_step"] == "Name its address with --base-url https://HOST/v1."
    assert KEY not in done.stdout
