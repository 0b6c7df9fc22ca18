"""A sandbox in which commands are run: what it lets them see, write and reach, decided once when it is opened."""

import os
from collections.abc import Mapping, Sequence
from typing import cast

import msgspec

from inspan.agents.bundled import offer_bundled_bwrap
from inspan.agents.modules import load_sandbox
from inspan.containment import containment
from inspan.contracts.sandbox import Box, Sandbox
from inspan.errors import BadInput
from inspan.framing.proxy import proxy_variables
from inspan.protocol.limits import Limits
from inspan.protocol.network import NetworkPolicy, parse_network
from inspan.protocol.plan import Entry
from inspan.running.command import Command
from inspan.stores.paths import cache_home
from inspan.system.programs import expose_folders, list_exposed_folders

from .box import build_command_box
from .checks import check_boxed_folder, check_cwd, check_limits, check_limits_hold, check_readable, check_variable
from .environment import (
    CONTAINER_PATH,
    build_outer_environment,
    route_through_box,
    select_loader_variables,
)

_FIRST_PORT, _LAST_PORT = 8080, 65535
# What programs need to work at all. None of it is secret; everything else of the caller's stays with the caller.
_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR", "VIRTUAL_ENV")
_LOCALE = "LC_"
_ENV_STEP = 'Give names and values as text: {"NAME": "value"}.'
# bubblewrap takes 9000, its own among them.
_MOST_WORDS = 8000
# A shell in between: it looks for the program inside, and leaves with 127 where there is none.
_FIND_INSIDE = ("/bin/sh", "-c", 'exec "$@"', "sh")


class CommandBox(msgspec.Struct, frozen=True, kw_only=True):
    """All that was decided. `env` is what every command gets; `host_env` the environment of whoever opened it."""

    sandbox: Sandbox
    method: containment.Containment
    box: Box
    env: dict[str, str]
    host_env: dict[str, str]
    limits: Limits = Limits()

    @property
    def net(self) -> str:
        return str(self.box.network)


def plan_box(
    kind: str,
    *,
    cwd: str,
    net: str,
    read: Sequence[str],
    image: str,
    env: Mapping[str, str],
    limits: Limits,
    host_env: Mapping[str, str],
) -> CommandBox:
    """Checks all of it and that it works here; raises `BadInput` and `SandboxUnusable`, and makes nothing."""
    check_cwd(cwd, next_step="Create it, or give another cwd.")
    expose_folders(list_exposed_folders(cwd))
    _check_env(env)
    check_limits(limits, names={"memory_bytes": "memory"})
    offer_bundled_bwrap(host_env)
    sandbox = load_sandbox(kind)
    check_limits_hold(sandbox, limits)
    network = _choose_network(sandbox, net)
    _check_read(sandbox, read, cwd)
    if image and not sandbox.container:
        step = "Leave it out, or use a sandbox that runs containers: podman."
        raise BadInput("image", image, f"the sandbox {kind} takes no image.", next_step=step)
    root = os.geteuid() == 0
    own_env = {**_pick_env(host_env, sandbox), **env}
    if sandbox.boundary:
        check_boxed_folder("cwd", cwd)
        box = build_command_box(cwd, env=host_env, read=tuple(read), network=network, root=root)
    else:
        box = Box(cwd=cwd, root=root)
    if sandbox.container:  # What programs there are, the image says.
        box = msgspec.structs.replace(box, image=image, programs=(), home="")
    sandbox.check(box)
    method = _choose_method(sandbox, box, host_env)
    return CommandBox(sandbox=sandbox, method=method, box=box, env=own_env, host_env=dict(host_env), limits=limits)


def build_command(
    planned: CommandBox,
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    stdin: bytes,
    groups: list[str],
    run_id: str,
    command_id: str = "",
) -> Command:
    """The process that runs a command in the box; raises `BadInput` for what is no command. `command_id` tells it from
    others that run for `run_id` at the same time."""
    command_id = command_id or run_id
    _check_argv(argv)
    _check_env(env)
    sandbox, network = planned.sandbox, planned.box.network
    entry = _build_entry(planned, groups)
    listeners = tuple(entry.ports) if entry else ()
    inner = {**planned.env, **env, "JRUN_ID": run_id, "JCOMMAND_ID": command_id}
    if entry and entry.ports:
        inner = route_through_box(inner, entry.ports[0])
    given = inner if sandbox.container else select_loader_variables(inner) if sandbox.boundary else {}
    box = msgspec.structs.replace(planned.box, env=given, name=command_id, listeners=listeners)
    words = tuple(argv) if sandbox.container else (*_FIND_INSIDE, *argv)
    words = sandbox.wrap(words, box)
    words = words if sandbox.boundary and sandbox.holds else planned.method.wrap(words, box)
    return Command(
        argv=list(words),
        env=build_outer_environment(inner, sandbox=sandbox, host_env=planned.host_env),
        command_id=command_id,
        stdin=stdin,
        liveness_pipe=planned.method.liveness_pipe,
        entry=entry,
        network=network,
    )


def _choose_network(sandbox: Sandbox, net: str) -> NetworkPolicy:
    """Nothing where that can be held, unless more is asked for."""
    policy = parse_network(net, field="net") if net else NetworkPolicy(reach="none" if sandbox.boundary else "open")
    if policy.reach == "gateway":
        step = "Use none, open or allow=HOST,… ; a run of an agent in it has its gateway all the same."
        raise BadInput("net", net, "only a run of an agent has a gateway.", next_step=step)
    if not policy.is_open and not sandbox.boundary:
        step = "Use bwrap or podman, or leave net out."
        raise BadInput("net", net, f"the sandbox {sandbox.name} confines nothing.", next_step=step)
    return policy


def _check_read(sandbox: Sandbox, read: Sequence[str], cwd: str) -> None:
    for path in read:
        if not sandbox.boundary:
            step = "Leave it out, or use bwrap or podman."
            raise BadInput("read", path, f"the sandbox {sandbox.name} hides nothing.", next_step=step)
        check_readable(path, folders=(cwd,))


def _choose_method(sandbox: Sandbox, box: Box, env: Mapping[str, str]) -> containment.Containment:
    if sandbox.container:
        return containment.METHODS[-1]
    if sandbox.boundary:
        looked_at = Box(cwd="/usr", root=box.root, private=True, network=box.network, read_only=True)
        containment.probe(sandbox, looked_at, cache=cache_home(env))
    if sandbox.boundary and sandbox.holds:
        return containment.METHODS[0]
    return containment.choose_containment(cache_home(env), asked=env.get("INSPAN_CONTAINMENT", ""))


def _build_entry(planned: CommandBox, groups: list[str]) -> Entry | None:
    isolation = planned.sandbox.isolate(planned.box)
    if isolation is None:
        return Entry(groups=groups) if groups else None
    allows = isolation.network and planned.box.network.reach == "allow"
    return Entry(
        groups=groups,
        isolated=isolation.network,
        inside=isolation.inside,
        ports=_choose_ports(planned.box.network) if allows else [],
        filter=isolation.filter,
        scoped=isolation.scoped,
        proxies=proxy_variables(planned.host_env) if allows else {},
    )


def _choose_ports(network: NetworkPolicy) -> list[int]:
    """Where the way out listens, and what of this machine may be reached."""
    local = list(network.local_ports)
    return [next(port for port in range(_FIRST_PORT, _LAST_PORT) if port not in local), *local]


def _pick_env(env: Mapping[str, str], sandbox: Sandbox) -> dict[str, str]:
    private = {"TMPDIR": "/tmp"} if sandbox.boundary else {}
    if sandbox.container:  # The caller's folders are not those of the image.
        return {"PATH": CONTAINER_PATH, "HOME": "/tmp", **private}
    kept = {name: value for name, value in env.items() if name in _PASSED_ON or name.startswith(_LOCALE)}
    return {"PATH": os.defpath, **kept, **private}


def _check_argv(argv: Sequence[str]) -> None:
    step = 'Give a list of words that begins with a program: ["pytest", "-q"].'
    if isinstance(argv, str | bytes) or not isinstance(cast(object, argv), Sequence):
        raise BadInput("argv", argv, "it is not a list of words.", next_step=step)
    for word in argv:
        _check_text("argv", word, shown=word)
    if not argv or not argv[0] or argv[0].startswith("-"):
        raise BadInput("argv", argv, "it is not a command.", next_step=step)
    if len(argv) > _MOST_WORDS:
        step = "Give them by stdin, as for xargs, or in a file that was uploaded."
        raise BadInput("argv", argv[0], f"{len(argv)} words are more than {_MOST_WORDS}.", next_step=step)


def _check_env(env: Mapping[str, str]) -> None:
    """Of a variable that cannot be used only the name is told: its value may be a secret."""
    if not isinstance(cast(object, env), Mapping):
        raise BadInput("env", env, "it is not a mapping.", next_step=_ENV_STEP)
    for name, value in env.items():
        _check_text("env", name, shown=name)
        check_variable(name, next_step=_ENV_STEP)
        _check_text(f"env {name}", value, shown="…")


def _check_text(field: str, value: object, *, shown: object) -> None:
    """Raises `BadInput` for what cannot be handed to a process as a word. Bytes that are not UTF-8 can, as Python
    reads them in names of files.
    """
    if not isinstance(value, str):
        problem = f"it is not text, but of the type {type(value).__name__}."
        raise BadInput(field, shown, problem, next_step="Give a str.")
    try:
        os.fsencode(value)
    except UnicodeEncodeError as error:
        raise BadInput(field, shown, "it has half of a character in it.", next_step="Write it in UTF-8.") from error
    if "\0" in value:
        raise BadInput(field, shown, "it contains a NUL byte.", next_step="Remove it.")
