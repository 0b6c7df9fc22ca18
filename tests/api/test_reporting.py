"""A reporter is told of a run as the log has it: redacted, in order, whole, and at nobody's cost."""

import asyncio
import io
import threading
from typing import Any

import msgspec
import pytest

import inspan
from inspan import Event, Reporter
from inspan.contracts.reporter import NodeResult, RunReport
from inspan.protocol.events import TextSaid
from inspan.reporters.console import ConsoleReporter
from inspan.running import callbacks as telling

from .conftest import Play
from .run_env import RunEnv

_SECRET = "sesame-open-0123456789"
_WORKS = "begin()\nsay('first ' + os.environ.get('DOOR_TOKEN', 'word'))\nsay('second word')\nfinish()"


class Notes:
    """A reporter that notes its calls, and the threads from which they came."""

    def __init__(self, *, breaks_at: str = "") -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.threads: set[str] = set()
        self._breaks_at = breaks_at

    def node_start(self, name: str, type: str, /) -> None:
        self._note("node_start", name, type)

    def node_output(self, name: str, chunk: str, /) -> None:
        self._note("node_output", name, str(chunk))

    def node_complete(self, name: str, result: NodeResult, /) -> None:
        self._note("node_complete", name, result)

    def run_complete(self, report: RunReport, /) -> None:
        self._note("run_complete", report)

    def _note(self, *call: Any) -> None:
        self.calls.append(call)
        self.threads.add(threading.current_thread().name)
        if call[0] == self._breaks_at:
            raise ValueError("mine")


def test_a_reporter_shows_none_of_several_secrets_of_one_name(run_env: RunEnv, use_fake_agent: Play) -> None:
    keys = [f"sesame-{number}-0123456789" for number in range(4)]
    use_fake_agent(f"begin()\nsay({' and '.join(keys)!r})\nfinish()")
    servers = {f"box-{key[7]}": inspan.McpServer(command="true", env={"API_KEY": key}) for key in keys[1:]}
    task = msgspec.structs.replace(run_env.task, env={"API_KEY": keys[0]}, mcp_servers=servers)
    notes, printed = Notes(), io.StringIO()
    asyncio.run(inspan.run(task, reporter=notes))
    asyncio.run(inspan.run(task, reporter=ConsoleReporter(stream=printed)))
    shown = str(notes.calls) + printed.getvalue()
    assert [key for key in keys if key in shown] == []
    assert shown.count("[REDACTED:API_KEY] and [REDACTED:API_KEY]") >= 2


def test_a_reporter_is_told_in_order_and_redacted_while_the_callback_gets_events_as_they_are(
    run_env: RunEnv, use_fake_agent: Play
) -> None:
    use_fake_agent(_WORKS)
    notes, heard = Notes(), list[Event]()
    task = msgspec.structs.replace(run_env.task, env={"DOOR_TOKEN": _SECRET})
    result = asyncio.run(inspan.run(task, on_event=heard.append, reporter=notes))
    assert [call[0] for call in notes.calls] == [
        "node_start",
        "node_output",
        "node_output",
        "node_output",
        "node_complete",
        "run_complete",
    ]
    assert notes.calls[0] == ("node_start", "codex", "agent")
    assert [call[2] for call in notes.calls[2:4]] == ["first [REDACTED:DOOR_TOKEN]\n", "second word\n"]
    node: NodeResult = notes.calls[4][2]
    assert (node.status, node.output, node.usage, node.duration_s) == (
        "success",
        result.message,
        result.tokens_used,
        result.duration_s,
    )
    report: RunReport = notes.calls[5][1]
    assert [(each.name, each.type, each.result) for each in report.nodes] == [("codex", "agent", node)]
    assert _SECRET not in str(notes.calls)
    assert [event.text for event in heard if isinstance(event, TextSaid)] == [f"first {_SECRET}", "second word"]
    assert notes.threads == {"inspan-callback"}


@pytest.mark.parametrize("moment", ["node_start", "node_output", "node_complete", "run_complete"])
def test_a_reporter_that_raises_breaks_neither_the_run_nor_the_callback(
    run_env: RunEnv, use_fake_agent: Play, moment: str, capfd: pytest.CaptureFixture[str]
) -> None:
    use_fake_agent(_WORKS)
    notes, heard = Notes(breaks_at=moment), list[Event]()
    assert asyncio.run(inspan.run(run_env.task, on_event=heard.append, reporter=notes)).ok
    assert heard == run_env.events()
    assert notes.calls[-1][0] == moment, "it is not called again"
    told = capfd.readouterr().err
    assert "the reporter raised ValueError" in told and "is not called again" in told
    assert "mine" not in told


def test_neither_of_reporter_and_callback_waits_for_the_other(
    run_env: RunEnv, use_fake_agent: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake_agent(_WORKS)
    monkeypatch.setattr(telling, "CALLBACK_TIMEOUT_S", 4.0)  # The reporter's too, which has to get its turn meanwhile.
    notes, released, problems = Notes(), threading.Event(), list[str]()

    def hear(_: Event) -> None:
        released.wait(60)

    async def scene() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem["message"]))
        await inspan.run(run_env.task, on_event=hear, reporter=notes)

    asyncio.run(scene())
    released.set()
    assert notes.calls[-1][0] == "run_complete"
    assert len(problems) == 1


def test_a_run_that_cannot_be_started_is_reported_too(
    run_env: RunEnv, use_fake_agent: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake_agent(_WORKS)
    monkeypatch.setenv("INSPAN_CONTAINMENT", "unshare")
    monkeypatch.setattr("inspan.containment.containment.find_helper", "/no/such/{}".format)
    notes = Notes()
    result = asyncio.run(inspan.run(run_env.task, reporter=notes))
    assert (result.outcome, result.reason) == ("failed", "environment")
    assert [call[0] for call in notes.calls][-2:] == ["node_complete", "run_complete"]


def test_a_runner_tells_its_reporter_of_one_run_after_the_other(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent("begin(); say('7' if 'could not be used' in prompt else 'seven'); finish()")
    notes = Notes()
    runner = inspan.create_agent_runner("codex", cwd=run_env.work, reporter=notes)
    asyncio.run(runner.complete("x", output_schema={"type": "integer"}))
    kinds = [call[0] for call in notes.calls if call[0] != "node_output"]
    assert kinds == ["node_start", "node_complete", "run_complete"] * 2


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_the_console_shows_a_real_run(agents: RunEnv, agent: str) -> None:
    screen = io.StringIO()
    reporter: Reporter = ConsoleReporter(stream=screen, colour=False)
    scenario = agents.scenario('[[call]]\nrun = "echo from-the-shell"\n[[call]]\nsay = "Done."\n')
    runner = inspan.create_agent_runner(agent, profile="clean", cwd=agents.work, model_from=scenario, reporter=reporter)
    assert asyncio.run(runner.exec("do it")).ok
    shown = screen.getvalue()
    assert shown.startswith(f"── {agent} (agent)\n")
    assert "from-the-shell" in shown and "Done." in shown
