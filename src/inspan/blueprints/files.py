"""Blueprints in files: TOML, Python that defines `BLUEPRINT`, and those that come with inspan, by their names."""

import os
import runpy
import sys
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any, cast

import msgspec

from inspan.errors import BadInput
from inspan.protocol.blueprint import Blueprint
from inspan.protocol.known_types import know_type

_READY = "ready"
_TOML = ".toml"
_MOST_CHARACTERS = 1_000_000


def list_ready() -> dict[str, Blueprint]:
    """Those that come with inspan, by name."""
    folder = files("inspan.blueprints").joinpath(_READY)
    names = sorted(each.name for each in folder.iterdir() if each.name.endswith(_TOML))
    return {name.removesuffix(_TOML): read_ready(name.removesuffix(_TOML)) for name in names}


def read_blueprint(name: str) -> Blueprint:
    """The blueprint of a file, or one that comes with inspan; raises `BadInput` that names what is wrong in it.

    A file of Python is run: it is a program of whoever names it.
    """
    if not os.path.lexists(name) and os.path.basename(name) == name and not os.path.splitext(name)[1]:
        return read_ready(name)
    title = os.path.splitext(os.path.basename(name))[0]
    found = _load_python(name) if name.endswith(".py") else _parse_file(name)
    return msgspec.structs.replace(found, name=found.name or title)


def read_ready(name: str) -> Blueprint:
    """One that comes with inspan; raises `BadInput` for another name, such as a path."""
    path = files("inspan.blueprints").joinpath(_READY, f"{name}{_TOML}")
    if os.path.basename(name) != name or "\0" in name or not path.is_file():
        known = ", ".join(list_ready())
        step = f"Give the path of a .toml or .py file, or one of these: {known}."
        raise BadInput("BLUEPRINT", name, "there is no such file and no such blueprint.", next_step=step)
    return msgspec.structs.replace(parse_blueprint(path.read_text(encoding="utf-8"), source=name), name=name)


def _parse_file(path: str) -> Blueprint:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_MOST_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BadInput("BLUEPRINT", path, f"it cannot be read: {problem}.", next_step="Name another file.") from error
    if len(text) > _MOST_CHARACTERS:
        problem = f"it has more than {_MOST_CHARACTERS:,} characters."
        raise BadInput("BLUEPRINT", path, problem, next_step="Let nodes read what is long from files.")
    return parse_blueprint(text, source=path)


def parse_blueprint(text: str, *, source: str) -> Blueprint:
    """The blueprint that a text in TOML says; its graph is looked at later."""
    try:
        value: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput("BLUEPRINT", source, f"it is no TOML: {error}.", next_step="Correct that line.") from error
    try:
        return msgspec.convert(value, know_type(Blueprint))
    except msgspec.ValidationError as error:
        step = "The guide *Write a blueprint* has every field: `inspan blueprint show NAME` prints one that works."
        raise BadInput("BLUEPRINT", source, f"{_describe(error, value)}.", next_step=step) from error


def _describe(error: msgspec.ValidationError, value: Any) -> str:
    """What is wrong and where, in the words of the file; of a node without a kind, which it is."""
    said = str(error)
    problem, _, path = said.partition(" - at `")
    table, dots, rest = path.rstrip("`").removeprefix("$.").partition("[...]")
    place = f"{table}.{_find_odd_key(value, table)}{rest}" if dots else table
    return f"{problem[:1].lower()}{problem[1:]}{f' in {place}' if place else ''}"


def _find_odd_key(value: Any, table: str) -> str:
    """msgspec does not say which key of a table it was."""
    entries = cast(dict[str, Any], value[table])
    for name, entry in entries.items():
        try:
            msgspec.convert({"nodes": {}, table: {name: entry}}, know_type(Blueprint))
        except msgspec.ValidationError:
            return name
    return "…"


def _load_python(path: str) -> Blueprint:
    try:
        with _import_from(os.path.dirname(os.path.abspath(path))):
            found = runpy.run_path(path).get("BLUEPRINT")
    except OSError as error:
        problem = f"it cannot be read: {error.strerror}."
        raise BadInput("BLUEPRINT", path, problem, next_step="Name another file.") from error
    except (Exception, SystemExit) as error:  # Whatever somebody's program raises.
        problem = f"it failed with {type(error).__name__}: {error}."
        raise BadInput("BLUEPRINT", path, problem, next_step=f"Try: python {path}") from error
    if not isinstance(found, Blueprint):
        step = "Write BLUEPRINT = inspan.Blueprint(nodes={...}) in it."
        raise BadInput("BLUEPRINT", path, "it defines no BLUEPRINT.", next_step=step)
    return found


@contextmanager
def _import_from(folder: str) -> Generator[None]:
    """As `python FILE` does: what lies beside the file can be imported."""
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
