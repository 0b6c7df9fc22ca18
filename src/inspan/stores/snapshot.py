"""What a run's two snapshots are known to be, and the difference between them.

A snapshot is a git tree of the whole work tree in `snapshot/` of the run folder; `snapshot.json` beside it says which.
"""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import IO, NamedTuple, cast

import msgspec

from inspan.protocol.events import Change
from inspan.protocol.known_types import know_type
from inspan.protocol.wire import DECODE_ERRORS
from inspan.system.atomic_file import replace_file
from inspan.system.paths import is_within

from .git import Git, SnapshotError, failure_message, os_error_message, read_file

NOT_TAKEN = "No snapshot was taken."
_CHUNK_BYTES = 64 * 1024
_COMPARE = ("diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none")
RAW_DIFF = (*_COMPARE, "-t", "-z", "--raw", "--no-abbrev", "--no-renames")
_FOLDER_MODE = "040000"
_CHANGES: dict[str, Change] = {"A": "added", "D": "deleted", "M": "modified", "T": "modified"}


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ids of the trees before and after a run, and when each was complete; or the sentence why one is missing.

    `checkout` is the user's own work tree, of a run that had a worktree for itself: its changes are brought in there.
    By `git_inode` and `head`, the commit that was checked out, another repository at its path is told from it.
    """

    top: str = ""
    checkout: str = ""
    git_inode: int = 0
    head: str = ""
    before: str = ""
    after: str = ""
    before_at: float = 0.0
    after_at: float = 0.0
    problem: str = ""


class ChangedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that differs; its path is relative to the top of the work tree."""

    path: str
    change: Change


class VersionPair(NamedTuple):
    """Two versions of a path, be it a file or a folder."""

    modes: tuple[str, str]
    objects: tuple[str, str]
    letter: str
    path: str


def load_snapshot(folder: str) -> Snapshot:
    """What a run folder says of its snapshots."""
    try:
        return msgspec.json.decode(read_file(os.path.join(folder, "snapshot.json")), type=know_type(Snapshot))
    except FileNotFoundError:
        return Snapshot(problem=NOT_TAKEN)
    except (OSError, *DECODE_ERRORS) as error:
        return Snapshot(problem=f"snapshot.json cannot be read: {error}.")


def save_snapshot(folder: str, snapshot: Snapshot) -> None:
    """Writes it whole or not at all; raises `StateUnusable` or `OSError`."""
    path = os.path.join(folder, "snapshot.json")
    replace_file(path, msgspec.json.encode(snapshot) + b"\n")


def build_git(folder: str, *, top: str, scratch: str = "owner") -> Git:
    """Git as the snapshots of a run folder use it; only what its owner starts is marked as the run's."""
    run_id = os.path.basename(folder) if scratch == "owner" else ""
    return Git(git_dir=os.path.join(folder, "snapshot"), top=top, run_id=run_id, scratch=scratch)


def changes_between(folder: str, *, now: str = "", paths: Sequence[str] = ()) -> list[ChangedFile]:
    """The files that differ between two snapshots, or between the first and the tree `now`; raises `SnapshotError`."""
    return list_changed_files(parse_pairs(b"".join(_run_diff(folder, RAW_DIFF, now, paths))))


def patch_between(
    folder: str,
    *,
    now: str = "",
    stat: bool = False,
    names: bool = False,
    binary: bool = False,
    paths: Sequence[str] = (),
) -> Iterator[bytes]:
    """That difference in git's words: a patch, a summary by file, or names alone; raises `SnapshotError` while it is
    read.

    `paths` are git's patterns, relative to the current folder if it is in the work tree, else to the top of that.
    `binary` gives the contents of binary files too, for `git apply`.
    """
    shape = ("--stat=100", "-M") if stat else ("--name-only", "--no-renames") if names else ("--patch", "-M")
    return _run_diff(folder, (*_COMPARE, *shape, *(["--binary"] if binary else [])), now, paths)


def list_pairs(folder: str, *, paths: Sequence[str] = ()) -> list[VersionPair]:
    """The files that differ between the two snapshots, with the versions of each and their names as the system has
    them; raises `SnapshotError`."""
    raw = b"".join(_run_diff(folder, RAW_DIFF, "", paths))
    return [pair for pair in parse_pairs(raw, errors="surrogateescape") if _FOLDER_MODE not in pair.modes]


def count_lines(folder: str, *, paths: Sequence[str] = ()) -> dict[str, tuple[int, int]]:
    """How many lines each of these files gained and lost, binary files left out; raises `SnapshotError`."""
    raw = b"".join(_run_diff(folder, (*_COMPARE, "-z", "--numstat", "--no-renames"), "", paths))
    rows = [row.split("\t", 2) for row in os.fsdecode(raw).split("\0") if row]
    return {path: (int(gained), int(lost)) for gained, lost, path in rows if gained != "-"}


def parse_pairs(raw: bytes, *, errors: str = "backslashreplace") -> list[VersionPair]:
    """Reads what `RAW_DIFF` prints: `:MODE MODE OBJECT OBJECT LETTER`, NUL, path, NUL."""
    words = raw.decode(errors=errors).split("\0")
    pairs: list[VersionPair] = []
    for head, path in zip(words[::2], words[1::2], strict=False):
        mode, new_mode, name, new_name, letter = head.removeprefix(":").split(" ")
        pairs.append(VersionPair((mode, new_mode), (name, new_name), letter, path))
    return pairs


def list_changed_files(pairs: Sequence[VersionPair]) -> list[ChangedFile]:
    """The files among them."""
    return [
        ChangedFile(path=pair.path, change=_CHANGES[pair.letter]) for pair in pairs if _FOLDER_MODE not in pair.modes
    ]


def _run_diff(folder: str, arguments: Sequence[str], now: str, paths: Sequence[str]) -> Iterator[bytes]:
    import subprocess  # Start-up time: only whoever asks for a comparison reads from a pipe.
    from tempfile import TemporaryFile

    snapshot = load_snapshot(folder)
    after = now or snapshot.after
    if snapshot.before == after:
        return
    git = build_git(folder, top=_find_current_top(snapshot), scratch="reader")
    git = _use_current_folder(git)
    _check_paths(paths, git)
    with TemporaryFile() as told:
        try:
            step = git.step(*arguments, snapshot.before, after, "--", *paths)
            process = subprocess.Popen(
                step.argv, env=step.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=told
            )
        except OSError as error:
            raise SnapshotError(os_error_message(error)) from error
        with process:
            yield from iter(partial(cast(IO[bytes], process.stdout).read, _CHUNK_BYTES), b"")
        if process.returncode:
            told.seek(0)
            raise SnapshotError(failure_message(step.argv, told.read()))


def _check_paths(paths: Sequence[str], git: Git) -> None:
    """Raises `SnapshotError` for what git would refuse in words about its own arguments."""
    if "" in paths:
        raise SnapshotError("An empty path names no file.")
    for path in paths:
        place = os.path.normpath(os.path.join(git.here or git.top, path))
        tops = (os.path.normpath(git.top), os.path.realpath(git.top))
        if not path.startswith(":") and not any(
            is_within(each, top) for each in (place, os.path.realpath(place)) for top in tops
        ):
            raise SnapshotError(f"{path} is outside of the work tree {git.top}.")


def _find_current_top(snapshot: Snapshot) -> str:
    """The work tree that paths are relative to: the user's own, for somebody who stands there or where there is no
    other any more."""
    if not snapshot.checkout or not os.path.isdir(snapshot.checkout):
        return snapshot.top
    inside = _use_current_folder(Git(git_dir="", top=snapshot.checkout, run_id="")).here
    return snapshot.checkout if inside or not os.path.isdir(snapshot.top) else snapshot.top


def _use_current_folder(git: Git) -> Git:
    """With the current folder as the one that paths are relative to, where it is in the work tree."""
    if not os.path.isdir(git.top):
        return msgspec.structs.replace(git, top=git.git_dir)
    try:
        here, top = os.path.realpath(os.getcwd()), os.path.realpath(git.top)
    except FileNotFoundError:
        return git
    return msgspec.structs.replace(git, here=here) if f"{here}/".startswith(f"{top}/") else git
