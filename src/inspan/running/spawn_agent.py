"""Starting the process of a plan: what is set up on its way, and whose its pipes are."""

from typing import TYPE_CHECKING

from inspan.protocol.plan import AgentProcess, Entry
from inspan.system import forking
from inspan.transports.process import Spawned, spawn

if TYPE_CHECKING:
    from inspan.system.entry import Setup


def spawn_agent(process: AgentProcess) -> Spawned:
    """Starts it from a program that may have threads and children of its own; raises `OSError`."""
    stdin = None if process.keeps_stdin else process.stdin
    with forking.opening:
        spawned = spawn(
            process.argv,
            process.env,
            stdin=stdin,
            liveness_pipe=process.liveness_pipe,
            watch=True,
            setup=build_setup(process.entry),
        )
        for fd in (spawned.stdin, spawned.stdout, spawned.stderr, spawned.life, spawned.link):
            if fd >= 0:
                forking.own(fd)
    return spawned


def build_setup(entry: Entry | None) -> "Setup | None":
    """What is to be set up on the way to a process, as plain values."""
    if entry is None:
        return None
    return {
        "groups": entry.groups,
        "isolated": entry.isolated and not entry.inside,
        "ports": entry.ports,
        "filter": entry.filter,
        "scoped": entry.scoped,
    }
