"""The helper that asks another agent: what it is given, and that nothing that it does keeps the rules from acting."""

import asyncio
import marshal
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from inspan.folds.silence import Silence, SilenceFold
from inspan.protocol.events import TextSaid
from inspan.protocol.limits import Limits
from inspan.protocol.plan import TriagePlan
from inspan.protocol.task import Task
from inspan.redaction import Gate, SecretSet
from inspan.running import triage
from inspan.running.triage import Triage
from inspan.running.watchdog import Answer

SECRET = "sk-very-secret-0123456789"
SILENCE = Silence(cause="model_silent", words="while the model is waited for")
KEEPS = """
import marshal, sys
given = marshal.load(sys.stdin.buffer)
open(sys.argv[1], "wb").write(given["task"])
print('{"answer": "{\\\\"advice\\\\": \\\\"wait\\\\", \\\\"why\\\\": \\\\"%s\\\\"}"}')
""".replace("%s", SECRET)


def _ask(program: str, *arguments: str, timeout_s: float = 60.0) -> Answer:
    secrets = SecretSet([("KEY", SECRET)])
    last = SilenceFold(redact=secrets.redact_text, keeps=True)
    last.add(TextSaid(text=f"the key is {SECRET}"))
    task = Task(prompt="", cwd="/", mode="complete", limits=Limits(timeout_s=timeout_s))
    argv = [sys.executable, "-I", "-c", program, *arguments]
    asking = Triage(
        TriagePlan(argv=argv, task=task, env=marshal.dumps({})),
        redact=secrets.redact_text,
        encode=Gate(secrets).encode_event,
        describe=last.describe_events,
    )
    return asyncio.run(asking.ask(SILENCE))


def test_it_is_given_no_secret_and_what_it_says_is_shown_without_one(tmp_path: Path) -> None:
    answer = _ask(KEEPS, str(tmp_path / "task"))
    task: dict[str, Any] = msgspec.msgpack.decode((tmp_path / "task").read_bytes())
    assert "the key is [REDACTED:" in task["prompt"] and SECRET not in str(task)
    assert task["output_schema"]["properties"]["advice"]["enum"] == ["wait", "nudge", "restart", "give_up"]
    assert answer.advice == "wait" and answer.words.startswith("wait: [REDACTED:")


@pytest.mark.parametrize(
    "program",
    ["import sys; sys.exit(3)", "print('restart')", "import os; os.kill(os.getpid(), 9)", "print('x' * 10**6)"],
    ids=["fails", "prints words", "dies", "prints much"],
)
def test_a_helper_that_gives_nothing_of_use_gives_no_advice(program: str) -> None:
    assert _ask(program) == Answer(None, "no answer of use")


def test_a_helper_that_cannot_be_started_gives_no_advice() -> None:
    plan = TriagePlan(argv=["/no/such/program"], task=Task(prompt="", cwd="/"), env=b"")
    last = SilenceFold(redact=str)
    asking = Triage(plan, redact=str, encode=Gate([]).encode_event, describe=last.describe_events)
    answer = asyncio.run(asking.ask(SILENCE))
    assert answer.advice is None and answer.words.startswith("it could not be asked: ")


def test_a_helper_that_hangs_and_hears_no_signal_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triage, "_GRACE_S", 0.0)
    monkeypatch.setattr(triage, "_EXIT_S", 0.1)
    began_at = time.monotonic()
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    assert _ask(deaf, timeout_s=0.5) == Answer(None, "no answer of use")
    assert time.monotonic() - began_at < 60
