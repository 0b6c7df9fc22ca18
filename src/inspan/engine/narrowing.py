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
    return msgspec.structs.replace(driver, channels=(chosen,), **_instead(chosen))


def way_of(driver: Driver, task: Task, env: Mapping[str, str]) -> str:
    """The provider that the model's name begins with, else the first whose key is there, else the first."""
    prefix, slash, _ = task.model.partition("/")
    named = [way.name for way in driver.ways if slash and way.name == prefix]
    own = {**env, **task.env}
    source = task.key_from.removeprefix("env:").strip()
    with_key = [way.name for way in driver.ways if any(own.get(name) or name == source for name in way.credentials)]
    return next(iter((*named, *with_key, *(way.name for way in driver.ways))), "")


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
    }
    return {name: value for name, value in own.items() if value is not None}
