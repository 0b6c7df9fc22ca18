"""The way of a run's model calls: straight to the provider, or through the gateway, and to whom from there."""

import os
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from inspan.contracts.driver import Driver
from inspan.credentials.resolve import Credential
from inspan.errors import BadInput
from inspan.gateway.http.routes import check_key, proxy_for, read_base_url
from inspan.protocol.budget import format_budget
from inspan.protocol.plan import DIRECT, LIVE, Route
from inspan.protocol.task import Task
from inspan.system.paths import expand_home
from inspan.system.plain_file import read_plain_file

FILE_SOURCES = ("record", "replay", "script")
LARGEST_SETTINGS_BYTES = 8 * 1024 * 1024
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def check_model_from(model_from: str) -> None:
    """Raises `BadInput` for what names no way, and for a file that cannot serve as what it should be."""
    kind, _, file = model_from.partition(":")
    if model_from in ("", DIRECT, LIVE):
        return
    if kind not in FILE_SOURCES or not file:
        ways = "Use live, direct, record:FILE, replay:FILE or script:FILE."
        raise BadInput("model_from", model_from, "unknown model source.", next_step=ways)
    # Start-up time: each of them is needed by few runs.
    if kind == "script":
        from inspan.gateway import load_scenario  # Start-up time: each is needed by few runs.

        load_scenario(file)
    elif kind == "replay":
        from inspan.gateway.cassettes.file import load_cassette  # Start-up time: each is needed by few runs.

        load_cassette(file)
    else:
        from inspan.gateway.cassettes.file import check_recording  # Start-up time: each is needed by few runs.

        check_recording(file)


def choose_route(task: Task, driver: Driver, credential: Credential, env: Mapping[str, str]) -> Route:
    """The way that this run's calls take; raises `BadInput` where what was asked for needs another one."""
    kind = task.model_from.partition(":")[0]
    if kind in ("script", "replay"):
        return Route(model_from=task.model_from, variable=next(iter(driver.provider.credentials), "INSPAN_RUN_TOKEN"))
    obstacle = _find_gateway_obstacle(task, driver, credential, env)
    needed = _find_gateway_need(task, driver)
    if needed and (obstacle or kind == DIRECT):
        raise BadInput(
            needed,
            _describe_wish(task, needed),
            obstacle or "it needs the gateway, which a direct run does not use.",
            next_step="Leave direct out."
            if kind == DIRECT and not obstacle
            else "Use a key and --profile clean, or leave it out.",
        )
    # A login works as it always did, unless something is asked for that only a gateway can do, or another address is.
    if kind == DIRECT or obstacle or (credential.kind == "login" and not needed and not task.base_url):
        return Route(model_from=DIRECT, url=_find_direct_url(task, driver, credential, env, obstacle=obstacle))
    url = find_base_url(task, driver, env, login=credential.kind == "login")
    proxies = {name.lower(): env[name] for name in env if name.lower() in _PROXIES}
    proxy_for(read_base_url(url)[0], proxies)
    check_key(credential.key, source=f"the {credential.description}")
    return Route(
        model_from=task.model_from or LIVE,
        url=url,
        key=credential.key,
        variable=credential.variable,
        proxies=proxies,
        ca_files=tuple(env[name] for name in ("NODE_EXTRA_CA_CERTS",) if env.get(name)),
    )


def _find_direct_url(
    task: Task, driver: Driver, credential: Credential, env: Mapping[str, str], *, obstacle: str
) -> str:
    """Where a run without a gateway is to be led; raises `BadInput` where it was given an address and cannot get there.

    Empty where there is no such address, or the agent follows it by itself as it would by hand.
    """
    said, url = find_given_url(task, driver, env)
    if not url or driver.program.hosted:
        return ""
    chosen = find_user_choice(task, driver, env) if task.profile == "user" else ""
    if said != "base_url" and task.profile == "user" and (chosen or said not in driver.access.ignored_variables):
        return ""
    read_base_url(url)
    reason = _find_direct_obstacle(driver, credential, chosen)
    if not reason:
        return url.rstrip("/")
    # With an obstacle, leaving --direct out would lead to the same run.
    step = "Use a key and --profile clean" if obstacle else "Leave --direct out: behind the gateway the run goes there"
    raise BadInput(said, url, reason, next_step=f"{step}; or leave out {_describe_setting(said, driver)}.")


def _find_direct_obstacle(driver: Driver, credential: Credential, chosen: str) -> str:
    """Why an agent without a gateway cannot be led to another address; empty where it can."""
    if credential.variable in driver.access.bound_credentials:
        return f"{credential.variable} works only at its provider's own address."
    if credential.kind == "login" and not driver.capabilities.login_follows_gateway:
        return f"{driver.title} with a login goes to its vendor's own address."
    by_variable = driver.access.direct_address == "variable" and bool(driver.provider.base_url_variables)
    if driver.access.direct_address == "launch" or (by_variable and not chosen):
        return ""
    if by_variable:
        return f"your own settings choose another provider: {chosen}."
    return f"without a gateway, {driver.title} would go to its provider's usual address."


def find_given_url(task: Task, driver: Driver, env: Mapping[str, str]) -> tuple[str, str]:
    """The address that somebody has named in place of the usual one, and by which field or variable."""
    if task.base_url:
        return "base_url", task.base_url
    own = {**env, **task.env}
    return next(((name, own[name]) for name in driver.provider.base_url_variables if own.get(name)), ("", ""))


def find_named_url(task: Task, driver: Driver, env: Mapping[str, str]) -> str:
    """The address that somebody has named for the model; empty for the usual one, and where a script answers."""
    if task.model_from.startswith(("script:", "replay:")):
        return ""
    _, url = find_given_url(task, driver, env)
    return url if not url or _is_address(url) else "an address of its own"


def _is_address(url: str) -> bool:
    """Whether it can be shown: what is none may have a password in it, and only the agent knows how to read it."""
    try:
        read_base_url(url)
    except BadInput:
        return False
    return True


def _describe_setting(said: str, driver: Driver) -> str:
    return said if said != "base_url" else f"--base-url, or agents.{driver.name}.base_url in the configuration"


def find_provider_url(task: Task, driver: Driver, credential: Credential, env: Mapping[str, str], route: Route) -> str:
    """Where an agent that goes there without a gateway will look for its model; empty where only the agent knows."""
    if route.uses_gateway or route.url:
        return route.url
    if credential.variable in driver.access.bound_credentials:
        return ""
    if credential.kind != "key" and not driver.access.login_url:
        return ""  # With a login that inspan may not even see, it goes to its vendor's own address.
    if task.profile == "user" and find_user_choice(task, driver, env):
        return ""
    return find_base_url(task, driver, env, login=credential.kind == "login")


def check_base_url(url: str) -> None:
    """Raises `BadInput` for what is no address of a provider."""
    if url:
        read_base_url(url)


def _find_gateway_need(task: Task, driver: Driver) -> str:
    """The field of a task that only a gateway can fulfil; empty without one."""
    counts_turns = driver.capabilities.max_turns != "no"
    kept = any(each.usd or each.tokens or each.calls for each in task.budgets.values())
    wishes = {
        "budgets": kept,
        "faults": bool(task.faults),
        "max_turns": task.limits.max_turns is not None and not counts_turns,
        "model_from": task.model_from not in ("", DIRECT),
    }
    return next((field for field, asked in wishes.items() if asked), "")


def _describe_wish(task: Task, field: str) -> object:
    """What was asked for in a field of a task, as it would be typed."""
    if field == "budgets":
        return ", ".join(format_budget(budget) for budget in task.budgets.values())
    values = {"faults": ", ".join(task.faults), "max_turns": task.limits.max_turns}
    return values.get(field, task.model_from)


def _find_gateway_obstacle(task: Task, driver: Driver, credential: Credential, env: Mapping[str, str]) -> str:
    """Why this run cannot have a gateway; empty when it can."""
    if not driver.capabilities.follows_gateway or not find_base_url(task, driver, env):
        return f"{driver.title} cannot be pointed at a gateway."
    if credential.kind == "none" and not driver.access.key_optional:
        return "there is neither a key nor a login that it could pass on."
    if credential.kind == "login" and not driver.capabilities.login_follows_gateway:
        return f"{driver.title} with a login cannot be pointed at a gateway."
    if credential.variable in driver.access.bound_credentials:
        return f"{credential.variable} works only without a gateway."
    if chosen := find_provider_choice(task, driver, env):
        return f"your own settings choose another provider: {chosen}."
    return ""


def find_user_choice(task: Task, driver: Driver, env: Mapping[str, str]) -> str:
    """By what the user has chosen another provider for this agent, where it reads the user's settings at all."""
    own = {**env, **task.env}
    if switch := next((name for name in driver.access.override_variables if own.get(name)), ""):
        return f"{switch} is set"
    return next((f"{key} in {place}" for key, place, value in _list_user_settings(task, driver, own) if value), "")


def find_provider_choice(task: Task, driver: Driver, env: Mapping[str, str]) -> str:
    """By what the user's own settings choose the provider of this very run; empty where they do not count in it."""
    if task.profile != "user" or task.base_url or task.model_from.startswith(("script:", "replay:")):
        return ""
    return find_user_choice(task, driver, env)


def find_chosen_url(task: Task, driver: Driver, env: Mapping[str, str]) -> str:
    """The address that the user's own settings of this agent name; empty where they name none that can be shown."""
    named = (
        value
        for key, _, value in _list_user_settings(task, driver, {**env, **task.env})
        if key.replace("_", "").lower().endswith("baseurl")
    )
    return next((url for url in named if isinstance(url, str) and url and _is_address(url)), "")


def _list_user_settings(task: Task, driver: Driver, own: Mapping[str, str]) -> Iterator[tuple[str, str, object]]:
    """The settings by which a provider can be chosen, in order: key, file, and value, which may say nothing."""
    if task.mode not in driver.access.settings_modes:
        return
    named = own.get(driver.state.config_variable, "")
    moved = os.path.join(named, driver.state.state_subdir) if named else ""
    for path in dict.fromkeys(path for path, _ in driver.access.override_settings):
        place = os.path.join(moved, os.path.basename(path)) if moved else path
        settings = read_settings(expand_home(place, own))
        for key in (key for other, key in driver.access.override_settings if other == path):
            yield key, place, get_setting(settings, key)


def read_settings(path: str) -> dict[str, Any]:
    """A settings file of an agent, in JSON or TOML; what cannot be read says nothing: its agent will tell."""
    try:
        text = read_plain_file(path, most_bytes=LARGEST_SETTINGS_BYTES, follow=True)
        if path.endswith(".toml"):
            import tomllib  # Start-up time: most runs meet no such file.

            return tomllib.loads(text.decode())
        return _parse_json(text)
    except (OSError, ValueError, RecursionError):
        return {}


def _parse_json(text: bytes) -> dict[str, Any]:
    """JSON, also with the comments and last commas that some agents let stand in theirs."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        import re  # Start-up time: few files have any.

        string = rb'"(?:\\.|[^"\\])*"'
        bare = re.sub(rb"(%b)|//[^\n]*|/\*.*?\*/" % string, lambda found: found[1] or b"", text, flags=re.DOTALL)
        plain = re.sub(rb"(%b)|,(?=\s*[}\]])" % string, lambda found: found[1] or b"", bare, flags=re.DOTALL)
        return msgspec.json.decode(plain, type=dict[str, Any])


def get_setting(settings: dict[str, Any], key: str) -> object:
    """The value of a dotted key of these settings; None where there is none."""
    value: object = settings
    for part in key.split("."):
        value = cast(dict[str, object], value).get(part) if isinstance(value, dict) else None
    return value


def find_base_url(task: Task, driver: Driver, env: Mapping[str, str], *, login: bool = False) -> str:
    """The provider's, as the task, the user's variables or the driver name it; empty where none of them does."""
    return next(_list_base_urls(task, driver, env, login=login)).rstrip("/")


def _list_base_urls(task: Task, driver: Driver, env: Mapping[str, str], *, login: bool) -> Iterator[str]:
    _, given = find_given_url(task, driver, env)
    if given:
        yield given
    yield driver.access.login_url if login and driver.access.login_url else driver.provider.base_url
