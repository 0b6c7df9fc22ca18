"""Trust in a project is trust in what its files said by then: an agent that works there can write them.

Of each trusted folder the state folder holds what its guarded keys were when the user trusted it, as digests.
"""

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256

import msgspec

from inspan.config import locations
from inspan.config.keys import add_location, find_leaf, format_key, parse_key
from inspan.config.layers import Config, find_trusted_folders
from inspan.config.settings import KeyPath
from inspan.errors import BadConfig, StateUnusable
from inspan.protocol.known_types import know_type
from inspan.stores.paths import make_private_folder, state_home
from inspan.stores.run_folder import read_json, write_json

_HIDDEN = "***"
_Digests = dict[str, dict[str, str]]


def check_trust(config: Config, cwd: str, *, env: Mapping[str, str]) -> None:
    """Raises `BadConfig` where a guarded key of a trusted project is not what it was when it was trusted.

    A folder that is trusted and was not seen before is seen now.
    """
    folder = _find_trusted_folder(config, cwd, env=env)
    if not folder:
        return
    before = _load(folder, env)
    if before is None:
        _save(folder, _digest_files(config, folder), env)
        return
    for name, key, problem in _compare(before, _digest_files(config, folder)):
        raise _change_error(config, folder, name, key, problem)


def remember_trust(config: Config, folder: str, *, env: Mapping[str, str]) -> None:
    """Takes the guarded keys of a folder as they are now for those that the user trusts."""
    folder = os.path.realpath(folder)
    _save(folder, _digest_files(config, folder), env)


def remember_change(config: Config, file: str, key: str, *, env: Mapping[str, str]) -> None:
    """Takes one key of a file, or the table of that name, as it is now for what the user trusts: who changes it by a
    command has not read the rest.
    """
    folder = os.path.realpath(os.path.dirname(file))
    before = _load(folder, env)
    if before is None:
        return
    name, below = os.path.basename(file), parse_key(key)
    kept = {each: digest for each, digest in before.get(name, {}).items() if not _is_below(each, below)}
    changed = {
        each: digest for each, digest in _digest_files(config, folder).get(name, {}).items() if _is_below(each, below)
    }
    _save(folder, {**before, name: {**kept, **changed}}, env)


def _is_below(key: str, path: KeyPath) -> bool:
    return parse_key(key)[: len(path)] == path


def _find_trusted_folder(config: Config, cwd: str, *, env: Mapping[str, str]) -> str:
    """The folder of the project that `cwd` is in, where it is trusted."""
    trusted = find_trusted_folders(config.given)
    folder = locations.project_folder(cwd, home=locations.home_folder(env)) if trusted else ""
    return folder if folder in map(os.path.realpath, trusted) else ""


def _digest_files(config: Config, folder: str) -> _Digests:
    """What each file of a project's folder says of guarded keys, by its name and by key."""
    return {
        os.path.basename(layer.path): {
            format_key(path): sha256(msgspec.json.encode(value)).hexdigest()
            for path, value in values.items()
            if find_leaf(path, scope=config.scope).note.guarded
        }
        for layer, values in config.files.items()
        if layer.name in ("project", "local") and os.path.dirname(layer.path) == folder
    }


def _compare(before: _Digests, now: _Digests) -> Iterator[tuple[str, str, str]]:
    for name in sorted({*before, *now}):
        old, new = before.get(name, {}), now.get(name, {})
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                yield name, key, "is new" if key not in old else "has changed" if key in new else "is gone"


def _change_error(config: Config, folder: str, name: str, key: str, problem: str) -> BadConfig:
    file, path = os.path.join(folder, name), parse_key(key)
    given = {layer.path: values for layer, values in config.files.items()}.get(file, {})
    is_secret = path in given and find_leaf(path, scope=config.scope).note.secret
    shown = _HIDDEN if is_secret else given.get(path, "")
    sentence = f"{problem} since you trusted this project: it decides what runs here, and with which secrets."
    step = f"Read the file. To trust it as it is now: `inspan config set projects.trusted {shlex.quote(folder)}`."
    return BadConfig(key, shown, add_location(sentence, file), next_step=step)


def _record_path(folder: str, env: Mapping[str, str]) -> str:
    return os.path.join(state_home(env), "trusted", f"{sha256(os.fsencode(folder)).hexdigest()}.json")


def _load(folder: str, env: Mapping[str, str]) -> _Digests | None:
    path = _record_path(folder, env)
    if not os.path.lexists(path):
        return None
    try:
        return msgspec.convert(read_json(path).get("guarded"), know_type(_Digests))
    except msgspec.ValidationError as error:
        step = f"Read the files, then: `inspan config set projects.trusted {shlex.quote(folder)}`."
        raise StateUnusable(f"{path} does not say what was trusted: {error}.", next_step=step) from error


def _save(folder: str, digests: _Digests, env: Mapping[str, str]) -> None:
    path = _record_path(folder, env)
    with suppress(StateUnusable):  # Who cannot write there cannot start a run either.
        make_private_folder(state_home(env))
        make_private_folder(os.path.dirname(path))
        write_json(path, {"folder": folder, "guarded": digests})
