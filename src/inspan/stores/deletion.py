"""Deleting folders whole, whatever their owner may write to in them and however deep they go."""

from inspan.system.tree_walk import delete_folder, ignore_error

from .paths import state_error


def delete_tree(path: str) -> None:
    """Deletes a folder; doing it twice is no error. Raises `StateUnusable`."""
    try:
        delete_folder(path)
    except OSError as error:
        raise state_error(path, error) from error


def discard_tree(path: str) -> None:
    """Deletes a folder that nobody needs, as far as that can be."""
    delete_folder(path, on_error=ignore_error)
