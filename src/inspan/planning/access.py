"""By what a run gets at its model, as its user is told; one that has neither a key nor a login is refused."""

import os
from collections.abc import Iterator, Mapping

import msgspec

from inspan.agents.program import Program
from inspan.contracts.driver import Driver
from inspan.credentials.resolve import Credential, list_login_paths
from inspan.errors import CredentialsMissing
from inspan.protocol.plan import DIRECT
from inspan.protocol.task import Task
from inspan.system.paths import expand_home

from .route import (
    find_chosen_url,
    find_given_url,
    find_named_url,
    find_provider_choice,
    find_user_choice,
    get_setting,
    read_settings,
)


class ModelAccess(msgspec.Struct, frozen=True, kw_only=True):
    """With what a run reaches its model, in words that show no secret; `base_url` is an address other than the usual.

    It is `known` where inspan itself found a key or a login, or whose settings choose the provider.
    """

    description: str
    base_url: str = ""
    known: bool = True
    warning: str = ""
    next_step: str = ""


def describe_access(task: Task, driver: Driver, credential: Credential, env: Mapping[str, str]) -> ModelAccess:
    """By the user's own settings where they choose the provider: which key is used is then known to the agent alone."""
    choice = find_provider_choice(task, driver, env)
    if not choice:
        url, known = find_named_url(task, driver, env), credential.kind != "none"
        return ModelAccess(description=credential.description, base_url=url, known=known)
    description, url = f"your own settings choose the provider ({choice})", _find_url_beside(choice, task, driver, env)
    usual = url.rstrip("/") in ("", driver.provider.base_url.rstrip("/"))
    if usual or credential.kind not in ("key", "login"):
        return ModelAccess(description=description, base_url=url)
    return ModelAccess(
        description=description,
        base_url=url,
        warning=f"{driver.title} may send the {credential.description} to {url}: your own settings choose the provider"
        f" ({choice}), and no gateway of inspan keeps it back.",
        next_step="Start it without that, or with --profile clean.",
    )


def _find_url_beside(choice: str, task: Task, driver: Driver, env: Mapping[str, str]) -> str:
    """The address that holds beside the user's choice: of the settings, else of a variable that it leaves in force."""
    if url := find_chosen_url(task, driver, env):
        return url
    said, _ = find_given_url(task, driver, env)
    is_switch = any(name in choice for name in driver.access.override_variables)
    return "" if is_switch or said in driver.access.ignored_variables else find_named_url(task, driver, env)


def refuse_without_access(
    task: Task, driver: Driver, program: Program, credential: Credential, env: Mapping[str, str]
) -> None:
    """Raises `CredentialsMissing` for an agent that would only tell so itself.

    One that may have access in a place that inspan does not know is started, and so is every direct run.
    """
    if program.source == driver.program_variable:
        return  # A program that the user has named may be one that fetches a key.
    if credential.kind != "none" or not driver.access.needs_credential or task.model_from == DIRECT:
        return
    own = {**env, **task.env}
    if _has_other_access(task, driver, own):
        return
    came_back = "; ".join(_describe_places(driver, own))
    raise CredentialsMissing(
        f"{driver.title} has neither a key nor a login: {came_back}.",
        next_step=f"{driver.access.login_hint[0].upper()}{driver.access.login_hint[1:]}, or name a key with --key-from."
        if driver.program.hosted
        else f"{driver.access.login_hint}. With access of its own, start it with --direct.",
        tried="looking for a key and a login",
        came_back=came_back,
    )


def _has_other_access(task: Task, driver: Driver, env: Mapping[str, str]) -> bool:
    _, url = find_given_url(task, driver, env)
    if url.rstrip("/") not in ("", driver.provider.base_url.rstrip("/")) or find_user_choice(task, driver, env):
        return True  # Another address may ask for no key.
    if any(env.get(name) for name in driver.access.other_variables) or _names_other_provider(task, driver):
        return True
    return any(
        bool(get_setting(read_settings(place), key)) if key else os.path.lexists(place)
        for path, key in driver.access.other_settings
        for place in list_places(path, driver, task.cwd, env)
    )


def _names_other_provider(task: Task, driver: Driver) -> bool:
    """Whether the model is one of a provider whose keys inspan does not know."""
    prefix, slash, _ = task.model.partition("/")
    return bool(slash and driver.providers) and prefix not in {each.name for each in driver.providers}


def list_places(path: str, driver: Driver, cwd: str, env: Mapping[str, str]) -> Iterator[str]:
    """Where a file of its settings may lie: as it is named, and where the user's variable has moved its folder to."""
    yield os.path.join(cwd, expand_home(path, env))
    if moved := env.get(driver.state.config_variable, ""):
        yield os.path.join(moved, driver.state.state_subdir, os.path.basename(path))


def _describe_places(driver: Driver, env: Mapping[str, str]) -> Iterator[str]:
    names = [*driver.provider.credentials, *driver.access.withheld_credentials]
    empty = [name for name in names if name in env]
    if empty:
        yield f"{', '.join(empty)} {'is' if len(empty) == 1 else 'are'} set, but empty"
    if unset := [name for name in names if name not in env]:
        yield f"none of {', '.join(unset)} is set" if len(unset) > 1 else f"{unset[0]} is not set"
    if paths := list(list_login_paths(driver, env)):
        yield f"there is no login in {', '.join(paths)}"
