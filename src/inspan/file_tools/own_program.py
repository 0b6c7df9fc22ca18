"""The folders that this program is loaded from: who may write there could change what it does, and so leave ROOT."""

import os
import sys


def list_own_folders() -> "list[str]":
    """Python's own folder, its virtual environment, the package, and wherever else Python looks at each start.

    Not the working folder, which is searched only by `python -m`.
    """
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    programs = (os.path.realpath(sys.executable), os.path.abspath(sys.argv[0]), os.__file__)
    found = [package, *map(os.path.dirname, programs)]
    if sys.prefix != sys.base_prefix:
        found.append(sys.prefix)
    found.append(getattr(sys.modules.get("site"), "USER_SITE", None) or "")
    if not sys.flags.ignore_environment:
        found += os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [each for each in found if each]
