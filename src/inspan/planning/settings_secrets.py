"""The secrets in the settings files of an agent: what stands there its agent reads, and may print."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import cast

from inspan.contracts.driver import Driver
from inspan.system.plain_file import read_plain_file

from .access import list_places
from .environment import name_arguments, name_headers
from .route import LARGEST_SETTINGS_BYTES, read_settings

_PRIVATE_KEY = "-----BEGIN "
_LINES = (".env", ".yaml", ".yml")
# `KEY=value`, `export KEY="value"`, `key: 'value'`.
_ASSIGNED = re.compile(
    r"""^[\s-]*(?:export\s+)?["']?([\w.-]+)["']?\s*[=:]\s*(["']?)(.+?)\2\s*(?:#.*)?$""", re.MULTILINE
)


def list_settings_values(
    driver: Driver, cwd: str, env: Mapping[str, str], *, clean: bool
) -> Iterator[Mapping[str, str]]:
    """What its files assign, as if they were variables, file by file; one that cannot be read says nothing.

    In the profile `clean` nothing of the user's own is read, but what lies in the working folder.
    """
    for path in dict.fromkeys(path for path, _ in (*driver.access.override_settings, *driver.access.other_settings)):
        for place in dict.fromkeys(_list_in_project(path, cwd) if clean else list_places(path, driver, cwd, env)):
            if place.endswith(_LINES):
                yield from _read_lines(place)
            else:
                yield from _list_values("", read_settings(place))


def _list_in_project(path: str, cwd: str) -> list[str]:
    return [] if path.startswith(("~", os.sep)) else [os.path.join(cwd, path)]


def _read_lines(path: str) -> Iterator[Mapping[str, str]]:
    try:
        text = read_plain_file(path, most_bytes=LARGEST_SETTINGS_BYTES, follow=True).decode(errors="replace")
    except OSError:
        return
    for name, _, value in _ASSIGNED.findall(text):
        yield {name: value}


def _list_values(name: str, value: object) -> Iterator[Mapping[str, str]]:
    if isinstance(value, str):
        if " " not in value or value.startswith(_PRIVATE_KEY):  # Histories of prompts lie in some of these files.
            yield {name: value}
    elif isinstance(value, list):
        listed = cast(list[object], value)
        yield from name_arguments([each for each in listed if isinstance(each, str)])
        for each in listed:
            if not isinstance(each, str):
                yield from _list_values(name, each)
    elif isinstance(value, dict):
        found = cast(dict[str, object], value)
        if name.lower().endswith("headers"):
            yield from name_headers({key: said for key, said in found.items() if isinstance(said, str)})
        for key, inner in found.items():
            yield from _list_values(key, inner)
