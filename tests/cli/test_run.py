"""`inspan run`: what goes where, how it leaves, and prompts of every kind."""

import json
import os
import re
import subprocess

import pytest

from inspan.protocol.ids import make_short_name
from tests.cli_env import CliEnv, wait_until

from .refusal import expect_refusal
from .scenarios import FAILS, SAYS_HELLO, WAITS, last_event, release_tool

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


def test_the_answer_goes_to_stdout_and_progress_to_stderr(cli_env: CliEnv) -> None:
    run = cli_env.run("scripted", CHANGES_A_FILE)
    assert (run.code, run.stdout) == (0, "written\n")
    first, second, *_, outcome, files, spent = run.stderr.splitlines()
    version, script = run.events[0]["agent_version"], run.events[0]["model_from"].rpartition("/")[2]
    assert first == f"▶ scripted {version} · {cli_env.work} · full access, network open · scripted model {script}"
    assert second == f"  run {make_short_name(run.run_id)} ({run.run_id}) · ends after 10m (--timeout)"
    assert re.fullmatch(r"✔ completed in \d+\.\ds", outcome)
    assert files == f"  files changed: {cli_env.work / 'new.txt'}"
    assert spent == "  tokens: 200 in, 40 cache read, 20 cache write, 14 out (6 reasoning) · cost: not paid"


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_real_agent_is_shown_the_same_way(cli_env: CliEnv, agent: str) -> None:
    run = cli_env.run(agent, CHANGES_A_FILE)
    assert (run.code, run.stdout) == (0, "written\n")
    assert run.stderr.startswith(f"▶ {agent} ")
    ending = rf"✔ completed in \d+\.\ds\n  files changed: {cli_env.work / 'new.txt'}\n  tokens: .* · cost: not paid\n"
    assert re.search(rf"^{ending}\Z", run.stderr, re.MULTILINE), run.stderr


def test_a_failed_run_says_what_to_do_and_has_no_answer(cli_env: CliEnv) -> None:
    run = cli_env.run("scripted", FAILS)
    assert (run.code, run.stdout) == (1, "")
    assert "✘ failed (overloaded) in " in run.stderr
    assert f"\n  → {run.ended['next']}\n" in run.stderr


def test_in_a_pipe_a_failure_is_told_once_and_events_tell_all(cli_env: CliEnv) -> None:
    failing = '[[call]]\nfail = {status = 529, message = "Come back later."}\nrepeat = "always"\n'
    run = cli_env.run("codex", failing)
    assert run.stderr.count("529") == run.stderr.count("Come back later.") == 1
    assert "\n  529 Come back later.\n" in run.stderr
    assert "turn_failed" in cli_env.kinds(run.run_id)
    assert cli_env.inspan("logs", run.run_id).stdout.count("Come back later.") == 1


def test_in_a_pipe_the_last_minute_is_told_once(cli_env: CliEnv) -> None:
    argv = cli_env.argv("run", "do it", "-a", "scripted", "--timeout", "61", "--model-from", cli_env.scenario(WAITS))
    with subprocess.Popen(argv, cwd=cli_env.work, env=cli_env.env, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        told: list[str] = []
        for line in process.stderr:
            told.append(line)
            if line.startswith("◷"):
                release_tool(cli_env)
    # Who comes to it more than a second later says how much it is by then.
    (warning,) = [line for line in told if "left" in line]
    words = r"◷ (a minute|\d+\.\ds) left: the run is ended after 1m01s \(--timeout\)\n"
    assert re.fullmatch(words, warning), warning
    assert process.returncode == 0


def test_json_prints_the_log_as_it_grows_and_nothing_else(cli_env: CliEnv) -> None:
    run = cli_env.run("scripted", SAYS_HELLO, "--json")
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert (run.code, run.stderr) == (0, "")
    assert [line["event"] for line in lines] == run.events
    assert [line["n"] for line in lines] == list(range(1, len(lines) + 1))
    assert {line["schema"] for line in lines} == {1}
    assert all(line.keys() == {"schema", "n", "t", "event"} for line in lines)


def test_quiet_prints_only_the_answer(cli_env: CliEnv) -> None:
    run = cli_env.run("scripted", SAYS_HELLO, "--quiet")
    assert (run.code, run.stdout, run.stderr) == (0, "hello\n", "")


def test_quiet_does_not_hide_a_failure(cli_env: CliEnv) -> None:
    run = cli_env.run("scripted", FAILS, "--quiet")
    assert (run.code, run.stdout) == (1, "")
    assert run.stderr.startswith("✘ failed (overloaded) in ")


def test_a_detached_run_prints_only_its_id(cli_env: CliEnv) -> None:
    done = cli_env.inspan("run", "do it", "-d", "-a", "scripted", "--model-from", cli_env.scenario(SAYS_HELLO))
    run_id = cli_env.folder().name
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{run_id}\n", "")


def test_a_detached_run_gives_its_id_as_json(cli_env: CliEnv) -> None:
    done = cli_env.inspan(
        "run", "do it", "-d", "--json", "-a", "scripted", "--model-from", cli_env.scenario(SAYS_HELLO)
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"schema": 1, "run_id": cli_env.folder().name}


def test_a_detached_run_outlives_its_command_and_holds_none_of_its_streams(cli_env: CliEnv) -> None:
    model = cli_env.scenario("[[call]]\nrun = 'touch started; while [ ! -e go ]; do sleep 0.02; done'\n" + SAYS_HELLO)
    process = cli_env.start("run", "do it", "-d", "-a", "scripted", "--model-from", model)
    # Ends only when every copy of the pipes is closed, however long the run goes on.
    run_id = process.communicate(timeout=120)[0].decode().strip()
    wait_until(lambda: (cli_env.work / "started").exists(), "tool")
    assert last_event(cli_env, run_id)["kind"] != "run_ended"
    release_tool(cli_env)
    assert cli_env.inspan("wait", run_id).returncode == 0


def test_two_runs_can_be_started_at_once(cli_env: CliEnv) -> None:
    model = cli_env.scenario(SAYS_HELLO)
    both = [cli_env.start("run", "do it", "-d", "-a", "scripted", "--model-from", model) for _ in range(2)]
    ids = {process.communicate(timeout=120)[0].decode().strip() for process in both}
    assert len(ids) == 2
    assert cli_env.inspan("wait", *ids).returncode == 0
    assert set(cli_env.inspan("ps", "-aq").stdout.split()) == ids


@pytest.mark.parametrize(("scenario", "more", "code", "reason"), ENDS, ids=[reason for *_, reason in ENDS])
def test_the_exit_code_tells_how_the_run_ended(
    cli_env: CliEnv, scenario: str, more: tuple[str, ...], code: int, reason: str
) -> None:
    run = cli_env.run("scripted", scenario, *more)
    assert (run.code, run.ended["reason"]) == (code, reason)


def test_limits_can_be_switched_off(cli_env: CliEnv) -> None:
    off = [word for name in ("", "start-", "idle-", "stall-") for word in (f"--{name}timeout", "off")]
    run = cli_env.run("scripted", SAYS_HELLO, *off)
    described = json.loads((cli_env.folder() / "run.json").read_text())
    limits = {"timeout_s": None, "start_timeout_s": None, "stall_timeout_s": None}
    assert (run.code, described["task"]["limits"]) == (0, limits)


@pytest.mark.parametrize(
    "prompt",
    ["x" * (1 << 20), "naïve 🦀 \u202e 漢字", "before\0after", "- begins like an option", "two\nlines\n"],
    ids=["1 MB", "emoji", "NUL", "dash", "lines"],
)
def test_a_prompt_from_stdin_reaches_the_agent_as_it_is(cli_env: CliEnv, prompt: str) -> None:
    model = cli_env.scenario(f"[[call]]\nexpect = {json.dumps(prompt[-20:], ensure_ascii=False)}\nsay = 'hello'\n")
    done = cli_env.inspan("run", "-", "-a", "scripted", "--model-from", model, stdin=prompt)
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
    assert (cli_env.folder() / "prompt.md").read_text() == prompt


def test_a_prompt_with_emoji_can_be_an_argument(cli_env: CliEnv) -> None:
    model = cli_env.scenario("[[call]]\nexpect = 'naïve 🦀'\nsay = '🦀'\n")
    done = cli_env.inspan("run", "naïve 🦀", "-a", "scripted", "--model-from", model)
    assert (done.returncode, done.stdout) == (0, "🦀\n")


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_prompt_of_a_megabyte_reaches_a_real_agent(cli_env: CliEnv, agent: str) -> None:
    model = cli_env.scenario("[[call]]\nexpect = 'the last words'\nsay = 'hello'\n")
    # Codex takes 1 048 576 characters at most.
    prompt = "a line of a prompt.\n" * 50_000 + "the last words"
    done = cli_env.inspan("run", "-", "-a", agent, "--profile", "clean", "--model-from", model, stdin=prompt)
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr


def test_a_long_prompt_is_cut_where_it_is_shown(cli_env: CliEnv) -> None:
    model = cli_env.scenario(SAYS_HELLO)
    cli_env.inspan("run", "-", "-a", "scripted", "--model-from", model, stdin="x" * 100_000)
    shown = cli_env.inspan("show").stdout
    assert f"prompt: {'x' * 51_200}\n[… 48800 more bytes]\n" in shown


def test_variables_of_the_command_line_reach_the_agent(cli_env: CliEnv) -> None:
    cli_env.run("scripted", "[[call]]\nrun = 'echo $COLOUR > seen'\n" + SAYS_HELLO, "--env", "COLOUR=a=b c")
    assert (cli_env.work / "seen").read_text() == "a=b c\n"


def test_the_run_happens_in_the_folder_that_was_named(cli_env: CliEnv) -> None:
    (cli_env.work / "deep").mkdir()
    run = cli_env.run("scripted", "[[call]]\nrun = 'pwd > where'\n" + SAYS_HELLO, "-C", "deep")
    assert (cli_env.work / "deep" / "where").read_text() == f"{cli_env.work / 'deep'}\n"
    assert run.events[0]["cwd"] == str(cli_env.work / "deep")


def test_projects_and_tasks_are_folders_of_the_state(cli_env: CliEnv) -> None:
    run = cli_env.run("scripted", SAYS_HELLO, "--project", "boat", "--task", "hull")
    assert cli_env.folder() == cli_env.state / "projects" / "boat" / "hull" / "runs" / run.run_id


def test_a_program_named_by_a_relative_path_is_found_from_any_working_folder(cli_env: CliEnv) -> None:
    named = os.path.relpath(cli_env.env["INSPAN_CODEX_BIN"], cli_env.work)
    (cli_env.work / "deep").mkdir()
    run = cli_env.run("codex", SAYS_HELLO, "-C", "deep", env={"INSPAN_CODEX_BIN": named})
    assert (run.code, run.stdout) == (0, "hello\n")


def test_a_secret_that_is_not_utf8_is_no_hindrance(cli_env: CliEnv) -> None:
    model = cli_env.scenario("[[call]]\nrun = 'cat secret'\n" + SAYS_HELLO)
    secret = b"s3cr3t-\xff\xfe-0123456789"
    (cli_env.work / "secret").write_bytes(secret)
    env = {**{name.encode(): value.encode() for name, value in cli_env.env.items()}, b"DEPLOY_TOKEN": secret}
    argv = cli_env.argv("run", "do it", "-a", "scripted", "--model-from", model)
    done = subprocess.run(argv, env=env, cwd=cli_env.work, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"hello\n"), done.stderr


def test_a_relative_state_folder_is_ignored_as_the_xdg_rules_say(cli_env: CliEnv) -> None:
    env = {"XDG_STATE_HOME": "state-here"}
    model = cli_env.scenario(SAYS_HELLO)
    done = cli_env.inspan("run", "do it", "-a", "scripted", "--model-from", model, env=env)
    assert done.returncode == 0
    assert not (cli_env.work / "state-here").exists()
    assert (cli_env.root / "home" / ".local" / "state" / "inspan").is_dir()
    cli_env.inspan("rm", "@last", env=env)


def test_no_limit_of_turns_can_be_asked_for_where_the_configuration_has_one(cli_env: CliEnv) -> None:
    (cli_env.root / "home" / ".config" / "inspan").mkdir(parents=True)
    (cli_env.root / "home" / ".config" / "inspan" / "config.toml").write_text("[limits]\nmax_turns = 1\n")
    scenario = "[[call]]\nrun = 'true'\nrepeat = 3\n[[call]]\nsay = 'done'\n"
    assert cli_env.run("scripted", scenario, "--max-turns", "off").verdict == ("completed", "done", 0)


def test_a_folder_with_the_longest_name_is_worked_in(cli_env: CliEnv) -> None:
    deep = cli_env.work / ("l" * 255)
    deep.mkdir()
    done = cli_env.run("scripted", SAYS_HELLO, "-C", str(deep))
    assert done.verdict == ("completed", "done", 0), done.stderr
    assert cli_env.inspan("show", cwd=deep).returncode == 0


def test_an_agent_that_cannot_resume_is_asked_again_from_the_beginning(cli_env: CliEnv) -> None:
    schema = cli_env.root / "schema.json"
    schema.write_text('{"type": "integer"}')
    again = "[[call]]\nwhen = 'could not be used'\nsay = '7'\n"
    model = cli_env.scenario(again + "[[call]]\nsay = 'seven'\nrepeat = 'always'\n")
    run = ("run", "count", "-a", "scripted", "--schema", str(schema), "--model-from", model)
    done = cli_env.inspan(*run)
    assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr
    assert "asking again (1 of 2)" in done.stderr


def test_a_scenario_that_is_no_file_is_refused_before_the_run(cli_env: CliEnv) -> None:
    os.mkfifo(cli_env.root / "pipe.toml")
    refusal = expect_refusal(cli_env, "run", "x", "-a", "scripted", "--model-from", f"script:{cli_env.root}/pipe.toml")
    assert (refusal.exit_code, "is not a file" in refusal.message) == (2, True), refusal


def test_a_schema_and_a_scenario_may_begin_with_a_byte_order_mark(cli_env: CliEnv) -> None:
    schema = cli_env.root / "schema.json"
    schema.write_text('\ufeff{"type": "integer"}')
    done = cli_env.run("codex", "\ufeff[[call]]\nsay = '7'\n", "--mode", "complete", "--schema", str(schema))
    assert done.verdict == ("completed", "done", 0), done.stderr
