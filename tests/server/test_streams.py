"""Following runs over HTTP: what is there, what comes, where a client goes on, and how it ends."""

import json
import resource
from pathlib import Path

import pytest

from inspan.protocol.events import TextSaid
from inspan.stores.event_log import read_log
from tests.cli.scenarios import release_tool, run_to_end, start_waiting_run
from tests.cli_env import CliEnv, wait_until

from .conftest import Live, Serve
from .living_run import LivingRun
from .server_process import PREFIX, SentEvent, ServerProcess


def numbers(events: list[SentEvent]) -> list[int]:
    return [event.data["n"] for event in events if event.kind != "end"]


def test_a_real_run_is_followed_from_its_first_event_to_its_end(cli_env: CliEnv, server: ServerProcess) -> None:
    run_id = start_waiting_run(cli_env)
    client = server.follow(f"/runs/{run_id}/stream")
    first = client.read_until("tool_started")
    release_tool(cli_env)
    events = first + client.read_to_end()
    printed = [json.loads(line) for line in cli_env.inspan("events", run_id).stdout.splitlines()]
    assert [
        {"schema": 1, "n": each.data["n"], "t": each.data["t"], "event": each.data["event"]} for each in events[:-1]
    ] == printed
    assert [each.kind for each in events[:-1]] == [each["event"]["kind"] for each in printed]
    assert [each.id for each in events[:-1]] == [str(each["n"]) for each in printed]
    assert events[-1] == SentEvent("", "end", {"run_id": run_id, "why": "ended"})
    # What the owner still had to close is closed.
    assert server.get(f"/runs/{run_id}/state").json["outcome"] == "completed"


def test_a_client_goes_on_where_it_was(server: ServerProcess, live: Live) -> None:
    run = live()
    run.say("one", "two", "three")
    assert numbers(server.follow(f"/runs/{run.run_id}/stream?after=2").read_until("text_said")) == [3]
    client = server.follow(f"/runs/{run.run_id}/stream?after=0", last_id="3")
    run.end()
    assert numbers(client.read_to_end()) == [4, 5]


def test_only_the_kinds_that_were_asked_for_are_sent(server: ServerProcess, live: Live) -> None:
    run = live()
    run.say("one")
    run.end()
    client = server.follow(f"/runs/{run.run_id}/stream?kinds=text_said,run_ended")
    assert [event.kind for event in client.read_to_end()] == ["text_said", "run_ended", "end"]


@pytest.mark.parametrize(
    ("query", "last_id", "code"),
    [
        ("after=99", "", "from_the_future"),
        ("", "99", "from_the_future"),
        ("after=-1", "", "bad_input"),
        ("after=x", "", "bad_input"),
        ("after=99999999999999999999999", "", "bad_input"),
        ("", "garbage", "bad_input"),
        ("", "1e3", "bad_input"),
        ("", "\xb2", "bad_input"),
        ("kinds=nonsense", "", "bad_input"),
        ("kinds=", "", "bad_input"),
        ("foo=1", "", "bad_input"),
    ],
)
def test_a_place_that_is_none_is_refused(
    server: ServerProcess, live: Live, query: str, last_id: str, code: str
) -> None:
    run = live()
    answer = server.get(f"/runs/{run.run_id}/stream?{query}", headers={"Last-Event-ID": last_id} if last_id else {})
    assert (answer.status, answer.code) == (400, code)


def test_a_run_without_its_owner_is_declared_lost(server: ServerProcess, live: Live) -> None:
    run = live()
    client = server.follow(f"/runs/{run.run_id}/stream")
    client.read()
    run.die()
    ended = client.read_to_end()
    assert [event.kind for event in ended] == ["run_ended", "end"]
    assert ended[0].data["event"]["outcome"] == "lost"


def test_a_run_that_is_removed_ends_its_streams(server: ServerProcess, live: Live) -> None:
    run = live()
    clients = [server.follow(path) for path in (f"/runs/{run.run_id}/stream", f"/stream?run={run.run_id}")]
    output = server.follow(f"/runs/{run.run_id}/output/stdout")
    clients[0].read()
    run.delete()
    ends = [client.read_to_end() for client in (*clients, output)]
    told = [("end", run.run_id), ("left", run.run_id), ("end", run.run_id)]
    found = [next(event for event in each if event.kind in ("left", "end")) for each in ends]
    assert [(each.kind, each.data["run_id"]) for each in found] == told
    assert {(each.data["why"], each.data["code"]) for each in found} == {("removed", "run_not_found")}
    assert (ends[1][-1].kind, ends[1][-1].data) == ("end", {"run_id": "", "why": "ended"})


def test_a_log_that_was_damaged_ends_its_streams_with_a_word(server: ServerProcess, live: Live) -> None:
    run = live()
    client = server.follow(f"/runs/{run.run_id}/stream")
    client.read()
    with open(run.folder.log, "ab") as file:
        file.write(b'{"n":2,"nonsense"}\n')
    run.say("after the damage")
    last = client.read_to_end()[-1]
    assert (last.kind, last.data["why"], last.data["code"]) == ("end", "unreadable", "log_broken")
    assert "damaged after record 1" in last.data["detail"]


def test_a_torn_last_record_is_not_seen_until_it_is_whole(server: ServerProcess, live: Live) -> None:
    run = live()
    run.say("whole")
    whole = Path(run.folder.log).read_bytes()
    line = whole.splitlines(keepends=True)[-1]
    with open(run.folder.log, "wb") as file:
        file.write(whole[: -len(line) // 2])
    client = server.follow(f"/runs/{run.run_id}/stream")
    assert client.read().data["n"] == 1  # type: ignore[union-attr]
    with open(run.folder.log, "wb") as file:
        file.write(whole)
    assert client.read().data["event"]["text"] == "whole"  # type: ignore[union-attr]


def test_a_long_log_comes_whole_and_in_order(server: ServerProcess, live: Live) -> None:
    run = live()
    run.write(*(TextSaid(text=f"{number} " + "word " * (number % 50)) for number in range(5000)))
    run.write(TextSaid(text="x" * 900_000))
    run.end()
    events = server.follow(f"/runs/{run.run_id}/stream").read_to_end()
    assert numbers(events) == list(range(1, 5004))
    assert (
        [event.data["event"] for event in events[1:-2]]
        == [
            {"kind": "text_said", "text": record.event.text}  # type: ignore[union-attr]
            for record in read_log(run.folder.log)[1:-1]
        ]
    )


def test_a_stream_takes_no_head(server: ServerProcess, live: Live) -> None:
    answer = server.ask("HEAD", f"/runs/{live().run_id}/stream")
    assert (answer.status, answer.headers["allow"]) == (405, "GET")


def test_all_runs_are_followed_and_new_ones_appear(server: ServerProcess, live: Live) -> None:
    before = live()
    before.say("of before")
    client = server.follow("/stream")
    client.response.readline()
    before.say("new")
    event = client.read()
    assert event and (event.data["run_id"], event.data["n"]) == (before.run_id, 3)
    later = live()
    found = client.read_until("run_started")
    assert found[-1].data["run_id"] == later.run_id
    later.end()
    assert [each.data["run_id"] for each in client.read_until("left")] == [later.run_id, later.run_id]
    before.say("still there")
    event = client.read()
    assert event and event.data["event"]["text"] == "still there"


def test_no_run_is_missed_however_short_it_was(server: ServerProcess, live: Live) -> None:
    old = live()
    old.end()
    client = server.follow("/stream")
    client.response.readline()
    runs = [live() for _ in range(12)]
    for run in runs:
        run.end()
    told: list[tuple[str, str]] = []
    while len(told) < 3 * len(runs):
        event = client.read()
        assert event
        told.append((event.data["run_id"], event.kind))
    kinds = ("run_started", "run_ended", "left")
    assert sorted(told) == sorted((run.run_id, kind) for run in runs for kind in kinds)


def test_a_run_that_has_ended_before_it_was_looked_for_is_told(
    server: ServerProcess, live: Live, cli_env: CliEnv
) -> None:
    live().end()
    client = server.follow("/stream")
    client.response.readline()
    for _ in range(2):
        run = LivingRun(cli_env, is_marked=False)
        run.end()
        events = client.read_until("left")
        assert [(each.kind, each.data["run_id"]) for each in events] == [
            (kind, run.run_id) for kind in ("run_started", "run_ended", "left")
        ]


def test_a_state_that_cannot_be_read_for_a_while_ends_no_stream(serve: Serve, live: Live, cli_env: CliEnv) -> None:
    server, run = serve(), live()
    client = server.follow("/stream")
    client.response.readline()
    active = cli_env.state / "active"
    active.rename(cli_env.state / "moved")
    active.write_text("no folder")
    assert server.process.stderr
    assert b"looking for new runs" in server.process.stderr.readline()
    assert server.get("/info").status == 200
    active.unlink()
    (cli_env.state / "moved").rename(active)
    run.say("still there")
    assert [each.data["run_id"] for each in client.read_until("text_said")] == [run.run_id]
    later = live()
    assert client.read_until("run_started")[-1].data["run_id"] == later.run_id
    assert server.stop()[0] == 0


def test_a_server_without_a_descriptor_left_goes_on_once_there_is_one(serve: Serve, live: Live) -> None:
    server = serve()
    connection, headers = server.connect(), {"Authorization": f"Bearer {server.token}"}
    connection.request("GET", f"{PREFIX}/info", headers=headers)
    assert connection.getresponse().read()
    before = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (3, before[1]))
    connection.request("GET", f"{PREFIX}/stream", headers=headers)
    assert connection.getresponse().status == 503
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, before)
    connection.close()
    client = server.follow("/stream")
    run = live()
    assert client.read_until("run_started")[-1].data["run_id"] == run.run_id
    assert server.stop()[0] == 0


def test_a_client_of_all_runs_goes_on_where_it_was_also_with_runs_that_came_and_went(serve: Serve, live: Live) -> None:
    server = serve()
    first, ended = live(), live()
    client = server.follow("/stream")
    client.response.readline()
    first.say("heard")
    ended.say("heard, too")
    heard = [client.read(), client.read()]
    ended.end()
    client.read_until("left")
    # The id stands behind what was sent.
    wait_until(lambda: client.response.readline().startswith(b"id: "), "cursor") if not client.last_id else None
    cursor = client.last_id
    client.close()
    server.close()
    assert {event.data["run_id"] for event in heard if event} == {first.run_id, ended.run_id}
    first.say("missed")
    between = live()
    between.end()
    again = serve().follow("/stream", last_id=cursor)
    seen: list[tuple[str, int]] = []
    while not {(first.run_id, 3), (between.run_id, 2)} <= set(seen):
        event = again.read()
        assert event
        if event.kind != "left":
            seen.append((event.data["run_id"], event.data["n"]))
    assert sorted(seen) == sorted([(first.run_id, 3), (between.run_id, 1), (between.run_id, 2)])


def test_named_runs_are_followed_together_until_all_are_over(server: ServerProcess, live: Live) -> None:
    runs = [live(), live()]
    client = server.follow(f"/stream?run={runs[0].run_id}&run={runs[1].run_id}")
    client.response.readline()
    other = live()
    other.end()
    for run in runs:
        run.end()
    *events, last = client.read_to_end()
    assert sorted((event.kind, event.data["run_id"]) for event in events) == sorted(
        (kind, run.run_id) for run in runs for kind in ("run_ended", "left")
    )
    assert (last.kind, last.data) == ("end", {"run_id": "", "why": "ended"})


@pytest.mark.parametrize("cursor", ["garbage", "AAAA", "=", "eJwDAAAAAAE", "x" * 5000])
def test_a_cursor_that_is_none_is_refused(idle_server: ServerProcess, cursor: str) -> None:
    answer = idle_server.get(f"/stream?after={cursor}")
    assert (answer.status, answer.code, answer.json["field"]) == (400, "bad_input", "after")


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_output_is_followed_by_bytes_and_never_cuts_a_character(server: ServerProcess, live: Live, name: str) -> None:
    run = live()
    text = "día ☀ 🚀 " * 5000
    data = text.encode()
    run.print(data[:4], name=name)
    client = server.follow(f"/runs/{run.run_id}/output/{name}")
    first = client.read()
    assert first and first.data == {"offset": 0, "text": "día"}
    for start in range(4, len(data), 7919):
        run.print(data[start : start + 7919], name=name)
    run.end()
    pieces = [first, *client.read_to_end()]
    assert "".join(piece.data["text"] for piece in pieces[:-1]) == text
    assert pieces[-1].data["why"] == "ended"
    offsets = [piece.data["offset"] for piece in pieces[:-1]]
    assert [int(piece.id) for piece in pieces[:-1]] == [*offsets[1:], len(data)]
    middle = len(pieces) // 2
    again = server.follow(f"/runs/{run.run_id}/output/{name}?offset=0", last_id=pieces[middle].id)
    assert [piece.data for piece in again.read_to_end()] == [piece.data for piece in pieces[middle + 1 :]]


def test_output_that_is_no_text_comes_with_marks(server: ServerProcess, live: Live) -> None:
    run = live()
    run.print(b"\xff\xfe plain \xf0\x9f")
    run.end()
    texts = [event.data["text"] for event in server.follow(f"/runs/{run.run_id}/output/stdout").read_to_end()[:-1]]
    assert "".join(texts) == "\ufffd\ufffd plain \ufffd"


def test_output_of_a_run_that_printed_nothing_ends(server: ServerProcess, live: Live) -> None:
    run = live()
    run.end()
    assert [event.kind for event in server.follow(f"/runs/{run.run_id}/output/stderr").read_to_end()] == ["end"]


def test_output_from_the_future_and_of_no_name_is_refused(server: ServerProcess, live: Live) -> None:
    run = live()
    future = server.get(f"/runs/{run.run_id}/output/stdout?offset=1")
    other = server.get(f"/runs/{run.run_id}/output/events.jsonl")
    assert [(each.status, each.code) for each in (future, other)] == [(400, "from_the_future"), (404, "not_found")]


def test_the_output_of_a_real_run_is_its_file(cli_env: CliEnv, server: ServerProcess) -> None:
    run_id = run_to_end(cli_env)
    text = "".join(
        event.data["text"] for event in server.follow(f"/runs/{run_id}/output/stdout").read_to_end() if event.id
    )
    assert text == (cli_env.folder(run_id) / "stdout").read_text()


def test_a_server_that_is_started_again_goes_on_where_its_follower_was(serve: Serve, live: Live) -> None:
    run = live()
    server = serve()
    client = server.follow(f"/runs/{run.run_id}/stream")
    run.say("before")
    heard = client.read_until("text_said")
    assert server.stop() == (0, "")
    assert client.read() is None
    run.say("between")
    run.end()
    again = serve().follow(f"/runs/{run.run_id}/stream", last_id=client.last_id)
    assert numbers(heard + again.read_to_end()) == [1, 2, 3, 4]
