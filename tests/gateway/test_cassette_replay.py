"""What was recorded is played as it was: on every wire, in any order, with its faults; what does not fit is named."""

import asyncio
import gzip
import http.client
import json
import resource
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from inspan.errors import BadInput
from inspan.gateway import Reply, Request
from inspan.gateway.cassettes.file import load_cassette
from inspan.gateway.cassettes.record import RecordUpstream
from inspan.redaction import SecretSet

from .cassettes import ABOUT, RecordingGateway, ReplayGateway, make_script_upstream
from .scripted_gateway import TOKEN, WAIT_S, WIRES, Response, ScriptedGateway, text_in_body, texts_in_events

SECRET = "sk-live-0123456789abcdef"
redact = SecretSet({"THE_KEY": SECRET}).redact_text
NEXT = "Make the run what it was, or record it again."
STREAM = {"content-type": "text/event-stream"}
FINAL = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


class CallbackUpstream:
    """An upstream that does what a test says."""

    def __init__(self, act: Callable[[Request, Reply], Awaitable[None]]) -> None:
        self._act = act

    async def answer(self, request: Request, reply: Reply) -> None:
        await self._act(request, reply)


@pytest.fixture
def cassette_path(tmp_path: Path) -> Path:
    return tmp_path / "tape.jsonl"


def ask_stage(stage: ScriptedGateway, wire: str, text: str = "hi", *, stream: bool = True) -> tuple[int, bytes]:
    response = stage.ask(wire, text, stream=stream)
    return response.status, response.body


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_is_played_byte_for_byte(wire: str, stream: bool, cassette_path: Path) -> None:
    scenario = (
        '[[call]]\nthink = "hm"\nsay = ["Al", "l right."]\n[[call]]\nuse = {tool = "Look", input = {at = "me"}}\n'
    )
    with RecordingGateway(cassette_path, make_script_upstream(scenario)) as recorder:
        recorded = [ask_stage(recorder, wire, text, stream=stream) for text in ("one", "two")]
    with ReplayGateway(cassette_path) as player:
        played = [ask_stage(player, wire, text, stream=stream) for text in ("one", "two")]
    assert played == recorded
    assert player.replay.mismatch == ""
    assert [call.usage for call in player.calls_so_far()] == [call.usage for call in recorder.calls_so_far()]


@pytest.mark.parametrize("wire", WIRES)
def test_calls_may_come_in_another_order(wire: str, cassette_path: Path) -> None:
    with RecordingGateway(
        cassette_path, make_script_upstream('[[call]]\nsay = "a"\n[[call]]\nsay = "b"\n[[call]]\nsay = "c"\n')
    ) as recorder:
        for text in ("one", "two", "three"):
            recorder.ask(wire, text)
    with ReplayGateway(cassette_path) as player:
        said = {text: texts_in_events(wire, player.ask(wire, text).events) for text in ("three", "one", "two")}
    assert said == {"one": ["a"], "two": ["b"], "three": ["c"]}
    assert player.replay.mismatch == ""


@pytest.mark.parametrize("wire", WIRES)
def test_a_failure_and_the_answer_after_it_are_played_in_turn(wire: str, cassette_path: Path) -> None:
    scenario = '[[call]]\nfail = {status = 529, headers = {retry-after = "0"}}\n[[call]]\nsay = "now"\n'
    with RecordingGateway(cassette_path, make_script_upstream(scenario)) as recorder:
        recorded = [ask_stage(recorder, wire) for _ in range(2)]
    with ReplayGateway(cassette_path) as player:
        first, second = player.ask(wire), player.ask(wire)
    assert [(each.status, each.body) for each in (first, second)] == recorded
    assert (first.status, first.headers["retry-after"]) == (529, "0")
    assert first.headers["content-length"] == str(len(first.body))
    assert player.replay.mismatch == ""


@pytest.mark.parametrize("wire", WIRES)
def test_what_was_asked_otherwise_is_refused_with_the_first_difference(wire: str, cassette_path: Path) -> None:
    with RecordingGateway(cassette_path, make_script_upstream('[[call]]\nsay = "a"\n')) as recorder:
        recorder.ask(wire, "paint it red")
    with ReplayGateway(cassette_path) as player:
        response = player.ask(wire, "paint it green")
        call = player.next_call()
    complaint = (
        "Request 1 is not call 1 of the cassette: part 1, the text, was 'paint it red' and is now 'paint it green'. "
        + NEXT
    )
    assert response.status == 400
    assert complaint in response.body.decode()
    assert (call.status, call.problem) == (400, f"unexpected request: {complaint}")
    assert player.replay.mismatch == complaint


def build_body(model: str, stream: bool) -> dict[str, Any]:
    return {"model": model, "stream": stream, "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(
    ("model", "stream", "difference"),
    [("b", True, "model was 'a' and is now 'b'"), ("a", False, "stream was True and is now False")],
)
def test_another_model_or_way_of_answering_is_a_difference(
    model: str, stream: bool, difference: str, cassette_path: Path
) -> None:
    with RecordingGateway(cassette_path, make_script_upstream('[[call]]\nsay = "a"\n')) as recorder:
        recorder.send("POST", "/v1/chat/completions", body=build_body("a", True))
    with ReplayGateway(cassette_path) as player:
        assert player.send("POST", "/v1/chat/completions", body=build_body(model, stream)).status == 400
    assert player.replay.mismatch == f"Request 1 is not call 1 of the cassette: {difference}. {NEXT}"


def test_calls_that_nobody_asked_for_are_complained_of(cassette_path: Path) -> None:
    with RecordingGateway(cassette_path, make_script_upstream('[[call]]\nsay = "a"\nrepeat = 2\n')) as recorder:
        recorder.ask("chat", "one")
        recorder.ask("chat", "two")
    with ReplayGateway(cassette_path) as player:
        player.ask("chat", "one")
    assert player.replay.mismatch == f"Call 2 of 2 was never asked for: the text 'two'. {NEXT}"


def test_a_request_too_many_is_complained_of(cassette_path: Path) -> None:
    with RecordingGateway(cassette_path, make_script_upstream('[[call]]\nsay = "a"\n')) as recorder:
        recorder.ask("chat", "one")
    with ReplayGateway(cassette_path) as player:
        player.ask("chat", "one")
        assert player.ask("chat", "two").status == 400
        assert player.ask("chat", "one").status == 400
    assert player.replay.mismatch == f"Request 2 came after the last call of the cassette: the text 'two'. {NEXT}"
    with ReplayGateway(cassette_path) as player:
        player.ask("chat", "one")
        player.ask("chat", "one")
    again = "Request 2 is call 1 of the cassette again, and that was played: the text 'one'."
    assert player.replay.mismatch == f"{again} {NEXT}"


def test_a_complaint_shows_no_secret_not_even_half_of_one(cassette_path: Path) -> None:
    with RecordingGateway(cassette_path, make_script_upstream('[[call]]\nsay = "a"\n'), redact=redact) as recorder:
        recorder.ask("chat", "x" * 85 + "other")
    with ReplayGateway(cassette_path, redact=redact) as player:
        player.ask("chat", "x" * 85 + SECRET)
    assert "[REDACTED:THE_KEY]" in player.replay.mismatch
    assert SECRET[:6] not in player.replay.mismatch


SIDES = [
    ("POST", "/v1/messages/count_tokens", {"x-api-key": TOKEN}),
    ("GET", "/v1/models", {"x-api-key": TOKEN}),
    ("GET", "/v1/models", {"authorization": f"Bearer {TOKEN}"}),
]


@pytest.mark.parametrize(("method", "path", "headers"), SIDES)
def test_side_requests_are_known_by_their_purpose_and_use_up_no_call(
    method: str, path: str, headers: dict[str, str], cassette_path: Path
) -> None:
    with RecordingGateway(cassette_path, make_script_upstream('[[call]]\nsay = "a"\n')) as recorder:
        recorded = recorder.send(method, path, body=b"{}", headers=headers)
        recorder.ask("chat")
    with ReplayGateway(cassette_path) as player:
        player.ask("chat")
        played = [player.send(method, path, body=b'{"other": 1}', headers=headers) for _ in range(3)]
    assert [(each.status, each.body) for each in played] == [(200, recorded.body)] * 3
    assert player.replay.mismatch == ""
    with ReplayGateway(cassette_path) as player:
        player.ask("chat")
    assert player.replay.mismatch == ""


def test_what_is_about_the_account_is_passed_on_and_not_kept(cassette_path: Path) -> None:
    class Heard:
        said: bytes = b""

        async def start(self, status: int, headers: Mapping[str, str]) -> None: ...

        async def write(self, data: bytes) -> None:
            self.said += data

        async def finish(self) -> None: ...

        def cut(self) -> None: ...

        def note(self, problem: str) -> None: ...

    async def tells(request: Request, reply: Reply) -> None:
        await reply.write(b"someone@example.org")

    request = Request(
        method="GET", path="/me", headers={}, body=b"", plain=b"", wire="responses", purpose="other", ask=None
    )
    recording = RecordUpstream(
        CallbackUpstream(tells), file=cassette_path, redact=redact, folders={}, about={"by": f"me with {SECRET}"}
    )
    heard = Heard()
    asyncio.run(recording.answer(request, heard))
    recording.close()
    assert heard.said == b"someone@example.org"
    assert cassette_path.read_text() == '{"inspan_cassette":1,"by":"me with [REDACTED:THE_KEY]"}\n{"calls":0}\n'


def test_a_side_request_that_was_not_recorded_is_refused_without_a_complaint(cassette_path: Path) -> None:
    with RecordingGateway(cassette_path, make_script_upstream('[[call]]\nsay = "a"\n')) as recorder:
        recorder.ask("chat")
    with ReplayGateway(cassette_path) as player:
        player.ask("chat")
        response = player.send("GET", "/v1/models")
    assert response.status == 404
    assert "The cassette has no answer to 'list models'." in response.body.decode()
    assert player.replay.mismatch == ""


def test_a_cut_is_played_as_a_cut(cassette_path: Path) -> None:
    with (
        RecordingGateway(cassette_path, make_script_upstream('[[call]]\nsay = "so far"\ncut = true\n')) as recorder,
        pytest.raises(http.client.IncompleteRead) as first,
    ):
        recorder.ask("messages")
    with ReplayGateway(cassette_path) as player, pytest.raises(http.client.IncompleteRead) as second:
        player.ask("messages")
    assert second.value.partial == first.value.partial
    assert player.replay.mismatch == ""
    assert [call.problem for call in player.calls_so_far()] == ["cut"]


def test_a_cut_before_the_answer_is_played_as_one(cassette_path: Path) -> None:
    async def hangs_up(request: Request, reply: Reply) -> None:
        reply.cut()

    with (
        RecordingGateway(cassette_path, CallbackUpstream(hangs_up)) as recorder,
        pytest.raises(http.client.RemoteDisconnected),
    ):
        recorder.ask("chat")
    with ReplayGateway(cassette_path) as player, pytest.raises(http.client.RemoteDisconnected):
        player.ask("chat")
    assert player.replay.mismatch == ""


def test_silence_is_not_waited_for(cassette_path: Path) -> None:
    with RecordingGateway(
        cassette_path, make_script_upstream('[[call]]\nsay = "so far"\nstall = "mid-stream"\n')
    ) as recorder:
        connection = recorder.connect()
        connection.request("POST", "/v1/messages", json.dumps(build_body("m", True)), {"x-api-key": TOKEN})
        begun = connection.getresponse().read1()
        recorder.close()
        connection.close()
    assert load_cassette(cassette_path).calls[0].ending.end == "stalled"
    with ReplayGateway(cassette_path) as player, pytest.raises(http.client.IncompleteRead) as cut:
        player.send("POST", "/v1/messages", body=build_body("m", True))
    assert begun and cut.value.partial.startswith(begun)
    assert player.replay.mismatch == ""


def test_a_stall_that_ended_is_an_answer_like_others(cassette_path: Path) -> None:
    scenario = '[[call]]\nsay = "late"\nstall = "mid-stream"\nstall_s = 0.05\n'
    with RecordingGateway(cassette_path, make_script_upstream(scenario)) as recorder:
        recorded = ask_stage(recorder, "chat")
    with ReplayGateway(cassette_path) as player:
        assert ask_stage(player, "chat") == recorded


def test_garbage_is_played_as_garbage(cassette_path: Path) -> None:
    with RecordingGateway(
        cassette_path, make_script_upstream('[[call]]\ngarbage = "<html>\\n\\nno</html>"\n')
    ) as recorder:
        recorded = ask_stage(recorder, "messages")
    with ReplayGateway(cassette_path) as player:
        assert ask_stage(player, "messages") == recorded
    assert [call.problem for call in player.calls_so_far()] == ["garbage"]


def test_what_the_upstream_noted_is_noted_again(cassette_path: Path) -> None:
    async def is_unreachable(request: Request, reply: Reply) -> None:
        reply.note(f"unreachable: no way with {SECRET}")
        await reply.start(502, {"content-type": "application/json"})
        await reply.write(b"{}")
        await reply.finish()

    with RecordingGateway(cassette_path, CallbackUpstream(is_unreachable), redact=redact) as recorder:
        recorder.ask("chat")
    with ReplayGateway(cassette_path) as player:
        assert player.ask("chat").status == 502
    assert [call.problem for call in player.calls_so_far()] == ["unreachable: no way with [REDACTED:THE_KEY]"]


def conversation(name: str, tool: str) -> dict[str, Any]:
    use: dict[str, Any] = {"type": "tool_use", "id": tool, "name": "run", "input": {}}
    result = {"type": "tool_result", "tool_use_id": tool, "content": "done"}
    said: list[Any] = [{"role": "user", "content": name}, {"role": "assistant", "content": [use]}]
    return {"model": "m", "stream": False, "messages": [*said, {"role": "user", "content": [result]}]}


def test_of_calls_that_are_alike_the_one_of_this_conversation_answers(cassette_path: Path) -> None:
    with RecordingGateway(
        cassette_path, make_script_upstream('[[call]]\nsay = "to a"\n[[call]]\nsay = "to b"\n')
    ) as recorder:
        for name, tool in (("a", "toolu_1"), ("b", "toolu_2")):
            recorder.send("POST", "/v1/messages", body=conversation(name, tool))
    with ReplayGateway(cassette_path) as player:
        answers = [
            player.send("POST", "/v1/messages", body=conversation(name, tool)).json
            for name, tool in (("b", "toolu_2"), ("a", "toolu_1"))
        ]
    assert [text_in_body("messages", answer) for answer in answers] == ["to b", "to a"]


def test_a_difference_is_shown_to_the_call_of_this_conversation(cassette_path: Path) -> None:
    with RecordingGateway(cassette_path, make_script_upstream('[[call]]\nsay = "a"\nrepeat = 2\n')) as recorder:
        for name, tool in (("a", "toolu_1"), ("b", "toolu_2")):
            recorder.send("POST", "/v1/messages", body=conversation(name, tool))
    other = json.loads(json.dumps(conversation("b", "toolu_2")).replace("done", "gone"))
    with ReplayGateway(cassette_path) as player:
        player.send("POST", "/v1/messages", body=other)
    difference = "part 1, the result of a tool, was 'done' and is now 'gone'"
    assert player.replay.mismatch == f"Request 1 is not call 2 of the cassette: {difference}. {NEXT}"


def test_a_name_that_a_tool_made_up_is_the_one_of_this_run_in_the_answers_after(cassette_path: Path) -> None:
    def result(text: str) -> dict[str, Any]:
        return {
            "model": "m",
            "stream": True,
            "input": [{"type": "function_call_output", "call_id": "c", "output": text}],
        }

    async def uses_the_session(request: Request, reply: Reply) -> None:
        session = request.plain.split(b"session ID ")[1][:5].decode()
        halves = [f'{{"session_id":{session[:2]}', f'{session[2:]},"note":"{{{{id 1.1}}}}"}}']
        deltas = [
            {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": half} for half in halves
        ]
        await reply.start(200, STREAM)
        await reply.write(b"".join(f"data: {json.dumps(delta)}\n\n".encode() for delta in deltas))
        await reply.finish()

    with RecordingGateway(cassette_path, CallbackUpstream(uses_the_session)) as recorder:
        recorder.send("POST", "/v1/responses", body=result("Process running with session ID 35427\n"))
    assert "35427" not in cassette_path.read_text()
    with ReplayGateway(cassette_path) as player:
        played = player.send("POST", "/v1/responses", body=result("Process running with session ID 40001\n"))
    assert "".join(event["delta"] for event in played.events) == '{"session_id":40001,"note":"{{id 1.1}}"}'


def test_many_calls_at_once_each_get_their_own_answer(cassette_path: Path) -> None:
    names = [f"number {number}" for number in range(40)]

    async def says_it_back(request: Request, reply: Reply) -> None:
        assert request.ask is not None
        body = json.dumps({"said": request.ask.newest_text}).encode()
        await reply.start(200, {"content-type": "application/json", "content-length": str(len(body))})
        await reply.write(body)
        await reply.finish()

    def all_at_once(stage: ScriptedGateway) -> dict[str, Response]:
        found: dict[str, Response] = {}

        def ask(name: str) -> None:
            found[name] = stage.ask("chat", name, stream=False)

        threads = [threading.Thread(target=ask, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        return found

    with RecordingGateway(cassette_path, CallbackUpstream(says_it_back)) as recorder:
        all_at_once(recorder)
    with ReplayGateway(cassette_path) as player:
        played = all_at_once(player)
    assert {name: response.json["said"] for name, response in played.items()} == {name: name for name in names}
    assert player.replay.mismatch == ""
    assert len(load_cassette(cassette_path).calls) == 40


def test_a_cassette_holds_no_key_no_header_of_the_request_no_prompt_of_the_vendor_and_no_cookie(
    cassette_path: Path,
) -> None:
    async def says_much(request: Request, reply: Reply) -> None:
        kept = {"retry-after": "1", "anthropic-ratelimit-requests-remaining": "5", "x-should-retry": "false"}
        dropped = {"set-cookie": "a=COOKIE", "anthropic-organization-id": "ORGANISATION", "request-id": "REQUEST"}
        await reply.start(200, {"Content-Type": "application/json", **kept, **dropped})
        await reply.write(json.dumps({"content": [{"type": "text", "text": f"your key is {SECRET}"}]}).encode())
        await reply.finish()

    body: dict[str, Any] = {
        "model": "m",
        "system": "SYSTEM PROMPT",
        "tools": [{"name": "TOOL", "input_schema": {}}],
        "metadata": {"user_id": "USER"},
        "messages": [{"role": "user", "content": f"say {SECRET}"}],
    }
    with RecordingGateway(cassette_path, CallbackUpstream(says_much), redact=redact) as recorder:
        recorder.send("POST", "/v1/messages?key=QUERY", body=body, headers={"x-api-key": TOKEN, "x-other": "HEADER"})
    text = cassette_path.read_text()
    unwanted = (SECRET, TOKEN, "HEADER", "SYSTEM", "TOOL", "USER", "COOKIE", "ORGANISATION", "REQUEST", "QUERY")
    assert [word for word in unwanted if word in text] == []
    (call,) = load_cassette(cassette_path).calls
    assert call.start.headers == {
        "content-type": "application/json",
        "retry-after": "1",
        "anthropic-ratelimit-requests-remaining": "5",
        "x-should-retry": "false",
    }
    assert text.splitlines()[0] == json.dumps({"inspan_cassette": 1, **ABOUT}, separators=(",", ":"))


def test_an_agent_that_hangs_up_after_the_last_event_has_the_whole_answer(cassette_path: Path) -> None:
    assert _record_hang_up(cassette_path, FINAL) == "whole"


def test_an_agent_that_hangs_up_before_has_left(cassette_path: Path) -> None:
    assert _record_hang_up(cassette_path, b'event: ping\ndata: {"type":"ping"}\n\n') == "left"
    with ReplayGateway(cassette_path) as player:
        pass
    assert player.replay.mismatch == ""


def _record_hang_up(cassette_path: Path, event: bytes) -> str:
    async def never_ends(request: Request, reply: Reply) -> None:
        await reply.start(200, STREAM)
        while True:
            await reply.write(event)

    with RecordingGateway(cassette_path, CallbackUpstream(never_ends)) as recorder:
        connection = recorder.connect()
        connection.request("POST", "/v1/messages", json.dumps(build_body("m", True)), {"x-api-key": TOKEN})
        assert connection.getresponse().read1()
        connection.close()
        recorder.next_call()
    return load_cassette(cassette_path).calls[0].ending.end


def test_an_upstream_that_breaks_is_recorded_as_a_cut(cassette_path: Path) -> None:
    async def breaks(request: Request, reply: Reply) -> None:
        await reply.start(200, STREAM)
        await reply.write(b": hello\n\n")
        raise KeyError("oops")

    with (
        RecordingGateway(cassette_path, CallbackUpstream(breaks)) as recorder,
        pytest.raises(http.client.IncompleteRead),
    ):
        recorder.ask("messages")
    (call,) = load_cassette(cassette_path).calls
    assert call.ending.end == "cut"


@contextmanager
def files_up_to(limit_bytes: int) -> Generator[None]:
    """For a moment, no file of this process can grow beyond a size: as when a disk is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("room_bytes", [0, 10, 200])
def test_a_full_disk_ends_the_recording_and_not_the_run(room_bytes: int, cassette_path: Path) -> None:
    with RecordingGateway(cassette_path, make_script_upstream('[[call]]\nsay = "a"\nrepeat = 3\n')) as recorder:
        assert recorder.ask("chat", "one").status == 200
        recorder.next_call()
        whole = cassette_path.read_bytes()
        with files_up_to(len(whole) + room_bytes):
            assert recorder.ask("chat", "two").status == 200
            recorder.next_call()
        assert recorder.ask("chat", "three").status == 200
    problem = "The recording stopped after 1 calls: File too large. The cassette is not finished."
    assert recorder.recording.problem == problem
    assert cassette_path.read_bytes() == whole


def test_an_answer_that_is_too_long_ends_the_recording_and_not_the_run(cassette_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("inspan.gateway.cassettes.record.LONGEST_ANSWER_BYTES", 100)
    with RecordingGateway(cassette_path, make_script_upstream(f'[[call]]\nsay = "{"a" * 200}"\n')) as recorder:
        assert len(recorder.ask("chat").body) > 200
    assert recorder.recording.problem.startswith("The recording stopped after 0 calls: the answer to call 1 cannot")


def test_a_compressed_answer_is_kept_as_text_and_passed_on_as_it_came(cassette_path: Path) -> None:
    plain = json.dumps({"choices": [], "said": SECRET}).encode()

    async def squeezes(request: Request, reply: Reply) -> None:
        await reply.start(200, {"content-type": "application/json", "content-encoding": "gzip"})
        await reply.write(gzip.compress(plain))
        await reply.finish()

    with RecordingGateway(cassette_path, CallbackUpstream(squeezes), redact=redact) as recorder:
        assert gzip.decompress(recorder.ask("chat", stream=False).body) == plain
    with ReplayGateway(cassette_path) as player:
        assert player.ask("chat", stream=False).json == {"choices": [], "said": "[REDACTED:THE_KEY]"}


def test_a_killed_recording_has_whole_calls_and_no_end(cassette_path: Path) -> None:
    with RecordingGateway(cassette_path, make_script_upstream('[[call]]\nsay = "a"\n')) as recorder:
        recorder.ask("chat")
        recorder.next_call()
        so_far = cassette_path.read_bytes()
    killed = cassette_path.with_name("killed.jsonl")
    killed.write_bytes(so_far)
    with pytest.raises(BadInput, match=r"the recording was not finished: .* It has 1 whole call"):
        load_cassette(killed)
    assert cassette_path.read_bytes() == so_far + b'{"calls":1}\n'


def test_a_cassette_that_was_edited_plays_as_edited(cassette_path: Path) -> None:
    with RecordingGateway(cassette_path, make_script_upstream('[[call]]\nsay = "good day"\n')) as recorder:
        recorder.ask("chat", "greet")
    cassette_path.write_text(cassette_path.read_text().replace("good day", "good night").replace("greet", "part"))
    with ReplayGateway(cassette_path) as player:
        assert texts_in_events("chat", player.ask("chat", "part").events) == ["good night"]
