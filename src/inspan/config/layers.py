"""The layers on top of each other: defaults, the user's file, the project's two, variables, flags.

Most runs have none of them, so whatever reads one is imported when there is one.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from inspan.protocol.known_types import know_type

from . import locations
from .locations import Layer, LayerName, Scope
from .settings import KeyPath, Settings

_STRENGTH: dict[LayerName, int] = {"default": 0, "user": 1, "project": 2, "local": 3, "environment": 4, "flag": 5}
TRUSTED = ("projects", "trusted")


class GivenValue(msgspec.Struct, frozen=True):
    """A setting that some layer gives."""

    value: object
    layer: Layer


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of one folder. `given` has what some layer says, from the strongest that says it; `files` has
    what each file says by itself.
    """

    settings: Settings
    given: Mapping[KeyPath, GivenValue]
    scope: Scope
    files: Mapping[Layer, Mapping[KeyPath, object]] = {}

    def origin(self, key: str) -> Layer:
        """The layer that a key's value comes from; of a table, the strongest. Raises `BadConfig` for an unknown key."""
        from . import keys  # Start-up time: without settings none of it is needed.

        path = keys.parse_key(key)
        keys.find_node(path, scope=self.scope)
        return find_strongest(self.given, below=path)


def load(
    cwd: str, *, env: Mapping[str, str], known_agents: Sequence[str], flags: Mapping[str, object] | None = None
) -> Config:
    """The configuration that holds in a folder; raises `BadConfig`. `flags` has only what was said, by key."""
    scope = Scope(agents=tuple(known_agents), home=locations.home_folder(env))
    files, scope = read_files(locations.list_files(cwd, env), scope=scope)
    given = {path: GivenValue(value, layer) for layer, found in files.items() for path, value in found.items()}
    if locations.list_variables(env):
        from . import variables  # Start-up time: without settings none of it is needed.

        found = variables.read_values(env, scope=scope)
        given |= {path: GivenValue(value, Layer("environment", name)) for path, (value, name) in found.items()}
    if flags:
        given |= {path: GivenValue(value, Layer("flag")) for path, value in _read_flags(flags, scope).items()}
    if not given:
        return Config(settings=Settings(), given={}, scope=scope, files=files)
    check_tables(given, scope=scope)
    return Config(settings=_build_settings(given), given=given, scope=scope, files=files)


def read_files(files: Sequence[Layer], *, scope: Scope) -> tuple[dict[Layer, dict[KeyPath, object]], Scope]:
    """What each of the files gives, the strongest last, and the scope with their own agents in it.

    Raises `BadConfig`.
    """
    raws = {layer: load_raw(layer) for layer in files if locations.exists(layer.path)}
    scope = add_presets(scope, raws.values())
    found: dict[Layer, dict[KeyPath, object]] = {}
    given: dict[KeyPath, GivenValue] = {}
    for layer, raw in raws.items():
        found[layer] = read_raw(raw, layer, trusted=find_trusted_folders(given), scope=scope)
        given |= {path: GivenValue(value, layer) for path, value in found[layer].items()}
    return found, scope


def load_raw(layer: Layer) -> dict[str, Any]:
    """The tables of a file, of which nothing is checked yet; raises `BadConfig`."""
    from . import toml_file  # Start-up time: without settings none of it is needed.

    return toml_file.parse(toml_file.read(layer.path) or "", layer.path)


def add_presets(scope: Scope, raws: Iterable[Mapping[str, Any]]) -> Scope:
    """The scope with the agents that these files bring: those of which one of them says how they speak."""
    tables = [cast(dict[str, Any], raw["agents"]) for raw in raws if isinstance(raw.get("agents"), dict)]
    named = [name for table in tables for name, own in table.items() if isinstance(own, dict) and "dialect" in own]
    return msgspec.structs.replace(scope, presets=tuple(sorted({*scope.presets, *named}))) if named else scope


def read_raw(raw: Mapping[str, Any], layer: Layer, *, trusted: Sequence[str], scope: Scope) -> dict[KeyPath, object]:
    """What one file gives; raises `BadConfig`. Trust in a folder counts for its own two files."""
    from . import layer_values  # Start-up time: without settings none of it is needed.

    if layer.name == "user":
        return layer_values.read_values(raw, source=layer_values.Source(where=layer.path, rights="owner"), scope=scope)
    project = os.path.dirname(layer.path)
    rights: layer_values.Rights = "friend" if project in map(os.path.realpath, trusted) else "guest"
    source = layer_values.Source(where=layer.path, rights=rights, project=project)
    return layer_values.read_values(raw, source=source, scope=scope)


def find_trusted_folders(given: Mapping[KeyPath, GivenValue]) -> tuple[str, ...]:
    """The folders that the user's file trusts."""
    found = given.get(TRUSTED)
    return cast(tuple[str, ...], found.value) if found else ()


def find_strongest(given: Mapping[KeyPath, GivenValue], *, below: KeyPath) -> Layer:
    """The strongest layer that says anything at or below a path."""
    layers = [each.layer for path, each in given.items() if path[: len(below)] == below]
    return max(layers, key=lambda layer: _STRENGTH[layer.name], default=Layer("default"))


def check_tables(given: Mapping[KeyPath, GivenValue], *, scope: Scope) -> None:
    """Raises `BadConfig` for what no value alone has wrong: a server without a way to it, a key in two places."""
    from . import cross_checks  # Start-up time: without settings none of it is needed.

    values = {path: each.value for path, each in given.items()}
    for table in sorted({path[:2] for path in given if path[0] in cross_checks.TABLES}):
        cross_checks.check_table(table, values, where=find_strongest(given, below=table).path, scope=scope)


def _read_flags(flags: Mapping[str, object], scope: Scope) -> dict[KeyPath, object]:
    from . import (
        keys,  # Start-up time: without settings none of it is needed.
        layer_values,
    )

    found: dict[KeyPath, object] = {}
    for key, value in flags.items():
        path = keys.parse_key(key)
        leaf = keys.find_leaf(path, scope=scope)
        found[path] = layer_values.read_value(
            leaf, path, value, source=layer_values.Source(where="", rights="friend"), scope=scope
        )
    return found


def _build_settings(given: Mapping[KeyPath, GivenValue]) -> Settings:
    tree: dict[str, Any] = {}
    for path, found in given.items():
        table = tree
        for name in path[:-1]:
            table = table.setdefault(name, {})
        table[path[-1]] = found.value
    return msgspec.convert(tree, know_type(Settings))
