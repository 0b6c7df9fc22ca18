"""Which sandbox and which containment a run gets, what it may reach, and where it cannot have them."""

from collections.abc import Mapping

import msgspec

from inspan.agents import modules
from inspan.containment import containment
from inspan.contracts.driver import Driver
from inspan.contracts.places import AUTO, SandboxParts
from inspan.contracts.sandbox import Box, Sandbox
from inspan.contracts.tool_grants import is_unrestricted
from inspan.errors import BadInput
from inspan.gateway.http.routes import read_base_url
from inspan.protocol.network import USUAL_PORTS, HostRule, NetworkPolicy, normalize_host, parse_network
from inspan.protocol.plan import Route
from inspan.protocol.task import Task
from inspan.stores.paths import cache_home
from inspan.system.programs import expose_folders, list_exposed_folders

from .checks import check_boxed_folder, check_limits_hold
from .image_programs import is_systems_python

_DEFAULT = "bwrap"


class Boundary(msgspec.Struct, frozen=True, kw_only=True):
    """The sandbox of a run, and the place that was named with it. A private one was asked for: it hides the home.
    `exposed` are the folders in which it leaves what nobody outside of it may start.
    """

    sandbox: Sandbox
    place: str
    root: bool
    private: bool
    exposed: tuple[str, ...]


def choose_boundary(task: Task, driver: Driver, *, root: bool) -> Boundary:
    """What was asked for, or what the agent needs; raises `BadInput` where the two contradict each other."""
    obstacle, step = find_sandbox_need(task, driver, root=root)
    parts = modules.split_sandbox(task.sandbox) if task.sandbox else SandboxParts()
    asked = "" if parts.boundary == AUTO else parts.boundary
    field, value = _find_confining(task)
    sandbox = modules.load_sandbox(find_asked_boundary(task) or (_DEFAULT if obstacle else "none"))
    if obstacle and not sandbox.boundary:
        raise BadInput("sandbox", sandbox.name, obstacle, next_step=step)
    _check_container(sandbox, task, driver, root=root)
    if field and not sandbox.boundary:
        step = f"Use --sandbox {_DEFAULT}, or leave {field} out."
        raise BadInput(field, value, f"the sandbox {sandbox.name} confines nothing.", next_step=step)
    private = sandbox.boundary and bool(asked or field)
    exposed = list_exposed_folders(task.cwd, *task.extra_dirs)
    expose_folders(exposed)
    # Without a sandbox, an agent need not leave anything to have it started.
    return Boundary(sandbox=sandbox, place=parts.place, root=root, private=private, exposed=exposed if private else ())


def drop_place(sandbox: str) -> str:
    """The boundary alone that a sandbox names, for work that goes on in a place which is there already."""
    return modules.split_sandbox(sandbox).boundary if sandbox else ""


def keep_place(sandbox: str, *, boundary: str) -> str:
    """The place that a sandbox names, with another boundary around it."""
    place = modules.split_sandbox(sandbox).place if sandbox else ""
    return "+".join(filter(None, (place, boundary)))


def find_asked_boundary(task: Task) -> str:
    """The boundary that the task names, or that it needs for what it asks for; empty where it asks for none."""
    asked = modules.split_sandbox(task.sandbox).boundary if task.sandbox else ""
    return asked if asked not in ("", AUTO) else _DEFAULT if _find_confining(task)[0] else ""


def choose_containment(
    boundary: Boundary, task: Task, network: NetworkPolicy, env: Mapping[str, str]
) -> containment.Containment:
    """How its processes are kept; raises where the boundary cannot be had on this machine."""
    if boundary.private:
        for field, path in (("cwd", task.cwd), *(("extra_dirs", path) for path in task.extra_dirs)):
            check_boxed_folder(field, path)
    sandbox, private = boundary.sandbox, boundary.private
    method = containment.choose_containment(cache_home(env), asked=env.get("INSPAN_CONTAINMENT", ""))
    if sandbox.container:
        sandbox.check(Box(cwd=task.cwd, root=boundary.root, network=network, image=task.image, readable=task.read))
        return containment.METHODS[-1]
    if sandbox.boundary:
        box = Box(cwd="/usr" if private else "/", root=boundary.root, private=private, network=network, read_only=True)
        sandbox.check(box)
        containment.probe(sandbox, box, cache=cache_home(env))
        return containment.METHODS[0] if sandbox.holds else method
    return method


def choose_network(task: Task, route: Route, *, private: bool, provider_url: str) -> NetworkPolicy:
    """What the run may reach; raises `BadInput` where it could not reach its model, which is at `provider_url` if that
    is known.
    """
    if not task.net:
        return NetworkPolicy(reach="gateway" if private and route.uses_gateway else "open")
    policy = parse_network(task.net)
    if policy.reach == "none":
        step = "Use --net gateway: it reaches its model and nothing else."
        raise BadInput("--net", task.net, "an agent could not reach its model.", next_step=step)
    if policy.reach == "gateway" and not route.uses_gateway:
        step = "Leave --direct or --login out, name the provider's host with --net allow=HOST, or use --net open."
        raise BadInput("--net", task.net, "this run goes to its provider without the gateway.", next_step=step)
    if policy.reach == "allow" and provider_url and not route.uses_gateway:
        _check_provider(policy, provider_url)
    return policy


def _check_provider(policy: NetworkPolicy, url: str) -> None:
    """An agent that cannot reach its model tries again and again, without a word, until its time is over."""
    origin, _ = read_base_url(url)
    host = normalize_host(origin.host)
    if host and not policy.find_rule(host, origin.port):
        place = str(HostRule(host=host, port=None if origin.port in USUAL_PORTS else origin.port))
        step = f"Name it too, --net {policy},{place}, or let the run use the gateway."
        raise BadInput("--net", str(policy), f"the agent's model is at {place}, without the gateway.", next_step=step)


def find_sandbox_need(task: Task, driver: Driver, *, root: bool) -> tuple[str, str]:
    """Why this run works only in a box, and what else could be done; empty where it needs none."""
    capabilities = driver.capabilities
    if root and capabilities.root_needs_sandbox and is_unrestricted(task):
        step = "Leave --sandbox out, use --sandbox bwrap, or run as an ordinary user."
        return f"{driver.title} refuses to run unrestricted as root.", step
    if task.mode == "review" and capabilities.review_needs_sandbox:
        step = "Leave --sandbox out, or use --sandbox bwrap."
        return f"{driver.title} itself does not keep a review from writing.", step
    return "", ""


def _find_confining(task: Task) -> tuple[str, str]:
    """The option that asks for a sandbox without naming one, and its value; empty where there is none."""
    if task.net not in ("", "open"):
        return "--net", task.net
    return ("--read", task.read[0]) if task.read else ("", "")


def _check_container(sandbox: Sandbox, task: Task, driver: Driver, *, root: bool) -> None:
    """Refuses an image where none is taken, and agents that would not work in a container."""
    if task.image and not sandbox.container:
        step = "Add --sandbox podman, or leave --image out."
        raise BadInput("--image", task.image, f"the sandbox {sandbox.name} takes no image.", next_step=step)
    check_limits_hold(sandbox, task.limits)
    if not sandbox.container:
        return
    if root and not sandbox.maps_root and driver.capabilities.root_needs_sandbox and is_unrestricted(task):
        step = "Use --sandbox podman or bwrap, or run as an ordinary user."
        why = f"{driver.title} refuses to run unrestricted as root, which it is in a container of {sandbox.name}'s."
        raise BadInput("sandbox", sandbox.name, why, next_step=step)
    bridged = bool(task.tools) and "http" not in driver.capabilities.mcp
    if (driver.built_in or driver.program.hosted or driver.channels[0].package or bridged) and is_systems_python():
        step = f"Use --sandbox {_DEFAULT}, or install inspan with a Python of its own: `uv tool install inspan`."
        why = f"{driver.title} needs inspan's Python, which is the system's: an image has its own in that place."
        raise BadInput("sandbox", sandbox.name, why, next_step=step)
