"""SWE-bench instances: judged by their own tests, which no agent gets to see, whatever becomes of a check."""

import signal
import subprocess

import pytest

from tests.cli_env import kill_process, wait_until

from .conftest import CLAIM, Repository

PATCH = "diff --git a/t.sh b/t.sh\nnew file mode 100644\n--- /dev/null\n+++ b/t.sh\n@@ -0,0 +1 @@\n+grep -q '1$' n\n"
# As honest agents do: the right change, with a test of their own where the instance has its test.
OWN_TEST = '[[call]]\nrun = "echo 1 > n; echo false > t.sh"\n[[call]]\nsay = "Done."\n'
CHEAT = '[[call]]\nrun = "echo true > t.sh"\n[[call]]\nsay = "Done."\n'


def test_a_swe_bench_instance_is_judged_by_its_tests_alone(repository: Repository) -> None:
    (repository.path / "n").write_text("1\n")
    repository.commit("Solved since")
    seen = repository.cli_env.root / "seen"
    scripts = {"claude": OWN_TEST, "codex": CLAIM, "scripted": CHEAT}
    done = repository.compare(
        "--tasks",
        repository.write_instance(PATCH),
        agents=",".join(scripts),
        check=f"pwd >> {seen}; sh {{tests}}",
        **scripts,
    )
    assert done.returncode == 0, done.stderr
    found = {each["agent"]: each for each in repository.results}
    assert {agent: (each["task"], each["passed"], each["message"]) for agent, each in found.items()} == {
        "claude": ("x__y-1", True, ""),
        "codex": ("x__y-1", False, f"`pwd >> {seen}; sh t.sh` failed with exit code 1."),
        "scripted": ("x__y-1", False, f"`pwd >> {seen}; sh t.sh` failed with exit code 1."),
    }
    assert str(repository.path) not in seen.read_text().split()
    assert repository.git("status", "--porcelain") == ""
    repository.git("checkout", "-q", "--detach", "HEAD~1")
    assert repository.cli_env.inspan("apply", *found["claude"]["runs"], "--yes").returncode == 0
    assert (repository.path / "t.sh").read_text() == "false\n"


def test_after_a_check_that_took_too_long_the_agent_does_not_see_its_tests(repository: Repository) -> None:
    root = repository.cli_env.root
    look = OWN_TEST.replace("echo false > t.sh", f"cat t.sh >> {root}/seen; echo own > t.sh")
    check = f"cp t.sh {root}/judged; ! grep -q 1 n || ! mkdir {root}/once || sleep 60; sh {{tests}}"
    options = ("--max-restarts", "1", "--check-timeout", "2s")
    done = repository.compare("--tasks", repository.write_instance(PATCH), *options, check=check, scripted=look)
    assert done.returncode == 0, done.stderr
    (result,) = repository.results
    assert (result["passed"], result["attempts"], result["files"]) == (True, 2, ["n", "t.sh"])
    assert ((root / "seen").read_text(), (root / "judged").read_text()) == ("own\n", "grep -q '1$' n\n")
    assert (repository.worktree / "t.sh").read_text() == "own\n"


@pytest.mark.parametrize("goes_on", ["compare", "resume"])
def test_killed_during_a_check_what_the_agent_wrote_is_put_back_first(repository: Repository, goes_on: str) -> None:
    cli_env = repository.cli_env
    process, loop = _start_until_checked(repository)
    kill_process(process.pid)
    kill_process(cli_env.supervisor(loop))
    assert (repository.worktree / "t.sh").read_text() == "grep -q '1$' n\n"
    (cli_env.root / "gate").touch()
    if goes_on == "compare":
        done = cli_env.inspan("compare", "--resume", "@last")
        (result,) = repository.results
        assert result["passed"], done.stderr
        assert result["wall_s"] > cli_env.events(result["loop"])[-1]["duration_s"], "what came before the kill counts"
    else:
        run = cli_env.events(loop)[1]["run_id"]
        look = cli_env.scenario(f'[[call]]\nrun = "cp t.sh {cli_env.root}/seen"\n[[call]]\nsay = "Done."\n', "look")
        done = cli_env.inspan("resume", run, "look", "--model-from", look)
        assert (cli_env.root / "seen").read_text() == "false\n", done.stderr
    assert done.returncode == 0, done.stderr
    assert (repository.worktree / "t.sh").read_text() == "false\n"


def test_interrupted_during_a_check_its_tests_do_not_stay(repository: Repository) -> None:
    process, loop = _start_until_checked(repository)
    run = repository.cli_env.events(loop)[1]["run_id"]
    busy = repository.cli_env.inspan("resume", run, "look", "--model-from", repository.cli_env.scenario(CLAIM))
    assert "being made, tested or removed just now" in busy.stderr and busy.returncode != 0
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    repository.cli_env.wait_for_end(loop)
    assert (repository.worktree / "t.sh").read_text() == "false\n"


def test_what_keeps_tests_from_being_put_in_is_told_and_is_no_verdict_about_the_agent(repository: Repository) -> None:
    done = repository.compare("--tasks", repository.write_instance(PATCH.replace("b/t.sh", "b/../t.sh")))
    assert done.returncode == 2 and "test_patch 'x__y-1': it cannot be applied to" in done.stderr
    in_the_way = '[[call]]\nrun = "echo 1 > n; touch $(pwd).aside"\n[[call]]\nsay = "Done."\n'
    done = repository.compare("--tasks", repository.write_instance(PATCH), check="sh {tests}", scripted=in_the_way)
    (result,) = repository.results
    assert ".aside: Not a directory" in result["problem"] and not result["passed"]
    assert (done.returncode, "failed with exit code" in done.stderr, "0/0" in done.stdout) == (1, False, True)


def _start_until_checked(repository: Repository) -> "tuple[subprocess.Popen[bytes], str]":
    """Starts a comparison and waits until its agent's work is being checked; gives the cell's loop, too."""
    root = repository.cli_env.root
    check = f"! grep -q 1 n || {{ touch {root}/begun; until test -e {root}/gate; do sleep 0.05; done; }}; sh {{tests}}"
    tasks = repository.write_instance(PATCH)
    process = repository.cli_env.start(*repository.build("--tasks", tasks, agents="codex", check=check, codex=OWN_TEST))
    wait_until((root / "begun").exists, "the check")
    (line,) = repository.lines
    return process, line["loop"]
