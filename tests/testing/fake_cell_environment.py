"""An environment in which nothing runs: an actor plays every scenario as a faultless agent would, or with one fault."""

import io
import json
import shutil
import subprocess
import time
import urllib.request
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from inspan.agents import registry
from inspan.contracts.driver import Support
from inspan.contracts.journal import SHELL_OUTPUT, TRIAL_FILE_PREFIX, JournalEntry, OfferedTool, SkippedStep
from inspan.gateway import parse_scenario
from inspan.gateway.scripts.scenario import Call
from inspan.gateway.scripts.script import DEFAULT_USAGE
from inspan.protocol.usage import Usage
from inspan.testing.matrix.cell_environment import CellEnvironment, RunTrace

Event = dict[str, Any]
Fault = Callable[[list[Event]], list[Event]]
_FAILURES = {401: ("failed", "authentication", 4), 429: ("limited", "rate_limit", 1)}
_OVERLOADED = ("failed", "overloaded", 1)
_LIMITS = {"--max-turns": "max_turns", "--budget": "budget"}
_REFUSAL = "The sandbox kept it from {authority}. To allow it: --net allow={authority}"
_SHELL = OfferedTool(name="shell", does="runs", fields={"command": "string"})
_OTHERS = [
    OfferedTool(name="write", does="writes"),
    OfferedTool(name="edit", does="writes"),
    OfferedTool(name="read", does="other"),
]
# By a habit: what is still on offer where nothing should be.
_KEPT = {
    "keeps-shell": OfferedTool(name="fnord", does="runs", fields={"line": "string"}),
    "keeps-reader": OfferedTool(name="peek", does="other", fields={"at": "string"}),
    "keeps-built-in": OfferedTool(name="local_shell", does="runs", kind="built-in"),
}


class FakeCellEnvironment(CellEnvironment):
    """Its stories are made up. A `fault` changes the events of each, `code` the exit code, and `habits` the deeds."""

    def __init__(
        self,
        root: Path,
        *,
        fault: Fault | None = None,
        code: int | None = None,
        habits: str = "",
        complete: Support = "yes",
    ) -> None:
        codex = registry.find_driver("codex")
        able = msgspec.structs.replace(codex.capabilities, complete=complete)
        driver = msgspec.structs.replace(codex, capabilities=able)
        super().__init__(root / "actor", driver, agent="codex", channel="", env={})
        self._fault = fault or list[Event]
        self._code = code
        self._habits = habits.split()
        self._sessions: dict[str, list[str]] = {}
        self._runs: dict[str, RunTrace] = {}
        self._order = ""

    def run(self, script: str, *flags: str, prompt: str = "do it") -> RunTrace:
        words = [word for word in flags if word not in ("--fork",)]
        given = dict(zip(words[::2], words[1::2], strict=True))
        run_id = f"run-{len(self._runs) + 1}"
        resumed = self._runs[given["--resume"]].ended["session_id"] if "--resume" in given else ""
        session = resumed if resumed and ("--fork" not in flags or self._has("fork-in-place")) else f"session-{run_id}"
        history = [] if self._has("forgets") else list(self._sessions.get(resumed, []))
        if self._has("forks-into-the-old") and "--fork" in flags:
            history = self._sessions[resumed]
        scene = _FakeRun(self, given, prompt=prompt, history=history, run_id=run_id, session=session)
        events, code = scene.play(parse_scenario(script, name="scene").call)
        self._sessions[session] = scene.history
        events = self._fault(_redact(events, given.get("--env", "=")))
        told = "".join(json.dumps(event) + "\n" for event in events)
        if self._has("prints-secrets"):
            told += given.get("--env", "")
        folder = self.root / "state" / "inspan" / "projects" / "p" / "t" / "runs" / run_id
        (folder / "agent").mkdir(parents=True)
        (folder / "events.jsonl").write_text("turn_started\n" + told)
        if self._has("keeps-secrets"):
            (folder / "stderr").write_text(given.get("--env", ""))
        code = code if self._code is None else self._code
        requests = [] if self._has("silent-journal") else scene.requests
        self._runs[run_id] = self.track_skipped(
            RunTrace(run_id=run_id, code=code, stdout=told, stderr="", events=events, requests=requests)
        )
        return self._runs[run_id]

    def detach(self, script: str, *flags: str, prompt: str = "do it") -> str:
        return self.run(script, *flags, prompt=prompt).run_id

    def run_command(self, *words: str) -> subprocess.CompletedProcess[str]:
        self._order = words[0]
        events = self._runs[words[1]].events if words[0] == "transcript" else []
        lines = "".join(json.dumps({"event": event}) + "\n" for event in self._filter_transcript(events))
        return subprocess.CompletedProcess(words, 0, lines, "")

    def wait(self, run_id: str) -> RunTrace:
        story = self._runs[run_id]
        reason = {"stop": "stopped", "kill": "killed"}.get(self._order, "")
        if not reason or self._has("does-not-stop"):
            return story
        ended = {**story.ended, "outcome": "cancelled", "reason": reason}
        return msgspec.structs.replace(story, code=143, events=self._fault([*story.events[:-1], ended]))

    def _filter_transcript(self, events: list[Event]) -> list[Event]:
        """The events of a transcript, which is another with a fault of its own."""
        lost = [habit.removeprefix("transcript-without-") for habit in self._habits if habit.startswith("transcript-")]
        return [event for event in events if event["kind"] not in lost]

    def _has(self, habit: str) -> bool:
        return habit in self._habits


class _FakeRun:
    """One run of it, call by call."""

    def __init__(
        self,
        actor: FakeCellEnvironment,
        given: Mapping[str, str],
        *,
        prompt: str,
        history: list[str],
        run_id: str,
        session: str,
    ) -> None:
        self._actor = actor
        self._given = given
        self._mode = given.get("--mode", "exec")
        started = {"kind": "run_started", "run_id": run_id, "mode": self._mode, **_describe_box(given)}
        self._events: list[Event] = [started, {"kind": "turn_started"}]
        self._skipped: list[SkippedStep] = []
        self._result: str | None = None
        self.requests: list[JournalEntry] = []
        self._usage = Usage()
        self._session = session
        self._changed: list[str] = []
        self._tools = 0
        self.history = history
        self.history += [prompt, *([] if self._has("deaf") else [given.get("--system-prompt", "")])]
        self.history += [given.get("--append-system-prompt", "")] if not self._has("deaf") else []
        self.history += ["original words"] if self._has("knows-already") else []
        self.history += [text for path in (given.get("--attach", ""),) if path for text in [Path(path).read_text()]]

    def play(self, calls: tuple[Call, ...]) -> tuple[list[Event], int]:
        for step, call in enumerate(calls, start=1):
            if call.when and call.when in "\n".join(self.history):
                return self._end("failed", "script", 1)
            if call.when:
                continue
            if call.optional and not any(tool.does == "runs" for tool in self._offered()):
                self._skipped.append(SkippedStep(step=step, why="no tool on offer"))
                continue
            if call.try_tools:
                self._try(step, every=call.try_tools == "all")
                continue
            self._ask(step, call)
            limit = next((name for name in _LIMITS if name in self._given and call.repeat == "always"), "")
            times = int(self._given[limit].removesuffix("calls")) if limit else 1
            for _ in range(times + self._has("counts-badly")):
                if end := self._play(call):
                    return end
            if limit == "--budget":
                self._tell("budget_refused")
            if limit:
                return self._end("limited", _LIMITS[limit], 6)
            if call.answer is not None:
                break
        self._tell("turn_completed", usage=msgspec.to_builtins(self._usage))
        return self._end("completed", "done", 0)

    def _offered(self, *, last: bool = False) -> list[OfferedTool]:
        """The tools of a request; a late shell is there in the last one alone."""
        kept = [tool for habit, tool in _KEPT.items() if self._has(habit)]
        if self._mode == "complete":
            return kept
        named = msgspec.structs.replace(_SHELL, name="fnord") if self._has("renames") else _SHELL
        has_shell = not self._has("no-shell") and (last or not self._has("late-shell"))
        return [*([named] if has_shell else []), *_OTHERS, *kept]

    def _ask(self, step: int, call: Call | None = None, *, tool: OfferedTool | None = None) -> None:
        """Enters a request into the journal, with the result of the tool that was called before."""
        uses = call is not None and any((call.run, call.write, call.edit, call.use))
        called = tool.key if tool else self._offered()[0].key if uses and self._offered() else None
        result, self._result = self._result, None
        if self._has("ignores-calls"):
            result = None
        self.requests.append(
            JournalEntry(
                step=step,
                offered=self._offered(last=not called),
                results=int(result is not None),
                told=result or "",
                called=called,
                skipped=self._skipped,
            )
        )
        self._skipped, self._result = [], "done" if uses else None

    def _try(self, step: int, *, every: bool) -> None:
        for number, tool in enumerate(self._offered(), start=1):
            if tool.kind == "built-in" or not (every or tool.does in ("runs", "writes")):
                continue
            self._ask(step, tool=tool)
            self._tools += 1
            told = {"id": f"tool-{self._tools}", "name": tool.name}
            if self._may_write() and tool.does != "other":
                (self._actor.work / f"{TRIAL_FILE_PREFIX}-{number}.txt").touch()
                self._tell("tool_completed", **told, output="")
                self._result = "written"
            elif self._has("runs-in-a-box"):
                self._result = f"touch: cannot touch: Read-only file system {SHELL_OUTPUT}"
            elif self._has("carries-out"):
                self._result = "what it saw"
            elif self._has("tells-only-the-model"):
                self._result = "the call was denied"
            else:
                self._tell("tool_failed", **told, output="denied", denied=True)
                self._result = "denied"

    def _play(self, call: Call) -> tuple[list[Event], int] | None:
        asked = "\n".join(self.history)
        wanted = (call.expect_anywhere,) if isinstance(call.expect_anywhere, str) else call.expect_anywhere
        if not all(text in asked for text in (call.expect, *wanted)):
            return self._end("failed", "script", 1)
        if call.fail or call.cut or call.garbage or call.stall:
            return self._fails(call)
        counts = Usage(**msgspec.structs.asdict(call.usage)) if call.usage else DEFAULT_USAGE
        self._usage += counts
        model = "its-own" if self._has("own-model") else self._given.get("--model", "usual").rpartition("/")[2]
        self._tell("model_call_ended", model=model, status=200, usage=msgspec.to_builtins(counts))
        if call.think:
            self._tell("reasoning_said", text=_join(call.think))
        if call.say:
            self.history.append(_join(call.say))
            self._tell("text_said", text=_join(call.say))
        if call.answer is not None:
            self._tell("answer_given", text=json.dumps(call.answer))
        return self._uses(call)

    def _fails(self, call: Call) -> tuple[list[Event], int]:
        calls = 9 if self._has("asks-often") else 1
        for _ in range(calls):
            self._tell("model_call_ended", model="usual", status=call.fail.status if call.fail else 200)
        if call.stall:
            return self._end("timed_out", "model_stall", 124)
        if call.cut or call.garbage:
            return self._end("failed", "network" if call.cut else "invalid_response", 1)
        assert call.fail
        resets = {"resets_at": time.time() + float(call.fail.headers.get("retry-after", 0))}
        outcome, reason, code = _FAILURES.get(call.fail.status, _OVERLOADED)
        return self._end(outcome, reason, code, **(resets if call.fail.status == 429 else {}))

    def _uses(self, call: Call) -> tuple[list[Event], int] | None:
        self._tools += 1
        tool = {"id": f"tool-{self._tools}", "name": "tool"}
        work = self._actor.work
        if call.run is not None and "sleep 1000" in call.run:
            (work / "started").touch()
            self._tell("tool_started", **tool, input={"command": call.run})
            return self._end("timed_out", "run_timeout", 124) if "--timeout" in self._given else None
        if call.run is not None:
            self._runs(call.run, tool)
        if call.edit and self._has("never-edits"):
            return None
        for made in (call.write, call.edit):
            if made and self._may_write():
                path = work / made.path
                change = "modified" if path.exists() else "added"
                old = path.read_text() if path.exists() else ""
                path.write_text(call.write.content if call.write else old.replace(call.edit.old, call.edit.new))  # pyright: ignore[reportOptionalMemberAccess]  one of the two
                self._changed.append(str(path))
                self._tell("tool_started", **tool, input={"path": str(path)})
                self._tell("tool_completed", **tool, output="written")
                self._tell("file_changed", path=str(path), change=change, id=tool["id"])
            elif made:
                self._tell("tool_failed", **tool, output="denied")
        if call.use:
            self.history.append(f"echo: {call.use.input['text']}")
            self._tell("tool_completed", **tool, output=self.history[-1])
        return None

    def _runs(self, command: str, tool: Event) -> None:
        self._tell("tool_started", **tool, input={"command": command})
        if not self._may_write() and not command.startswith("cat"):
            self._tell("tool_failed", **tool, output="denied")
            return
        done = self._run_boxed(command) if "--sandbox" in self._given else self._run_command(command)
        output = done.stdout
        self.history.append(output)
        self._tell("tool_failed" if done.returncode else "tool_completed", **tool, output=output)
        self._tell("command_executed", id=tool["id"], command=command, exit_code=done.returncode)

    def _run_command(self, command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["sh", "-c", command],
            cwd=self._actor.work,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )

    def _run_boxed(self, command: str) -> "subprocess.CompletedProcess[str]":
        """As in a box: a file of the home is looked for where there is none, a port of the host where none listens."""
        if any(self._has(f"never-says-{word}") for word in command.split()):
            return subprocess.CompletedProcess(command, 0, "")
        if " pip install " in command:
            return self._install(command.split())
        if " look_around.py " not in command:
            return self._run_command(command)
        head, canary, port = command.rsplit(" ", 2)
        canary = canary if self._has("sees-home") else f"{canary}.none"
        port = port if self._has("reaches-host") else "1"
        return self._run_command(f"{head} {canary} {port}")

    def _install(self, words: list[str]) -> "subprocess.CompletedProcess[str]":
        """Does what pip would, without its start."""
        url, target = (words[words.index(option) + 1] for option in ("--index-url", "--target"))
        authority = url.split("/")[2]
        if self._given["--net"] == "gateway" and not self._has("reaches-host"):
            if self._has("has-a-copy"):
                shutil.copytree(self._actor.work / "vendor", self._actor.work / target)
            self._tell("error_reported", message=_REFUSAL.format(authority=authority))
            return subprocess.CompletedProcess(words, 1, "ERROR: HTTP error 403\n")
        with urllib.request.urlopen(f"{url}{words[-1].replace('_', '-')}/") as page:
            path = page.read().decode().split('"')[1]
        with urllib.request.urlopen(f"http://{authority}{path}") as wheel:
            found = wheel.read()
        if not self._has("only-fetches"):
            zipfile.ZipFile(io.BytesIO(found)).extractall(self._actor.work / target)
        return subprocess.CompletedProcess(words, 0, "Successfully installed\n")

    def _may_write(self) -> bool:
        if self._has("idle"):
            return False
        return self._mode == "exec" or self._has("writes-anyway")

    def _tell(self, kind: str, **fields: Any) -> None:
        self._events.append({"kind": kind, **fields})

    def _end(self, outcome: str, reason: str, code: int, **more: Any) -> tuple[list[Event], int]:
        ended = {"outcome": outcome, "reason": reason, "session_id": self._session, "next": "Try again.", **more}
        self._tell("run_ended", **ended, usage=msgspec.to_builtins(self._usage), files_changed=sorted({*self._changed}))
        return self._events, code

    def _has(self, habit: str) -> bool:
        return self._actor._has(habit)  # pyright: ignore[reportPrivateUsage]  the scene is the actor's own


def _describe_box(given: Mapping[str, str]) -> Event:
    return {"sandbox": given["--sandbox"], "private": True, "net": given["--net"]} if "--sandbox" in given else {}


def _join(text: str | tuple[str, ...]) -> str:
    return text if isinstance(text, str) else "".join(text)


def _redact(events: list[Event], secret: str) -> list[Event]:
    name, _, value = secret.partition("=")
    return json.loads(json.dumps(events).replace(value, f"[REDACTED:{name}]")) if value else events
