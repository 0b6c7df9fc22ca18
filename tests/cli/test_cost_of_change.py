"""What it takes to add something: each is added to a copy of the package, in as few files as its guide says."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import inspan
from tests.cli_env import CliEnv

from .scenarios import SAYS_HELLO, WAITS

_SANDBOX = '''
"""A sandbox that only tells that it was used."""

from inspan.contracts.sandbox import Box, Sandbox


def _wrap(argv: tuple[str, ...], box: Box) -> tuple[str, ...]:
    mark = "/dev/null" if box.read_only else f"{box.cwd}/used"  # So it is tried out, in a folder of the system.
    return ("/bin/sh", "-c", ': >"$0" && exec "$@"', mark, *argv)


SANDBOX = Sandbox(name="cardboard", boundary=True, wrap=_wrap)
'''
_REPORTER = '''
"""A word for each call."""


class MarksReporter:
    def node_start(self, name, type, /):
        print("start", name)

    def node_output(self, name, chunk, /):
        print(chunk.strip())

    def node_complete(self, name, result, /):
        print("end", result.status)

    def run_complete(self, report, /):
        print("all", len(report.nodes))
'''
_WIRE = '''
"""Chat as another provider words it: its own path, its own key and its own way to end an agent."""

from inspan.gateway.upstream import KeyPlace, Purpose
from inspan.gateway.wires.chat import ChatWire


class TalkWire(ChatWire):
    name = "talk"
    refusal_status = 418
    key_places = (KeyPlace("x-talk-key"),)
    own_headers = ("x-talk-key",)

    def find_purpose(self, method: str, path: str) -> Purpose | None:
        return "call" if (method, path) == ("POST", "/talk") else None
'''
_TALK = """
import asyncio, json, socket, urllib.error, urllib.request
from inspan.gateway import Gateway, ScriptUpstream, parse_scenario
from inspan.gateway.turn_limit import TurnLimit

def ask(url, path, key):
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()
    asked = urllib.request.Request(url + path, body if path == "/talk" else None, {"x-talk-key": key})
    try:
        with urllib.request.urlopen(asked, timeout=20) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code

async def main():
    script = ScriptUpstream(parse_scenario("[[call]]\\nsay = 'talked'\\n", name="talk"), cwd="/")
    once = [TurnLimit(max_calls=1, on_excess=lambda: None)]
    gateway = Gateway(token="its", upstream=script, on_call=lambda call: None, controls=once)
    listener = socket.create_server(("127.0.0.1", 0))
    await gateway.open(listener)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        asked = (("/talk", "wrong"), ("/v1/models", "its"), ("/talk", "its"), ("/talk", "its"))
        print(json.dumps([await asyncio.to_thread(ask, url, *each) for each in asked]))
    finally:
        await gateway.close()

asyncio.run(main())
"""


@pytest.fixture
def copy(cli_env: CliEnv) -> Path:
    """The package, copied, and used in place of the real one."""
    folder = cli_env.root / "copy" / "inspan"
    shutil.copytree(Path(inspan.__file__).parent, folder)  # With what is compiled, whose times are kept.
    cli_env.env["PYTHONPATH"] = str(folder.parent)
    return folder


def test_a_sandbox_is_one_file(cli_env: CliEnv, copy: Path) -> None:
    (copy / "sandboxes" / "cardboard.py").write_text(_SANDBOX)
    run = cli_env.run("scripted", SAYS_HELLO, "--sandbox", "cardboard")
    assert (run.verdict, run.stdout) == (("completed", "done", 0), "hello\n"), run.stderr
    assert run.events[0]["sandbox"] == "cardboard"
    assert (cli_env.work / "used").exists()
    assert "cardboard" in cli_env.inspan("run", "x", "-a", "scripted", "--sandbox", "paper").stderr


def test_a_reporter_is_one_file(cli_env: CliEnv, copy: Path) -> None:
    (copy / "reporters" / "marks.py").write_text(_REPORTER)
    (cli_env.work / "hello.toml").write_text(SAYS_HELLO)
    program = f"""
import asyncio, inspan
from inspan.reporters.marks import MarksReporter

task = inspan.Task(agent="scripted", prompt="x", cwd={str(cli_env.work)!r}, model_from="script:hello.toml")
asyncio.run(inspan.run(task, reporter=MarksReporter()))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=cli_env.env, cwd=cli_env.work, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    first, *_, said, ended, last = done.stdout.splitlines()
    assert (first, said, ended, last) == ("start scripted", "hello", "end success", "all 1")


def test_a_command_is_one_file(cli_env: CliEnv, copy: Path) -> None:
    text = '"""Say moo."""\n\nimport click\n\n\n@click.command()\ndef command() -> None:\n    print("moo")\n'
    (copy / "cli" / "commands" / "moo.py").write_text(text)
    assert cli_env.inspan("moo").stdout == "moo\n"
    assert "Say moo." in cli_env.inspan("--help").stdout


def test_an_exit_code_is_a_line_in_one_file(cli_env: CliEnv, copy: Path) -> None:
    reasons = copy / "protocol" / "reasons.py"
    text = reasons.read_text()
    changed = text.replace(
        '    STOPPED: "stopped",\n', '    STOPPED: "stopped",\n    77: "the scenario does not fit",\n'
    )
    changed = changed.replace('    "script": ReasonRow(\n', '    "script": ReasonRow(\n        exit_code=77,\n')
    assert changed != text
    reasons.write_text(changed)
    assert "77 the scenario does not fit" in " ".join(cli_env.inspan("--help").stdout.split())
    run = cli_env.run("scripted", SAYS_HELLO + "[[call]]\nsay = 'never asked for'\n")
    assert run.verdict == ("failed", "script", 77)


def test_a_wire_is_one_file_and_the_list(cli_env: CliEnv, copy: Path) -> None:
    wires = copy / "gateway" / "wires"
    (wires / "talk.py").write_text(_WIRE)
    _insert(wires / "__init__.py", before="WIRES: tuple", line="from .talk import TalkWire\n\n")
    _insert(wires / "__init__.py", before="GenerateWire())", line="TalkWire(), ")
    done = subprocess.run(
        [sys.executable, "-c", _TALK], env=cli_env.env, cwd=cli_env.work, capture_output=True, timeout=120, check=True
    )
    stranger, models, talked, refused = json.loads(done.stdout)
    assert talked["choices"][0]["message"]["content"] == "talked"
    assert (stranger, models["data"], refused) == (401, [], 418)


def test_a_flag_of_run_is_three_files(cli_env: CliEnv, copy: Path) -> None:
    _insert(copy / "protocol" / "task.py", before="    strict: bool = False\n", line="    loud: bool = False\n")
    _insert(copy / "api" / "options.py", before="    strict: bool\n", line="    loud: bool\n")
    run = copy / "cli" / "commands" / "run.py"
    _insert(run, before="    strict: bool\n", line="    loud: bool\n")
    _insert(run, before='@click.option("--strict"', line='@click.option("--loud", is_flag=True, help="Loudly.")\n')
    _insert(run, before="        strict=given.strict,\n", line="        loud=given.loud,\n")
    assert cli_env.run("scripted", SAYS_HELLO, "--loud").verdict == ("completed", "done", 0)
    assert json.loads((cli_env.folder() / "run.json").read_text())["task"]["loud"] is True


def test_a_limit_is_three_files_and_the_place_that_holds_it(cli_env: CliEnv, copy: Path) -> None:
    limits, settings = copy / "protocol" / "limits.py", copy / "config" / "settings.py"
    _insert(limits, before="    max_turns: int | None = None\n", line="    nap_timeout_s: float | None = None\n")
    key = """    nap_timeout_s: Annotated[float | None, Note("Longest nap.", DURATION)] = msgspec.field(
        default=Limits().nap_timeout_s, name="nap_timeout"
    )
"""
    _insert(settings, before="    max_turns: Annotated[int | None", line=key)
    run = copy / "cli" / "commands" / "run.py"
    _insert(run, before='    "max_turns": "max_turns",\n', line='    "nap_timeout": "nap_timeout_s",\n')
    _insert(run, before="    max_turns: int | None\n", line="    nap_timeout: float | None\n")
    _insert(run, before='@click.option("--max-turns"', line='@click.option("--nap-timeout", type=Duration())\n')
    held = '        self._schedule(self._limits.nap_timeout_s, lambda: self._end("idle_timeout", "it naps"))\n'
    _insert(copy / "running" / "shutdown.py", before="        self._schedule(self._limits.idle_timeout_s", line=held)
    by_flag = cli_env.run("scripted", WAITS, "--nap-timeout", "0.2")
    assert (by_flag.verdict, by_flag.ended["message"]) == (("timed_out", "idle_timeout", 124), "it naps")
    assert cli_env.inspan("config", "set", "limits.nap_timeout", "0.3s").returncode == 0
    assert cli_env.inspan("config", "get", "limits.nap_timeout").stdout == "0.3s\n"


def _insert(path: Path, *, before: str, line: str) -> None:
    """Puts a line in front of the only place in a file that begins so."""
    text = path.read_text()
    assert text.count(before) == 1, (path, before)
    path.write_text(text.replace(before, line + before))
