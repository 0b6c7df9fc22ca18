"""The tests that an agent is not shown: in its worktree for as long as a check runs, and not a moment longer."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager

from inspan.errors import WorktreeUnusable
from inspan.stores.worktree import Worktree, find_worktree, lock_worktree
from inspan.stores.worktree_test_files import lay_patch, put_back
from inspan.system.cancellation import run_to_end


@asynccontextmanager
async def lay_tests(patch: str, *, state: str, cwd: str) -> AsyncGenerator[None]:
    """Keeps the files of a patch, if there is one, in the worktree that `cwd` lies in; whatever ends that, what stood
    there before stands there again. Raises `InspanError`."""
    with ExitStack() as stack:
        if not patch:
            yield
            return
        worktree = find_worktree(state, cwd)
        if worktree is None:
            step = "Ask for one: --sandbox worktree."
            raise WorktreeUnusable(f"The tests of the patch need a worktree: {cwd} is in none.", next_step=step)
        try:
            await run_to_end(asyncio.to_thread(stack.enter_context, _hold_tests(worktree, patch)))
            yield
        finally:
            await run_to_end(asyncio.to_thread(stack.close))


@contextmanager
def _hold_tests(worktree: Worktree, patch: str) -> Generator[None]:
    with lock_worktree(worktree.path, wait=True):
        lay_patch(worktree, patch)
        try:
            yield
        finally:
            put_back(worktree.path)
