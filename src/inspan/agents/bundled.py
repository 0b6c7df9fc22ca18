"""What packages of agents bring besides the agents."""

import os
from collections.abc import Mapping

from inspan.containment import programs

from .driver_cache import agent_summaries
from .program import find_bundled_file


def offer_bundled_bwrap(env: Mapping[str, str]) -> None:
    """Lets a machine without bubblewrap use the one that an agent's package carries. Whoever looks for it does this
    first, so that all of them find the same.
    """
    for agent in agent_summaries(env):
        if agent.bundled_bwrap and (path := find_bundled_file(agent.bundled_bwrap)) and os.access(path, os.X_OK):
            programs.set_bundled_bwrap(path)
