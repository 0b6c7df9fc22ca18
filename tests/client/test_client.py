"""What a client does, whatever it is a client of."""

import asyncio
import json
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from inspan import Client, LoopPolicy, Record, RunRecord, Task
from inspan.client.values import RunDetails
from inspan.errors import (
    BadInput,
    CommandRefused,
    InspanError,
    LogBroken,
    RunBusy,
    RunNotFound,
    SessionClosed,
    UndoRefused,
    UnknownAgent,
)
from inspan.protocol.events import PermissionAsked, RunEnded, TextSaid
from inspan.protocol.wire import decode_event
from tests.asking_agent import ask_command, start_asking
from tests.cli_env import WAIT_S, CliEnv
from tests.server.living_run import LivingRun

from .conftest import Tenant, start_repository

WRITE = """
[[call]]
say = "I will."
write = {path = "new.txt", content = "hello\\n"}
[[call]]
say = "Done."
"""
pytestmark = pytest.mark.anyio

Call = Callable[[Client], Awaitable[object]]
SAY = '[[call]]\nsay = "hello"\n'
HANG = '[[call]]\nrun = "touch started; sleep 600"\n'
TALK = """
[[call]]
expect = "do it"
say = "first"
[[call]]
expect = "and now"
say = "second"
"""


async def start(tenant: Tenant, scenario: str, **more: Any) -> str:
    return (await tenant.client.runs.start(tenant.task(scenario, **more))).run_id


async def wait_for(condition: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not await condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def test_a_run_is_started_followed_waited_for_and_listed(tenant: Tenant) -> None:
    runs = tenant.client.runs
    started = await runs.start(tenant.task(WRITE, name="mine"))
    records = [record async for record in runs.events(started.run_id)]
    assert [record.number for record in records] == list(range(1, len(records) + 1))
    assert (records[0].kind, records[-1].kind) == ("run_started", "run_ended")
    details = await runs.wait(started.short)
    assert isinstance(details, RunDetails)
    assert (details.run_id, details.output) == (started.run_id, "Done.")
    assert details.ended and details.ended.outcome == "completed"
    (listed,) = await runs.list(cwd=str(tenant.cli_env.work))
    assert (listed.run_id, listed.alive, listed.outcome, listed.agent) == (
        started.run_id, False, "completed", "scripted",
    )  # fmt: skip


async def test_a_record_has_a_number_a_time_a_kind_and_its_line_of_json(tenant: Tenant) -> None:
    run = await start(tenant, SAY)
    record, *_ = [each async for each in tenant.client.runs.events(run)]
    line = json.loads(record.to_json())
    assert (line["n"], line["t"], line["event"]["kind"]) == (1, round(record.time, 3), record.kind)
    assert record == Record(1, record.at, decode_event(json.dumps(line["event"]).encode()))


def test_a_record_of_one_among_many_runs_has_the_same_and_its_run() -> None:
    record = Record(3, 1.5, TextSaid(text="hello"))
    found = RunRecord("run-1", record)
    assert (found.run_id, found.number, found.time, found.kind) == ("run-1", 3, 1.5, "text_said")
    assert (found.event, found.to_json()) == (record.event, record.to_json())
    assert tuple(found) == ("run-1", record)


async def test_events_are_taken_up_behind_a_number_and_chosen_by_kind(tenant: Tenant) -> None:
    run = await start(tenant, WRITE)
    whole = [each async for each in tenant.client.runs.events(run)]
    assert [each async for each in tenant.client.runs.events(run, after=3)] == whole[3:]
    said = [each async for each in tenant.client.runs.events(run, kinds=["text_said"])]
    assert [each.kind for each in said] == ["text_said", "text_said"]
    assert await tenant.client.runs.list_events(run, after=2, limit=2) == whole[2:4]


async def test_the_json_of_the_command_line_is_the_same(tenant: Tenant) -> None:
    run = await start(tenant, WRITE)
    await tenant.client.runs.wait(run)
    shown = json.loads(tenant.cli_env.inspan("show", run, "--json").stdout)
    details = await tenant.client.runs.get(run)
    assert (shown["run_id"], shown["output"], shown["calls"]) == (run, details.output, details.calls)
    told = json.loads(tenant.cli_env.inspan("cost", "--json").stdout)
    assert told["total"]["input"] == (await tenant.client.cost()).total.input


async def test_changes_are_shown_taken_back_and_brought_in_again(tenant: Tenant) -> None:
    work = tenant.cli_env.work
    start_repository(work, tenant.cli_env)
    run = await start(tenant, WRITE)
    await tenant.client.runs.wait(run)
    diff = await tenant.client.runs.diff(run)
    assert [(each.path, each.change, each.added, each.removed) for each in diff.files] == [("new.txt", "added", 1, 0)]
    assert diff.patch and "+hello" in diff.patch
    assert (await tenant.client.runs.files(run)).files == diff.files
    assert (await tenant.client.runs.undo(run, dry_run=True)).files and (work / "new.txt").exists()
    await tenant.client.runs.undo(run)
    assert not (work / "new.txt").exists()
    await tenant.client.runs.apply(run)
    assert (work / "new.txt").read_text() == "hello\n"
    (work / "new.txt").write_text("mine\n")
    with pytest.raises(UndoRefused) as refused:
        await tenant.client.runs.undo(run)
    assert refused.value.files == ["new.txt"]


async def test_a_living_run_has_a_state_is_stopped_and_only_then_removed(tenant: Tenant) -> None:
    runs = tenant.client.runs
    run = await start(tenant, HANG)

    async def works() -> bool:
        state = await runs.state(run)
        works = state.alive and state.state is not None and state.state.status == "working"
        return works and (tenant.cli_env.work / "started").exists()

    await wait_for(works)
    with pytest.raises(RunBusy):
        await runs.remove(run)
    assert (await runs.stop(run)).heard
    ended = (await runs.wait(run)).ended
    assert ended and ended.outcome == "cancelled"
    assert not (await runs.stop(run)).heard
    assert not (await runs.remove(run, dry_run=True)).removed
    assert (await runs.remove(run)).removed
    assert await runs.list() == []


async def test_a_session_is_talked_to_and_closed(tenant: Tenant) -> None:
    run = await start(tenant, TALK, session=True, agent="claude")
    sessions = tenant.client.sessions

    async def is_idle() -> bool:
        state = (await tenant.client.runs.state(run)).state
        return state is not None and state.status == "idle"

    await wait_for(is_idle)
    assert [each.run_id for each in await sessions.list()] == [run]
    sent = await sessions.send(run, "and now", id="mine")
    assert sent.id == "mine"
    assert await sessions.send(run, "and now", id="mine") == sent
    with pytest.raises(CommandRefused, match="another message with the id 'mine'"):
        await sessions.send(run, "something else", id="mine")
    async for record in tenant.client.runs.events(run, kinds=["message_ended"]):
        if json.loads(record.to_json())["event"]["id"] == "mine":
            break
    await sessions.close(run)
    assert (await tenant.client.runs.wait(run)).output == "second"
    assert [each["id"] for each in tenant.cli_env.events(run) if each["kind"] == "message_sent"] == ["first", "mine"]
    with pytest.raises(SessionClosed):
        await sessions.send(run, "again")
    assert await sessions.list() == []


@pytest.mark.parametrize("allowed", [True, False])
async def test_what_an_agent_asks_for_is_answered(tenant: Tenant, *, allowed: bool) -> None:
    run = await start(tenant, WRITE, ask=("*",), session=True, agent="claude")
    approvals = tenant.client.approvals

    async def asks() -> bool:
        return bool((await approvals.list()).questions)

    await wait_for(asks)
    (asked,) = (await approvals.list()).questions
    assert (asked.run_id, asked.question.id[:1] != "") == (run, True)
    (listed,) = await tenant.client.runs.list()
    assert listed.needs_person
    if allowed:
        answered = await approvals.allow(asked.question.id)
    else:
        answered = await approvals.deny(asked.question.id, reason="not now")
    assert (answered.run_id, answered.allowed) == (run, allowed)
    await tenant.client.sessions.close(run)
    await tenant.client.runs.wait(run)
    assert (tenant.cli_env.work / "new.txt").exists() is allowed


async def test_an_answer_is_to_the_question_of_exactly_that_id_and_time(tenant: Tenant) -> None:
    run = start_asking(tenant.cli_env, [ask_command("13", "ls")], [ask_command("13", "rm -rf data")])
    approvals = tenant.client.approvals

    async def asks(command: str) -> bool:
        found = (await approvals.list()).questions
        return any(
            isinstance(each.question, PermissionAsked) and each.question.input == {"command": command} for each in found
        )

    await wait_for(lambda: asks("ls"))
    (first,) = (await approvals.list()).questions
    for part in ("1", "3", f"{run}/13", "113"):
        with pytest.raises(RunNotFound):
            await approvals.allow(part)
    await approvals.allow("13", asked_at=first.asked_at)
    await wait_for(lambda: asks("rm -rf data"))
    (second,) = (await approvals.list()).questions
    assert second.asked_at > first.asked_at
    with pytest.raises(CommandRefused, match=second.question.id):
        await approvals.allow(second.question.id, run=run, asked_at=first.asked_at)
    await approvals.deny(second.question.id, run=run, asked_at=second.asked_at)
    await tenant.client.runs.wait(run)
    answered = [each["allowed"] for each in tenant.cli_env.events(run) if each["kind"] == "permission_answered"]
    assert answered == [True, False]


async def test_questions_that_an_agent_calls_the_same_are_answered_one_by_one(tenant: Tenant) -> None:
    """Also where its name for them is none that could be typed."""
    calls = [ask_command("1", "ls"), ask_command("1", "rm -rf data"), ask_command("", "pwd"), ask_command("..", "id")]
    run = start_asking(tenant.cli_env, calls)
    approvals = tenant.client.approvals

    async def asks_all() -> bool:
        return len((await approvals.list()).questions) == len(calls)

    await wait_for(asks_all)
    for asked in (await approvals.list()).questions:
        assert isinstance(asked.question, PermissionAsked)
        if asked.question.input == {"command": "rm -rf data"}:
            await approvals.deny(asked.question.id, run=run)
        else:
            await approvals.allow(asked.question.id, run=run, asked_at=asked.asked_at)
    await tenant.client.runs.wait(run)
    said = "".join(each["text"] for each in tenant.cli_env.events(run) if each["kind"] == "text_said")
    assert sorted(said.split()) == ["1:yes", "2:no", "3:yes", "4:yes"]


async def test_a_run_whose_last_record_is_there_is_removed_once_it_lets_go(tenant: Tenant) -> None:
    run = LivingRun(tenant.cli_env)
    run.write(RunEnded(outcome="completed", reason="done"))
    letting_go = threading.Timer(0.5, run.close)
    letting_go.start()
    await tenant.client.runs.remove(run.run_id)
    letting_go.join()
    assert not os.path.exists(run.folder.path)


async def test_output_is_read_from_a_byte_on(tenant: Tenant) -> None:
    run = await start(tenant, SAY)
    await tenant.client.runs.wait(run)
    whole = b"".join([piece.data async for piece in tenant.client.runs.output(run)])
    assert whole == (tenant.cli_env.folder(run) / "stdout").read_bytes()
    assert b"".join([piece.data async for piece in tenant.client.runs.output(run, offset=10)]) == whole[10:]


async def test_a_loop_and_a_blueprint_are_started_and_looked_at(tenant: Tenant) -> None:
    loop = await tenant.client.loops.start(tenant.task(WRITE), LoopPolicy(checks=("test -e new.txt",)))
    ended = (await tenant.client.runs.wait(loop.run_id)).ended
    assert ended and ended.outcome == "completed"
    details = await tenant.client.loops.get(loop.run_id)
    assert [[check.passed for check in each.checks] for each in details.attempts] == [[True]]
    assert [each.run_id for each in await tenant.client.loops.list()] == [loop.run_id]
    ready = await tenant.client.blueprints.ready()
    assert "fix-failing-test" in ready
    made = await tenant.client.blueprints.start(
        "fix-failing-test", tenant.task(WRITE), inputs={"check": "test -e new.txt"}
    )
    await tenant.client.runs.wait(made.run_id)
    graph = await tenant.client.blueprints.get(made.run_id)
    assert set(graph.order) == set(graph.nodes) == set(graph.statuses)
    with pytest.raises(BadInput, match="it is no loop"):
        await tenant.client.loops.get(made.run_id)


async def test_agents_budgets_doctor_and_cost_answer(tenant: Tenant) -> None:
    agents = await tenant.client.agents.list()
    assert "scripted" in [each.agent for each in agents]
    assert (await tenant.client.agents.get("scripted")).agent == "scripted"
    with pytest.raises(UnknownAgent):
        await tenant.client.agents.get("nobody")
    report = await tenant.client.doctor(["scripted"])
    assert "agent scripted" in [each.subject for each in report.findings]
    run = await start(tenant, SAY)
    await tenant.client.runs.wait(run)
    assert (await tenant.client.runs.cost(run)).cost_kind == "not_paid"
    assert [each.node for each in (await tenant.client.budgets.list()).nodes] == ["project", "task"]
    assert (await tenant.client.cost(by="run")).groups[0].name == run


async def test_events_of_all_runs_come_with_their_runs(tenant: Tenant) -> None:
    found: list[str] = []

    async def follow() -> None:
        async for run_id, record in tenant.client.events(kinds=["run_started", "run_ended"]):
            found.append(f"{run_id} {record.kind}")
            if len([each for each in found if each.endswith("run_ended")]) == 2:
                return

    following = asyncio.create_task(follow())
    await asyncio.sleep(0)

    async def both() -> list[str]:
        return [await start(tenant, SAY), await start(tenant, SAY)]

    async with asyncio.timeout(WAIT_S):
        ids = await both()
        await asyncio.sleep(0.5)
        while not following.done():  # What began before the stream did is not new to it: another run is.
            ids.append(await start(tenant, SAY))
            await asyncio.sleep(0.5)
    assert {each.split()[0] for each in found} <= set(ids)
    assert len(found) == len(set(found))  # Nothing comes twice.
    ended = [each.split()[0] for each in found if each.endswith("run_ended")]
    begun = [run for run in ended if f"{run} run_started" in found]
    assert all(found.index(f"{run} run_started") < found.index(f"{run} run_ended") for run in begun)


@pytest.mark.parametrize("names_runs", [True, False])
async def test_events_of_many_runs_go_on_when_one_of_them_has_ended_or_is_gone(
    tenant: Tenant, names_runs: bool
) -> None:
    first, gone, last = runs = [LivingRun(tenant.cli_env) for _ in range(3)]
    heard = dict[str, list[str]]()

    async def follow() -> None:
        async for run_id, record in tenant.client.events([each.run_id for each in runs] if names_runs else []):
            heard.setdefault(run_id, []).append(record.kind)

    async def knows(run: LivingRun) -> bool:
        run.say("again")  # What was said before the stream began is not new to it.
        return run.run_id in heard

    async def heard_end(run: LivingRun) -> bool:
        return heard[run.run_id][-1] == "run_ended"

    following = asyncio.create_task(follow())
    for run in runs:
        await wait_for(partial(knows, run))
    first.end()
    await wait_for(partial(heard_end, first))
    gone.delete()
    del heard[last.run_id]
    await wait_for(partial(knows, last))
    last.end()
    await wait_for(partial(heard_end, last))
    if names_runs:
        async with asyncio.timeout(WAIT_S):
            await following
    else:
        assert not following.done()
        following.cancel()


@pytest.mark.parametrize(("break_run", "kind"), [("delete", RunNotFound), ("damage", LogBroken)])
async def test_the_stream_of_a_run_that_cannot_be_read_to_its_end_says_so(
    tenant: Tenant, break_run: str, kind: type[InspanError]
) -> None:
    run = LivingRun(tenant.cli_env)
    records = tenant.client.runs.events(run.run_id)
    assert (await anext(records)).kind == "run_started"
    if break_run == "delete":
        run.delete()
    else:
        with open(run.folder.log, "ab") as log:
            log.write(b'{"n":2,"nonsense"}\n')
        run.say("after the damage")
    with pytest.raises(kind, match=run.run_id if kind is RunNotFound else "damaged"):
        async with asyncio.timeout(WAIT_S):
            await anext(records)
    run.close()


CALLS: tuple[tuple[Call, type[InspanError], str], ...] = (
    (lambda client: client.runs.get("nothing"), RunNotFound, "nothing"),
    (lambda client: client.runs.get("..%2f%00etc"), RunNotFound, "etc"),
    (lambda client: client.runs.get(""), BadInput, "run"),
    (lambda client: client.runs.list(limit=0), BadInput, "limit"),
    (lambda client: client.runs.start(cast(Any, "do it")), BadInput, "task"),
    (lambda client: client.runs.start(Task(prompt="x", cwd="/", mode=cast(Any, "fast"))), BadInput, "mode"),
    (lambda client: client.cost(by=cast(Any, "weather")), BadInput, "by"),
    (lambda client: client.approvals.allow("q-1"), RunNotFound, "q-1"),
    (lambda client: client.runs.diff("x", paths="a"), BadInput, "paths"),
    (lambda client: client.runs.diff("x", paths=["a\0"]), BadInput, "path"),
    (lambda client: client.runs.get("half \ud800"), BadInput, "run"),
    (lambda client: client.runs.get("a/b"), RunNotFound, "There is no run 'a/b'"),
    (lambda client: client.runs.get(".."), RunNotFound, "There is no run '..'"),
    (lambda client: client.runs.list(search="a\0"), BadInput, "search"),
    (lambda client: client.runs.list_events("x", kinds=["nope"]), BadInput, "kinds"),
    (lambda client: client.approvals.allow("a/b"), RunNotFound, "no open question 'a/b'"),
    (lambda client: client.approvals.allow("x", input=cast(Any, [1])), BadInput, "input"),
    (lambda client: client.approvals.answer("x", cast(Any, ["yes"])), BadInput, "answers"),
    (lambda client: client.agents.get("no/body"), UnknownAgent, "no/body"),
    (lambda client: client.cost(since=float("inf")), BadInput, "since"),
    (lambda client: read_all(client.events(["x"], kinds=["nope"])), BadInput, "kinds"),
    (lambda client: read_all(client.runs.events("x", kinds=["nope"])), BadInput, "kinds"),
    (lambda client: read_all(client.runs.events("a/b")), RunNotFound, "a/b"),
    (lambda client: read_all(client.runs.output("x", offset=-1)), BadInput, "offset"),
    (lambda client: read_all(client.runs.output("x", cast(Any, "nope"))), BadInput, "name"),
)


async def read_all(stream: AsyncIterator[object]) -> list[object]:
    return [each async for each in stream]


async def test_what_is_taken_up_behind_its_end_is_refused(tenant: Tenant) -> None:
    run = await start(tenant, SAY)
    await tenant.client.runs.wait(run)
    runs = tenant.client.runs
    for field, stream in (("after", runs.events(run, after=10**6)), ("offset", runs.output(run, offset=10**6))):
        with pytest.raises(BadInput, match="from the future") as raised:
            await read_all(stream)
        assert raised.value.field == field
    last = (await runs.list_events(run))[-1].number
    assert await read_all(runs.events(run, after=last)) == []


async def test_an_agent_is_looked_at_by_its_command_line(tenant: Tenant) -> None:
    assert (await tenant.client.agents.get("acp:/bin/true")).agent == "acp:/bin/true"


@pytest.mark.parametrize(("call", "error", "words"), CALLS)
async def test_bad_input_is_told_by_its_field(tenant: Tenant, call: Call, error: type[InspanError], words: str) -> None:
    with pytest.raises(error, match=words) as raised:
        await call(tenant.client)
    assert type(raised.value) is error
    assert raised.value.next_step


async def test_a_client_says_whose_it_is(tenant: Tenant) -> None:
    assert str(tenant.cli_env.state) in repr(tenant.client) or "http://127.0.0.1:" in repr(tenant.client)


def test_two_tenants_live_in_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [_make_env(tmp_path / name) for name in ("a", "b")]
    monkeypatch.setenv("XDG_RUNTIME_DIR", places[0].sockets)
    for place in places:
        place.env["TENANT"] = place.root.name
    clients = [Client(state=place.root / "own", env=place.env) for place in places]

    async def run_both() -> None:
        scenario = '[[call]]\nrun = "echo it is $TENANT > who.txt"\n[[call]]\nsay = "ok"\n'
        tenants = [Tenant(client, place) for client, place in zip(clients, places, strict=True)]
        ids = await asyncio.gather(*(start(each, scenario) for each in tenants))
        for client, run in zip(clients, ids, strict=True):
            await client.runs.wait(run)
            assert [each.run_id for each in await client.runs.list()] == [run]

    asyncio.run(run_both())
    for place in places:
        assert (place.work / "who.txt").read_text() == f"it is {place.root.name}\n"
        assert os.listdir(place.root / "state") == []
        assert (place.root / "own" / "index.db").exists()


def test_a_run_is_reached_from_another_login(cli_env: CliEnv, tmp_path: Path) -> None:
    run = cli_env.detach("scripted", HANG)
    other = tmp_path / "elsewhere"
    other.mkdir(mode=0o700)
    done = cli_env.inspan("stop", run, env={"XDG_RUNTIME_DIR": str(other)})
    assert (done.returncode, done.stdout.strip()) == (0, f"{run} cancelled")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"token": "x"}, "url"),
        ({"url": "http://127.0.0.1:1", "state": "/x", "token": "x"}, "state"),
        ({"url": "http://127.0.0.1:1"}, "token"),
        ({"url": "127.0.0.1:1", "token": "x"}, "^url .* not the address of a server"),
        ({"url": "http://127.0.0.1:1", "token": "x", "reconnect_s": float("nan")}, "reconnect_s"),
        ({"state": b"/x"}, "state"),
        ({"env": {"PATH": 5}}, "env"),
        ({"url": "http://127.0.0.1:1", "token": "a\nb"}, "token"),
    ],
)
def test_a_client_that_cannot_be_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        Client(**given)


def test_a_state_folder_may_lie_in_the_home(tmp_path: Path) -> None:
    client = Client(state="~/own", env={"HOME": str(tmp_path)})
    assert repr(str(tmp_path / "own")) in repr(client)


def _make_env(root: Path) -> CliEnv:
    root.mkdir()
    return CliEnv(root)
