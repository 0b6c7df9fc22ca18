"""A task as the configuration completes it: what was said stands, what was not comes from the layers."""

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from inspan.agents import modules, registry
from inspan.agents.presets import build_preset, build_preset_driver, build_presets
from inspan.config.layers import Config, load
from inspan.config.settings import AgentSettings, Settings
from inspan.contracts.driver import Driver
from inspan.errors import BadConfig, UnknownAgent
from inspan.protocol.limits import Limits, Price, Rates, WatchdogLimits
from inspan.protocol.task import McpServer, Preset, Task
from inspan.stores.paths import state_home

from .checks import check_cwd
from .confinement import Confinement, inherit_confinement, load_confinement
from .places import find_origin
from .resume import current_folder, resolve_session


class ConfiguredTask(msgspec.Struct, frozen=True, kw_only=True):
    """The whole task, and the environment in which it is to be prepared."""

    task: Task
    env: Mapping[str, str]


def apply_config(
    task: Task, *, explicit: Mapping[str, Any] | None = None, env: Mapping[str, str] = os.environ
) -> ConfiguredTask:
    """Fills what the task leaves open; raises `BadConfig`, `BadInput` for a folder that is none, and what finding its
    session may raise.

    `explicit` are values of a task or its limits that stand though they may be the defaults; by default, those of the
    task's fields that are not. What confined the run that is continued stands before the configuration.
    """
    values = collect_explicit(task) if explicit is None else dict(explicit)
    if task.cwd:
        check_cwd(task.cwd)
    if task.agent and not task.preset:
        task = _with_preset(task, env)
    task, record = resolve_session(task, env)
    before = load_confinement(state_home(env), record)
    task = inherit_confinement(task, before, explicit=values)
    settings = load_config(find_origin(task.cwd, env), env).settings
    name = task.agent or settings.runtime.default
    preset = task.preset or build_preset(name, settings.agent(name))
    driver = _find_driver(name, preset, settings)
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
        net=task.net or runtime.net,
        read=(*(() if before.sandbox else runtime.read), *task.read),
        image=task.image or _find_image(task.sandbox or runtime.sandbox, runtime.image),
        system_prompt=task.system_prompt or own.system_prompt,
        append_system_prompt=task.append_system_prompt or own.append_system_prompt,
        limits=_merge_limits(settings, values, before),
        watchdog=task.watchdog or _choose_watchdog(settings, values, task),
        env={**own.env, **task.env},
        options=(*own.options, *task.options),
        base_url=task.base_url or own.base_url,
        budgets={**settings.budget.to_budgets(), **task.budgets},
        rates=_merge_rates(settings, task, driver),
        prices={**_collect_prices(settings), **task.prices},
        **_select_credential(task, own),
    )
    task = msgspec.structs.replace(
        task, mcp_servers={**_select_mcp_servers(settings, task, driver), **task.mcp_servers}
    )
    named = {driver.program_variable: own.program} if own.program and driver.program_variable not in env else {}
    return ConfiguredTask(task=task, env={**env, **named} if named else env)


def _find_image(sandbox: str, image: str) -> str:
    """The configured image, where the sandbox takes one: others are chosen in spite of it."""
    boundary = modules.split_sandbox(sandbox).boundary if sandbox and image else ""
    takes_image = boundary in modules.sandbox_names() and modules.load_sandbox(boundary).container
    return image if takes_image else ""


def load_config(cwd: str, env: Mapping[str, str]) -> Config:
    """The configuration that holds in a folder; raises `BadConfig`, also for what has changed in a trusted project."""
    config = read_config(cwd, env)
    if config.files:
        from .trust import check_trust  # Start-up time: without a file there is nothing to trust.

        check_trust(config, cwd, env=env)
    return config


def read_config(cwd: str, env: Mapping[str, str]) -> Config:
    """The same, whatever has changed in a project since it was trusted; raises `BadConfig`."""
    try:
        return load(cwd, env=env, known_agents=modules.agent_names())
    except BadConfig:
        # It may be about an agent of another package; looking for those takes time.
        if (known := registry.all_agent_names()) == modules.agent_names():
            raise
        return load(cwd, env=env, known_agents=known)


def build_mcp_servers(settings: Settings) -> dict[str, McpServer]:
    """Every configured MCP server, by name."""
    return {
        name: McpServer(command=each.command, args=each.args, env=each.env, url=each.url, headers=each.headers)
        for name, each in settings.mcp.items()
    }


def _with_preset(task: Task, env: Mapping[str, str]) -> Task:
    """The task with what the configuration of its folder says of its agent, if that is one of the user's own."""
    if task.agent in modules.agent_names():
        return task
    own = load_config(task.cwd or current_folder(), env).settings.agent(task.agent)
    return msgspec.structs.replace(task, preset=build_preset(task.agent, own))


def _find_driver(name: str, preset: Preset | None, settings: Settings) -> Driver:
    if preset:
        return build_preset_driver(name, preset)
    try:
        return registry.find_driver(name)
    except UnknownAgent as error:
        if not (own := build_presets(settings)):
            raise
        raise registry.unknown_agent_error(name, (*registry.all_agent_names(), *own)) from error


def collect_explicit(task: Task) -> dict[str, Any]:
    plain, limits = Task(prompt="", cwd=""), Limits()
    said = {name: getattr(task, name) for name in ("mode", "profile") if getattr(task, name) != getattr(plain, name)}
    for name in limits.__struct_fields__:
        if getattr(task.limits, name) != getattr(limits, name):
            said[name] = getattr(task.limits, name)
    return said


def _merge_limits(settings: Settings, explicit: Mapping[str, Any], before: Confinement) -> Limits:
    """What was said, and for the rest the settings, which loosen no limit of the run that is continued."""
    limits = settings.limits.to_limits()
    own = {name: min(limit, before.resources.get(name, limit)) for name, limit in limits.resources.items()}
    own = {**before.resources, **own, **{name: explicit[name] for name in limits.__struct_fields__ if name in explicit}}
    return msgspec.structs.replace(limits, **own)


def _choose_watchdog(settings: Settings, explicit: Mapping[str, Any], task: Task) -> WatchdogLimits | None:
    """What was said of it, completed by the settings; else the settings alone, if they are about such a run."""
    limits, runs = settings.watchdog.to_limits(), settings.watchdog.runs or "loops"
    said = explicit.get("watchdog")
    if settings.watchdog.triage or (said and said.get("triage")):
        limits = msgspec.structs.replace(limits, triage=_name_helper(settings))
    if said is not None:
        return msgspec.structs.replace(limits, **{name: said[name] for name in said if name != "triage"})
    return limits if runs == "all" or (runs == "loops" and task.parent) else None


def _name_helper(settings: Settings) -> str:
    """The agent of one-shot helpers."""
    runtime = settings.runtime
    return runtime.print_command or runtime.default or registry.find_driver("").name


def _merge_rates(settings: Settings, task: Task, driver: Driver) -> Rates:
    said = settings.providers.get(driver.provider.vendor)
    return said.to_rates() if said and task.rates == Rates() else task.rates


def _collect_prices(settings: Settings) -> dict[str, Price]:
    """Prices that say enough; which those are is checked where the file is read."""
    return {
        model: Price(input=each.input, output=each.output, cache_read=each.cache_read, cache_write=each.cache_write)
        for model, each in settings.prices.items()
        if each.input is not None and each.output is not None
    }


def _select_credential(task: Task, own: AgentSettings) -> dict[str, Any]:
    """A way to the model that was said rules out the configured ones."""
    if task.login or task.key_from or task.model_from.startswith(("script:", "replay:")):
        return {}
    return {"login": own.login, "key_from": "" if own.login else own.key_from}


def _select_mcp_servers(settings: Settings, task: Task, driver: Driver) -> dict[str, McpServer]:
    """Configured servers, where the agent could use them at all."""
    may = task.mode == "exec" or any(tool.startswith("mcp__") for tool in task.allowed_tools or ())
    kinds = driver.capabilities.mcp if may else ()
    servers = build_mcp_servers(settings)
    return {name: each for name, each in servers.items() if ("stdio" if each.command else "http") in kinds}
