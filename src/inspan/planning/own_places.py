"""The files of the user's that inspan and git obey wherever they are used: not for a box to write, wherever they lie.

Most lie in the home. They are in reach of a box where that is the working folder, or where a link of a home leads into
the working folder, as with dotfiles in a repository.
"""

import os
import site
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from inspan.config.locations import user_file
from inspan.stores.git_settings import GitSources, list_user_files, read_user_sources
from inspan.stores.paths import cache_home, data_home
from inspan.system.paths import is_below
from inspan.system.programs import trace_path

# By what is inspan's own: settings of the keyring, which can name modules, and of podman, which can name programs.
_OBEYED = ("python_keyring", "containers")


class OwnPlaces(NamedTuple):
    """Those that folders of a box hold, by all their names; they need not be there."""

    files: tuple[str, ...]
    folders: tuple[str, ...]


def find_own_places(writable: Sequence[str], env: Mapping[str, str], *, asks_git: bool) -> OwnPlaces:
    """What inspan and git obey of what a box could write in these folders; raises `SandboxUnusable` where git cannot
    read its settings. Unless `asks_git`, those are known, but for what is not there yet.
    """
    known = list_user_files()
    git = read_user_sources() if asks_git else GitSources(files=known)
    folders = list_exposed_names((*_list_folders(env), *git.hooks), writable)
    files = list_exposed_names((user_file(env), *git.files), writable)
    alone = (path for path in files if not any(is_below(path, folder) for folder in folders))
    return OwnPlaces(tuple(alone), tuple(folders))


def list_exposed_names(paths: Iterable[str], writable: Sequence[str]) -> list[str]:
    """The names of these that a box could write. A link counts where it lies and where it leads to."""
    names = (each for path in paths for each in (path, *_list_links(path), os.path.realpath(path)))
    return [each for each in dict.fromkeys(names) if any(is_below(each, folder) for folder in writable)]


def _list_links(path: str) -> Iterator[str]:
    return (place for place in trace_path(path) if os.path.islink(place))


def _list_folders(env: Mapping[str, str]) -> Iterator[str]:
    settings = os.path.dirname(user_file(env))
    yield settings
    yield data_home(env)
    yield cache_home(env)
    yield from (os.path.join(os.path.dirname(settings), name) for name in _OBEYED)
    yield os.path.join(os.path.dirname(data_home(env)), _OBEYED[0])
    if site.ENABLE_USER_SITE:  # Python loads what lies there before inspan does anything.
        yield site.getusersitepackages()
