"""What one run lays out and the next one puts where git runs it: told at the end, however old its files are."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli_env import CliEnv, wait_until
from tests.running.fake_agent import Fake, fake_agent_env, run_fake_agent
from tests.sandboxes.inside import ACTS

pytestmark = pytest.mark.usefixtures("bubblewrap")

_GIT = "git -c user.name=a -c user.email=a@example.org"
_MARGIN_S = 2.5  # What was written this long before a run began is certainly not of it.


def _run(command: str, *, cwd: Path) -> None:
    subprocess.run(["sh", "-ec", command], cwd=cwd, check=True, capture_output=True)


def _run_boxed(cli_env: CliEnv, fake: Fake, *commands: str, sandbox: str = "bwrap", cwd: str = ".") -> list[str]:
    """Runs shell commands in a box, and gives what the run has told of at its end."""
    before = set(_list_logs(cli_env))
    prompt = json.dumps({command: f"shell({command!r})" for command in commands})
    env = fake_agent_env(fake, ACTS)
    code, _, stderr = run_fake_agent(cli_env, env, "--sandbox", sandbox, "-C", cwd, prompt=prompt)
    assert code == 0, stderr
    (log,) = set(_list_logs(cli_env)) - before
    events = [json.loads(line)["event"] for line in log.read_bytes().splitlines()]
    said = [json.loads(event["text"]) for event in events if event["kind"] == "text_said"]
    assert said == [{command: 0} for command in commands]
    return [event["message"] for event in events if event["kind"] == "error_reported"]


def _list_logs(cli_env: CliEnv) -> list[Path]:
    return list(cli_env.state.glob("projects/*/*/runs/*/events.jsonl"))


def _let_age(path: Path) -> None:
    wait_until(lambda: time.time() > path.lstat().st_ctime + _MARGIN_S, "a time that is not that of the files")


# Makes git data in a folder: its HEAD by a name, its settings with a work tree.
_DATA = r"""
data() {
    mkdir -p $1/refs $1/objects && echo 'ref: refs/heads/none' > $1/$2
    printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n' > $1/config
    printf '\tfsmonitor = "touch %s; false"\n' "$mark" >> $1/config
    [ -z "$3" ] || printf '\tworktree = %s\n' "$3" >> $1/config
}
"""
# By name: what the first run does, what the second does, what the host does, and what must be told.
_PLANS = {
    "put into the index": (
        "data d H ../prep && mkdir prep && echo 'gitdir: ../d' > prep/.git",
        f"mv d/H d/HEAD && git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),prep && {_GIT} commit -qm x",
        "git status",
        ("d/config was changed", "/prep into this one"),
    ),
    "shared by a folder that becomes git data": (
        "data e H && mkdir c q && mv e/H c && echo ../e > c/commondir && echo 'gitdir: ../c' > q/.git",
        "mv c/H c/HEAD",
        "git -C q status",
        ("e/config was changed",),
    ),
    "hooks of former times": (
        "mkdir -p tools/gh && cd tools/gh && echo '#!/bin/sh' > post-checkout && chmod +x post-checkout && "
        'echo "touch $mark" >> post-checkout',
        f"git init -q s && rm -rf s/.git/hooks && {_GIT} -C s commit -q --allow-empty -m x && mv tools/gh s/.git/hooks",
        "git -C s checkout -qb other",
        ("s/.git/hooks/post-checkout was changed",),
    ),
    "git data of former times": (
        "data prep2 H && mkdir m",
        "mv prep2/H prep2/HEAD && mv prep2 m/.git",
        "git -C m status",
        ("m/.git/config was changed",),
    ),
    "a folder around it": (
        "data old/data H && mkdir deep && echo 'gitdir: ../../moved/data' > old/.git",
        "mkdir moved && mv old/data moved && mv moved/data/H moved/data/HEAD && mv old deep/new",
        "git -C deep/new status",
        ("moved/data/config was changed",),
    ),
    "git data among the objects": (
        "mkdir x",
        "data .git/objects/evil HEAD $PWD/x && echo 'gitdir: ../.git/objects/evil' > x/.git",
        "git -C x status",
        (".git/objects/evil/config was changed",),
    ),
}


def test_what_two_runs_leave_between_them_is_told(cli_env: CliEnv, fake: Fake) -> None:
    work, marks = cli_env.work, cli_env.root / "marks"
    marks.mkdir()
    _run(f"git init -q && {_GIT} commit -q --allow-empty -m one", cwd=work)
    first, second = (
        [f"mark={marks / str(number)}{_DATA}{plan[step]}" for number, plan in enumerate(_PLANS.values())]
        for step in (0, 1)
    )
    assert _run_boxed(cli_env, fake, *first) == []
    _let_age(work / "m")
    told = _run_boxed(cli_env, fake, *second)
    for number, (name, plan) in enumerate(_PLANS.items()):
        _run(plan[2], cwd=work)
        assert (marks / str(number)).exists(), f"git runs it: {name}"
        for text in plan[3]:
            assert any(text in each for each in told), (name, told)


def test_what_was_there_before_is_not_told_of_whatever_is_made_around_it(cli_env: CliEnv, fake: Fake) -> None:
    """Hooks and settings of the repository, of a submodule, a linked worktree, others inside and a project's own."""
    work, other = cli_env.work, cli_env.root / "other"
    other.mkdir()
    for folder in (work, other):
        _run(f"git init -q && {_GIT} commit -q --allow-empty -m one", cwd=folder)
    allow = "-c protocol.file.allow=always"
    _run(f"{_GIT} {allow} submodule add -q {other} sub && git worktree add -q lib/linked", cwd=work)
    _run(f"git worktree add -q {work}/lib/outside && git init -q {work}/nested/inner", cwd=other)
    _run(f"git init -q --bare tests/fixtures/bare && git add tests && {_GIT} commit -qm two", cwd=work)
    data = (".git", ".git/modules/sub", "nested/inner/.git", "tests/fixtures/bare", str(other / ".git"))
    for each in data:
        _run(
            f"git config -f {each}/config core.fsmonitor ./tools/watch && cp /bin/true {each}/hooks/pre-commit",
            cwd=work,
        )
    _run("mkdir -p tools web/.husky/_ && cp /bin/true tools/watch && cp /bin/true web/.husky/_/pre-push", cwd=work)
    _run("git config -f nested/inner/.git/config core.hooksPath ../../web/.husky/_", cwd=work)
    _let_age(work / "nested/inner/.git/config")
    touched = "touch new && git add new && git -c core.fsmonitor= -c core.hooksPath=/dev/null"
    commit = f"{touched} -c user.name=a -c user.email=a@b commit -qm new"
    told = _run_boxed(
        cli_env,
        fake,
        commit,
        f"cd nested/inner && {commit}",
        "for each in . tools lib lib/linked lib/outside nested web tests tests/fixtures; do touch $each/more; done",
        "touch tests/fixtures/bare/more tests/fixtures/bare/objects/more && git repack -dq",
    )
    assert told == []


@pytest.mark.parametrize(("sandbox", "cwd"), [("bwrap", "part"), ("worktree+bwrap", ".")])
def test_git_data_outside_of_the_folder_that_is_worked_in_is_looked_through(
    cli_env: CliEnv, fake: Fake, sandbox: str, cwd: str
) -> None:
    work, mark = cli_env.work, cli_env.root / "mark"
    (work / "part").mkdir()
    _run(f"git init -q && echo > part/f && git add . && {_GIT} commit -q -m one", cwd=work)
    where = "at=$(git rev-parse --path-format=absolute --git-common-dir)/objects/evil"
    plant = f'{where} mark={mark}{_DATA}data $at HEAD $PWD/x && mkdir x && echo "gitdir: $at" > x/.git'
    told = _run_boxed(cli_env, fake, plant, sandbox=sandbox, cwd=cwd)
    assert (work / ".git/objects/evil/config").exists()
    assert any(f"{work}/.git/objects/evil/config was changed" in each for each in told), told


def test_a_link_of_the_users_own_in_git_data_stays(cli_env: CliEnv, fake: Fake) -> None:
    """However short before the run it was made; what the run puts in its place, or brings there, does not."""
    work = cli_env.work
    _run(f"git init -q && {_GIT} commit -q --allow-empty -m one && mkdir -p prep && ln -s /of/old prep/link", cwd=work)
    _let_age(work / "prep/link")
    links = [work / ".git" / name for name in ("ORIG_HEAD", "refs/heads/mine", "logs/refs/mine", "objects/pack/mine")]
    for link in (*links, work / ".git/replaced"):
        link.symlink_to("/of/mine")
    told = _run_boxed(cli_env, fake, "ln -sfn /of/run .git/replaced && mv prep .git/refs/heads/prep")
    assert all(map(os.path.islink, links))
    assert [each.partition(", by which")[0] for each in sorted(told)] == [
        f"{work}/.git/refs/heads/prep/link was made a link to /of/old in the run, or from outside meanwhile",
        f"{work}/.git/replaced was made a link to /of/run in the run, or from outside meanwhile",
    ]
    assert not os.path.lexists(work / ".git/refs/heads/prep/link")
