"""The check for reporters: ours pass it, and each kind of broken one does not."""

import io
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import TextIO

import pytest

from inspan.contracts.reporter import NodeResult, Reporter, RunReport
from inspan.reporters.console import ConsoleReporter
from inspan.reporters.json_lines import JsonLinesReporter
from inspan.reporters.quiet import QuietReporter
from inspan.reporters.safe_reporter import SafeReporter
from inspan.testing.reporters import check_redaction, check_reporter

Make = Callable[[Mapping[str, str] | None, TextIO], Reporter]
OURS: dict[str, Make] = {
    "console": lambda env, stream: ConsoleReporter(env, stream=stream),
    "console, alone": lambda env, stream: ConsoleReporter(env, stream=stream, alone=True, lines=None, colour=True),
    "JSON lines": lambda env, stream: JsonLinesReporter(env, stream=stream),
    "quiet": lambda env, stream: QuietReporter(env, stream=stream, answers=stream),
    "quiet, alone": lambda env, stream: QuietReporter(env, stream=stream, answers=stream, alone=True),
    "guarded": lambda env, stream: SafeReporter(ConsoleReporter(env, stream=stream), on_fault=pytest.fail),
}


class Silent:
    """A reporter to break."""

    def node_start(self, name: str, type: str, /) -> None:
        pass

    def node_output(self, name: str, chunk: str, /) -> None:
        pass

    def node_complete(self, name: str, result: NodeResult, /) -> None:
        pass

    def run_complete(self, report: RunReport, /) -> None:
        pass


class WantsOrder(Silent):
    def __init__(self) -> None:
        self._types: dict[str, str] = {}

    def node_start(self, name: str, type: str, /) -> None:
        self._types[name] = type

    def node_complete(self, name: str, result: NodeResult, /) -> None:
        del self._types[name]


class WantsUtf8(Silent):
    def node_output(self, name: str, chunk: str, /) -> None:
        chunk.encode()


class WantsCost(Silent):
    def node_complete(self, name: str, result: NodeResult, /) -> None:
        _ = f"{result.cost_usd:.2f}"


class WantsNodes(Silent):
    def run_complete(self, report: RunReport, /) -> None:
        _ = report.nodes[0]


class IsAsync(Silent):
    async def node_output(self, name: str, chunk: str, /) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  that is the fault
        pass


class GivesBack(Silent):
    def node_output(self, name: str, chunk: str, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]  that is the fault
        return len(chunk)


class Writes(Silent):
    """Writes what it is told, as it is."""

    def __init__(self, env: Mapping[str, str], stream: TextIO) -> None:
        self._secrets = list(env.values())
        self._stream = stream

    def node_output(self, name: str, chunk: str, /) -> None:
        self._stream.write(chunk)


class RedactsEachChunk(Writes):
    def node_output(self, name: str, chunk: str, /) -> None:
        for secret in self._secrets:
            chunk = chunk.replace(secret, "[REDACTED]")
        self._stream.write(chunk[:50_000])


class CutsFirst(Writes):
    def node_output(self, name: str, chunk: str, /) -> None:
        self._stream.write(chunk[: 50 * 1024].replace(self._secrets[0], "[REDACTED]"))


class ForgetsResults(Writes):
    def node_output(self, name: str, chunk: str, /) -> None:
        pass

    def node_complete(self, name: str, result: NodeResult, /) -> None:
        self._stream.write(result.error)


@pytest.mark.parametrize("make", OURS.values(), ids=OURS)
def test_our_reporters_take_every_call(make: Make) -> None:
    check_reporter(lambda: make(None, io.StringIO()))
    check_reporter(lambda: make({"A_TOKEN": "compiling-linking-1"}, io.StringIO()))


@pytest.mark.parametrize("make", OURS.values(), ids=OURS)
def test_our_reporters_show_no_part_of_a_secret_and_not_too_much(make: Make) -> None:
    check_redaction(make)


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (WantsOrder, "no order at all: node_complete raised KeyError"),
        (WantsUtf8, "half a character: node_output raised UnicodeEncodeError"),
        (WantsCost, "nodes side by side: node_complete raised TypeError"),
        (WantsNodes, "a node that never ends: run_complete raised IndexError"),
        (IsAsync, "one node: node_output is async, and nobody awaits it"),
        (GivesBack, "one node: node_output returned 10 instead of None"),
        (object, "one node: node_start raised AttributeError"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_broken_reporter_is_found_and_the_story_named(broken: Callable[[], Reporter], complaint: str) -> None:
    with pytest.raises(AssertionError) as found:
        check_reporter(broken)
    assert complaint in str(found.value)


@pytest.mark.parametrize(
    ("leaky", "complaint"),
    [
        (Writes, "a secret split after 7 characters: a part of the secret is shown"),
        (Writes, "a secret 8 bytes before the cut: 102408 bytes are shown, and at most 51200 of a chunk may be"),
        (RedactsEachChunk, "a secret split after 15 characters: a part of the secret is shown"),
        (CutsFirst, "a secret 8 bytes before the cut: a part of the secret is shown"),
        (ForgetsResults, "a secret in a result: a part of the secret is shown"),
    ],
)
def test_a_leaky_reporter_is_found_and_the_story_named(
    leaky: Callable[[Mapping[str, str], TextIO], Reporter], complaint: str
) -> None:
    with pytest.raises(AssertionError) as found:
        check_redaction(leaky)
    assert complaint in str(found.value).splitlines()


def test_a_console_for_what_is_redacted_already_loads_no_redaction() -> None:
    code = (
        "import sys\nfrom inspan.cli.console import Console\nfrom inspan.reporters.quiet import QuietReporter\n"
        "Console(), QuietReporter()\n"
        "print([name for name in sys.modules if 'redaction' in name or 'ahocorasick' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
