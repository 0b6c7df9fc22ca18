"""Blueprints on the real command line: values by name, side by side, people, failures, limits, ends."""

import json
import os
import re
import signal

import pytest

from inspan.protocol.ids import make_short_name
from tests.cli_env import kill_process, processes_of, wait_until

from .conftest import Blueprints

SAY = '[[call]]\nsay = "Done."\n'
IDLE = '[[call]]\nstall = "before-headers"\n'
WRITE = '[[call]]\nrun = "echo two > made.txt"\n[[call]]\nsay = "Done."\n'


def test_values_go_from_node_to_node_by_name(blueprints: Blueprints) -> None:
    run = blueprints.run(
        """
        [inputs.who]
        default = "world"
        [nodes.greet]
        kind = "command"
        run = 'printf "{\\"to\\": \\"%s\\"}" "$WHO"'
        env = { WHO = "{{who}}" }
        outputs = { greeting = "stdout", code = "exit_code" }
        [nodes.say]
        kind = "agent"
        agent = "scripted"
        prompt = "Greet {{greeting.to}}, code {{code}}."
        [nodes.look]
        kind = "check"
        run = 'test "$SAID" = Done. && test "$(cat made.txt)" = two'
        env = { SAID = "{{say}}" }
        """,
        "-i",
        "who=a $(touch planted) 'b'",
        model=blueprints.cli_env.scenario(WRITE),
    )
    assert (blueprints.code, blueprints.nodes(run)) == (0, dict.fromkeys(("greet", "say", "look"), "success"))
    assert blueprints.read_prompt(run, "say") == "Greet a $(touch planted) 'b', code 0."
    assert not (blueprints.cli_env.work / "planted").exists()
    ended = blueprints.cli_env.events(run)[-1]
    assert (ended["outcome"], ended["cost_kind"], ended["model_calls"]) == ("completed", "not_paid", 2)
    assert "✔ run: success" in blueprints.stderr and "── say (agent)" in blueprints.stderr


def test_what_needs_nothing_of_each_other_runs_at_the_same_time(blueprints: Blueprints) -> None:
    meet = "touch {0}; for i in $(seq 600); do test -e {1} && exit 0; sleep 0.1; done; exit 1"
    nodes = f"""
        [nodes.a]
        kind = "command"
        run = "{meet.format("a", "b")}"
        [nodes.b]
        kind = "command"
        run = "{meet.format("b", "a")}"
        """
    run = blueprints.run(nodes)
    assert blueprints.nodes(run) == {"a": "success", "b": "success"}
    (blueprints.cli_env.work / "a").unlink()
    (blueprints.cli_env.work / "b").unlink()
    one_at_a_time = blueprints.run(nodes.replace("600", "3"), "--jobs", "1")
    assert blueprints.code == 1
    assert sorted(blueprints.nodes(one_at_a_time).values()) == ["failed", "success"]


def test_a_failure_ends_what_needs_it_and_says_which(blueprints: Blueprints) -> None:
    run = blueprints.run(
        """
        [nodes.test]
        kind = "check"
        run = "echo broken; exit 3"
        [nodes.after]
        kind = "command"
        run = "true"
        after = ["test"]
        [nodes.apart]
        kind = "command"
        run = "true"
        """
    )
    assert blueprints.code == 1
    assert blueprints.nodes(run) == {"test": "failed", "after": "skipped", "apart": "success"}
    assert blueprints.cli_env.events(run)[-1]["reason"] == "node_failed"
    assert "inspan: test failed: It failed with exit code 3." in blueprints.stderr
    assert f"`inspan blueprint resume {run}` goes on from there" in blueprints.stderr


def test_what_has_finished_is_not_run_again(blueprints: Blueprints) -> None:
    first = blueprints.run(
        """
        [nodes.once]
        kind = "command"
        run = "echo x >> once; echo value"
        outputs = { value = "stdout" }
        [nodes.gate]
        kind = "check"
        run = 'test -e open && test "$VALUE" = value'
        env = { VALUE = "{{value}}" }
        """
    )
    assert blueprints.code == 1
    (blueprints.cli_env.work / "open").touch()
    second = blueprints.resume(first)
    assert blueprints.code == 0, blueprints.stderr
    assert (blueprints.cli_env.work / "once").read_text() == "x\n"
    assert blueprints.nodes(second) == {"gate": "success"}
    for again in (first, second):
        blueprints.resume(again)
        assert blueprints.code == 2
    assert "all of its nodes are done" in blueprints.stderr


def test_without_an_agent_at_work_nothing_was_paid(blueprints: Blueprints) -> None:
    run = blueprints.run(
        """
        [nodes.gate]
        kind = "check"
        run = "false"
        [nodes.work]
        kind = "agent"
        agent = "scripted"
        prompt = "work"
        after = ["gate"]
        """,
        model=blueprints.cli_env.scenario(IDLE),
    )
    assert blueprints.nodes(run) == {"gate": "failed", "work": "skipped"}
    assert "cost: not paid" in blueprints.stderr
    assert "cost: not paid" in blueprints.cli_env.inspan("blueprint", "report").stdout


def test_two_cannot_go_on_with_the_same_one(blueprints: Blueprints) -> None:
    first = blueprints.run('[nodes.a]\nkind = "check"\nrun = "test -e open"\n')
    second = blueprints.resume(first)
    blueprints.resume(first)
    assert blueprints.code == 2 and f"{second} goes on with it." in blueprints.stderr


def test_a_part_whose_rounds_are_spent_is_gone_on_with(blueprints: Blueprints) -> None:
    first = blueprints.run(
        """
        [nodes.work]
        kind = "command"
        run = 'echo "$BEFORE" >> log'
        env = { BEFORE = "{{previous.verdict}}" }
        [nodes.test]
        kind = "check"
        run = "wc -l < log; test $(wc -l < log) -ge 4"
        after = ["work"]
        outputs = { verdict = "stdout" }
        [loops.again]
        nodes = ["work", "test"]
        until = "test"
        """
    )
    assert blueprints.code == 1
    second = blueprints.resume(first)
    assert blueprints.code == 0, blueprints.stderr
    rounds = [(each["node"], each["round"]) for each in blueprints.select(second, "node_ended")]
    assert rounds == [("work", 4), ("test", 4)]
    assert (blueprints.cli_env.work / "log").read_text() == "\n1\n2\n3\n"


def test_a_part_is_run_again_until_its_check_passes(blueprints: Blueprints) -> None:
    run = blueprints.run(
        """
        [nodes.work]
        kind = "command"
        run = 'echo "$BEFORE" >> log; wc -l < log'
        env = { BEFORE = "{{previous.verdict}}" }
        outputs = { count = "stdout" }
        [nodes.test]
        kind = "check"
        run = 'echo "only $COUNT"; test "$COUNT" -ge 3'
        env = { COUNT = "{{count}}" }
        outputs = { verdict = "stdout" }
        [nodes.last]
        kind = "command"
        run = 'echo "$COUNT" > last'
        env = { COUNT = "{{count}}" }
        [loops.again]
        nodes = ["work", "test"]
        until = "test"
        rounds = 5
        """
    )
    assert blueprints.code == 0, blueprints.stderr
    rounds = [(each["node"], each.get("round", 1), each["status"]) for each in blueprints.select(run, "node_ended")]
    assert rounds == [
        *(("work", 1, "success"), ("test", 1, "failed"), ("work", 2, "success"), ("test", 2, "failed")),
        *(("work", 3, "success"), ("test", 3, "success"), ("last", 1, "success")),
    ]
    assert (blueprints.cli_env.work / "log").read_text() == "\nonly 1\nonly 2\n"
    assert (blueprints.cli_env.work / "last").read_text() == "3\n"


_ASK = """
    [nodes.ask]
    kind = "person"
    question = "Which way?"
    options = ["left", "right"]
    [nodes.go]
    kind = "command"
    run = 'echo "$WAY" > way'
    env = { WAY = "{{ask}}" }
    """


def test_a_person_is_waited_for(blueprints: Blueprints) -> None:
    cli_env = blueprints.cli_env
    run = blueprints.start(_ASK)
    cli_env.wait_for_events(run, "question_asked")
    assert "needs you: Which way?" in cli_env.inspan("ps").stdout
    assert "Which way?" in cli_env.inspan("approvals").stdout
    refused = cli_env.inspan("approve", "ask", "--answer", "up")
    assert refused.returncode != 0 and "'up' is none of left, right" in refused.stderr
    assert cli_env.inspan("approve", "ask", "--answer", "left").returncode == 0
    assert cli_env.inspan("wait", run).returncode == 0
    assert (cli_env.work / "way").read_text() == "left\n"


def test_files_of_which_nobody_knows_are_told_of_the_node_and_of_all(blueprints: Blueprints) -> None:
    blueprints.make_repository(kept="1")
    model = blueprints.cli_env.scenario('[[call]]\nrun = "mv .git gone; rm kept"\n[[call]]\nsay = "Done."\n')
    run = blueprints.run('[nodes.a]\nkind = "agent"\nagent = "scripted"\nprompt = "do it"\n', model=model)
    (node,) = blueprints.select(run, "node_ended")
    assert node["files_unknown"] and blueprints.cli_env.events(run)[-1]["files_unknown"]
    _, told = blueprints.stderr.split("✔ a: success")
    assert "  files changed: unknown\n" in told, blueprints.stderr
    assert ">unknown<" in (blueprints.cli_env.folder(run) / "report.html").read_text()


_GIVE = """
    [nodes.j]
    kind = "command"
    run = "cat given"
    [nodes.use]
    kind = "command"
    run = 'echo "$PART" > part'
    env = { PART = "{{j.part}}" }
    """


def test_what_a_command_gives_is_whole_or_said_to_be_cut(blueprints: Blueprints) -> None:
    given = blueprints.cli_env.work / "given"
    given.write_text(json.dumps({"long": "x" * 130_000, "part": "yes"}))
    run = blueprints.run(_GIVE)
    assert blueprints.nodes(run) == {"j": "success", "use": "success"}, blueprints.stderr
    assert (blueprints.cli_env.work / "part").read_text() == "yes\n"
    given.write_text(json.dumps({"long": "x" * 140_000, "part": "yes"}))
    run = blueprints.run(_GIVE)
    assert blueprints.nodes(run) == {"j": "success", "use": "failed"}
    assert "j was too long to be kept whole" in blueprints.stderr and '{ j = "stdout" }' in blueprints.stderr


def test_whoever_follows_sees_what_is_asked_and_how_to_answer(blueprints: Blueprints) -> None:
    cli_env = blueprints.cli_env
    process = cli_env.start(*blueprints.build(blueprints.write(_ASK)))
    (run,) = wait_until(blueprints.list_ids, "the blueprint")
    cli_env.wait_for_events(run, "question_asked")
    words = ("approve", f"{make_short_name(run)}/ask", "--answer")
    assert cli_env.inspan(*words, "left").returncode == 0
    _, stderr = process.communicate(timeout=120)
    told = stderr.decode()
    assert (process.returncode, "? Which way? (left / right)\n" in told) == (0, True), told
    assert f"  → inspan {' '.join(words)} TEXT\n" in told and "  left\n" in told, told


def test_an_answer_that_is_not_confirmed_is_not_said_to_be_lost(blueprints: Blueprints) -> None:
    cli_env = blueprints.cli_env
    run = blueprints.start(_ASK)
    cli_env.wait_for_events(run, "question_asked")
    os.kill(pid := cli_env.supervisor(run), signal.SIGSTOP)
    try:
        done = cli_env.inspan("approve", f"{run}/ask", "--answer", "left")
    finally:
        os.kill(pid, signal.SIGCONT)
    told = f"Blueprint {run} did not confirm this in time, and may still take it."
    assert (done.returncode, told in done.stderr, "chat" in done.stderr) == (1, True, False), done.stderr
    cli_env.wait_for_end(run)
    assert (cli_env.work / "way").read_text() == "left\n"


def test_of_two_that_ask_by_the_same_name_each_is_answered(blueprints: Blueprints) -> None:
    cli_env = blueprints.cli_env
    one, other = blueprints.start(_ASK, "--name", "one"), blueprints.start(_ASK)
    for run in (one, other):
        cli_env.wait_for_events(run, "question_asked")
    refused = cli_env.inspan("approve", "ask", "--answer", "left")
    assert f"Name the run, too: {one}/ask, {other}/ask" in refused.stderr and refused.returncode != 0
    assert cli_env.inspan("approve", "one/ask", "--answer", "right").returncode == 0
    cli_env.wait_for_end(one)
    assert (cli_env.work / "way").read_text() == "right\n"
    assert cli_env.inspan("deny", f"{other}/ask").returncode == 0
    cli_env.wait_for_end(other)
    assert blueprints.nodes(other)["ask"] == "failed"


@pytest.mark.parametrize(
    ("more", "words", "error", "code"),
    [
        ("", ("deny", "ask", "--why", "not today"), "Somebody said no: not today.", 1),
        ('timeout = "0.5s"', (), "Nobody answered in time.", 3),
        ("", ("stop", "@last"), "It was stopped before it had ended.", 143),
    ],
    ids=["no", "nobody", "stopped"],
)
def test_without_an_answer_it_fails(
    blueprints: Blueprints, more: str, words: tuple[str, ...], error: str, code: int
) -> None:
    cli_env = blueprints.cli_env
    run = blueprints.start(f'[nodes.ask]\nkind = "person"\nquestion = "Go on?"\n{more}\n')
    cli_env.wait_for_events(run, "question_asked")
    if words:
        assert cli_env.inspan(*words).returncode == 0
    assert cli_env.inspan("wait", run).returncode == code
    (ended,) = blueprints.select(run, "node_ended")
    assert (ended["status"], ended["error"]) == ("failed", error)
    assert cli_env.inspan("approvals").stdout.strip().count("ask") == 0


def test_one_that_is_stopped_leaves_nothing_behind(blueprints: Blueprints) -> None:
    cli_env = blueprints.cli_env
    run = blueprints.start(
        """
        [nodes.wait]
        kind = "command"
        run = "touch begun; sleep 1000"
        [nodes.agent]
        kind = "agent"
        agent = "scripted"
        prompt = "wait"
        """,
        model=cli_env.scenario(IDLE),
    )
    wait_until((cli_env.work / "begun").exists, "the command")
    wait_until(lambda: len(blueprints.describe_runs()) == 3, "the agent's run")
    assert cli_env.inspan("stop", run).returncode == 0
    assert cli_env.inspan("wait", run).returncode == 143
    assert set(blueprints.nodes(run).values()) == {"failed"}
    for each in blueprints.describe_runs():
        cli_env.wait_for_end(each)
        assert processes_of(each) == []


def test_its_time_is_limited(blueprints: Blueprints) -> None:
    run = blueprints.run('timeout = "1s"\n[nodes.wait]\nkind = "command"\nrun = "sleep 1000"\n')
    assert blueprints.code == 124
    assert "the 1 s of the blueprint are over" in blueprints.stderr
    assert processes_of(run) == []


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("kill -9 $$", "It failed with exit code 137."),
        ("head -c 100000000 /dev/zero | tr '\\\\0' x", "bytes more than are kept"),
        ("sleep 1000", "It took too long: give it longer with `timeout`."),
        ("/no/such/program", "It failed with exit code 127."),
    ],
    ids=["kills its shell", "prints 100 MB", "hangs", "is not there"],
)
def test_a_command_that_misbehaves_has_failed(blueprints: Blueprints, command: str, error: str) -> None:
    limit = 'timeout = "1s"' if "sleep" in command else ""
    run = blueprints.run(f'[nodes.a]\nkind = "command"\nrun = "{command}"\n{limit}\noutputs = {{ x = "stdout" }}\n')
    (ended,) = blueprints.select(run, "node_ended")
    assert (blueprints.code, ended["status"]) == (1 if "sleep" not in command else 124, "failed")
    assert error in ended["error"]
    assert (blueprints.cli_env.folder(run) / "events.jsonl").stat().st_size < 1_000_000
    assert processes_of(run) == []


def test_secrets_are_not_written_down_whatever_the_pieces(blueprints: Blueprints) -> None:
    secret = "sk-very-secret-0123456789abcdef"
    # A few characters at a time, with pauses in which what is there is written down.
    piece = 'printf "%s" "$MY_API_KEY" | cut -c $((i+1))-$((i+4)) | tr -d "\\\\n"; sleep 0.15'
    text = f"[nodes.a]\nkind = 'command'\nrun = '''for i in $(seq 0 4 31); do {piece}; done'''\n"
    run = blueprints.run(text, "--env", f"MY_API_KEY={secret}")
    assert blueprints.code == 0, blueprints.stderr
    for path in blueprints.cli_env.folder(run).rglob("*"):
        if path.is_file():
            found = path.read_bytes()
            assert secret.encode() not in found, path
    shown = "".join(event["text"] for event in blueprints.select(run, "node_output"))
    assert shown.strip() == "[REDACTED:MY_API_KEY]"
    assert secret not in blueprints.stderr


def test_the_best_attempt_is_brought_in(blueprints: Blueprints) -> None:
    cli_env = blueprints.cli_env
    blueprints.make_repository(n="0")
    attempts = "".join(
        f'[nodes.try-{number}]\nkind = "agent"\nagent = "scripted"\nsandbox = "worktree"\nprompt = "write {number}"\n'
        for number in (1, 2)
    )
    for number in (1, 2):
        cli_env.scenario(f'[[call]]\nrun = "echo {number} > n"\n[[call]]\nsay = "I wrote {number}."\n', f"try-{number}")
    model = f"script:{cli_env.root}/{{node}}.toml"
    run = blueprints.run(
        attempts
        + """
        [nodes.test-1]
        kind = "check"
        run = "grep -q 2 n"
        where = "try-1"
        allow_failure = true
        [nodes.test-2]
        kind = "check"
        run = "grep -q 2 n"
        where = "try-2"
        allow_failure = true
        outputs = { code = "exit_code" }
        [nodes.bring]
        kind = "apply"
        of = "try-2"
        after = ["test-1"]
        unless = "code"
        """,
        model=model,
    )
    assert blueprints.code == 0, blueprints.stderr
    assert blueprints.nodes(run)["test-1"] == "failed"
    assert (cli_env.work / "n").read_text() == "2\n"
    assert json.loads(blueprints.outputs(run)["bring"]) == ["n"]


def test_an_agents_node_may_go_on_with_the_session_of_another(blueprints: Blueprints) -> None:
    run = blueprints.run(
        """
        [nodes.first]
        kind = "agent"
        agent = "codex"
        prompt = "begin"
        [nodes.second]
        kind = "agent"
        resume = "first"
        prompt = "go on"
        """,
        model=blueprints.cli_env.scenario(SAY),
    )
    assert blueprints.code == 0, blueprints.stderr
    runs = [each["runs"][0] for each in blueprints.select(run, "node_ended")]
    sessions = {blueprints.cli_env.events(each)[-1]["session_id"] for each in runs}
    assert len(runs) == 2 and len(sessions) == 1


def test_a_budget_is_for_all_of_it(blueprints: Blueprints) -> None:
    text = """
        budget = ["1calls"]
        [nodes.a]
        kind = "agent"
        agent = "scripted"
        prompt = "a"
        [nodes.b]
        kind = "agent"
        agent = "scripted"
        prompt = "b"
        after = ["a"]
        """
    run = blueprints.run(text, model=blueprints.cli_env.scenario(SAY))
    assert (blueprints.code, blueprints.nodes(run)) == (6, {"a": "success", "b": "failed"})
    assert blueprints.cli_env.events(run)[-1]["reason"] == "budget"
    done = blueprints.cli_env.inspan("blueprint", "resume", run, "--budget", "9calls")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("text", "words", "problem"),
    [
        ('[nodes.a]\nkind = "agent"\nagent = "nobody"\nprompt = "x"\n', (), "Node a: agent 'nobody': "),
        (
            '[nodes.a]\nkind = "agent"\nagent = "scripted"\nverify = "scripted"\nprompt = "x"\n',
            (),
            "Node a: --verify scripted: mode 'review': Built-in scripted agent does not support this.",
        ),
        ('[nodes.a]\nkind = "command"\nrun = "x"\n', ("--jobs", "0"), "--jobs 0: nothing would ever run."),
        ('[nodes.a]\nkind = "command"\nrun = "x"\n', ("--jobs", "off"), "'off' is not a valid integer"),
        ('[nodes.a]\nkind = "command"\nrun = "x"\n', ("-i", "a"), "--input 'a': it has no name."),
        ('[nodes.a]\nkind = "command"\nrun = "x"\nnet = "open"\n', ("--net", "gateway"), "nodes.a.net 'open': "),
        (
            '[nodes.a]\nkind = "agent"\nagent = "scripted"\nprompt = "x"\nsandbox = "none"\n',
            ("--sandbox", "bwrap"),
            "nodes.a.sandbox 'none': it was started with --sandbox bwrap.",
        ),
        (
            '[nodes.a]\nkind = "agent"\nagent = "scripted"\nprompt = "x"\nread = ["/srv"]\n',
            ("--sandbox", "bwrap"),
            "nodes.a.read '/srv': it was started with --read nothing.",
        ),
        (
            '[nodes.a]\nkind = "command"\nrun = "x"\nnet = "open"\n',
            ("--sandbox", "bwrap"),
            "nodes.a.net 'open': it was started with --net gateway.",
        ),
        (
            '[nodes.a]\nkind = "command"\nrun = "x"\nsandbox = "auto"\n',
            ("--net", "none"),
            "nodes.a.sandbox 'auto': it was started with --sandbox bwrap.",
        ),
        (
            '[nodes.a]\nkind = "agent"\nagent = "scripted"\nprompt = "x"\nsandbox = "bwrap"\n'
            '[nodes.b]\nkind = "command"\nrun = "x"\nwhere = "a"\nsandbox = "none"\n',
            (),
            "nodes.b.sandbox 'none': the node a, which it works behind, has sandbox bwrap.",
        ),
    ],
)
def test_what_cannot_be_started_leaves_nothing(
    blueprints: Blueprints, text: str, words: tuple[str, ...], problem: str
) -> None:
    blueprints.run(text, *words, model=blueprints.cli_env.scenario(SAY))
    assert problem in blueprints.stderr and "Traceback" not in blueprints.stderr
    assert blueprints.code in (2, 5)
    assert list(blueprints.cli_env.state.glob("projects/*/*/runs/*")) == []


@pytest.mark.parametrize("configured", [False, True], ids=["asked for", "configured"])
def test_a_node_that_says_only_where_stays_in_the_sandbox_that_was_asked_for(
    blueprints: Blueprints, configured: bool
) -> None:
    cli_env = blueprints.cli_env
    outside = cli_env.root / "outside"
    text = f'[nodes.a]\nkind = "command"\nrun = "echo x > {outside}; echo y > inside"\n'
    if configured:
        assert cli_env.inspan("config", "set", "runtime.sandbox", "bwrap").returncode == 0
    blueprints.run(text, *(() if configured else ("--sandbox", "bwrap")))
    assert (cli_env.work / "inside").exists() and not outside.exists()


@pytest.mark.parametrize("configured", [False, True], ids=["asked for", "configured"])
def test_an_agent_in_a_worktree_of_its_own_stays_in_the_sandbox_that_was_asked_for(
    blueprints: Blueprints, configured: bool
) -> None:
    cli_env = blueprints.cli_env
    blueprints.make_repository()
    outside = cli_env.root / "outside"
    text = '[nodes.a]\nkind = "agent"\nagent = "scripted"\nsandbox = "worktree"\nprompt = "write"\n'
    model = cli_env.scenario(f'[[call]]\nrun = "echo x > {outside}; echo y > inside"\n[[call]]\nsay = "done"\n')
    if configured:
        assert cli_env.inspan("config", "set", "runtime.sandbox", "bwrap").returncode == 0
    blueprints.run(text, *(() if configured else ("--sandbox", "bwrap")), model=model)
    assert blueprints.code == 0, blueprints.stderr
    assert not outside.exists() and not (cli_env.work / "inside").exists()


def test_what_works_where_an_agent_did_is_confined_as_that_one_was(blueprints: Blueprints) -> None:
    cli_env = blueprints.cli_env
    blueprints.make_repository()
    outside = cli_env.root / "outside"
    write = f"echo x > {outside}; echo y >> inside"
    text = f"""
[nodes.a]
kind = "agent"
agent = "scripted"
sandbox = "worktree+bwrap"
net = "gateway"
prompt = "write"
[nodes.c]
kind = "command"
where = "a"
run = "{write}; cat inside; wc -l < /proc/net/dev"
[nodes.v]
kind = "agent"
agent = "scripted"
where = "a"
after = ["c"]
prompt = "write"
checks = ["{write}; test $(wc -l < inside) = 4"]
"""
    model = cli_env.scenario(f'[[call]]\nrun = "{write}"\n[[call]]\nsay = "done"\n')
    run = blueprints.run(text, model=model)
    assert (blueprints.code, outside.exists()) == (0, False), blueprints.stderr
    (ended,) = [each for each in cli_env.events(run) if each["kind"] == "node_ended" and each["node"] == "c"]
    assert ended["outputs"]["c"].startswith("y\ny\n3")  # Two lines of a head, and the sandbox's own loopback.


def test_a_plan_starts_nothing_and_a_picture_shows_what_became_of_it(blueprints: Blueprints) -> None:
    cli_env = blueprints.cli_env
    path = blueprints.write(
        '[nodes.a]\nkind = "check"\nrun = "exit 1"\n[nodes.b]\nkind = "command"\nrun = "b"\nafter = ["a"]\n'
    )
    refused = cli_env.inspan("blueprint", "plan", path, "--profile", "clean", "--jobs", "-1")
    assert refused.returncode == 2 and "--jobs -1: nothing would ever run." in refused.stderr
    planned = cli_env.inspan("blueprint", "plan", path, "--profile", "clean")
    assert planned.stdout.splitlines() == ["○ a  check    exit 1", "○ b  command  b  ← a"]
    assert not cli_env.state.exists() or list(cli_env.state.glob("projects/*/*/runs/*")) == []
    run = blueprints.run_named(path)
    shown = cli_env.inspan("blueprint", "show", run)
    assert shown.stdout.splitlines() == ["✘ a  check    exit 1", "– b  command  b  ← a"]
    svg = cli_env.inspan("blueprint", "show", run, "--svg", "-").stdout
    assert svg.startswith("<svg ") and "✘ a" in svg and "#cf222e" in svg


def test_it_leaves_a_report(blueprints: Blueprints) -> None:
    cli_env = blueprints.cli_env
    blueprints.make_repository()
    secret = cli_env.env["MADE_UP_API_KEY"] = "sk-made-up-0123456789abcdef"
    run = blueprints.run(
        """
        [nodes.a]
        kind = "agent"
        agent = "scripted"
        prompt = "write"
        [nodes.b]
        kind = "check"
        run = "echo '<script>alert(1)</script>'; exit 1"
        after = ["a"]
        """,
        model=cli_env.scenario(f'[[call]]\nrun = "echo {secret} > key"\n{WRITE}'),
    )
    report = json.loads(cli_env.inspan("blueprint", "report", run, "--json").stdout)
    assert [(each["node"], each["status"]) for each in report["nodes"]] == [("a", "success"), ("b", "failed")]
    assert report["status"] == "failed" and report["ended"]["reason"] == "node_failed"
    assert json.loads(cli_env.inspan("blueprint", "report", "--json").stdout) == report, "@last is the blueprint"
    text = cli_env.inspan("blueprint", "report", run).stdout
    assert text.startswith("✘ run: failed") and "b: It failed with exit code 1." in text
    page = cli_env.inspan("blueprint", "report", run, "--html", "-").stdout
    assert page.startswith("<!doctype html>") and "+two" in page and "+[REDACTED:MADE_UP_API_KEY]" in page
    assert "<script" not in page and not re.search(r"(src|href)=", page)
    stored = cli_env.folder(run)
    wait_until((stored / "report.html").exists, "the stored page")
    assert json.loads((stored / "report.json").read_text())["run_id"] == run
    assert secret not in page + (stored / "report.html").read_text()


def test_its_own_records_are_json_lines(blueprints: Blueprints) -> None:
    blueprints.run('[nodes.a]\nkind = "command"\nrun = "echo hello"\n', "--json")
    kinds = [json.loads(line)["event"]["kind"] for line in blueprints.stdout.splitlines()]
    assert kinds == ["run_started", "node_started", "node_output", "node_ended", "run_ended"]
    assert blueprints.stderr == ""


def test_a_file_of_python_is_a_blueprint(blueprints: Blueprints) -> None:
    text = "import inspan\nBLUEPRINT = inspan.Blueprint(nodes={'a': inspan.CommandNode(run='touch made')})\n"
    blueprints.run_named(blueprints.write(text, "work.py"))
    assert blueprints.code == 0 and (blueprints.cli_env.work / "made").exists()
    (blueprints.cli_env.root / "helper.py").write_text("COMMAND = 'touch helped'\n")
    blueprints.run_named(
        blueprints.write(f"import helper\n{text.replace(repr('touch made'), 'helper.COMMAND')}", "work.py")
    )
    assert blueprints.code == 0 and (blueprints.cli_env.work / "helped").exists()
    number = text.replace("'touch made'", "3")
    for text, problem in (
        ("x = 1", "it defines no BLUEPRINT"),
        (number, "it holds something else: Expected `str`, got `int`"),
        ("import inspan\nBLUEPRINT = inspan.Blueprint(nodes={'a': 3})", "it holds something else: Expected `object`"),
        ("1 / 0", "it failed with ZeroDivisionError"),
    ):
        blueprints.run_named(blueprints.write(text, "work.py"))
        assert blueprints.code == 2 and problem in blueprints.stderr and "Traceback" not in blueprints.stderr


def test_the_process_of_a_blueprint_dies_and_its_agents_go_on(blueprints: Blueprints) -> None:
    cli_env = blueprints.cli_env
    wait = '[[call]]\nrun = "touch begun; until [ -e go ]; do sleep 0.05; done; echo x >> turns"\n' + SAY
    run = blueprints.start(
        """
        [nodes.before]
        kind = "command"
        run = "echo x >> before"
        [nodes.agent]
        kind = "agent"
        agent = "codex"
        prompt = "work"
        after = ["before"]
        [nodes.after]
        kind = "check"
        run = "test -e turns"
        after = ["agent"]
        """,
        model=cli_env.scenario(wait),
    )
    wait_until((cli_env.work / "begun").exists, "the agent's turn")
    kill_process(cli_env.supervisor(run))
    wait_until(lambda: "lost" in cli_env.inspan("ps", "-a").stdout, "the loss")
    new = cli_env.inspan("recover", "--yes").stdout.strip()
    (cli_env.work / "go").touch()
    assert cli_env.inspan("wait", new).returncode == 0
    assert (cli_env.work / "before").read_text() == "x\n"
    assert (cli_env.work / "turns").read_text() == "x\n"
    assert blueprints.nodes(new) == {"agent": "success", "after": "success"}


LAZY = """
    [nodes.a]
    kind = "agent"
    agent = "scripted"
    sandbox = "worktree"
    prompt = "do it"
    {more}
    """


def test_what_works_where_an_agent_changed_nothing_works_in_its_worktree(blueprints: Blueprints) -> None:
    blueprints.make_repository(n="0")
    cli_env, seen = blueprints.cli_env, blueprints.cli_env.root / "seen"
    looks = "\n".join(
        f"""
        [nodes.look-{each}]
        kind = "check"
        where = "a"
        after = ["a"]
        run = "pwd >> {seen}; test -e n && echo x > left-{each}"
        """
        for each in (1, 2)
    )
    other = """
        [nodes.b]
        kind = "agent"
        agent = "scripted"
        where = "a"
        after = ["look-1", "look-2"]
        checks = ["pwd >> SEEN"]
        prompt = "do it"
        """.replace("SEEN", str(seen))
    run = blueprints.run(LAZY.format(more="") + looks + other, model=cli_env.scenario(SAY))
    assert blueprints.code == 0, blueprints.stderr
    assert set(blueprints.nodes(run).values()) == {"success"}
    (folder, *others) = seen.read_text().split()
    assert set(others) == {folder} and len(others) == 2 and folder.startswith(str(cli_env.state / "worktrees"))
    assert sorted(path.name for path in cli_env.work.iterdir() if path.name != ".git") == ["n"]


def test_a_worktree_that_a_check_works_in_is_not_removed_by_an_agent_that_leaves_it(blueprints: Blueprints) -> None:
    blueprints.make_repository(n="0")
    cli_env = blueprints.cli_env
    begun, gate = cli_env.root / "begun", cli_env.root / "gate"
    more = f"""
        [nodes.look]
        kind = "check"
        where = "a"
        after = ["a"]
        run = "touch {begun}; until test -e {gate}; do sleep 0.05; done; test -e n"
        [nodes.review]
        kind = "agent"
        agent = "scripted"
        where = "a"
        after = ["a"]
        checks = ["until test -e {begun}; do sleep 0.05; done"]
        prompt = "look at it"
        [nodes.over]
        kind = "command"
        after = ["review"]
        run = "touch {gate}"
        """
    blueprints.run(LAZY.format(more="") + more, model=cli_env.scenario(SAY))
    assert blueprints.code == 0, blueprints.stderr
    assert [path for path in cli_env.state.glob("worktrees/*/*") if path.is_dir()] == []


def test_without_the_worktree_of_a_node_that_never_began_nothing_works_elsewhere(blueprints: Blueprints) -> None:
    blueprints.make_repository(n="0")
    more = """
        [nodes.look]
        kind = "check"
        where = "a"
        after = ["a"]
        run = "touch left-by-check"
        [inputs.go]
        default = "no"
        """
    run = blueprints.run(LAZY.format(more='when = "go"') + more, model=blueprints.cli_env.scenario(SAY))
    assert (blueprints.code, blueprints.nodes(run)) == (1, {"a": "skipped", "look": "failed"})
    assert "it has not worked anywhere, so its worktree is not there" in blueprints.stderr
    assert not (blueprints.cli_env.work / "left-by-check").exists()


def test_an_agent_works_where_another_did_also_where_worktrees_are_configured(blueprints: Blueprints) -> None:
    blueprints.make_repository(n="0")
    cli_env, seen = blueprints.cli_env, blueprints.cli_env.root / "seen"
    assert cli_env.inspan("config", "set", "runtime.sandbox", "worktree").returncode == 0
    nodes = "\n".join(
        f"""
        [nodes.{name}]
        kind = "agent"
        agent = "scripted"
        checks = ["pwd >> {seen}"]
        prompt = "do it"
        {more}
        """
        for name, more in (("a", ""), ("b", 'where = "a"\nafter = ["a"]'))
    )
    blueprints.run(nodes, model=cli_env.scenario(WRITE))
    assert blueprints.code == 0, blueprints.stderr
    first, second = seen.read_text().split()
    assert first == second and first.startswith(str(cli_env.state / "worktrees"))


def test_the_task_folder_of_all_agents_tells_what_the_blueprint_is_about(blueprints: Blueprints) -> None:
    nodes = "".join(f'[nodes.{each}]\nkind = "agent"\nagent = "scripted"\nprompt = "only {each}"\n' for each in "ab")
    run = blueprints.run(f'about = "Both together."\n{nodes}', model=blueprints.cli_env.scenario(SAY))
    assert blueprints.code == 0, blueprints.stderr
    files = blueprints.cli_env.folder(run).parent.parent / "files"
    assert {path.name: path.read_text() for path in files.iterdir()} == {"TASK.md": "Both together."}
