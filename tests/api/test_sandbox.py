"""A sandbox as an object: every kind keeps the same promises, and a run can work in one that is open."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from math import inf, nan
from pathlib import Path
from typing import Any, cast

import anyio
import msgspec
import pytest
import uvloop

import inspan
from inspan import AgentSandbox
from inspan.containment.control_groups import create_groups, remove_groups
from inspan.contracts.sandbox import ExecResult
from inspan.errors import BadInput, RunBusy, SandboxUnusable, UndoRefused, WorktreeUnusable
from inspan.protocol.events import RunStarted
from inspan.protocol.limits import Limits
from inspan.runs.worktrees import list_worktrees, remove_entry
from inspan.stores import checkpoints, git_tree
from inspan.stores.paths import state_home
from inspan.testing.sandboxes import check_sandbox
from tests.cli_env import processes_of, wait_until
from tests.podman import IMAGE, Podman

from .run_env import RunEnv, descriptors

pytestmark = [pytest.mark.usefixtures("bubblewrap"), pytest.mark.anyio]

Kind = Callable[..., AgentSandbox]
_IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@example.org")
_BEAT = "echo $JRUN_ID > draft; mv draft started; while :; do echo x >> beat; sleep 0.05; done"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def _build_kind(name: str, request: pytest.FixtureRequest) -> Kind:
    run_env: RunEnv = request.getfixturevalue("run_env")
    usual: dict[str, object] = {"cwd": run_env.work}
    if name == "podman":
        podman: Podman = request.getfixturevalue("podman")
        monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
        monkeypatch.setenv("PATH", f"{podman.path}:{os.environ['PATH']}")
        usual["image"] = IMAGE
    if name.startswith("worktree"):
        _make_repository(run_env.work)

    def open_one(**options: object) -> AgentSandbox:
        return inspan.open_sandbox(name, **{**usual, **options})  # pyright: ignore[reportArgumentType]  a test's own

    return open_one


def _make_repository(folder: Path) -> None:
    (folder / "kept.txt").write_text("first\n")
    for words in (["init", "-q"], ["add", "."], [*_IDENTITY, "commit", "-qm", "first"]):
        _git(folder, *words)


@pytest.fixture(params=["none", "bwrap", "podman"])
def kind(request: pytest.FixtureRequest) -> Kind:
    return _build_kind(request.param, request)


@pytest.fixture(params=["bwrap", "podman"])
def boundary(request: pytest.FixtureRequest) -> Kind:
    return _build_kind(request.param, request)


@pytest.fixture
def bwrap(request: pytest.FixtureRequest) -> Kind:
    return _build_kind("bwrap", request)


async def test_every_kind_keeps_what_the_contract_promises(kind: Kind, run_env: RunEnv) -> None:
    await check_sandbox(kind, outside=str(run_env.root))


async def test_the_conformance_check_finds_a_sandbox_that_leaves_processes_behind(run_env: RunEnv) -> None:
    leaky = _Leaky(
        "none", cwd=run_env.work, net="", read=(), image="", env={}, limits=Limits(), output_limit_bytes=2**20
    )
    with pytest.raises(AssertionError, match="was still there afterwards"):
        await check_sandbox(lambda: leaky, outside=str(run_env.root))
    leaky.leak.kill()
    leaky.leak.wait()


async def test_a_secret_of_the_caller_is_not_passed_on(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-secret-of-the-caller")
    monkeypatch.setenv("UNRELATED", "not needed")
    async with kind(env={"GIVEN": "to all"}) as box:
        shown = (await box.exec(["env"], env={"HERE": "alone"})).stdout.decode().splitlines()
        again = (await box.exec(["env"])).stdout.decode().splitlines()
    names = {line.partition("=")[0] for line in shown}
    assert not names & {"OPENAI_API_KEY", "UNRELATED"}
    assert {"GIVEN=to all", "HERE=alone"} <= set(shown)
    assert "HERE=alone" not in again


@pytest.mark.parametrize("name", ["worktree", "worktree+bwrap"])
async def test_a_worktree_as_a_sandbox_keeps_what_the_contract_promises(
    name: str, request: pytest.FixtureRequest, run_env: RunEnv
) -> None:
    await check_sandbox(_build_kind(name, request), outside=str(run_env.root), has_own_folder=True)


@pytest.mark.parametrize("name", ["worktree", "worktree+bwrap"])
async def test_a_worktree_as_a_sandbox_is_saved_and_removed_when_it_is_torn_down(
    name: str, request: pytest.FixtureRequest, run_env: RunEnv
) -> None:
    state = state_home(os.environ)
    async with _build_kind(name, request)() as box:
        place = box.work_dir
        await box.upload({"new.txt": "uncommitted\n"})
        done = await box.exec(["sh", "-c", f"echo second > kept.txt && git {' '.join(_IDENTITY)} commit -qam second"])
        assert done.exit_code == 0, done.stderr
        (open_one,) = list_worktrees(state)
        assert (open_one.state, open_one.worktree.path) == ("in use", place)
        with pytest.raises(RunBusy, match="a sandbox open"):
            remove_entry(state, open_one)
        assert (run_env.work / "kept.txt").read_text() == "first\n"
    (saved,) = list_worktrees(state)
    assert not os.path.exists(place) and saved.state == "saved"
    assert _git(run_env.work, "show", f"{saved.worktree.branch}:kept.txt") == "second\n"
    assert _git(run_env.work, "show", f"{saved.worktree.salvage}:new.txt") == "uncommitted\n"
    assert not os.listdir(os.path.join(state, "boxes"))


async def test_a_worktree_in_which_nothing_was_done_leaves_nothing(
    request: pytest.FixtureRequest, run_env: RunEnv
) -> None:
    kind = _build_kind("worktree", request)
    async with kind() as box, kind() as other:
        assert box.work_dir != other.work_dir
    assert not list(run_env.root.rglob("worktrees/*/*")) and _git(run_env.work, "branch", "--list", "inspan/*") == ""


async def test_a_run_works_in_a_worktree_that_is_open(request: pytest.FixtureRequest, run_env: RunEnv) -> None:
    """It changes nothing, and the worktree stays for what comes next."""
    scenario = run_env.scenario('[[call]]\nsay = "Fine."\n')
    async with _build_kind("worktree+bwrap", request)() as box:
        runner = inspan.create_agent_runner("scripted", sandbox=box, model_from=scenario)
        result = await runner.exec("do nothing")
        assert result.ok, result.error
        assert (await box.exec(["cat", "kept.txt"])).stdout == b"first\n"
    started = run_env.events()[0]
    assert isinstance(started, RunStarted)
    assert (started.sandbox, started.cwd) == ("bwrap", box.work_dir)


async def test_a_worktree_that_cannot_be_made_leaves_nothing(run_env: RunEnv) -> None:
    with pytest.raises(BadInput, match="is in no git repository"):
        await inspan.open_sandbox("worktree", cwd=run_env.work).open()
    _git(run_env.work, "init", "-q")
    with pytest.raises(WorktreeUnusable, match="no commit"):
        await inspan.open_sandbox("worktree", cwd=run_env.work).open()
    state = state_home(os.environ)
    assert not list_worktrees(state) and not os.listdir(os.path.join(state, "boxes"))
    assert not [name for _, _, names in os.walk(os.path.join(state, "worktrees")) for name in names]


@pytest.mark.parametrize("name", ["none", "bwrap"])  # In a container a command is process 1, which cannot kill itself.
async def test_a_command_that_was_killed_says_by_what(name: str, request: pytest.FixtureRequest) -> None:
    async with _build_kind(name, request)() as box:
        done = await box.exec(["sh", "-c", "kill -9 $$"])
    assert (done.exit_code, done.timed_out) == (137, False)


async def test_output_over_the_limit_keeps_both_ends_and_says_so(kind: Kind) -> None:
    async with kind(output_limit_bytes=1000) as box:
        done = await box.exec(["sh", "-c", "echo first; head -c 5000000 /dev/zero; echo last"])
    assert done.stdout.startswith(b"first\n")
    assert done.stdout.endswith(b"last\n")
    assert done.dropped_bytes == 5_000_000 + 11 - 1000
    assert f"[inspan: {done.dropped_bytes} bytes left out]".encode() in done.stdout


async def test_a_container_that_is_killed_is_removed(request: pytest.FixtureRequest, podman: Podman) -> None:
    async with _build_kind("podman", request)() as box:
        done = await box.exec(["sleep", "600"], timeout_s=3)
    assert (done.timed_out, podman.list_containers()) == (True, [])


async def test_a_container_needs_an_image_that_is_there(request: pytest.FixtureRequest) -> None:
    open_one = _build_kind("podman", request)
    for image, words in (("", "needs an image"), ("localhost/nothing:1", "cannot be used")):
        with pytest.raises(inspan.InspanError, match=words):
            async with open_one(image=image):
                pass


async def test_a_cancelled_call_leaves_nothing(kind: Kind, run_env: RunEnv) -> None:
    async with kind() as box:
        before = descriptors()
        calling = asyncio.create_task(box.exec(["sh", "-c", _BEAT]))
        await _wait_for(run_env.work / "beat")
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await _expect_no_growth(run_env.work / "beat")
        assert descriptors() == before


async def test_a_cancel_scope_of_anyio_leaves_nothing(kind: Kind, run_env: RunEnv) -> None:
    async with kind() as box, anyio.create_task_group() as group:
        group.start_soon(lambda: box.exec(["sh", "-c", _BEAT]))
        await _wait_for(run_env.work / "beat")
        group.cancel_scope.cancel()
    await _expect_no_growth(run_env.work / "beat")


def test_it_works_under_uvloop(kind: Kind) -> None:
    async def use() -> ExecResult:
        async with kind() as box:
            return await box.exec(["cat"], stdin=b"through")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(use()).stdout == b"through"


async def test_commands_run_at_the_same_time(kind: Kind) -> None:
    async with kind() as box:
        # The first one waits for what only the second one writes.
        waiting = asyncio.create_task(box.exec(["sh", "-c", "until [ -e go ]; do sleep 0.02; done"]))
        await box.exec(["touch", "go"])
        assert (await waiting).exit_code == 0


async def test_the_loop_turns_between_commands_that_are_started_at_once(
    bwrap: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn, started = 0, list[int]()
    spawn = os.posix_spawn

    def note_turn(*arguments: Any, **options: Any) -> int:
        started.append(turn)
        return spawn(*arguments, **options)

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async with bwrap() as box:
        monkeypatch.setattr(os, "posix_spawn", note_turn)
        counting = asyncio.create_task(count_turns())
        large = b"x" * 3_000_000
        done = await asyncio.gather(*(box.exec(["wc", "-c"], stdin=large) for _ in range(4)))
        counting.cancel()
    assert [each.stdout for each in done] == [b"3000000\n"] * 4
    assert len(set(started)) == 4, started


async def test_a_teardown_ends_what_still_runs(kind: Kind, run_env: RunEnv) -> None:
    async with kind() as box:
        calling = asyncio.create_task(box.exec(["sh", "-c", _BEAT]))
        await _wait_for(run_env.work / "beat")
        await box.teardown()
        with pytest.raises(SandboxUnusable, match="is not open"):
            await calling
    await _expect_no_growth(run_env.work / "beat")


async def test_a_command_dies_with_the_program_that_started_it(run_env: RunEnv) -> None:
    script = f"""
import asyncio, inspan
async def main():
    async with inspan.open_sandbox("bwrap", cwd={str(run_env.work)!r}) as box:
        await box.exec(["sh", "-c", {_BEAT!r}])
asyncio.run(main())
"""
    program = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    try:
        await _wait_for(run_env.work / "beat")
    finally:
        program.kill()
        await program.wait()
    run_id = (run_env.work / "started").read_text().strip()
    await asyncio.to_thread(wait_until, lambda: not processes_of(run_id), "end of the command")


async def test_a_machine_without_bubblewrap_uses_the_one_that_an_agent_brings(
    run_env: RunEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run_env.root / "bin"
    folder.mkdir()
    (folder / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(folder))
    async with inspan.open_sandbox("bwrap", cwd=run_env.work) as box:
        assert (await box.exec(["/bin/true"])).exit_code == 0


async def test_a_box_sees_neither_the_home_nor_the_rest(boundary: Kind, run_env: RunEnv) -> None:
    (run_env.root / "home" / "key").write_text("secret")
    (run_env.root / "shown").write_text("seen")
    async with boundary(read=[run_env.root / "shown"]) as box:
        assert (await box.exec(["cat", str(run_env.root / "home" / "key")])).exit_code == 1
        assert (await box.exec(["cat", str(run_env.root / "shown")])).stdout == b"seen"
        assert (await box.exec(["touch", str(run_env.root / "shown")])).exit_code == 1


async def test_a_program_that_git_would_run_cannot_be_made_and_leaves_nothing(run_env: RunEnv, bwrap: Kind) -> None:
    _git(run_env.work, "init", "-q")
    _git(run_env.work, "config", "core.fsmonitor", "./tools/watch")
    async with bwrap() as box:
        made = await box.exec(["sh", "-c", "mkdir -p tools; echo evil > tools/watch"])
        assert made.exit_code and (run_env.work / "tools/watch").read_text() == ""
    assert not (run_env.work / "tools").exists()


@pytest.fixture
def web_server() -> Iterator[int]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", "5")
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, format: str, *args: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


# What a program does that minds its proxy variables; there are none where the network is open.
_FETCH = """
at=$2 line="GET / HTTP/1.1"
if [ -n "$http_proxy" ]; then at=${http_proxy##*:} line="GET http://$1:$2/ HTTP/1.1"; fi
if ! (exec 3<>/dev/tcp/127.0.0.1/$at) 2>/dev/null; then echo refused; exit; fi
exec 3<>/dev/tcp/127.0.0.1/$at
printf '%s\\r\\nhost: %s\\r\\n\\r\\n' "$line" "$1" >&3
read -r _ status _ <&3
echo $status
"""


@pytest.mark.parametrize(
    ("net", "answer", "refused"),
    [
        ("", "refused", False),
        ("none", "refused", False),
        ("open", "200", False),
        ("allow=127.0.0.1:{port}", "200", False),
        ("allow=other.example", "403", True),
    ],
)
async def test_a_command_reaches_what_its_network_allows(
    boundary: Kind, web_server: int, net: str, answer: str, refused: bool
) -> None:
    async with boundary(net=net.format(port=web_server)) as box:
        done = await box.exec(["bash", "-c", _FETCH, "fetch", "127.0.0.1", str(web_server)])
    assert done.stdout.decode().strip() == answer, done.stderr
    assert done.refused_hosts == ((f"127.0.0.1:{web_server}",) if refused else ())


def _can_limit() -> bool:
    with suppress(SandboxUnusable):
        remove_groups(create_groups(f"probe-{os.getpid()}", Limits(memory_bytes=2**27, pids=10)))
        return True
    return False


async def test_limits_hold_for_commands_or_the_sandbox_is_refused(kind: Kind) -> None:
    if not _can_limit():
        with pytest.raises(SandboxUnusable, match=r"limit|control groups"):
            async with kind(memory=2**27):
                pass
        return
    async with kind(memory=2**27, pids=50) as box:
        done = await box.exec(["sh", "-c", "head -c 500000000 /dev/zero | tail"])
        small = await box.exec(["true"])
    assert (done.exit_code != 0, done.out_of_memory) == (True, True)
    assert (small.exit_code, small.out_of_memory) == (0, False)


async def test_a_restore_leaves_index_and_head_alone(kind: Kind, run_env: RunEnv) -> None:
    _git(run_env.work, "init", "-q")
    (run_env.work / "tracked").write_text("one\n")
    (run_env.work / ".gitignore").write_text("ignored\n")
    _git(run_env.work, "add", ".")
    _git(run_env.work, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first")
    async with kind() as box:
        first = await box.snapshot()
        await box.exec(["sh", "-c", "echo two > tracked; echo kept > ignored; echo new > other; chmod +x other"])
        second = await box.snapshot()
        index = (run_env.work / ".git" / "index").read_bytes()
        await box.restore(first)
        assert (run_env.work / "tracked").read_text() == "one\n"
        assert (run_env.work / "ignored").read_text() == "kept\n"
        assert not (run_env.work / "other").exists()
        await box.restore(second)
        assert os.access(run_env.work / "other", os.X_OK)
    assert (run_env.work / ".git" / "index").read_bytes() == index
    assert _git(run_env.work, "log", "--oneline").count("\n") == 1


async def test_a_restore_in_a_part_of_a_repository_touches_no_other_part(run_env: RunEnv) -> None:
    _git(run_env.root, "init", "-q")
    async with inspan.open_sandbox("none", cwd=run_env.work) as box:
        (run_env.work / "mine").write_text("one")
        first = await box.snapshot()
        (run_env.work / "mine").write_text("two")
        (run_env.root / "beside").write_text("new")
        await box.restore(first)
    assert (run_env.work / "mine").read_text() == "one"
    assert (run_env.root / "beside").read_text() == "new"


@pytest.mark.parametrize("linked", [False, True], ids=["repository", "worktree"])
async def test_in_a_part_of_a_repository_git_knows_the_rest_of_it(
    boundary: Kind, run_env: RunEnv, linked: bool
) -> None:
    """What is not there counts as deleted, and `git commit -a` deletes it."""
    top = run_env.work
    for name in ("part/mine", "rest/other"):
        (top / name).parent.mkdir()
        (top / name).write_text("one\n")
    _make_repository(top)
    if linked:
        _git(top, "worktree", "add", "-q", str(top := run_env.root / "linked"))
    commit = ["git", *_IDENTITY, "commit", "-qam", "two"]
    async with boundary(cwd=top / "part") as box:
        assert (await box.exec(["git", "status", "--short"])).stdout == b""
        await box.exec(["sh", "-c", "echo two > mine"])
        done = await box.exec(commit)
        assert done.exit_code == 0, done
        refused = await box.exec(["sh", "-c", "echo two > ../rest/other"])
        assert (refused.exit_code == 0, (top / "rest/other").read_text()) == (False, "one\n")
    assert _git(top, "show", "--name-only", "--format=", "HEAD").split() == ["part/mine"]
    assert _git(top, "status", "--short") == ""


async def test_of_a_repository_that_is_a_whole_home_a_part_shows_nothing(bwrap: Kind, run_env: RunEnv) -> None:
    home = Path(os.environ["HOME"])
    (home / "part").mkdir()
    (home / "secret").write_text("of mine")
    _make_repository(home)
    async with bwrap(cwd=home / "part") as box:
        looked = await box.exec(["sh", "-c", "git status; cat ../secret"])
    assert (looked.exit_code == 0, looked.stdout) == (False, b"")
    assert b"not a git repository" in looked.stderr
    assert _git(home, "status", "--short") == ""


async def test_a_large_file_is_kept_and_one_that_came_later_goes(
    run_env: RunEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_tree, "LARGE_BYTES", 1000)
    async with inspan.open_sandbox("none", cwd=run_env.work) as box:
        (run_env.work / "large").write_text("x" * 2000)
        first = await box.snapshot()
        (run_env.work / "large").unlink()
        (run_env.work / "larger").write_text("y" * 3000)
        await box.restore(first)
        assert ((run_env.work / "large").stat().st_size, (run_env.work / "larger").exists()) == (2000, False)
        (run_env.work / "large").write_text("z" * 4000)
        await box.restore(first)
        second = await box.snapshot()
        assert (second, (run_env.work / "large").read_text()) == (first, "x" * 2000)


@pytest.mark.parametrize("name", ["huge", "inner/"])
async def test_a_snapshot_that_could_not_be_put_back_is_refused_at_once(
    run_env: RunEnv, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(checkpoints, "LIMIT_BYTES", 5000)
    async with inspan.open_sandbox("none", cwd=run_env.work) as box:
        await box.upload({"small": "x"})
        if name == "inner/":
            _git(run_env.root, "init", "-q", str(run_env.work / "inner"))
            (run_env.work / "inner" / "file").write_text("x")
        else:
            (run_env.work / name).write_text("x" * 6000 if name == "huge" else "")
        with pytest.raises(UndoRefused, match=f"{name.rstrip('/')} cannot be saved") as caught:
            await box.snapshot()
        assert ".gitignore" in caught.value.next_step
        monkeypatch.undo()
        (run_env.work / ".gitignore").write_text(name)
        await box.restore(await box.snapshot())


async def test_a_restore_that_cannot_be_done_changes_nothing(run_env: RunEnv) -> None:
    async with inspan.open_sandbox("none", cwd=run_env.work) as box:
        (run_env.work / "a").write_text("one")
        (run_env.work / "b").write_text("one")
        first = await box.snapshot()
        (run_env.work / "a").write_text("two")
        (run_env.work / "b").unlink()
        (run_env.work / "b" / "deep").mkdir(parents=True)
        (run_env.work / "b" / "deep" / "ignored").write_text("in the way")
        (run_env.work / ".gitignore").write_text("ignored\n")
        with pytest.raises(UndoRefused):
            await box.restore(first)
    assert (run_env.work / "a").read_text() == "two"
    assert (run_env.work / "b" / "deep" / "ignored").read_text() == "in the way"
    assert [path.name for path in run_env.work.iterdir() if path.name.startswith(".inspan")] == []


async def test_a_run_works_in_an_open_sandbox(run_env: RunEnv) -> None:
    tries = f"echo x > inside; echo x > {run_env.root}/outside; echo $GIVEN; cat {run_env.root}/shown"
    scenario = f'[[call]]\nrun = "{tries}"\n[[call]]\nexpect = "by the sandbox\\nseen"\nsay = "Fine."\n'
    task = msgspec.structs.replace(run_env.task, agent="scripted", model_from=run_env.scenario(scenario))
    (run_env.root / "shown").write_text("seen")
    async with inspan.open_sandbox(
        "bwrap", cwd=run_env.work, env={"GIVEN": "by the sandbox"}, read=[run_env.root / "shown"]
    ) as box:
        result = await inspan.run(task, sandbox=box)
        assert result.ok, result.error
        runner = inspan.create_agent_runner("scripted", sandbox=box, model_from=task.model_from)
        assert (await runner.exec("again")).ok
        assert (await box.exec(["cat", "inside"])).stdout == b"x\n", "it is still open"
    assert not (run_env.root / "outside").exists()
    for folder in run_env.folders():
        started = run_env.events(folder)[0]
        assert isinstance(started, RunStarted)
        assert (started.sandbox, started.cwd) == ("bwrap", str(run_env.work))
    assert len(run_env.folders()) == 2


async def test_a_run_works_in_an_open_container(request: pytest.FixtureRequest, run_env: RunEnv) -> None:
    scenario = '[[call]]\nrun = "echo $GIVEN > inside"\n[[call]]\nsay = "Fine."\n'
    task = msgspec.structs.replace(run_env.task, profile="clean", model_from=run_env.scenario(scenario))
    async with _build_kind("podman", request)(env={"GIVEN": "by the sandbox"}) as box:
        result = await inspan.run(task, sandbox=box)
        assert result.ok, result.error
        assert (await box.exec(["cat", "inside"])).stdout == b"by the sandbox\n", "it is still open"
    started = run_env.events()[0]
    assert isinstance(started, RunStarted)
    assert (started.agent, started.sandbox, started.net) == ("codex", "podman", "gateway")


async def test_a_run_elsewhere_is_refused_in_an_open_sandbox(run_env: RunEnv, bwrap: Kind) -> None:
    async with bwrap() as box:
        with pytest.raises(BadInput, match="it is not in the sandbox"):
            await inspan.create_agent_runner("codex", sandbox=box).exec("hello", cwd=run_env.root)
    with pytest.raises(SandboxUnusable, match="is not open"):
        await inspan.run(run_env.task, sandbox=box)
    assert run_env.list_leftovers() == []


async def test_a_sandbox_that_is_given_by_name_is_the_one_that_is_used(run_env: RunEnv) -> None:
    (run_env.root / "secret").write_text("mine")
    scenario = f'[[call]]\nrun = "cat {run_env.root}/secret"\n[[call]]\nexpect = "No such file"\nsay = "Fine."\n'
    task = msgspec.structs.replace(run_env.task, agent="scripted", model_from=run_env.scenario(scenario))
    result = await inspan.run(task, sandbox="bwrap")
    assert result.ok, result.error
    started = run_env.events(run_env.folders()[0])[0]
    assert isinstance(started, RunStarted)
    assert started.sandbox == "bwrap"
    with pytest.raises(BadInput, match="unknown sandbox"):
        await inspan.run(task, sandbox="nonsense")
    with pytest.raises(BadInput, match="'none' is given beside it"):
        await inspan.run(msgspec.structs.replace(task, sandbox="bwrap"), sandbox="none")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sandbox": "none"}, "'bwrap' is given beside it"),
        ({"sandbox": "worktree"}, "'bwrap' is given beside it"),
        ({"net": "open"}, "'gateway' is given beside it"),
        ({"read": ("/srv",)}, "the sandbox does not show it"),
        ({"extra_dirs": ("/srv",)}, "the sandbox does not show it"),
    ],
)
async def test_what_a_task_asks_for_beyond_its_open_sandbox_is_refused(
    run_env: RunEnv, bwrap: Kind, changed: dict[str, object], words: str
) -> None:
    task = msgspec.structs.replace(run_env.task, **changed)
    async with bwrap() as box:
        with pytest.raises(BadInput, match=words):
            await inspan.run(task, sandbox=box)
    assert run_env.list_leftovers() == []


async def test_of_two_limits_the_smaller_one_holds(run_env: RunEnv) -> None:
    task = msgspec.structs.replace(run_env.task, limits=Limits(pids=40, memory_bytes=2**30))
    box = inspan.open_sandbox("none", cwd=run_env.work, pids=50, memory=2**29)
    try:
        await box.open()
    except SandboxUnusable:
        return  # No limits on this machine: another test says so.
    confined = box.confine(task)
    await box.teardown()
    assert (confined.limits.pids, confined.limits.memory_bytes) == (40, 2**29)


async def test_the_loader_of_a_sandboxes_own_program_obeys_nothing_that_is_meant_for_its_commands(
    run_env: RunEnv, boundary: Kind
) -> None:
    """The loader writes a file for each program that has these variables: outside, none may have them."""
    traces = run_env.root / "traces"
    traces.mkdir()
    env = {"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": f"{traces}/trace", "LD_LIBRARY_PATH": "/x", "TZDIR": "/y"}
    async with boundary() as box:
        done = await box.exec(["sh", "-c", "echo $LD_LIBRARY_PATH $TZDIR"], env=env)
    assert done.stdout.endswith(b"\n/x /y\n"), done
    assert list(traces.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("nothing", {}, r"unknown sandbox\. Known .*bwrap.*podman"),
        ("bwrap", {"net": "gateway"}, "only a run of an agent has a gateway"),
        ("none", {"net": "none"}, "confines nothing"),
        ("none", {"read": ["/etc"]}, "hides nothing"),
        ("bwrap", {"read": ["/no/such/thing"]}, "No such file"),
        ("bwrap", {"read": ["/etc"]}, "it would uncover /etc"),
        ("bwrap", {"read": ["/"]}, "it would uncover /dev"),
        ("bwrap", {"read": ["/proc/self"]}, "it would uncover /proc"),
        ("bwrap", {"cwd": "/"}, "a sandbox cannot give away /dev"),
        ("bwrap", {"cwd": "/usr"}, "a sandbox cannot give away /"),
        ("bwrap", {"image": "debian"}, "takes no image"),
        ("bwrap", {"pids": 0}, "more than 0"),
        ("podman", {"net": "gateway"}, "only a run of an agent has a gateway"),
        ("bwrap", {"env": {"A=B": "x"}}, "not a valid variable name"),
        ("bwrap", {"read": "/etc"}, r"^read '/etc': it is not a list"),
        ("bwrap", {"read": b"/etc"}, "^read "),
        ("bwrap", {"read": Path("/etc")}, "^read .*it is not a list"),
        ("bwrap", {"read": [""]}, "^read '': it is empty"),
        ("bwrap", {"cwd": ""}, "^cwd '': it is empty"),
        ("bwrap", {"cwd": "/no/such/folder"}, "^cwd .*give another cwd"),
        ("bwrap", {"net": "blah"}, r"^net 'blah'"),
        ("bwrap", {"net": "allow=a b"}, r"^net 'allow=a b'"),
        ("bwrap", {"net": None}, "^net None: it is not text"),
        ("bwrap", {"image": 5}, "^image 5: it is not text"),
        ("bwrap", {"memory": "4g"}, r"^memory '4g': .* 4 \* 1024"),
        ("bwrap", {"memory": 1.5}, "^memory 1.5: it is not a whole number"),
        ("bwrap", {"memory": 2**20}, "^memory 1048576: nothing can be started with less than 4194304 bytes"),
        ("bwrap", {"memory": 2**64}, "^memory .*too large"),
        ("bwrap", {"cpus": "2"}, "^cpus '2': it is not a number of processors"),
        ("bwrap", {"cpus": float("inf")}, "^cpus inf: it is too large"),
        ("bwrap", {"cpus": float("nan")}, "^cpus nan: a limit must be more than 0 processors"),
        ("bwrap", {"cpus": 1e9}, "^cpus 1000000000.0: it is too large"),
        ("bwrap", {"cpus": 0.0001}, "^cpus 0.0001: nothing can be started with less than 0.01 processors"),
        ("bwrap", {"pids": 1.5}, "^pids 1.5: it is not a whole number"),
        ("bwrap", {"pids": True}, "^pids True: it is not a whole number"),
        ("bwrap", {"pids": 3}, "^pids 3: nothing can be started with less than 4 processes"),
        ("bwrap", {"pids": 2**30}, "^pids .*too large"),
        ("bwrap", {"env": {"A": 1}}, "^env A '…': it is not text, but of the type int"),
        ("bwrap", {"env": {"A": "secret\0"}}, "^env A '…': it contains a NUL byte"),
        ("bwrap", {"env": {1: "x"}}, "^env 1: it is not text"),
        ("bwrap", {"env": ["A"]}, r"^env \['A'\]: it is not a mapping"),
        ("bwrap", {"output_limit_bytes": None}, "^output_limit_bytes None"),
        ("bwrap", {"output_limit_bytes": 0}, "^output_limit_bytes 0"),
    ],
)
async def test_what_cannot_be_opened_is_refused(
    run_env: RunEnv, name: str, options: dict[str, object], words: str
) -> None:
    with pytest.raises(BadInput, match=words) as caught:
        async with inspan.open_sandbox(name, **{"cwd": run_env.work, **options}):  # pyright: ignore[reportArgumentType]  wrong on purpose
            pass
    assert caught.value.next_step and "--" not in str(caught.value)


@pytest.mark.parametrize("argv", ["ls", [], [""], ["-x"], ["a\0b"]])
async def test_what_is_no_command_is_refused(kind: Kind, argv: list[str]) -> None:
    async with kind() as box:
        with pytest.raises(BadInput, match="argv"):
            await box.exec(argv)


async def test_values_of_a_wrong_type_are_refused_by_name(run_env: RunEnv) -> None:
    many, long = ["echo"] * 10_000, ["echo", "x" * 3_000_000]
    async with inspan.open_sandbox("bwrap", cwd=run_env.work) as opened:
        box: Any = opened
        wrong: list[tuple[Callable[[], Awaitable[object]], str]] = [
            *(
                (partial(box.exec, argv), "^argv ")
                for argv in (["echo", 5], [b"echo"], [Path("/bin/echo")], b"ls", 5, ["\ud800"], many, long)
            ),
            *((partial(box.exec, ["true"], env=env), "^env ") for env in ({"A": 1}, {1: "x"}, {"A": "\0"}, ["A"], "A")),
            *((partial(box.exec, ["true"], timeout_s=time), "^timeout_s ") for time in ("5", nan, inf, 0, -1, True)),
            (partial(box.exec, ["true"], stdin="text"), "^stdin "),
            *(
                (partial(box.upload, {"first": b"x", **files}), "^upload ")
                for files in cast(
                    list[dict[Any, Any]], [{"x": None}, {"x": 5}, {5: "x"}, {b"b": b"x"}, {"x": "\udcff"}]
                )
            ),
            (partial(box.upload, ["x"]), "^upload "),
            (partial(box.restore, ["x"]), "^snapshot "),
        ]
        for call, words in wrong:
            with pytest.raises(BadInput, match=words) as caught:
                await call()
            assert caught.value.next_step and "--" not in str(caught.value)
        assert os.listdir(run_env.work) == [], "nothing is written before all of it was looked at"
        assert (await box.exec(["true"])).exit_code == 0


class _Leaky(AgentSandbox):
    """Keeps all promises but one: what a command starts goes on."""

    leak: "subprocess.Popen[bytes]"

    async def exec(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout_s: float | None = 600.0,
    ) -> ExecResult:
        if argv[2:] and argv[2].startswith("(while"):
            loop = "i=0; while [ $i -lt 600 ]; do echo x >> left; sleep 0.05; i=$((i+1)); done"
            self.leak = subprocess.Popen(["sh", "-c", loop], cwd=self.work_dir)
        return await super().exec(argv, env=env, stdin=stdin, timeout_s=timeout_s)


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


async def _wait_for(path: Path) -> None:
    await asyncio.to_thread(wait_until, path.exists, str(path))


async def _expect_no_growth(path: Path) -> None:
    before = path.stat().st_size
    await asyncio.sleep(0.5)
    assert path.stat().st_size == before, "it was still there"


async def test_a_restore_that_git_keeps_waiting_is_cancelled(run_env: RunEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inspan.stores.git.PATIENCE_S", inf)
    _make_repository(run_env.work)
    async with inspan.open_sandbox("none", cwd=run_env.work) as box:
        before = await box.snapshot()
        (run_env.work / "sub").mkdir()
        os.mkfifo(run_env.work / "sub/.gitignore")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await box.restore(before)
        (run_env.work / "sub/.gitignore").unlink()
        await box.restore(before)
