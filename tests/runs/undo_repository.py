"""A git repository with ended runs in it, made without starting any: a function does what an agent would."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from inspan.protocol.events import RunEnded
from inspan.protocol.wire import encode, encode_record
from inspan.runs.list_all import reindex
from inspan.runs.undo import UndoResult, carry_out, plan_undo
from inspan.runs.undo_checks import Direction
from inspan.stores.run_folder import RunFolder, claim_folder, write_json
from tests.protocol.examples import STARTED
from tests.stores.snapshot_repository import SnapshotRepository

Tree = dict[str, tuple[int, bytes | str] | None]


class UndoRepository(SnapshotRepository):
    """The same repository; each run has a folder of its own in a state folder."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.state = str(root / "state")

    def run(self, act: Callable[[], object], *, indexed: bool = False, packed: bool = True) -> RunFolder:
        """A run that did this and has ended; its snapshots need the repository if they are not `packed`."""
        run = claim_folder(f"{self.state}/projects/p/t/runs", pid=1)
        self.folder = Path(run.path)
        started = msgspec.structs.replace(STARTED, run_id=run.run_id, cwd=str(self.top))
        ended = RunEnded(outcome="completed", reason="done")
        write_json(
            run.file("run.json"), {"created_at": 1.0, "agent": "a", "task": {"cwd": str(self.top), "prompt": ""}}
        )
        records = [encode_record(number, 1.0, encode(event)) for number, event in enumerate((started, ended), 1)]
        Path(run.log).write_bytes(b"".join(records))
        self.take_first()
        act()
        self.take_second(packed=packed)
        if indexed:
            reindex(self.state)
        return run

    def change(self, run: RunFolder, direction: Direction, *paths: str) -> UndoResult:
        """Undoes or applies, as the command does after a yes."""
        plan = plan_undo(self.state, run, direction=direction, paths=paths)
        if plan.files:
            carry_out(self.state, run, plan, paths=paths)
        return plan

    def list_tree(self) -> Tree:
        """All that is in the work tree: files with their permissions and bytes, links, and folders; `.git` left out."""
        found: Tree = {}
        for path in sorted(self.top.rglob("*")):
            name = str(path.relative_to(self.top))
            if name.split("/")[0] == ".git":
                continue
            if path.is_symlink():
                found[name] = (0, str(path.readlink()))
            else:
                found[name] = (path.stat().st_mode & 0o7777, path.read_bytes()) if path.is_file() else None
        return found

    def list_repository(self) -> dict[str, bytes]:
        """Every file of the user's repository."""
        files = [path for path in (self.top / ".git").rglob("*") if path.is_file()]
        return {str(path.relative_to(self.top)): path.read_bytes() for path in files}
