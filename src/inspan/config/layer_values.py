"""From the tables of one layer to checked values: known keys, right kinds, and nothing that the layer may not say."""

import os
from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

import msgspec

from inspan.errors import BadConfig

from .keys import Leaf, Node, add_location, find_child, find_nearest, format_key, key_tree
from .locations import Scope
from .settings import KeyPath

# The user's own file may say everything, a guest's nothing that is guarded; between them are variables and flags.
Rights = Literal["owner", "friend", "guest"]
HIDDEN = "***"
# A language that is no agent's own; what it stands for is known to `agents.presets`.
CHAT = "chat"


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where values come from, in words, and what may be said there. `project` is the folder of a project's file."""

    where: str
    rights: Rights
    project: str = ""


def read_values(raw: Mapping[str, Any], *, source: Source, scope: Scope) -> dict[KeyPath, object]:
    """Every setting that a layer gives, by its path; raises `BadConfig` for the first that cannot be used."""
    return dict(_walk(raw, key_tree(), (), source=source, scope=scope))


def read_value(leaf: Leaf, path: KeyPath, value: object, *, source: Source, scope: Scope) -> object:
    """One checked setting; raises `BadConfig` with file, key, value and the next step."""
    _refuse_forbidden(leaf, path, value, source=source)
    kind = leaf.note.value_type
    try:
        setting = kind.read(value)
    except ValueError as error:
        raise value_error(leaf, path, value, str(error), where=source.where) from error
    known = _list_agents_for(path, scope)
    if known and setting and setting not in known:
        near = find_nearest(str(setting).lower(), known)
        step = f"{f'Did you mean {near!r}? ' if near else ''}Known agents: {', '.join(known)}."
        raise _config_error(path, value, "unknown agent.", where=source.where, next_step=step)
    return _expand_home(setting, scope.home) if kind.is_path else setting


def _list_agents_for(path: KeyPath, scope: Scope) -> tuple[str, ...]:
    """The agents that a key can name; nothing for a key that names none."""
    if path == ("runtime", "default"):
        return scope.names
    return (*scope.agents, CHAT) if path[0] == "agents" and path[2:] == ("dialect",) else ()


def value_error(leaf: Leaf, path: KeyPath, value: object, problem: str, *, where: str) -> BadConfig:
    """The sentence for a value that a key does not take; a secret one is not repeated."""
    shown = HIDDEN if leaf.note.secret else value
    return _config_error(path, shown, problem, where=where, next_step=f"It takes {leaf.note.value_type.description}.")


def _walk(
    raw: Mapping[str, Any], node: Node, path: KeyPath, *, source: Source, scope: Scope
) -> Iterator[tuple[KeyPath, object]]:
    for name, value in raw.items():
        below = find_child(node, path, name, scope=scope, where=source.where)
        here = (*path, name)
        if isinstance(below, Leaf):
            yield here, read_value(below, here, value, source=source, scope=scope)
        elif isinstance(value, dict):
            yield from _walk(cast(dict[str, Any], value), below, here, source=source, scope=scope)
        else:
            problem, step = "is a table of keys, not a value.", f"Write [{format_key(here)}], and keys below it."
            raise BadConfig("key", format_key(here), add_location(problem, source.where), next_step=step)


def _refuse_forbidden(leaf: Leaf, path: KeyPath, value: object, *, source: Source) -> None:
    note = leaf.note
    if note.user_only and source.rights != "owner":
        problem = "is read from your own file alone."
        step = f"Use `inspan config set {format_key(path)} …`."
        raise _config_error(path, value, problem, where=source.where, next_step=step)
    if note.guarded and source.rights == "guest":
        import shlex  # Start-up time: only a refusal needs it.

        problem = (
            "is not taken from a project that you do not trust: it decides what runs here, and with which secrets."
        )
        step = (
            f"Set it in your own file (`inspan config set {format_key(path)} …`), or trust the project: "
            f"`inspan config set projects.trusted {shlex.quote(source.project)}`."
        )
        raise _config_error(path, HIDDEN if note.secret else value, problem, where=source.where, next_step=step)


def _config_error(path: KeyPath, value: object, problem: str, *, where: str, next_step: str) -> BadConfig:
    return BadConfig(format_key(path), value, add_location(problem, where), next_step=next_step)


def _expand_home(setting: object, home: str) -> object:
    if isinstance(setting, tuple):
        return tuple(_expand_home(each, home) for each in cast(tuple[object, ...], setting))
    return os.path.join(home, setting[2:]) if isinstance(setting, str) and setting.startswith("~/") else setting
