"""Keys of callers: what was created under one is not created again, whoever asks, and however often.

What was answered lies in the state folder, so that it outlives the server; two servers of one state folder share it.
A server that dies over a key leaves its process id and the time there: the ids of runs have both, and a run's folder
is there, with its description, before anything of it starts. So it can be told whether it got so far.
"""

import hashlib
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from inspan.protocol.ids import make_run_id
from inspan.protocol.known_types import know_type
from inspan.protocol.wire import DECODE_ERRORS
from inspan.stores.paths import make_private_folder, state_error
from inspan.stores.run_folder import all_runs, remove_file
from inspan.system.atomic_file import replace_file
from inspan.system.file_locks import lock_file

from .problems import Refusal
from .token_file import server_folder

MOST_KEYS = 20_000
KEEP_S = 24 * 3600.0
_KEY = re.compile(r"[!-~]{1,255}")
_SUFFIX = ".json"
# A clock that was set meanwhile is not further off than that.
_SLACK_S = 2.0


class _Entry(msgspec.Struct, kw_only=True):
    """What is known of a key: `answer` is missing while it is being made, and where the server died over it. `pid` made
    it, from the moment `at` on."""

    body: str
    pid: int = 0
    at: float = 0.0
    answer: str = ""


class Answer(NamedTuple):
    """The JSON that is answered, and whether it is an answer of before."""

    body: bytes
    is_replay: bool


class CreatedOnce:
    """Raises `Refusal` for a key that cannot be one, or that stands for something else. Calls block."""

    def __init__(self, state: str) -> None:
        self._state = state
        self._folder = make_private_folder(os.path.join(server_folder(state), "keys"))

    def create(self, operation: str, key: str, body: bytes, make: Callable[[], bytes]) -> Answer:
        """What `make` gives, or gave when it was called for this key before; an error of its is not kept."""
        if not _KEY.fullmatch(key):
            raise Refusal(
                400,
                "bad_input",
                "Idempotency-Key: it has 1 to 255 visible ASCII characters.",
                field="Idempotency-Key",
                value=key,
            )
        name = hashlib.sha256(f"{operation}\n{key}".encode()).hexdigest()
        path, digest = os.path.join(self._folder, name + _SUFFIX), hashlib.sha256(body).hexdigest()
        try:
            # Of one key two wait for each other; others do so only by chance, and need no file of their own.
            with lock_file(os.path.join(self._folder, f"lock-{name[:2]}")):
                if (entry := self._read(path)) is None:
                    self._prune()
                elif entry.answer or entry.body != digest:
                    return _repeat(entry, digest)
                else:
                    self._check_nothing_started(entry)
                return self._make(path, digest, make)
        except OSError as error:
            raise state_error(path, error) from error

    def _make(self, path: str, digest: str, make: Callable[[], bytes]) -> Answer:
        entry = _Entry(body=digest, pid=os.getpid(), at=time.time())
        self._write(path, entry)
        try:
            answer = make()
        except BaseException:
            remove_file(path)
            raise
        self._write(path, msgspec.structs.replace(entry, answer=answer.decode()))
        return Answer(answer, is_replay=False)

    def _read(self, path: str) -> _Entry | None:
        try:
            if os.stat(path).st_mtime < time.time() - KEEP_S:
                return None
            with open(path, "rb") as file:
                return msgspec.json.decode(file.read(), type=know_type(_Entry))
        except FileNotFoundError:
            return None
        except DECODE_ERRORS as error:
            raise _unfinished([]) from error  # Something was begun under this key: what, nobody knows.

    def _check_nothing_started(self, entry: _Entry) -> None:
        if not entry.pid:
            raise _unfinished([])
        if started := self._find_started(entry):
            raise _unfinished(started)

    def _find_started(self, entry: _Entry) -> list[str]:
        """The runs that whoever left this entry has started since, but for those that were answered to other keys."""
        first = make_run_id(at=datetime.fromtimestamp(entry.at - _SLACK_S, UTC), pid=entry.pid)
        time_of_first, _, pid = first.rpartition("-")
        found = [
            run.run_id
            for run in all_runs(self._state)
            if run.run_id.endswith(f"-{pid}") and run.run_id.rpartition("-")[0] >= time_of_first
        ]
        answered = self._list_answered() if found else frozenset[str]()
        return [run_id for run_id in found if run_id not in answered]

    def _list_answered(self) -> frozenset[str]:
        """The runs that are the answers of keys."""
        found: set[str] = set()
        for name in os.listdir(self._folder):
            if name.endswith(_SUFFIX):
                # One that was forgotten or damaged says nothing of any run.
                with suppress(FileNotFoundError, *DECODE_ERRORS), open(os.path.join(self._folder, name), "rb") as file:
                    entry = msgspec.json.decode(file.read(), type=know_type(_Entry))
                    found.add(msgspec.json.decode(entry.answer, type=dict[str, Any])["run_id"])
        return frozenset(found)

    def _write(self, path: str, entry: _Entry) -> None:
        replace_file(path, msgspec.json.encode(entry), sync=True)

    def _prune(self) -> None:
        """Forgets keys that are too old, and no other: what one of them started would be started again."""
        kept, oldest = 0, time.time() - KEEP_S
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name.endswith(_SUFFIX):
                    with suppress(FileNotFoundError):
                        if entry.stat().st_mtime < oldest:
                            remove_file(entry.path)
                        else:
                            kept += 1
        if kept >= MOST_KEYS:
            raise Refusal(
                503,
                "too_many_keys",
                f"{kept} keys were used within {KEEP_S / 3600:g} hours.",
                next_step="Use new keys more slowly: each is kept for that long.",
            )


def _repeat(entry: _Entry, digest: str) -> Answer:
    if entry.body != digest:
        raise Refusal(
            422,
            "key_reused",
            "This Idempotency-Key was used for another request.",
            next_step="Use a new key for each thing that is to be created.",
        )
    return Answer(entry.answer.encode(), is_replay=True)


def _unfinished(started: list[str]) -> Refusal:
    which = f"It had started {', '.join(started)} by then." if started else "Nobody knows how far it got."
    return Refusal(
        409,
        "key_unfinished",
        f"A server stopped while it was doing this. {which}",
        next_step="Look whether it is there, `GET /api/v1/runs`; if it is not, use a new key.",
    )
