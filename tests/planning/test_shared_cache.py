"""A program that unpacks itself into a cache of all runs is run from there: nobody in a sandbox may write it."""

import os

import pytest

from inspan.agents.registry import find_driver
from tests.cli_env import CliEnv
from tests.running.fake_agent import Fake

_DRIVER = find_driver("copilot")
_UNPACKS = f"""
import os, sys
cache = os.environ.get("{_DRIVER.program.unpack_variable}", "")
if "--version" in sys.argv:
    if cache: open(f"{{cache}}/program", "a").write("mine ")
    print("GitHub Copilot CLI 1.0.102.")
    sys.exit()
if "--help" in sys.argv:
    print({" ".join(_DRIVER.program.required_flags)!r})
    sys.exit()
print(open(f"{{cache}}/program").read(), file=sys.stderr)
open(f"{{cache}}/program", "w").write("planted")
"""


@pytest.mark.usefixtures("bubblewrap")
def test_a_program_is_unpacked_before_its_first_run_in_a_box_which_cannot_change_it(
    cli_env: CliEnv, fake: Fake
) -> None:
    env = {"INSPAN_COPILOT_BIN": fake("unpacks", _UNPACKS)}
    model = cli_env.scenario('[[call]]\nsay = "x"\n')
    for _ in range(2):
        arguments = ("-a", "copilot", "--profile", "clean", "--sandbox", "bwrap", "--model-from", model)
        done = cli_env.inspan("run", "x", *arguments, env=env)
        assert "Read-only file system" in done.stderr, done.stderr
    folder = os.path.join(cli_env.env["XDG_CACHE_HOME"], "inspan", "agents")
    with open(os.path.join(folder, "copilot", "program")) as file:
        assert file.read() == "mine "
    assert sorted(os.listdir(folder)) == ["copilot", "copilot-1.0.102.unpacked"]
