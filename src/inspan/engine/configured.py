"""A task as the configuration completes it: what was said stands, what was not comes from the layers."""

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from inspan.config.layers import Config, load
from inspan.config.settings import AgentSettings, Settings
from inspan.contracts.driver import Driver
from inspan.errors import BadConfig, UnknownAgent
from inspan.protocol.limits import Limits, Price, Rates
from inspan.protocol.task import McpServer, Preset, Task

from . import registry
from .presets import preset_driver, preset_of, presets_in
from .sessions import with_session


class Configured(msgspec.Struct, frozen=True, kw_only=True):
    """The whole task, and the environment in which it is to be prepared."""

    task: Task
    env: Mapping[str, str]


def configured(task: Task, *, said: Mapping[str, Any] | None = None, env: Mapping[str, str] = os.environ) -> Configured:
    """Fills what the task leaves open; raises `BadConfig`, and what finding its session may raise.

    `said` are values of a task or its limits that stand though they may be the defaults; by default, those of the
    task's fields that are not.
    """
    values = _unusual(task) if said is None else dict(said)
    if task.agent and not task.preset:
        task = _as_named(task, env)
    task, _ = with_session(task, env)
    settings = config_of(task.cwd, env).settings
    name = task.agent or settings.runtime.default
    preset = task.preset or preset_of(name, settings.agent(name))
    driver = _driver(name, preset, settings)
    own, runtime = settings.agent(driver.name), settings.runtime
    task = msgspec.structs.replace(
        task,
        agent=task.agent or driver.name,
        preset=preset,
        mode=values.get("mode") or runtime.mode or task.mode,
        model=settings.model(driver.name, asked=task.model),
        effort=task.effort or own.effort or runtime.effort,
        profile=values.get("profile") or runtime.profile or task.profile,
        sandbox=task.sandbox or runtime.sandbox,
        system_prompt=task.system_prompt or own.system_prompt,
        append_system_prompt=task.append_system_prompt or own.append_system_prompt,
        limits=_limits(settings, values),
        env={**own.env, **task.env},
        options=(*own.options, *task.options),
        base_url=task.base_url or own.base_url,
        budgets={**settings.budget.for_task(), **task.budgets},
        rates=_rates(settings, task, driver),
        prices={**_prices(settings), **task.prices},
        **_access(task, own),
    )
    task = msgspec.structs.replace(task, mcp_servers={**_servers(settings, task, driver), **task.mcp_servers})
    named = {driver.program_variable: own.program} if own.program and driver.program_variable not in env else {}
    return Configured(task=task, env={**env, **named} if named else env)


def config_of(cwd: str, env: Mapping[str, str]) -> Config:
    """The configuration that holds in a folder; raises `BadConfig`."""
    try:
        return load(cwd, env=env, known_agents=registry.agent_names())
    except BadConfig:
        # It may be about an agent of another package; looking for those takes time.
        if (known := registry.all_names()) == registry.agent_names():
            raise
        return load(cwd, env=env, known_agents=known)


def _as_named(task: Task, env: Mapping[str, str]) -> Task:
    """The task with what the configuration of its folder says of its agent, if that is one of the user's own."""
    if task.agent in registry.agent_names():
        return task
    own = config_of(task.cwd or os.getcwd(), env).settings.agent(task.agent)
    return msgspec.structs.replace(task, preset=preset_of(task.agent, own))


def _driver(name: str, preset: Preset | None, settings: Settings) -> Driver:
    if preset:
        return preset_driver(name, preset)
    try:
        return registry.driver(name)
    except UnknownAgent as error:
        if not (own := presets_in(settings)):
            raise
        raise registry.unknown_agent(name, (*registry.all_names(), *own)) from error


def _unusual(task: Task) -> dict[str, Any]:
    plain, limits = Task(prompt="", cwd=""), Limits()
    said = {name: getattr(task, name) for name in ("mode", "profile") if getattr(task, name) != getattr(plain, name)}
    for name in limits.__struct_fields__:
        if getattr(task.limits, name) != getattr(limits, name):
            said[name] = getattr(task.limits, name)
    return said


def _limits(settings: Settings, said: Mapping[str, Any]) -> Limits:
    own = {name: said[name] for name in Limits.__struct_fields__ if name in said}
    return msgspec.structs.replace(settings.limits.for_task(), **own)


def _rates(settings: Settings, task: Task, driver: Driver) -> Rates:
    said = settings.providers.get(driver.provider)
    return said.for_task() if said and task.rates == Rates() else task.rates


def _prices(settings: Settings) -> dict[str, Price]:
    """Prices that say enough; which those are is checked where the file is read."""
    return {
        model: Price(input=each.input, output=each.output, cache_read=each.cache_read, cache_write=each.cache_write)
        for model, each in settings.prices.items()
        if each.input is not None and each.output is not None
    }


def _access(task: Task, own: AgentSettings) -> dict[str, Any]:
    """A way to the model that was said rules out the configured ones."""
    if task.login or task.key_from or task.model_from.startswith(("script:", "replay:")):
        return {}
    return {"login": own.login, "key_from": "" if own.login else own.key_from}


def _servers(settings: Settings, task: Task, driver: Driver) -> dict[str, McpServer]:
    """Configured servers, where the agent could use them at all."""
    may = task.mode == "exec" or any(tool.startswith("mcp__") for tool in task.allowed_tools or ())
    kinds = driver.capabilities.mcp if may else ()
    return {
        name: McpServer(command=each.command, args=each.args, env=each.env, url=each.url, headers=each.headers)
        for name, each in settings.mcp.items()
        if ("stdio" if each.command else "http") in kinds
    }
