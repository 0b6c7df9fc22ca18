"""The first lines of the process of a loop, or of other work that has runs, run as a script."""

import marshal
import os
import sys


def main() -> None:
    with open(int(sys.argv[1]), "rb") as file:
        given = marshal.load(file)
    sys.path[:] = given["path"]
    # Only after sys.path is set.
    from importlib import import_module

    # As above.
    from inspan.system.platform import list_open_fds

    for fd in list_open_fds():
        if fd == given["lock"]:
            os.set_inheritable(fd, False)
        elif fd > 2:
            os.closerange(fd, fd + 1)  # Unlike `close`, silent about the listing's own descriptor.
    import_module(given["entry"]).run_process(
        given["plan"], env=given["env"], secrets=given["secrets"], lock=given["lock"]
    )


if __name__ == "__main__":
    main()
