"""Changing one key of a file: comments and order stay, and nothing is written that could not be read back.

Imported by the commands that change a file, and by nothing else: tomlkit is slow to load.
"""

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, cast

import msgspec
import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

from inspan.errors import BadConfig

from . import keys, layers, places, reading, toml_file
from .keys import Leaf
from .kinds import literal
from .places import Layer, Scope
from .settings import KeyPath

FileName = Literal["user", "project", "local"]
_Raw = dict[str, Any]


class Desk(msgspec.Struct, frozen=True, kw_only=True):
    """One file that is about to be changed, and the others that it has to go together with."""

    layer: Layer
    files: tuple[Layer, ...]
    scope: Scope
    cwd: str


def desk(name: FileName, *, cwd: str, env: Mapping[str, str], known_agents: Sequence[str]) -> Desk:
    """The file of that name as it counts in a folder; raises `BadConfig` where there can be none."""
    files = places.files(cwd, env)
    layer = next((each for each in files if each.name == name), None)
    if layer is None:
        problem, step = "has no project: everybody may write here.", "Go to a folder of your own."
        raise BadConfig("cwd", os.path.realpath(cwd), problem, next_step=step)
    scope = _with_presets(Scope(agents=tuple(known_agents), home=places.home_of(env)), files)
    return Desk(layer=layer, files=files, scope=scope, cwd=cwd)


def assign(at: Desk, key: str, text: str) -> object:
    """Sets a key and gives the value as it now stands in the file; raises `BadConfig` and then changes nothing."""
    path = keys.path_of(key)
    node = keys.find(path, scope=at.scope)
    value = _value(at, node, path, text)
    adds = isinstance(node, Leaf) and node.note.mine and not text.lstrip().startswith("[")

    def change(raw: _Raw) -> object:
        before = cast(list[object], _at(raw, path) or []) if adds else []
        return [*before, *(each for each in cast(list[object], value) if each not in before)] if adds else value

    return _changed(at, path, change)


def remove(at: Desk, key: str) -> None:
    """Takes a key, or a table with all below it, out of the file; raises `BadConfig` and then changes nothing."""
    path = keys.path_of(key)

    def change(raw: _Raw) -> object:
        if _at(raw, path) is None:
            problem = keys.told("is not set.", at.layer.path)
            raise BadConfig("key", key, problem, next_step="`inspan config explain` shows what is set, and where.")
        return None

    _changed(at, path, change)


def _changed(at: Desk, path: KeyPath, change: Callable[[_Raw], object]) -> object:
    """`change` gives the new value, `None` to remove the key; it is asked again once nobody else can write."""
    _draft(at, path, change)
    with toml_file.held(at.layer.path):
        value, text = _draft(at, path, change)
        toml_file.replace(at.layer.path, text)
    return value


def _draft(at: Desk, path: KeyPath, change: Callable[[_Raw], object]) -> tuple[object, str]:
    """The new value and the whole new text, checked."""
    before = toml_file.read(at.layer.path) or ""
    raw = toml_file.parse(before, at.layer.path)
    value = change(raw)
    after = _edited(before, path, value, file=at.layer.path)
    if _pruned(toml_file.parse(after, at.layer.path)) != _pruned(_expected(raw, path, value)):
        raise _beyond_us(path, at.layer.path)
    if value is not None or _is_sound(at, before):
        _check(at, after)
    return value, after


def _value(at: Desk, node: keys.Node, path: KeyPath, text: str) -> object:
    if not isinstance(node, Leaf):
        return _table_value(path, text)
    kind = node.note.kind
    try:
        value = kind.parse(text)
    except ValueError as error:
        raise reading.bad_value(node, path, text, str(error), where="") from error
    value = _absolute(value, at.cwd) if kind.is_path else value
    # What is wrong with the value alone is told without the file: it is not there yet.
    reading.value_of(node, path, value, source=reading.Source(where="", rights="owner"), scope=at.scope)
    return value


def _table_value(path: KeyPath, text: str) -> object:
    try:
        value = literal(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        problem = "is a table of keys, not a value."
        step = f"Name a key below it ({keys.spelled(path)}.NAME), or give a whole table: '{{ NAME = \"value\" }}'."
        raise BadConfig("key", keys.spelled(path), problem, next_step=step)
    return cast(object, value)


def _absolute(value: object, cwd: str) -> object:
    """On the command line a path counts from the working folder; in a file it would count from nowhere."""
    if isinstance(value, list):
        return [_absolute(each, cwd) for each in cast(list[object], value)]
    if not isinstance(value, str) or not value or value.startswith("~/"):
        return value
    return os.path.normpath(os.path.join(os.path.realpath(cwd), value))


def _edited(text: str, path: KeyPath, value: object, *, file: str) -> str:
    try:
        document = tomlkit.parse(text)
        table: Any = document
        for depth, name in enumerate(path[:-1], start=1):
            if name not in table:
                table[name] = _new_table(table, only_tables=depth < len(path) - 1)
            table = table[name]
        if value is None:
            del table[path[-1]]
        else:
            table[path[-1]] = value
        return tomlkit.dumps(document)  # pyright: ignore[reportUnknownMemberType]  its mapping has no types
    except (TOMLKitError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        # tomlkit stumbles over tables that are written in several pieces, in more than one way.
        raise _beyond_us(path, file) from error


def _new_table(parent: object, *, only_tables: bool) -> object:
    """A table that only holds tables needs no line of its own."""
    return tomlkit.inline_table() if isinstance(parent, InlineTable) else tomlkit.table(is_super_table=only_tables)


def _expected(raw: _Raw, path: KeyPath, value: object) -> _Raw:
    wanted = copy.deepcopy(raw)
    table = wanted
    for name in path[:-1]:
        table = table.setdefault(name, {})
    if value is None:
        del table[path[-1]]
    else:
        table[path[-1]] = value
    return wanted


def _pruned(raw: _Raw) -> _Raw:
    """Without tables that hold nothing: they say nothing."""
    kept = {name: _pruned(cast(_Raw, each)) if isinstance(each, dict) else each for name, each in raw.items()}
    return {name: each for name, each in kept.items() if each != {}}


def _at(raw: _Raw, path: KeyPath) -> object:
    found: Any = raw
    for name in path:
        found = cast(_Raw, found).get(name) if isinstance(found, dict) else None
    return found


def _with_presets(scope: Scope, files: Sequence[Layer]) -> Scope:
    """A file that cannot be read brings no agents, and is told of when it matters."""
    for layer in files:
        with suppress(BadConfig):
            scope = layers.with_presets(scope, [layers.raw_of(layer)])
    return scope


def _check(at: Desk, text: str) -> None:
    """Raises `BadConfig` for a text that could not be loaded; other files may be broken, that is another matter."""
    given: dict[KeyPath, layers.Given] = {}
    scope = layers.with_presets(at.scope, [toml_file.parse(text, at.layer.path)])
    for layer in at.files:
        try:
            raw = toml_file.parse(text, layer.path) if layer == at.layer else layers.raw_of(layer)
            found = layers.read_raw(raw, layer, trusted=layers.trusted_in(given), scope=scope)
        except BadConfig:
            if layer == at.layer:
                raise
            continue
        given |= {path: layers.Given(value, layer) for path, value in found.items()}
    layers.check_whole(given, scope=scope)


def _is_sound(at: Desk, text: str) -> bool:
    try:
        _check(at, text)
    except BadConfig:
        return False
    return True


def _beyond_us(path: KeyPath, file: str) -> BadConfig:
    problem = keys.told("cannot be changed without harm to the rest.", file)
    return BadConfig("key", keys.spelled(path), problem, next_step="Edit the file yourself.")
