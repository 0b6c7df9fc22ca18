"""The first lines of a supervisor, run as a script: starts the agent, and only then loads what watches it."""

import gc
import marshal
import os
import sys


def main() -> None:
    with open(int(sys.argv[1]), "rb") as file:
        given = marshal.load(file)
    sys.path[:] = given["path"]
    # Only what starts the agent, and after sys.path is set.
    from inspan.system.platform import list_open_fds
    from inspan.transports.process import spawn

    _close_inherited_fds(list_open_fds(), kept={given["lock"], given["session_lock"], given["listener"]})

    try:
        spawned = spawn(
            given["argv"],
            given["env"],
            stdin=given["stdin"],
            liveness_pipe=given["liveness_pipe"],
            watch=True,
            setup=given["setup"],
            forks=True,
        )
        problem = ""
    except OSError as error:
        spawned, problem = None, f"{given['argv'][0]} cannot be started: {error.strerror}"
    gc.disable()  # Nothing of what is imported will be garbage.
    if not given["tls"]:
        # Loading it costs 20 ms and 4 MB, and only the gateway to a real provider speaks it.
        sys.modules["ssl"] = None  # pyright: ignore[reportArgumentType]  this is how an import is forbidden
    # The agent starts first: this is loaded while it does.
    from inspan.running.supervisor import supervise
    from inspan.system.programs import expose_folders

    gc.enable()
    expose_folders(given["exposed"])

    supervise(
        given["plan"],
        spawned,
        secrets=given["secrets"],
        alternative_envs=given["alternative_envs"],
        problem=problem,
        locks=(given["session_lock"], given["lock"]),
        listener=given["listener"],
    )


def _close_inherited_fds(fds: "list[int]", *, kept: "set[int]") -> None:
    """Keeps the run's locks and listener from the agent, and closes what the shell that called us left open."""
    for fd in fds:
        if fd in kept:
            os.set_inheritable(fd, False)
        elif fd > 2:
            os.closerange(fd, fd + 1)  # Unlike `close`, silent about the listing's own descriptor.


if __name__ == "__main__":
    main()
