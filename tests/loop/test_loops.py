"""Loops on the real command line: restarts, checks, a second opinion, limits, and ends that nobody talks them into."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli_env import CliEnv, processes_of, wait_until
from tests.emulated_terminal import EmulatedTerminal
from tests.soak import SCALE

from .conftest import Loop, Loops

COUNT_UP = """
[[call]]
run = "n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) > n"
[[call]]
say = "Done."
"""
SAY = '[[call]]\nsay = "Done."\n'
IDLE = '[[call]]\nstall = "before-headers"\n'
_PRINTED_BYTES = 1_000_000_000 if SCALE else 300_000_000


def write_scripts(cli_env: CliEnv, **scripts: str) -> str:
    """A scenario for each agent and attempt, by names as `codex_2`; gives what `--model-from` takes."""
    for name, text in scripts.items():
        cli_env.scenario(text, name.replace("_", "-"))
    return f"script:{cli_env.root}/{{agent}}-{{attempt}}.toml"


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_red_check_turns_green_in_one_conversation(loops: Loops, agent: str) -> None:
    model = loops.cli_env.scenario(COUNT_UP)
    loop = loops.run("--check", 'test "$(cat n)" -ge 3', agent=agent, model=model)
    assert loop.verdict == ("completed", "done", 0), loop.stderr
    assert [event["passed"] for event in loop.select("check_ended")] == [False, False, True]
    sessions = {loops.cli_env.events(run)[-1]["session_id"] for run in loop.runs}
    assert len(loop.runs) == 3 and len(sessions) == 1
    told = json.loads((loops.cli_env.folder(loop.runs[1]) / "run.json").read_text())["task"]["prompt"]
    assert told.startswith('The check `test "$(cat n)" -ge 3` failed with exit code 1')
    assert "✘ check" in loop.stderr and "↻ attempt 3" in loop.stderr


def test_a_verifier_of_another_vendor_refuses_once_and_then_agrees(loops: Loops) -> None:
    cli_env = loops.cli_env
    model = write_scripts(
        cli_env,
        claude_1=COUNT_UP.replace('run = "', 'run = "until [ -e go ]; do sleep 0.05; done; '),
        claude_2=COUNT_UP,
        codex_1='[[call]]\nsay = "NONCE"\n',
        codex_2='[[call]]\nsay = "NONCE"\n',
    )
    # The word is the loop's own: what the verifier is told of it, a model would repeat.
    argv = loops.build("--verify", "codex", "-d", "--mode", "exec", agent="claude", model=model)
    loop_id = cli_env.inspan(*argv).stdout.strip()
    nonce = json.loads((cli_env.folder(loop_id) / "run.json").read_text())["policy"]["nonce"]
    (cli_env.root / "codex-1.toml").write_text(f'[[call]]\nsay = "n is only 1.\\n{nonce} NOT DONE"\n')
    (cli_env.root / "codex-2.toml").write_text(f'[[call]]\nsay = "{nonce} DONE"\n')
    (cli_env.work / "go").touch()
    done = cli_env.inspan("wait", loop_id)
    assert done.returncode == 0, done.stderr
    events = cli_env.events(loop_id)
    assert [event.get("agreed", False) for event in events if event["kind"] == "verdict_given"] == [False, True]
    second = [event["run_id"] for event in events if event["kind"] == "attempt_started"][1]
    told = json.loads((cli_env.folder(second) / "run.json").read_text())["task"]["prompt"]
    assert told.startswith("codex looked at the work and says that it is not done:\n\nn is only 1.")
    verifier = next(event["run_id"] for event in events if event["kind"] == "verifier_started")
    assert cli_env.events(verifier)[0]["mode"] == "review"


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_limit_is_waited_out_in_the_same_conversation(loops: Loops, agent: str) -> None:
    seconds = 20 if SCALE else 10  # More than an agent takes to leave, on a machine that has much else to do.
    limit = f'[[call]]\nfail = {{status = 429, headers = {{retry-after = "{seconds}"}}}}\nrepeat = "always"\n'
    model = write_scripts(loops.cli_env, **{f"{agent}_1": limit, f"{agent}_2": SAY})
    loop = loops.run(agent=agent, model=model)
    assert loop.verdict == ("completed", "done", 0), loop.stderr
    (waited,) = loop.select("wait_started")
    assert waited["why"] == f"{agent} is limited by its provider"
    first, second = loop.select("attempt_started")
    assert second["resumes"] == first["run_id"]
    assert "◷ waits" in loop.stderr


def test_another_agent_takes_over_while_one_is_limited(loops: Loops, checkout: Path) -> None:
    limit = '[[call]]\nfail = {status = 429, headers = {retry-after = "3600"}}\nrepeat = "always"\n'
    begun = '[[call]]\nsay = "I have begun."\nrun = "touch half-done"\n'
    model = write_scripts(loops.cli_env, claude_1=begun + limit, codex_1=SAY, codex_2=COUNT_UP)
    loop = loops.run("--agents", "claude,codex", model=model)
    assert loop.verdict == ("completed", "done", 0), loop.stderr
    assert [event["agent"] for event in loop.select("attempt_started")] == ["claude", "codex"]
    told = json.loads((loops.cli_env.folder(loop.runs[1]) / "run.json").read_text())["task"]["prompt"]
    assert told.startswith("do it\n\nAnother agent has begun this")
    assert f"Changed so far: {checkout}/half-done.\n\nIt said last:\n```\nI have begun.\n```\n\n" in told
    assert (checkout / "n").read_text() == "1\n"


def test_a_loop_that_gets_nowhere_is_ended_and_says_so(loops: Loops) -> None:
    loop = loops.run("--check", "echo no; false", model=loops.cli_env.scenario(SAY))
    assert loop.verdict == ("limited", "no_progress", 6)
    assert len(loop.runs) == 3
    assert "3 attempts in a row came to the same failure of 'echo no; false'" in loop.stderr


@pytest.mark.parametrize("ignored", [False, True], ids=["no-repository", "ignored-file"])
def test_a_check_that_counts_tells_of_progress_where_no_snapshot_does(loops: Loops, ignored: bool) -> None:
    if ignored:
        (loops.cli_env.work / ".gitignore").write_text("*\n")
        subprocess.run(["git", "init", "-q"], cwd=loops.cli_env.work, env=loops.cli_env.env, check=True)
    check = 'echo "$(cat n) of 5 done"; test "$(cat n)" -ge 5'
    loop = loops.run("--check", check, model=loops.cli_env.scenario(COUNT_UP))
    assert (loop.verdict, len(loop.runs)) == (("completed", "done", 0), 5), loop.stderr


@pytest.mark.parametrize("quiet", [(), ("-q",)], ids=["told", "quiet"])
def test_the_answer_of_the_attempt_that_did_it_is_on_stdout(loops: Loops, quiet: tuple[str, ...]) -> None:
    words = loops.build(*quiet, "--check", 'test "$(cat n)" -ge 2', model=loops.cli_env.scenario(COUNT_UP))
    done = loops.cli_env.inspan(*words)
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert (done.stderr == "") == bool(quiet), done.stderr


def test_quiet_or_not_a_loop_that_failed_says_why_and_has_no_answer(loops: Loops) -> None:
    model = loops.cli_env.scenario(SAY)
    done = loops.cli_env.inspan(*loops.build("-q", "--check", "false", "--max-restarts", "0", model=model))
    assert (done.returncode, done.stdout) == (6, "")
    assert "max_restarts" in done.stderr and "attempt" not in done.stderr


def test_restarts_are_limited(loops: Loops) -> None:
    check = ("--check", "false", "--max-restarts", "1", "--no-progress", "0")
    loop = loops.run(*check, model=loops.cli_env.scenario(SAY))
    assert loop.verdict == ("limited", "max_restarts", 6)
    assert len(loop.runs) == 2


def test_what_would_only_fail_again_is_not_tried_again(loops: Loops) -> None:
    refused = '[[call]]\nfail = {status = 401}\nrepeat = "always"\n'
    loop = loops.run(agent="codex", model=loops.cli_env.scenario(refused))
    assert loop.verdict == ("failed", "authentication", 4)
    assert len(loop.runs) == 1


def test_only_the_loops_own_word_in_the_file_ends_it(loops: Loops) -> None:
    cli_env = loops.cli_env
    # The agent is told the word in its prompt, and finds the path there, too: the second attempt writes it down.
    read = 'sed -n "s/.*write the word \\\\(done-[0-9a-f]*\\\\) into.*/\\\\1/p" "$RUN_FOLDER/../prompt.md"'
    model = write_scripts(
        cli_env,
        scripted_1='[[call]]\nrun = "echo DONE > $TASK_FOLDER/DONE"\n[[call]]\nsay = "All is DONE."\n',
        scripted_2=f"[[call]]\nrun = '''{read} > \"$TASK_FOLDER/DONE\"'''\n" + SAY,
    )
    loop = loops.run("--until", "done-file", model=model)
    assert [event["passed"] for event in loop.select("check_ended")] == [False, True], loop.stderr
    assert loop.verdict == ("completed", "done", 0)
    assert loop.select("check_ended")[0]["output"].endswith("holds another word.")


@pytest.mark.parametrize(
    ("check", "check_timeout", "problem"),
    [
        ("kill -9 $$", "60s", "failed with exit code 137"),
        (f"head -c {_PRINTED_BYTES} /dev/zero | tr '\\0' x; false", "20m", "failed with exit code 1"),
        ("/no/such/program", "60s", "failed with exit code 127"),
        ("sleep 600", "1s", "took too long"),
    ],
    ids=["kills its shell", "prints much", "is not there", "hangs"],
)
def test_a_check_that_misbehaves_has_failed(loops: Loops, check: str, check_timeout: str, problem: str) -> None:
    limits = ("--max-restarts", "0", "--check-timeout", check_timeout)
    loop = loops.run("--check", check, *limits, model=loops.cli_env.scenario(SAY))
    assert loop.verdict == ("limited", "max_restarts", 6)
    assert problem in loop.stderr
    assert len(json.dumps(loop.events)) < 100_000
    assert processes_of(loop.run_id) == []


@pytest.mark.parametrize("configured", [False, True], ids=["asked for", "configured"])
def test_a_check_works_in_the_sandbox_of_the_agent(loops: Loops, tmp_path: Path, configured: bool) -> None:
    outside = tmp_path / "outside"
    Path(loops.cli_env.env["HOME"], "secret").write_text("secret")
    check = f"echo inside > inside.txt; echo planted > {outside}; test ! -e {loops.cli_env.env['HOME']}/secret"
    if configured:
        assert loops.cli_env.inspan("config", "set", "runtime.sandbox", "bwrap").returncode == 0
    more = () if configured else ("--sandbox", "bwrap")
    loop = loops.run("--check", check, *more, model=loops.cli_env.scenario(SAY))
    assert loop.verdict == ("completed", "done", 0), loop.stderr
    assert (loops.cli_env.work / "inside.txt").exists() and not outside.exists()


def test_a_secret_in_a_checks_output_is_not_written_down(loops: Loops) -> None:
    loops.cli_env.env["SOME_API_KEY"] = "sk-very-secret-0123456789"
    check = "echo $SOME_API_KEY; false"
    loop = loops.run("--check", check, "--max-restarts", "0", model=loops.cli_env.scenario(SAY))
    assert "very-secret" not in loop.stderr + json.dumps(loop.events)
    assert "[REDACTED:" in loop.stderr


def test_the_settings_say_how_long_a_limit_without_an_end_is_waited_for(loops: Loops) -> None:
    cli_env = loops.cli_env
    folder = Path(cli_env.env["HOME"], ".config", "inspan")
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text('[loop]\nrate_limit_backoff = ["0.2s", "1h"]\nmax_restarts = 1\n')
    model = write_scripts(cli_env, codex_1='[[call]]\nfail = {status = 429}\nrepeat = "always"\n', codex_2=SAY)
    loop = loops.run(agent="codex", model=model)
    assert loop.verdict == ("completed", "done", 0), loop.stderr
    bad = '[loop]\nrate_limit_backoff = ["soon"]\n'
    (folder / "config.toml").write_text(bad)
    refused = cli_env.inspan(*loops.build(agent="codex", model=model))
    assert refused.returncode == 2 and "loop.rate_limit_backoff" in refused.stderr, refused.stderr


# Others look at it, and end it


def test_a_loop_is_listed_followed_waited_for_and_stopped_as_a_run_is(loops: Loops) -> None:
    cli_env = loops.cli_env
    loop = loops.start("--name", "night", model=cli_env.scenario(IDLE))
    wait_until(lambda: "attempt_started" in loop.kinds, "first attempt")
    run_id = loop.runs[0]
    cli_env.wait_for_events(run_id, "run_started")
    listed = cli_env.inspan("ps").stdout
    assert "night" in listed and "attempt 1" in listed
    follower = cli_env.start("logs", "-f", "night")
    stopped = cli_env.inspan("stop", "night")
    assert stopped.returncode == 0, stopped.stderr
    assert (loop.ended["outcome"], loop.ended["reason"]) == ("cancelled", "stopped")
    assert cli_env.events(run_id)[-1]["outcome"] == "cancelled"
    assert follower.wait(timeout=60) == 143
    assert cli_env.inspan("wait", "night").returncode == 143
    assert processes_of(run_id) == []


def test_an_interrupt_ends_the_loop_and_its_run(loops: Loops) -> None:
    cli_env = loops.cli_env
    command = cli_env.start(*loops.build(model=cli_env.scenario(IDLE)))
    wait_until(lambda: list(cli_env.state.glob("projects/*/*/runs/*/events.jsonl"))[1:], "run of the loop")
    loop_id = loops.find_id()
    wait_until(lambda: "attempt_started" in cli_env.kinds(loop_id), "first attempt")
    (run_id,) = Loop(cli_env, loop_id).runs
    cli_env.wait_for_events(run_id, "turn_started")
    command.send_signal(2)
    command.communicate(timeout=60)
    assert command.returncode == 130
    ends = [cli_env.events(path.name)[-1] for path in cli_env.state.glob("projects/*/*/runs/*")]
    assert {end["reason"] for end in ends} == {"interrupted"}


def test_what_a_loop_cost_is_counted_once(loops: Loops) -> None:
    loop = loops.run("--check", 'test "$(cat n)" -ge 2', model=loops.cli_env.scenario(COUNT_UP))
    assert loop.verdict[0] == "completed"
    runs = [loops.cli_env.events(run)[-1]["usage"] for run in loop.runs]
    total = sum(usage["input"] for usage in runs)
    assert loop.ended["usage"]["input"] == total
    costs = json.loads(loops.cli_env.inspan("cost", "--json").stdout)
    assert f'"input":{total}' in json.dumps(costs, separators=(",", ":"))


def test_a_budget_is_for_all_runs_of_a_loop(loops: Loops) -> None:
    check = ("--check", "false", "--no-progress", "0", "--budget", "3calls")
    loop = loops.run(*check, model=loops.cli_env.scenario(COUNT_UP))
    assert loop.verdict == ("limited", "budget", 6), loop.stderr
    calls = [event for run in loop.runs for event in loops.cli_env.events(run) if event["kind"] == "model_call_ended"]
    assert [call["status"] for call in calls if call.get("status") == 200] == [200] * 3


def test_the_task_folder_tells_what_it_is_about(loops: Loops) -> None:
    loop = loops.run(model=loops.cli_env.scenario(SAY), prompt="say it twice")
    folder = loops.cli_env.folder(loop.run_id)
    assert (folder.parent.parent / "files" / "TASK.md").read_text() == "say it twice"
    assert {loops.cli_env.folder(run).parent for run in loop.runs} == {folder.parent}


def test_a_later_loop_of_a_task_says_what_it_is_about_and_keeps_what_others_wrote(loops: Loops) -> None:
    cli_env, model = loops.cli_env, loops.cli_env.scenario(SAY)
    argv = [loops.build("--task", "mine", model=model, prompt=f"prompt {each}") for each in range(4)]
    seen: list[dict[str, str]] = []
    for each in argv:
        assert cli_env.inspan(*each).returncode == 0
        (files,) = cli_env.state.glob("projects/*/mine/files")
        seen.append({path.name: path.read_text() for path in files.iterdir() if path.exists()})
        if len(seen) == 2:
            (files / "TASK.md").write_text("by hand")
        if len(seen) == 3:
            (files / "TASK.md").unlink()
            (files / "TASK.md").symlink_to(cli_env.work / "planted")
    assert seen[:2] == [{"TASK.md": "prompt 0"}, {"TASK.md": "prompt 1"}]
    (kept,) = seen[2].keys() - {"TASK.md"}
    assert kept.startswith("TASK-before-") and seen[2] == {"TASK.md": "prompt 2", kept: "by hand"}
    assert seen[3]["TASK.md"] == "prompt 3" and not (cli_env.work / "planted").exists()


@pytest.mark.parametrize("planted", ["a sparse file", "a folder", "a pipe"])
def test_whatever_an_agent_leaves_in_the_place_of_the_file_is_put_aside_and_told(loops: Loops, planted: str) -> None:
    plant = {"a sparse file": "truncate -s 400G", "a folder": "mkdir", "a pipe": "mkfifo"}[planted]
    text = f"[[call]]\nrun = 'rm $TASK_FOLDER/TASK.md; {plant} $TASK_FOLDER/TASK.md'\n" + SAY
    first = loops.run("--task", "mine", model=loops.cli_env.scenario(text))
    again = loops.cli_env.inspan(*loops.build("--task", "mine", model=loops.cli_env.scenario(SAY), prompt="go on"))
    assert again.returncode == 0 and "was put aside, as TASK-before-2" in again.stderr, again.stderr
    files = loops.cli_env.folder(first.run_id).parent.parent / "files"
    assert (files / "TASK.md").read_text() == "go on"
    assert len(list(files.glob("TASK-before-*"))) == 1


# Bad input


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--check", " "), "--check ' ': it is no command."),
        (("--check", "echo \udcff"), "--check 'echo \\udcff': it is not UTF-8."),
        (("--agents", ""), "--agents '': a name is missing."),
        (("--max-restarts", "9" * 20), f"--max-restarts {'9' * 20}: it is too large, or no number."),
        (("--no-progress", "1"), "--no-progress 1: one attempt alone cannot show that nothing changes."),
        (("--until", "done-file", "--mode", "review"), "--until 'done-file': in the mode review an agent writes no"),
        (("--agents", "scripted,,codex"), "--agents 'scripted,,codex': a name is missing."),
        (("--verify", "nobody"), "nobody"),
        (
            ("--no-progress", "5", "--max-restarts", "2"),
            "--no-progress 5: there are 3 attempts at the most (--max-restarts 2).",
        ),
        (
            ("--max-time", "5s", "--check-timeout", "20m"),
            "--check-timeout '1200s': the whole loop may take 5 s (--max-time).",
        ),
        (("--verify", "scripted"), "--verify scripted: mode 'review': Built-in scripted agent does not support this."),
        (("--verify", "xai"), "--verify 'xai': it sees no files, so it cannot look at the work."),
    ],
)
def test_rules_that_make_no_sense_are_refused_before_anything_is_made(
    loops: Loops, words: tuple[str, ...], told: str
) -> None:
    argv = loops.build(*words, model=loops.cli_env.scenario(SAY))
    refused = loops.cli_env.inspan(*argv)
    assert refused.returncode in (2, 5) and told in refused.stderr, refused.stderr
    assert not list(loops.cli_env.state.glob("projects/*/*/runs/*"))


def test_a_name_is_unique_among_runs_loops_and_blueprints(loops: Loops) -> None:
    cli_env, model = loops.cli_env, loops.cli_env.scenario(SAY)
    blueprint = cli_env.work / "one.toml"
    blueprint.write_text('[nodes.a]\nkind = "command"\nrun = "true"\n')
    starts = (
        ["run", "do it", "-a", "scripted", "--profile", "clean", "--model-from", model],
        loops.build(model=model),
        ["blueprint", "run", str(blueprint)],
    )
    for number, first in enumerate(starts):
        name, second = f"night-{number}", starts[(number + 1) % 3]
        assert cli_env.inspan(*first, "--name", name).returncode == 0
        refused = cli_env.inspan(*second, "--name", name)
        assert refused.returncode == 2 and f"--name '{name}': run 2" in refused.stderr, refused.stderr
    refused = cli_env.inspan(*starts[2], "--name", "a b")
    assert refused.returncode == 2 and "--name 'a b'" in refused.stderr, refused.stderr


def test_an_agent_that_is_not_there_is_refused_whichever_it_is(loops: Loops) -> None:
    env = {**loops.cli_env.env, "PATH": os.defpath}
    argv = loops.build("--verify", "gemini", model=loops.cli_env.scenario(SAY))
    env["INSPAN_GEMINI"] = "/no/such/gemini"
    refused = loops.cli_env.inspan(*argv, env=env)
    assert refused.returncode in (2, 5), refused.stderr
    assert not list(loops.cli_env.state.glob("projects/*/*/runs/*"))


def test_a_folder_in_the_place_of_the_file_is_refused(loops: Loops) -> None:
    first = loops.run("--task", "mine", model=loops.cli_env.scenario(SAY))
    files = loops.cli_env.folder(first.run_id).parent.parent / "files"
    (files / "DONE").mkdir()
    argv = loops.build("--task", "mine", "--until", "done-file", model=loops.cli_env.scenario(SAY))
    refused = loops.cli_env.inspan(*argv)
    assert refused.returncode == 2 and "it is a folder." in refused.stderr


def test_runs_that_the_agent_starts_are_waited_for(loops: Loops) -> None:
    cli_env = loops.cli_env
    cli_env.scenario('[[call]]\nrun = "sleep 0.5; touch inner"\n[[call]]\nsay = "Done."\n', "inner")
    inner = f"{sys.executable} -m inspan run 'do it' -d -a scripted --model-from script:{cli_env.root}/inner.toml"
    model = cli_env.scenario(f"[[call]]\nrun = \"{inner} --profile clean > started\"\n[[call]]\nsay = 'Done.'\n")
    loop = loops.run("--check", "test -e inner", "--max-restarts", "0", agent="codex", model=model)
    assert loop.verdict == ("completed", "done", 0), loop.stderr
    started = (cli_env.work / "started").read_text().strip()
    assert cli_env.events(started)[-1]["reason"] == "done"


def test_at_a_terminal_a_wait_counts_down(loops: Loops) -> None:
    limit = '[[call]]\nfail = {status = 429, headers = {retry-after = "10"}}\nrepeat = "always"\n'
    model = write_scripts(loops.cli_env, codex_1=limit, codex_2=SAY)
    argv = loops.cli_env.argv(*loops.build(agent="codex", model=model))
    with EmulatedTerminal(argv, cwd=loops.cli_env.work, env=loops.cli_env.env) as terminal:
        terminal.wait_for_text("left · codex is limited by its provider")
        assert terminal.wait_for_end() == 0
        assert "● waits" not in terminal.text and "◷ waits" in terminal.text
        seen = re.findall(rb"waits \xc2\xb7 ([0-9.]+)s left", terminal.written)
        assert len(seen) >= 2 and list(map(float, seen)) == sorted(map(float, seen), reverse=True)


def test_at_a_terminal_no_word_of_the_summary_is_broken(loops: Loops) -> None:
    model = loops.cli_env.scenario(SAY)
    argv = loops.cli_env.argv(*loops.build(agent="codex", model=model))
    with EmulatedTerminal(argv, cwd=loops.cli_env.work, env=loops.cli_env.env, columns=24) as terminal:
        assert terminal.wait_for_end() == 0
        last = terminal.lines[-6:]
        assert [line for line in last if "not paid" in line] and all(len(line) < 24 for line in last), last


def test_a_folder_that_the_agent_makes_in_the_place_of_the_file_is_not_its_word(loops: Loops) -> None:
    model = loops.cli_env.scenario('[[call]]\nrun = "mkdir $TASK_FOLDER/DONE"\n' + SAY)
    loop = loops.run("--until", "done-file", "--max-restarts", "0", model=model)
    assert loop.verdict == ("limited", "max_restarts", 6), loop.stderr
    assert loop.select("check_ended")[0]["output"].endswith("is no file with that word.")


@pytest.mark.parametrize(
    "words", [("diff",), ("undo", "--yes"), ("apply",), ("export",), ("transcript",), ("close",), ("logs", "--raw")]
)
def test_what_only_a_run_has_is_asked_of_a_loop_in_vain_and_its_runs_are_named(loops: Loops, words: list[str]) -> None:
    loop = loops.run(model=loops.cli_env.scenario(SAY))
    refused = loops.cli_env.inspan(words[0], loop.run_id, *words[1:])
    assert (refused.returncode, refused.stderr) == (
        2,
        f"inspan: RUN '{loop.run_id}': it is a loop, which has none of that itself.\n"
        f"  → Name one of its runs: {loop.runs[0]}.\n",
    )


@pytest.fixture
def checkout(loops: Loops) -> Path:
    """The working folder as a repository in which n is 0."""
    work = loops.cli_env.work
    (work / "n").write_text("0\n")
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "first")):
        subprocess.run(["git", *identity, *words], cwd=work, env=loops.cli_env.env, check=True)
    return work


def test_files_of_which_nobody_knows_are_told_of_the_loop_too(loops: Loops, checkout: Path) -> None:
    model = loops.cli_env.scenario('[[call]]\nrun = "mv .git gone; touch made"\n[[call]]\nsay = "Done."\n')
    loop = loops.run(model=model)
    assert [event["files_unknown"] for event in (*loop.select("attempt_ended"), loop.ended)] == [True, True]
    assert loop.stderr.count("  files changed: unknown\n") == 2, loop.stderr  # Of the run, and of the loop.


def test_what_judges_an_attempt_that_changed_nothing_works_in_its_worktree(loops: Loops, checkout: Path) -> None:
    seen = loops.cli_env.root / "seen"
    check = f"pwd >> {seen}; echo x >> left-by-check; test $(wc -l < left-by-check) -ge 2"
    more = ("--sandbox", "worktree", "--check", f"pwd >> {seen}", "--check", check, "--fresh")
    loop = loops.run(*more, model=loops.cli_env.scenario(SAY))
    assert loop.verdict == ("completed", "done", 0), loop.stderr
    # What a check leaves is what the next one finds, as in any other folder.
    (first, *others) = [Path(each) for each in seen.read_text().split()]
    assert first.parent.parent == loops.cli_env.state / "worktrees" and {*others} == {first} and len(others) == 3
    assert sorted(path.name for path in checkout.iterdir() if path.name != ".git") == ["n"]


def test_a_folder_that_an_agent_deleted_in_its_worktree_is_no_reason_to_work_elsewhere(
    loops: Loops, checkout: Path
) -> None:
    (checkout / "sub").mkdir()
    seen = loops.cli_env.root / "seen"
    gone = '[[call]]\nrun = "rmdir ../sub; echo 1 > ../n"\n[[call]]\nsay = "Done."\n'
    argv = loops.build("--sandbox", "worktree", "--check", f"pwd > {seen}", model=loops.cli_env.scenario(gone))
    done = loops.cli_env.inspan(*argv, cwd=checkout / "sub")
    assert done.returncode == 0, done.stderr
    assert Path(seen.read_text().strip()).is_relative_to(loops.cli_env.state / "worktrees")


def test_the_worktree_of_an_attempt_that_was_deleted_is_replaced_by_no_other_folder(
    loops: Loops, checkout: Path
) -> None:
    cli_env = loops.cli_env
    begun, gate = cli_env.root / "begun", cli_env.root / "gate"
    wait = f"touch {begun}; until test -e {gate}; do sleep 0.05; done"
    more = ("--sandbox", "worktree", "--check", wait, "--check", "touch left-by-check", "--max-restarts", "0")
    loop = loops.start(*more, model=cli_env.scenario(COUNT_UP))
    wait_until(begun.exists, "the first check")
    (worktree,) = (path for path in cli_env.state.glob("worktrees/*/*") if path.is_dir())
    shutil.rmtree(worktree)
    Path(f"{worktree}.json").unlink()
    gate.touch()
    assert cli_env.inspan("wait", loop.run_id).returncode != 0
    (_, check) = loop.select("check_ended")
    assert (check["passed"], check["exit_code"]) == (False, 126) and not (checkout / "left-by-check").exists()


def test_an_agent_without_a_worktree_is_refused_where_a_check_would_need_one(loops: Loops, checkout: Path) -> None:
    more = ("--sandbox", "worktree", "--mode", "complete", "--check", "true")
    done = loops.cli_env.inspan(*loops.build(*more, agent="claude", model=loops.cli_env.scenario(SAY)))
    assert done.returncode == 2 and "it has no worktree that could be checked" in done.stderr


def test_a_task_folder_that_the_agent_replaces_is_told_with_what_to_do(loops: Loops) -> None:
    text = '[[call]]\nrun = "rm -r $TASK_FOLDER; touch $TASK_FOLDER"\n' + SAY
    loop = loops.run("--check", "false", model=loops.cli_env.scenario(text))
    assert loop.verdict == ("failed", "store", 1)
    assert loop.ended["next"].endswith("; then go on with it: `inspan recover`.")
    assert "Free disk space" not in loop.ended["next"]


# A supervisor that does nothing any more


def _stop_supervisor(loops: Loops, *more: str) -> Loop:
    """A loop whose run goes on under a supervisor that has been stopped."""
    loop = loops.start(*more, model=loops.cli_env.scenario(IDLE))
    wait_until(lambda: loop.runs, "first attempt")
    os.kill(loops.cli_env.supervisor(loop.runs[0]), signal.SIGSTOP)
    return loop


def test_a_loop_ends_in_time_whatever_became_of_the_supervisor_of_its_run(loops: Loops) -> None:
    loop = _stop_supervisor(loops, "--max-time", "3s")
    assert loops.cli_env.inspan("wait", loop.run_id).returncode == 124
    assert loop.ended["next"] == "Give it longer with --max-time."
    (attempt,) = loop.select("attempt_ended")
    assert (attempt["reason"], loop.ended["reason"]) == ("run_timeout", "run_timeout")
    assert processes_of(loop.runs[0]) == []


@pytest.mark.parametrize("whom", ["its run", "the loop", "both"])
def test_what_is_killed_ends_whatever_became_of_its_process(loops: Loops, whom: str) -> None:
    loop = _stop_supervisor(loops)
    if whom == "both":
        os.kill(loops.cli_env.supervisor(loop.run_id), signal.SIGSTOP)
    named = loop.runs[0] if whom == "its run" else loop.run_id
    killed = loops.cli_env.inspan("kill", named)
    assert (killed.returncode, killed.stdout) == (0, f"{named} cancelled\n"), killed.stderr
    loops.cli_env.wait_for_end(loop.run_id)
    for each in (loop.run_id, loop.runs[0]):
        assert (loops.cli_env.events(each)[-1]["reason"], processes_of(each)) == ("killed", [])
    assert loops.cli_env.inspan("recover", "--dry-run").stderr == "inspan: nothing was lost here\n"
