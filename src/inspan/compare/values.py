"""A comparison as values: its tasks, one cell for each agent and repetition, and what came of each."""

from typing import Any, Literal

import msgspec

from inspan.protocol.cost import Cost
from inspan.protocol.loop import LoopPolicy
from inspan.protocol.outcome import Outcome, Reason
from inspan.protocol.task import Task
from inspan.protocol.usage import Usage

CellKey = tuple[str, str, int]
"""Task, agent and repetition."""


class CompareTask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One task: what the agents are told, the commit that they begin at, and what must pass afterwards.

    `cwd` is a folder in its repository. The tests of `test_patch` are there for the checks alone. `passed_before` are
    the checks that pass at `start`: of these, that they pass afterwards proves nothing. `untracked` files and folders
    of the checkout are in no commit.
    """

    name: str
    prompt: str
    cwd: str
    start: str
    checks: tuple[str, ...]
    test_patch: str = ""
    passed_before: tuple[str, ...] = ()
    untracked: int = 0


class Comparison(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All of it, as it was asked for: `task` has the options of every run, `policy` the rules of every loop. So many
    cells at a time as `jobs` says; 0 is one for each processor."""

    id: str
    created_at: float
    tasks: tuple[CompareTask, ...]
    agents: tuple[str, ...]
    times: int
    task: Task
    policy: LoopPolicy
    explicit: dict[str, Any]
    jobs: int = 0

    @property
    def cells(self) -> list[CellKey]:
        """In the order in which they are started: each agent once before any is tried again."""
        repeats = range(1, self.times + 1)
        return [(task.name, agent, repeat) for repeat in repeats for task in self.tasks for agent in self.agents]

    def find_task(self, name: str) -> CompareTask:
        return next(task for task in self.tasks if task.name == name)


class CellStarted(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="cell_started"):
    """The loop that a cell was given, written before that loop is started."""

    task: str
    agent: str
    repeat: int
    loop: str

    @property
    def key(self) -> CellKey:
        return self.task, self.agent, self.repeat


class CellResult(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="cell_ended"):
    """What came of a cell. `runs` are its attempts, in the order in which their changes can be applied. `problem` says
    why it could not be tried, or not be judged; such a cell counts for no agent. `ignored` files and folders lay in its
    worktree that are no part of its changes, since git ignores them."""

    task: str
    agent: str
    repeat: int
    loop: str = ""
    runs: list[str] = []
    passed: bool = False
    outcome: Outcome = "failed"
    reason: Reason = "environment"
    message: str = ""
    attempts: int = 0
    wall_s: float = 0.0
    usage: Usage = Usage()
    cost: Cost = Cost(kind="unknown")
    model_calls: int = 0
    files: list[str] = []
    lines_added: int = 0
    lines_removed: int = 0
    denied_calls: int = 0
    ignored: int = 0
    problem: str = ""

    @property
    def key(self) -> CellKey:
        return self.task, self.agent, self.repeat


Line = CellStarted | CellResult
CellState = Literal["todo", "started", "ended"]
