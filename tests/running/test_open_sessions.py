"""Open sessions of a puppet that speaks the Agent Client Protocol: for what the real agents cannot be made to show."""

import asyncio
import json
import socket
import time
from contextlib import suppress
from typing import Any

import pytest

import inspan
from inspan import AgentResult, Limits, PermissionRequest
from inspan.errors import BadInput, CommandRefused, SessionClosed, Unsupported
from inspan.folds.session import SessionFold
from inspan.protocol.events import MessageEnded, PermissionAnswered, PermissionAsked, RunEnded, WatchdogActed
from inspan.protocol.limits import WatchdogLimits
from inspan.running import conversation
from tests.api.run_env import RunEnv, descriptors, make_run_env, wait_until_async

from .open_session import ASKS, ECHO, OBEYS, Fake, open_puppet


@pytest.fixture
def run_env(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> RunEnv:
    return make_run_env(tmp_path, monkeypatch)


def _ended(run_env: RunEnv) -> RunEnded:
    (ended,) = [event for event in run_env.events() if isinstance(event, RunEnded)]
    return ended


@pytest.mark.parametrize(
    "text",
    [
        "\"quotes\" and 'others'",
        "two\nlines\r\nand\ttabs",
        "\x1b[31mred\x1b[0m",
        "emoji 🙂 and \u2028",
        "/command",
        "!shell",
        "x" * 100_000,
        '{"jsonrpc": "2.0"}',
    ],
    ids=lambda text: ascii(text)[:20],
)
def test_a_message_arrives_as_it_was_sent(run_env: RunEnv, fake: Fake, text: str) -> None:
    async def scene() -> AgentResult:
        async with open_puppet(run_env, fake, ECHO) as session:
            return await session.send_message(text)

    assert asyncio.run(scene()).message == f"got {text}"


def test_messages_that_are_sent_at_once_are_answered_in_turn(run_env: RunEnv, fake: Fake) -> None:
    async def scene() -> list[AgentResult]:
        async with open_puppet(run_env, fake, ECHO) as session:
            return await asyncio.gather(*(session.send_message(f"m{number}") for number in range(20)))

    results = asyncio.run(scene())
    assert [result.message for result in results] == [f"got m{number}" for number in range(20)]
    ids = [event.id for event in run_env.events() if isinstance(event, MessageEnded)]
    assert len(ids) == len(set(ids)) == 20


def test_the_caller_chooses_what_becomes_of_a_message_in_a_running_turn(run_env: RunEnv, fake: Fake) -> None:
    async def scene() -> list[str]:
        async with open_puppet(run_env, fake, OBEYS) as session:
            first = await session.follow_up("wait")
            with pytest.raises(CommandRefused, match="a turn is running"):
                await session.follow_up("now", when="refuse")
            with pytest.raises(CommandRefused, match="takes no message into a running turn"):
                await session.steer("left")
            queued = await session.follow_up("then")
            assert (await session.get_state()).queued == (queued.id,)
            await session.abort()
            return [(await first).reason, (await queued).message]

    assert asyncio.run(scene()) == ["interrupted", "got then"]


def test_a_message_that_takes_too_long_ends_and_the_session_goes_on(run_env: RunEnv, fake: Fake) -> None:
    async def scene() -> list[AgentResult]:
        async with open_puppet(run_env, fake, OBEYS, limits=Limits(timeout_s=8.0)) as session:
            return [await session.send_message("wait"), await session.send_message("on")]

    late, after = asyncio.run(scene())
    assert (late.outcome, late.reason) == ("timed_out", "run_timeout")
    assert (after.reason, after.message) == ("done", "got on")
    assert _ended(run_env).reason == "done"


def test_a_silent_turn_is_interrupted_and_the_session_goes_on(run_env: RunEnv, fake: Fake) -> None:
    watchdog = WatchdogLimits(model_s=5.0, tool_s=5.0)  # The next turn has to be quicker, on a busy machine too.

    async def scene() -> list[AgentResult]:
        async with open_puppet(run_env, fake, OBEYS, watchdog=watchdog) as session:
            return [await session.send_message("wait"), await session.send_message("on")]

    silent, after = asyncio.run(scene())
    assert (silent.outcome, silent.reason) == ("timed_out", "stuck")
    assert (after.reason, after.message) == ("done", "got on")
    assert _ended(run_env).reason == "done"
    told = [event for event in run_env.events() if isinstance(event, WatchdogActed)]
    assert [each.step for each in told] == ["nudge", "interrupt"]
    assert "takes no message into a running turn on this channel" in told[0].skipped


def test_a_silent_turn_that_does_not_hear_an_interrupt_is_ended(run_env: RunEnv, fake: Fake) -> None:
    watchdog = WatchdogLimits(model_s=1.0, tool_s=1.0, step_s=0.5)

    async def scene() -> AgentResult:
        deaf = "def turn(text): time.sleep(600)"
        async with open_puppet(run_env, fake, deaf, watchdog=watchdog) as session:
            return await session.send_message("sleep")

    assert asyncio.run(scene()).reason == _ended(run_env).reason == "stuck"
    told = [event for event in run_env.events() if isinstance(event, WatchdogActed)]
    assert [each.step for each in told] == ["nudge", "interrupt", "kill"]


def test_an_agent_that_does_not_hear_an_interrupt_is_ended(
    run_env: RunEnv, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "_INTERRUPT_S", 0.1)

    async def scene() -> AgentResult:
        async with open_puppet(run_env, fake, "def turn(text): open('begun', 'w'); time.sleep(600)") as session:
            message = await session.follow_up("sleep")
            await wait_until_async(lambda: (run_env.work / "begun").exists(), "turn")
            await session.abort()
            return await message

    result = asyncio.run(scene())
    assert (result.outcome, result.reason) == ("failed", "crashed")
    assert "did not end its turn" in result.error


def test_an_agent_that_dies_takes_its_session_with_it(run_env: RunEnv, fake: Fake) -> None:
    async def scene() -> list[AgentResult]:
        dies = "def turn(text):\n  while not os.path.exists('go'): time.sleep(0.01)\n  sys.exit(7)"
        async with open_puppet(run_env, fake, dies) as session:
            first = await session.follow_up("die")
            second = await session.follow_up("never sent")
            (run_env.work / "go").touch()
            results = [await first, await second]
            with pytest.raises(SessionClosed):
                for _ in range(1000):
                    await session.send_message("hello?")
            return results

    died, unsent = asyncio.run(scene())
    assert (died.outcome, died.reason) == ("failed", "crashed")
    assert (unsent.outcome, unsent.error) == ("failed", "it was not sent")
    assert (_ended(run_env).reason, _ended(run_env).exit_code) == ("crashed", 7)


def test_a_session_without_a_message_is_closed(run_env: RunEnv, fake: Fake) -> None:
    async def scene() -> None:
        async with open_puppet(run_env, fake, ECHO, limits=Limits(idle_close_s=8.0)) as session:
            await session.send_message("one")
            await wait_until_async(run_env.has_ended, "end")
            with pytest.raises(SessionClosed):
                await session.send_message("two")

    asyncio.run(scene())
    assert (_ended(run_env).outcome, _ended(run_env).reason) == ("completed", "done")


def _allow(request: PermissionRequest) -> bool:
    return True


def _raise(request: PermissionRequest) -> bool:
    raise KeyError("boom")


def _give_nonsense(request: PermissionRequest) -> Any:
    return "yes"


async def _give_up(request: PermissionRequest) -> bool:
    raise asyncio.CancelledError


async def _think_for_ever(request: PermissionRequest) -> bool:
    await asyncio.sleep(3600)
    return True


@pytest.mark.parametrize(
    ("decide", "allowed", "by", "words"),
    [
        (_allow, True, "function", ""),
        (_raise, False, "function", "raised KeyError('boom')"),
        (_give_nonsense, False, "function", "it is not a decision"),
        (_give_up, False, "function", "raised CancelledError"),
        (_think_for_ever, False, "timeout", "nobody answered within 0.3 s"),
    ],
)
def test_a_permission_is_given_only_by_a_plain_yes(
    run_env: RunEnv, fake: Fake, decide: Any, allowed: bool, by: str, words: str
) -> None:
    async def scene() -> AgentResult:
        limits = Limits(answer_timeout_s=0.3 if by == "timeout" else 600.0)
        async with open_puppet(run_env, fake, ASKS, on_permission=decide, limits=limits) as session:
            return await session.send_message("rm -rf /")

    result = asyncio.run(scene())
    (answered,) = [event for event in run_env.events() if isinstance(event, PermissionAnswered)]
    assert (answered.allowed, answered.by) == (allowed, by)
    assert words in answered.reason
    assert result.message == ("allow_once" if allowed else "reject_once")
    assert (result.reason == "unanswered") is (by == "timeout")


def test_waiting_for_a_person_does_not_count(run_env: RunEnv, fake: Fake) -> None:
    async def decide(request: PermissionRequest) -> bool:
        await asyncio.sleep(limit_s + 0.5)
        return True

    async def scene() -> AgentResult:
        async with open_puppet(run_env, fake, ASKS, on_permission=decide, limits=Limits(timeout_s=limit_s)) as session:
            return await session.send_message("ls")

    limit_s = 8.0  # More than a machine that is busy with other things takes for the rest.
    result = asyncio.run(scene())
    assert result.reason == "done"
    assert result.duration_s < limit_s


def test_an_agent_that_asks_as_it_likes_is_not_told_what_to_ask_about(run_env: RunEnv, fake: Fake) -> None:
    async def scene() -> None:
        async with open_puppet(run_env, fake, ASKS, ask=["Bash(git push*)"]):
            pass

    with pytest.raises(Unsupported, match="asks about what it chooses"):
        asyncio.run(scene())
    assert run_env.folders() == []


def test_what_is_allowed_for_good_is_not_asked_again(run_env: RunEnv, fake: Fake) -> None:
    asked: list[str] = []

    def decide(request: PermissionRequest) -> inspan.Decision:
        asked.append(request.subject)
        return inspan.allow(always=True)

    async def scene(*commands: str) -> None:
        async with open_puppet(run_env, fake, ASKS, on_permission=decide) as session:
            for command in commands:
                await session.send_message(command)

    asyncio.run(scene("make test", "make test"))
    asyncio.run(scene("make test", "make test && rm -r x"))
    assert asked == ["make test", "make test && rm -r x"]


def test_what_a_rule_settles_says_so_and_is_open_for_nobody(run_env: RunEnv, fake: Fake) -> None:
    def decide(request: PermissionRequest) -> inspan.Decision:
        return inspan.allow(always=True)

    async def scene() -> None:
        async with open_puppet(run_env, fake, ASKS, on_permission=decide) as session:
            await session.send_message("make test")
            await session.send_message("make test")

    asyncio.run(scene())
    fold, opened = SessionFold(), list[list[str]]()
    for event in run_env.events():
        fold.add(event)
        if isinstance(event, PermissionAsked):
            opened.append(list(fold.questions))
    first, second = (event for event in run_env.events() if isinstance(event, PermissionAsked))
    assert ((first.settled, second.settled), opened) == ((False, True), [[first.id], []])


def test_a_closed_question_takes_no_answer(run_env: RunEnv, fake: Fake) -> None:
    async def scene() -> None:
        async with open_puppet(run_env, fake, ASKS, ask=["*"]) as session:
            message = await session.follow_up("ls")
            await wait_until_async(lambda: "permission_asked" in _kinds(run_env), "question")
            state = await session.get_state()
            assert (state.status, len(state.questions)) == ("waiting", 1)
            await session.answer(state.questions[0], allowed=False, reason="no")
            with pytest.raises(CommandRefused, match="answered already"):
                await session.answer(state.questions[0])
            with pytest.raises(CommandRefused, match="is not known"):
                await session.answer("nothing")
            assert (await message).message == "reject_once"

    asyncio.run(scene())


def _kinds(run_env: RunEnv) -> list[str]:
    (folder,) = run_env.folders()
    text = (folder / "events.jsonl").read_text()
    return [json.loads(line)["event"]["kind"] for line in text.splitlines(keepends=True) if line.endswith("\n")]


def test_a_session_is_opened_once(run_env: RunEnv, fake: Fake) -> None:
    async def scene() -> None:
        session = open_puppet(run_env, fake, ECHO)
        with pytest.raises(BadInput, match="not open"):
            await session.abort()
        async with session:
            with pytest.raises(BadInput, match="open already"):
                async with session:
                    pass
            with pytest.raises(BadInput, match="it is empty"):
                await session.send_message("  ")
            with pytest.raises(BadInput, match="takes them when it is opened"):
                await session.send_message("x", model="other")

    asyncio.run(scene())


@pytest.mark.parametrize(
    "line", [b"", b"\n", b"garbage\n", b'{"command":"send_message"}\n', b'{"command":"unknown"}\n', b"[" * 100_000]
)
def test_garbage_on_the_control_socket_harms_nobody(run_env: RunEnv, fake: Fake, line: bytes) -> None:
    from inspan.stores.run_folder import open_folder

    async def scene() -> AgentResult:
        async with open_puppet(run_env, fake, ECHO) as session:
            (folder,) = run_env.folders()
            await wait_until_async(lambda: _connects(open_folder(str(folder)).socket), "socket")
            _, writer = await asyncio.open_unix_connection(open_folder(str(folder)).socket)
            writer.write(line)
            result = await session.send_message("still there?")
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            return result

    assert asyncio.run(scene()).message == "got still there?"


def _connects(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.connect(path)
        except OSError:
            return False
        return True


def test_an_exception_in_the_block_ends_the_run_and_leaves_nothing(run_env: RunEnv, fake: Fake) -> None:
    async def scene() -> None:
        with pytest.raises(ZeroDivisionError):
            async with open_puppet(run_env, fake, OBEYS) as session:
                await session.follow_up("wait")
                raise ZeroDivisionError

    asyncio.run(scene())
    before = descriptors()
    asyncio.run(scene())
    assert not descriptors() - before
    ends = [event for folder in run_env.folders() for event in run_env.events(folder) if isinstance(event, RunEnded)]
    assert {ended.outcome for ended in ends} == {"cancelled"}
    assert len(ends) == 2


def test_a_message_that_nobody_waits_for_any_more_is_still_done(run_env: RunEnv, fake: Fake) -> None:
    waits = "def turn(text):\n  while not os.path.exists('go'): time.sleep(0.01)\n  say('got ' + text)"

    async def scene() -> AgentResult:
        async with open_puppet(run_env, fake, waits) as session:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(None) as limit:
                    sent = await session.follow_up("one")
                    limit.reschedule(0)
                    await sent
            (run_env.work / "go").touch()
            return await session.send_message("two")

    assert asyncio.run(scene()).message == "got two"
    assert [event.reason for event in run_env.events() if isinstance(event, MessageEnded)] == ["done", "done"]


def test_records_come_with_number_time_and_kind(run_env: RunEnv, fake: Fake) -> None:
    async def scene() -> list[inspan.Record]:
        async with open_puppet(run_env, fake, ECHO) as session:
            await session.send_message("one")
        return [record async for record in session]

    began = time.time()
    records = asyncio.run(scene())
    assert [record.number for record in records] == list(range(1, len(records) + 1))
    assert [record.event for record in records] == run_env.events()
    assert records[0].kind == "run_started" and records[-1].kind == "run_ended"
    assert all(began - 1 <= record.at <= time.time() for record in records)


def test_an_input_that_the_agent_cannot_take_is_never_replaced_by_its_own(run_env: RunEnv, fake: Fake) -> None:
    def decide(request: PermissionRequest) -> inspan.Decision:
        return inspan.allow(input={"command": "echo harmless"})

    async def scene() -> AgentResult:
        async with open_puppet(run_env, fake, ASKS, on_permission=decide) as session:
            return await session.send_message("rm -rf /")

    assert asyncio.run(scene()).message == "reject_once"
    (answered,) = [event for event in run_env.events() if isinstance(event, PermissionAnswered)]
    assert "takes no other input" in answered.reason


def test_the_records_of_one_message_end_with_it(run_env: RunEnv, fake: Fake) -> None:
    async def scene() -> list[list[str]]:
        async with open_puppet(run_env, fake, ECHO) as session:
            first, second = await session.follow_up("one"), await session.follow_up("two")
            return [[record.kind async for record in each] for each in (first, second)]

    first, second = asyncio.run(scene())
    assert (first[0], first[-1], first.count("message_ended")) == ("message_sent", "message_ended", 1)
    assert (second[-1], second.count("message_ended")) == ("message_ended", 2)


def test_a_session_belongs_to_the_loop_that_opened_it(run_env: RunEnv, fake: Fake) -> None:
    async def scene() -> None:
        async with open_puppet(run_env, fake, ECHO) as session:
            with pytest.raises(BadInput, match="opened in another loop"):
                await asyncio.to_thread(lambda: asyncio.run(session.send_message("x")))

    asyncio.run(scene())


def test_closing_denies_what_is_still_asked(run_env: RunEnv, fake: Fake) -> None:
    async def scene() -> str:
        async with open_puppet(run_env, fake, ASKS, ask=["*"]) as session:
            sent = await session.follow_up("ls")
            async for record in sent:
                if record.kind == "permission_asked":
                    break
            await session.close()
            return (await sent).message

    assert asyncio.run(scene()) == "reject_once"


def test_a_session_of_this_process_cannot_be_left_open(run_env: RunEnv, fake: Fake) -> None:
    async def scene() -> None:
        async with open_puppet(run_env, fake, ECHO) as session:
            with pytest.raises(Unsupported, match="lives in this process"):
                await session.detach()
            assert (await session.send_message("x")).message == "got x"

    asyncio.run(scene())
