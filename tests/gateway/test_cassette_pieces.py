"""An answer in pieces: the same bytes come back, and no secret or folder stays in, however it was cut."""

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspan.gateway.cassettes.cassette import Chunk
from inspan.gateway.cassettes.chunks import encode_chunk, split_chunks
from inspan.gateway.cassettes.path_placeholders import PathPlaceholders
from inspan.gateway.cassettes.scrub import fill_placeholders, scrub_chunks
from inspan.gateway.cassettes.volatile_ids import VolatileIds
from inspan.gateway.wires import WIRES
from inspan.gateway.wires.wire import Answer, ToolUse
from inspan.protocol.usage import Usage
from inspan.redaction import SecretSet

SECRET = 'sk-live-"0123456789"/abcdef'
redact = SecretSet({"THE_KEY": SECRET}).redact_text
HERE = PathPlaceholders({"cwd": "/srv/here/work", "home": "/home/someone"})
THERE = PathPlaceholders({"cwd": "/mnt/t h e r e", "home": "/root"})
NOTHING = PathPlaceholders({})
MARKER = "[REDACTED:THE_KEY]"


def join_chunks(pieces: list[Chunk]) -> bytes:
    return b"".join(map(encode_chunk, pieces))


def round_trip(pieces: list[Chunk]) -> list[Chunk]:
    """The pieces after a file was written and read."""
    return [msgspec.json.decode(msgspec.json.encode(piece), type=Chunk) for piece in pieces]


def sse(*values: Any, name: str = "") -> bytes:
    heading = f"event: {name}\n" if name else ""
    return "".join(f"{heading}data: {json.dumps(value)}\n\n" for value in values).encode()


@given(data=st.binary(max_size=200), is_stream=st.booleans())
def test_any_bytes_come_back_as_they_were(data: bytes, is_stream: bool) -> None:
    assert join_chunks(round_trip(split_chunks(data, is_stream=is_stream))) == data


_LINES = st.sampled_from(
    [
        b'data: {"a": 1}',
        b"data:[1]",
        b"event: x",
        b"id: 5",
        b": ping",
        b"data: [DONE]",
        b"retry: 1",
        b'data: {"a" ',
        b"\xff",
    ]
)
_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r", b"\n\n", b"\r\n\r\n", b" \n"])


@given(st.lists(st.tuples(_LINES, _ENDS), max_size=12))
def test_any_stream_comes_back_as_it_was(lines: list[tuple[bytes, bytes]]) -> None:
    data = b"".join(line + end for line, end in lines)
    assert join_chunks(round_trip(split_chunks(data, is_stream=True))) == data


@pytest.mark.parametrize(
    ("raw", "piece"),
    [
        (b'event: x\ndata: {"a": 1}\n\n', {"event": "x", "data": {"a": 1}}),
        (b'data: {"a": 1}\n\n', {"data": {"a": 1}}),
        (b'data: {"a": 1}\r\n\r\n', {"around": ["data: ", "\r\n\r\n"], "data": {"a": 1}}),
        (b'data:{"a": 1}\n\n', {"around": ["data:", "\n\n"], "data": {"a": 1}}),
        (b': hi\ndata: {"a": 1} \nid: 3\n\n', {"around": [": hi\ndata: ", " \nid: 3\n\n"], "data": {"a": 1}}),
        (b'data: {"a":\ndata: 1}\n\n', {"text": 'data: {"a":\ndata: 1}\n\n'}),
        (b"data: 1\ndata: 2\n\n", {"text": "data: 1\ndata: 2\n\n"}),
        (b"data: [DONE]\n\n", {"text": "data: [DONE]\n\n"}),
        (b": ping\n\n", {"text": ": ping\n\n"}),
        (b'data: {"a": ', {"text": 'data: {"a": '}),
        (b"data: \xff\n\n", {"base64": "ZGF0YTog/woK"}),
    ],
)
def test_an_event_is_written_so_that_it_can_be_read(raw: bytes, piece: Any) -> None:
    assert [json.loads(msgspec.json.encode(each)) for each in split_chunks(raw, is_stream=True)] == [piece]


@pytest.mark.parametrize("body", [b' {"a": 1}', b'{"a": 1} ', b'{\n "a": 1\n}', b"", b"null", b"\xff"])
def test_a_body_comes_back_with_the_spaces_around_it(body: bytes) -> None:
    assert join_chunks(round_trip(split_chunks(body, is_stream=False))) == body


def test_only_names_that_are_long_enough_are_carried() -> None:
    carried = VolatileIds()
    carried.register(3, ["41", "35427", "1d741f90-ce82-47e9-805d-4ae4fdb9b54b"])
    text = "41 of 35427 (35427x, 1d741f90-ce82-47e9-805d-4ae4fdb9b54b)"
    assert carried.to_placeholders(text) == "41 of {{id 3.2}} (35427x, {{id 3.3}})"
    assert carried.from_placeholders(carried.to_placeholders(text)) == text
    assert carried.from_placeholders("{{id 9.9}}") == "{{id 9.9}}"


@pytest.mark.parametrize("key", ['"session_id":', '"session_id": ', "session_id:", "session_id: "])
def test_a_number_of_four_figures_is_carried_where_it_is_called_an_id(key: str) -> None:
    carried = VolatileIds()
    carried.register(2, ["9994"])
    text = f'{{{key}9994,"chars":"9994"}} 9994 {key}99945 {key}9995'
    assert carried.to_placeholders(text) == text.replace(f"{key}9994,", f"{key}{{{{id 2.1}}}},")
    assert carried.from_placeholders(carried.to_placeholders(text)) == text


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
@pytest.mark.parametrize("is_stream", [True, False])
def test_an_answer_without_secrets_and_folders_is_kept_byte_for_byte(wire: Any, is_stream: bool) -> None:
    tool = ToolUse(name="run", arguments={"cmd": "ls {{ x }}"})
    answer = Answer(model="m", think=("h", "m"), say=("a", "b\n"), tools=(tool,), usage=Usage(input=1))
    stream = wire.encode_stream(answer)
    data = b"".join((*stream.head, *stream.tail)) if is_stream else wire.encode_body(answer)
    clean = scrub_chunks(
        split_chunks(data, is_stream=is_stream), redact=redact, placeholders=HERE, volatile_ids=VolatileIds()
    )
    assert (
        join_chunks(
            [fill_placeholders(piece, placeholders=THERE, volatile_ids=VolatileIds()) for piece in round_trip(clean)]
        )
        == data
    )


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
@given(cuts=st.lists(st.integers(0, 80), max_size=6))
def test_a_secret_and_a_folder_are_found_however_a_text_is_streamed(wire: Any, cuts: list[int]) -> None:
    text = f"key {SECRET} in /srv/here/work/a.py and /home/someone."
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    parts = tuple(text[a:b] for a, b in pairwise(places))
    tool = ToolUse(name="run", arguments={"cmd": text})
    stream = wire.encode_stream(Answer(model="m", think=parts, say=parts, tools=(tool,), usage=Usage(input=1)))
    clean = scrub_chunks(
        split_chunks(b"".join((*stream.head, *stream.tail)), is_stream=True),
        redact=redact,
        placeholders=HERE,
        volatile_ids=VolatileIds(),
    )
    written = b"".join(map(msgspec.json.encode, clean)).decode()
    assert redact(written) == written
    assert "/srv/here" not in written and "/home/someone" not in written
    spoken = join_chunks(
        [fill_placeholders(piece, placeholders=THERE, volatile_ids=VolatileIds()) for piece in clean]
    ).decode()
    wanted = f"key {MARKER} in /mnt/t h e r e/a.py and /root."
    assert wanted in spoken


def test_a_folder_in_the_pieces_of_arguments_is_found_and_the_rest_stays() -> None:
    pieces = ['{"pa', 'th": "/srv/he', 're/work/a.py", "n": 1', "}"]
    events = [delta("partial_json", piece) for piece in pieces]
    clean = scrub_chunks(
        split_chunks(sse(*events), is_stream=True), redact=str, placeholders=HERE, volatile_ids=VolatileIds()
    )
    assert texts(clean) == ['{"path": "{{cwd}}/a.py", "n": 1}', "", "", ""]
    whole = [delta("text", "look: "), delta("text", "/srv/here/work"), delta("text", " end")]
    clean = scrub_chunks(
        split_chunks(sse(*whole), is_stream=True), redact=str, placeholders=HERE, volatile_ids=VolatileIds()
    )
    assert texts(clean) == ["look: ", "{{cwd}}", " end"]


def test_texts_of_different_blocks_are_not_joined() -> None:
    first, second = SECRET[:10], SECRET[10:]
    events = [delta("text", first, index=0), delta("text", second, index=1)]
    chunks = [call_delta(0, first), call_delta(1, second)]
    for raw in (sse(*events), sse(*chunks)):
        assert (
            join_chunks(
                scrub_chunks(
                    split_chunks(raw, is_stream=True), redact=redact, placeholders=NOTHING, volatile_ids=VolatileIds()
                )
            )
            == raw
        )
    chunks = [call_delta(1, "x"), call_delta(0, first), call_delta(1, "y"), call_delta(0, second)]
    written = join_chunks(
        scrub_chunks(
            split_chunks(sse(*chunks), is_stream=True), redact=redact, placeholders=NOTHING, volatile_ids=VolatileIds()
        )
    ).decode()
    assert MARKER in written and second not in written


def test_whole_values_at_one_place_stay_apart() -> None:
    def call(path: str) -> Any:
        return {"candidates": [{"content": {"parts": [{"functionCall": {"name": "read", "args": {"path": path}}}]}}]}

    raw = sse(call("/srv/here/work/a"), call("/srv/here/work/b"))
    clean = scrub_chunks(
        split_chunks(raw, is_stream=True), redact=redact, placeholders=HERE, volatile_ids=VolatileIds()
    )
    hidden = sse(call("{{cwd}}/a"), call("{{cwd}}/b"))
    assert [json.loads(encode_chunk(piece)[6:]) for piece in clean] == [
        json.loads(encode_chunk(piece)[6:]) for piece in split_chunks(hidden, is_stream=True)
    ]


def delta(kind: str, text: str, *, index: int = 0) -> Any:
    return {"type": "content_block_delta", "index": index, "delta": {"type": f"{kind}_delta", kind: text}}


def call_delta(index: int, text: str) -> Any:
    return {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": index, "function": {"arguments": text}}]}}]}


def texts(pieces: list[Chunk]) -> list[str]:
    found: list[str] = []
    for piece in pieces:
        inner = json.loads(bytes(piece.data) if isinstance(piece.data, msgspec.Raw) else b"{}")["delta"]
        found += [value for key, value in inner.items() if key != "type"]
    return found


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps({"a": {SECRET: 1}}).encode(),
        json.dumps({"n": 12345678901, "b": "12345678901"}).encode(),
        json.dumps({"f": 12345678.901}).encode(),
        json.dumps({"a": SECRET}, indent=2).encode(),
        b"<html>" + SECRET.encode() + b"</html>",
        b"\xff\xfe" + SECRET.encode() + b"\xff",
    ],
)
@pytest.mark.parametrize("is_stream", [True, False])
def test_no_form_of_an_answer_keeps_a_secret(raw: bytes, is_stream: bool) -> None:
    secrets = SecretSet({"THE_KEY": SECRET, "NUMBER": "12345678901", "FLOAT": "12345678.901"})
    data = b"data: " + raw + b"\n\n" if is_stream else raw
    clean = scrub_chunks(
        split_chunks(data, is_stream=is_stream),
        redact=secrets.redact_text,
        placeholders=NOTHING,
        volatile_ids=VolatileIds(),
    )
    written = b"".join(map(msgspec.json.encode, clean))
    assert not secrets.has_secret(written)
    assert not secrets.has_secret(join_chunks(round_trip(clean)))


def test_what_the_responses_wire_repeats_of_its_request_is_left_out() -> None:
    response = {"object": "response", "id": "r", "instructions": "You are", "tools": [{"name": "x"}], "user": "u"}
    for raw, is_stream in (
        (json.dumps(response).encode(), False),
        (sse({"type": "response.created", "response": response}), True),
    ):
        written = join_chunks(
            scrub_chunks(
                split_chunks(raw, is_stream=is_stream), redact=str, placeholders=NOTHING, volatile_ids=VolatileIds()
            )
        ).decode()
        assert '"instructions":null,"tools":[],"user":null' in written
        assert "You are" not in written


_PLACES = st.sampled_from(["/srv/here/work", "{{cwd}}", "{{literal cwd}}", "{{id 1.2}}", "{{", "/a", " "])


@given(text=st.text(), more=st.lists(_PLACES))
def test_what_is_hidden_is_shown_as_it_was(text: str, more: list[str]) -> None:
    whole = "".join(more) + text
    assert HERE.from_placeholders(HERE.to_placeholders(whole)) == whole


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("/srv/here/work", "{{cwd}}"),
        ("/srv/here/work/a.py:3", "{{cwd}}/a.py:3"),
        ("cd /srv/here/work.", "cd {{cwd}}."),
        (r"a\n/srv/here/work\n", r"a\n{{cwd}}\n"),
        ("/srv/here/work2", "/srv/here/work2"),
        ("/mnt/srv/here/work", "/mnt/srv/here/work"),
        ("/home/someone/projects/-srv-here-work/x", "{{home}}/projects/{{cwd-dashed}}/x"),
        ("file:///home/someone", "file://{{home}}"),
        ("{{cwd}} {{other}}", "{{literal cwd}} {{other}}"),
    ],
)
def test_folders_are_hidden_where_they_stand_whole(text: str, hidden: str) -> None:
    assert HERE.to_placeholders(text) == hidden


def test_the_root_and_nothing_are_no_places() -> None:
    assert PathPlaceholders({"cwd": "/", "home": ""}).to_placeholders("/ and /etc {{cwd}}") == "/ and /etc {{cwd}}"


def test_the_innermost_folder_counts() -> None:
    places = PathPlaceholders({"home": "/home/me", "cwd": "/home/me/work", "tmp": "/home/me/work/tmp"})
    assert places.to_placeholders("/home/me /home/me/work /home/me/work/tmp") == "{{home}} {{cwd}} {{tmp}}"


def test_a_folder_with_quotes_is_quoted_where_json_stands_in_a_text() -> None:
    odd = PathPlaceholders({"cwd": '/a "b"\\c'})
    events = [delta("partial_json", '{"path": "{{cwd}}"}'), delta("text", "{{cwd}}")]
    spoken = [
        fill_placeholders(piece, placeholders=odd, volatile_ids=VolatileIds())
        for piece in split_chunks(sse(*events), is_stream=True)
    ]
    path, said = texts(spoken)
    assert (json.loads(path), said) == ({"path": '/a "b"\\c'}, '/a "b"\\c')
    hidden = scrub_chunks(spoken, redact=str, placeholders=odd, volatile_ids=VolatileIds())
    assert texts(hidden) == ['{"path": "{{cwd}}"}', "{{cwd}}"]
