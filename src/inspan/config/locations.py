"""Where configuration is looked for. Looking opens no file and makes none."""

import os
import stat
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from inspan.system.paths import find_home

from .settings import Settings

LayerName = Literal["default", "user", "project", "local", "environment", "flag"]
PROJECT_FILE = "inspan.toml"
LOCAL_FILE = "inspan.local.toml"
# Other variables of inspan begin with other words: INSPAN_<AGENT>_BIN, INSPAN_DEBUG.
_VARIABLES = tuple(f"INSPAN_{section.upper()}_" for section in Settings.__struct_fields__)


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """What has to be known of the world to check a key: the agents there are, those of the user's own, the home."""

    agents: tuple[str, ...]
    home: str
    presets: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every agent that can be named."""
        return (*self.agents, *(name for name in self.presets if name not in self.agents))


class Layer(msgspec.Struct, frozen=True):
    """One of the places a value can come from; `path` is its file, or the name of the variable."""

    name: LayerName
    path: str = ""


def list_files(cwd: str, env: Mapping[str, str]) -> tuple[Layer, ...]:
    """The files that count in a folder, weakest first, whether they exist or not."""
    user = Layer("user", user_file(env))
    folder = project_folder(cwd, home=home_folder(env))
    if not folder:
        return (user,)
    return (
        user,
        Layer("project", os.path.join(folder, PROJECT_FILE)),
        Layer("local", os.path.join(folder, LOCAL_FILE)),
    )


def list_project_files(folder: str) -> tuple[str, ...]:
    """The files of a project that this folder may hold."""
    return tuple(os.path.join(folder, name) for name in (PROJECT_FILE, LOCAL_FILE))


def list_variables(env: Mapping[str, str]) -> list[str]:
    """The variables that set a key; an empty one sets nothing."""
    return [name for name in env if name.startswith(_VARIABLES) and env[name]]


def exists(path: str) -> bool:
    """Whether there is anything, even if it cannot be read."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def user_file(env: Mapping[str, str]) -> str:
    """The user's own file; as the XDG rules ask, a relative folder is ignored."""
    given = env.get("XDG_CONFIG_HOME", "")
    folder = given if os.path.isabs(given) else os.path.join(home_folder(env), ".config")
    return os.path.join(folder, "inspan", "config.toml")


def home_folder(env: Mapping[str, str]) -> str:
    """The user's home."""
    return find_home(env)


def project_folder(cwd: str, *, home: str) -> str:
    """The nearest folder from `cwd` up that has a file of ours, not above the git top level or home; else the top
    level, else `cwd` itself. Empty in a folder that everybody may write to: what lies there is nobody's project."""
    here, home = os.path.realpath(cwd), os.path.realpath(home)
    for folder in _walk_up(here):
        if _is_shared(folder):
            return "" if folder == here else here
        if any(os.path.lexists(os.path.join(folder, name)) for name in (PROJECT_FILE, LOCAL_FILE, ".git")):
            return folder
        if folder == home:
            break
    return here


def _walk_up(folder: str) -> Iterator[str]:
    yield folder
    while (parent := os.path.dirname(folder)) != folder:
        folder = parent
        yield folder


def _is_shared(folder: str) -> bool:
    """As /tmp is: a stranger's file in it would otherwise count for everything below."""
    try:
        mode = os.stat(folder).st_mode
    except OSError:
        return False
    return bool(mode & stat.S_IWOTH and mode & stat.S_ISVTX)
