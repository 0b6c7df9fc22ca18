"""Asking a stranger in bounded time: a shell command of the user, or a library that may wait for a person."""

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeVar

import msgspec

from inspan.redaction import SecretSet, find_secrets
from inspan.system.platform import open_exit_fd

_CHUNK_BYTES = 64 * 1024
_STDERR_BYTES = 4096
_STDERR_CHARACTERS = 300
_SHORTEST_SECRET = 8
T = TypeVar("T")


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a command printed, or the words for why that is no answer; those never hold what it printed."""

    output: str = ""
    problem: str = ""


class _CommandOutput:
    """What a command has said so far: its output, and the end of its complaints."""

    def __init__(self) -> None:
        self.stdout = b""
        self.stderr = b""

    def add_stdout(self, chunk: bytes) -> None:
        self.stdout += chunk

    def add_stderr(self, chunk: bytes) -> None:
        self.stderr = (self.stderr + chunk)[-_STDERR_BYTES:]


def run_shell_command(command: str, *, env: Mapping[str, str], limit_s: float, max_bytes: int) -> CommandResult:
    """Runs a command of the shell without a terminal; its whole process group is gone when this returns."""
    try:
        process = subprocess.Popen(
            command,
            shell=True,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        return CommandResult(problem=f"it cannot be started: {error.strerror}")
    heard = _CommandOutput()
    try:
        problem = _collect_output(process, heard, limit_s=limit_s, max_bytes=max_bytes)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe:
                pipe.close()
    if not problem and code:
        problem = f"exit code {code}, and it said: {_format_stderr(heard, env) or 'nothing'}"
    return CommandResult(problem=problem) if problem else CommandResult(output=heard.stdout.decode(errors="replace"))


def call_with_timeout(work: Callable[[], T], *, limit_s: float) -> T:
    """What the work gives or raises; raises `TimeoutError` when it takes longer, and then nobody waits for it."""
    given: list[T] = []
    raised: list[Exception] = []

    def do() -> None:
        try:
            given.append(work())
        except Exception as error:  # It is the caller's to handle: it is raised again there.
            raised.append(error)

    thread = threading.Thread(target=do, daemon=True)
    thread.start()
    thread.join(limit_s)
    if raised:
        raise raised[0]
    if not given:
        raise TimeoutError
    return given[0]


def _collect_output(process: subprocess.Popen[bytes], heard: _CommandOutput, *, limit_s: float, max_bytes: int) -> str:
    """Hears a command out until it ends, whoever still holds its pipes; gives the problem if it does not behave."""
    deadline = time.monotonic() + limit_s
    ended = open_exit_fd(process.pid)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(ended, selectors.EVENT_READ)
            for pipe, take in ((process.stdout, heard.add_stdout), (process.stderr, heard.add_stderr)):
                if pipe:
                    selector.register(pipe, selectors.EVENT_READ, take)
            while (left_s := deadline - time.monotonic()) > 0:
                over = ended not in selector.get_map()
                ready = selector.select(0 if over else left_s)
                if over and not ready:
                    return ""
                for key, _ in ready:
                    chunk = os.read(key.fd, _CHUNK_BYTES) if key.data else b""
                    if chunk:
                        key.data(chunk)
                    else:
                        selector.unregister(key.fileobj)
                if len(heard.stdout) > max_bytes:
                    return f"it prints more than {max_bytes // 1024} KiB"
            return f"it had not ended after {limit_s:g} s"
    finally:
        os.close(ended)


def _format_stderr(heard: _CommandOutput, env: Mapping[str, str]) -> str:
    """The end of what it said on stderr, on one line, without any secret that we know or that it printed."""
    said = heard.stderr.decode(errors="replace")
    printed = {word for word in heard.stdout.decode(errors="replace").split() if len(word) >= _SHORTEST_SECRET}
    repeated = [("OUTPUT", word) for word in sorted(printed) if word in said]
    said = SecretSet([*find_secrets(env).items(), *repeated]).redact_text(said)
    words = "".join(each if each.isprintable() else " " for each in said).split()
    return " ".join(words)[-_STDERR_CHARACTERS:].rstrip(".")
