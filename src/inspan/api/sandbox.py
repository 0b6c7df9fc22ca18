"""A sandbox as an object: commands run in it, files are put in and put back. A run can work in it, too."""

import asyncio
import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Self, cast

import msgspec

from inspan.agents.modules import split_sandbox
from inspan.contracts.sandbox import ExecResult
from inspan.errors import BadInput, SandboxUnusable
from inspan.planning.command_box import CommandBox, build_command, plan_box
from inspan.planning.places import build_sandbox_place, make_sandbox_place, remove_sandbox_place
from inspan.protocol.limits import Limits
from inspan.protocol.task import Task
from inspan.running.command import start_command
from inspan.running.workspace import Workspace
from inspan.runs.boxes import HeldBox, hold_box, release_box
from inspan.stores.checkpoints import Checkpoints
from inspan.stores.paths import make_private_folder, state_home
from inspan.stores.stand_ins import list_stand_ins, remove_stand_ins
from inspan.system.cancellation import run_to_end, wait_for_end
from inspan.system.threads import MAX_WAITING, call_in_thread

from .in_process import require_loop
from .options import Path, merge_choice
from .sandbox_inputs import (
    check_output_limit,
    check_texts,
    check_timeout,
    read_env,
    read_files,
    read_limits,
    read_path,
    read_paths,
)

OUTPUT_LIMIT_BYTES = 8 * 1024 * 1024
_TEARDOWN_S = 30.0


class _Opened(msgspec.Struct, frozen=True, kw_only=True):
    """What an open sandbox has; `stand_ins` is what its box has to make."""

    planned: CommandBox
    held: HeldBox
    kept: Checkpoints
    worktree: str = ""
    stand_ins: list[str] = []


class AgentSandbox:
    """A sandbox that `open_sandbox` gives. It is open in its `async with` block; commands may run at the same time."""

    def __init__(
        self,
        kind: str,
        *,
        cwd: Path,
        net: str,
        read: Sequence[Path],
        image: str,
        env: Mapping[str, str],
        limits: Limits,
        output_limit_bytes: int,
    ) -> None:
        check_texts(kind=kind, net=net, image=image)
        check_output_limit(output_limit_bytes)
        self._kind = kind
        self._origin = os.path.realpath(read_path("cwd", cwd))
        self._work_dir = self._origin
        self._net = net
        self._read = read_paths("read", read)
        self._image = image
        self._env = read_env(env)
        self._limits = limits
        self._output_limit_bytes = output_limit_bytes
        self._planned: CommandBox | None = None
        self._opened: _Opened | None = None
        self._remover: weakref.finalize[..., AgentSandbox] | None = None
        self._turn: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None
        self._running: set[asyncio.Task[ExecResult]] = set()
        self._ended: set[asyncio.Task[ExecResult]] = set()

    def __repr__(self) -> str:
        return f"AgentSandbox({self._kind!r}, {self._origin!r})"

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.teardown()

    @property
    def name(self) -> str:
        """Which kind of sandbox it is."""
        return self._kind

    @property
    def work_dir(self) -> str:
        """The folder that commands work in, by its real path; in a worktree of its own once it is open."""
        return self._work_dir

    async def open(self) -> None:
        """What `async with` does first: raises `BadInput`, `SandboxUnusable` and `StateUnusable`, and then leaves
        nothing behind; nor does a call that is cancelled. Idempotent.
        """
        require_loop("inspan.open_sandbox")
        async with self._take_turn():
            if self._opened is None:
                opened = await call_in_thread(self._open, limit=MAX_WAITING, undo=_close)
                self._opened, self._planned, self._work_dir = opened, opened.planned, opened.planned.box.cwd
                # For a program that forgets to tear it down, or just ends.
                self._remover = weakref.finalize(self, release_box, opened.held, waits=False)

    async def exec(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout_s: float | None = 600.0,
    ) -> ExecResult:
        """Runs a command to its end; nothing of it is left afterwards, nor when it takes too long or the call is
        cancelled.

        Its environment is what programs need of the caller's (`PATH`, `HOME`, the locale), then what the sandbox was
        opened with, then `env`. Keys and tokens of the caller's environment are not among it.
        """
        planned = self._require_open()
        if not isinstance(cast(object, stdin), bytes):
            raise BadInput("stdin", stdin, "it is not bytes.", next_step="Encode it: text.encode().")
        check_timeout(timeout_s)
        run_id = f"box-{os.urandom(8).hex()}"
        groups = list(self._opened.held.command_groups) if self._opened else []
        # In a thread: it looks at many files of the system.
        build = partial(build_command, env=read_env(env), stdin=stdin, groups=groups, run_id=run_id)
        command = await call_in_thread(lambda: build(planned, argv))
        if self._planned is not planned:
            raise self._closed_error()
        running = start_command(command, timeout_s=timeout_s, limit_bytes=self._output_limit_bytes)
        self._running.add(running)
        try:
            return await wait_for_end(running, on_cancel=running.cancel)
        except asyncio.CancelledError:
            if running in self._ended:
                raise self._closed_error() from None
            raise
        finally:
            self._running.discard(running)
            self._ended.discard(running)

    async def upload(self, files: Mapping[str, bytes | str]) -> None:
        """Writes files, by paths that count from `work_dir`, with the folders they lie in; each is written whole or
        not at all. A path that leads out of `work_dir`, also by a link, is refused with `BadInput`; files before it in
        the mapping are written by then.
        """
        self._require_open()
        contents = read_files(files)
        async with self._take_turn():
            self._require_open()
            await call_in_thread(lambda: self._upload(contents), limit=MAX_WAITING)

    async def snapshot(self) -> str:
        """Keeps the files of `work_dir` as they are now, but for those that git ignores; gives a name for `restore`.

        It is kept until the sandbox is torn down. Raises `UndoRefused` where it cannot be taken, or could not be put
        back whole: for a file that cannot be read, for more than 1 GiB that the repository does not have already, and
        for a repository inside that is no submodule. Files of submodules are left alone.
        """
        self._require_open()
        async with self._take_turn():
            checkpoints, stop = self._get_checkpoints(), threading.Event()
            return await call_in_thread(partial(checkpoints.take, stop=stop), limit=MAX_WAITING, on_cancel=stop.set)

    async def restore(self, snapshot: str) -> None:
        """Puts all files back as they were, or none of them and raises `UndoRefused`. The index, HEAD and branches of a
        repository stay as they are.

        Commands may run meanwhile: no link that they put there is followed, and what they change just then is refused.
        """
        self._require_open()
        check_texts(snapshot=snapshot)
        async with self._take_turn():
            checkpoints, stop = self._get_checkpoints(), threading.Event()
            restore = partial(checkpoints.restore, snapshot, stop=stop)
            await call_in_thread(restore, limit=MAX_WAITING, on_cancel=stop.set)

    async def teardown(self) -> None:
        """Ends what still runs in it, and removes its snapshots; the files of `work_dir` stay. Idempotent.

        A worktree of its own is removed: commits stay on its branch, and what is neither committed nor ignored is saved
        first, as `inspan worktrees` shows. Where it cannot be saved, or a run still works there, it stays, and
        `WorktreeUnusable` or `RunBusy` is raised. A snapshot, a restore and an upload that have begun are waited for.
        """
        self._planned = None
        await run_to_end(self._teardown())

    def confine(self, task: Task) -> Task:
        """The task for a run that works in this sandbox: in its folder or below, with its limits, network and files.

        A sandbox without network leaves a run its gateway, and nothing else. Of two limits the smaller one holds.
        Raises `BadInput` where the task itself asks for another sandbox, network or folder.
        """
        planned = self._require_open()
        if not self._holds(task.cwd):
            step = f"Use {self._work_dir}, or a folder in it."
            raise BadInput("cwd", task.cwd, "it is not in the sandbox.", next_step=step)
        reach = planned.box.network.reach
        net = {"none": "gateway", "open": "open" if planned.sandbox.boundary else ""}.get(reach, planned.net)
        for field, paths, known in (("read", task.read, self._read), ("extra_dirs", task.extra_dirs, ())):
            for path in paths:
                if path not in known and not self._holds(path):
                    step = f"Open the sandbox with it, or use {self._work_dir} alone."
                    raise BadInput(field, path, "the sandbox does not show it.", next_step=step)
        return msgspec.structs.replace(
            task,
            sandbox=merge_choice("sandbox", task.sandbox, planned.sandbox.name),
            net=merge_choice("net", task.net, net),
            read=self._read,
            image=self._image,
            env={**self._env, **task.env},
            limits=msgspec.structs.replace(task.limits, **_choose_smaller(task.limits, self._limits)),
            control_groups=self._opened.held.groups if self._opened else (),
        )

    def _holds(self, path: str) -> bool:
        return f"{os.path.realpath(path)}/".startswith(f"{self._work_dir.rstrip('/')}/")

    def _take_turn(self) -> asyncio.Lock:
        """Held by whoever opens it, tears it down or works on its files: one after the other."""
        loop = asyncio.get_running_loop()
        if self._turn is None or self._turn[0] is not loop:  # A lock belongs to one loop.
            self._turn = loop, asyncio.Lock()
        return self._turn[1]

    def _open(self) -> "_Opened":
        """Looked at before anything is made. Its own folder is in the state folder, which no box sees."""
        state = make_private_folder(state_home(os.environ))  # What is not there yet cannot be hidden.
        parts = split_sandbox(self._kind)
        boundary = parts.boundary or ("none" if parts.place else "")
        planned = self._plan(boundary, self._origin)
        path = build_sandbox_place(self._kind, self._origin, state=state) if parts.place else ""
        held = hold_box(state, self._limits, worktree=path)
        try:
            if path:
                planned = self._plan(boundary, make_sandbox_place(path, self._origin).cwd)
            kept = Checkpoints(planned.box.cwd, folder=held.folder.snapshots)
        except BaseException:
            _release(held, path)
            raise
        made = list_stand_ins(planned.box)
        return _Opened(planned=planned, held=held, kept=kept, worktree=path, stand_ins=made)

    def _plan(self, boundary: str, cwd: str) -> CommandBox:
        return plan_box(
            boundary,
            cwd=cwd,
            net=self._net,
            read=self._read,
            image=self._image,
            env=self._env,
            limits=self._limits,
            host_env=os.environ,
        )

    def _require_open(self) -> CommandBox:
        if self._planned is None:
            raise self._closed_error()
        return self._planned

    def _closed_error(self) -> SandboxUnusable:
        message = f"The sandbox {self._kind} of {self._work_dir} is not open."
        return SandboxUnusable(message, next_step="Use it inside of `async with inspan.open_sandbox(…) as box:`.")

    def _upload(self, files: Mapping[str, bytes]) -> None:
        space = Workspace(self._work_dir, writable=(self._work_dir,))
        for path, content in files.items():
            if problem := space.put(path, content):
                step = f"Give a path that lies in {self._work_dir}."
                raise BadInput("upload", path, f"{problem.removeprefix(f'{path}: ')}.", next_step=step)

    def _get_checkpoints(self) -> Checkpoints:
        self._require_open()
        if self._opened is None:
            raise self._closed_error()
        return self._opened.kept

    async def _teardown(self) -> None:
        await self._end_commands()
        async with self._take_turn():
            self._planned = None  # Somebody may have been opening it.
            await self._end_commands()
            opened, self._opened = self._opened, None
            if opened and self._remover:
                self._remover.detach()
                await call_in_thread(lambda: _close(opened), limit=MAX_WAITING)

    async def _end_commands(self) -> None:
        for each in self._running:
            self._ended.add(each)
            each.cancel()
        if self._running:
            await asyncio.wait(set(self._running), timeout=_TEARDOWN_S)


def open_sandbox(
    kind: str = "bwrap",
    *,
    cwd: Path,
    net: str = "",
    read: Sequence[Path] = (),
    image: str = "",
    env: Mapping[str, str] | None = None,
    memory: int | None = None,
    cpus: float | None = None,
    pids: int | None = None,
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
) -> AgentSandbox:
    """A sandbox for commands and runs: `async with inspan.open_sandbox("bwrap", cwd=folder) as box`.

    `worktree` makes a git worktree of the repository that `cwd` is in, and `worktree+bwrap` a box around that.
    `net` is `none` (the default where it can be held), `open` or `allow=HOST,…`; `read` are paths that it may read
    besides the system's and its own. `memory` (bytes), `cpus` and `pids` hold for all that runs in it together. `env`
    is added to the little of the caller's environment that commands get. Of what a command writes, so many bytes are
    kept of each stream. Raises `BadInput` for a value of a wrong type.
    """
    return AgentSandbox(
        kind,
        cwd=cwd,
        net=net,
        read=read,
        image=image,
        env=read_env(env),
        limits=read_limits(memory, cpus, pids),
        output_limit_bytes=output_limit_bytes,
    )


def _close(opened: _Opened) -> None:
    if opened.held.pid == os.getpid():
        remove_stand_ins(state_home(os.environ), opened.stand_ins, box=opened.held.folder.name)
    _release(opened.held, opened.worktree)


def _release(held: HeldBox, worktree: str) -> None:
    """Also where the worktree has to stay: what is in it is nobody's to lose, and `inspan worktrees` shows it."""
    try:
        if worktree and held.pid == os.getpid():
            remove_sandbox_place(worktree, state=state_home(os.environ), box=held.folder.name)
    finally:
        release_box(held)


def _choose_smaller(own: Limits, given: Limits) -> dict[str, float]:
    mine, theirs = own.resources, given.resources
    return {name: min(value, mine.get(name, value)) for name, value in theirs.items()}
