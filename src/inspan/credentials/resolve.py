"""How a run gets at its model: by a gateway of ours, a key from some place, or the user's login where it lies."""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, cast

import msgspec

from inspan.agents.driver_cache import AgentSummary
from inspan.contracts.driver import Driver
from inspan.errors import BadInput, CredentialsMissing
from inspan.protocol.task import Task
from inspan.protocol.wire import DECODE_ERRORS
from inspan.redaction import find_secrets
from inspan.system.paths import expand_home

from .sources import LIMIT_S, fetch_key, permission_warnings

_LARGEST_LOGIN_BYTES = 1024 * 1024
# A value so long that it looks made by a machine is a token, whatever it is called.
_TOKEN_CHARACTERS = 32


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has to show to its provider: `description` names it without showing it.

    `key` is the key, and `variable` where the agent looks for it. With a login, none of the agent's key variables may
    reach it: a key would win over the login.
    """

    kind: Literal["gateway", "key", "login", "none"]
    description: str
    key: str = ""
    variable: str = ""
    warnings: tuple[str, ...] = ()


def resolve_credential(task: Task, driver: Driver, env: Mapping[str, str], *, limit_s: float = LIMIT_S) -> Credential:
    """The one that a run of this task would use; raises `BadInput` for two at once, `CredentialsMissing` for none.

    A command or keyring that should give the key has `limit_s` for it.
    """
    _check_conflicts(task, driver)
    own = {**env, **task.env}
    if task.login:
        return _resolve_login(task, driver, own)
    if _has_scripted_model(task):
        return Credential(kind="gateway", description=f"model from {task.model_from}")
    if task.key_from:
        return _resolve_key(task.key_from, driver, env, limit_s)
    return _detect_credential(task, driver, own)


def read_login_secrets(agents: Iterable[AgentSummary], env: Mapping[str, str]) -> list[tuple[str, str]]:
    """The tokens in the login files of these agents, named: any agent of this user could read and print them."""
    return [
        (f"{agent.name}.{name}", token)
        for agent in agents
        for path in list_login_paths(agent, env)
        for name, token in _read_tokens(expand_home(path, env))
    ]


def _check_conflicts(task: Task, driver: Driver) -> None:
    field = "login" if task.login else "key_from" if task.key_from else ""
    if not field:
        return
    flag = f"--{field.replace('_', '-')}"
    value = True if task.login else task.key_from.partition(":")[0] + ":…"
    if task.login and task.key_from:
        raise BadInput(field, value, "a key is given too.", next_step="Use --login or --key-from, not both.")
    if _has_scripted_model(task):
        raise BadInput(field, value, "the model is scripted.", next_step=f"Use {flag} or --model-from, not both.")
    if named := [name for name in driver.provider.credentials if name in task.env]:
        step = f"Use {flag} or --env {named[0]}=…, not both."
        raise BadInput(field, value, f"a key is given too, in {named[0]}.", next_step=step)


def _has_scripted_model(task: Task) -> bool:
    """Whether no provider is asked."""
    return task.model_from.startswith(("script:", "replay:"))


def _resolve_login(task: Task, driver: Driver, env: Mapping[str, str]) -> Credential:
    if driver.capabilities.login == "no":
        raise BadInput("login", True, f"{driver.title} has no login.", next_step="Leave --login out.")
    if task.profile == "clean":
        raise BadInput(
            "login",
            True,
            "a login is used in place and never copied, and the profile clean does not look there.",
            next_step="Use --profile user with it, or a key in place of the login.",
        )
    path = _find_login_file(driver, env)
    if path:
        return _credential_from_login(path, env)
    looked = list(list_login_paths(driver, env))
    broken = any(os.path.lexists(expand_home(each, env)) for each in looked)
    came_back = "there is a file without a token that can be read" if broken else "there is no such file"
    raise CredentialsMissing(
        f"No login of {driver.title} in {', '.join(looked)}: {came_back}.",
        next_step=f"Log in first: {driver.access.login_hint}.",
        tried=f"looking for a login in {', '.join(looked)}",
        came_back=came_back,
    )


def _resolve_key(key_from: str, driver: Driver, env: Mapping[str, str], limit_s: float) -> Credential:
    if not driver.provider.credentials:
        raise BadInput("key_from", "", f"{driver.title} takes no key.", next_step="Leave --key-from out.")
    key = fetch_key(key_from, env, limit_s=limit_s)
    source = key_from.removeprefix("env:").strip()
    own = source in driver.provider.credentials and source not in driver.provider.key_aliases
    variable = source if own else driver.provider.credentials[0]
    return Credential(
        kind="key", description=f"key from the {key.source}", key=key.value, variable=variable, warnings=key.warnings
    )


def _detect_credential(task: Task, driver: Driver, env: Mapping[str, str]) -> Credential:
    """What the agent itself would find in this environment; keys win over logins, as they do for the agents."""
    path = _find_login_file(driver, env) if task.profile == "user" else ""
    for name in driver.provider.credentials:
        key = env.get(name, "").strip()  # As from any other place: what stands around a key is none of it.
        if key and name not in driver.provider.key_aliases:
            return Credential(kind="key", description=f"key in {name}", key=key, variable=name)
        if key and not path:
            return Credential(
                kind="key", description=f"key in {name}", key=key, variable=driver.provider.credentials[0]
            )
    if path:
        return _credential_from_login(path, env)
    if task.profile == "clean" and not driver.access.key_optional:
        # With any of these it would be another provider's run.
        others = () if "/" in task.model else driver.access.withheld_credentials
        names = ", ".join((*driver.provider.credentials, *others))
        empty = [name for name in (*driver.provider.credentials, *others) if name in env]
        missing = f"{empty[0]} is set, but empty" if empty else f"none of {names} is set"
        raise CredentialsMissing(
            f"The profile clean does not use your login, and {missing}.",
            next_step=f"Set one of them, name a key with --key-from, "
            f"or use --profile user ({driver.access.login_hint}).",
            tried=f"looking for {names}",
            came_back=missing if empty else "none of them is set",
        )
    return Credential(kind="none", description="no key and no login found")


def _credential_from_login(path: str, env: Mapping[str, str]) -> Credential:
    try:
        mode = os.stat(expand_home(path, env)).st_mode
    except OSError:  # Its agent is just replacing it.
        mode = 0
    return Credential(kind="login", description=f"login in {path}", warnings=permission_warnings(path, mode))


def _find_login_file(driver: Driver, env: Mapping[str, str]) -> str:
    """Where the user's login of this agent lies, in the user's own words; empty without one."""
    return next((path for path in list_login_paths(driver, env) if _read_tokens(expand_home(path, env))), "")


def list_login_paths(driver: Driver | AgentSummary, env: Mapping[str, str]) -> Iterator[str]:
    """Where a login would lie: with the agent's settings, which the user may have put elsewhere by its variable."""
    named = env.get(driver.state.config_variable, "")
    moved = os.path.join(named, driver.state.state_subdir) if named else ""
    for path in driver.state.login_paths:
        for root in driver.state.state_paths if moved else ():
            if path.startswith(f"{root}/"):
                path = os.path.join(moved, path.removeprefix(f"{root}/"))
        yield path


def _read_tokens(path: str) -> list[tuple[str, str]]:
    """The strings in a login file that are secret by their name or look made by a machine, by their place in it."""
    try:
        # Never waits, and reads nothing from what is no file.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return list(_find_tokens(msgspec.json.decode(os.read(fd, _LARGEST_LOGIN_BYTES)), ()))
    except (OSError, *DECODE_ERRORS):
        return []
    finally:
        os.close(fd)


def _find_tokens(value: object, place: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, inner in cast(dict[str, object], value).items():
            yield from _find_tokens(inner, (*place, name))
    elif isinstance(value, list):
        for index, inner in enumerate(cast(list[object], value)):
            yield from _find_tokens(inner, (*place, str(index)))
    elif isinstance(value, str) and _is_token(place[-1] if place else "", value):
        yield ".".join(place), value


def _is_token(name: str, value: str) -> bool:
    return bool(find_secrets({name: value}) or (len(value) >= _TOKEN_CHARACTERS and find_secrets({"KEY": value})))
