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

from . import keys, layer_values, layers, locations, toml_file
from .keys import Leaf
from .locations import Layer, Scope
from .settings import KeyPath
from .value_types import parse_literal

FileName = Literal["user", "project", "local"]
_Raw = dict[str, Any]


class ConfigEditor(msgspec.Struct, frozen=True, kw_only=True):
    """One file that is about to be changed, and the others that it has to go together with."""

    layer: Layer
    files: tuple[Layer, ...]
    scope: Scope
    cwd: str


def open_editor(name: FileName, *, cwd: str, env: Mapping[str, str], known_agents: Sequence[str]) -> ConfigEditor:
    """The file of that name as it counts in a folder; raises `BadConfig` where there can be none."""
    files = locations.list_files(cwd, env)
    layer = next((each for each in files if each.name == name), None)
    if layer is None:
        problem, step = "has no project: everybody may write here.", "Go to a folder of your own."
        raise BadConfig("cwd", os.path.realpath(cwd), problem, next_step=step)
    scope = _add_presets(Scope(agents=tuple(known_agents), home=locations.home_folder(env)), files)
    return ConfigEditor(layer=layer, files=files, scope=scope, cwd=cwd)


def assign(editor: ConfigEditor, key: str, text: str) -> object:
    """Sets a key and gives the value as it now stands in the file; raises `BadConfig` and then changes nothing."""
    path = keys.parse_key(key)
    node = keys.find_node(path, scope=editor.scope)
    value = _parse_value(editor, node, path, text)
    adds = isinstance(node, Leaf) and node.note.user_only and not text.lstrip().startswith("[")

    def change(raw: _Raw) -> object:
        before = cast(list[object], _get_at(raw, path) or []) if adds else []
        return [*before, *(each for each in cast(list[object], value) if each not in before)] if adds else value

    return _apply_change(editor, path, change)


def remove(editor: ConfigEditor, key: str, *, dry_run: bool = False) -> None:
    """Takes a key, or a table with all below it, out of the file; raises `BadConfig` and then changes nothing.

    With `dry_run` it only finds out whether it could.
    """
    path = keys.parse_key(key)

    def change(raw: _Raw) -> object:
        if _get_at(raw, path) is None:
            problem = keys.add_location("is not set.", editor.layer.path)
            raise BadConfig("key", key, problem, next_step="`inspan config explain` shows what is set, and where.")
        return None

    if dry_run:
        _draft(editor, path, change)
    else:
        _apply_change(editor, path, change)


def create(editor: ConfigEditor, text: str) -> None:
    """Writes a whole new file; raises `BadConfig` where there is one, or where it could not be loaded."""
    _check(editor, text)
    with toml_file.lock_file(editor.layer.path):
        if locations.exists(editor.layer.path):
            raise exists_error(editor.layer.path)
        toml_file.replace(editor.layer.path, text)


def exists_error(path: str) -> BadConfig:
    """The refusal of what would overwrite a file."""
    step = "Change it: `inspan config set --project runtime.default NAME`, or edit it yourself."
    return BadConfig("file", path, "is there already, and is not overwritten.", next_step=step)


def is_trusted(editor: ConfigEditor, folder: str) -> bool:
    """Whether the user's own file, which this editor has open, trusts a folder."""
    return os.path.realpath(folder) in map(os.path.realpath, _read_trusted(_load(editor)))


def set_trust(editor: ConfigEditor, folder: str, *, trusted: bool) -> None:
    """Adds a folder to those that the user's own file trusts, or takes it out again; raises `BadConfig`."""

    def change(raw: _Raw) -> object:
        others = [each for each in _read_trusted(raw) if each != folder]
        return [*others, folder] if trusted else others or None

    _apply_change(editor, layers.TRUSTED, change)


def list_named_folders(editor: ConfigEditor, text: str) -> list[str]:
    """The folders that a value for `projects.trusted` names."""
    node = keys.find_node(layers.TRUSTED, scope=editor.scope)
    named = cast(list[str], _parse_value(editor, node, layers.TRUSTED, text))
    return [os.path.join(editor.scope.home, each[2:]) if each.startswith("~/") else each for each in named]


def _load(editor: ConfigEditor) -> _Raw:
    return toml_file.parse(toml_file.read(editor.layer.path) or "", editor.layer.path)


def _read_trusted(raw: _Raw) -> list[str]:
    found = _get_at(raw, layers.TRUSTED)
    return [each for each in cast(list[object], found) if isinstance(each, str)] if isinstance(found, list) else []


def _apply_change(editor: ConfigEditor, path: KeyPath, change: Callable[[_Raw], object]) -> object:
    """`change` gives the new value, `None` to remove the key; it is asked again once nobody else can write."""
    _draft(editor, path, change)
    with toml_file.lock_file(editor.layer.path):
        value, text = _draft(editor, path, change)
        toml_file.replace(editor.layer.path, text)
    return value


def _draft(editor: ConfigEditor, path: KeyPath, change: Callable[[_Raw], object]) -> tuple[object, str]:
    """The new value and the whole new text, checked."""
    before = toml_file.read(editor.layer.path) or ""
    raw = toml_file.parse(before, editor.layer.path)
    value = change(raw)
    after = _edit_text(before, path, value, file=editor.layer.path)
    if _prune_empty(toml_file.parse(after, editor.layer.path)) != _prune_empty(_change_raw(raw, path, value)):
        raise _uneditable_error(path, editor.layer.path)
    if value is not None or _is_valid(editor, before):
        _check(editor, after)
    return value, after


def _parse_value(editor: ConfigEditor, node: keys.Node, path: KeyPath, text: str) -> object:
    if not isinstance(node, Leaf):
        return _parse_table_value(path, text)
    kind = node.note.value_type
    try:
        value = kind.parse(text)
    except ValueError as error:
        raise layer_values.value_error(node, path, text, str(error), where="") from error
    value = _resolve_paths(value, editor.cwd) if kind.is_path else value
    # What is wrong with the value alone is told without the file: it is not there yet.
    layer_values.read_value(node, path, value, source=layer_values.Source(where="", rights="owner"), scope=editor.scope)
    return value


def _parse_table_value(path: KeyPath, text: str) -> object:
    try:
        value = parse_literal(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        problem = "is a table of keys, not a value."
        step = f"Name a key below it ({keys.format_key(path)}.NAME), or give a whole table: '{{ NAME = \"value\" }}'."
        raise BadConfig("key", keys.format_key(path), problem, next_step=step)
    return cast(object, value)


def _resolve_paths(value: object, cwd: str) -> object:
    """On the command line a path counts from the working folder; in a file it would count from nowhere."""
    if isinstance(value, list):
        return [_resolve_paths(each, cwd) for each in cast(list[object], value)]
    if not isinstance(value, str) or not value or value.startswith("~/"):
        return value
    return os.path.normpath(os.path.join(os.path.realpath(cwd), value))


def _edit_text(text: str, path: KeyPath, value: object, *, file: str) -> str:
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
        raise _uneditable_error(path, file) from error


def _new_table(parent: object, *, only_tables: bool) -> object:
    """A table that only holds tables needs no line of its own."""
    return tomlkit.inline_table() if isinstance(parent, InlineTable) else tomlkit.table(is_super_table=only_tables)


def _change_raw(raw: _Raw, path: KeyPath, value: object) -> _Raw:
    wanted = copy.deepcopy(raw)
    table = wanted
    for name in path[:-1]:
        table = table.setdefault(name, {})
    if value is None:
        del table[path[-1]]
    else:
        table[path[-1]] = value
    return wanted


def _prune_empty(raw: _Raw) -> _Raw:
    """Without tables that hold nothing: they say nothing."""
    kept = {name: _prune_empty(cast(_Raw, each)) if isinstance(each, dict) else each for name, each in raw.items()}
    return {name: each for name, each in kept.items() if each != {}}


def _get_at(raw: _Raw, path: KeyPath) -> object:
    found: Any = raw
    for name in path:
        found = cast(_Raw, found).get(name) if isinstance(found, dict) else None
    return found


def _add_presets(scope: Scope, files: Sequence[Layer]) -> Scope:
    """A file that cannot be read brings no agents, and is told of when it matters."""
    for layer in files:
        with suppress(BadConfig):
            scope = layers.add_presets(scope, [layers.load_raw(layer)])
    return scope


def _check(editor: ConfigEditor, text: str) -> None:
    """Raises `BadConfig` for a text that could not be loaded; other files may be broken, that is another matter."""
    given: dict[KeyPath, layers.GivenValue] = {}
    scope = layers.add_presets(editor.scope, [toml_file.parse(text, editor.layer.path)])
    for layer in editor.files:
        try:
            raw = toml_file.parse(text, layer.path) if layer == editor.layer else layers.load_raw(layer)
            found = layers.read_raw(raw, layer, trusted=layers.find_trusted_folders(given), scope=scope)
        except BadConfig:
            if layer == editor.layer:
                raise
            continue
        given |= {path: layers.GivenValue(value, layer) for path, value in found.items()}
    layers.check_tables(given, scope=scope)


def _is_valid(editor: ConfigEditor, text: str) -> bool:
    try:
        _check(editor, text)
    except BadConfig:
        return False
    return True


def _uneditable_error(path: KeyPath, file: str) -> BadConfig:
    problem = keys.add_location("cannot be changed without harm to the rest.", file)
    return BadConfig("key", keys.format_key(path), problem, next_step="Edit the file yourself.")
