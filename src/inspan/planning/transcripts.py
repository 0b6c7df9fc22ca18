"""What an agent itself has kept of a session, read back as the events that its runs told."""

import os
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from glob import escape, glob
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from inspan.agents.presets import driver_from_description
from inspan.agents.program import locate_program
from inspan.agents.select import narrow_driver
from inspan.config.settings import Settings
from inspan.contracts.driver import Driver, LaunchContext, Transcript
from inspan.errors import BadConfig, InspanError, SessionNotFound, Unsupported
from inspan.protocol.events import Event
from inspan.protocol.task import Task
from inspan.protocol.wire import decode_event, encode
from inspan.redaction import Gate, SecretSet
from inspan.runs.find import refresh_summary
from inspan.stores.run_folder import RunFolder, read_json
from inspan.stores.session_files import copy_session_files, open_plain
from inspan.stores.sessions import SessionRecord, read_session, session_key_of
from inspan.system.programs import list_exposed_folders, strip_path

from .environment import collect_secrets
from .resume import config_folder, state_root
from .settings import build_mcp_servers, load_config

_EXPORT_S = 60.0


class SavedTranscript(msgspec.Struct, frozen=True, kw_only=True):
    """A session as its agent stored it: where it was read, its events, and the kinds of events that it lacks."""

    agent: str
    session_id: str
    source: str
    events: Sequence[Event]
    missing_kinds: tuple[str, ...]


def load_transcript(state: str, folder: RunFolder, *, env: Mapping[str, str] = os.environ) -> SavedTranscript:
    """The whole session of a run, earlier and later runs included; raises `Unsupported` or `SessionNotFound`."""
    described = read_json(folder.file("run.json"))
    whole = driver_from_description(described)
    driver = narrow_driver(whole, channel=str(described.get("channel", "")), provider=str(described.get("way", "")))
    if driver.sessions.transcript is None:
        problem = f"inspan cannot read what {driver.title} keeps."
        raise Unsupported(
            "run", folder.run_id, problem, next_step=f"`inspan logs {folder.run_id}` has the run's own log."
        )
    session_id = refresh_summary(state, folder).session_id
    record = read_session(state, session_key_of(folder))
    if not session_id or record is None:
        raise SessionNotFound(
            f"Run {folder.run_id} opened no session.", next_step="Choose another run: `inspan ps -a`."
        )
    config = config_folder(state, record) if record.profile == "clean" else ""
    if driver.sessions.transcript.command:
        with _copy_config(driver, config) as copied:
            source, data = _run_export(driver, described, record, session_id, config=copied, env=env)
    else:
        source, data = _read_file(driver, session_id, config=config, env=env)
    return SavedTranscript(
        agent=driver.name,
        session_id=session_id,
        source=source,
        events=_redact_events(
            _parse_transcript(driver, driver.sessions.transcript, data, source), driver, record.cwd, env
        ),
        missing_kinds=driver.sessions.transcript.missing_kinds,
    )


def _parse_transcript(driver: Driver, transcript: Transcript, data: bytes, source: str) -> Sequence[Event]:
    try:
        return transcript.read(data)
    except Exception as error:  # What a vendor keeps may change its shape, and break its reader anywhere.
        problem = f"it is not written as inspan knows it ({type(error).__name__}: {error})"
        raise Unsupported(
            "transcript",
            source,
            f"what {driver.title} has kept cannot be read: {problem}.",
            next_step="The run's own log is still there: `inspan logs`.",
        ) from error


def _redact_events(events: Sequence[Event], driver: Driver, cwd: str, env: Mapping[str, str]) -> list[Event]:
    """An agent keeps what it saw: every secret that is known here is taken out of it.

    Known are those of the environment, of logins and of the configuration that holds where the session works.
    """
    try:
        settings = load_config(cwd, env).settings
    except BadConfig:  # It may have been spoiled since; what the agent kept can be read all the same.
        settings = Settings()
    secrets = collect_secrets(
        env,
        settings.agent(driver.name).env,
        credentials=(*driver.provider.credentials, *driver.access.withheld_credentials),
        token="",
        servers=build_mcp_servers(settings).values(),
    )
    gate = Gate(SecretSet.get_shared(secrets), encode=encode)
    return [decode_event(gate.encode_event(event)) for event in events]


def _read_file(driver: Driver, session_id: str, *, config: str, env: Mapping[str, str]) -> tuple[str, bytes]:
    root = state_root(driver, config, env)
    for path in glob(
        os.path.join(escape(root), driver.sessions.transcript_pattern.format(session_id=escape(session_id)))
    ):
        try:
            with open(path, "rb", opener=open_plain if config else None) as file:
                return path, file.read()
        except OSError:
            continue
    raise _no_transcript_error(
        driver,
        session_id,
        f"there is no file {driver.sessions.transcript_pattern.format(session_id=session_id)} in {root}",
    )


@contextmanager
def _copy_config(driver: Driver, config: str) -> Generator[str]:
    """A config folder for the agent's program to look at, outside of any sandbox: what else was left in the session's
    own is not there. Empty where the session is in the user's.
    """
    if not config:
        yield ""
        return
    with TemporaryDirectory(prefix="inspan-transcript-") as folder:
        copy_session_files(config, folder, driver.state.session_paths)
        yield folder


def _run_export(
    driver: Driver,
    described: Mapping[str, Any],
    record: SessionRecord,
    session_id: str,
    *,
    config: str,
    env: Mapping[str, str],
) -> tuple[str, bytes]:
    """What the agent's own program prints of a session that it keeps in a database."""
    assert driver.sessions.transcript and driver.sessions.transcript.command
    exposed = list_exposed_folders(record.cwd)
    program = locate_program(driver, env, avoid=exposed)
    context = LaunchContext(program=program.path, cwd=record.cwd, config=config, provider=str(described.get("way", "")))
    task = Task(prompt="", cwd=record.cwd, profile=record.profile)
    own = {driver.state.config_variable: config} if driver.state.config_variable and config else {}
    given = {**env, **own, **driver.channels[0].launch(task, context).env}
    given["PATH"] = strip_path(given.get("PATH", ""), avoid=exposed)
    argv = [program.path, *driver.sessions.transcript.command(session_id)]
    try:
        done = subprocess.run(
            argv,
            env=given,
            cwd=record.cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_EXPORT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _no_transcript_error(driver, session_id, str(error)) from error
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise _no_transcript_error(driver, session_id, lines[-1])
    return " ".join(argv), done.stdout


def _no_transcript_error(driver: Driver, session_id: str, problem: str) -> InspanError:
    return SessionNotFound(
        f"{driver.title} has kept nothing of session {session_id}: {problem}.",
        next_step="It may have been deleted; the run's own log is still there: `inspan logs`.",
    )
