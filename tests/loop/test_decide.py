"""What a loop does next, from what its log says alone."""

import msgspec
import pytest

from inspan.folds.loop import LoopFold, LoopState
from inspan.loop.decide import (
    DONE_FILE,
    End,
    Follow,
    FollowVerifier,
    RunCheck,
    Sleep,
    Start,
    Step,
    Verify,
    Wait,
    decide,
)
from inspan.protocol.events import AttemptStarted, RunEnded, VerifierStarted
from inspan.protocol.loop import LoopPolicy
from inspan.protocol.outcome import Reason
from inspan.protocol.wire import Record

from .histories import BEGAN_AT, STARTED, attempt, check, fold, verdict, wait

PLAIN = LoopPolicy(agents=("a",))
CHECKED = LoopPolicy(agents=("a",), checks=("make test",))
VERIFIED = LoopPolicy(agents=("a",), verify="v")
TWO = LoopPolicy(agents=("a", "b"))
NOW = BEGAN_AT + 100


def after(policy: LoopPolicy, state: LoopState, *, now: float = NOW) -> Step:
    return decide(policy, state, now=now)


def test_it_begins_with_the_first_agent() -> None:
    assert after(TWO, fold()) == Start(attempt=1, agent="a")


def test_a_run_that_goes_on_is_waited_for() -> None:
    started = AttemptStarted(attempt=1, run_id="run1", agent="a")
    assert after(PLAIN, fold(started)) == Follow(run_id="run1")


def test_a_completed_run_ends_it_where_nothing_else_is_asked_for() -> None:
    assert after(PLAIN, fold(attempt(1))) == End(reason="done")


def test_each_check_is_run_until_one_fails() -> None:
    policy = LoopPolicy(agents=("a",), checks=("one", "two"))
    assert after(policy, fold(attempt(1))) == RunCheck(check="one")
    assert after(policy, fold(attempt(1), check(1, True, name="one"))) == RunCheck(check="two")
    passed = (check(1, True, name="one"), check(1, True, name="two"))
    assert after(policy, fold(attempt(1), *passed)) == End(reason="done")
    failed = after(policy, fold(attempt(1), check(1, False, name="one")))
    assert isinstance(failed, Wait)


def test_checks_show_nothing_of_a_run_that_did_not_complete() -> None:
    assert isinstance(after(CHECKED, fold(attempt(1, "crashed"))), Wait)


def test_the_file_is_looked_for_before_the_checks() -> None:
    policy = LoopPolicy(agents=("a",), until="done_file", checks=("make test",))
    assert after(policy, fold(attempt(1))) == RunCheck(check=DONE_FILE)
    assert after(policy, fold(attempt(1), check(1, True, name=DONE_FILE))) == RunCheck(check="make test")


def test_after_its_wait_the_session_goes_on() -> None:
    told = fold(attempt(1), check(1, False), wait(1, until=NOW + 5))
    assert told.last and after(CHECKED, told) == Sleep(until=NOW + 5, most_s=told.last.wait_s)
    assert after(CHECKED, told, now=NOW + 5) == Start(attempt=2, agent="a", resumes="run1")


@pytest.mark.parametrize(
    ("policy", "last"),
    [
        (LoopPolicy(agents=("a",), checks=("make test",), fresh=True), attempt(1)),
        (CHECKED, attempt(1, "context_too_long")),
        (CHECKED, attempt(1, "session_not_found")),
        (CHECKED, attempt(1, can_resume=False)),
    ],
    ids=["fresh", "too long", "unknown session", "no session"],
)
def test_a_new_session_is_begun_where_the_old_one_is_no_use(policy: LoopPolicy, last: list[object]) -> None:
    told = fold(last, check(1, False), wait(1, until=NOW))  # pyright: ignore[reportArgumentType]
    assert after(policy, told) == Start(attempt=2, agent="a")


@pytest.mark.parametrize(
    "reason",
    [
        *("authentication", "environment", "model_not_found", "script", "store", "harness"),
        *("budget", "guard", "unanswered", "interrupted", "stopped", "killed"),
    ],
)
def test_what_would_only_fail_again_is_never_tried_again(reason: Reason) -> None:
    assert after(CHECKED, fold(attempt(1, reason, message="why"))) == End(reason=reason, message="why")


# A second opinion


def test_the_verifier_is_asked_after_the_checks() -> None:
    policy = LoopPolicy(agents=("a",), checks=("make test",), verify="v")
    assert after(policy, fold(attempt(1))) == RunCheck(check="make test")
    assert after(policy, fold(attempt(1), check(1, True))) == Verify()
    asked = fold(attempt(1), check(1, True), VerifierStarted(attempt=1, run_id="verify1", agent="v"))
    assert after(policy, asked) == FollowVerifier(run_id="verify1")


def test_the_verifier_decides() -> None:
    assert after(VERIFIED, fold(attempt(1), verdict(1, True))) == End(reason="done")
    assert isinstance(after(VERIFIED, fold(attempt(1), verdict(1, False))), Wait)


def test_a_verifier_without_a_verdict_is_asked_again_and_then_no_more() -> None:
    silent = verdict(1, None)
    assert after(VERIFIED, fold(attempt(1), silent)) == Verify()
    assert after(VERIFIED, fold(attempt(1), silent, silent)) == Verify()
    ended = after(VERIFIED, fold(attempt(1), silent, silent, silent))
    assert isinstance(ended, End) and ended.reason == "no_verdict"


def test_a_verifier_that_cannot_work_ends_it() -> None:
    ended = after(VERIFIED, fold(attempt(1), verdict(1, None, reason="authentication", text="no key")))
    assert ended == End(reason="authentication", message="The verifier v failed: no key")


def test_a_verifier_that_is_limited_is_waited_for() -> None:
    limited = fold(attempt(1), verdict(1, None, reason="rate_limit"))
    assert isinstance(after(VERIFIED, limited), Wait)
    waiting = fold(attempt(1), verdict(1, None, reason="rate_limit"), wait(1, until=NOW + 5))
    assert waiting.last and after(VERIFIED, waiting) == Sleep(until=NOW + 5, most_s=waiting.last.wait_s)
    assert after(VERIFIED, waiting, now=NOW + 5) == Verify()


# Waiting


def test_a_limit_is_waited_out_until_the_moment_that_the_provider_named() -> None:
    step = after(PLAIN, fold(attempt(1, "rate_limit", resets_at=NOW + 20)))
    assert isinstance(step, Wait) and step.agent == "a"
    assert step.seconds == pytest.approx(20)
    waited = fold(attempt(1, "rate_limit", resets_at=NOW + 20), wait(1, until=NOW + 20))
    assert after(PLAIN, waited, now=NOW + 20) == Start(attempt=2, agent="a", resumes="run1")


def test_a_limit_without_an_end_is_waited_for_longer_each_time() -> None:
    policy = LoopPolicy(agents=("a",), rate_limit_backoff_s=(30, 60))
    steps = [
        # Each attempt ended so many seconds after the loop began, from when the wait counts.
        after(policy, fold(*(attempt(each, "rate_limit") for each in range(1, count + 1))), now=BEGAN_AT + 2 * count)
        for count in (1, 2, 3)
    ]
    assert [step.seconds for step in steps if isinstance(step, Wait)] == [30, 60, 60]


def test_the_next_agent_takes_over_at_once() -> None:
    limited = fold(attempt(1, "rate_limit", resets_at=NOW + 20))
    assert after(TWO, limited) == Start(attempt=2, agent="b", handed_over=True)


def test_where_all_are_limited_the_first_to_be_free_is_waited_for() -> None:
    both = fold(attempt(1, "rate_limit", resets_at=NOW + 50), attempt(2, "rate_limit", agent="b", resets_at=NOW + 20))
    step = after(TWO, both)
    assert isinstance(step, Wait) and (step.agent, round(step.seconds)) == ("b", 20)


def test_an_agent_whose_limit_has_lifted_goes_on_in_its_own_session() -> None:
    both = fold(attempt(1, "rate_limit", resets_at=NOW - 1), attempt(2, "rate_limit", agent="b", resets_at=NOW + 20))
    assert after(TWO, both) == Start(attempt=3, agent="a", resumes="run1", handed_over=True)


def test_failures_in_a_row_are_waited_for_twice_as_long_each_time() -> None:
    seconds: list[float] = []
    for count in range(1, 9):
        failures = [attempt(each, "crashed", tree=str(each)) for each in range(1, count + 1)]
        step = after(LoopPolicy(agents=("a",), no_progress=0), fold(*failures))
        seconds.append(step.seconds if isinstance(step, Wait) else -1)
    assert seconds == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_check_that_fails_is_no_reason_to_wait_longer() -> None:
    history = [event for number in range(1, 6) for event in (*attempt(number), check(number, False, output="x"))]
    step = after(CHECKED, fold(history))
    assert isinstance(step, Wait) and step.seconds == 1


# Ends without success


def test_restarts_are_limited() -> None:
    policy = LoopPolicy(agents=("a",), checks=("make test",), max_restarts=1)
    one = fold(attempt(1), check(1, False))
    assert isinstance(after(policy, one), Wait)
    two = fold(attempt(1), check(1, False), attempt(2), check(2, False))
    ended = after(policy, two)
    assert isinstance(ended, End) and (ended.reason, ended.outcome) == ("max_restarts", "limited")
    assert ended.message == "1 restart did not do it."


def test_time_is_limited() -> None:
    policy = LoopPolicy(agents=("a",), checks=("make test",), time_limit_s=3)
    ended = after(policy, fold(attempt(1), check(1, False)))
    assert isinstance(ended, End) and ended.reason == "run_timeout"


def test_a_wait_for_which_there_is_no_time_is_not_begun() -> None:
    policy = LoopPolicy(agents=("a",), time_limit_s=60)
    ended = after(policy, fold(attempt(1, "rate_limit", resets_at=NOW + 3600)))
    assert isinstance(ended, End) and ended.reason == "run_timeout"
    assert ended.message.startswith("a is limited by its provider")


def _repeat(times: int, *, tree: str, output: str) -> LoopState:
    history = [
        event
        for number in range(1, times + 1)
        for event in (*attempt(number, tree=tree.format(number)), check(number, False, output=output.format(number)))
    ]
    return fold(history)


def test_three_attempts_that_change_nothing_end_it() -> None:
    assert isinstance(after(CHECKED, _repeat(2, tree="same", output="1 failed in 0.{}2s")), Wait)
    ended = after(CHECKED, _repeat(3, tree="same", output="1 failed in 0.{}2s"))
    assert isinstance(ended, End) and ended.reason == "no_progress"
    assert ended.message == "3 attempts in a row came to the same failure of 'make test' and the same files."


@pytest.mark.parametrize(("tree", "output"), [("tree{}", "same"), ("same", "{} failed, as ever: {}" + "x" * 3)])
def test_other_files_are_progress_and_so_is_another_failure(tree: str, output: str) -> None:
    history = [
        event
        for number in range(1, 6)
        for event in (
            *attempt(number, tree=tree.format(number)),
            check(number, False, output=output.format(number, "x" * number)),
        )
    ]
    assert isinstance(after(CHECKED, fold(history)), Wait)


@pytest.mark.parametrize("tree", ["", "same"], ids=["unknown", "known"])
@pytest.mark.parametrize("output", ["{} failed, 3 passed", "count is {}.", "{}/9 passed", "errors: {}", "n={}", "{} %"])
def test_another_number_of_failures_is_progress_that_no_snapshot_need_hold(tree: str, output: str) -> None:
    assert isinstance(after(CHECKED, _repeat(3, tree=tree, output=output)), Wait)


@pytest.mark.parametrize("tree", ["", "same"], ids=["unknown", "known"])
@pytest.mark.parametrize(
    "output",
    [
        *("1 failed in {} ms", "1 failed in {}s", "1 failed in {}.5 seconds", "at 12:0{}:11", "on 2026-01-0{}"),
        *("/tmp/pytest-of-me/pytest-{}/x", "/proc/{}/fd", "0x7f{}", "worker-{} fell", "pid {}", "process 123{} fell"),
        "id 123456789{}",
    ],
)
def test_other_numbers_are_no_progress(tree: str, output: str) -> None:
    ended = after(CHECKED, _repeat(3, tree=tree, output=output))
    assert isinstance(ended, End) and ended.reason == "no_progress"
    assert ("the same files" in ended.message) == bool(tree)


def test_the_same_error_again_and_again_ends_it() -> None:
    ended = after(PLAIN, fold(*(attempt(number, "crashed", tree="same") for number in (1, 2, 3))))
    assert isinstance(ended, End)
    assert (ended.reason, ended.message) == (
        "no_progress",
        "3 attempts in a row came to the same error (crashed) and the same files.",
    )


def test_a_limit_is_no_standstill() -> None:
    limited = [attempt(number, "rate_limit", resets_at=NOW + 1, tree="same") for number in range(1, 8)]
    assert isinstance(after(PLAIN, fold(*limited)), Wait)


def test_a_killed_supervisor_is_no_standstill() -> None:
    policy = LoopPolicy(agents=("a",), checks=("make test",), max_restarts=9)
    lost = [attempt(number, "supervisor_lost", tree="same") for number in range(1, 6)]
    assert isinstance(after(policy, fold(*lost)), Wait)


def test_a_standstill_may_be_allowed() -> None:
    policy = LoopPolicy(agents=("a",), checks=("make test",), no_progress=0)
    assert isinstance(after(policy, _repeat(20, tree="same", output="same")), Wait)


def test_each_record_of_a_log_leads_to_the_step_after_it() -> None:
    history = [*attempt(1), check(1, False), wait(1, until=NOW), *attempt(2), check(2, True), *verdict(2, False)]
    policy = LoopPolicy(agents=("a",), checks=("make test",), verify="v")
    steps = [type(after(policy, fold(history[:length]))) for length in range(len(history) + 1)]
    assert steps == [Start, Follow, RunCheck, Wait, Start, Follow, RunCheck, Verify, FollowVerifier, Wait]


def test_only_the_time_that_loops_were_at_it_counts() -> None:
    state = fold(attempt(1), check(1, False))
    assert state.active_s == pytest.approx(3)


# A clock that somebody sets


def test_a_wait_that_was_slept_is_over_for_one_step_whatever_the_time_of_day_is() -> None:
    day_ahead = BEGAN_AT + 86400
    limited = [attempt(1, "rate_limit", resets_at=day_ahead + 8), wait(1, until=day_ahead + 8)]
    go_on = decide(PLAIN, fold(*limited), now=NOW, slept=True)
    assert go_on == Start(attempt=2, agent="a", resumes="run1")
    again = fold(*limited, attempt(2, "rate_limit", resets_at=BEGAN_AT + 5 + 8))
    step = after(PLAIN, again, now=BEGAN_AT + 5)
    assert isinstance(step, Wait) and step.seconds == pytest.approx(8)
    checking = fold(attempt(1), verdict(1, None, reason="rate_limit"), wait(1, until=day_ahead))
    assert decide(VERIFIED, checking, now=NOW, slept=True) == Verify()


@pytest.mark.parametrize("reason", ["rate_limit", "overloaded", "network"])
@pytest.mark.parametrize("resets_in", [8, None])
def test_a_limit_that_was_told_by_a_clock_that_was_ahead_is_waited_for_as_long_as_was_meant(
    reason: Reason, resets_in: float | None
) -> None:
    policy, earlier = LoopPolicy(agents=("a",), rate_limit_backoff_s=(8,)), BEGAN_AT - 2 * 86400
    ended_at = BEGAN_AT + 2
    told = fold(attempt(1, reason, resets_at=None if resets_in is None else ended_at + resets_in))
    verified = fold(attempt(1), verdict(1, None, reason=reason))
    for state, rules in ((told, policy), (verified, msgspec.structs.replace(policy, verify="v"))):
        step = after(rules, state, now=earlier)
        assert isinstance(step, Wait) and step.seconds == pytest.approx(8)


@pytest.mark.parametrize(("duration_s", "active_s"), [(0.0, 3), (3.0, 3), (20.0, 20)])
def test_of_a_dead_loop_the_time_counts_in_which_it_lived(duration_s: float, active_s: float) -> None:
    lost = RunEnded(outcome="lost", reason="supervisor_lost", duration_s=duration_s)
    folded = LoopFold()
    for number, (at, event) in enumerate([(0.0, STARTED), (3.0, attempt(1)[0]), (86400.0, lost), (86401.0, STARTED)]):
        folded.add(Record(number + 1, BEGAN_AT + at, event))
    assert folded.state.active_s == pytest.approx(active_s)


# What a loop inherits


def test_a_disk_that_was_full_ends_a_loop_and_not_the_one_that_goes_on_with_it() -> None:
    full = attempt(1, "store", message="no room")
    assert after(CHECKED, fold(full)) == End(reason="store", message="no room")
    assert isinstance(after(CHECKED, fold(full, STARTED)), Wait)


def test_a_wait_is_as_long_as_it_was_meant_whatever_the_time_of_day_is_now() -> None:
    waiting = fold(attempt(1, "network"), wait(1, until=BEGAN_AT + 63))
    assert waiting.last and waiting.last.wait_s == 60.0
    assert after(CHECKED, waiting, now=BEGAN_AT - 86400) == Sleep(until=BEGAN_AT + 63, most_s=60.0)


def test_a_run_that_was_lost_is_no_restart_unless_that_goes_on() -> None:
    once = LoopPolicy(agents=("a",), max_restarts=0)
    lost = [attempt(number, "supervisor_lost") for number in (1, 2, 3, 4)]
    assert [type(after(once, fold(*lost[:count]))) for count in (1, 2, 3, 4)] == [Wait, Wait, Wait, End]
    assert isinstance(after(once, fold(attempt(1, "done"), check(1, passed=False))), End)
