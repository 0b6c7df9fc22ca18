"""Agents that do what no real one can be made to do: the run is judged, and its log says what came."""

import hashlib
import os
from typing import Any

import pytest

from tests.engine.puppet import PRELUDE, Fake, detach, puppet, run, wait_for
from tests.house import House, processes_of, until


def _ended(house: House) -> dict[str, Any]:
    last = house.events()[-1]
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
def test_a_line_that_is_no_frame_is_kept_and_the_run_is_judged(house: House, fake: Fake, line: bytes) -> None:
    acts = f"begin()\nsys.stdout.flush()\nos.write(1, b'{line.decode()}\\n')\nsay('after')\nfinish()"
    code, out, err = run(house, puppet(fake, acts))
    assert (code, out) == (0, "after\n"), err
    assert (_ended(house)["outcome"], _ended(house)["reason"]) == ("completed", "done")
    assert house.kinds() == [
        "run_started",
        "thread_started",
        "turn_started",
        "unrecognized",
        "text_said",
        "turn_completed",
        "run_ended",
    ]


def test_empty_lines_and_a_missing_last_newline_are_nothing_odd(house: House, fake: Fake) -> None:
    acts = """
begin()
os.write(1, b'\\n\\n')
os.write(1, json.dumps({"type": "turn.completed", "usage": {}}).encode())
"""
    assert run(house, puppet(fake, acts))[0] == 0
    assert house.kinds() == ["run_started", "thread_started", "turn_started", "turn_completed", "run_ended"]


def test_what_the_agent_wrote_is_kept_byte_for_byte(house: House, fake: Fake) -> None:
    acts = "os.write(1, bytes(range(256)) * 3); os.write(2, b'\\xff\\0err')"
    run(house, puppet(fake, acts))
    assert (house.folder() / "stdout").read_bytes() == bytes(range(256)) * 3
    assert (house.folder() / "stderr").read_bytes() == b"\xff\0err"


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
def test_an_exit_is_recorded_as_it_was(house: House, fake: Fake, acts: str, expected: dict[str, Any]) -> None:
    code, _, err = run(house, puppet(fake, acts))
    assert code == 1
    assert "Traceback" not in err
    ended = _ended(house)
    assert {name: ended.get(name) for name in expected} == expected
    assert ended["outcome"] == "failed"


def test_the_last_words_on_stderr_are_in_the_message(house: House, fake: Fake) -> None:
    run(house, puppet(fake, "print('first\\nthe disk is on fire', file=sys.stderr); sys.exit(9)"))
    assert _ended(house)["message"] == "Codex ended with exit code 9: the disk is on fire"


def test_a_secret_in_the_last_words_is_not_in_the_message(house: House, fake: Fake) -> None:
    env = {**puppet(fake, "print('bad key ' + os.environ['MY_TOKEN'], file=sys.stderr); sys.exit(9)")}
    run(house, {**env, "MY_TOKEN": "token-0123456789abcdef"})
    kept = b"".join(path.read_bytes() for path in house.folder().rglob("*") if path.is_file())
    assert b"token-0123456789abcdef" not in kept
    assert "bad key" in _ended(house)["message"]


def test_an_agent_that_vanishes_between_the_plan_and_the_start_is_told(house: House, fake: Fake) -> None:
    env = puppet(fake, "")
    run(house, env)
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
        done = house.inspan(
            "run", "x", "-a", "codex", "--profile", "user", "--json", env={**env, "INSPAN_CONTAINMENT": way}
        )
        assert done.returncode == 1
        assert f'"exit_code":{code}' in done.stdout.splitlines()[-1]
        assert '"outcome":"failed"' in done.stdout.splitlines()[-1]


def test_an_agent_that_closes_its_outputs_and_works_on_is_waited_for(house: House, fake: Fake) -> None:
    acts = """
begin(); finish()
os.close(1); os.close(2)
while not os.path.exists("go"): time.sleep(0.02)
os._exit(5)
"""
    run_id = detach(house, puppet(fake, acts))
    wait_for(house, run_id, "turn_completed")
    assert processes_of(run_id)
    (house.work / "go").touch()
    wait_for(house, run_id, "run_ended")
    assert _ended(house)["exit_code"] == 5


def test_a_child_that_keeps_the_pipe_open_does_not_keep_the_run_open(house: House, fake: Fake) -> None:
    acts = """
begin(); finish()
if os.fork() == 0:
    os.setsid()
    time.sleep(86400)
os._exit(0)
"""
    env = puppet(fake, acts)
    assert run(house, env)[0] == 0
    run_id = house.folder().name
    until(lambda: not processes_of(run_id), "empty house")


def test_an_agent_that_reads_nothing_of_a_long_prompt_is_not_waited_for(house: House, fake: Fake) -> None:
    env = {
        "INSPAN_CODEX_BIN": fake("deaf", "import sys\nif sys.argv[1:] == ['--version']: print('codex-cli 0.163.0')\n")
    }
    done = house.inspan("run", "-", "-a", "codex", "--profile", "user", env=env, stdin="x" * 3_000_000)
    assert done.returncode == 1
    assert _ended(house)["reason"] == "crashed"


def test_the_prompt_arrives_whole_whatever_is_in_it(house: House, fake: Fake) -> None:
    prompt = "first\n\0\ttabs, 日本, 🙂 'quotes' \"double\" $(no) -- --help\r\nlast" + "x" * 200_000
    exactly = PRELUDE.replace("prompt = sys.stdin.read()", "prompt = sys.stdin.buffer.read()")
    acts = "import hashlib; begin(); say(hashlib.sha256(prompt).hexdigest()); finish()"
    env = {"INSPAN_CODEX_BIN": fake("reader", exactly + acts)}
    done = house.inspan("run", "-", "-a", "codex", "--profile", "user", "-q", env=env, stdin=prompt)
    assert done.stdout.strip() == hashlib.sha256(prompt.encode()).hexdigest(), done.stderr
