"""The agents whose real programs are here; a bench fetches none, for it must not need a network."""

import os
import sys

from inspan.agents.program import locate_program
from inspan.agents.registry import load_drivers
from inspan.contracts.driver import Driver
from inspan.errors import AgentUnusable
from inspan.stores.paths import data_home

from .place import Place


def installed(here: Place) -> list[Driver]:
    """Those that can be run, in the order of their names; the environment of the place is told where they are.

    What is missing is said on stderr.
    """
    here.env["XDG_DATA_HOME"] = os.path.dirname(data_home())
    found: list[Driver] = []
    for driver in programs():
        try:
            here.env[driver.program_variable] = locate_program(driver).path
        except AgentUnusable as error:
            print(f"bench: {driver.name} IS LEFT OUT: {error}", file=sys.stderr)
        else:
            found.append(driver)
    return found


def programs() -> list[Driver]:
    """Every agent that is a program of somebody else's."""
    return [
        each
        for each in load_drivers()
        if each.program.command and not each.built_in and not each.program.hosted and not each.family
    ]
