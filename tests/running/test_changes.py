"""The owner of a run's snapshots: it tells what no event told, never raises, never waits long, leaves no process."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from inspan.protocol.events import FileChanged
from inspan.running.changes import MAX_REPORTED, ChangeTracker
from inspan.stores.snapshot import Snapshot, changes_between, load_snapshot
from tests.api.run_env import descriptors
from tests.cli_env import processes_of
from tests.stores.snapshot_repository import SnapshotRepository, wrap_git

SLEEPS = "exec sleep 86400"


class WatchedRepository(SnapshotRepository):
    """A repository and what is needed to watch a run in it."""

    def track(self, *, env: dict[str, str] | None = None, mode: str = "exec", settle_s: float = 60.0) -> ChangeTracker:
        return ChangeTracker(str(self.folder), cwd=str(self.top), mode=mode, env=env or {}, settle_s=settle_s)

    def run(self, act: Callable[[], object], *, told: tuple[str, ...] = ()) -> list[FileChanged]:
        """A whole run that did this and told of these files."""

        async def run() -> list[FileChanged]:
            changes = self.track()
            changes.begin()
            await changes.end_first_snapshot()
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
        return load_snapshot(str(self.folder))


@pytest.fixture
def watched_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WatchedRepository:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return WatchedRepository(tmp_path)


@pytest.fixture
def slow_git(watched_repository: WatchedRepository, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git that does not come to an end in `write-tree`; the path of its folder."""
    folder = watched_repository.root / "programs"
    body = f'echo "$$ $3" >> {folder}/calls\ntest "$3" = write-tree && {SLEEPS}\nexec "$GIT" "$@"'
    monkeypatch.setenv("PATH", wrap_git(folder, body))
    return folder


def started(folder: Path) -> bool:
    calls = folder / "calls"
    return calls.exists() and "write-tree" in calls.read_text()


async def wait_until_async(look: Callable[[], bool]) -> None:
    """Comes back once there is something to see; the loop is free meanwhile."""
    for _ in iter(look, True):
        await asyncio.sleep(0.01)


def test_what_no_event_told_is_told_at_the_end(watched_repository: WatchedRepository) -> None:
    def act() -> None:
        watched_repository.write("by-tool.txt", "x")
        watched_repository.write("by-shell.txt", "x")
        (watched_repository.top / "gone.txt").unlink()

    told = watched_repository.run(act, told=(str(watched_repository.top / "by-tool.txt"),))
    assert told == [watched_repository.event("by-shell.txt", "added"), watched_repository.event("gone.txt", "deleted")]
    assert [each.path for each in changes_between(str(watched_repository.folder))] == [
        "by-shell.txt",
        "by-tool.txt",
        "gone.txt",
    ]


def test_a_file_is_told_once_however_its_path_is_spelled(watched_repository: WatchedRepository) -> None:
    other = watched_repository.root / "other-name"
    other.symlink_to(watched_repository.top)
    told = (str(other / "a.txt"), f"{watched_repository.top}/deep/../b.txt")
    watched_repository.write("deep/c.txt", "x")
    assert (
        watched_repository.run(lambda: [watched_repository.write(name, "x") for name in ("a.txt", "b.txt")], told=told)
        == []
    )


def test_a_told_file_is_unchanged_only_where_both_snapshots_hold_the_same_of_it(
    watched_repository: WatchedRepository,
) -> None:
    top = watched_repository.top
    watched_repository.write(".gitignore", "*.log\n")
    watched_repository.write("same.txt", "x")
    watched_repository.write("ignored.log", "x")
    watched_repository.write("assumed.txt", "x")
    watched_repository.git("add", "assumed.txt")
    (top / "link").symlink_to(watched_repository.root / "elsewhere")
    watched_repository.git("update-index", "--assume-unchanged", "assumed.txt")
    told = [
        "same.txt",
        str(top / "kept.txt"),
        "changed.txt",
        "assumed.txt",
        "ignored.log",
        "link",
        "gone",
        "/etc/hosts",
    ]

    async def run(*, waits: bool) -> list[str]:
        changes = watched_repository.track()
        changes.begin()
        await (changes.wait_until_ready() if waits else changes.end_first_snapshot())
        watched_repository.write("same.txt", "x")
        watched_repository.write("assumed.txt", "other")
        watched_repository.write("changed.txt", "y" if waits else "z")
        await changes.finish(told)
        return changes.unchanged

    assert asyncio.run(run(waits=True)) == ["same.txt", str(top / "kept.txt")]
    assert asyncio.run(run(waits=False)) == []


def test_a_run_that_changed_nothing_tells_nothing(watched_repository: WatchedRepository) -> None:
    assert watched_repository.run(lambda: None) == []
    assert (watched_repository.known.before, watched_repository.known.problem) == (watched_repository.known.after, "")
    assert not (watched_repository.folder / "snapshot/owner").exists()


def test_a_run_that_wrote_over_an_object_has_no_snapshots(watched_repository: WatchedRepository) -> None:
    def forge() -> None:
        watched_repository.overwrite_object("HEAD:kept.txt", "blob", b"forged\n")
        watched_repository.write("kept.txt", "changed\n")

    assert watched_repository.run(forge) == [watched_repository.event("kept.txt", "modified")]
    assert not watched_repository.known.before
    assert "An object of the repository is not what its name says" in watched_repository.known.problem


def test_the_first_snapshot_is_there_to_be_compared_while_the_run_goes_on(
    watched_repository: WatchedRepository,
) -> None:
    async def run() -> None:
        changes = watched_repository.track()
        changes.begin()
        await wait_until_async(lambda: bool(watched_repository.known.before))
        watched_repository.write("kept.txt", "changed\n")
        assert watched_repository.list_changes(watched_repository.current_tree()) == {"kept.txt": "modified"}
        await changes.finish()

    asyncio.run(run())
    assert watched_repository.list_changes() == {"kept.txt": "modified"}


def test_of_very_many_files_the_first_are_told_and_the_rest_counted(watched_repository: WatchedRepository) -> None:
    changes = watched_repository.track()

    async def run() -> list[FileChanged]:
        changes.begin()
        await changes.end_first_snapshot()
        for number in range(MAX_REPORTED + 7):
            watched_repository.write(f"many/{number:05}", "x")
        return await changes.finish()

    told = asyncio.run(run())
    assert (len(told), changes.omitted) == (MAX_REPORTED, 7)
    assert len(changes_between(str(watched_repository.folder))) == MAX_REPORTED + 7


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
def test_no_snapshot_where_none_is_wanted(
    watched_repository: WatchedRepository, mode: str, value: str, problem: str
) -> None:
    async def run() -> tuple[list[FileChanged], str]:
        changes = watched_repository.track(mode=mode, env={"INSPAN_SNAPSHOT": value})
        changes.begin()
        watched_repository.write("new.txt", "x")
        return await changes.finish(), changes.failure

    # What nobody can have meant is told.
    assert asyncio.run(run()) == ([], "" if value in ("", "off") else problem)
    assert watched_repository.known == Snapshot(problem=problem)
    assert not (watched_repository.folder / "snapshot").exists()


def test_a_folder_in_no_repository_is_told(watched_repository: WatchedRepository) -> None:
    shutil.rmtree(watched_repository.top / ".git")
    assert watched_repository.run(lambda: watched_repository.write("new.txt", "x")) == []
    assert watched_repository.known == Snapshot(
        problem=f"{watched_repository.top} is in no git work tree, so no snapshot was taken."
    )


def test_a_machine_without_git_is_told(watched_repository: WatchedRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(watched_repository.root / "nowhere"))
    assert watched_repository.run(lambda: watched_repository.write("new.txt", "x")) == []
    assert watched_repository.known == Snapshot(problem="There is no git program on PATH.")


def test_a_snapshot_that_takes_too_long_is_given_up_and_its_process_ended(
    watched_repository: WatchedRepository, slow_git: Path
) -> None:
    async def run() -> list[FileChanged]:
        changes = watched_repository.track(env={"INSPAN_SNAPSHOT": "0.5"})
        changes.begin()
        await wait_until_async(lambda: watched_repository.known.problem != "No snapshot was taken.")
        assert watched_repository.processes == []
        return await changes.finish()

    assert asyncio.run(run()) == []
    assert watched_repository.known == Snapshot(problem="A snapshot took longer than 0.5 s.")


@pytest.mark.parametrize("name", [".gitignore", "deep/er/.gitignore"])
def test_a_file_that_never_ends_does_not_hold_up_a_run(
    watched_repository: WatchedRepository, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("inspan.running.changes.PATIENCE_S", 0.2)
    pipe = watched_repository.write(f"{name}.d/file", "").parent.parent / ".gitignore"
    os.mkfifo(pipe)

    async def run() -> list[FileChanged]:
        changes = watched_repository.track(env={"INSPAN_SNAPSHOT": "86400"})
        changes.begin()
        return await changes.finish()

    assert asyncio.run(run()) == []
    assert watched_repository.processes == []
    problem = f"{pipe} is a pipe, which git would read without an end: delete it."
    assert watched_repository.known == Snapshot(problem=problem)


def test_a_run_that_is_over_before_its_first_snapshot_does_not_wait_for_it(
    watched_repository: WatchedRepository, slow_git: Path
) -> None:
    async def run() -> list[FileChanged]:
        changes = watched_repository.track(env={"INSPAN_SNAPSHOT": "86400"}, settle_s=0.01)
        changes.begin()
        await wait_until_async(lambda: started(slow_git))
        return await changes.finish()

    assert asyncio.run(run()) == []
    assert watched_repository.processes == []
    assert watched_repository.known == Snapshot(problem="The run was over before its first snapshot was complete.")


def test_a_second_snapshot_that_takes_too_long_leaves_the_first(
    watched_repository: WatchedRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = watched_repository.git("rev-parse", "HEAD").strip()

    async def run() -> list[FileChanged]:
        changes = watched_repository.track()
        changes.begin()
        await changes.end_first_snapshot()
        monkeypatch.setenv("PATH", wrap_git(watched_repository.root / "programs", SLEEPS))
        return await changes.finish(limit_s=0.2)

    assert asyncio.run(run()) == []
    assert watched_repository.processes == []
    assert watched_repository.known == Snapshot(
        top=str(watched_repository.top),
        git_inode=(watched_repository.top / ".git").stat().st_ino,
        head=head,
        before=watched_repository.known.before,
        before_at=watched_repository.known.before_at,
        problem="A snapshot took longer than 0.2 s.",
    )


@pytest.mark.usefixtures("slow_git")
def test_a_cancelled_owner_leaves_no_process(watched_repository: WatchedRepository) -> None:
    async def run() -> None:
        changes = watched_repository.track()
        changes.begin()
        await wait_until_async(lambda: bool(watched_repository.processes))

    asyncio.run(run())
    assert watched_repository.processes == []


def test_a_git_that_somebody_kills_is_a_sentence(watched_repository: WatchedRepository, slow_git: Path) -> None:
    async def run() -> list[FileChanged]:
        changes = watched_repository.track()
        changes.begin()
        for _ in range(4):  # Two tries with the copy of the index, two without it.
            await wait_until_async(lambda: bool(watched_repository.processes) and started(slow_git))
            (slow_git / "calls").unlink()  # The next try begins as soon as this one is dead.
            for pid in watched_repository.processes:
                os.kill(pid, 9)
        return await changes.finish()

    assert asyncio.run(run()) == []
    assert watched_repository.known == Snapshot(problem="`git write-tree` failed: it did not say why.")


@pytest.mark.parametrize("when", ["before", "between"])
def test_a_run_folder_that_is_gone_breaks_nothing(watched_repository: WatchedRepository, when: str) -> None:
    async def run() -> list[FileChanged]:
        changes = watched_repository.track()
        if when == "before":
            shutil.rmtree(watched_repository.folder)
        changes.begin()
        await changes.end_first_snapshot()
        shutil.rmtree(watched_repository.folder, ignore_errors=True)
        return await changes.finish()

    assert asyncio.run(run()) == []


def test_a_work_tree_that_the_run_deleted_is_a_sentence(watched_repository: WatchedRepository) -> None:
    assert watched_repository.run(lambda: shutil.rmtree(watched_repository.top)) == []
    assert "cannot change to" in watched_repository.known.problem


def test_nothing_stays_open(watched_repository: WatchedRepository) -> None:
    watched_repository.run(lambda: None)
    before = descriptors()
    watched_repository.run(lambda: watched_repository.write("new.txt", "x"))
    assert not descriptors() - before
