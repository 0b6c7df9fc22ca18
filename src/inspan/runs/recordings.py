"""A run's wire traffic kept as a recording, and played back through its dialect without the program."""

import os
from collections.abc import Iterator
from typing import IO, Any, get_args

import msgspec

from inspan import __version__
from inspan.agents import registry
from inspan.agents.presets import driver_from_description, preset_from_description
from inspan.agents.select import select_channel
from inspan.contracts.dialect import Dialect, DialectOutput, InteractiveDialect
from inspan.contracts.driver import Driver
from inspan.contracts.file_requests import FileResult
from inspan.errors import BadInput, RunBusy, StateUnusable
from inspan.folds.summary import Summary
from inspan.protocol.events import Event, ModelCallEnded, RunEnded
from inspan.protocol.known_types import know_type
from inspan.protocol.outcome import FailureKind
from inspan.protocol.usage import SessionTotals
from inspan.protocol.wire import Record
from inspan.running.verdict import Facts, judge
from inspan.stores import recording
from inspan.stores.event_log import iter_log
from inspan.stores.paths import state_error
from inspan.stores.recording import Ending, Exit, Header, Recording
from inspan.stores.run_folder import RunFolder, read_json

from .find import refresh_summary

# What dialects and the verdict ask of a task. Never more: a recording is passed on.
_TASK_FIELDS = ("mode", "model", "partial", "output_schema")
_STDERR_BYTES = 16 * 1024


class RunTraffic(msgspec.Struct, frozen=True, kw_only=True):
    """The traffic of an ended run, found and checked; `write_recording` reads it."""

    run_id: str
    driver: Driver
    header: Header
    stdout: str
    stderr: str
    exit: Exit


def collect_traffic(state: str, folder: RunFolder, *, with_prompt: bool = False) -> RunTraffic:
    """What a run left of its wire traffic, all of it redacted; raises `RunBusy` while it lives.

    Raises `StateUnusable` where the agent's output is gone.
    """
    ended = refresh_summary(state, folder).ended
    if ended is None:
        raise RunBusy(
            f"Run {folder.run_id} is still running, and a recording has an end.",
            next_step=f"Wait for it (`inspan wait {folder.run_id}`) or stop it, then export it.",
        )
    stdout = folder.file("stdout")
    if not os.path.isfile(stdout):
        raise StateUnusable(
            f"Run {folder.run_id} has no traffic to record: {stdout} is missing.",
            next_step=f"Its events are still there: `inspan events {folder.run_id}`.",
        )
    records = [each for each in iter_log(folder.log) if each.number == 1 or isinstance(each.event, ModelCallEnded)]
    described = read_json(folder.file("run.json"))
    return RunTraffic(
        run_id=folder.run_id,
        driver=select_channel(driver_from_description(described), str(described.get("channel") or "")),
        header=_build_header(folder, records, with_prompt=with_prompt),
        stdout=stdout,
        stderr=folder.file("stderr"),
        exit=_build_exit(ended, records),
    )


def write_recording(file: IO[bytes], traffic: RunTraffic) -> int:
    """Writes a recording; gives how many lines of the agent it has. Raises `OSError` as the file does."""
    out, err = _read_lines(traffic.stdout), _read_lines(traffic.stderr)
    if recordable := traffic.driver.trials.scrub_line:
        out = map(recordable, out)
    return recording.write(file, traffic.header, out=out, err=err, exit=traffic.exit)


def play(recorded: Recording) -> Iterator[Event]:
    """The events of a recording, and last the end that its run would have; raises `BadInput` before the first."""
    header = recorded.header
    driver = registry.find_driver(header.agent)
    known = [channel.name for channel in driver.channels]
    if header.channel not in known:
        problem = f"{driver.title} has no such channel."
        raise BadInput("recording channel", header.channel, problem, next_step=f"It has: {', '.join(known)}.")
    driver = select_channel(driver, header.channel)
    # The one place that opens a dialect without a run.
    dialect = driver.channels[0].dialect(recording.task_from_header(header), header.told or SessionTotals())
    return _play_events(driver, dialect, recorded)


def _play_events(driver: Driver, dialect: Dialect, recorded: Recording) -> Iterator[Event]:
    summary, player = Summary(), _Player(dialect)
    for event in player.events(recorded):
        summary.add(event)
        yield event
    yield _build_run_ended(driver, summary, recorded, sent_off=player.done)


class _Player:
    """Plays a recording to a dialect: what that says goes nowhere, and the files that it asks for are as good as there.

    `done` once the dialect has said that its agent may leave.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.done = False
        self._dialect = dialect

    def events(self, recorded: Recording) -> Iterator[Event]:
        """All that a recording tells, in order."""
        yield from self._perform(self._dialect.open())
        for line in recorded.out:
            if line:
                yield from self._perform(self._dialect.receive(line))
        if isinstance(self._dialect, InteractiveDialect):
            yield from self._perform(self._dialect.close())
        # When it came is not known; what an agent tells on stderr alone rests on nothing that it says before or after.
        for line in recorded.err:
            yield from self._perform(self._dialect.receive_stderr(line))

    def _perform(self, output: DialectOutput) -> Iterator[Event]:
        self.done = self.done or output.done
        yield from output.events
        if output.file_requests and isinstance(self._dialect, InteractiveDialect):
            for request in output.file_requests:
                yield from self._perform(
                    self._dialect.receive_file_result(FileResult(id=request.id, path=request.path))
                )


def _build_run_ended(driver: Driver, summary: Summary, recorded: Recording, *, sent_off: bool) -> RunEnded:
    left = recorded.exit
    verdict = judge(
        Facts(
            driver=driver,
            summary=summary,
            # As in the run itself: how an agent left that was done says nothing.
            exit_code=None if sent_off else left.exit,
            signal=None if sent_off else left.signal,
            stderr=b"\n".join(recorded.err)[-_STDERR_BYTES:].decode(errors="replace"),
            stop_request=(left.ending.reason, left.ending.message) if left.ending else None,
            last_call=left.call,
            schema=recording.task_from_header(recorded.header).output_schema,
        )
    )
    ended = summary.build_end(
        verdict.reason,
        verdict.message,
        next_step=verdict.step,
        duration_s=left.duration_s,
        exit_code=left.exit,
        signal=left.signal,
    )
    # Playing it pays nobody, and a recording does not tell whether its run did.
    return msgspec.structs.replace(ended, cost_usd=None, cost_kind="not_paid", not_paid_usd=ended.cost_usd)


def _build_header(folder: RunFolder, records: list[Record], *, with_prompt: bool) -> Header:
    described = read_json(folder.file("run.json"))
    driver, preset = driver_from_description(described), preset_from_description(described)
    task: dict[str, Any] = described.get("task", {})
    wanted = (*_TASK_FIELDS, "prompt") if with_prompt else _TASK_FIELDS
    kept = {name: task[name] for name in wanted if name in task}
    # Only their names: how servers are reached may hold a secret.
    servers: dict[str, Any] = {name: {} for name in task.get("mcp_servers", ())}
    return Header(
        recording=recording.VERSION,
        # Whoever gets the recording does not have the user's own agents.
        agent=preset.like if preset else driver.name,
        agent_version=str(getattr(records[0].event, "agent_version", "")) if records else "",
        channel=str(described.get("channel") or driver.channels[0].name),
        inspan=__version__,
        task={**kept, "mcp_servers": servers} if servers else kept,
        told=msgspec.convert(described.get("told") or None, know_type(SessionTotals | None)),
    )


def _build_exit(ended: RunEnded, records: list[Record]) -> Exit:
    calls = [record.event for record in records if isinstance(record.event, ModelCallEnded)]
    # What the agent's words and exit tell is judged anew; what inspan itself decided cannot be.
    ours = ended.reason != "done" and ended.reason not in get_args(FailureKind)
    return Exit(
        exit=ended.exit_code,
        signal=ended.signal,
        duration_s=ended.duration_s,
        ending=Ending(reason=ended.reason, message=ended.message) if ours else None,
        call=calls[-1] if calls else None,
    )


def _read_lines(path: str) -> Iterator[bytes]:
    try:
        with open(path, "rb") as file:
            for line in file:
                yield line.removesuffix(b"\n")
    except FileNotFoundError:
        return  # An agent that said nothing on stderr may have left none.
    except OSError as error:
        raise state_error(path, error) from error
