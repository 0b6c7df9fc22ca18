"""The first lines of a supervisor, run as a script: starts the agent, and only then loads what watches it."""

import gc
import marshal
import os
import sys


def main() -> None:
    with open(int(sys.argv[1]), "rb") as file:
        given = marshal.load(file)
    _disown({given["lock"], given["session_lock"], given["listener"]})
    sys.path[:] = given["path"]
    from inspan.transports.spawn import spawn

    try:
        spawned = spawn(given["argv"], given["env"], stdin=given["stdin"], life_line=given["life_line"])
        problem = ""
    except OSError as error:
        spawned, problem = None, f"{given['argv'][0]} cannot be started: {os.strerror(error.errno or 0)}"
    gc.disable()  # Nothing of what is imported will be garbage.
    if not given["tls"]:
        # Loading it costs 20 ms and 4 MB, and only the gateway to a real provider speaks it.
        sys.modules["ssl"] = None  # pyright: ignore[reportArgumentType]  this is how an import is forbidden
    from inspan.engine.supervisor import supervise

    gc.enable()

    supervise(
        given["plan"],
        spawned,
        secrets=given["secrets"],
        problem=problem,
        locks=(given["session_lock"], given["lock"]),
        listener=given["listener"],
    )


def _disown(kept: set[int]) -> None:
    """Keeps the run's locks and listener from the agent, and closes what the shell that called us left open."""
    for fd in [int(name) for name in os.listdir("/proc/self/fd")]:
        if fd in kept:
            os.set_inheritable(fd, False)
        elif fd > 2:
            os.closerange(fd, fd + 1)  # Unlike `close`, silent about the listing's own descriptor.


if __name__ == "__main__":
    main()
