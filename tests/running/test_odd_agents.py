"""Agents that do what no real one can be made to do: the run is judged, and its log says what came."""

import hashlib
import os
from typing import Any

import pytest

from tests.cli_env import CliEnv, processes_of, wait_until
from tests.running.fake_agent import PRELUDE, Fake, detach_fake_agent, fake_agent_env, run_fake_agent, wait_for_event


def _end_event(cli_env: CliEnv) -> dict[str, Any]:
    last = cli_env.events()[-1]
    assert last["kind"] == "run_ended"
    return last


_GARBAGE = {
    "plain words": b"Loading...",
    "half an object": b'{"type":"item.compl',
    "bad UTF-8": b'{"type":"item.completed","item":{"type":"agent_message","text":"\\xff\\xfe"}}',
    "bad UTF-8 outside of JSON": b"\\xff\\xfe\\x80",
    "NULs": b"\\0\\0\\0",
    "a NUL in a text": b'{"type":"\\0"}',
    "an unknown frame": b'{"type":"moon.landed","where":1}',
    "an unknown item": b'{"type":"item.completed","item":{"type":"dance"}}',
    "another shape": b'{"type":"item.completed","item":5}',
    "a list": b"[1, 2]",
    "a number": b"5",
    "a lone surrogate": b'{"type":"item.completed","item":{"type":"agent_message","text":"\\\\ud800"}}',
    "an endless nesting": b'{"type":"x","a":' + b"[" * 5000 + b"]" * 5000 + b"}",
    "a carriage return": b"\\r",
}


@pytest.mark.parametrize("line", _GARBAGE.values(), ids=_GARBAGE)
def test_a_line_that_is_no_frame_is_kept_and_the_run_is_judged(cli_env: CliEnv, fake: Fake, line: bytes) -> None:
    acts = f"begin()\nsys.stdout.flush()\nos.write(1, b'{line.decode()}\\n')\nsay('after')\nfinish()"
    code, out, err = run_fake_agent(cli_env, fake_agent_env(fake, acts))
    assert (code, out) == (0, "after\n"), err
    assert (_end_event(cli_env)["outcome"], _end_event(cli_env)["reason"]) == ("completed", "done")
    assert cli_env.kinds() == [
        "run_started",
        "thread_started",
        "turn_started",
        "unrecognized",
        "text_said",
        "turn_completed",
        "run_ended",
    ]


def test_empty_lines_and_a_missing_last_newline_are_nothing_odd(cli_env: CliEnv, fake: Fake) -> None:
    acts = """
begin()
os.write(1, b'\\n\\n')
os.write(1, json.dumps({"type": "turn.completed", "usage": {}}).encode())
"""
    assert run_fake_agent(cli_env, fake_agent_env(fake, acts))[0] == 0
    assert cli_env.kinds() == ["run_started", "thread_started", "turn_started", "turn_completed", "run_ended"]


def test_what_the_agent_wrote_is_kept_byte_for_byte(cli_env: CliEnv, fake: Fake) -> None:
    acts = "os.write(1, bytes(range(256)) * 3); os.write(2, b'\\xff\\0err')"
    run_fake_agent(cli_env, fake_agent_env(fake, acts))
    assert (cli_env.folder() / "stdout").read_bytes() == bytes(range(256)) * 3
    assert (cli_env.folder() / "stderr").read_bytes() == b"\xff\0err"


_EXITS: list[tuple[str, str, dict[str, Any]]] = [
    ("no turn, exit 0", "", {"reason": "crashed", "exit_code": 0}),
    ("an unfinished turn, exit 0", "begin()", {"reason": "crashed", "exit_code": 0}),
    ("a finished turn, exit 1", "begin(); finish(); sys.exit(1)", {"reason": "crashed", "exit_code": 1}),
    ("exit 126", "sys.exit(126)", {"reason": "crashed", "exit_code": 126}),
    ("exit 127", "sys.exit(127)", {"reason": "crashed", "exit_code": 127}),
    ("exit 255", "sys.exit(255)", {"reason": "crashed", "exit_code": 255}),
    ("its own SIGTERM", "os.kill(os.getpid(), signal.SIGTERM)", {"reason": "crashed", "exit_code": 143}),
    ("its own SIGKILL", "os.kill(os.getpid(), signal.SIGKILL)", {"reason": "crashed", "exit_code": 137}),
    ("a failed turn", "put(type='turn.failed', error={'message': 'hm'})", {"reason": "unknown", "exit_code": 0}),
]


@pytest.mark.parametrize(("acts", "expected"), [row[1:] for row in _EXITS], ids=[row[0] for row in _EXITS])
def test_an_exit_is_recorded_as_it_was(cli_env: CliEnv, fake: Fake, acts: str, expected: dict[str, Any]) -> None:
    code, _, err = run_fake_agent(cli_env, fake_agent_env(fake, acts))
    assert code == 1
    assert "Traceback" not in err
    ended = _end_event(cli_env)
    assert {name: ended.get(name) for name in expected} == expected
    assert ended["outcome"] == "failed"


def test_the_last_words_on_stderr_are_in_the_message(cli_env: CliEnv, fake: Fake) -> None:
    run_fake_agent(cli_env, fake_agent_env(fake, "print('first\\nthe disk is on fire', file=sys.stderr); sys.exit(9)"))
    assert _end_event(cli_env)["message"] == "Codex ended with exit code 9: the disk is on fire"


def test_a_secret_in_the_last_words_is_not_in_the_message(cli_env: CliEnv, fake: Fake) -> None:
    env = {**fake_agent_env(fake, "print('bad key ' + os.environ['MY_TOKEN'], file=sys.stderr); sys.exit(9)")}
    run_fake_agent(cli_env, {**env, "MY_TOKEN": "token-0123456789abcdef"})
    kept = b"".join(path.read_bytes() for path in cli_env.folder().rglob("*") if path.is_file())
    assert b"token-0123456789abcdef" not in kept
    assert "bad key" in _end_event(cli_env)["message"]


def test_an_agent_that_vanishes_between_the_plan_and_the_start_is_told(cli_env: CliEnv, fake: Fake) -> None:
    env = fake_agent_env(fake, "")
    run_fake_agent(cli_env, env)
    for way, code in (("bwrap", 1), ("unshare", 127), ("reaper", 127)):
        program = env["INSPAN_CODEX_BIN"]
        with open(program, "r+") as file:
            body = file.read()
        stamp = os.stat(program)
        broken = "#!/no/such/interpreter\n" + body.partition("\n")[2]
        padded = broken.ljust(len(body))[: len(body)]
        with open(program, "w") as file:
            file.write(padded)
        os.utime(program, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        done = cli_env.inspan(
            "run", "x", "-a", "codex", "--profile", "user", "--json", env={**env, "INSPAN_CONTAINMENT": way}
        )
        assert done.returncode == 1
        assert f'"exit_code":{code}' in done.stdout.splitlines()[-1]
        assert '"outcome":"failed"' in done.stdout.splitlines()[-1]


def test_an_agent_that_closes_its_outputs_and_works_on_is_waited_for(cli_env: CliEnv, fake: Fake) -> None:
    acts = """
begin(); finish()
os.close(1); os.close(2)
while not os.path.exists("go"): time.sleep(0.02)
os._exit(5)
"""
    run_id = detach_fake_agent(cli_env, fake_agent_env(fake, acts))
    wait_for_event(cli_env, run_id, "turn_completed")
    assert processes_of(run_id)
    (cli_env.work / "go").touch()
    wait_for_event(cli_env, run_id, "run_ended")
    assert _end_event(cli_env)["exit_code"] == 5


def test_a_child_that_keeps_the_pipe_open_does_not_keep_the_run_open(cli_env: CliEnv, fake: Fake) -> None:
    acts = """
begin(); finish()
if os.fork() == 0:
    os.setsid()
    time.sleep(86400)
os._exit(0)
"""
    env = fake_agent_env(fake, acts)
    assert run_fake_agent(cli_env, env)[0] == 0
    run_id = cli_env.folder().name
    wait_until(lambda: not processes_of(run_id), "empty house")


def test_an_agent_that_reads_nothing_of_a_long_prompt_is_not_waited_for(cli_env: CliEnv, fake: Fake) -> None:
    env = {
        "INSPAN_CODEX_BIN": fake("deaf", "import sys\nif sys.argv[1:] == ['--version']: print('codex-cli 0.163.0')\n")
    }
    done = cli_env.inspan("run", "-", "-a", "codex", "--profile", "user", env=env, stdin="x" * 3_000_000)
    assert done.returncode == 1
    assert _end_event(cli_env)["reason"] == "crashed"


def test_the_prompt_arrives_whole_whatever_is_in_it(cli_env: CliEnv, fake: Fake) -> None:
    prompt = "first\n\0\ttabs, 日本, 🙂 'quotes' \"double\" $(no) -- --help\r\nlast" + "x" * 200_000
    exactly = PRELUDE.replace("prompt = sys.stdin.read()", "prompt = sys.stdin.buffer.read()")
    acts = "import hashlib; begin(); say(hashlib.sha256(prompt).hexdigest()); finish()"
    env = {"INSPAN_CODEX_BIN": fake("reader", exactly + acts)}
    done = cli_env.inspan("run", "-", "-a", "codex", "--profile", "user", "-q", env=env, stdin=prompt)
    assert done.stdout.strip() == hashlib.sha256(prompt.encode()).hexdigest(), done.stderr
