"""Deleting folders whole, whatever their owner may write to in them."""

import os
import shutil
import stat

from .paths import state_error


def delete_tree(path: str) -> None:
    """Deletes a folder, also where it holds some that even their owner may not write to, as caches of tools do.
    Doing it twice is no error. Raises `StateUnusable`."""
    try:
        try:
            shutil.rmtree(path)
        except PermissionError:
            for folder, names, _ in os.walk(path):
                for name in names:
                    inner = os.path.join(folder, name)
                    if stat.S_ISDIR(os.lstat(inner).st_mode):
                        os.chmod(inner, 0o700)
            shutil.rmtree(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise state_error(path, error) from error
