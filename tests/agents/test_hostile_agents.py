"""An agent that turns on its gateway: by the run's own token, and from outside without it."""

from collections.abc import Callable

from tests.cli_env import CliEnv

from .account import Account
from .fake_provider import KEY, FakeProvider, plan_tool_calls, usage_of

BEGINS = """
import http.client, json, os, sys
if sys.argv[1:] == ["--version"]:
    print("2.1.325 (Claude Code)")
    sys.exit()
address, token = os.environ["ANTHROPIC_BASE_URL"].removeprefix("http://"), os.environ["ANTHROPIC_API_KEY"]
session = {"session_id": "5e0f7f0e-0000-4000-8000-000000000000"}
print(json.dumps({"type": "system", "subtype": "init", **session}), flush=True)
prompt = sys.stdin.read()
BODY = json.dumps({"model": "claude-opus-5-5", "max_tokens": 10, "messages": [{"role": "user", "content": prompt}]})

def ask(target, headers=None, method="POST"):
    gate = http.client.HTTPConnection(address)
    gate._validate_path = lambda path: None
    gate.request(method, target, BODY, {"x-api-key": token, **(headers or {})})
    return gate.getresponse().read().decode()
"""
ENDS = """
print(json.dumps({"type": "assistant", "message": {"content": [{"type": "text", "text": "done"}]}, **session}))
print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": "done", **session}), flush=True)
"""
FRAGMENTS = """
ask("/v1/messages")
for target in ("/v1/messages#", "/v1/messages#a", "/v1/messages?x#b", "/v1/./messages", "//v1/messages"):
    ask(target)
for target in ("/v1/messages/batches#/v1/messages", "/v1/messages%23", "http://evil.invalid/v1/messages"):
    ask(target)
"""
STRANGERS = """
ask("/v1/messages")
for number in range(400):
    ask("/v1/messages", {"x-api-key": f"stranger-{number}"})
"""
QUOTES = """
for name in ("x-note", "user-agent", "anthropic-beta", "referer"):
    ask("/v1/messages", {name: token})
"""


def install_attack(cli_env: CliEnv, fake: Callable[[str, str], str], name: str, attack: str) -> None:
    """Makes the agent of this house one that attacks."""
    cli_env.env["INSPAN_CLAUDE_BIN"] = fake(name, BEGINS + attack + ENDS)


def test_no_spelling_of_a_call_passes_the_budget(cli_env: CliEnv, fake: Callable[[str, str], str]) -> None:
    install_attack(cli_env, fake, "fragments", FRAGMENTS)
    with FakeProvider(plan_tool_calls(1, usage=usage_of), cwd=cli_env.work) as till:
        bill = Account(cli_env, till, "--sandbox", "none", "--allow-tool", "Bash").run("claude", "--budget", "2calls")
    assert len(till.received) == 1
    unexpected = [call for call in bill.calls if call.get("problem", "").startswith("unexpected request")]
    assert (len(unexpected), len(bill.calls)) == (8, 9)
    (told,) = bill.select_events("error_reported")
    assert told["message"] == "The gateway refused 8 requests from the agent that it does not serve."


def test_strangers_leave_a_number_and_spoil_no_verdict(cli_env: CliEnv, fake: Callable[[str, str], str]) -> None:
    install_attack(cli_env, fake, "strangers", STRANGERS)
    with FakeProvider(plan_tool_calls(1, usage=usage_of), cwd=cli_env.work) as till:
        bill = Account(cli_env, till, "--sandbox", "none", "--allow-tool", "Bash").run("claude")
    assert bill.verdict == ("completed", "done", 0)
    assert (len(till.received), len(bill.calls)) == (1, 1)
    (told,) = bill.select_events("error_reported")
    assert told["message"] == "The gateway rejected 400 requests without the run's token."


def test_a_token_in_another_header_is_never_a_key(cli_env: CliEnv, fake: Callable[[str, str], str]) -> None:
    install_attack(cli_env, fake, "quotes", QUOTES)
    with FakeProvider(plan_tool_calls(1, usage=usage_of), cwd=cli_env.work) as till:
        Account(cli_env, till, "--sandbox", "none", "--allow-tool", "Bash").run("claude")
    assert [asked.key for asked in till.received] == [KEY] * 4
    assert [list(asked.headers.values()).count(KEY) for asked in till.received] == [1] * 4
