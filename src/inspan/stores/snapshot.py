"""What a run's two snapshots are known to be, and the difference between them.

A snapshot is a git tree of the whole work tree in `snapshot/` of the run folder; `snapshot.json` beside it says which.
"""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import IO, NamedTuple, cast

import msgspec

from inspan.protocol.events import Change
from inspan.protocol.wire import UNREADABLE

from .folder import write_text
from .git import Git, NoSnapshot, complaint, read, refused

NOT_TAKEN = "No snapshot was taken."
_CHUNK_BYTES = 64 * 1024
_COMPARE = ("diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none")
RAW = (*_COMPARE, "-t", "-z", "--raw", "--no-abbrev", "--no-renames")
_FOLDER = "040000"
_CHANGES: dict[str, Change] = {"A": "added", "D": "deleted", "M": "modified", "T": "modified"}


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ids of the trees before and after a run, and when each was complete; or the sentence why one is missing."""

    top: str = ""
    before: str = ""
    after: str = ""
    before_at: float = 0.0
    after_at: float = 0.0
    problem: str = ""


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """A file that differs; its path is relative to the top of the work tree."""

    path: str
    change: Change


class Pair(NamedTuple):
    """Two versions of a path, be it a file or a folder."""

    modes: tuple[str, str]
    objects: tuple[str, str]
    letter: str
    path: str


def load(folder: str) -> Snapshot:
    """What a run folder says of its snapshots."""
    try:
        return msgspec.json.decode(read(os.path.join(folder, "snapshot.json")), type=Snapshot)
    except FileNotFoundError:
        return Snapshot(problem=NOT_TAKEN)
    except (OSError, *UNREADABLE) as error:
        return Snapshot(problem=f"snapshot.json cannot be read: {error}.")


def save(folder: str, snapshot: Snapshot) -> None:
    """Writes it whole or not at all; raises `StateUnusable` or `OSError`."""
    path = os.path.join(folder, "snapshot.json")
    write_text(f"{path}.draft", msgspec.json.encode(snapshot).decode() + "\n")
    os.rename(f"{path}.draft", path)


def git_of(folder: str, *, top: str, desk: str = "owner") -> Git:
    """Git as the snapshots of a run folder use it; only what its owner starts is marked as the run's."""
    run_id = os.path.basename(folder) if desk == "owner" else ""
    return Git(git_dir=os.path.join(folder, "snapshot"), top=top, run_id=run_id, desk=desk)


def changes_between(folder: str, *, now: str = "", paths: Sequence[str] = ()) -> list[Changed]:
    """The files that differ between a run's snapshots, or between the first and the tree `now`; raises `NoSnapshot`."""
    return files_of(read_pairs(b"".join(_compared(folder, RAW, now, paths))))


def patch_between(
    folder: str,
    *,
    now: str = "",
    stat: bool = False,
    names: bool = False,
    binary: bool = False,
    paths: Sequence[str] = (),
) -> Iterator[bytes]:
    """That difference in git's words: a patch, a summary by file, or names alone; raises `NoSnapshot` while it is read.

    `paths` are git's patterns, relative to the current folder if it is in the work tree, else to the top of that.
    `binary` gives the contents of binary files too, for `git apply`.
    """
    shape = ("--stat=100", "-M") if stat else ("--name-only", "--no-renames") if names else ("--patch", "-M")
    return _compared(folder, (*_COMPARE, *shape, *(["--binary"] if binary else [])), now, paths)


def read_pairs(raw: bytes) -> list[Pair]:
    """Reads what `RAW` prints: `:MODE MODE OBJECT OBJECT LETTER`, NUL, path, NUL."""
    words = raw.decode(errors="backslashreplace").split("\0")
    pairs: list[Pair] = []
    for head, path in zip(words[::2], words[1::2], strict=False):
        mode, new_mode, name, new_name, letter = head.removeprefix(":").split(" ")
        pairs.append(Pair((mode, new_mode), (name, new_name), letter, path))
    return pairs


def files_of(pairs: Sequence[Pair]) -> list[Changed]:
    """The files among them."""
    return [Changed(path=pair.path, change=_CHANGES[pair.letter]) for pair in pairs if _FOLDER not in pair.modes]


def _compared(folder: str, arguments: Sequence[str], now: str, paths: Sequence[str]) -> Iterator[bytes]:
    import subprocess  # Start-up time: only whoever asks for a comparison reads from a pipe.
    from tempfile import TemporaryFile

    snapshot = load(folder)
    after = now or snapshot.after
    if snapshot.before == after:
        return
    git = _seen_from_here(git_of(folder, top=snapshot.top, desk="reader"))
    step = git.step(*arguments, snapshot.before, after, "--", *paths)
    with TemporaryFile() as told:
        try:
            process = subprocess.Popen(
                step.argv, env=step.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=told
            )
        except OSError as error:
            raise NoSnapshot(refused(error)) from error
        with process:
            yield from iter(partial(cast(IO[bytes], process.stdout).read, _CHUNK_BYTES), b"")
        if process.returncode:
            told.seek(0)
            raise NoSnapshot(complaint(step.argv, told.read()))


def _seen_from_here(git: Git) -> Git:
    """With the current folder as the one that paths are relative to, where it is in the work tree."""
    if not os.path.isdir(git.top):
        return msgspec.structs.replace(git, top=git.git_dir)
    try:
        here, top = os.path.realpath(os.getcwd()), os.path.realpath(git.top)
    except FileNotFoundError:
        return git
    return msgspec.structs.replace(git, here=here) if f"{here}/".startswith(f"{top}/") else git
