"""An agent's own program as it is: found as a run finds it, and put in the place of this process."""

import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from inspan.agents.program import Program, locate_program
from inspan.agents.select import select_channel
from inspan.cli.folders import current_folder
from inspan.contracts.driver import Driver
from inspan.errors import NotAnAgent, Unsupported
from inspan.planning.known_agents import find_agent_driver
from inspan.planning.settings import apply_config
from inspan.protocol.task import Task


def find_own_program(name: str) -> tuple[Driver, Program]:
    """The program that a run of this agent would start; raises `Unsupported` for an agent that has none."""
    cwd = current_folder()
    driver = select_channel(find_agent_driver(name, cwd=cwd), "")
    if driver.program.hosted or driver.built_in:
        what = "an API" if driver.program.hosted else "a part of inspan"
        hint = driver.access.login_hint
        step = f"{hint[0].upper()}{hint[1:]}." if hint else "Name another agent."
        raise Unsupported("agent", name, f"{driver.title} is {what} and has no program of its own.", next_step=step)
    given = apply_config(Task(prompt="", cwd=cwd, agent=name))
    return driver, locate_program(driver, given.env)


def replace_process(program: Program, arguments: Sequence[str]) -> NoReturn:
    """Becomes that program, with this terminal, environment and folder; raises `NotAnAgent` where it cannot.

    Its exit code is then that of the command, and signals reach it as if it had been typed.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    # Python ignores these two, and a program that is started so would ignore them, too.
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGPIPE, signal.SIGXFSZ)}
    try:
        os.execve(program.path, [program.path, *arguments], os.environ)
    except OSError as error:
        for number, handler in before.items():
            signal.signal(number, handler)
        step = "Check its mode and its first line, or install it again."
        raise NotAnAgent(f"{program.path} cannot be started: {error.strerror}.", next_step=step) from error
