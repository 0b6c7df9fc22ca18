"""What commands say of worktrees that go, whether alone or with their runs: what is saved of them, and what is not."""

from collections.abc import Sequence

from inspan.cli.output import shorten_home
from inspan.runs.worktrees import WorktreeEntry


def format_changes(entry: WorktreeEntry) -> str:
    """What differs in a worktree from the commit that it began as, in a few words."""
    counts = (
        (entry.changes.files, "file", "files"),
        (entry.changes.commits, "commit", "commits"),
        (entry.changes.unreachable, "commit on no branch", "commits on no branch"),
        (entry.changes.ignored, "ignored", "ignored"),
    )
    words = [f"{count} {one if count == 1 else many}" for count, one, many in counts if count]
    words += [f"{entry.changes.operation} not finished"] if entry.changes.operation else []
    return ", ".join(words) or "-"


def count_ignored(entries: Sequence[WorktreeEntry]) -> str:
    """What git ignores in them, in words; empty where there is nothing."""
    count = sum(each.changes.ignored for each in entries)
    if count == 1:
        return "1 ignored file or folder"
    return f"{count} ignored files and folders" if count else ""


def count_worktrees(entries: Sequence[WorktreeEntry]) -> str:
    """How many worktrees they are, in words."""
    return "1 worktree" if len(entries) == 1 else f"{len(entries)} worktrees"


def describe_loss(entries: Sequence[WorktreeEntry]) -> list[str]:
    """What becomes of what is in them when they are removed, for the question before that."""
    ignored = count_ignored(entries)
    return ["uncommitted work is saved", *([f"{ignored} deleted"] if ignored else [])]


def describe_removal(entry: WorktreeEntry, salvage: str, *, forget: bool = False, dry_run: bool = False) -> str:
    """What was done with a worktree, or would be; with what was saved of it comes the way to have it again."""
    was_removed = entry.state == "saved" and not forget
    if dry_run and not was_removed:
        return f"{entry.run} would be removed: {shorten_home(entry.worktree.path)} ({format_changes(entry)})"
    words = f"{entry.run} was removed already" if was_removed else f"{entry.run} removed"
    if salvage and not forget:
        patch = shorten_home(entry.worktree.patch)
        words += f"; saved as {entry.worktree.salvage_ref} and {patch}: `inspan worktrees restore {entry.run}`"
    if entry.changes.commits and entry.worktree.branch:
        words += f"; branch {entry.worktree.branch} has its commits"
    if entry.changes.ignored:
        words += f"; {count_ignored([entry])} deleted"
    return words
