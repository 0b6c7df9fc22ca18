"""From the files of a work tree to a git tree: what git would add now, ignored files left out.

By plumbing alone: `git add` runs filters, hooks and, in each submodule, a git that reads the submodule's configuration.
What cannot be kept (large, unreadable, no file at all) has a line of text in its place that differs when the file does.
"""

import os
import stat
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence

from inspan.system.tree_walk import walk_tree

from .git import Git, SnapshotError, Steps, check_step, read_file, shorten_path, write_file
from .read_check import find_misread
from .repository import copy_file
from .run_folder import remove_file

LARGE_BYTES = 50 * 1024 * 1024
# All that one snapshot copies: files that are neither ignored nor in the repository, or differ from it.
KEPT_BYTES = 128 * 1024 * 1024
# A file in `scratch`, beside the index: together they are what the next snapshot starts from.
STAND_INS = "stand-ins"
STAND_IN_START = b"Not kept by inspan: "
_INNER, _UNREADABLE, _CHANGING = "a repository of its own", "not readable", "it was changed while it was read"
_LINKED_COMMIT = b"160000 "
_TRIES = 3
_NO_CONTENT = "neither file, link nor folder"
_YIELD_EVERY = 500
# What git says of a folder before it goes on without it, and the paths that it can open none at.
_UNOPENED = b"could not open directory"
_LONGEST_PATH = 4095
_LIST = ("ls-files", "-z", "--modified", "--deleted", "--others", "--exclude-standard")
_UPDATE = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
_REMOVE = ("update-index", "--force-remove", "-z", "--stdin")
_PLACE = ("update-index", "--add", "--replace", "-z", "--index-info")


class FileNotKept(SnapshotError):
    """A file that a whole snapshot cannot have."""


def tree_steps(
    git: Git, *, whole: bool = False, limit_bytes: int = sys.maxsize, known: Sequence[bytes] = ()
) -> Steps[str]:
    """Brings our index up to date with the work tree and gives the tree's id; raises `SnapshotError`.

    What somebody has taken into the repository is in it, too, though git would ignore it: `known` are such names.
    A `whole` tree has every file, as long as all that is copied has no more than `limit_bytes`; one that cannot be had
    raises `FileNotKept`. What holds nothing, such as a socket, is not in it.
    """
    try:
        return (yield from _write_tree(git, whole=whole, limit_bytes=limit_bytes, more=known))
    except SnapshotError:  # A file may have changed between two steps.
        return (yield from _write_tree(git, whole=whole, limit_bytes=limit_bytes, more=known))


def _write_tree(git: Git, *, whole: bool, limit_bytes: int, more: Sequence[bytes]) -> Steps[str]:
    listing = git.step(*_LIST, stdout="listed")
    yield from check_step(listing)
    if whole and _UNOPENED in read_file(listing.stderr):
        _refuse_unopened(git.top)
    names = list(dict.fromkeys((*filter(None, read_file(git.file("listed")).split(b"\0")), *more)))
    behind = _find_behind_links(os.fsencode(git.top), names)
    if behind:  # They are gone: a link is in the place of a folder. Git refuses to look at what is behind one.
        write_file(git.file("removed"), b"".join(name + b"\0" for name in behind))
        yield from check_step(git.step(*_REMOVE, stdin="removed"))
    limits = (limit_bytes, limit_bytes) if whole else (LARGE_BYTES, KEPT_BYTES)
    known = {} if whole else _read_stand_ins(git)
    updates, stand_ins = yield from _sort_paths(git, [name for name in names if name not in behind], known, *limits)
    if whole:
        _refuse_stand_ins(stand_ins, limit_bytes)
        stand_ins = {}
    if updates:
        changing = yield from _update_steps(git, updates)
        if whole:
            _refuse_stand_ins(changing, limit_bytes)
            yield from _refuse_left_out(git, updates)
        stand_ins |= changing
    index = (yield from _write_stand_ins(git, stand_ins)) if stand_ins else "index"
    yield from check_step(git.step("write-tree", "--missing-ok", stdout="tree", index=index))
    return read_file(git.file("tree")).decode().strip()


def _refuse_unopened(top: str) -> None:
    """Raises `FileNotKept` for what git has passed over without a word in its exit code: files so deep that no path
    leads to them, or in a folder that cannot be opened. Empty folders are in no tree."""

    def refuse(error: OSError) -> None:
        raise FileNotKept(f"{error.filename} cannot be saved: {_UNREADABLE}: {error.strerror}.")

    for each in walk_tree(top, on_error=refuse):
        if each.others and len(os.fsencode("/".join(each.names))) >= _LONGEST_PATH:
            name = shorten_path("/".join(each.names))
            raise FileNotKept(f"{name} cannot be saved: its folders are nested too deep for git. Delete them.")


def _find_behind_links(top: bytes, names: Iterable[bytes]) -> set[bytes]:
    """Those of the paths above which a link is in the place of a folder."""
    links: dict[bytes, bool] = {b"": False}

    def is_behind(folder: bytes) -> bool:
        if folder not in links:
            links[folder] = is_behind(os.path.dirname(folder)) or os.path.islink(os.path.join(top, folder))
        return links[folder]

    return {name for name in names if is_behind(os.path.dirname(name.rstrip(b"/")))}


def _update_steps(git: Git, names: Sequence[bytes]) -> Steps[dict[bytes, str]]:
    """Has git read these files; gives those that are another each time, with a text that stands in for them."""
    for _ in range(_TRIES):
        write_file(git.file("updates"), b"".join(name + b"\0" for name in names))
        yield from check_step(git.step(*_UPDATE, stdin="updates"))
        yield from check_step(git.step("ls-files", "--stage", "-z", stdout="staged"))
        names = yield from _misread_steps(git, set(names))
        if not names:
            break
        # Otherwise git would take what it has read for what is there: it has noted the times of the right file.
        write_file(git.file("removed"), b"".join(name + b"\0" for name in names))
        yield from check_step(git.step(*_REMOVE, stdin="removed"))
    return dict.fromkeys(names, _CHANGING)


def _misread_steps(git: Git, names: Collection[bytes]) -> Steps[list[bytes]]:
    read: dict[bytes, str] = {}
    for line in read_file(git.file("staged")).split(b"\0"):
        head, _, name = line.partition(b"\t")
        if name in names and not head.startswith(_LINKED_COMMIT):
            read[name] = head.split(b" ")[1].decode()
    misread: list[bytes] = []
    for number, name in enumerate(find_misread(git.top, read)):
        if name is not None:
            misread.append(name)
        elif number % _YIELD_EVERY == 0:
            yield None
    return misread


def _refuse_stand_ins(stand_ins: Mapping[bytes, str], limit_bytes: int) -> None:
    refused = {name: text for name, text in stand_ins.items() if text != _NO_CONTENT}
    if refused:
        name = min(refused)
        is_large = not refused[name].startswith((_INNER, _UNREADABLE, _CHANGING))
        reason = f"with it, more than {limit_bytes} bytes would be copied" if is_large else refused[name]
        more = f" And {len(refused) - 1} more." if len(refused) > 1 else ""
        raise FileNotKept(f"{shorten_path(os.fsdecode(name))} cannot be saved: {reason}.{more}")


def _refuse_left_out(git: Git, names: Iterable[bytes]) -> Steps[None]:
    """Git says nothing of names that it never takes in, such as `.GIT`, or a link called `.gitmodules`."""
    yield from check_step(git.step("ls-files", "-z", stdout="listed"))
    taken = set(read_file(git.file("listed")).split(b"\0"))
    for name in names:
        if name not in taken and os.path.lexists(os.path.join(os.fsencode(git.top), name)):
            raise FileNotKept(
                f"{shorten_path(os.fsdecode(name))} cannot be saved: git takes in nothing of that name. Rename it."
            )


def _sort_paths(
    git: Git, names: Iterable[bytes], known: Mapping[bytes, str], large_bytes: int, kept_bytes: int
) -> Steps[tuple[list[bytes], dict[bytes, str]]]:
    """The paths that git shall look at, and those that a text stands in for; `known` ones did so the last time."""
    top = os.fsencode(git.top)
    updates: list[bytes] = []
    files: list[tuple[int, bytes, str]] = []
    stand_ins: dict[bytes, str] = {}
    for number, name in enumerate(names):
        if number % _YIELD_EVERY == 0:
            yield None
        size_bytes, version, obstacle = _inspect_file(os.path.join(top, name))
        if obstacle:
            stand_ins[name.rstrip(b"/")] = obstacle
        elif size_bytes == 0:
            updates.append(name)
        elif size_bytes > large_bytes or known.get(name) == version:
            stand_ins[name] = version
        else:
            files.append((size_bytes, name, version))
    total_bytes = 0
    for size_bytes, name, version in sorted(files):
        total_bytes += size_bytes
        if total_bytes > kept_bytes:
            stand_ins[name] = version
        else:
            updates.append(name)
    return updates, stand_ins


def _read_stand_ins(git: Git) -> dict[bytes, str]:
    """What stood in for files in the snapshot before: a file that is the same must not seem to have changed."""
    if not os.path.exists(git.file(STAND_INS)):
        return {}
    words = read_file(git.file(STAND_INS)).split(b"\0")
    return {name: text.decode() for name, text in zip(words[::2], words[1::2], strict=False)}


def _inspect_file(path: bytes) -> tuple[int, str, str]:
    """The size of what is there, a text that tells its version, and why its content cannot be had."""
    if path.endswith(b"/"):
        return 0, "", _INNER
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return 0, "", ""
    except OSError as error:
        return 0, "", f"{_UNREADABLE}: {error.strerror}"
    if stat.S_ISREG(found.st_mode):
        obstacle = "" if os.access(path, os.R_OK) else _UNREADABLE
        return found.st_size, f"{found.st_size} bytes, last written at {found.st_mtime_ns} ns", obstacle
    return 0, "", "" if stat.S_ISLNK(found.st_mode) or stat.S_ISDIR(found.st_mode) else _NO_CONTENT


def _write_stand_ins(git: Git, texts: dict[bytes, str]) -> Steps[str]:
    """Puts texts in the place of files, in a second index: the first must go on telling git what is new."""
    write_file(git.file(STAND_INS), b"".join(b"%b\0%b\0" % (name, text.encode()) for name, text in texts.items()))
    files = [git.file(f"text-{number}") for number in range(len(texts))]
    for number, (file, text) in enumerate(zip(files, texts.values(), strict=True)):
        if number % _YIELD_EVERY == 0:
            yield None
        write_file(file, STAND_IN_START + f"{text}\n".encode())
    write_file(git.file("texts"), os.fsencode("".join(f"{file}\n" for file in files)))
    yield from check_step(
        git.step("hash-object", "-w", "--no-filters", "--stdin-paths", stdin="texts", stdout="objects")
    )
    placed = zip(read_file(git.file("objects")).split(), texts, strict=True)
    write_file(git.file("placed"), b"".join(b"100644 %b\t%b\0" % place for place in placed))
    remove_file(git.file("full-index"))
    copy_file(git.file("index"), git.file("full-index"))
    yield from check_step(git.step(*_PLACE, stdin="placed", index="full-index"))
    return "full-index"
