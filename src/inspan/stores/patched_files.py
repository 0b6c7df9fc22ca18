"""What a patch makes of the files of a commit, whatever lies in a work tree."""

import os

from .file_versions import Version, checkout_steps
from .git import Git, Steps, check_step, read_file, run_steps, write_file
from .repository import Repository, fill_git_dir, make_git_folders
from .snapshot import parse_pairs
from .snapshot_steps import read_settings_steps

_LIMIT_S = 120.0
_APPLY = ("apply", "--cached", "--whitespace=nowarn")
_COMPARE = ("diff-index", "--cached", "-z", "--raw", "--no-abbrev", "--no-renames")


def write_patched_files(common: str, commit: str, patch: str, *, folder: str) -> dict[str, str]:
    """Writes the files that a patch changes, as it makes them, into `folder`; gives for each path where it lies there,
    empty where the patch deletes it. Raises `SnapshotError` where it does not fit the commit, or `OSError`.

    The repository, whose git data is in `common`, is only read: none of its objects tells what the patch holds.
    """
    git = Git(git_dir=os.path.join(folder, "git"), top=os.path.join(folder, "files"), run_id="")
    make_git_folders(git)
    os.makedirs(git.top)
    versions = run_steps(_write_steps(git, common, commit, patch), limit_s=_LIMIT_S)
    return {path: "" if each.is_absent else os.path.join(git.top, path) for path, each in versions.items()}


def _write_steps(git: Git, common: str, commit: str, patch: str) -> Steps[dict[str, Version]]:
    settings = yield from read_settings_steps(git, common)
    ours = Repository(top=git.top, git_dir=git.git_dir, common=common)
    fill_git_dir(git, ours, settings=settings, hidden=())
    # Git takes a last line without an end for a damaged one.
    write_file(git.file("patch"), f"{patch}\n".encode(errors="surrogatepass"))
    yield from check_step(git.step("read-tree", commit))
    yield from check_step(git.step(*_APPLY, git.file("patch")))
    yield from check_step(git.step(*_COMPARE, commit, stdout="pairs"))
    pairs = parse_pairs(read_file(git.file("pairs")), errors="surrogateescape")
    versions = {pair.path: Version(pair.modes[1], pair.objects[1]) for pair in pairs}
    yield from checkout_steps(git, versions)
    return versions
