"""What a box must hold though somebody outside of it does something at the same time, or has left something open."""

import hashlib
import os
import subprocess
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from inspan.contracts.sandbox import Box, GitFolders
from inspan.errors import SandboxUnusable
from inspan.protocol.plan import SeenGit
from inspan.sandboxes.bwrap import view
from inspan.stores import nested_repositories
from inspan.stores.git_notes import note_git
from inspan.stores.git_settings import read_git_sources
from inspan.stores.git_traces import disarm_git
from inspan.stores.nested_repositories import find_nested_repositories
from inspan.stores.repository import Repository, find_repository, is_own_git_data
from inspan.transports.process import Spawned, spawn

if TYPE_CHECKING:
    from inspan.system.entry import Setup

_FILTER_ONLY: "Setup" = {"groups": [], "isolated": False, "ports": [], "filter": b"x" * 8, "scoped": False}


def _read_all(started: Spawned) -> str:
    os.set_blocking(started.stdout, True)
    with open(started.stdout, encoding="utf-8") as file:
        text = file.read()
    os.waitpid(started.pid, 0)
    os.close(started.stderr)
    return text


@pytest.mark.parametrize("setup", [None, _FILTER_ONLY], ids=["none", "by a shell"])
def test_a_descriptor_that_the_program_left_open_for_children_stays_with_it(setup: "Setup | None") -> None:
    leads_out = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    os.set_inheritable(leads_out, True)
    try:
        argv = ["/bin/sh", "-c", "ls -l /proc/self/fd"]
        listed = _read_all(spawn(argv, {"PATH": os.defpath}, stdin=b"", liveness_pipe=False, setup=setup))
    finally:
        os.close(leads_out)
    numbers = {line.split()[8]: line.split()[-1] for line in listed.splitlines() if "->" in line}
    assert "/" not in numbers.values(), listed
    assert str(leads_out) not in numbers


class _VanishingEntry:
    """An entry of a folder that is gone when its mode is asked for."""

    path, name = "/etc/gone", "gone"

    def is_symlink(self) -> bool:
        return False

    def is_dir(self, *, follow_symlinks: bool) -> bool:
        return False

    def stat(self, *, follow_symlinks: bool) -> os.stat_result:
        raise FileNotFoundError(2, "No such file or directory")


def test_a_file_that_vanishes_meanwhile_does_not_uncover_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shadow").write_text("secret")
    (tmp_path / "shadow").chmod(0o600)
    (tmp_path / "public").write_text("x")
    (tmp_path / "public").chmod(0o644)
    scandir = os.scandir

    @contextmanager
    def look(folder: str) -> Generator[Iterator[object]]:
        with scandir(folder) as entries:
            yield iter([_VanishingEntry(), *entries])

    monkeypatch.setattr(view.os, "scandir", look)
    found = view._list_private(str(tmp_path), moment=-1)  # pyright: ignore[reportPrivateUsage]
    assert found == (str(tmp_path / "shadow"),)


def _git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def _make_data(folder: Path, *, head: str = "HEAD") -> None:
    for name in ("refs", "objects"):
        (folder / name).mkdir(parents=True)
    (folder / head).write_text("ref: refs/heads/none\n")
    (folder / "config").write_text(f"{_VERSION}\n\tfsmonitor = ./evil\n")


_VERSION = "[core]\n\trepositoryformatversion = 0"


def test_folders_without_number_do_not_hide_a_repository_from_its_protection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run could make them, so that the next one protects nothing."""
    monkeypatch.setattr(nested_repositories, "_MOST_FOLDERS", 10)
    (tmp_path / "app").mkdir()
    _git(tmp_path / "app", "init", "-q")
    for number in range(9):
        (tmp_path / f"{number}").mkdir()
    assert [each.top for each in find_nested_repositories(str(tmp_path)).found] == [str(tmp_path / "app")]
    (tmp_path / "more").mkdir()
    with pytest.raises(SandboxUnusable, match="more than 10 folders") as refused:
        find_nested_repositories(str(tmp_path))
    assert "--read FOLDER" in refused.value.next_step


def test_repositories_without_number_are_refused_unless_they_are_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nested_repositories, "_MOST_NESTED", 2)
    for name in ("app", "vendor/one", "vendor/two"):
        (tmp_path / name).mkdir(parents=True)
        _git(tmp_path / name, "init", "-q")
    with pytest.raises(SandboxUnusable, match="more than 2 git repositories") as refused:
        find_nested_repositories(str(tmp_path))
    assert "--read FOLDER" in refused.value.next_step
    found = find_nested_repositories(str(tmp_path), besides=[str(tmp_path / "vendor")])
    assert [each.top for each in found.found] == [str(tmp_path / "app")]


@pytest.mark.parametrize(
    ("place", "most_deeper", "is_found"),
    [
        ("1/2/3/4/5/r", 10, True),
        ("1/2/3/4/5/r", 2, False),
        ("1/node_modules/r", 10, True),
        ("1/node_modules/3/r", 10, False),
    ],
)
def test_the_start_looks_for_repositories_as_deep_as_it_can_in_a_short_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, most_deeper: int, is_found: bool
) -> None:
    monkeypatch.setattr(nested_repositories, "_MOST_DEEPER", most_deeper)
    (tmp_path / place).mkdir(parents=True)
    _git(tmp_path / place, "init", "-q")
    assert bool(find_nested_repositories(str(tmp_path)).found) == is_found


def test_what_git_would_run_is_told_of_in_every_repository_however_deep_it_lies(tmp_path: Path) -> None:
    old, deep, own, bare = (tmp_path / name for name in ("old", "1/2/3/node_modules/r", "sub/x", "sub/bare"))
    for folder in (old, deep, own):
        folder.mkdir(parents=True)
        _git(folder, "init", "-q")
    _git(tmp_path, "init", "-q", "--bare", str(bare))
    _git(deep, "config", "core.hooksPath", "husky")
    (old / ".git/hooks/pre-push").write_text("")
    (old / ".git/hooks/pre-push").chmod(0o755)
    assert disarm_git([str(tmp_path)], since=time.time() + 10) == []
    since, seen = _begin(tmp_path), _note(tmp_path)
    for folder in (own / ".git", bare):
        _git(tmp_path, f"--git-dir={folder}", "config", "core.fsmonitor", "./evil")
    (own / ".git/refs/heads/hooks").mkdir()
    hooks = [own / ".git/hooks/pre-commit", deep / ".git/hooks/post-checkout", deep / "husky/pre-push"]
    for path in (*hooks, deep / "husky/notes", own / ".git/refs/heads/hooks/x"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("evil")
        path.chmod(0o644 if path.name == "notes" else 0o755)
    told = sorted(disarm_git([str(tmp_path)], since=since, seen=seen))
    # Of one that the start does not find, all is new if something was made in the folders around it.
    settings = (own / ".git/config", bare / "config", deep / ".git/config")
    assert [text.partition(" was changed in the run")[0] for text in told] == sorted(map(str, (*hooks, *settings)))
    assert sum("core.fsmonitor" in text for text in told) == 2


def test_a_repository_without_a_work_tree_whose_head_is_a_link_to_no_branch_yet_is_one(tmp_path: Path) -> None:
    """As git made it in former times, and takes it today: what its settings name is run."""
    data = tmp_path / "work/data"
    for name in ("refs", "objects"):
        (data / name).mkdir(parents=True)
    (data / "HEAD").symlink_to("refs/heads/none")
    assert [each.top for each in find_nested_repositories(str(tmp_path / "work")).found] == [str(data)]
    mark = tmp_path / "mark"
    (data / "config").write_text(f'{_VERSION}\n\tworktree = .\n\tfsmonitor = "touch {mark}; false"\n')
    _git(data, "status")
    assert mark.exists(), "git takes it"
    told = disarm_git([str(tmp_path / "work")], since=time.time())
    assert any(each.startswith(f"{data}/config was changed") and "core.fsmonitor" in each for each in told), told


def test_git_data_is_found_wherever_git_finds_it(tmp_path: Path) -> None:
    """Also where its objects are a file, and behind a link with `..` after it."""
    mark, work = tmp_path / "mark", tmp_path / "work"
    (work / "links/far/deep").mkdir(parents=True)
    (work / "link").symlink_to("links/far/deep")
    for folder in (work / "file/.git", work / "links/far/data"):
        (folder / "refs").mkdir(parents=True)
        (folder / "objects").touch()
        (folder / "objects").chmod(0o755)
        (folder / "HEAD").write_text("ref: refs/heads/none\n")
        (folder / "config").write_text(f'{_VERSION}\n\tfsmonitor = "touch {mark}; false"\n')
    (work / "pointer").mkdir()
    (work / "pointer/.git").write_text("gitdir: ../link/../data\n")
    for name in ("file", "pointer"):
        _git(work / name, "status")
        assert mark.exists(), f"git takes {name}"
        mark.unlink()
        assert any("core.fsmonitor" in each for each in disarm_git([str(work / name)], since=time.time())), name


def test_a_repository_inside_is_told_of_whatever_else_its_entry_in_the_index_says(tmp_path: Path) -> None:
    """git takes for one what has its type, though it writes no other mode than one."""
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},inner")
    index = tmp_path / ".git/index"
    content = index.read_bytes()[:-20].replace(b"\0\0\xe0\0", b"\0\0\xe1\xa4")
    index.write_bytes(content + hashlib.sha1(content, usedforsecurity=False).digest())
    mark = tmp_path / "mark"
    _make_data(tmp_path / "inner/.git")
    (tmp_path / "inner/.git/config").write_text(f'{_VERSION}\n\tfsmonitor = "touch {mark}; false"\n')
    _git(tmp_path, "status")
    assert mark.exists(), "git takes it"
    since, seen = _begin(tmp_path), _note(tmp_path)
    assert seen.inner == (), "an index of one's own says 160000"
    told = disarm_git([str(tmp_path)], since=since, seen=seen)
    assert [each.partition(" into")[0] for each in told] == [f"The run has put the repository {tmp_path}/inner"]


def test_a_repository_that_the_index_had_at_the_start_is_not_told_of(tmp_path: Path) -> None:
    _git(tmp_path, "init", "-q")
    _make_data(tmp_path / "inner/.git")
    _make_data(tmp_path / "other/.git")
    _git(tmp_path, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},inner")
    since, seen = _begin(tmp_path), _note(tmp_path)
    (tmp_path / "inner/new").touch()
    assert disarm_git([str(tmp_path)], since=since, seen=seen) == []
    (tmp_path / "inner").rename(tmp_path / "away")
    (tmp_path / "other").rename(tmp_path / "inner")
    told = disarm_git([str(tmp_path)], since=since, seen=seen)
    assert any(f"has put the repository {tmp_path}/inner into this one" in each for each in told)
    assert any(each.startswith(f"{tmp_path}/inner/.git/config was changed") for each in told)


def test_an_index_that_git_cannot_read_is_told_of(tmp_path: Path) -> None:
    _git(tmp_path, "init", "-q")
    (tmp_path / ".git/index").write_bytes(b"DIRC and no more")
    (told,) = disarm_git([str(tmp_path)], since=time.time(), seen=_note(tmp_path))
    assert told.startswith(f"Whether the run has put repositories into {tmp_path} is not known (")


def test_a_folder_that_has_become_git_data_itself_is_told_of_as_new(tmp_path: Path) -> None:
    work, tree = tmp_path / "work", tmp_path / "tree"
    _make_data(work)
    (work / "objects").rmdir()
    _make_data(tree / "one", head="H")
    _make_data(tree / "two", head="H")
    (tree / "top").mkdir()
    (tree / "top/.git").symlink_to("../one")
    since = _begin(tmp_path)
    seen = {folder: _note(folder) for folder in (work, tree)}
    (work / "objects").mkdir()
    (tree / "two/H").rename(tree / "two/HEAD")
    (tree / "top/.git").unlink()
    (tree / "top/.git").symlink_to("../two")
    for folder, data in ((work, work), (tree, tree / "top/.git"), (tree, tree / "two")):
        told = disarm_git([str(folder)], since=since, seen=seen[folder])
        assert any(each.startswith(f"{data}/config was changed") for each in told), data


def test_a_folder_of_former_times_that_was_moved_into_git_data_is_new_there(tmp_path: Path) -> None:
    """Links go from where all were noted; where one may be the user's own, it stays, and is told of."""
    work, own = tmp_path / "work", tmp_path / "work/tests/own"
    _git(tmp_path, "init", "-q", str(work))
    _git(tmp_path, "init", "-q", "--bare", str(own))
    for name in ("links", "others", "programs"):
        (work / name).mkdir()
        (work / name / "link").symlink_to("/elsewhere")
    (work / "programs/pre-push").write_text("evil")
    (work / "programs/pre-push").chmod(0o755)
    since, seen = _begin(tmp_path), _note(work)
    (own / "hooks").rename(own / "hooks2")
    (work / "programs").rename(own / "hooks")
    (work / "links").rename(work / ".git/refs/links")
    (work / "others").rename(own / "refs/others")
    told = disarm_git([str(work)], since=since, seen=seen)
    assert sorted(each.partition(" in ")[0].partition(" to ")[0] for each in told) == [
        f"{work}/.git/refs/links/link was made a link",
        f"{own}/hooks/link is a link",
        f"{own}/hooks/pre-push was changed",
        f"{own}/refs/others/link is a link",
    ]
    links = (work / ".git/refs/links/link", own / "hooks/link", own / "refs/others/link")
    assert [os.path.islink(each) for each in links] == [False, True, True]


def test_objects_of_another_repository_that_a_run_has_let_git_show_are_told_of(tmp_path: Path) -> None:
    other, work = tmp_path / "other", tmp_path / "work"
    for folder in (other, work):
        _git(tmp_path, "init", "-q", str(folder))
        _git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x")
    objects = work / ".git/objects"
    (objects / "old").symlink_to(other)
    since, seen = _begin(tmp_path), _note(work)
    (objects / "info/http-alternates").touch()
    assert disarm_git([str(work)], since=since, seen=seen) == []
    (objects / "info/alternates").write_text(f"{other}/.git/objects\n")
    for name in ("pack2", "info/link"):
        (objects / name).symlink_to(other / ".git/objects/pack")
    told = disarm_git([str(work)], since=since, seen=seen)
    assert sorted(text.partition(" was ")[0] for text in told) == [
        f"{objects}/{name}" for name in ("info/alternates", "info/link", "pack2")
    ]
    assert [name for name in ("old", "pack2", "info/link") if os.path.lexists(objects / name)] == ["old"]


def test_hooks_that_a_shell_reads_for_husky_are_told_of(tmp_path: Path) -> None:
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "config", "core.hooksPath", "web/.husky/_")
    (tmp_path / "web/.husky/_").mkdir(parents=True)
    since = _begin(tmp_path)
    for name in ("pre-commit", "_/h", "more/notes"):
        path = tmp_path / "web/.husky" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("evil")
    told = [text.partition(" was changed in the run")[0] for text in disarm_git([str(tmp_path)], since=since)]
    assert sorted(told) == [str(tmp_path / "web/.husky" / name) for name in ("_/h", "pre-commit")]


_COMMANDS: dict[str, dict[str, list[str]]] = {
    "core.fsmonitor": {"./a/watch --x b/c": ["a/watch"], "true": []},
    "core.sshCommand": {"A=1 exec ./t/ssh -F ./t/conf": ["t/ssh"], "sh -c 'cd x/y && ./z/run' - q/r": ["z/run"]},
    "filter.own.clean": {"python3 -u tools/own.py %f > o/p": ["tools/own.py"], "sed s/a/b/": [], "./$X/y ./a*": []},
    "alias.go": {"!f() { ./n/one; n/two c/d | bash n/three; }; f": ["n/one", "n/three", "n/two"], "log a/b": []},
    "remote.origin.url": {"https://example.org/a/b": [], "../a/b": []},
}


@pytest.mark.parametrize("key", _COMMANDS)
def test_of_what_is_not_there_only_what_a_command_would_start_is_named(tmp_path: Path, key: str) -> None:
    _git(tmp_path, "init", "-q")
    for value, wanted in _COMMANDS[key].items():
        _git(tmp_path, "config", key, value)
        repository = Repository(top=str(tmp_path), git_dir=str(tmp_path / ".git"), common=str(tmp_path / ".git"))
        found = [os.path.relpath(path, tmp_path) for path in read_git_sources(repository).files]
        assert sorted(name for name in found if not name.startswith((".git/", ".."))) == wanted, value


def test_a_work_tree_that_was_led_to_other_git_data_is_told_of(tmp_path: Path) -> None:
    data, tree = tmp_path / "data", tmp_path / "folder/tree"
    tree.mkdir(parents=True)
    _git(tmp_path, "init", "-q", "--bare", str(data))
    (tree / ".git").write_text(f"gitdir: {data}\n")
    (told,) = disarm_git([str(tmp_path / "folder")], since=time.time())
    assert told.startswith(f"{tree}/.git was made in the run to name the git data {data}, which does not name {tree}")


def test_a_link_in_git_data_is_removed_where_it_lies_whatever_comes_in_the_place_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _git(tmp_path, "init", "-q", str(tmp_path / "folder"))
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/main").write_text("of somebody else")
    heads, readlink = tmp_path / "folder/.git/refs/heads", os.readlink
    (heads / "main").symlink_to("/elsewhere")

    def flip(*arguments: Any, **named: Any) -> str:
        target = readlink(*arguments, **named)
        heads.rename(heads.with_name("moved"))
        heads.symlink_to(tmp_path / "outside")
        return target

    monkeypatch.setattr(os, "readlink", flip)
    assert any("/elsewhere" in each for each in disarm_git([str(tmp_path / "folder")], since=time.time()))
    assert (tmp_path / "outside/main").exists()
    assert not os.path.lexists(heads.with_name("moved") / "main")


def test_folders_that_nobody_has_looked_at_are_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nested_repositories, "_MOST_FOLDERS", 3)
    for number in range(4):
        (tmp_path / f"{number}").mkdir()
    (told,) = disarm_git([str(tmp_path)], since=time.time())
    assert told == f"{tmp_path} holds too many folders: nobody has looked for git repositories in all of them."
    since = _begin(tmp_path)
    kept = [str(tmp_path / "0"), str(tmp_path / "1")]
    assert disarm_git([str(tmp_path)], since=since, besides=kept) == []


def test_a_read_only_folder_that_was_moved_away_is_looked_at(tmp_path: Path) -> None:
    """Its own files cannot be written; in its place another can be put."""
    data = tmp_path / "group" / "data"
    data.mkdir(parents=True)
    since = _begin(tmp_path)
    (tmp_path / "group").rename(tmp_path / "moved")
    data.mkdir(parents=True)
    _git(data, "init", "-q")
    _git(data, "config", "core.fsmonitor", "./evil")
    (told,) = disarm_git([str(tmp_path)], since=since, besides=[str(data)])
    assert told.startswith(f"{data}/.git/config was changed in the run")


def test_settings_that_wait_for_ever_are_asked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inspan.stores.git_settings._LONGEST_S", 0.5)
    for name in ("one", "two"):
        _git(tmp_path, "init", "-q", name)
        (tmp_path / name / ".git" / "config").unlink()
        os.mkfifo(tmp_path / name / ".git" / "config")
    (told,) = disarm_git([str(tmp_path)], since=time.time())
    assert "git cannot read its settings" in told


def _note(folder: Path) -> SeenGit:
    """What a box there starts with."""
    nested = find_nested_repositories(str(folder))
    outer = find_repository(str(folder))
    found = (*([outer] if outer else []), *nested.found)
    protected = tuple(GitFolders(top=each.top, git_dir=each.git_dir, common=each.common) for each in found)
    return note_git(
        Box(cwd=str(folder), repositories=protected, git_data=tuple(each.common for each in nested.unprotected))
    )


def _begin(folder: Path) -> float:
    """A time that is later than all files there are, and not than those to come: file systems have a slow clock."""
    probe = folder.parent / f"{folder.name}.probe"
    probe.touch()
    before = probe.stat().st_ctime
    while (now := probe.stat().st_ctime) <= before:
        probe.touch()
    return now + 2  # As much earlier is what counts as the run's.


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("remote.origin.url", False),
        ("core.fsmonitor", True),
        ("filter.x.clean", True),
        ("include.path", True),
        ("alias.st", True),
    ],
)
def test_settings_that_were_replaced_during_a_run_are_told_of_where_they_name_programs(
    tmp_path: Path, key: str, told: bool
) -> None:
    _git(tmp_path, "init", "-q")
    since = time.time() + 10
    assert disarm_git([str(tmp_path)], since=since) == []
    _git(tmp_path, "config", key, "x")
    problems = disarm_git([str(tmp_path)], since=time.time())
    assert bool(problems) == told, problems
    if told:
        name = f"{key.split('.')[0]}.{key.split('.')[-1]}"
        assert f"{tmp_path}/.git/config was changed in the run, or from outside" in problems[0] and name in problems[0]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('[user][core]fsmonitor = "x"', "names core.fsmonitor:"),
        ('\ufeff[core]fsmonitor = "x"', "names core.fsmonitor:"),
        ('[core]\n\teol = lf\\\n[branch]\n\tfsmonitor = "x"', "names core.fsmonitor:"),
        ("[core]\n\tfsmonitor\n", "names core.fsmonitor:"),
        ('[include "x"]\n[include]\n\tpath = elsewhere\n', "names include.path:"),
        ('[branch "x"]\n\tremote = "a\\n[core]\\nfsmonitor"\n', ""),
        ("[core\n", "names what cannot be read (bad config line 1 in file"),
        ("\n" * 1024 * 1024 + "[core]fsmonitor = x", "names what cannot be read (more than 1048576 bytes)"),
        ("".join(f"[a{each}]\nb\n" for each in range(30)), "a19.b, 10 more:"),
    ],
)
def test_settings_are_read_as_git_reads_them(tmp_path: Path, text: str, wanted: str) -> None:
    _git(tmp_path, "init", "-q")
    (tmp_path / ".git/config").write_text(text, encoding="utf-8")
    told = [each for each in disarm_git([str(tmp_path)], since=time.time()) if "/.git/config was" in each]
    assert [wanted in each for each in told] == [True] * bool(wanted), told


@pytest.mark.parametrize(
    "text",
    [
        "[core]\n\tbare = false\n\tworktree = ../a\n\tworktree = ../../sub dir\n",
        '[user][core]worktree = "../../sub dir"',
        "[core]\n\tworktree = ../../sub \\\ndir ; a comment\n[core]\n",
        '\ufeff[CORE]\nWorkTree=../../"sub dir"',
        '[core]\n\tworktree = ../../sub dir\n[core "x"]\n\tworktree = no\n[branch "]"]\n\tworktree = no\n',
    ],
)
def test_the_work_tree_that_settings_name_is_the_one_that_git_reads(tmp_path: Path, text: str) -> None:
    data, tree = tmp_path / "group/data", tmp_path / "sub dir"
    tree.mkdir()
    _git(tmp_path, "init", "-q", "--bare", str(data))
    (data / "config").write_text(text, encoding="utf-8")
    (tree / ".git").write_text(f"gitdir: {data}\n")
    assert is_own_git_data(Repository(top=str(tree), git_dir=str(data), common=str(data)))
