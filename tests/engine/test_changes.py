"""The owner of a run's snapshots: it tells what no event told, never raises, never waits long, leaves no process."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from inspan.engine.changes import MOST_TOLD, Changes
from inspan.protocol.events import FileChanged
from inspan.stores.snapshot import Snapshot, changes_between, load
from tests.house import processes_of
from tests.stores.ground import Ground, wrapped_git

SLEEPS = "exec sleep 86400"


class Stage(Ground):
    """A repository and what is needed to watch a run in it."""

    def changes_of(self, *, env: dict[str, str] | None = None, mode: str = "exec", settle_s: float = 60.0) -> Changes:
        return Changes(str(self.folder), cwd=str(self.top), mode=mode, env=env or {}, settle_s=settle_s)

    def run(self, act: Callable[[], object], *, told: tuple[str, ...] = ()) -> list[FileChanged]:
        """A whole run that did this and told of these files."""

        async def run() -> list[FileChanged]:
            changes = self.changes_of()
            changes.begin()
            await changes.settle()
            act()
            return await changes.finish(told)

        return asyncio.run(run())

    def event(self, name: str, change: str) -> FileChanged:
        assert change in ("added", "modified", "deleted")
        return FileChanged(path=str(self.top / name), change=change)

    @property
    def processes(self) -> list[int]:
        return processes_of(self.folder.name)

    @property
    def known(self) -> Snapshot:
        return load(str(self.folder))


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return Stage(tmp_path)


@pytest.fixture
def slow_git(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git that does not come to an end in `write-tree`; the path of its folder."""
    folder = stage.root / "programs"
    body = f'echo "$$ $3" >> {folder}/calls\ntest "$3" = write-tree && {SLEEPS}\nexec "$GIT" "$@"'
    monkeypatch.setenv("PATH", wrapped_git(folder, body))
    return folder


def started(folder: Path) -> bool:
    calls = folder / "calls"
    return calls.exists() and "write-tree" in calls.read_text()


async def eventually(look: Callable[[], bool]) -> None:
    """Comes back once there is something to see; the loop is free meanwhile."""
    for _ in iter(look, True):
        await asyncio.sleep(0.01)


def test_what_no_event_told_is_told_at_the_end(stage: Stage) -> None:
    def act() -> None:
        stage.write("by-tool.txt", "x")
        stage.write("by-shell.txt", "x")
        (stage.top / "gone.txt").unlink()

    told = stage.run(act, told=(str(stage.top / "by-tool.txt"),))
    assert told == [stage.event("by-shell.txt", "added"), stage.event("gone.txt", "deleted")]
    assert [each.path for each in changes_between(str(stage.folder))] == ["by-shell.txt", "by-tool.txt", "gone.txt"]


def test_a_file_is_told_once_however_its_path_is_spelled(stage: Stage) -> None:
    other = stage.root / "other-name"
    other.symlink_to(stage.top)
    told = (str(other / "a.txt"), f"{stage.top}/deep/../b.txt")
    stage.write("deep/c.txt", "x")
    assert stage.run(lambda: [stage.write(name, "x") for name in ("a.txt", "b.txt")], told=told) == []


def test_a_run_that_changed_nothing_tells_nothing(stage: Stage) -> None:
    assert stage.run(lambda: None) == []
    assert (stage.known.before, stage.known.problem) == (stage.known.after, "")
    assert not (stage.folder / "snapshot/owner").exists()


def test_the_first_snapshot_is_there_to_be_compared_while_the_run_goes_on(stage: Stage) -> None:
    async def run() -> None:
        changes = stage.changes_of()
        changes.begin()
        await eventually(lambda: bool(stage.known.before))
        stage.write("kept.txt", "changed\n")
        assert stage.told(stage.now()) == {"kept.txt": "modified"}
        await changes.finish()

    asyncio.run(run())
    assert stage.told() == {"kept.txt": "modified"}


def test_of_very_many_files_the_first_are_told_and_the_rest_counted(stage: Stage) -> None:
    changes = stage.changes_of()

    async def run() -> list[FileChanged]:
        changes.begin()
        await changes.settle()
        for number in range(MOST_TOLD + 7):
            stage.write(f"many/{number:05}", "x")
        return await changes.finish()

    told = asyncio.run(run())
    assert (len(told), changes.left_out) == (MOST_TOLD, 7)
    assert len(changes_between(str(stage.folder))) == MOST_TOLD + 7


@pytest.mark.parametrize(
    ("mode", "value", "problem"),
    [
        ("exec", "off", "INSPAN_SNAPSHOT is off, so no snapshot was taken."),
        ("exec", "0", "INSPAN_SNAPSHOT is '0', neither `off` nor a number of seconds, so no snapshot was taken."),
        ("exec", "soon", "INSPAN_SNAPSHOT is 'soon', neither `off` nor a number of seconds, so no snapshot was taken."),
        ("exec", "nan", "INSPAN_SNAPSHOT is 'nan', neither `off` nor a number of seconds, so no snapshot was taken."),
        ("complete", "", "The mode complete changes no files, so no snapshot was taken."),
    ],
)
def test_no_snapshot_where_none_is_wanted(stage: Stage, mode: str, value: str, problem: str) -> None:
    async def run() -> list[FileChanged]:
        changes = stage.changes_of(mode=mode, env={"INSPAN_SNAPSHOT": value})
        changes.begin()
        stage.write("new.txt", "x")
        return await changes.finish()

    assert asyncio.run(run()) == []
    assert stage.known == Snapshot(problem=problem)
    assert not (stage.folder / "snapshot").exists()


def test_a_folder_in_no_repository_is_told(stage: Stage) -> None:
    shutil.rmtree(stage.top / ".git")
    assert stage.run(lambda: stage.write("new.txt", "x")) == []
    assert stage.known == Snapshot(problem=f"{stage.top} is in no git work tree, so no snapshot was taken.")


def test_a_machine_without_git_is_told(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(stage.root / "nowhere"))
    assert stage.run(lambda: stage.write("new.txt", "x")) == []
    assert stage.known == Snapshot(problem="There is no git program on PATH.")


def test_a_snapshot_that_takes_too_long_is_given_up_and_its_process_ended(stage: Stage, slow_git: Path) -> None:
    async def run() -> list[FileChanged]:
        changes = stage.changes_of(env={"INSPAN_SNAPSHOT": "0.5"})
        changes.begin()
        await eventually(lambda: stage.known.problem != "No snapshot was taken.")
        assert stage.processes == []
        return await changes.finish()

    assert asyncio.run(run()) == []
    assert stage.known == Snapshot(problem="A snapshot took longer than 0.5 s.")


def test_a_file_that_never_ends_does_not_hold_up_a_run(stage: Stage) -> None:
    os.mkfifo(stage.top / ".gitignore")

    async def run() -> list[FileChanged]:
        changes = stage.changes_of(env={"INSPAN_SNAPSHOT": "0.5"})
        changes.begin()
        return await changes.finish()

    assert asyncio.run(run()) == []
    assert stage.processes == []
    assert stage.known == Snapshot(problem="A snapshot took longer than 0.5 s.")


def test_a_run_that_is_over_before_its_first_snapshot_does_not_wait_for_it(stage: Stage, slow_git: Path) -> None:
    async def run() -> list[FileChanged]:
        changes = stage.changes_of(env={"INSPAN_SNAPSHOT": "86400"}, settle_s=0.01)
        changes.begin()
        await eventually(lambda: started(slow_git))
        return await changes.finish()

    assert asyncio.run(run()) == []
    assert stage.processes == []
    assert stage.known == Snapshot(problem="The run was over before its first snapshot was complete.")


def test_a_second_snapshot_that_takes_too_long_leaves_the_first(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> list[FileChanged]:
        changes = stage.changes_of()
        changes.begin()
        await changes.settle()
        monkeypatch.setenv("PATH", wrapped_git(stage.root / "programs", SLEEPS))
        return await changes.finish(limit_s=0.2)

    assert asyncio.run(run()) == []
    assert stage.processes == []
    assert stage.known == Snapshot(
        top=str(stage.top),
        before=stage.known.before,
        before_at=stage.known.before_at,
        problem="A snapshot took longer than 0.2 s.",
    )


@pytest.mark.usefixtures("slow_git")
def test_a_cancelled_owner_leaves_no_process(stage: Stage) -> None:
    async def run() -> None:
        changes = stage.changes_of()
        changes.begin()
        await eventually(lambda: bool(stage.processes))

    asyncio.run(run())
    assert stage.processes == []


def test_a_git_that_somebody_kills_is_a_sentence(stage: Stage, slow_git: Path) -> None:
    async def run() -> list[FileChanged]:
        changes = stage.changes_of()
        changes.begin()
        for _ in range(4):  # Two tries with the copy of the index, two without it.
            await eventually(lambda: bool(stage.processes) and started(slow_git))
            for pid in stage.processes:
                os.kill(pid, 9)
            (slow_git / "calls").unlink()
        return await changes.finish()

    assert asyncio.run(run()) == []
    assert stage.known == Snapshot(problem="`git write-tree` failed: it did not say why.")


@pytest.mark.parametrize("when", ["before", "between"])
def test_a_run_folder_that_is_gone_breaks_nothing(stage: Stage, when: str) -> None:
    async def run() -> list[FileChanged]:
        changes = stage.changes_of()
        if when == "before":
            shutil.rmtree(stage.folder)
        changes.begin()
        await changes.settle()
        shutil.rmtree(stage.folder, ignore_errors=True)
        return await changes.finish()

    assert asyncio.run(run()) == []


def test_a_work_tree_that_the_run_deleted_is_a_sentence(stage: Stage) -> None:
    assert stage.run(lambda: shutil.rmtree(stage.top)) == []
    assert "cannot change to" in stage.known.problem


def test_nothing_stays_open(stage: Stage) -> None:
    def descriptors() -> list[str]:
        return sorted(os.listdir("/proc/self/fd"))

    stage.run(lambda: None)
    before = descriptors()
    stage.run(lambda: stage.write("new.txt", "x"))
    assert descriptors() == before
