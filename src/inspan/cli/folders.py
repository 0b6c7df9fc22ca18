"""The folder that the user stands in, which may be gone."""

import os

from inspan.errors import BadConfig


def current_folder() -> str:
    """The folder that the user stands in; the root where that one is gone: there can be no project in it."""
    try:
        return os.getcwd()
    except OSError:
        return "/"


def require_current_folder() -> str:
    """The same for whoever writes there; raises `BadConfig` where it is gone."""
    try:
        return os.getcwd()
    except OSError as error:
        raise BadConfig("cwd", ".", "it is gone.", next_step="Go to another folder.") from error
