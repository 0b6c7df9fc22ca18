"""The names of keys: how a path is written, which paths there are, and which one was meant.

A path is a tuple of names. In the tree of keys `*` stands for a name that the user chooses: an agent, an alias.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NoReturn, TypeAlias, cast, get_args, get_origin

import msgspec

from inspan.errors import BadConfig

from .locations import Scope
from .settings import KeyPath, Note, Settings

ANY = "*"
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PART = re.compile(r"""([A-Za-z0-9_-]+)|"([^"\\]*)"|'([^']*)'""")


class Leaf(msgspec.Struct, frozen=True, kw_only=True):
    """A key that holds a value; `default` is the setting where no layer says anything."""

    note: Note
    default: object


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A key that holds keys."""

    doc: str
    below: "Mapping[str, Leaf | Table]"


Node: TypeAlias = Leaf | Table


@cache
def key_tree() -> Table:
    """All keys, as they are nested in a file."""
    return _build_table(Settings)


def leaves(node: Node, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Leaf]]:
    """Every key below the node at `path`, in the order of the file, with `*` for the names that are open."""
    if isinstance(node, Leaf):
        yield path, node
        return
    for name, below in node.below.items():
        yield from leaves(below, (*path, name))


def parse_key(key: str) -> KeyPath:
    """The path that a dotted key names; a part with dots in it is quoted. Raises `BadConfig`."""
    parts: list[str] = []
    at = 0
    while match := _PART.match(key, at):
        parts.append(match[match.lastindex or 0])
        at = match.end()
        if at == len(key):
            return tuple(parts)
        if key[at] != ".":
            break
        at += 1
    problem = "is not a path of names with dots between them." if key else "is empty."
    step = 'For example runtime.default, or models."gpt-5.2" for a name that has a dot in it.'
    raise BadConfig("key", key, problem, next_step=step)


def format_key(path: KeyPath) -> str:
    """The path as it is written in a file and on the command line."""
    return ".".join(part if _BARE.fullmatch(part) else _quote(part) for part in path)


def find_node(path: KeyPath, *, scope: Scope, where: str = "") -> Node:
    """What a path leads to; raises `BadConfig` with the nearest name. `where` is the file that names it."""
    node: Node = key_tree()
    if path[:1] == ("agents",) and path[2:] == ("dialect",):  # By this key an agent comes into being.
        scope = msgspec.structs.replace(scope, presets=(*scope.presets, path[1]))
    for depth, name in enumerate(path):
        node = find_child(node, path[:depth], name, scope=scope, where=where)
    return node


def find_leaf(path: KeyPath, *, scope: Scope, where: str = "") -> Leaf:
    """The key at a path; raises `BadConfig` also for a table."""
    node = find_node(path, scope=scope, where=where)
    if not isinstance(node, Leaf):
        below = ", ".join(node.below).replace(ANY, "names of your own")
        raise _key_error(path, where, "is a table of keys, not a value.", f"Below it: {below}.")
    return node


def find_child(node: Node, path: KeyPath, name: str, *, scope: Scope, where: str = "") -> Node:
    """One step down from the node at `path`; raises `BadConfig`."""
    if isinstance(node, Leaf):
        raise _key_error(
            (*path, name), where, f"{format_key(path)} is a value and has nothing below it.", "Shorten the key."
        )
    if name in node.below and name != ANY:
        return node.below[name]
    if ANY not in node.below:
        _refuse_unknown((*path, name), list(node.below), where=where)
    if path == ("agents",) and name not in scope.names:
        refuse_agent((*path, name), scope=scope, where=where)
    below = node.below[ANY]
    names_variables = isinstance(below, Leaf) and below.note.secret
    if not name or not name.isprintable() or (names_variables and "=" in name):
        raise _key_error((*path, name), where, "is not a name.", "Use letters, digits, - and _.")
    return below


def add_location(problem: str, where: str) -> str:
    """The sentence with the file that it is about."""
    source = where if where.isprintable() else repr(where)
    return f"{problem.removesuffix('.')} (in {source})." if where else problem


def find_nearest(name: str, known: Sequence[str]) -> str:
    """The known name that was probably meant, or nothing."""
    from difflib import get_close_matches  # Start-up time: only a mistake needs it.

    return next(iter(get_close_matches(name, known, 1)), "")


def _quote(part: str) -> str:
    return f"'{part}'" if '"' in part or "\\" in part else f'"{part}"'


def _refuse_unknown(path: KeyPath, siblings: list[str], *, where: str) -> NoReturn:
    *above, name = path
    near = find_nearest(name.lower(), siblings)
    # A key without its table, or in the wrong one.
    elsewhere = [format_key(other) for other, _ in leaves(key_tree()) if other[-1] == name and ANY not in other]
    if near:
        step = f"Did you mean {format_key((*above, near))!r}?"
    elif elsewhere:
        step = f"Did you mean {elsewhere[0]!r}?"
    else:
        step = f"Known here: {', '.join(siblings)}."
    raise _key_error(path, where, "is not a known key.", step)


def refuse_agent(path: KeyPath, *, scope: Scope, where: str) -> NoReturn:
    """Raises `BadConfig` for a table of an agent that there is not, with the nearest one."""
    near = find_nearest(path[1].lower(), scope.names)
    hint = f"Did you mean {format_key(('agents', near))!r}? " if near else ""
    raise _key_error(path, where, "names no agent.", f"{hint}Known agents: {', '.join(scope.names)}.")


def _key_error(path: KeyPath, where: str, problem: str, next_step: str) -> BadConfig:
    """Without the value: behind a wrong name may stand a secret."""
    return BadConfig("key", format_key(path), add_location(problem, where), next_step=next_step)


def _build_table(struct: Any) -> Table:
    below = {field.encode_name: _build_node(field) for field in msgspec.structs.fields(struct)}
    return Table(doc=struct.__doc__ or "", below=below)


def _build_node(field: Any) -> Node:
    """A field with a note is a key, or a table of keys with that note; the others are tables of tables."""
    notes = cast(tuple[object, ...], getattr(field.type, "__metadata__", ()))
    note = next((each for each in notes if isinstance(each, Note)), None)
    is_open = get_origin(field.type.__origin__ if note else field.type) is dict
    if note:
        value = Leaf(note=note, default="" if is_open else field.default)
        return Table(doc=note.doc, below={ANY: value}) if is_open else value
    if not is_open:
        return _build_table(field.type)
    each = _build_table(get_args(field.type)[-1])
    return Table(doc=each.doc, below={ANY: each})
