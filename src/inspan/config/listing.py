"""The configuration as it is shown: every key with its value and where that comes from, secrets left out."""

import msgspec

from inspan.errors import BadConfig

from .keys import ANY, Leaf, find_node, format_key, key_tree, leaves, parse_key
from .layer_values import HIDDEN
from .layers import Config
from .locations import Layer, Scope
from .settings import KeyPath

_DEFAULT = Layer("default")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One key; `value` is what could stand in a file, or `***`."""

    path: KeyPath
    value: object
    layer: Layer

    @property
    def key(self) -> str:
        return format_key(self.path)


def list_rows(config: Config, key: str = "") -> list[Row]:
    """Every key at or below this one, in the order of the file: those that are set, and those that have a default.

    Raises `BadConfig` for a key that is unknown, or that has neither.
    """
    prefix = parse_key(key) if key else ()
    node = find_node(prefix, scope=config.scope)
    found = [
        _build_row(config, path, leaf)
        for pattern, leaf in leaves(key_tree())
        for path in _expand_pattern(config, pattern, prefix)
        if path[: len(prefix)] == prefix
    ]
    if not found and isinstance(node, Leaf):
        raise BadConfig("key", key, "is not set.", next_step=f"Set it: `inspan config set {key} VALUE`.")
    return found


def mask_value(value: object, key: str, *, scope: Scope) -> object:
    """A value of this key as it may be shown."""
    path = parse_key(key)
    return HIDDEN if any(leaf.note.secret for _, leaf in leaves(find_node(path, scope=scope))) else value


def _expand_pattern(config: Config, pattern: KeyPath, prefix: KeyPath) -> list[KeyPath]:
    if prefix[:1] == ("agents",) and len(prefix) > 1:
        pattern = (*prefix[:2], *pattern[2:]) if pattern[0] == "agents" else pattern
    if ANY not in pattern:
        return [pattern]
    return sorted(path for path in config.given if _matches(path, pattern))


def _matches(path: KeyPath, pattern: KeyPath) -> bool:
    return len(path) == len(pattern) and all(part in (name, ANY) for name, part in zip(path, pattern, strict=True))


def _build_row(config: Config, path: KeyPath, leaf: Leaf) -> Row:
    given = config.given.get(path)
    value = given.value if given else leaf.default
    shown = HIDDEN if leaf.note.secret else leaf.note.value_type.to_toml(value)
    return Row(path=path, value=shown, layer=given.layer if given else _DEFAULT)
