"""A run whose agent spent tokens elsewhere than at its gateway is not completed; one that answered without says so."""

from collections.abc import Callable

import pytest

from tests.cli_env import CliEnv

from .test_unread_prompts import STREAM

Fake = Callable[[str, str], str]

_SILENT = STREAM.replace(', usage={"input_tokens": 3, "output_tokens": 4}', "")
_ANY = '[[call]]\nsay = "from the model"\nrepeat = "always"\n'


def _run(cli_env: CliEnv, fake: Fake, program: str, *more: str) -> tuple[tuple[str, str], list[str], str]:
    env = {"INSPAN_CODEX_BIN": fake("codex", f"{program}sys.stdin.read(); work()")}
    done = cli_env.inspan("run", "do it", "-a", "codex", "--profile", "user", *more, env=env)
    events = cli_env.events()
    reported = [event["message"] for event in events if event["kind"] == "error_reported"]
    return (events[-1]["outcome"], events[-1]["reason"]), reported, done.stderr


def test_tokens_that_no_call_at_the_gateway_has_cost_are_no_completed_run(cli_env: CliEnv, fake: Fake) -> None:
    ended, reported, shown = _run(cli_env, fake, STREAM, "--model-from", cli_env.scenario(_ANY))
    told = "Codex reported 7 tokens, but none of its calls came through the gateway: nothing was counted."
    assert (ended, reported) == (("failed", "environment"), [told])
    assert told in shown
    assert cli_env.events()[-1]["message"] == "Codex says that it is done, but its calls bypassed the gateway"
    assert "proxy" in cli_env.events()[-1]["next"]


def test_an_answer_without_tokens_and_calls_is_completed_and_doubted(cli_env: CliEnv, fake: Fake) -> None:
    ended, reported, shown = _run(cli_env, fake, _SILENT, "--model-from", cli_env.scenario(_ANY))
    assert ended == ("completed", "done")
    (told,) = reported
    assert told.startswith("Codex answered without a model call through the gateway: ")
    assert told in shown


@pytest.mark.parametrize("program", [STREAM, _SILENT], ids=["tokens", "none"])
def test_without_a_gateway_nothing_is_doubted(cli_env: CliEnv, fake: Fake, program: str) -> None:
    assert _run(cli_env, fake, program)[:2] == (("completed", "done"), [])
