"""`inspan run`: what goes where, how it leaves, and prompts of every kind."""

import json
import os
import re
import subprocess

import pytest

from tests.house import House, until

from .scenes import FAILS, SAYS_HELLO, last_event, let_go

CHANGES_A_FILE = "[[call]]\nwrite = {path = 'new.txt', content = 'text\\n'}\n[[call]]\nsay = 'written'\n"
ENDS = [
    (SAYS_HELLO, (), 0, "done"),
    (FAILS, (), 1, "overloaded"),
    ("[[call]]\nfail = {status = 429}\n", (), 1, "rate_limit"),
    ("[[call]]\nexpect = 'nothing of the kind'\nsay = 'x'\n", (), 1, "script"),
    ("[[call]]\nfail = {status = 401}\n", (), 4, "authentication"),
    ("[[call]]\nrun = 'true'\nrepeat = 'always'\n", (), 6, "max_turns"),
    ("[[call]]\nstall = 'before-headers'\n", ("--timeout", "0.5s"), 124, "run_timeout"),
    ("[[call]]\nstall = 'before-headers'\n", ("--stall-timeout", "0.01m"), 124, "model_stall"),
    ("[[call]]\nstall = 'before-headers'\n", ("--idle-timeout", "0.0002h"), 124, "idle_timeout"),
]


def test_the_answer_goes_to_stdout_and_progress_to_stderr(house: House) -> None:
    run = house.run("scripted", CHANGES_A_FILE)
    assert (run.code, run.stdout) == (0, "written\n")
    first, *_, outcome, files, spent = run.stderr.splitlines()
    assert first.startswith(f"▶ scripted {run.events[0]['agent_version']} · {run.run_id} · contained by ")
    assert re.fullmatch(r"✔ completed in \d+\.\ds", outcome)
    assert files == f"  files changed: {house.work / 'new.txt'}"
    assert spent == "  tokens: 200 in, 40 cache read, 20 cache write, 14 out (6 reasoning) · cost: not reported"


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_real_agent_is_shown_the_same_way(house: House, agent: str) -> None:
    run = house.run(agent, CHANGES_A_FILE)
    assert (run.code, run.stdout) == (0, "written\n")
    assert run.stderr.startswith(f"▶ {agent} ")
    cost = r"\$\d\.\d{4} \(scripted model: nothing was paid\)" if agent == "claude" else "not reported"
    ending = rf"✔ completed in \d+\.\ds\n  files changed: {house.work / 'new.txt'}\n  tokens: .* · cost: {cost}\n"
    assert re.search(rf"^{ending}\Z", run.stderr, re.MULTILINE), run.stderr


def test_a_failed_run_says_what_to_do_and_has_no_answer(house: House) -> None:
    run = house.run("scripted", FAILS)
    assert (run.code, run.stdout) == (1, "")
    assert "✘ failed (overloaded) in " in run.stderr
    assert f"\n  → {run.ended['next']}\n" in run.stderr


def test_json_prints_the_log_as_it_grows_and_nothing_else(house: House) -> None:
    run = house.run("scripted", SAYS_HELLO, "--json")
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert (run.code, run.stderr) == (0, "")
    assert [line["event"] for line in lines] == run.events
    assert [line["n"] for line in lines] == list(range(1, len(lines) + 1))
    assert {line["schema"] for line in lines} == {1}
    assert all(line.keys() == {"schema", "n", "t", "event"} for line in lines)


def test_quiet_prints_only_the_answer(house: House) -> None:
    run = house.run("scripted", SAYS_HELLO, "--quiet")
    assert (run.code, run.stdout, run.stderr) == (0, "hello\n", "")


def test_quiet_does_not_hide_a_failure(house: House) -> None:
    run = house.run("scripted", FAILS, "--quiet")
    assert (run.code, run.stdout) == (1, "")
    assert run.stderr.startswith("✘ failed (overloaded) in ")


def test_a_detached_run_prints_only_its_id(house: House) -> None:
    done = house.inspan("run", "do it", "-d", "-a", "scripted", "--model-from", house.scenario(SAYS_HELLO))
    run_id = house.folder().name
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{run_id}\n", "")


def test_a_detached_run_gives_its_id_as_json(house: House) -> None:
    done = house.inspan("run", "do it", "-d", "--json", "-a", "scripted", "--model-from", house.scenario(SAYS_HELLO))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"schema": 1, "run_id": house.folder().name}


def test_a_detached_run_outlives_its_command_and_holds_none_of_its_streams(house: House) -> None:
    model = house.scenario("[[call]]\nrun = 'touch started; while [ ! -e go ]; do sleep 0.02; done'\n" + SAYS_HELLO)
    process = house.start("run", "do it", "-d", "-a", "scripted", "--model-from", model)
    # Ends only when every copy of the pipes is closed, however long the run goes on.
    run_id = process.communicate(timeout=60)[0].decode().strip()
    until(lambda: (house.work / "started").exists(), "tool")
    assert last_event(house, run_id)["kind"] != "run_ended"
    let_go(house)
    assert house.inspan("wait", run_id).returncode == 0


def test_two_runs_can_be_started_at_once(house: House) -> None:
    model = house.scenario(SAYS_HELLO)
    both = [house.start("run", "do it", "-d", "-a", "scripted", "--model-from", model) for _ in range(2)]
    ids = {process.communicate(timeout=60)[0].decode().strip() for process in both}
    assert len(ids) == 2
    assert house.inspan("wait", *ids).returncode == 0
    assert set(house.inspan("ps", "-aq").stdout.split()) == ids


@pytest.mark.parametrize(("scenario", "more", "code", "reason"), ENDS, ids=[reason for *_, reason in ENDS])
def test_the_exit_code_tells_how_the_run_ended(
    house: House, scenario: str, more: tuple[str, ...], code: int, reason: str
) -> None:
    run = house.run("scripted", scenario, *more)
    assert (run.code, run.ended["reason"]) == (code, reason)


def test_limits_can_be_switched_off(house: House) -> None:
    off = [word for name in ("", "start-", "idle-", "stall-") for word in (f"--{name}timeout", "off")]
    run = house.run("scripted", SAYS_HELLO, *off)
    described = json.loads((house.folder() / "run.json").read_text())
    limits = {"timeout_s": None, "start_timeout_s": None, "stall_timeout_s": None}
    assert (run.code, described["task"]["limits"]) == (0, limits)


@pytest.mark.parametrize(
    "prompt",
    ["x" * (1 << 20), "naïve 🦀 \u202e 漢字", "before\0after", "- begins like an option", "two\nlines\n"],
    ids=["1 MB", "emoji", "NUL", "dash", "lines"],
)
def test_a_prompt_from_stdin_reaches_the_agent_as_it_is(house: House, prompt: str) -> None:
    model = house.scenario(f"[[call]]\nexpect = {json.dumps(prompt[-20:], ensure_ascii=False)}\nsay = 'hello'\n")
    done = house.inspan("run", "-", "-a", "scripted", "--model-from", model, stdin=prompt)
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
    assert (house.folder() / "prompt.md").read_text() == prompt


def test_a_prompt_with_emoji_can_be_an_argument(house: House) -> None:
    model = house.scenario("[[call]]\nexpect = 'naïve 🦀'\nsay = '🦀'\n")
    done = house.inspan("run", "naïve 🦀", "-a", "scripted", "--model-from", model)
    assert (done.returncode, done.stdout) == (0, "🦀\n")


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_prompt_of_a_megabyte_reaches_a_real_agent(house: House, agent: str) -> None:
    model = house.scenario("[[call]]\nexpect = 'the last words'\nsay = 'hello'\n")
    # Codex takes 1 048 576 characters at most.
    prompt = "a line of a prompt.\n" * 50_000 + "the last words"
    done = house.inspan("run", "-", "-a", agent, "--profile", "clean", "--model-from", model, stdin=prompt)
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr


def test_a_long_prompt_is_cut_where_it_is_shown(house: House) -> None:
    model = house.scenario(SAYS_HELLO)
    house.inspan("run", "-", "-a", "scripted", "--model-from", model, stdin="x" * 100_000)
    shown = house.inspan("show").stdout
    assert f"prompt: {'x' * 51_200}\n[… 48800 more bytes]\n" in shown


def test_variables_of_the_command_line_reach_the_agent(house: House) -> None:
    house.run("scripted", "[[call]]\nrun = 'echo $COLOUR > seen'\n" + SAYS_HELLO, "--env", "COLOUR=a=b c")
    assert (house.work / "seen").read_text() == "a=b c\n"


def test_the_run_happens_in_the_folder_that_was_named(house: House) -> None:
    (house.work / "deep").mkdir()
    run = house.run("scripted", "[[call]]\nrun = 'pwd > where'\n" + SAYS_HELLO, "-C", "deep")
    assert (house.work / "deep" / "where").read_text() == f"{house.work / 'deep'}\n"
    assert run.events[0]["cwd"] == str(house.work / "deep")


def test_projects_and_tasks_are_folders_of_the_state(house: House) -> None:
    run = house.run("scripted", SAYS_HELLO, "--project", "boat", "--task", "hull")
    assert house.folder() == house.state / "projects" / "boat" / "hull" / "runs" / run.run_id


def test_a_program_named_by_a_relative_path_is_found_from_any_working_folder(house: House) -> None:
    named = os.path.relpath(house.env["INSPAN_CODEX_BIN"], house.work)
    (house.work / "deep").mkdir()
    run = house.run("codex", SAYS_HELLO, "-C", "deep", env={"INSPAN_CODEX_BIN": named})
    assert (run.code, run.stdout) == (0, "hello\n")


def test_a_secret_that_is_not_utf8_is_no_hindrance(house: House) -> None:
    model = house.scenario("[[call]]\nrun = 'cat secret'\n" + SAYS_HELLO)
    secret = b"s3cr3t-\xff\xfe-0123456789"
    (house.work / "secret").write_bytes(secret)
    env = {**{name.encode(): value.encode() for name, value in house.env.items()}, b"DEPLOY_TOKEN": secret}
    argv = house.argv("run", "do it", "-a", "scripted", "--model-from", model)
    done = subprocess.run(argv, env=env, cwd=house.work, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"hello\n"), done.stderr


def test_a_relative_state_folder_is_ignored_as_the_xdg_rules_say(house: House) -> None:
    env = {"XDG_STATE_HOME": "state-here"}
    model = house.scenario(SAYS_HELLO)
    done = house.inspan("run", "do it", "-a", "scripted", "--model-from", model, env=env)
    assert done.returncode == 0
    assert not (house.work / "state-here").exists()
    assert (house.root / "home" / ".local" / "state" / "inspan").is_dir()
    house.inspan("rm", "@last", env=env)
