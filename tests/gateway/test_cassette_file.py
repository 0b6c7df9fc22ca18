"""A cassette that cannot be played, or recorded to, is refused with the line, what is wrong, and the next step."""

import fcntl
import os
from pathlib import Path

import pytest

from inspan.errors import BadInput
from inspan.gateway.cassettes import file as cassette_file
from inspan.gateway.cassettes.cassette import VERSION
from inspan.gateway.cassettes.file import check_recording, load_cassette, open_recording

HEAD = '{"inspan_cassette":1,"agent":"someone 1.0"}'
ASKED = '{"call":1,"wire":"chat","purpose":"call","model":"m","asks":[{"kind":"text","text":"hi"}]}'
STARTED = '{"status":200,"headers":{"content-type":"application/json"}}'
BODY = '{"body":{"choices":[]}}'
ENDED = '{"end":"whole","call":1}'
WHOLE = (HEAD, ASKED, STARTED, BODY, ENDED, '{"calls":1}')
CORRECT = "Correct the line, or record it again."
RECORD = "Record one with --model-from record:FILE."


def load_refusal(path: Path) -> tuple[str, str]:
    """The sentence after the field and the path, and the next step."""
    with pytest.raises(BadInput) as caught:
        load_cassette(path)
    assert (caught.value.field, caught.value.value) == ("model_from", str(path))
    return caught.value.message.removeprefix(f"model_from '{path}': "), caught.value.next_step


def test_a_whole_cassette_is_read(tmp_path: Path) -> None:
    cassette = load_cassette(write_cassette(tmp_path, *WHOLE))
    assert cassette.about == {"agent": "someone 1.0"}
    assert [call.request.call for call in cassette.calls] == [1]


@pytest.mark.parametrize("ending", ["", "\n", "\n\n", "\r\n"])
def test_how_an_editor_ends_a_file_does_not_matter(tmp_path: Path, ending: str) -> None:
    path = tmp_path / "tape.jsonl"
    path.write_text("\n".join(WHOLE) + ending)
    assert len(load_cassette(path).calls) == 1


@pytest.mark.parametrize(
    ("data", "problem", "step"),
    [
        (b"", "it is empty: nothing was recorded.", RECORD),
        (b"\n", "it is not a cassette: line 1 is not a header.", RECORD),
        (b'[[call]]\nsay = "a"\n', "it is not a cassette: line 1 is not a header.", RECORD),
        (b'{"recording":1}\n', "it is not a cassette: line 1 is not a header.", RECORD),
        (HEAD.encode() + b"\n\xff\xfe\n", "line 2 is not UTF-8.", RECORD),
        (
            b'{"inspan_cassette":"1"}\n',
            "line 1: the version of a cassette is a number, such as 1, and not '1'.",
            CORRECT,
        ),
        (
            b'{"inspan_cassette":7}\n',
            f"line 1 says version 7; this inspan reads version {VERSION}.",
            "Upgrade inspan to read it, or record it again.",
        ),
    ],
)
def test_what_is_no_cassette_is_refused(tmp_path: Path, data: bytes, problem: str, step: str) -> None:
    path = tmp_path / "tape.jsonl"
    path.write_bytes(data)
    assert load_refusal(path) == (problem, step)


def test_a_path_that_leads_nowhere_or_to_a_folder_is_refused(tmp_path: Path) -> None:
    step = f"Check the path. {RECORD}"
    assert load_refusal(tmp_path / "none") == ("it cannot be read: No such file or directory.", step)
    assert load_refusal(tmp_path) == ("it cannot be read: Is a directory.", step)


def test_what_is_no_file_or_too_large_is_refused(tmp_path: Path) -> None:
    assert load_refusal(Path("/dev/null")) == ("it is not a file.", RECORD)
    path = tmp_path / "tape.jsonl"
    path.touch()
    os.truncate(path, cassette_file.LIMIT_BYTES + 1)
    problem, step = load_refusal(path)
    assert problem.startswith(f"it has {cassette_file.LIMIT_BYTES + 1} bytes")
    assert step == "Record a shorter run."


@pytest.mark.parametrize(
    ("lines", "problem", "step"),
    [
        (
            WHOLE[:1],
            "it has no last line that says how many calls there are. It has 0 whole calls.",
            "Record it again.",
        ),
        (
            WHOLE[:-1],
            "it has no last line that says how many calls there are. It has 1 whole call.",
            'Record it again, or, to play the 1 whole call, end it with {"calls":1}.',
        ),
        (WHOLE[:2], "call 1 has no end. It has 0 whole calls.", "Record it again."),
        (WHOLE[:4], "call 1 has no end. It has 0 whole calls.", "Record it again."),
    ],
)
def test_a_recording_that_was_not_finished_says_how_far_it_came(
    tmp_path: Path, lines: tuple[str, ...], problem: str, step: str
) -> None:
    assert load_refusal(write_cassette(tmp_path, *lines)) == (f"the recording was not finished: {problem}", step)


@pytest.mark.parametrize("line", range(2, len(WHOLE) + 1))
def test_a_file_that_breaks_off_within_a_line_is_one_that_was_not_finished(tmp_path: Path, line: int) -> None:
    path = tmp_path / "tape.jsonl"
    path.write_text("\n".join((*WHOLE[: line - 1], WHOLE[line - 1][:-1])))
    assert load_refusal(path)[0].startswith("the recording was not finished: ")


@pytest.mark.parametrize(
    ("number", "line", "problem"),
    [
        (2, STARTED, "a call has to begin here: a line with `call`, or the last one with `calls`"),
        (2, "not JSON", "JSON is malformed: invalid character (byte 4)"),
        (2, '{"x":1}', "it has to hold one of `end`, `call`, `status`, `calls`, `data`, `body`, `text`, `base64`"),
        (2, ASKED.replace('"chat"', '"fax"'), "field `wire`: 'fax' is none of messages, responses, chat, generate"),
        (2, ASKED.replace('"purpose":"call"', '"purpose":"play"'), "field `purpose`: Invalid enum value 'play'"),
        (2, ASKED.replace('"call":1', '"call":0'), "field `call`: Expected `int` >= 1"),
        (2, ASKED.replace('"text":"hi"', '"text":1'), "field `asks.text`: Expected `str`, got `int`"),
        (2, ASKED.replace('"model"', '"modle"'), "Object contains unknown field `modle`"),
        (3, BODY, "call 1 has not ended: expected `status`"),
        (3, '{"status":"ok"}', "field `status`: Expected `int | null`, got `str`"),
        (3, '{"status":99}', "field `status`: Expected `int` >= 200"),
        (4, '{"text":"a","base64":"YQ=="}', "a piece has one of `data`, `body`, `text`, `base64`, and not 2"),
        (4, '{"text":"a","event":"b"}', "`event` cannot stand there: only `data` has one of `event` and `around`"),
        (4, ASKED, "call 1 has not ended: expected a piece of the answer, or `end`"),
        (5, '{"end":"over","call":1}', "field `end`: Invalid enum value 'over'"),
        (5, '{"end":"whole","call":2}', "it ends call 2, but call 1 has not ended"),
        (6, '{"calls":3}', "it says that there are 3 calls, and there are 1"),
        (6, '{"calls":1}\n{"calls":1}', "nothing may stand after the line that says how many calls there are"),
    ],
)
def test_a_slip_of_the_hand_is_named_with_its_line(tmp_path: Path, number: int, line: str, problem: str) -> None:
    path = write_cassette(tmp_path, *WHOLE[: number - 1], line, *WHOLE[number:])
    shown = number + line.count("\n")
    assert load_refusal(path) == (f"line {shown}: {problem}.", CORRECT)


def test_header_values_that_would_break_an_answer_are_refused(tmp_path: Path) -> None:
    path = write_cassette(
        tmp_path, HEAD, ASKED, '{"status":200,"headers":{"content-type":"a\\nb"}}', BODY, ENDED, '{"calls":1}'
    )
    assert load_refusal(path)[0].startswith("line 3: field ")


def test_two_calls_of_one_number_are_refused(tmp_path: Path) -> None:
    path = write_cassette(tmp_path, HEAD, *WHOLE[1:5], *WHOLE[1:5], '{"calls":2}')
    assert load_refusal(path) == ("two calls have the number 1.", "Give each call its own number.")


def test_calls_are_played_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    calls = [line.replace('"call":1', f'"call":{number}') for number in (7, 2) for line in WHOLE[1:5]]
    cassette = load_cassette(write_cassette(tmp_path, HEAD, *calls, '{"calls":2}'))
    assert [call.request.call for call in cassette.calls] == [2, 7]


def write_cassette(folder: Path, *lines: str) -> Path:
    path = folder / "tape.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_a_new_file_or_an_empty_one_can_be_recorded_to(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    open_recording(path).close()
    open_recording(path).close()
    assert path.read_bytes() == b""


def recording_refusal(path: Path) -> str:
    with pytest.raises(BadInput) as caught:
        check_recording(path)
    assert (caught.value.field, caught.value.value) == ("model_from", str(path))
    return str(caught.value).partition("': ")[2]


def test_a_file_that_holds_something_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    path.write_text("precious")
    problem = "the file already exists and is not overwritten. Give another path, or delete the file first."
    assert recording_refusal(path) == problem
    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "it cannot be written: Is a directory."),
        ("none/tape.jsonl", "it cannot be written: No such file or directory."),
        ("x" * 300, "it cannot be written: File name too long."),
    ],
)
def test_a_path_that_cannot_be_written_is_refused(tmp_path: Path, name: str, problem: str) -> None:
    step = "Give the path of a new file in a folder that can be written to."
    assert recording_refusal(tmp_path / name) == f"{problem} {step}"


def test_a_pipe_is_refused_and_does_not_block(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert recording_refusal(path).startswith("it cannot be written: ")
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert recording_refusal(path).startswith("it is not a file.")
    finally:
        os.close(reader)


def test_two_runs_do_not_record_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    with open_recording(path):
        assert recording_refusal(path).startswith("another run is recording to it.")
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_check_leaves_nothing_behind(tmp_path: Path) -> None:
    check_recording(tmp_path / "tape.jsonl")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "empty").touch()
    check_recording(tmp_path / "empty")
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]
