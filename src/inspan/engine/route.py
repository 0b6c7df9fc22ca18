"""The way of a run's model calls: straight to the provider, or through the gateway, and to whom from there."""

import os
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from inspan.contracts.driver import Driver
from inspan.errors import BadInput
from inspan.gateway.http.routes import check_key, proxy_for, read_base_url
from inspan.protocol.task import Task

from .access import Access
from .keys import at_home

DIRECT, LIVE = "direct", "live"
FILED = ("record", "replay", "script")
_LARGEST_SETTINGS_BYTES = 1024 * 1024
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """Where model calls go. It may hold a key: it is passed on in memory and never stored.

    `variable` is where the agent expects its key, and finds the run's token. Without one, behind a gateway, the agent
    brings its own login and the gateway passes it on.
    """

    model_from: str
    url: str = ""
    key: str = ""
    variable: str = ""
    proxies: dict[str, str] = {}
    ca_files: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        return self.model_from.partition(":")[0]

    @property
    def file(self) -> str:
        return self.model_from.partition(":")[2]

    @property
    def uses_gateway(self) -> bool:
        return self.kind != DIRECT

    @property
    def reaches_provider(self) -> bool:
        return self.kind in (LIVE, "record")

    @property
    def needs_tls(self) -> bool:
        return self.reaches_provider and self.url.startswith("https:")


def check_model_from(model_from: str) -> None:
    """Raises `BadInput` for what names no way, and for a file that cannot serve as what it should be."""
    kind, _, file = model_from.partition(":")
    if model_from in ("", DIRECT, LIVE):
        return
    if kind not in FILED or (not file and kind != "script"):
        ways = "Use live, direct, record:FILE, replay:FILE or script:FILE."
        raise BadInput("model_from", model_from, "no such source of a model.", next_step=ways)
    # Start-up time: each of them is needed by few runs.
    if kind == "script":
        from inspan.gateway import load_scenario

        load_scenario(file)
    elif kind == "replay":
        from inspan.gateway.cassettes.file import load_cassette

        load_cassette(file)
    else:
        from inspan.gateway.cassettes.file import check_recording

        check_recording(file)


def route(task: Task, driver: Driver, access: Access, env: Mapping[str, str]) -> Route:
    """The way that this run's calls take; raises `BadInput` where what was asked for needs another one."""
    kind = task.model_from.partition(":")[0]
    if kind in ("script", "replay"):
        return Route(model_from=task.model_from, variable=next(iter(driver.credentials), "INSPAN_RUN_TOKEN"))
    obstacle = _obstacle(task, driver, access, env)
    needed = _what_needs_it(task, driver)
    if needed and (obstacle or kind == DIRECT):
        raise BadInput(
            needed,
            task.model_from or "given",
            obstacle or "the gateway keeps it, and a direct run has none.",
            next_step="Leave direct out."
            if kind == DIRECT and not obstacle
            else "Use a key and --profile clean, or leave it out.",
        )
    # A login works as it always did, unless something is asked for that only a gateway can do.
    if kind == DIRECT or obstacle or (access.kind == "login" and not needed):
        return Route(model_from=DIRECT)
    url = address(task, driver, env, login=access.kind == "login")
    proxies = {name.lower(): env[name] for name in env if name.lower() in _PROXIES}
    proxy_for(read_base_url(url)[0], proxies)
    check_key(access.key)
    return Route(
        model_from=task.model_from or LIVE,
        url=url,
        key=access.key,
        variable=access.variable,
        proxies=proxies,
        ca_files=tuple(env[name] for name in ("NODE_EXTRA_CA_CERTS",) if env.get(name)),
    )


def check_base_url(url: str) -> None:
    """Raises `BadInput` for what is no address of a provider."""
    if url:
        read_base_url(url)


def _what_needs_it(task: Task, driver: Driver) -> str:
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


def _obstacle(task: Task, driver: Driver, access: Access, env: Mapping[str, str]) -> str:
    """Why this run cannot have a gateway; empty when it can."""
    if not driver.capabilities.follows_gateway or not address(task, driver, env):
        return f"{driver.title} cannot be pointed at a gateway."
    if access.kind == "none" and not driver.key_optional:
        return "there is neither a key nor a login that it could pass on."
    if access.kind == "login" and not driver.capabilities.login_follows_gateway:
        return f"{driver.title} with a login cannot be pointed at a gateway."
    if access.variable in driver.bound_credentials:
        return f"{access.variable} works only without a gateway."
    if task.profile == "user" and not task.base_url and (chosen := _own_choice(task, driver, env)):
        return f"your own settings choose the way to the model: {chosen}."
    return ""


def _own_choice(task: Task, driver: Driver, env: Mapping[str, str]) -> str:
    """By what the user has chosen another provider for this agent, where it reads the user's settings at all."""
    own = {**env, **task.env}
    if switch := next((name for name in driver.switches if own.get(name)), ""):
        return f"{switch} is set"
    if task.mode not in driver.settings_in:
        return ""
    named = own.get(driver.config_variable, "")
    moved = os.path.join(named, driver.state_below) if named else ""
    for path in dict.fromkeys(path for path, _ in driver.settings):
        place = os.path.join(moved, os.path.basename(path)) if moved else path
        settings = _settings(at_home(place, own))
        for key in (key for other, key in driver.settings if other == path):
            if _found(settings, key):
                return f"{key} in {place}"
    return ""


def _settings(path: str) -> dict[str, Any]:
    """A settings file of an agent, in JSON or TOML; what cannot be read says nothing: its agent will tell."""
    try:
        with open(path, "rb") as file:
            text = file.read(_LARGEST_SETTINGS_BYTES)
        if path.endswith(".toml"):
            import tomllib  # Start-up time: most runs meet no such file.

            return tomllib.loads(text.decode())
        return _json(text)
    except (OSError, ValueError, RecursionError):
        return {}


def _json(text: bytes) -> dict[str, Any]:
    """JSON, also with the comments and last commas that some agents let stand in theirs."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        import re  # Start-up time: few files have any.

        string = rb'"(?:\\.|[^"\\])*"'
        bare = re.sub(rb"(%b)|//[^\n]*|/\*.*?\*/" % string, lambda found: found[1] or b"", text, flags=re.DOTALL)
        plain = re.sub(rb"(%b)|,(?=\s*[}\]])" % string, lambda found: found[1] or b"", bare, flags=re.DOTALL)
        return msgspec.json.decode(plain, type=dict[str, Any])


def _found(settings: dict[str, Any], key: str) -> bool:
    value: object = settings
    for part in key.split("."):
        value = cast(dict[str, object], value).get(part) if isinstance(value, dict) else None
    return bool(value)


def address(task: Task, driver: Driver, env: Mapping[str, str], *, login: bool = False) -> str:
    """The provider's, as the task, the user's variables or the driver name it; empty where none of them does."""
    return next(_addresses(task, driver, env, login=login)).rstrip("/")


def _addresses(task: Task, driver: Driver, env: Mapping[str, str], *, login: bool) -> Iterator[str]:
    if task.base_url:
        yield task.base_url
    own = {**env, **task.env}
    yield from (own[name] for name in driver.base_url_variables if own.get(name))
    yield driver.login_url if login and driver.login_url else driver.base_url
