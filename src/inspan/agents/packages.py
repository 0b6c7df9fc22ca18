"""The Python package that a channel goes through: looked for, and never imported here."""

import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from inspan.contracts.driver import Driver
from inspan.errors import AgentMissing


def find_package(driver: Driver) -> tuple[str, str]:
    """The file and the version of the package that this Python has; raises `AgentMissing` where it has none."""
    channel = driver.channels[0]
    wanted = channel.package
    if wanted is None:
        return "", ""
    spec = find_spec(wanted.module)
    if spec is None or not spec.origin:
        raise AgentMissing(
            f"Channel {channel.name} of {driver.title} needs the Python package {wanted.name}, "
            f"which {sys.executable} does not have.",
            next_step=f"`pip install 'inspan[{wanted.extra}]'`, or choose another channel.",
        )
    try:
        return spec.origin, version(wanted.name)
    except PackageNotFoundError:
        return spec.origin, ""  # A copy that nobody has installed.
