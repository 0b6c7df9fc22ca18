"""Which agent, program, sandbox and containment a task gets; decided, and refused, before anything is written."""

import os
from collections.abc import Mapping

import msgspec

from inspan.contracts.driver import Attachment, Driver
from inspan.contracts.granting import is_free
from inspan.contracts.sandbox import Box, Sandbox
from inspan.errors import BadInput
from inspan.protocol.task import Task
from inspan.sandboxes import containment, programs
from inspan.stores.paths import cache_home

from . import registry
from .access import Access, access
from .attachments import attached
from .catalogue import neighbours
from .narrowing import by_channel, by_way, way_of
from .presets import driver_of
from .program import Program, carried, locate
from .route import Route, address, check_base_url, check_model_from, route
from .support import check_needs, check_support
from .tested import refuse_untested


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What was chosen for a task before anything was written."""

    task: Task
    driver: Driver
    program: Program
    access: Access
    route: Route
    way: str = ""
    sandbox: Sandbox
    containment: containment.Containment
    root: bool
    attachments: tuple[Attachment, ...] = ()
    texts: str = ""


def choose(task: Task, env: Mapping[str, str]) -> Choice:
    """Everything that can be known without a run folder; raises `InspanError` with the next step."""
    driver = by_channel(driver_of(task), task.channel)
    task = msgspec.structs.replace(task, model=driver.models.get(task.model, task.model))
    way_name = way_of(driver, task, env)
    driver = by_way(driver, way_name)
    check_support(task, driver)
    check_needs(task, driver, env)
    if driver.hosted:  # Its process is ours, and looks for nothing by itself.
        task = msgspec.structs.replace(task, base_url=address(task, driver, env))
    attachments, texts = attached(task, driver) if task.attachments else ((), "")
    root = os.geteuid() == 0
    for other in neighbours(env):
        if other.carries_bwrap and (path := carried(other.carries_bwrap)) and os.access(path, os.X_OK):
            programs.offer_bwrap(path)
    obstacle, step = _needs_box(task, driver, root=root)
    sandbox = registry.sandbox(task.sandbox or ("bwrap" if obstacle else "none"))
    if obstacle and not sandbox.boundary:
        raise BadInput("sandbox", sandbox.name, obstacle, next_step=step)
    check_base_url(task.base_url)
    check_model_from(task.model_from)
    if driver.built_in and not task.model_from.startswith(("script:", "replay:")):
        step = "Use script:FILE or replay:FILE."
        raise BadInput("model_from", task.model_from, f"{driver.title} has no model of its own.", next_step=step)
    program = locate(driver, env)
    if task.strict:
        refuse_untested(driver, program)
    way_in = access(task, driver, env)
    way = containment.choose(cache_home(env), asked=env.get("INSPAN_CONTAINMENT", ""))
    if sandbox.boundary:
        argv = sandbox.wrap(("/bin/true",), Box(cwd="/", root=root))
        containment.probe(argv, name=sandbox.name, cache=cache_home(env))
        way = containment.WAYS[0]
    return Choice(
        task=task,
        driver=driver,
        program=program,
        access=way_in,
        route=route(task, driver, way_in, env),
        way=way_name,
        sandbox=sandbox,
        containment=way,
        root=root,
        attachments=attachments,
        texts=texts,
    )


def _needs_box(task: Task, driver: Driver, *, root: bool) -> tuple[str, str]:
    """Why this run works only in a box, and what else could be done; empty where it needs none."""
    capabilities = driver.capabilities
    if root and capabilities.root_needs_box and is_free(task):
        step = "Leave --sandbox out, use --sandbox bwrap, or run as an ordinary user."
        return f"{driver.title} refuses to run unrestricted as root.", step
    if task.mode == "review" and capabilities.review_needs_box:
        step = "Leave --sandbox out, or use --sandbox bwrap."
        return f"{driver.title} itself does not keep a review from writing.", step
    return "", ""
