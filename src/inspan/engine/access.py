"""How a run gets at its model: a key from a variable, file, command or keyring, or the user's login in its place."""

import os
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from inspan.contracts.driver import Driver
from inspan.errors import BadInput, CredentialsMissing, KeyUnusable
from inspan.protocol.task import Task

_COMMAND_S = 30.0
_LARGEST_KEY_BYTES = 64 * 1024


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """The way to the model: `words` tell it without showing it, `variables` hold the key for the agent.

    With a login, none of the agent's key variables may reach it: a key would win over the login.
    """

    kind: Literal["gateway", "key", "login", "none"]
    words: str
    variables: Mapping[str, str] = {}


def access(task: Task, driver: Driver, env: Mapping[str, str]) -> Access:
    """The one that a run of this task would use; raises `CredentialsMissing` or `KeyUnusable` with the next step."""
    if task.login and task.key_from:
        raise BadInput("login", True, "a key is given too.", next_step="Use --login or --key-from, not both.")
    if task.login:
        return _login(task, driver)
    if task.model_from:
        return Access(kind="gateway", words=f"model from {task.model_from}")
    if task.key_from:
        return _key(task.key_from, driver, env)
    path = login_file(driver) if task.profile == "user" else ""
    for name in driver.credentials:
        key = task.env.get(name) or env.get(name)
        if key and name not in driver.key_aliases:
            return Access(kind="key", words=f"key in {name}")
        if key and not path:
            return Access(kind="key", words=f"key in {name}", variables={driver.credentials[0]: key})
    if path:
        return Access(kind="login", words=f"login in {path}")
    if task.profile == "clean":
        raise CredentialsMissing(
            f"The profile clean does not use your login, and none of {', '.join(driver.credentials)} is set.",
            next_step=f"Set one of them, name a key with --key-from, or use --profile user ({driver.login_hint}).",
        )
    return Access(kind="none", words="no key and no login found")


def login_file(driver: Driver) -> str:
    """Where the user's login of this agent lies, in the user's own words; empty without one."""
    return next((path for path in driver.login_paths if os.path.exists(os.path.expanduser(path))), "")


def _login(task: Task, driver: Driver) -> Access:
    if driver.capabilities.login == "no":
        raise BadInput("login", True, f"{driver.title} has no login.", next_step="Leave --login out.")
    if task.profile == "clean":
        raise BadInput(
            "login",
            True,
            "a login is used where it lies and never copied, and the profile clean does not look there.",
            next_step="Use --profile user with it.",
        )
    if task.model_from:
        raise BadInput("login", True, "the model is scripted.", next_step="Use --login or --model-from, not both.")
    path = login_file(driver)
    if not path:
        looked = ", ".join(driver.login_paths)
        raise CredentialsMissing(f"No login of {driver.title} in {looked}.", next_step=driver.login_hint)
    return Access(kind="login", words=f"login in {path}")


def _key(key_from: str, driver: Driver, env: Mapping[str, str]) -> Access:
    kind, _, rest = key_from.partition(":")
    source = _SOURCES.get(kind)
    if source is None or not rest:
        known = ", ".join(f"{name}:…" for name in _SOURCES)
        raise BadInput("key_from", key_from, "no such place for a key.", next_step=f"Use one of {known}.")
    if not driver.credentials:
        raise BadInput("key_from", key_from, f"{driver.title} takes no key.", next_step="Leave --key-from out.")
    key = source(rest, env).strip()
    if not key or len(key.encode()) > _LARGEST_KEY_BYTES or not key.isprintable():
        problem = "gave nothing" if not key else "gave no key: one line of printable text is expected"
        raise KeyUnusable(f"key_from {key_from!r} {problem}.", next_step="Check what it prints or holds.")
    return Access(kind="key", words=f"key from {kind} {rest}", variables={driver.credentials[0]: key})


def _from_variable(name: str, env: Mapping[str, str]) -> str:
    if not env.get(name):
        raise KeyUnusable(f"The variable {name} is not set.", next_step="Set it, or change key_from.")
    return env[name]


def _from_file(path: str, env: Mapping[str, str]) -> str:
    path = os.path.expanduser(path)
    try:
        # Never waits: a pipe that nobody writes into is no key file.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            return file.read(_LARGEST_KEY_BYTES + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise KeyUnusable(f"The key file {path} cannot be read: {reason}.", next_step="Check the path.") from error


def _from_command(command: str, env: Mapping[str, str]) -> str:
    # Start-up time: few runs ask a command.
    import signal
    import subprocess

    process = subprocess.Popen(
        command,
        shell=True,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=_COMMAND_S)
    except subprocess.TimeoutExpired as error:
        raise KeyUnusable(
            f"The key command {command!r} gave nothing within {_COMMAND_S:g} s.",
            next_step="Run it by hand: it may be waiting for an answer.",
        ) from error
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)  # With everything that it left running.
        except ProcessLookupError:
            pass
        process.wait()
    if process.returncode:
        words = errors.decode(errors="replace").strip()[-300:]
        raise KeyUnusable(
            f"The key command {command!r} ended with exit code {process.returncode}: {words or 'it said nothing'}.",
            next_step="Run it by hand.",
        )
    return output.decode(errors="replace")


def _from_keyring(name: str, env: Mapping[str, str]) -> str:
    service, slash, user = name.rpartition("/")
    if not slash or not service or not user:
        raise BadInput("key_from", f"keyring:{name}", "no SERVICE/USER.", next_step="For example keyring:inspan/me.")
    try:
        import keyring  # An extra.
    except ImportError as error:
        raise KeyUnusable(
            "The keyring package is not installed.", next_step="Install inspan with its extra `keyring`."
        ) from error
    try:
        found = keyring.get_password(service, user)
    except Exception as error:  # A backend may raise anything: no D-Bus, locked, no backend at all.
        step = "Unlock it, or use another place."
        raise KeyUnusable(f"The keyring cannot be asked: {error}.", next_step=step) from error
    if not found:
        raise KeyUnusable(
            f"The keyring has no password of {user} for {service}.", next_step=f"`keyring set {service} {user}`."
        )
    return found


_SOURCES: dict[str, Callable[[str, Mapping[str, str]], str]] = {
    "env": _from_variable,
    "file": _from_file,
    "cmd": _from_command,
    "keyring": _from_keyring,
}
