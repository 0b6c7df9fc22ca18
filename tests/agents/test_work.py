"""The real agents do what their model says, and the log tells it the same way for all of them."""

from typing import Any

import pytest

from inspan.protocol.usage import Usage
from tests.cli_env import CliEnv

from .run_checks import DONE, End, check_end, run_to_end
from .styles import PER_CALL, Style, each_agent, each_style

SCRIPT = End(outcome="failed", reason="script", code=1)


@each_agent
def test_text_is_told_and_printed(cli_env: CliEnv, style: Style) -> None:
    run = cli_env.run(style.agent, '[[call]]\nexpect = "do it"\nsay = ["hello ", "there"]\n')
    assert [event["text"] for event in run.select_events("text_said")] == ["hello there"]
    assert run.stdout == "hello there\n"
    assert run.code == 0
    check_end(cli_env, run.run_id, end=DONE, usage=PER_CALL)


@each_agent
def test_text_is_told_to_an_ordinary_user(user_cli_env: CliEnv, style: Style) -> None:
    run_to_end(user_cli_env, style, '[[call]]\nsay = "hello"\n', usage=PER_CALL)


@each_style
def test_a_shell_command_runs_and_its_output_comes_back(cli_env: CliEnv, style: Style) -> None:
    scenario = """
        [[call]]
        run = "echo from-the-shell; echo written > by-shell.txt"
        usage = {input = 1000, output = 50, cache_read = 300, cache_write = 200, reasoning = 11}
        [[call]]
        expect = "from-the-shell"
        say = "Done."
        usage = {input = 2000, output = 70, cache_read = 400}
    """
    usage = Usage(input=3000, output=120, cache_read=700, cache_write=200, reasoning=11)
    ended = run_to_end(cli_env, style, scenario, usage=usage)
    assert ended.model_calls == 2
    assert (cli_env.work / "by-shell.txt").read_text() == "written\n"
    started, completed, executed = _events(cli_env, "tool_started", "tool_completed", "command_executed")
    assert started["id"] == completed["id"] == executed["id"]
    assert "echo from-the-shell" in executed["command"]
    assert (completed["output"], executed["exit_code"]) == ("from-the-shell", 0)


@each_style
def test_a_command_that_fails_does_not_fail_the_run(cli_env: CliEnv, style: Style) -> None:
    scenario = '[[call]]\nrun = "echo oh-no; exit 3"\n[[call]]\nexpect = "oh-no"\nsay = "It failed."\n'
    run_to_end(cli_env, style, scenario, usage=PER_CALL + PER_CALL)
    failed, executed = _events(cli_env, "tool_failed", "command_executed")
    assert "oh-no" in failed["output"]
    assert executed["exit_code"] == 3


@each_agent
def test_a_command_that_takes_a_while_is_told_like_any_other(cli_env: CliEnv, style: Style) -> None:
    # Claude Code speaks of a task once a command takes more than 3 s.
    scenario = "[[call]]\nrun = 'python3 -c \"import time; time.sleep(4)\"; echo slept'\n[[call]]\nsay = 'Done.'\n"
    run_to_end(cli_env, style, scenario, usage=PER_CALL + PER_CALL)
    completed, executed = _events(cli_env, "tool_completed", "command_executed")
    assert (completed["output"], executed["exit_code"]) == ("slept", 0)


@each_style
def test_files_are_written_and_edited_and_told(cli_env: CliEnv, style: Style) -> None:
    scenario = """
        [[call]]
        write = {path = "new.txt", content = "one\\ntwo\\n"}
        [[call]]
        edit = {path = "new.txt", old = "two", new = "three"}
        [[call]]
        say = "Done."
    """
    ended = run_to_end(cli_env, style, scenario, usage=PER_CALL + PER_CALL + PER_CALL)
    path = cli_env.work / "new.txt"
    assert path.read_text() == "one\nthree\n"
    changes = [(event["path"], event["change"]) for event in cli_env.events() if event["kind"] == "file_changed"]
    assert changes == [(str(path), "added"), (str(path), "modified")]
    assert (ended.files_changed, ended.model_calls) == ([str(path)], 3)


@each_agent
def test_the_working_folder_is_left_as_it_was(cli_env: CliEnv, style: Style) -> None:
    run_to_end(cli_env, style, '[[call]]\nsay = "hello"\n', usage=PER_CALL)
    assert list(cli_env.work.iterdir()) == []


@each_agent
@pytest.mark.parametrize(
    ("scenario", "complaint", "calls_answered"),
    [
        pytest.param(
            '[[call]]\nsay = "a"\n[[call]]\nsay = "b"\n', "Call 2 of 2 was never asked for.", 1, id="left-over"
        ),
        pytest.param('[[call]]\nrun = "echo hi"\n', "A request came after the last call", 1, id="one-too-many"),
        pytest.param(
            '[[call]]\nexpect = "tea"\nsay = "a"\n', "Call 1 expected 'tea', but what came", 0, id="unexpected"
        ),
    ],
)
def test_a_script_that_does_not_fit_fails_the_run(
    cli_env: CliEnv, style: Style, scenario: str, complaint: str, calls_answered: int
) -> None:
    usage = PER_CALL if calls_answered else Usage()
    ended = run_to_end(cli_env, style, scenario, end=SCRIPT, usage=usage)
    assert complaint in ended.message


def _events(cli_env: CliEnv, *kinds: str) -> list[dict[str, Any]]:
    """The events of these kinds, of which there must be one each."""
    found = {event["kind"]: event for event in cli_env.events() if event["kind"] in kinds}
    assert [kind for kind in cli_env.kinds() if kind in kinds] == list(kinds)
    return [{**found[kind], "output": found[kind].get("output", "").strip()} for kind in kinds]
