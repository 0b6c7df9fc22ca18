"""The event log: whatever happens to its end, its beginning is read; whatever happens to its middle is told."""

import resource
import subprocess
import sys
import textwrap
import tracemalloc
from pathlib import Path

import pytest

from inspan.errors import LogBroken, RunBusy, StateUnusable
from inspan.protocol.events import Event, TextSaid
from inspan.protocol.wire import Record, encode, encode_record
from inspan.stores.event_log import LogReader, RunLog, begin_log, iter_log, read_log, reopen_log, resume_log
from tests.protocol.examples import ENDED, STARTED

_EVENTS: tuple[Event, ...] = (STARTED, TextSaid(text="zwei\nZeilen"), TextSaid(text="日本 \x00 end"))


def _lines(*events: Event) -> list[bytes]:
    return [encode_record(number, 1000.0 + number, encode(event)) for number, event in enumerate(events, 1)]


def _numbers(records: list[Record]) -> list[int]:
    return [record.number for record in records]


def _count_complete(lines: list[bytes], length: int) -> int:
    """How many of the lines lie within the first `length` bytes."""
    return sum(len(b"".join(lines[: count + 1])) <= length for count in range(len(lines)))


def test_a_log_torn_at_any_byte_gives_the_records_before_it(tmp_path: Path) -> None:
    path, lines = tmp_path / "log", _lines(*_EVENTS, ENDED)
    for length in range(len(b"".join(lines)) + 1):
        path.write_bytes(b"".join(lines)[:length])
        assert _numbers(read_log(str(path))) == list(range(1, _count_complete(lines, length) + 1)), length


def test_a_log_torn_at_any_byte_is_taken_up_where_it_was_whole(tmp_path: Path) -> None:
    path, lines = tmp_path / "log", _lines(*_EVENTS)
    for length in range(len(b"".join(lines)) + 1):
        path.write_bytes(b"".join(lines)[:length])
        log, whole = reopen_log(str(path)), _count_complete(lines, length)
        assert log.append(encode(ENDED)) == whole + 1
        log.sync()
        log.close()
        records = read_log(str(path))
        assert _numbers(records) == list(range(1, whole + 2)), length
        assert records[-1].event == ENDED
        assert path.read_bytes().startswith(b"".join(lines[:whole]))


@pytest.mark.parametrize("rest", [b"\0" * 4096, b"\xff\xfe", b'{"n":4,"t":1.000,"crc":"00000000","event":{}}\n'])
def test_what_a_crash_left_behind_the_last_record_is_dropped(tmp_path: Path, rest: bytes) -> None:
    path, lines = tmp_path / "log", _lines(*_EVENTS)
    path.write_bytes(b"".join(lines) + rest)
    assert _numbers(read_log(str(path))) == [1, 2, 3]
    log = reopen_log(str(path))
    log.close()
    assert path.read_bytes() == b"".join(lines)


@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_damage_in_the_middle_names_the_last_good_record(tmp_path: Path, damaged: int) -> None:
    path, lines = tmp_path / "log", _lines(*_EVENTS, TextSaid(text="four"), ENDED)
    for place in range(len(lines[damaged])):
        changed = bytearray(lines[damaged])
        changed[place] ^= 0x01
        path.write_bytes(b"".join([*lines[:damaged], bytes(changed), *lines[damaged + 1 :]]))
        with pytest.raises(LogBroken) as caught:
            read_log(str(path))
        assert f"{path} is damaged after record {damaged}: " in str(caught.value)
        assert f"The first {damaged} records are good" in str(caught.value)


def test_a_damaged_log_is_never_cut_by_taking_it_up(tmp_path: Path) -> None:
    path, lines = tmp_path / "log", _lines(*_EVENTS)
    damaged = b"".join([lines[0], b"x" + lines[1][1:], lines[2]])
    path.write_bytes(damaged)
    with pytest.raises(LogBroken):
        reopen_log(str(path))
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("order", [[0, 2], [0, 0, 1], [0, 2, 1]])
def test_a_gap_a_repetition_or_a_swap_is_damage(tmp_path: Path, order: list[int]) -> None:
    path, lines = tmp_path / "log", _lines(*_EVENTS)
    path.write_bytes(b"".join([*(lines[place] for place in order), lines[2]]))
    with pytest.raises(LogBroken, match=r"damaged after record 1: record . stands where 2 is due"):
        read_log(str(path))


@pytest.mark.parametrize("block", range(1, 40))
def test_a_log_is_read_alike_in_blocks_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr("inspan.stores.event_log._BLOCK_BYTES", block)
    path, lines = tmp_path / "log", _lines(*_EVENTS)
    for torn in (b"", b"{", b"{}\n"):
        path.write_bytes(b"".join(lines) + torn)
        assert _numbers(read_log(str(path))) == [1, 2, 3]
    path.write_bytes(b"".join([*lines, b"{}\n", lines[0]]))
    with pytest.raises(LogBroken, match="damaged after record 3"):
        read_log(str(path))


def test_a_log_is_never_held_in_memory_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    texts = [TextSaid(text="x" * 10_000)] * 2_000
    path.write_bytes(b"".join(_lines(STARTED, *texts, ENDED)))
    tracemalloc.start()
    try:
        assert sum(1 for _ in iter_log(str(path))) == len(texts) + 2
        with pytest.raises(RunBusy):
            reopen_log(str(path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < path.stat().st_size / 4


def test_an_ended_log_takes_no_more(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(_lines(STARTED, ENDED)))
    with pytest.raises(RunBusy):
        reopen_log(str(path))


def test_a_log_that_was_never_begun_is_begun_by_taking_it_up(tmp_path: Path) -> None:
    log = reopen_log(str(tmp_path / "log"))
    assert log.append(encode(ENDED)) == 1
    log.sync()
    log.close()
    assert _numbers(read_log(str(tmp_path / "log"))) == [1]


def test_a_reader_sees_each_record_once_as_the_log_grows(tmp_path: Path) -> None:
    path, lines = tmp_path / "log", _lines(*_EVENTS, ENDED)
    reader, stream = LogReader(str(path)), b"".join(lines)
    seen: list[int] = []
    for length in range(len(stream) + 1):
        path.write_bytes(stream[:length])
        seen += [record.number for record in reader.read()]
        assert reader.ended == (length == len(stream))
    assert seen == [1, 2, 3, 4]


def test_a_record_is_seen_after_a_flush_and_not_before(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    log = RunLog(path, clock=lambda: 5.0)
    log.append(encode(STARTED))
    assert read_log(path) == []
    assert log.flush()
    assert read_log(path) == [(1, 5.0, STARTED)]
    log.close()
    log.close()


def test_a_closed_log_leaves_no_reserve_behind(tmp_path: Path) -> None:
    RunLog(str(tmp_path / "log")).close()
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_a_log_in_a_place_that_is_no_folder_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = str(tmp_path / "file" / "log")
    for act in (RunLog, read_log, reopen_log):
        with pytest.raises(StateUnusable, match=f"Cannot use {path}: Not a directory. Check its owner"):
            act(path)


def test_a_disk_that_fills_in_the_middle_of_a_record_leaves_a_log_that_goes_on(tmp_path: Path) -> None:
    done = _write_limited(
        tmp_path,
        """
        log.append(body("a" * 3000)); log.flush()
        limit(4096)
        for text in ("b" * 3000, "c"):
            log.append(body(text))
            try:
                log.flush()
            except OSError:
                refused += 1
        limit(unlimited)
        log.append(body("d")); log.sync(); log.close()
        """,
    )
    assert done == (2, [1, 2, 3, 4])


def test_a_full_disk_is_told_in_the_room_that_was_kept(tmp_path: Path) -> None:
    done = _write_limited(
        tmp_path,
        """
        log.append(body("a" * 3000)); log.flush()
        limit(4096)
        log.append(body("b" * 3000))
        log.append(body("c" * 3000))
        try:
            log.flush()
        except OSError:
            refused += 1
        log.write_last_record(body("the disk is full")); log.close()
        """,
    )
    assert done == (1, [1, 2])
    assert read_log(str(tmp_path / "log"))[-1].event == TextSaid(text="the disk is full")


def test_a_full_disk_takes_nothing_back_that_a_follower_has_seen(tmp_path: Path) -> None:
    done = _write_limited(
        tmp_path,
        """
        from inspan.stores.event_log import LogReader
        reader = LogReader(path)
        for number in range(10): log.append(body("x" * 500))
        limit(4096)
        try:
            log.flush()
        except OSError:
            refused += 1
        seen = [record.number for record in reader.read()]
        assert seen == [1, 2, 3, 4, 5, 6, 7], seen
        limit(unlimited)
        log.write_last_record(body("the disk is full")); log.close()
        assert [record.number for record in reader.read()] == [8]
        """,
    )
    assert done == (1, [1, 2, 3, 4, 5, 6, 7, 8])


def _write_limited(folder: Path, acts: str) -> tuple[int, list[int]]:
    """Writes a log in a process whose files may not grow at will; how often it was refused, and what can be read."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    script = f"""
import resource
from inspan.protocol.events import TextSaid
from inspan.protocol.wire import encode
from inspan.stores.event_log import RunLog
unlimited, refused = {soft}, 0
def limit(size): resource.setrlimit(resource.RLIMIT_FSIZE, (size, {hard}))
def body(text): return encode(TextSaid(text=text))
path = {str(folder / "log")!r}
log = RunLog(path)
{textwrap.dedent(acts)}
print(refused)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return int(done.stdout), _numbers(read_log(str(folder / "log")))


def test_a_log_that_one_process_begins_another_goes_on_with(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    begin_log(path, encode(STARTED))
    assert [record.event for record in read_log(path)] == [STARTED]
    assert (tmp_path / "log.reserve").stat().st_size > 0
    log = resume_log(path)
    log.append(encode(ENDED))
    log.flush()
    log.close()
    assert [(record.number, record.event) for record in read_log(path)] == [(1, STARTED), (2, ENDED)]
    assert not (tmp_path / "log.reserve").exists()
