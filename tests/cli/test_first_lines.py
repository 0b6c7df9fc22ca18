"""What a run says of itself before it begins, for each way to start one."""

import pytest

from inspan.protocol.ids import make_short_name
from tests.cli_env import CliEnv

SAYS = "[[call]]\nsay = 'hello'\n"
READ = ("--allow-tool", "Read")


@pytest.mark.parametrize(
    ("agent", "flags", "words"),
    [
        ("scripted", (), "full access, network open"),
        (
            "scripted",
            ("--sandbox", "bwrap"),
            "writes only in its folder, sees it and the system alone (bwrap), reaches nothing but its model",
        ),
        (
            "scripted",
            ("--net", "open", "--sandbox", "bwrap"),
            "writes only in its folder, sees it and the system alone (bwrap), network open",
        ),
        ("codex", ("--mode", "review"), "review · read only by the agent's own rules, network open"),
        ("codex", ("--mode", "complete"), "complete · no tools"),
        ("codex", ("-m", "some-model"), "full access, network open"),
    ],
)
def test_the_first_line_says_what_the_agent_may_do(
    cli_env: CliEnv, agent: str, flags: tuple[str, ...], words: str
) -> None:
    run = cli_env.run(agent, SAYS, *flags)
    model = "some-model · " if "some-model" in flags else ""
    version, script = run.events[0]["agent_version"], run.events[0]["model_from"].rpartition("/")[2]
    first = f"▶ {agent} {version} · {model}{cli_env.work} · {words} · scripted model {script}"
    assert run.stderr.splitlines()[0] == first


def test_the_second_line_says_what_will_end_it(cli_env: CliEnv) -> None:
    run = cli_env.run("scripted", SAYS, "--timeout", "90s", "--budget", "5calls", "--budget", "project=200ktok/day")
    name = make_short_name(run.run_id)
    line = (
        f"  run {name} ({run.run_id}) · budget 5calls · project's budget 200000tok/day · ends after 1m30s (--timeout)"
    )
    assert run.stderr.splitlines()[1] == line


def test_a_limit_that_is_off_is_not_told(cli_env: CliEnv) -> None:
    run = cli_env.run("scripted", SAYS, "--timeout", "off")
    assert run.stderr.splitlines()[1] == f"  run {make_short_name(run.run_id)} ({run.run_id})"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), "key in OPENAI_API_KEY via gateway to http://127.0.0.1:9/v1"),
        (("--direct",), "key in OPENAI_API_KEY direct to http://127.0.0.1:9/v1"),
    ],
)
def test_a_key_is_named_with_the_way_to_the_provider(cli_env: CliEnv, flags: tuple[str, ...], words: str) -> None:
    nowhere = ("--base-url", "http://127.0.0.1:9/v1", "--profile", "clean", "--timeout", "3s")
    done = cli_env.inspan("run", "do it", "-a", "codex", *nowhere, *flags, env={"OPENAI_API_KEY": "sk-of-nobody-4711"})
    assert done.stderr.splitlines()[0].endswith(f" · full access, network open · {words}"), done.stderr
    assert "sk-of-nobody" not in done.stderr
