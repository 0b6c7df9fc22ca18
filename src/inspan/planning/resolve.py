"""Which agent, program, sandbox and containment a task gets; decided, and refused, before anything is written."""

import os
from collections.abc import Iterator, Mapping

import msgspec

from inspan.agents import modules
from inspan.agents.bundled import offer_bundled_bwrap
from inspan.agents.presets import driver_for_task
from inspan.agents.program import Program, locate_program
from inspan.agents.select import (
    check_channel,
    choose_channel,
    choose_provider,
    list_next_channels,
    narrow_driver,
    select_channel,
    select_provider,
)
from inspan.agents.support import check_needs, check_support
from inspan.agents.version_support import refuse_untested
from inspan.containment import containment
from inspan.contracts.driver import Attachment, Driver
from inspan.contracts.places import AUTO, SandboxParts
from inspan.contracts.sandbox import Box, Sandbox
from inspan.contracts.tool_grants import is_unrestricted
from inspan.credentials.resolve import Credential, resolve_credential
from inspan.errors import BadInput, InspanError
from inspan.protocol.network import NetworkPolicy, parse_network
from inspan.protocol.plan import Route
from inspan.protocol.task import Task
from inspan.stores.paths import cache_home
from inspan.system.programs import expose_folders, list_exposed_folders, strip_path

from .access import refuse_without_access
from .attachments import load_attachments
from .checks import check_boxed_folder, check_limits_hold
from .image_programs import is_systems_python
from .places import choose_place
from .route import check_base_url, check_model_from, choose_route, find_base_url

_BOUNDARY = "bwrap"


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What was chosen for a task before anything was written. `exposed` are the folders in which a sandbox leaves what
    nobody outside of it may start.
    """

    task: Task
    driver: Driver
    program: Program
    credential: Credential
    route: Route
    provider: str = ""
    sandbox: Sandbox
    place: str = ""
    containment: containment.Containment
    root: bool
    private: bool = False
    network: NetworkPolicy = NetworkPolicy()
    exposed: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    attachment_text: str = ""
    alternatives: "tuple[Choice, ...]" = ()


def resolve_task(task: Task, env: Mapping[str, str]) -> Choice:
    """Everything that can be known without a run folder; raises `InspanError` with the next step."""
    whole = driver_for_task(task)
    driver = select_channel(whole, choose_channel(whole, task))
    check_channel(driver, task)
    task = msgspec.structs.replace(task, model=driver.models.get(task.model, task.model))
    way_name = choose_provider(driver, task, env)
    driver = select_provider(driver, way_name)
    check_support(task, driver)
    check_needs(task, driver, env)
    if driver.channels[0].project_code:
        from .project_code import refuse_project_code  # Start-up time: most agents can be kept from all of it.

        refuse_project_code(task, driver)
    if driver.program.hosted:  # Its process is ours, and looks for nothing by itself.
        task = msgspec.structs.replace(task, base_url=find_base_url(task, driver, env))
    attachments, texts = load_attachments(task, driver) if task.attachments else ((), "")
    root = os.geteuid() == 0
    offer_bundled_bwrap(env)
    obstacle, step = _check_sandbox_need(task, driver, root=root)
    parts = modules.split_sandbox(task.sandbox) if task.sandbox else SandboxParts()
    asked = "" if parts.boundary == AUTO else parts.boundary
    confined = task.net not in ("", "open") or bool(task.read)
    sandbox = modules.load_sandbox(asked or (_BOUNDARY if obstacle or confined else "none"))
    if obstacle and not sandbox.boundary:
        raise BadInput("sandbox", sandbox.name, obstacle, next_step=step)
    _check_container(sandbox, task, driver, root=root)
    if confined and not sandbox.boundary:
        field, value = ("--net", task.net) if task.net not in ("", "open") else ("--read", task.read[0])
        step = f"Use --sandbox {_BOUNDARY}, or leave {field} out."
        raise BadInput(field, value, f"the sandbox {sandbox.name} confines nothing.", next_step=step)
    check_base_url(task.base_url)
    check_model_from(task.model_from)
    if driver.built_in and not task.model_from.startswith(("script:", "replay:")):
        step = "Use script:FILE or replay:FILE."
        raise BadInput("model_from", task.model_from, f"{driver.title} has no model of its own.", next_step=step)
    private = sandbox.boundary and bool(asked or confined)
    exposed = list_exposed_folders(task.cwd, *task.extra_dirs)
    expose_folders(exposed)
    exposed = exposed if private else ()  # Without a sandbox, an agent need not leave anything to have it started.
    trusted = {**env, "PATH": strip_path(env.get("PATH", ""), avoid=exposed)} if private else env
    program = locate_program(driver, env, avoid=exposed)
    if task.strict:
        refuse_untested(driver, program)
    way_in = resolve_credential(task, driver, trusted)
    refuse_without_access(task, driver, program, way_in, env)
    if task.allowed_tools or task.ask or task.mcp_servers:
        from .file_tools import check_file_tools  # Start-up time: most tasks grant no single command.

        check_file_tools(task, env, avoid=exposed)
    method = containment.choose_containment(cache_home(env), asked=env.get("INSPAN_CONTAINMENT", ""))
    route = choose_route(task, driver, way_in, env)
    network = _choose_network(task, route, private=private)
    for field, path in (("cwd", task.cwd), *(("extra_dirs", path) for path in task.extra_dirs)) if private else ():
        check_boxed_folder(field, path)
    if sandbox.container:
        sandbox.check(Box(cwd=task.cwd, root=root, network=network, image=task.image, readable=task.read))
        method = containment.METHODS[-1]
    elif sandbox.boundary:
        box = Box(cwd="/usr" if private else "/", root=root, private=private, network=network, read_only=True)
        sandbox.check(box)
        containment.probe(sandbox, box, cache=cache_home(env))
        method = containment.METHODS[0] if sandbox.holds else method
    if sandbox.boundary and driver.program.unpack_variable:
        from .shared_cache import fill_shared_cache  # Start-up time: few programs unpack themselves.

        fill_shared_cache(driver, program, env)
    choice = Choice(
        task=task,
        driver=driver,
        program=program,
        credential=way_in,
        route=route,
        provider=way_name,
        sandbox=sandbox,
        place=choose_place(parts.place, task, driver, env),
        containment=method,
        root=root,
        private=private,
        network=network,
        exposed=exposed,
        attachments=attachments,
        attachment_text=texts,
    )
    if task.channel or not (task.converses or task.tools) or not choice.route.uses_gateway:
        return choice  # It was named; a plain prompt is not sent twice; without a gateway nobody sees a model call.
    return msgspec.structs.replace(choice, alternatives=tuple(_resolve_alternatives(choice, whole, env)))


def _resolve_alternatives(choice: Choice, whole: Driver, env: Mapping[str, str]) -> Iterator[Choice]:
    """The same by the agent's other channels, as far as they can do it and have a program."""
    for name in list_next_channels(whole, choice.task, after=choice.driver.channels[0].name):
        driver = narrow_driver(whole, channel=name, provider=choice.provider)
        try:
            found = _resolve_alternative(choice, driver, env)
        except InspanError:
            continue  # One that is not there, or lacks something, is no alternative.
        if found:
            yield found


def _resolve_alternative(choice: Choice, driver: Driver, env: Mapping[str, str]) -> Choice | None:
    task = choice.task
    check_support(task, driver)
    check_needs(task, driver, env)
    if driver.channels[0].project_code:
        from .project_code import refuse_project_code  # Start-up time: most agents can be kept from all of it.

        refuse_project_code(task, driver)
    obstacle, _ = _check_sandbox_need(task, driver, root=choice.root)
    counts_turns = driver.capabilities.max_turns == choice.driver.capabilities.max_turns
    if (obstacle and not choice.sandbox.boundary) or not (counts_turns or task.limits.max_turns is None):
        return None
    attachments, texts = load_attachments(task, driver) if task.attachments else ((), "")
    program = locate_program(driver, env, avoid=choice.exposed)
    if task.strict:
        refuse_untested(driver, program)
    return msgspec.structs.replace(
        choice, driver=driver, program=program, attachments=attachments, attachment_text=texts
    )


def _choose_network(task: Task, route: Route, *, private: bool) -> NetworkPolicy:
    """What the run may reach; raises `BadInput` where it could not reach its model."""
    if not task.net:
        return NetworkPolicy(reach="gateway" if private and route.uses_gateway else "open")
    policy = parse_network(task.net)
    if policy.reach == "none":
        step = "Use --net gateway: it reaches its model and nothing else."
        raise BadInput("--net", task.net, "an agent could not reach its model.", next_step=step)
    if policy.reach == "gateway" and not route.uses_gateway:
        step = "Leave --direct or --login out, name the provider's host with --net allow=HOST, or use --net open."
        raise BadInput("--net", task.net, "this run goes to its provider without the gateway.", next_step=step)
    return policy


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
        step = f"Use --sandbox {_BOUNDARY}, or install inspan with a Python of its own: `uv tool install inspan`."
        why = f"{driver.title} needs inspan's Python, which is the system's: an image has its own in that place."
        raise BadInput("sandbox", sandbox.name, why, next_step=step)


def _check_sandbox_need(task: Task, driver: Driver, *, root: bool) -> tuple[str, str]:
    """Why this run works only in a box, and what else could be done; empty where it needs none."""
    capabilities = driver.capabilities
    if root and capabilities.root_needs_sandbox and is_unrestricted(task):
        step = "Leave --sandbox out, use --sandbox bwrap, or run as an ordinary user."
        return f"{driver.title} refuses to run unrestricted as root.", step
    if task.mode == "review" and capabilities.review_needs_sandbox:
        step = "Leave --sandbox out, or use --sandbox bwrap."
        return f"{driver.title} itself does not keep a review from writing.", step
    return "", ""
