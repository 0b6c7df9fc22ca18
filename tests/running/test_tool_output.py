"""What a tool at work puts out, on its way to the log: one line, now and then, and no half of a secret."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from inspan.protocol.events import Event, TextDelta, ToolCompleted, ToolOutput, ToolStarted
from inspan.redaction import SecretSet
from inspan.running.recorder import Recorder
from inspan.stores.event_log import RunLog, read_log
from tests.protocol.examples import ENDED, STARTED

_SECRET = "sk-0123456789abcdef"
_STARTED = ToolStarted(id="t", name="bash")
_COMPLETED = ToolCompleted(id="t", name="bash", output="all of it")


class _StillLoop:
    """A loop whose timers go off when the test says so."""

    def __init__(self) -> None:
        self.timers: list[Callable[[], None]] = []

    def call_later(self, delay_s: float, act: Callable[[], None]) -> "_StillLoop":
        if delay_s == 0.5:  # The others are for syncing.
            self.timers.append(act)
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def fire(self) -> None:
        timers, self.timers = self.timers, []
        for act in timers:
            act()


class _Log:
    def __init__(self, folder: Path) -> None:
        self._path = str(folder / "events.jsonl")
        self.loop = _StillLoop()
        self.heard: list[Event] = []
        self.recorder = Recorder(
            RunLog(self._path),
            secrets=SecretSet({"KEY": _SECRET}),
            loop=self.loop,  # pyright: ignore[reportArgumentType]  of a loop it needs timers alone
            on_events=self.heard.extend,
            on_sync_error=lambda error: None,
        )
        self.tell(STARTED, _STARTED)

    def tell(self, *events: Event) -> None:
        self.recorder.emit(events)
        self.recorder.flush()

    def put(self, text: str) -> None:
        self.tell(ToolOutput(id="t", text=text))

    def read(self) -> list[Event]:
        """What is in the log behind the start of the tool."""
        return [record.event for record in read_log(self._path)][2:]


@pytest.fixture
def log(tmp_path: Path) -> _Log:
    return _Log(tmp_path)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("one\ntwo\n", "two"),
        ("one\ntwo", "two"),
        ("one\n\n  \n", "one"),
        (" 10 %\r 20 %\r", "20 %"),
        ("\x1b[32mgreen\x1b[0m and \x1b]8;;http://a\x07a link\x1b]8;;\x07\n", "green and a link"),
        ("x" * 300, "x" * 200),
        ("日本語\n", "日本語"),
    ],
)
def test_only_the_last_line_is_told(log: _Log, text: str, line: str) -> None:
    log.put(text)
    assert log.read() == log.heard[2:] == [ToolOutput(id="t", text=line)]


@pytest.mark.parametrize("text", ["", "\n \n", "\x1b[0m\n"])
def test_nothing_is_told_of_no_output(log: _Log, text: str) -> None:
    log.put(text)
    assert log.read() == []


def test_output_that_comes_fast_is_told_now_and_then_and_the_last_of_it_always(log: _Log) -> None:
    for number in range(1000):
        log.put(f"line {number}\n")
    assert log.read() == [ToolOutput(id="t", text="line 0")]
    log.loop.fire()
    log.loop.fire()
    assert log.read() == [ToolOutput(id="t", text="line 0"), ToolOutput(id="t", text="line 999")]
    assert log.loop.timers == [], "no timer is left where nothing comes"


def test_the_same_line_is_told_once(log: _Log) -> None:
    log.put("one\n")
    log.put("one\n\n")
    log.loop.fire()
    assert log.read() == [ToolOutput(id="t", text="one")]


def test_a_call_that_has_ended_tells_no_more_of_its_output(log: _Log) -> None:
    log.put("one\n")
    log.put("two\n")
    log.tell(_COMPLETED)
    log.loop.fire()
    assert log.read() == [ToolOutput(id="t", text="one"), _COMPLETED]


def test_a_run_that_has_ended_leaves_no_timer(log: _Log) -> None:
    log.put("one\n")
    log.put("two\n")
    log.recorder.close(ENDED, full=False)
    assert log.loop.timers == []


@pytest.mark.parametrize("cut", range(1, len(_SECRET) + 1))
def test_no_part_of_a_secret_is_told(log: _Log, cut: int) -> None:
    log.put(f"key: {_SECRET[:cut]}")
    log.put(f"key: {_SECRET}\n")
    log.loop.fire()
    told = [event.text for event in log.read() if isinstance(event, ToolOutput)]
    assert told[-1].startswith("key: [REDACTED")
    assert not any(_SECRET[:4] in text for text in told)


def test_a_secret_with_colours_in_it_is_none_after_they_are_gone(log: _Log) -> None:
    log.put(f"{'.' * 191}{_SECRET[:9]}\x1b[0m{_SECRET[9:]}\n")  # It would be cut where the colour was.
    ((told),) = log.read()
    assert isinstance(told, ToolOutput)
    assert _SECRET[:9] not in told.text


def test_text_in_pieces_goes_on_beside_the_output_of_a_tool(log: _Log) -> None:
    log.tell(TextDelta(block="1", text=f"it is {_SECRET[:9]}"))
    log.put("one\n")
    log.tell(TextDelta(block="1", text=f"{_SECRET[9:]}."), _COMPLETED)
    assert _SECRET[:9] not in "".join(event.text for event in log.read() if isinstance(event, TextDelta))


def test_a_loop_of_asyncio_tells_the_last_line_by_itself(tmp_path: Path) -> None:
    async def scene() -> list[Event]:
        told, both = list[Event](), asyncio.Event()

        def hear(events: Sequence[Event]) -> None:
            told.extend(events)
            if len(told) == 2:
                both.set()

        recorder = Recorder(
            RunLog(str(tmp_path / "events.jsonl")),
            secrets=SecretSet({}),
            loop=asyncio.get_running_loop(),
            on_events=hear,
            on_sync_error=lambda error: None,
        )
        recorder.emit([ToolOutput(id="t", text="one\n"), ToolOutput(id="t", text="two\n")])
        await asyncio.wait_for(both.wait(), 60)
        recorder.close(ENDED, full=False)
        return told

    assert asyncio.run(scene())[:2] == [ToolOutput(id="t", text="one"), ToolOutput(id="t", text="two")]
