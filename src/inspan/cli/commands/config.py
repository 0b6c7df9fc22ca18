"""Show and change what is configured, and where it comes from."""

import os
from contextlib import suppress
from typing import Any, cast

import click
import msgspec

from inspan.agents.registry import all_agent_names
from inspan.cli.folders import require_current_folder
from inspan.cli.output import format_columns, print_json
from inspan.config import locations
from inspan.config.keys import parse_key
from inspan.config.layers import TRUSTED, Config
from inspan.config.listing import Row, list_rows, mask_value
from inspan.errors import BadConfig
from inspan.planning.settings import load_config, read_config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from inspan.config.editor import ConfigEditor, FileName

_WIDTH = 60
_json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object.")
_project_option = click.option(
    "--project", "file", flag_value="project", help="In inspan.toml, which goes with the project."
)
_local_option = click.option(
    "--local", "file", flag_value="local", help="In inspan.local.toml, for this checkout alone."
)


@click.group()
def command() -> None:
    """Show and change what is configured, and where it comes from.

    Layers, each stronger than the one before: defaults, your own file, inspan.toml and inspan.local.toml of the
    project, INSPAN_… variables, flags. A KEY is a path such as runtime.default or agents.NAME.model.
    """


@command.command("get")
@click.argument("key")
@_json_option
def get_command(key: str, as_json: bool) -> None:
    """Print the value that counts here. Secrets are shown as ***."""
    found = list_rows(_load_config(), key)
    if as_json:
        print_json(key=key, value=_to_tree(found, key))
    elif _is_value(found, key):
        click.echo(_format_plain(found[0].value))
    else:
        for row in found:
            click.echo(f"{row.key} = {_to_json(row.value)}")


@command.command("set")
@click.argument("key")
@click.argument("value")
@_project_option
@_local_option
@_json_option
def set_command(key: str, value: str, file: "FileName | None", as_json: bool) -> None:
    """Set a key in your own file, or in a project's.

    A list is written a,b,c or as TOML. Comments and order of the file stay; a bad key or value changes nothing.
    projects.trusted adds the folder to those that are trusted already.
    """
    # An import that only a change needs, and that takes long.
    from inspan.config.editor import assign

    editor = _open_editor(file)
    stands = assign(editor, key, value)
    _remember(editor, key, value)
    path = editor.layer.path
    shown = mask_value(stands, key, scope=editor.scope)
    if as_json:
        print_json(key=key, value=shown, file=path)
    else:
        click.echo(f"{key} = {_to_json(shown)} in {path}")


@command.command("unset")
@click.argument("key")
@_project_option
@_local_option
@click.option("--dry-run", is_flag=True, help="Change nothing, only say what would be.")
@_json_option
def unset_command(key: str, file: "FileName | None", dry_run: bool, as_json: bool) -> None:
    """Take a key, or a whole table, out of a file: your own, or a project's."""
    # An import that only a change needs, and that takes long.
    from inspan.config.editor import remove

    editor = _open_editor(file)
    remove(editor, key, dry_run=dry_run)
    if not dry_run:
        _remember(editor, key)
    if as_json:
        print_json(key=key, file=editor.layer.path, dry_run=dry_run)
    else:
        click.echo(f"{key} {'would be taken out of' if dry_run else 'is no longer in'} {editor.layer.path}")


@command.command("path")
@_json_option
def path_command(as_json: bool) -> None:
    """List the files that are looked at here, the stronger ones last."""
    layers = locations.list_files(require_current_folder(), os.environ)
    found = [(layer, locations.exists(layer.path)) for layer in layers]
    if as_json:
        print_json(files=[{"layer": layer.name, "file": layer.path, "exists": there} for layer, there in found])
        return
    table = [(layer.name, "yes" if there else "no", layer.path) for layer, there in found]
    click.echo(format_columns(("LAYER", "EXISTS", "FILE"), table))


@command.command("explain")
@click.argument("key", default="")
@_json_option
def explain_command(key: str, as_json: bool) -> None:
    """Show each key with its value and the layer that it comes from."""
    found = list_rows(_load_config(), key)
    if as_json:
        listed = [
            {"key": row.key, "value": row.value, "layer": row.layer.name, "from": row.layer.path} for row in found
        ]
        print_json(keys=listed)
        return
    table = [(row.key, _truncate(_to_json(row.value)), row.layer.name, row.layer.path) for row in found]
    click.echo(format_columns(("KEY", "VALUE", "LAYER", "FROM"), table))


@command.command("schema")
@click.option("--json", "as_json", is_flag=True, help="Has no effect: the output is always JSON.")
def schema_command(as_json: bool) -> None:
    """Print the JSON Schema of a configuration file, for editors."""
    # An import that only this command needs.
    from inspan.config.schema import json_schema

    click.echo(msgspec.json.format(msgspec.json.encode(json_schema(known_agents=all_agent_names())), indent=2))


def _load_config() -> Config:
    return load_config(require_current_folder(), os.environ)


def _open_editor(file: "FileName | None") -> "ConfigEditor":
    from inspan.config.editor import open_editor  # Start-up time: only changes need it.

    return open_editor(file or "user", cwd=require_current_folder(), env=os.environ, known_agents=all_agent_names())


def _remember(editor: "ConfigEditor", key: str, value: str = "") -> None:
    """Notes what is trusted from now on: whole folders that were named, or one key of a project's file."""
    # Imports that only a change needs.
    from inspan.config.editor import list_named_folders
    from inspan.planning.trust import remember_change, remember_trust

    with suppress(BadConfig):  # What is wrong with other files is told where they are used.
        if editor.layer.name != "user":
            remember_change(read_config(editor.cwd, os.environ), editor.layer.path, key, env=os.environ)
    folders = list_named_folders(editor, value) if value and parse_key(key) == TRUSTED else []
    for folder in folders:
        with suppress(BadConfig):
            remember_trust(read_config(folder, os.environ), folder, env=os.environ)


def _is_value(found: list[Row], key: str) -> bool:
    return [row.path for row in found] == [parse_key(key)]


def _to_tree(found: list[Row], key: str) -> object:
    """The value of a key, or the tables below it."""
    if _is_value(found, key):
        return found[0].value
    tree: dict[str, Any] = {}
    for row in found:
        *above, last = row.path[len(parse_key(key)) :]
        table = tree
        for name in above:
            table = table.setdefault(name, {})
        table[last] = row.value
    return tree


def _format_plain(value: object) -> str:
    """For a script: text without quotes, a list line by line."""
    if isinstance(value, list):
        return "\n".join(cast(list[str], value))
    return value if isinstance(value, str) else _to_json(value)


def _to_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _truncate(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
