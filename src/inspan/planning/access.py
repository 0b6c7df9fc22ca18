"""Refusing a run that has neither a key nor a login, before anything is started."""

import os
from collections.abc import Iterator, Mapping

from inspan.agents.program import Program
from inspan.contracts.driver import Driver
from inspan.credentials.resolve import Credential, list_login_paths
from inspan.credentials.sources import expand_home
from inspan.errors import CredentialsMissing
from inspan.protocol.plan import DIRECT
from inspan.protocol.task import Task

from .route import find_given_url, find_user_choice, has_setting, read_settings


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
        has_setting(read_settings(place), key) if key else os.path.lexists(place)
        for path, key in driver.access.other_settings
        for place in _list_places(path, driver, task.cwd, env)
    )


def _names_other_provider(task: Task, driver: Driver) -> bool:
    """Whether the model is one of a provider whose keys inspan does not know."""
    prefix, slash, _ = task.model.partition("/")
    return bool(slash and driver.providers) and prefix not in {each.name for each in driver.providers}


def _list_places(path: str, driver: Driver, cwd: str, env: Mapping[str, str]) -> Iterator[str]:
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
