"""The folder of a comparison: what was asked for, and one JSON line for each cell that was started or has ended."""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from inspan.errors import BadInput, InspanError, RunBusy, RunNotFound, StateUnusable
from inspan.planning.environment import collect_secrets
from inspan.protocol.known_types import know_type
from inspan.protocol.wire import DECODE_ERRORS
from inspan.redaction import Gate, SecretSet
from inspan.runs.projects import LAST, current_scope, project_of
from inspan.stores.comparison_folder import ASKED, LOCK, list_comparisons, note_begin, note_end, note_left
from inspan.stores.paths import make_private_folder, state_error
from inspan.stores.run_folder import claim_folder, read_json, write_json
from inspan.system import file_locks

from .values import CellKey, CellResult, CellStarted, Comparison, Line

_COMPARISONS, _RESULTS = "comparisons", "results.jsonl"
_REDACTED = b"[REDACTED:"


class CompareStore:
    """A comparison that this process alone works on until it is closed. What is written, or shown, of it goes through
    `gate`. Whoever looks later knows by a note whether it came to its end, was left, or died."""

    def __init__(self, path: str, comparison: Comparison, lock: int, *, gate: Gate) -> None:
        self.path = path
        self.comparison = comparison
        self.gate = gate
        self._lock = lock
        self.started: dict[CellKey, str] = {}
        self.results: dict[CellKey, CellResult] = {}
        self._load()
        note_begin(path)

    @property
    def results_path(self) -> str:
        """The file of JSON lines."""
        return os.path.join(self.path, _RESULTS)

    def append(self, line: Line) -> None:
        """Puts a line on the disk; raises `StateUnusable`."""
        try:
            with open(self.results_path, "ab") as file:
                file.write(self.gate.encode_event(line) + b"\n")
                file.flush()
                os.fdatasync(file.fileno())
        except OSError as error:
            raise state_error(self.results_path, error) from error
        self._add(line)

    def list_results(self) -> list[CellResult]:
        """What is known so far, in the order of the cells."""
        return [self.results[key] for key in self.comparison.cells if key in self.results]

    def close(self) -> None:
        with suppress(StateUnusable, OSError):  # It is then found dead, and goes on as what was left does.
            results = self.list_results()
            is_done = len(results) == len(self.comparison.cells) and not any(each.problem for each in results)
            (note_end if is_done else note_left)(self.path)
        file_locks.release(self._lock)

    def _load(self) -> None:
        """Reads what is there; half a line at the end is cut off, so that the next one is whole."""
        try:
            with open(self.results_path, "r+b") as file:
                data = file.read()
                file.truncate(whole := data.rfind(b"\n") + 1)
        except FileNotFoundError:
            return
        except OSError as error:
            raise state_error(self.results_path, error) from error
        for line in data[:whole].splitlines():
            self._add(msgspec.json.decode(line, type=know_type(Line)))

    def _add(self, line: Line) -> None:
        if isinstance(line, CellStarted):
            self.started[line.key] = line.loop
            self.results.pop(line.key, None)  # It is tried again.
        else:
            self.results[line.key] = line


def create_store(state: str, comparison: Comparison, *, env: Mapping[str, str]) -> CompareStore:
    """Claims a folder for a new comparison, which gets its id there."""
    make_private_folder(state)
    claimed = claim_folder(os.path.join(state, _COMPARISONS), pid=os.getpid())
    os.rmdir(os.path.join(claimed.path, "agent"))  # No agent works here.
    comparison = msgspec.structs.replace(comparison, id=str(claimed.run_id), created_at=time.time())
    lock = _take_lock(claimed.path)
    gate = _build_gate(comparison, env)
    write_json(os.path.join(claimed.path, ASKED), gate.redact_json(msgspec.to_builtins(comparison)))
    return CompareStore(claimed.path, comparison, lock, gate=gate)


def open_store(state: str, name: str, *, env: Mapping[str, str]) -> CompareStore:
    """An earlier comparison, by its id, the beginning of one, or `@last`, of this folder's project.

    Raises `RunNotFound`, `RunBusy` while another process works on it, or `BadInput` where it cannot be gone on with.
    """
    path = _find(state, name)
    lock = _take_lock(path)
    try:
        asked = read_json(os.path.join(path, ASKED))
        if _REDACTED in msgspec.json.encode(asked):
            step = "Start it again with the secret."
            raise BadInput("--resume", name, "it was given a secret, which is not stored.", next_step=step)
        comparison = msgspec.convert(asked, know_type(Comparison))
        return CompareStore(path, comparison, lock, gate=_build_gate(comparison, env))
    except DECODE_ERRORS as error:
        file_locks.release(lock)
        step = "Start a new comparison."
        raise BadInput("--resume", name, f"{path} cannot be read: {error}.", next_step=step) from error
    except BaseException:
        file_locks.release(lock)
        raise


def _build_gate(comparison: Comparison, env: Mapping[str, str]) -> Gate:
    task = comparison.task
    secrets = collect_secrets(env, task.env, credentials=(), token="", servers=task.mcp_servers.values())
    return Gate(SecretSet.get_shared(secrets))


def _find(state: str, name: str) -> str:
    paths = {os.path.basename(path): path for path in list_comparisons(state)}
    names = list(paths)
    if name == LAST:
        names = [each for each, path in paths.items() if _find_project(path) == current_scope().project]
    meant = names[-1:] if name == LAST else [each for each in names if each.startswith(name)]
    if len(meant) == 1:
        return paths[meant[0]]
    told = f"There are {len(meant)} comparisons that begin so." if meant else "There is no such comparison."
    told = "There is no comparison of this folder's project." if name == LAST else told
    start = "Start one: inspan compare 'task' -a ONE,OTHER --check 'make test'."
    step = f"The newest is {names[-1]}." if names else start
    raise RunNotFound(f"--resume {name}: {told}", next_step=step)


def _find_project(path: str) -> str:
    """The project that a comparison was for; empty where its description cannot be read."""
    try:
        tasks: Any = read_json(os.path.join(path, ASKED))["tasks"]
        return project_of(str(tasks[0]["cwd"]))
    except (InspanError, KeyError, IndexError, TypeError):
        return ""


def _take_lock(path: str) -> int:
    try:
        return file_locks.take(os.path.join(path, LOCK))
    except BlockingIOError as error:
        message = f"Another process works on the comparison {os.path.basename(path)}."
        raise RunBusy(message, next_step="Wait for it, or end it.") from error
    except OSError as error:
        raise state_error(path, error) from error
