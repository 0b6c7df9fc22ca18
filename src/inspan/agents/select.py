"""One channel and one provider out of those that an agent has: the driver as this run needs it."""

from collections.abc import Mapping

import msgspec

from inspan.contracts.driver import Channel, Driver, SessionSupport
from inspan.errors import BadInput, Unsupported
from inspan.protocol.session import HookName
from inspan.protocol.task import Task

_CHANNEL_STEPS = {
    "ask": "Choose another agent, or say with allowed_tools what it may do.",
    "hooks": "Leave it out, or choose another agent; on_permission decides about what an agent asks.",
    "session": "Choose another agent, or send each message as a run of its own: `inspan run`, then `inspan resume`.",
}


def select_channel(driver: Driver, name: str) -> Driver:
    """The driver with only the channel of that name, the first for an empty one; raises `BadInput` for no such."""
    known = [channel.name for channel in driver.channels]
    if name and name not in known:
        problem = f"{driver.title} has no such channel."
        raise BadInput("channel", name, problem, next_step=f"Its channels: {', '.join(known)}.")
    chosen = driver.channels[known.index(name) if name else 0]
    program = msgspec.structs.replace(driver.program, **_program_overrides(chosen))
    if driver.program.pinned and chosen.install:  # The version that was asked for is that of the started program.
        recipe = msgspec.structs.replace(chosen.install, version=driver.program.install.version, release="")
        program = msgspec.structs.replace(program, install=recipe)
    return msgspec.structs.replace(
        driver,
        channels=(chosen,),
        program=program,
        trials=msgspec.structs.replace(driver.trials, **_trial_overrides(chosen)),
        capabilities=chosen.capabilities or driver.capabilities,
    )


def choose_channel(driver: Driver, task: Task) -> str:
    """The channel that was named, else the first that can do what the task needs; raises `Unsupported` for none.

    A single prompt takes the usual one, unless somebody is to be asked.
    """
    if task.channel or not task.converses:
        return task.channel
    field = "ask" if task.ask else "session" if task.session else "hooks"
    for channel in driver.channels:
        if _can_hold(channel, task):
            return channel.name
    problem = f"{driver.title} {'cannot ask before it acts' if task.ask else 'has no channel that stays open'}."
    if task.hooks and any(_can_hold(channel, msgspec.structs.replace(task, hooks=())) for channel in driver.channels):
        field, problem = "hooks", f"{driver.title} has no channel that calls {' and '.join(task.hooks)} in {task.mode}."
        raise Unsupported(field, task.hooks, problem, next_step=_CHANNEL_STEPS[field])
    if task.ask and any(_can_hold(channel, _with_any_question(task)) for channel in driver.channels):
        problem = f"{driver.title} asks about what it chooses, not about a tool of yours."
        raise Unsupported(field, task.ask, problem, next_step="Use '*', or choose another agent.")
    # That a session is asked for is no value that somebody gave: what does not fit is the agent.
    named, value = ("agent", driver.name) if field == "session" else (field, getattr(task, field))
    raise Unsupported(named, value, problem, next_step=_CHANNEL_STEPS[field])


def list_next_channels(driver: Driver, task: Task, *, after: str) -> list[str]:
    """The channels behind this one that can do what the task needs."""
    names = [channel.name for channel in driver.channels]
    return [channel.name for channel in driver.channels[names.index(after) + 1 :] if _can_hold(channel, task)]


def check_channel(driver: Driver, task: Task) -> None:
    """Raises `Unsupported` where the channel that was chosen cannot do what the task needs."""
    channel = driver.channels[0]
    if task.converses and not _can_hold(channel, task):
        field = "ask" if task.ask and not channel.session.ask else "hooks" if task.hooks else "session"
        problem = f"channel {channel.name} of {driver.title} cannot do this."
        value = channel.name if field == "session" else getattr(task, field)
        named = "channel" if field == "session" else field
        raise Unsupported(named, value, problem, next_step="Leave --channel out, or name another.")


def _can_hold(channel: Channel, task: Task) -> bool:
    support = channel.session
    asks = support.ask_patterns if any(pattern != "*" for pattern in task.ask) else support.ask
    return (
        (support.messages or not task.session)
        and (asks or not task.ask)
        and all(_can_call(support, hook, task) for hook in task.hooks)
    )


def _can_call(support: SessionSupport, hook: HookName, task: Task) -> bool:
    """Whether a hook works: by the channel itself, else by what inspan does in its place."""
    if hook == "before_tool" and hook not in support.hooks:
        return support.ask_patterns and task.mode == "exec"
    return support.messages


def _with_any_question(task: Task) -> Task:
    return msgspec.structs.replace(task, ask=("*",))


def choose_provider(driver: Driver, task: Task, env: Mapping[str, str]) -> str:
    """The provider that the model's name begins with, else the first whose key is there, else the first.

    A key that was named for this task comes before one that is merely around.
    """
    prefix, slash, _ = task.model.partition("/")
    if slash and any(provider.name == prefix for provider in driver.providers):
        return prefix
    source = task.key_from.removeprefix("env:").strip()
    for keys in ({source}, _names_with_value(task.env), _names_with_value(env)):
        for provider in driver.providers:
            if not keys.isdisjoint(provider.credentials):
                return provider.name
    return driver.providers[0].name if driver.providers else ""


def _names_with_value(env: Mapping[str, str]) -> set[str]:
    return {name for name, value in env.items() if value}


def select_provider(driver: Driver, name: str) -> Driver:
    """The driver with only the provider of that name; the keys of the others are withheld from the agent."""
    provider = next((each for each in driver.providers if each.name == name), None)
    if provider is None:
        return driver
    others = {key for other in driver.providers for key in other.credentials} - set(provider.credentials)
    access = msgspec.structs.replace(driver.access, withheld_credentials=tuple(sorted(others)))
    return msgspec.structs.replace(driver, provider=provider, access=access)


def narrow_driver(driver: Driver, *, channel: str, provider: str) -> Driver:
    """The driver with one channel and one provider, both by name."""
    return select_provider(select_channel(driver, channel), provider)


def _program_overrides(channel: Channel) -> dict[str, object]:
    own = {
        "command": channel.program,
        "install": channel.install,
        "version_pattern": channel.version_pattern,
        "oldest": channel.oldest,
    }
    return {name: value for name, value in own.items() if value is not None}


def _trial_overrides(channel: Channel) -> dict[str, object]:
    own = {"unsupported_scenarios": channel.unsupported_scenarios, "scrub_line": channel.scrub_line}
    return {name: value for name, value in own.items() if value is not None}
