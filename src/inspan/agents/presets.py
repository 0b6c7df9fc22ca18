"""Agents of the user's own: one that inspan knows, under another name, by another command, with more arguments."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from inspan.contracts.driver import Driver, Install, Launch, LaunchContext
from inspan.errors import BadConfig, BadInput
from inspan.protocol.known_types import know_type
from inspan.protocol.task import Preset, Task

from . import modules, registry

if TYPE_CHECKING:
    from inspan.config.settings import AgentSettings, Settings


def driver_for_task(task: Task, *, agent: str = "") -> Driver:
    """The driver of a task's agent, which goes by the name of `agent` where the task leaves it open.

    Raises `UnknownAgent`, and what an agent of the user's own may raise.
    """
    return build_preset_driver(task.agent, task.preset) if task.preset else registry.find_driver(agent or task.agent)


def driver_from_description(described: Mapping[str, Any]) -> Driver:
    """The driver of a run that was described in its folder."""
    name, preset = str(described.get("agent", "")), preset_from_description(described)
    return build_preset_driver(name, preset) if preset else registry.find_driver(name)


def preset_from_description(described: Mapping[str, Any]) -> Preset | None:
    """What makes the agent of such a run one of the user's own, if it is."""
    task: dict[str, Any] = described.get("task", {})
    return msgspec.convert(task["preset"], know_type(Preset)) if task.get("preset") else None


def build_preset(name: str, own: "AgentSettings") -> Preset | None:
    """What the configuration says of an agent of the user's own, or None where it has none of that name.

    Raises `BadConfig` for a command that is no command line.
    """
    if not own.dialect:
        return None
    command = _split_command(name, own.command)
    like = _find_dialect_agent(own.dialect)
    of_family = registry.find_driver(like).family
    if of_family and not command:
        step = f"Set agents.{name}.command to the command line that starts it."
        raise BadConfig(f"agents.{name}.command", "", f"{like} is spoken by many: it needs one.", next_step=step)
    if of_family:
        return Preset(like=f"{like}:{_join_command((*command, *own.flags))}")
    return Preset(like=like, command=command, flags=own.flags)


def build_presets(settings: "Settings") -> dict[str, Preset]:
    """All of them, by name."""
    found = {name: build_preset(name, own) for name, own in settings.agents.items()}
    return {name: preset for name, preset in found.items() if preset}


def build_preset_driver(name: str, preset: Preset) -> Driver:
    """The driver of an agent that is like another. Where its command is its own, nothing is known of its version."""
    base = registry.find_driver(preset.like)
    if base.program.hosted and (preset.command or preset.flags):
        step = f"Leave command and flags out, or choose another dialect for {name}."
        raise BadInput("command", _join_command(preset.command), f"{base.title} starts no program.", next_step=step)
    channels = tuple(
        msgspec.structs.replace(channel, launch=_insert_arguments(channel.launch, preset)) for channel in base.channels
    )
    program, access = base.program, base.access
    if preset.command:
        access = msgspec.structs.replace(access, needs_credential=False)  # Its program may bring access of its own.
        program = msgspec.structs.replace(
            program, command=preset.command[0], install=Install(), oldest=(), tested=(), pinned=False
        )
    trials = msgspec.structs.replace(base.trials, demo_agent=False)
    return msgspec.structs.replace(
        base,
        name=name,
        title=name,
        channels=channels,
        program=program,
        access=access,
        trials=trials,
        default=False,
    )


def _find_dialect_agent(dialect: str) -> str:
    """The agent that a dialect names; for a language that is nobody's own, the API that has no address of its own."""
    if dialect in modules.agent_names():
        return dialect
    free = (
        each.name
        for each in registry.load_drivers()
        if each.program.hosted and not each.provider.base_url and each.provider.wire == dialect
    )
    return next(free, dialect)


def _insert_arguments(
    launch: Callable[[Task, LaunchContext], Launch], preset: Preset
) -> Callable[[Task, LaunchContext], Launch]:
    """The same start, with the words of the command and the flags right behind the program."""
    added = (*preset.command[1:], *preset.flags)
    if not added:
        return launch

    def launch_with_arguments(task: Task, context: LaunchContext) -> Launch:
        made = launch(task, context)
        program, *rest = made.argv
        return msgspec.structs.replace(made, argv=(program, *added, *rest))

    return launch_with_arguments


def _join_command(words: tuple[str, ...]) -> str:
    from shlex import join  # Start-up time: few agents are the user's own.

    return join(words)


def _split_command(name: str, command: str) -> tuple[str, ...]:
    """The command line in words, its program by name or by a whole path."""
    if not command:
        return ()
    import shlex  # Start-up time: as above.

    try:
        words = shlex.split(command)
    except ValueError as error:
        step = "Close its quotes, or write it without."
        raise BadConfig(
            f"agents.{name}.command", command, f"is not a command line: {error}.", next_step=step
        ) from error
    if words and words[0].startswith("~/"):
        words[0] = os.path.expanduser(words[0])
    if words and "/" in words[0] and not os.path.isabs(words[0]):
        step = "Give the program's name, to be found on PATH, or its whole path."
        raise BadConfig(f"agents.{name}.command", command, "is a path within some folder.", next_step=step)
    return tuple(words)
