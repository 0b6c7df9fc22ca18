"""The life of a loop: takes one step after the other, and writes each down before the next."""

import asyncio
import os
import random
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from inspan.errors import InspanError, RunNotFound, SessionNotFound, StateUnusable, Unsupported
from inspan.folds.costs import read_cost
from inspan.folds.loop import LoopFold, LoopState
from inspan.folds.summary import Summary
from inspan.planning.boundary import drop_place
from inspan.planning.places import open_place
from inspan.planning.prepare import discard, prepare
from inspan.planning.settings import apply_config
from inspan.protocol.commands import ACCEPTED, Cancel, Command, Ping, Reply, refuse
from inspan.protocol.cost import Cost
from inspan.protocol.events import (
    AttemptEnded,
    AttemptStarted,
    CheckEnded,
    CheckStarted,
    Event,
    RunEnded,
    VerdictGiven,
    VerifierStarted,
    WaitStarted,
)
from inspan.protocol.ids import RunId
from inspan.protocol.task import Task
from inspan.protocol.wire import Record
from inspan.redaction import Gate, SecretSet
from inspan.running.prepared_run import PreparedRun
from inspan.running.start import start_supervisor
from inspan.runs.find import find_run_folder
from inspan.runs.follow_async import follow_records
from inspan.runs.force import end_by_force, end_run, is_silent
from inspan.stores.event_log import RunLog
from inspan.stores.large_text import restore_large_texts
from inspan.stores.run_folder import RunFolder, find_task_files, open_folder
from inspan.stores.snapshot import load_snapshot

from .checks import build_unrun_check, look_for_done, run_check
from .decide import (
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
    find_remaining,
    move_reset,
)
from .ending import build_loop_end, find_next_step, reason_of_error
from .plan import LoopPlan, explain_verifier
from .prompts import build_prompt, cut_middle, read_verdict
from .results import read_answer
from .run_places import find_run_cwd, leave_worktrees
from .start import Children
from .test_patch import lay_tests
from .work_log import WorkLog

_POLL_S = 5.0
_JITTER = 0.25
_MOST_JITTER_S = 5.0
_LONGEST_SLEEP_S = 3600.0
# What a run's own limit takes to end it.
_GRACE_S = 2.0
# It goes on while the machine sleeps, as a provider's limit does.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class LoopWorker:
    """Runs a loop whose log it alone writes; `state` holds what its log, and those that it continues, have told."""

    def __init__(self, plan: LoopPlan, log: RunLog, *, before: LoopFold | None = None) -> None:
        self._plan = plan
        self._policy = plan.policy
        self._fold = before or LoopFold()
        self._folder = open_folder(plan.folder)
        gate = Gate(SecretSet.get_shared(plan.secrets))
        self._log = WorkLog(self._folder.log, log, gate=gate, add=self._fold.add)
        self._cancelled: asyncio.Future[Cancel] = asyncio.get_running_loop().create_future()
        self._killed: asyncio.Future[Cancel] = asyncio.get_running_loop().create_future()
        self._before_s = self._fold.state.active_s
        self._began_at = time.monotonic()
        self._wake_at: float | None = None
        self._cwds: dict[str, str] = {}
        self._opened: set[str] = set()
        self._children = Children()
        self._fold.add(Record(1, plan.created_at, plan.started))

    @property
    def state(self) -> LoopState:
        """Where the loop stands; how long it was at it is by a clock that nobody sets."""
        active_s = self._before_s + time.monotonic() - self._began_at
        return msgspec.structs.replace(self._fold.state, active_s=active_s)

    def handle_command(self, command: Command) -> Reply:
        """What somebody asks of the loop over its control socket."""
        if isinstance(command, Ping):
            return ACCEPTED
        if not isinstance(command, Cancel):
            return refuse("a loop takes no messages; its run does")
        self.cancel(command)
        return ACCEPTED

    def cancel(self, command: Cancel) -> None:
        """Ends the loop and the run that it has going; one that comes later may only kill that."""
        for wish in (self._cancelled, *((self._killed,) if command.now else ())):
            if not wish.done():
                wish.set_result(command)

    async def run(self) -> RunEnded:
        """Takes steps until the loop has ended; gives its last event, which is in the log.

        Where the disk takes no more, that is the end: raises `OSError` if not even that can be written.
        """
        try:
            async with self._log.keep_alive(limit_s=self._policy.time_limit_s):
                step = await self._take_steps()
            await asyncio.to_thread(leave_worktrees, self._plan.state, self._opened, by=self._plan.run_id)
            return self._end(step)
        except StateUnusable as error:
            return self._end_by_disk(error)

    async def _take_steps(self) -> End:
        slept = False
        while True:
            # What somebody wanted is obeyed between two steps; a run that goes on is ended first.
            cancelled = self._cancelled.done()
            step = decide(self._policy, self.state, now=time.time(), slept=slept)
            if cancelled and not isinstance(step, Follow | FollowVerifier | End):
                step = End(reason=self._cancelled.result().by)
            if end := await self._take(step):
                return end
            slept = isinstance(step, Sleep)

    async def _take(self, step: Step) -> End | None:
        """Takes one step; gives an end where it showed that there is no other."""
        match step:
            case Start():
                return await self._start(step)
            case Follow():
                await self._follow(step.run_id)
            case RunCheck():
                return await self._check(step.check)
            case Verify():
                return await self._verify()
            case FollowVerifier():
                await self._follow_verifier(step.run_id)
            case Wait():
                self._begin_wait(step)
            case Sleep():
                await self._sleep(step)
            case End():
                return step
        return None

    async def _start(self, step: Start) -> End | None:
        prompt = build_prompt(
            self._plan.task.prompt,
            self._policy,
            self.state,
            step,
            done_path=self._done_path,
            answer=await self._read_last_answer() if step.handed_over else "",
        )
        task = self._plan.build_task(step.agent, attempt=step.attempt)
        # A loop may itself go on in a session; after its first attempt it has one of its own.
        resumes = step.resumes or (self._plan.task.resume if step.attempt == 1 else "")
        task = msgspec.structs.replace(task, prompt=prompt, resume=resumes)
        try:
            # A session finds its own place; whoever begins anew goes on where the last attempt has left its work.
            prepared = await self._prepare(task, cwd="" if step.resumes else await self._find_next_cwd())
        except (SessionNotFound, Unsupported) as error:
            if not step.resumes:
                return _end_by_error(error)
            return await self._start(msgspec.structs.replace(step, resumes=""))
        except InspanError as error:
            return _end_by_error(error)
        run_id = prepared.plan.run_id
        self._cwds[run_id] = prepared.plan.task.cwd
        started = AttemptStarted(attempt=step.attempt, run_id=run_id, agent=step.agent, resumes=step.resumes)
        await self._start_run(prepared, started)
        return None

    async def _read_last_answer(self) -> str:
        last = self.state.last
        return await asyncio.to_thread(read_answer, self._plan.state, last.started.run_id) if last else ""

    async def _verify(self) -> End | None:
        task, explicit = self._plan.build_verifier_task(attempt=self._attempt), explain_verifier(self._plan.explicit)
        try:
            prepared = await self._prepare(task, cwd=await self._open_cwd(), explicit=explicit)
        except InspanError as error:
            return _end_by_error(error)
        started = VerifierStarted(attempt=self._attempt, run_id=prepared.plan.run_id, agent=self._policy.verify)
        await self._start_run(prepared, started)
        return None

    async def _prepare(self, task: Task, *, cwd: str, explicit: Mapping[str, Any] | None = None) -> PreparedRun:
        """Claims a run for the task, which may not go on for longer than the loop itself, and works in `cwd` where that
        is a worktree which an earlier attempt was given."""
        configured = await asyncio.to_thread(
            partial(apply_config, task, explicit=explicit or self._plan.explicit, env=self._plan.env)
        )
        limits, left_s = configured.task.limits, find_remaining(self._policy, self.state)
        if left_s is not None:
            limits = msgspec.structs.replace(limits, timeout_s=min(left_s, limits.timeout_s or left_s))
        task = msgspec.structs.replace(configured.task, limits=limits)
        if cwd and cwd != task.cwd:
            task = msgspec.structs.replace(task, cwd=cwd, sandbox=drop_place(task.sandbox), start="")
        return await asyncio.to_thread(partial(prepare, task, env=configured.env, configured=True))

    async def _start_run(self, prepared: PreparedRun, started: Event) -> None:
        """Writes down which run it is before it is started: whoever goes on with this loop looks what became of it."""
        try:
            self._record(started)
        except StateUnusable:
            discard(prepared)
            raise
        self._children.add(start_supervisor(prepared))

    async def _follow(self, run_id: str) -> None:
        followed = await self._follow_run(run_id)
        ended, folder = followed.ended, followed.folder
        self._record(
            AttemptEnded(
                attempt=self._attempt,
                run_id=run_id,
                outcome=ended.outcome,
                reason=ended.reason,
                message=ended.message,
                resets_at=followed.resets_at,
                can_resume=bool(ended.session_id),
                tree=load_snapshot(folder.path).after if folder else "",
                files_changed=ended.files_changed,
                files_unknown=ended.files_unknown,
                usage=ended.usage,
                cost=followed.cost,
                model_calls=ended.model_calls,
            )
        )

    async def _follow_verifier(self, run_id: str) -> None:
        followed = await self._follow_run(run_id)
        ended = followed.ended
        agreed, text = read_verdict(followed.answer, self._policy) if ended.reason == "done" else (None, ended.message)
        self._record(
            VerdictGiven(
                attempt=self._attempt,
                run_id=run_id,
                agent=self._policy.verify,
                agreed=agreed,
                reason=ended.reason,
                text=cut_middle(text),
                resets_at=followed.resets_at,
                usage=ended.usage,
                cost=followed.cost,
                model_calls=ended.model_calls,
            )
        )

    async def _follow_run(self, run_id: str) -> "_FollowedRun":
        """Waits for the end of a run; see `_end_run` for when it is ended."""
        try:
            folder = find_run_folder(self._plan.state, run_id)
        except RunNotFound:
            gone = RunEnded(outcome="lost", reason="supervisor_lost", message="its folder is gone", files_unknown=True)
            return _FollowedRun(ended=gone)
        ending = asyncio.create_task(self._end_run(folder))
        summary, ended_at = Summary(), time.time()
        try:
            async for record in follow_records(self._plan.state, folder, poll_s=_POLL_S):
                summary.add(record.event)
                ended_at = record.at
        finally:
            ending.cancel()
            await asyncio.wait({ending})
        ended = summary.ended or summary.build_end("supervisor_lost", "its log has no end")
        answer, resets_at = restore_large_texts(summary.answer, folder=folder.path), ended.resets_at
        return _FollowedRun(
            ended=ended,
            folder=folder,
            answer=answer,
            cost=read_cost(ended, model_from=summary.model_from),
            resets_at=None if resets_at is None else move_reset(resets_at, told_at=ended_at, now=time.time()),
        )

    async def _end_run(self, folder: RunFolder) -> None:
        """Ends a run where somebody ends the loop; and once the time of the loop is over, which is the limit of the
        run, too, where nobody is left who would keep to it."""
        state, left_s = self._plan.state, find_remaining(self._policy, self.state)
        await asyncio.wait({self._cancelled}, timeout=None if left_s is None else left_s + _GRACE_S)
        while not self._cancelled.done():
            if await asyncio.to_thread(is_silent, folder):
                await asyncio.to_thread(partial(end_by_force, state, folder, reason="run_timeout"))
                return
            await asyncio.wait({self._cancelled}, timeout=_POLL_S)
        asked = asyncio.create_task(
            asyncio.to_thread(partial(end_run, state, folder, command=self._cancelled.result()))
        )
        await asyncio.wait({asked, self._killed}, return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            await asyncio.to_thread(partial(end_run, state, folder, command=self._killed.result()))

    async def _check(self, check: str) -> End | None:
        self._record(CheckStarted(attempt=self._attempt, check=check))
        if check == DONE_FILE:
            self._record(look_for_done(self._done_path, attempt=self._attempt, nonce=self._policy.nonce))
            return None
        checking = asyncio.create_task(self._run_check(check))
        await asyncio.wait({checking, self._cancelled}, return_when=asyncio.FIRST_COMPLETED)
        if not checking.done():  # Somebody ends the loop: what the check would have come to, nobody will know.
            checking.cancel()
            await asyncio.wait({checking})
            return None
        try:
            self._record(checking.result())
        except InspanError as error:  # Without its tests, it would say nothing of the attempt.
            return End(reason="no_verdict", message=str(error))
        return None

    async def _run_check(self, check: str) -> CheckEnded:
        try:
            cwd = await self._open_cwd()
        except InspanError as error:  # Anywhere else, it would say nothing of the attempt.
            if self._policy.test_patch:
                raise
            return build_unrun_check(check, error, attempt=self._attempt)
        left_s = find_remaining(self._policy, self.state)
        limits = [each for each in (left_s, self._policy.check_timeout_s) if each is not None]
        async with lay_tests(self._policy.test_patch, state=self._plan.state, cwd=cwd):
            return await run_check(
                check,
                self._plan.task,
                attempt=self._attempt,
                run_id=RunId(self._plan.run_id),
                env=self._plan.env,
                cwd=cwd,
                timeout_s=min(limits),
            )

    def _begin_wait(self, step: Wait) -> None:
        seconds = step.seconds + random.random() * min(_MOST_JITTER_S, step.seconds * _JITTER)
        self._record_wait(seconds, why=step.why, agent=step.agent)

    def _record_wait(self, seconds: float, *, why: str, agent: str) -> float:
        """By a clock that nobody sets; what is told is in time of day."""
        self._record(WaitStarted(attempt=self._attempt, until=time.time() + seconds, why=why, agent=agent))
        self._wake_at = time.clock_gettime(_CLOCK) + seconds
        return self._wake_at

    def _inherit_wait(self, step: Sleep) -> float:
        """The rest of a wait that another loop began, counted from when it was told."""
        wait = self.state.last and self.state.last.wait
        assert wait is not None
        return self._record_wait(min(step.until - time.time(), step.most_s), why=wait.why, agent=wait.agent)

    async def _sleep(self, step: Sleep) -> None:
        wake_at = self._wake_at or self._inherit_wait(step)
        while (left_s := wake_at - time.clock_gettime(_CLOCK)) > 0 and not self._cancelled.done():
            await asyncio.wait({self._cancelled}, timeout=min(left_s, _LONGEST_SLEEP_S))
        self._wake_at = None

    def _end(self, step: End) -> RunEnded:
        ended = build_loop_end(self.state, step, duration_s=time.monotonic() - self._began_at)
        self._record(ended)
        return ended

    def _end_by_disk(self, error: StateUnusable) -> RunEnded:
        """In the room that was kept for it."""
        step = _end_by_error(error)
        ended = build_loop_end(self.state, step, duration_s=time.monotonic() - self._began_at)
        self._log.record_on_full_disk(ended)
        return ended

    def _record(self, event: Event) -> None:
        self._log.record(event)

    @property
    def _attempt(self) -> int:
        return len(self.state.attempts)

    @property
    def _done_path(self) -> str:
        return os.path.join(find_task_files(self._folder), DONE_FILE)

    async def _find_next_cwd(self) -> str:
        """Where the last attempt worked; nothing where that is not known, or there was none: the next one gets the
        place that the task asks for."""
        try:
            return await self._open_cwd() if self.state.last else ""
        except InspanError:
            return ""

    async def _open_cwd(self) -> str:
        """Where the last attempt worked: a worktree of its own, which is made again where it was removed. Raises
        `InspanError` rather than give another folder."""
        last = self.state.last
        assert last is not None
        run_id = last.started.run_id
        # What is stored is redacted.
        cwd = self._cwds.get(run_id) or await asyncio.to_thread(find_run_cwd, self._plan.state, run_id)
        await asyncio.to_thread(open_place, cwd, self._plan.env)
        self._opened.add(cwd)
        return cwd


class _FollowedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has ended; without a folder, it is gone."""

    ended: RunEnded
    folder: RunFolder | None = None
    answer: str = ""
    cost: Cost | None = None
    resets_at: float | None = None


def _end_by_error(error: InspanError) -> End:
    return End(reason=reason_of_error(error), message=str(error), next_step=find_next_step(error))
