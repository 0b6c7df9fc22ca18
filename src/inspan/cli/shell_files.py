"""Where a shell looks for completions of its user, and man for pages: writing inspan's there, and taking it away."""

import os
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from inspan.errors import BadInput
from inspan.system.atomic_file import replace_file
from inspan.system.paths import find_home

from .man_pages import MARK, PACKAGE_MARK


class ShellFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files of one shell by their paths, as they should be; `stale` are pages of commands that are gone."""

    files: Mapping[str, str]
    stale: tuple[str, ...] = ()


def completion_path(shell: str, env: Mapping[str, str]) -> str:
    """The file from which a shell takes the completion of `inspan`."""
    own = env.get("BASH_COMPLETION_USER_DIR") or os.path.join(_find_data(env), "bash-completion")
    return {
        "bash": os.path.join(own, "completions", "inspan"),
        "zsh": os.path.join(_find_data(env), "zsh", "site-functions", "_inspan"),
        "fish": os.path.join(_find_folder(env, "XDG_CONFIG_HOME", ".config"), "fish", "completions", "inspan.fish"),
    }[shell]


def man_folder(env: Mapping[str, str]) -> str:
    """Where man looks for pages beside the programs of `~/.local/bin`."""
    return os.path.join(_find_data(env), "man", "man1")


def collect_files(shell: str, script: str, pages: Mapping[str, str], env: Mapping[str, str]) -> ShellFiles:
    """What is to be written, and what of it that was written before is no longer needed."""
    folder = man_folder(env)
    wanted = {os.path.join(folder, name): text for name, text in pages.items()}
    stale = [path for path in list_man_pages(env) if path not in wanted]
    return ShellFiles(files={**wanted, completion_path(shell, env): script}, stale=tuple(stale))


def list_man_pages(env: Mapping[str, str]) -> list[str]:
    """The pages that inspan has written."""
    folder = man_folder(env)
    try:
        names = [name for name in os.listdir(folder) if name.startswith("inspan") and name.endswith(".1")]
    except OSError:
        return []
    return sorted(path for name in names if _is_own(path := os.path.join(folder, name)))


def list_changes(found: ShellFiles) -> list[str]:
    """What differs from what is there; raises `BadInput` for a file that is not inspan's."""
    for path in found.files:
        if os.path.lexists(path) and not _is_own(path) and not _is_packaged(path):
            step = "Move it away, or use `inspan completion SHELL` and put its output where you like."
            raise BadInput("file", path, "is not one that inspan has written.", next_step=step)
    return [path for path, text in found.files.items() if _read(path) != text and not _is_packaged(path)]


def write_files(found: ShellFiles) -> list[str]:
    """Writes what differs, and gives it; raises `BadInput`, for a file that is not inspan's before anything else."""
    changed = list_changes(found)
    for path in changed:
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            replace_file(path, found.files[path].encode(), mode=0o644)
        except OSError as error:
            raise _write_error(path, error) from error
    remove_files(found.stale)
    return changed


def remove_files(paths: tuple[str, ...]) -> None:
    """Deletes files of inspan's; raises `BadInput` for one that cannot be."""
    for path in paths:
        try:
            with suppress(FileNotFoundError):
                os.remove(path)
        except OSError as error:
            raise _write_error(path, error) from error


def list_own_files(shells: tuple[str, ...], env: Mapping[str, str]) -> tuple[str, ...]:
    """What `remove_files` may delete: the completions of these shells, and all pages."""
    completions = [completion_path(shell, env) for shell in shells]
    return (*(path for path in completions if _is_own(path)), *list_man_pages(env))


def _is_own(path: str) -> bool:
    """Whether it was written here; a link is somebody else's, wherever it leads."""
    return not os.path.islink(path) and MARK in _read(path)


def _is_packaged(path: str) -> bool:
    """Whether it came with the package, as a file or as a link of pipx's: then it is as new as the program."""
    return PACKAGE_MARK in _read(path)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(1024 * 1024)
    except (OSError, ValueError):
        return ""


def _write_error(path: str, error: OSError) -> BadInput:
    step = "Check the owner and the mode of its folder, or use `inspan completion SHELL` and put its output elsewhere."
    return BadInput("file", path, f"cannot be written: {error.strerror}.", next_step=step)


def _find_data(env: Mapping[str, str]) -> str:
    return _find_folder(env, "XDG_DATA_HOME", os.path.join(".local", "share"))


def _find_folder(env: Mapping[str, str], variable: str, usual: str) -> str:
    """As the XDG rules ask, a relative folder is ignored."""
    given = env.get(variable, "")
    return given if os.path.isabs(given) else os.path.join(find_home(env), usual)
