"""What confines a run, kept in its description: whoever continues its session is confined as it was."""

import os
from collections.abc import Collection
from contextlib import suppress

import msgspec

from inspan.agents.modules import load_sandbox, split_sandbox
from inspan.contracts.places import AUTO, SandboxParts
from inspan.errors import RunNotFound, StateUnusable
from inspan.protocol.known_types import know_type
from inspan.protocol.limits import Limits
from inspan.protocol.network import NetworkPolicy, parse_network
from inspan.protocol.task import Task
from inspan.stores.run_folder import RunFolder, read_json
from inspan.stores.sessions import SessionRecord

from .boundary import find_asked_boundary
from .resolve import Choice

FIELD = "confinement"
USUAL_NET = "gateway"
"""The most that is reached from inside of a sandbox where nothing is said."""
_RESOURCES = ("memory_bytes", "cpus", "pids")
_REACHES = ("open", "allow", "gateway", "none")


class Confinement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The sandbox that was asked for, with what it could reach and read, and the limits on what it could use.

    Without a `sandbox` there is no `image`, `net` or `read`: a box that only its agent needs is made again by itself.
    """

    sandbox: str = ""
    image: str = ""
    net: str = ""
    read: tuple[str, ...] = ()
    memory_bytes: int | None = None
    cpus: float | None = None
    pids: int | None = None

    @property
    def resources(self) -> dict[str, float]:
        """The limits that held, by name."""
        found = {name: getattr(self, name) for name in _RESOURCES}
        return {name: value for name, value in found.items() if value is not None}


def describe_confinement(choice: Choice) -> Confinement:
    """What confines the run that was chosen."""
    task = choice.task
    resources = {name: getattr(task.limits, name) for name in _RESOURCES}
    if not choice.private:
        return Confinement(**resources)
    return Confinement(
        sandbox=choice.sandbox.name, image=task.image, net=str(choice.network), read=task.read, **resources
    )


def describe_asked(task: Task) -> Confinement:
    """What a task asks to be confined by; nothing where it asks for no boundary."""
    asked = find_asked_boundary(task)
    if not asked or not load_sandbox(asked).boundary:
        return Confinement()
    return Confinement(sandbox=asked, image=task.image, net=task.net or USUAL_NET, read=task.read)


def load_confinement(state: str, record: SessionRecord | None) -> Confinement:
    """What confined the last run of a session; nothing for a session that inspan does not know.

    Raises `StateUnusable` where the run's description cannot be read: it may have said that there was a sandbox.
    """
    for run_id in reversed(record.runs if record else ()):
        if folder := _find_described(state, run_id):
            return _read_confinement(folder.file("run.json"))
    return Confinement()


def inherit_confinement(task: Task, before: Confinement, *, explicit: Collection[str] = ()) -> Task:
    """The task, confined as the run that it continues was, but for what it says itself.

    `explicit` are the limits that it says though they may be off. A task that names a sandbox which is no boundary
    says that of its network and its files, too.
    """
    limits = _inherit_limits(task.limits, before, explicit)
    parts = split_sandbox(task.sandbox) if task.sandbox else SandboxParts()
    is_named = parts.boundary not in ("", AUTO)
    if not before.sandbox or (is_named and not load_sandbox(parts.boundary).boundary):
        return msgspec.structs.replace(task, limits=limits)
    boundary = parts.boundary if is_named else before.sandbox
    return msgspec.structs.replace(
        task,
        sandbox="+".join(filter(None, (parts.place, boundary))),
        image=task.image or (before.image if boundary == before.sandbox else ""),
        net=task.net or before.net,
        read=tuple(dict.fromkeys((*before.read, *task.read))),
        limits=limits,
    )


def find_weakened(before: Confinement, now: Confinement) -> dict[str, str]:
    """What confined the run before more than it does this one, by field."""
    found = {"sandbox": before.sandbox} if before.sandbox and not now.sandbox else {}
    if before.sandbox and _reaches_more(before.net, now.net if now.sandbox else "open"):
        found["net"] = before.net
    if now.sandbox and before.sandbox and not set(now.read) <= set(before.read):
        found["read"] = ",".join(before.read)
    held = now.resources
    looser = [name for name, limit in before.resources.items() if name not in held or held[name] > limit]
    return found | {name: f"{before.resources[name]:.15g}" for name in looser}


def _inherit_limits(limits: Limits, before: Confinement, explicit: Collection[str]) -> Limits:
    said = (*limits.resources, *explicit)
    return msgspec.structs.replace(
        limits, **{name: each for name, each in before.resources.items() if name not in said}
    )


def _reaches_more(before: str, now: str) -> bool:
    old, new = parse_network(before), parse_network(now)
    if old.reach == new.reach == "allow":
        return not set(new.rules) <= set(old.rules)
    return _rank(new) < _rank(old)


def _rank(network: NetworkPolicy) -> int:
    return _REACHES.index(network.reach)


def _read_confinement(path: str) -> Confinement:
    try:
        return msgspec.convert(read_json(path).get(FIELD, {}), know_type(Confinement))
    except msgspec.ValidationError as error:
        step = "Start a new session, or remove the run: `inspan rm`."
        raise StateUnusable(f"{path} does not say what confined the run: {error}.", next_step=step) from error


def _find_described(state: str, run_id: str) -> RunFolder | None:
    """The folder of a run; nothing where it has been deleted, or is being made at this moment."""
    from inspan.runs.find import find_run_folder  # Start-up time: only going on with a session needs it.

    with suppress(RunNotFound):
        folder = find_run_folder(state, run_id)
        return folder if os.path.lexists(folder.file("run.json")) else None
    return None
