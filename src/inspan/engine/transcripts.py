"""What an agent itself has kept of a session, read back as the events that its runs told."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from glob import escape, glob
from typing import Any

import msgspec

from inspan.contracts.driver import Driver, Place, Transcript
from inspan.errors import InspanError, SessionNotFound, Unsupported
from inspan.protocol.events import Event
from inspan.protocol.task import Task
from inspan.protocol.wire import decode_event, encode
from inspan.redaction import Gate, SecretSet
from inspan.stores.folder import RunFolder, read_json
from inspan.stores.sessions import SessionRecord, read_session, session_of

from .environment import known_secrets
from .narrowing import narrowed
from .presets import driver_described
from .program import locate
from .runs import settle
from .sessions import config_folder, state_root

_PRINTING_S = 60.0


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """A session as its agent has it: where it was read, and what it tells, but for the kinds that it `lacks`."""

    agent: str
    session_id: str
    place: str
    events: Sequence[Event]
    lacks: tuple[str, ...]


def saved(state: str, folder: RunFolder, *, env: Mapping[str, str] = os.environ) -> Saved:
    """The whole session of a run, earlier and later runs included; raises `Unsupported` or `SessionNotFound`."""
    described = read_json(folder.file("run.json"))
    whole = driver_described(described)
    driver = narrowed(whole, channel=str(described.get("channel", "")), way=str(described.get("way", "")))
    if driver.transcript is None:
        problem = f"inspan cannot read what {driver.title} keeps."
        raise Unsupported(
            "run", folder.run_id, problem, next_step=f"`inspan logs {folder.run_id}` has the run's own log."
        )
    session_id = settle(state, folder).session_id
    record = read_session(state, session_of(folder))
    if not session_id or record is None:
        raise SessionNotFound(
            f"Run {folder.run_id} opened no session.", next_step="Choose another run: `inspan ps -a`."
        )
    config = config_folder(state, record) if record.profile == "clean" else ""
    if driver.transcript.command:
        place, held = _printed(driver, described, record, session_id, config=config, env=env)
    else:
        place, held = _found(driver, session_id, config=config, env=env)
    return Saved(
        agent=driver.name,
        session_id=session_id,
        place=place,
        events=_redacted(_read(driver, driver.transcript, held, place), driver, env),
        lacks=driver.transcript.lacks,
    )


def _read(driver: Driver, transcript: Transcript, held: bytes, place: str) -> Sequence[Event]:
    try:
        return transcript.read(held)
    except Exception as error:  # What a vendor keeps may change its shape, and break its reader anywhere.
        problem = f"it is not written as inspan knows it ({type(error).__name__}: {error})"
        raise Unsupported(
            "transcript",
            place,
            f"what {driver.title} has kept cannot be read: {problem}.",
            next_step="The run's own log is still there: `inspan logs`.",
        ) from error


def _redacted(events: Sequence[Event], driver: Driver, env: Mapping[str, str]) -> list[Event]:
    """An agent keeps what it saw: every secret that is known here is taken out of it."""
    secrets = known_secrets(env, {}, credentials=(*driver.credentials, *driver.withheld), token="")
    gate = Gate(SecretSet.shared(secrets), encode=encode)
    return [decode_event(gate.event(event)) for event in events]


def _found(driver: Driver, session_id: str, *, config: str, env: Mapping[str, str]) -> tuple[str, bytes]:
    root = state_root(driver, config, env)
    for path in glob(os.path.join(escape(root), driver.transcripts.format(session_id=escape(session_id)))):
        try:
            with open(path, "rb") as file:
                return path, file.read()
        except OSError:
            continue
    raise _lost(driver, session_id, f"there is no file {driver.transcripts.format(session_id=session_id)} in {root}")


def _printed(
    driver: Driver,
    described: Mapping[str, Any],
    record: SessionRecord,
    session_id: str,
    *,
    config: str,
    env: Mapping[str, str],
) -> tuple[str, bytes]:
    """What the agent's own program prints of a session that it keeps in a database."""
    assert driver.transcript and driver.transcript.command
    program = locate(driver, env)
    place = Place(program=program.path, cwd=record.cwd, config=config, way=str(described.get("way", "")))
    task = Task(prompt="", cwd=record.cwd, profile=record.profile)
    own = {driver.config_variable: config} if driver.config_variable and config else {}
    given = {**env, **own, **driver.channels[0].launch(task, place).env}
    argv = [program.path, *driver.transcript.command(session_id)]
    try:
        done = subprocess.run(
            argv,
            env=given,
            cwd=record.cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PRINTING_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _lost(driver, session_id, str(error)) from error
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise _lost(driver, session_id, lines[-1])
    return " ".join(argv), done.stdout


def _lost(driver: Driver, session_id: str, problem: str) -> InspanError:
    return SessionNotFound(
        f"{driver.title} has kept nothing of session {session_id}: {problem}.",
        next_step="It may have been deleted; the run's own log is still there: `inspan logs`.",
    )
