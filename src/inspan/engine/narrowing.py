"""One channel and one provider out of those that an agent has: the driver as this run needs it."""

from collections.abc import Mapping

import msgspec

from inspan.contracts.driver import Channel, Driver, Way
from inspan.errors import BadInput
from inspan.protocol.task import Task


def by_channel(driver: Driver, name: str) -> Driver:
    """The driver with only the channel of that name, the first for an empty one; raises `BadInput` for no such."""
    known = [channel.name for channel in driver.channels]
    if name and name not in known:
        problem = f"{driver.title} has no such channel."
        raise BadInput("channel", name, problem, next_step=f"Its channels: {', '.join(known)}.")
    chosen = driver.channels[known.index(name) if name else 0]
    own = _instead(chosen)
    if driver.pinned and chosen.install:  # The version that was asked for is that of the program which is started.
        own["install"] = msgspec.structs.replace(chosen.install, version=driver.install.version, release="")
    return msgspec.structs.replace(driver, channels=(chosen,), **own)


def way_of(driver: Driver, task: Task, env: Mapping[str, str]) -> str:
    """The provider that the model's name begins with, else the first whose key is there, else the first.

    A key that was named for this task comes before one that is merely around.
    """
    prefix, slash, _ = task.model.partition("/")
    if slash and any(way.name == prefix for way in driver.ways):
        return prefix
    source = task.key_from.removeprefix("env:").strip()
    for keys in ({source}, _set(task.env), _set(env)):
        for way in driver.ways:
            if not keys.isdisjoint(way.credentials):
                return way.name
    return driver.ways[0].name if driver.ways else ""


def _set(env: Mapping[str, str]) -> set[str]:
    return {name for name, value in env.items() if value}


def by_way(driver: Driver, name: str) -> Driver:
    """The driver with only the provider of that name; the keys of the others are withheld from the agent."""
    way = next((way for way in driver.ways if way.name == name), None)
    if way is None:
        return driver
    others = {key for other in driver.ways for key in other.credentials} - set(way.credentials)
    return msgspec.structs.replace(driver, withheld=tuple(sorted(others)), **_fields(way))


def narrowed(driver: Driver, *, channel: str, way: str) -> Driver:
    """The driver with one channel and one provider, both by name."""
    return by_way(by_channel(driver, channel), way)


def _fields(way: Way) -> dict[str, object]:
    return {
        "wire": way.wire,
        "provider": way.provider,
        "base_url": way.base_url,
        "credentials": way.credentials,
        "base_url_variables": way.base_url_variables,
        "key_aliases": way.key_aliases,
    }


def _instead(channel: Channel) -> dict[str, object]:
    own = {
        "program": channel.program,
        "install": channel.install,
        "version_words": channel.version_words,
        "oldest": channel.oldest,
        "capabilities": channel.capabilities,
        "cannot": channel.cannot,
        "recordable": channel.recordable,
    }
    return {name: value for name, value in own.items() if value is not None}
