"""Many followers: those that read get everything, those that do not cost little, and nobody waits for them."""

import asyncio
from typing import Any, cast

import pytest
from uvicorn.protocols.http.flow_control import FlowControl

from inspan.server.follower import Follower, Left

from .conftest import Live, Serve
from .crowd import Crowd
from .server_process import ServerProcess

_CLIENTS, _EVENTS = 1000, 160
_TEXT = "some words of the agent, over and over; " * 125


def test_a_thousand_followers_of_which_half_stop_reading(server: ServerProcess, live: Live) -> None:
    run = live()
    readers, sleepers = range(0, _CLIENTS, 2), range(1, _CLIENTS, 2)
    before_kb = server.memory_kb()
    with Crowd(server, f"/runs/{run.run_id}/stream", _CLIENTS, narrow=sleepers) as crowd:
        crowd.read_until(b"event: run_started", range(_CLIENTS))
        for number in range(_EVENTS):
            run.say(f"{number} {_TEXT}")
        run.say("the last of them")
        crowd.read_until(b"the last of them", readers)
        # Of 800 kB for each of them, little lies here.
        assert (server.memory_kb() - before_kb) / _CLIENTS < 60
        assert server.get("/info").status == 200
        # Who wakes up finds everything in its place.
        late = [*sleepers][:20]
        crowd.read_until(b"the last of them", late)
        for number in (*[*readers][:20], *late):
            assert crowd.numbers(number) == sorted(set(crowd.numbers(number)))
            assert len(crowd.received[number]) > _EVENTS * len(_TEXT)
    # All of them have left at once: that, too, is no hardship.
    client = server.follow(f"/runs/{run.run_id}/stream?after={run.last}")
    run.end()
    assert [event.kind for event in client.read_to_end()] == ["run_ended", "end"]


def test_a_client_that_comes_back_in_a_loop_leaves_nothing_behind(server: ServerProcess, live: Live) -> None:
    run = live()
    run.say(*("word" for _ in range(50)))

    def come_and_go(times: int) -> tuple[int, int]:
        for number in range(times):
            with Crowd(server, f"/runs/{run.run_id}/stream?after={number % 50}", 1) as client:
                client.read_until(b"id: 51", [0])
            with Crowd(server, "/stream", 1):
                pass
        server.get("/info")
        return server.memory_kb(), server.count_threads()

    first_kb, threads = come_and_go(60)
    last_kb, _ = come_and_go(240)
    assert last_kb - first_kb < 4000
    assert threads < 40


def test_a_run_is_followed_by_many_who_begin_at_its_start_at_once(server: ServerProcess, live: Live) -> None:
    run = live()
    run.say(*(f"{number} {_TEXT[:200]}" for number in range(3000)), "the last of them")
    with Crowd(server, f"/runs/{run.run_id}/stream", 30) as crowd:
        crowd.read_until(b"the last of them", range(30))
        assert len({crowd.received[number].partition(b"\r\n\r\n")[2] for number in range(30)}) == 1


def test_followers_of_many_runs_share_a_server(serve: Serve, live: Live) -> None:
    server, runs = serve(), [live() for _ in range(20)]
    with Crowd(server, "/stream", 50) as crowd:
        crowd.read_until(b"id: ", range(50))
        for run in runs:
            run.say(f"from {run.run_id}")
        for run in runs:
            crowd.read_until(f"from {run.run_id}".encode(), range(50))


class _Connection:
    """Stands for a client's connection, of which only its end matters here."""

    def __init__(self) -> None:
        self.flow = FlowControl(cast(Any, None))
        self.on_lost: Any = None
        self.is_lost = False
        self.is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True
        self.on_lost()


@pytest.mark.parametrize(("blocked_s", "is_aborted"), [(59.0, False), (61.0, True)])
def test_a_client_that_takes_nothing_for_too_long_is_let_go_of(blocked_s: float, is_aborted: bool) -> None:
    async def follow() -> bool:
        connection, room = _Connection(), asyncio.Event()

        async def send(message: Any) -> None:
            await room.wait()

        follower = Follower({"inspan.token": "x", "extensions": {"inspan.connection": connection}}, cast(Any, send))
        with follower:
            sending = asyncio.ensure_future(follower.send(b"data"))
            await asyncio.sleep(0)
            now = asyncio.get_running_loop().time()
            follower.tick(now + blocked_s, beats=True, longest_s=60.0)
            room.set()
            try:
                await sending
            except Left:
                assert connection.is_aborted
        return connection.is_aborted

    assert asyncio.run(follow()) is is_aborted


def test_a_client_that_hears_nothing_for_a_while_gets_a_heartbeat() -> None:
    async def follow() -> list[bytes]:
        sent = list[bytes]()

        async def send(message: Any) -> None:
            sent.append(message["body"])

        follower = Follower({"inspan.token": "x", "extensions": {"inspan.connection": _Connection()}}, cast(Any, send))
        with follower:
            waiting = asyncio.ensure_future(follower.beat_or_wait())
            await asyncio.sleep(0)
            follower.tick(0.0, beats=True, longest_s=60.0)
            await waiting
            waiting = asyncio.ensure_future(follower.beat_or_wait())
            await asyncio.sleep(0)
            follower.dismiss()
            with pytest.raises(Left):
                await waiting
        return sent

    assert asyncio.run(follow()) == [b": \n\n"]
