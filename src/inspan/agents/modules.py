"""The folder is the registry: drivers and sandboxes are found by listing their folders."""

import os
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from inspan.contracts.driver import Driver
from inspan.contracts.places import SandboxParts, parse_sandbox
from inspan.contracts.sandbox import Sandbox
from inspan.errors import BadInput

_DRIVERS, _SANDBOXES = "inspan.drivers", "inspan.sandboxes"


def agent_names() -> tuple[str, ...]:
    """Every agent that has a driver here."""
    return tuple(name.replace("_", "-") for name in _list_modules(_DRIVERS))


def load_driver(name: str) -> Driver:
    """The driver in the file of that name."""
    return import_driver_module(name).DRIVER


def import_driver_module(name: str) -> Any:
    return import_module(f"{_DRIVERS}.{name.replace('-', '_')}")


def driver_folders() -> list[str]:
    """Where the files of the drivers are."""
    return _list_package_folders(_DRIVERS)


def split_sandbox(text: str) -> SandboxParts:
    """The place and the boundary that a sandbox names; raises `BadInput` with the known ones."""
    return parse_sandbox(text, boundaries=_list_modules(_SANDBOXES))


def sandbox_names() -> tuple[str, ...]:
    """Every sandbox that there is."""
    return _list_modules(_SANDBOXES)


def load_sandbox(name: str) -> Sandbox:
    """The boundary of that name; raises `BadInput` with the known ones."""
    if name not in (known := _list_modules(_SANDBOXES)):
        raise BadInput("sandbox", name, "unknown sandbox.", next_step=f"Known boundaries: {', '.join(known)}.")
    return import_module(f"{_SANDBOXES}.{name}").SANDBOX


def _list_package_folders(package: str) -> list[str]:
    spec = find_spec(package)
    return list(spec.submodule_search_locations or ()) if spec else []


@cache
def _list_modules(package: str) -> tuple[str, ...]:
    names = {entry.removesuffix(".py") for folder in _list_package_folders(package) for entry in os.listdir(folder)}
    return tuple(sorted(name for name in names if name.isidentifier() and not name.startswith("__")))
