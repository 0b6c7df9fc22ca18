"""What a loop does next: a function of where it stands. Nothing here waits, starts or writes anything."""

import re
from collections.abc import Sequence

import msgspec

from inspan.folds.loop import Attempt, LoopState
from inspan.protocol.loop import LoopPolicy
from inspan.protocol.outcome import Outcome, Reason
from inspan.protocol.reasons import REASONS

DONE_FILE = "DONE"
_MAX_VERDICTS = 3
_MOST_LOST = 3
# What a wait can mend; everything else that is not listed is tried again at once, or after the usual delay.
_WAITING: frozenset[Reason] = frozenset({"rate_limit", "overloaded", "network"})
# What would only fail again, or was wanted by somebody.
_FINAL: frozenset[Reason] = frozenset(
    {
        *("authentication", "environment", "model_not_found", "script", "store", "harness"),
        *("budget", "guard", "unanswered", "interrupted", "stopped", "killed"),
    }
)
_NEEDS_NEW_SESSION: frozenset[Reason] = frozenset({"context_too_long", "session_not_found"})
# Times of day, process ids and the like.
_VOLATILE = re.compile(r"\d+:\d\d(?::\d\d)?(?:\.\d+)?|\b(?:pid|process|port|seed|thread)\W{0,3}\d+", re.IGNORECASE)
# A whole number that stands alone: no part of a name, a path or a date, and no duration.
_UNIT = r"(?!\s?(?:ns|us|µs|ms|s|secs?|seconds?|min|minutes?|h|hours?)\b)"
_COUNT = re.compile(rf"(?<![\w.\-])(?<!\D/)(\d{{1,6}})(?![\w\-]|\.\d){_UNIT}")


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """Start the agent; `resumes` is the run whose session goes on, `handed_over` says that another agent was at it."""

    attempt: int
    agent: str
    resumes: str = ""
    handed_over: bool = False


class Follow(msgspec.Struct, frozen=True, kw_only=True):
    """Wait for the run of the attempt."""

    run_id: str


class RunCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Run this check; `DONE_FILE` stands for a look at the file."""

    check: str


class Verify(msgspec.Struct, frozen=True, kw_only=True):
    """Start the verifier."""


class FollowVerifier(msgspec.Struct, frozen=True, kw_only=True):
    """Wait for the verifier's run."""

    run_id: str


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """Begin to wait for so long, and a little longer that many loops do not wake at once; then go on with `agent`."""

    seconds: float
    why: str
    agent: str


class Sleep(msgspec.Struct, frozen=True, kw_only=True):
    """Go on waiting until then, and not for longer than was meant: a clock may have been set back since."""

    until: float
    most_s: float = 0.0


class End(msgspec.Struct, frozen=True, kw_only=True):
    """End the loop."""

    reason: Reason
    message: str = ""
    next_step: str = ""

    @property
    def outcome(self) -> Outcome:
        return REASONS[self.reason].outcome


Step = Start | Follow | RunCheck | Verify | FollowVerifier | Wait | Sleep | End


def decide(policy: LoopPolicy, state: LoopState, *, now: float, slept: bool = False) -> Step:
    """The next step. The same log leads to the same step, so that a loop whose process died is simply gone on with.

    Where the last wait was just `slept`, it is over, whatever the time of day is.
    """
    last = state.last
    if last is None:
        return Start(attempt=1, agent=policy.agents[0])
    if last.ended is None:
        return Follow(run_id=last.started.run_id)
    left = None if slept else _find_rest(last, now=now)
    if last.ended.reason == "done" and (step := _judge(policy, last, left, now=now)):
        return step
    return _go_on(policy, state, last, left, now=now)


def list_checks(policy: LoopPolicy) -> list[str]:
    """What an attempt has to pass, in order."""
    return [*([DONE_FILE] if policy.until == "done_file" else []), *policy.checks]


def move_reset(resets_at: float, *, told_at: float, now: float) -> float:
    """When a limit lifts by the clock as it is now, which may have been set since it was told: never later than was
    meant."""
    return min(told_at, now) + resets_at - told_at


def find_remaining(policy: LoopPolicy, state: LoopState) -> float | None:
    """The seconds that the loop still has; `None` where there is no limit."""
    return None if policy.time_limit_s is None else max(0.0, policy.time_limit_s - state.active_s)


def _judge(policy: LoopPolicy, last: Attempt, left: Sleep | None, *, now: float) -> Step | None:
    """What shows whether a completed attempt has done the task; nothing once something showed that it has not."""
    if last.failed_check:
        return None
    if due := list_checks(policy)[len(last.checks) :]:
        return RunCheck(check=due[0])
    if policy.verify:
        return _judge_by_verifier(policy, last, left, now=now)
    return End(reason="done")


def _judge_by_verifier(policy: LoopPolicy, last: Attempt, left: Sleep | None, *, now: float) -> Step | None:
    if last.verifier:
        return FollowVerifier(run_id=last.verifier.run_id)
    verdict = last.verdict
    if verdict is None:
        return Verify()
    if verdict.agreed is not None:
        return End(reason="done") if verdict.agreed else None
    if verdict.reason in _FINAL:
        return End(reason=verdict.reason, message=f"The verifier {policy.verify} failed: {verdict.text}")
    if len(last.verdicts) >= _MAX_VERDICTS:
        return End(reason="no_verdict", message=f"{policy.verify} was asked {_MAX_VERDICTS} times.")
    if last.wait is None and verdict.reason in _WAITING:
        why = f"{policy.verify}, which verifies, is limited"
        until = _find_reset(policy, verdict.resets_at, told_at=last.verdict_at, failures=len(last.verdicts), now=now)
        return Wait(seconds=max(0.0, until - now), why=why, agent=policy.verify)
    return left or Verify()


def _go_on(policy: LoopPolicy, state: LoopState, last: Attempt, left: Sleep | None, *, now: float) -> Step:
    """After an attempt that did not do the task: another one, after a wait, or an end."""
    ended = last.ended
    assert ended is not None
    # A disk that was full may have room by now: somebody goes on with this.
    is_mended = ended.reason == "store" and len(state.attempts) <= state.inherited
    if ended.reason in _FINAL and not is_mended:
        return End(reason=ended.reason, message=ended.message)
    left_s = find_remaining(policy, state)
    if left_s == 0:
        return End(reason="run_timeout", message=f"the loop's {policy.time_limit_s:g} s are over.")
    if _count_tries(state.attempts) > policy.max_restarts:
        restarts = "1 restart" if policy.max_restarts == 1 else f"{policy.max_restarts} restarts"
        return End(reason="max_restarts", message=f"{restarts} did not do it.")
    if policy.no_progress and _is_stuck(state.attempts, times=policy.no_progress):
        return End(reason="no_progress", message=describe_standstill(state.attempts, times=policy.no_progress))
    step = _plan_next(policy, state, last, left, now=now)
    if isinstance(step, Wait) and left_s is not None and step.seconds >= left_s:
        return End(reason="run_timeout", message=f"{step.why}, for longer than the loop may still take.")
    return step


def _plan_next(policy: LoopPolicy, state: LoopState, last: Attempt, left: Sleep | None, *, now: float) -> Step:
    if last.wait:
        return left or _start(policy, state, last.wait.agent)
    agent = last.started.agent
    assert last.ended is not None
    if last.ended.reason == "rate_limit":
        limits = {each: _find_limit(policy, state, each, now=now) for each in policy.agents}
        free = [each for each, until in limits.items() if until <= now]
        if free:
            return _start(policy, state, free[0])
        agent = min(limits, key=limits.__getitem__)
        return Wait(seconds=limits[agent] - now, why=f"{agent} is limited by its provider", agent=agent)
    failures = _count_failures(state.attempts)
    if last.ended.reason in _WAITING:
        until = _find_reset(policy, last.ended.resets_at, told_at=last.ended_at, failures=failures, now=now)
        why = f"{agent}'s provider cannot be used ({last.ended.reason})"
        return Wait(seconds=max(0.0, until - now), why=why, agent=agent)
    seconds = min(policy.longest_delay_s, policy.delay_s * 2 ** max(0, failures - 1))
    return Wait(seconds=seconds, why="before the next attempt", agent=agent)


def _find_rest(last: Attempt, *, now: float) -> Sleep | None:
    """The rest of a wait; nothing where there is none, or it is over."""
    return Sleep(until=last.wait.until, most_s=last.wait_s) if last.wait and now < last.wait.until else None


def _start(policy: LoopPolicy, state: LoopState, agent: str) -> Start:
    own = next((each for each in reversed(state.attempts) if each.started.agent == agent), None)
    last = state.last
    needs_new = policy.fresh or own is None or own.ended is None or own.ended.reason in _NEEDS_NEW_SESSION
    can_resume = not needs_new and own is not None and own.ended is not None and own.ended.can_resume
    return Start(
        attempt=len(state.attempts) + 1,
        agent=agent,
        resumes=own.started.run_id if own and can_resume else "",
        handed_over=last is not None and last.started.agent != agent,
    )


def _find_limit(policy: LoopPolicy, state: LoopState, agent: str, *, now: float) -> float:
    """Until when an agent is limited, by its own last attempts."""
    own = [each for each in state.attempts if each.started.agent == agent and each.ended]
    limited = [each for each in _take_while_limited(own) if each.ended]
    if not limited:
        return 0.0
    newest = limited[0]
    assert newest.ended is not None
    resets_at = newest.ended.resets_at
    return _find_reset(policy, resets_at, told_at=newest.ended_at, failures=len(limited), now=now)


def _take_while_limited(attempts: Sequence[Attempt]) -> list[Attempt]:
    """The last ones, newest first, that a limit ended."""
    found: list[Attempt] = []
    for each in reversed(attempts):
        if each.ended is None or each.ended.reason != "rate_limit":
            break
        found.append(each)
    return found


def _find_reset(policy: LoopPolicy, resets_at: float | None, *, told_at: float, failures: int, now: float) -> float:
    """Until when to wait for a provider: as long as was meant when it was told, whoever has set the clock since."""
    if resets_at is not None:
        return max(move_reset(resets_at, told_at=told_at, now=now), min(told_at, now))
    steps = policy.rate_limit_backoff_s or (policy.longest_delay_s,)
    return min(told_at, now) + steps[min(max(1, failures), len(steps)) - 1]


def _count_tries(attempts: Sequence[Attempt]) -> int:
    """How often it was tried: that a run's supervisor was killed says nothing of its agent, unless it goes on so."""
    lost = sum(each.ended is not None and each.ended.outcome == "lost" for each in attempts)
    return len(attempts) - min(lost, _MOST_LOST)


def _count_failures(attempts: Sequence[Attempt]) -> int:
    """How many of the last attempts in a row did not even complete."""
    count = 0
    for each in reversed(attempts):
        if each.ended is None or each.ended.reason == "done":
            break
        count += 1
    return count


def _is_stuck(attempts: Sequence[Attempt], *, times: int) -> bool:
    # That a limit or a killed supervisor ended one says nothing of what its agent could do.
    telling = [each for each in attempts if each.ended and each.ended.reason not in _WAITING]
    keys = [_build_progress_key(each) for each in telling if each.ended and each.ended.outcome != "lost"]
    return len(keys) >= times and len(set(keys[-times:])) == 1


def _build_progress_key(attempt: Attempt) -> tuple[str, ...]:
    """What two attempts have in common of which the later one changed nothing. Where the files are not known, the
    verifier's words stand for them; what a check counts tells of progress that no snapshot holds."""
    ended, check, verdict = attempt.ended, attempt.failed_check, attempt.verdict
    assert ended is not None
    said = verdict.text if verdict and not ended.tree else ""
    failed = (check.check, _keep_counts(check.output)) if check else ("", "")
    return (ended.tree, ended.reason, _strip_numbers(ended.message), *failed, said)


def describe_standstill(attempts: Sequence[Attempt], *, times: int) -> str:
    """Why a loop that gets nowhere was ended."""
    last = attempts[-1]
    assert last.ended is not None
    if check := last.failed_check:
        what = f"the same failure of {check.check!r}"
    elif last.ended.reason != "done":
        what = f"the same error ({last.ended.reason})"
    else:
        what = "the same work"
    same = " and the same files" if last.ended.tree else ""
    tries = "1 attempt" if times == 1 else f"{times} attempts in a row"
    return f"{tries} came to {what}{same}."


def _keep_counts(text: str) -> str:
    """What a check printed, without what differs from one time to the next: of its numbers, only those that may count
    something, such as failures."""
    parts = _COUNT.split(_VOLATILE.sub("", text))
    return "".join(part if place % 2 else _strip_numbers(part) for place, part in enumerate(parts))


def _strip_numbers(text: str) -> str:
    """Without what differs from one time to the next: durations, addresses, process ids."""
    return re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?", "0", text, flags=re.IGNORECASE)
