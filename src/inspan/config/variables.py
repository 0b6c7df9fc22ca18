"""`INSPAN_` and the path of a key, in capitals and joined by `_`: the layer that is set by variables."""

from collections.abc import Iterator, Mapping

from inspan.errors import BadConfig

from . import locations
from .keys import ANY, Leaf, Node, find_leaf, find_nearest, key_tree, leaves
from .layer_values import Source, read_value, value_error
from .locations import Scope
from .settings import KeyPath

_PREFIX = "INSPAN_"


def read_values(env: Mapping[str, str], *, scope: Scope) -> dict[KeyPath, tuple[object, str]]:
    """Every setting that the environment gives, by its path, with the variable's name; raises `BadConfig`."""
    found: dict[KeyPath, tuple[object, str]] = {}
    for name in locations.list_variables(env):
        path = _find_path(name, scope=scope)
        source = Source(where=f"the variable {name}", rights="friend")
        found_leaf = find_leaf(path, scope=scope, where=source.where)
        try:
            value = found_leaf.note.value_type.parse(env[name])
        except ValueError as error:
            raise value_error(found_leaf, path, env[name], str(error), where=source.where) from error
        found[path] = read_value(found_leaf, path, value, source=source, scope=scope), name
    return found


def variable_name(path: KeyPath) -> str:
    """The variable that sets a key; empty for a key whose names capitals would change."""
    if path[-1] == ANY and "models" not in path:
        return ""
    return _PREFIX + "_".join(_to_capitals("NAME" if part == ANY else part) for part in path)


def _find_path(name: str, *, scope: Scope) -> KeyPath:
    for path in _match_paths(name.removeprefix(_PREFIX), key_tree(), (), scope=scope):
        return path
    known = [variable_name(path).removeprefix(_PREFIX) for path in _list_fixed_paths(scope)]
    near = find_nearest(name.removeprefix(_PREFIX), known)
    hint = f"Did you mean {_PREFIX}{near}?" if near else "`inspan config explain` lists the keys."
    raise BadConfig("variable", name, "names no key of the configuration.", next_step=hint)


def _match_paths(rest: str, node: Node, path: KeyPath, *, scope: Scope) -> Iterator[KeyPath]:
    """Every path that a name in capitals can mean: `_` stands between names, and inside them."""
    if isinstance(node, Leaf):
        return
    for name, below in node.below.items():
        if name == ANY:
            yield from _match_open_paths(rest, below, path, scope=scope)
        elif isinstance(below, Leaf) and rest == name.upper():
            yield (*path, name)
        elif rest.startswith(f"{name.upper()}_"):
            yield from _match_paths(rest[len(name) + 1 :], below, (*path, name), scope=scope)


def _match_open_paths(rest: str, below: Node, path: KeyPath, *, scope: Scope) -> Iterator[KeyPath]:
    if isinstance(below, Leaf):
        if not below.note.secret:  # The names of variables and headers cannot be told from their capitals.
            yield (*path, rest.lower())
        return
    for at in range(len(rest)):
        if rest[at] == "_":
            for name in _match_names(rest[:at], path, scope=scope):
                yield from _match_paths(rest[at + 1 :], below, (*path, name), scope=scope)


def _match_names(capitals: str, path: KeyPath, *, scope: Scope) -> list[str]:
    if path == ("agents",):
        return [name for name in scope.names if _to_capitals(name) == capitals]
    return [capitals.lower()] if capitals else []


def _list_fixed_paths(scope: Scope) -> Iterator[KeyPath]:
    for path, _ in leaves(key_tree()):
        if ANY not in path:
            yield path
        elif path[0] == "agents" and path[-1] != ANY:
            yield from ((path[0], agent, *path[2:]) for agent in scope.names)


def _to_capitals(name: str) -> str:
    return name.upper().replace("-", "_")
