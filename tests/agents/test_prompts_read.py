"""Real agents that answer without a model have read their prompt, and their runs are completed."""

import pytest

from tests.cli_env import CliEnv

_ANY = '[[call]]\nsay = "from the model"\nrepeat = "always"\n'


@pytest.mark.parametrize("command", ["/cost", "/context"])
def test_a_command_of_the_agents_own_is_completed_without_any_call(cli_env: CliEnv, command: str) -> None:
    model = cli_env.scenario(_ANY)
    cli_env.inspan("run", command, "-a", "claude", "--mode", "exec", "--profile", "clean", "--model-from", model)
    ended = cli_env.events()[-1]
    assert (ended["outcome"], ended["reason"], ended.get("model_calls", 0)) == ("completed", "done", 0)
