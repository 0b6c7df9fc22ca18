"""A recording: text that comes back as it was written, and a sentence with file and line where it cannot be read."""

import json
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspan.errors import BadInput
from inspan.protocol.events import ModelCallEnded
from inspan.stores import recording
from inspan.stores.recording import Ending, Exit, Header, Recording

HEADER = Header(
    recording=1, agent="scripted", agent_version="1.2.3", channel="stream", inspan="0.1.0", task={"model": "m"}
)
EXIT = Exit(exit=0, signal=None)
FULL_EXIT = Exit(
    exit=143,
    signal=15,
    duration_s=1.5,
    ending=Ending(reason="stopped", message="asked to stop"),
    call=ModelCallEnded(call=2, wire="chat", status=429),
)


def encode_recording(*, out: list[bytes], err: list[bytes], exit: Exit = EXIT) -> bytes:
    file = BytesIO()
    assert recording.write(file, HEADER, out=out, err=err, exit=exit) == len(out) + len(err)
    return file.getvalue()


def expect_refusal(path: Path) -> BadInput:
    with pytest.raises(BadInput) as caught:
        recording.read(str(path))
    assert caught.value.message.startswith(f"recording '{path}': ")
    assert caught.value.next_step
    return caught.value


def test_a_recording_is_lines_of_json_that_a_person_can_compare() -> None:
    lines = encode_recording(out=[b'{"a":1}', b""], err=["caf\u00e9".encode()], exit=FULL_EXIT).decode().splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "recording": 1,
            "agent": "scripted",
            "agent_version": "1.2.3",
            "channel": "stream",
            "inspan": "0.1.0",
            "task": {"model": "m"},
        },
        {"out": '{"a":1}'},
        {"out": ""},
        {"err": "caf\u00e9"},
        {
            "exit": 143,
            "signal": 15,
            "duration_s": 1.5,
            "ending": {"reason": "stopped", "message": "asked to stop"},
            "call": {"kind": "model_call_ended", "call": 2, "wire": "chat", "status": 429},
        },
    ]
    assert "café" in lines[3]


def test_bytes_that_are_no_text_are_kept(tmp_path: Path) -> None:
    data = encode_recording(out=[b"\xff\x00", b"text"], err=[b"\xe9"])
    assert data.splitlines()[1] == b'{"out64":"/wA="}'
    (tmp_path / "r").write_bytes(data)
    assert recording.read(str(tmp_path / "r")) == Recording(
        header=HEADER, out=[b"\xff\x00", b"text"], err=[b"\xe9"], exit=EXIT
    )


_LINES = st.lists(st.one_of(st.binary(), st.text().map(str.encode)).map(lambda line: line.replace(b"\n", b"\r")))


@given(out=_LINES, err=_LINES)
def test_whatever_an_agent_says_comes_back_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, out: list[bytes], err: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("r") / "r"
    path.write_bytes(encode_recording(out=out, err=err, exit=FULL_EXIT))
    assert recording.read(str(path)) == Recording(header=HEADER, out=out, err=err, exit=FULL_EXIT)


def test_a_line_of_ten_megabytes_is_read(tmp_path: Path) -> None:
    long = b"x" * 10_000_000
    (tmp_path / "r").write_bytes(encode_recording(out=[long], err=[]))
    assert recording.read(str(tmp_path / "r")).out == [long]


GOOD = encode_recording(out=[b"one", b"two"], err=[b"three"])
FIRST, ONE, TWO, THREE, LAST = GOOD.splitlines(keepends=True)


@pytest.mark.parametrize("end", range(len(FIRST), len(GOOD) - 1))
def test_a_recording_that_was_cut_anywhere_is_called_short(tmp_path: Path, end: int) -> None:
    (tmp_path / "r").write_bytes(GOOD[:end])
    error = expect_refusal(tmp_path / "r")
    assert "before the line that says how the agent left" in error.message
    assert "cut short" in error.next_step


def test_a_missing_newline_at_the_very_end_cuts_nothing(tmp_path: Path) -> None:
    (tmp_path / "r").write_bytes(GOOD[:-1])
    assert recording.read(str(tmp_path / "r")).err == [b"three"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"\x7fELF\x02\x01\x01\0\0\0" * 1000,
        b"\xff" * 3_000_000,
        b"{",
        b"[" * 100_000,
        b'{"n":1,"t":1.0,"crc":"0","event":{}}\n',
        b'{"type":"thread.started","thread_id":"1"}\n',
        b'{"recording":"1"}\n',
        b"5\n",
    ],
    ids=["empty", "blank", "binary", "huge binary", "torn", "nested", "log", "raw output", "odd version", "number"],
)
def test_what_is_no_recording_is_told_so(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "r").write_bytes(content)
    error = expect_refusal(tmp_path / "r")
    assert error.message.endswith("it is not a recording: line 1 is not a header.")
    assert "inspan export" in error.next_step


def test_a_recording_of_a_newer_inspan_is_told_so_whatever_else_it_holds(tmp_path: Path) -> None:
    (tmp_path / "r").write_bytes(b'{"recording":2,"agents":["a"]}\nwhatever\n')
    error = expect_refusal(tmp_path / "r")
    assert error.message.endswith("line 1 says version 2; this inspan reads version 1.")
    assert "Upgrade" in error.next_step


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{"recording":1}\n', "line 1: "),
        (FIRST.replace(b"scripted", b""), "line 1: "),
        (FIRST.replace(b'"inspan"', b'"inspam"'), "line 1: Object contains unknown field `inspam`"),
        (FIRST.replace(b'"model"', b'"modle"'), "line 1: Object contains unknown field `modle`"),
        (FIRST + b"\n" + LAST, "line 2: "),
        (FIRST + ONE + b"not json\n" + LAST, "line 3: "),
        (FIRST + b"[]\n" + LAST, "line 2: "),
        (FIRST + b'{"out":5}\n' + LAST, "line 2: Expected `str`, got `int`"),
        (FIRST + b'{"out64":"%"}\n' + LAST, "line 2: "),
        (FIRST + b'{"out":"a","err":"b"}\n' + LAST, "line 2: it has to hold one of"),
        (FIRST + b'{"in":"a"}\n' + LAST, "line 2: it has to hold one of"),
        (FIRST + b'{"exit":0}\n', "line 2: Object missing required field `signal`"),
        (FIRST + LAST.replace(b"0", b'"0"'), "line 2: Expected `int | null`, got `str`"),
        (FIRST + b'{"exit":0,"signal":null,"ending":{"reason":"bored","message":""}}\n', "line 2: "),
        (FIRST + LAST + ONE, "line 3: nothing may stand after"),
        (FIRST + LAST + LAST, "line 3: nothing may stand after"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "r").write_bytes(content)
    assert f"'{tmp_path / 'r'}': {says}" in expect_refusal(tmp_path / "r").message


def test_a_file_that_cannot_be_opened_is_told_so(tmp_path: Path) -> None:
    assert "it cannot be read: No such file or directory." in expect_refusal(tmp_path / "gone").message
    assert "it cannot be read: Is a directory." in expect_refusal(tmp_path).message
