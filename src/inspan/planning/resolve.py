"""Which agent, program, sandbox and containment a task gets; decided, and refused, before anything is written."""

import os
from collections.abc import Iterator, Mapping

import msgspec

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
from inspan.contracts.sandbox import Sandbox
from inspan.credentials.resolve import Credential, resolve_credential
from inspan.errors import BadInput, InspanError
from inspan.protocol.network import NetworkPolicy
from inspan.protocol.plan import Route
from inspan.protocol.task import Task
from inspan.system.programs import strip_path

from .access import refuse_without_access
from .attachments import load_attachments
from .boundary import choose_boundary, choose_containment, choose_network, find_sandbox_need
from .places import choose_place
from .route import check_base_url, check_model_from, choose_route, find_base_url, find_provider_url


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
    task, driver, provider = _select_driver(task, whole, env)
    attachments, texts = load_attachments(task, driver) if task.attachments else ((), "")
    offer_bundled_bwrap(env)
    boundary = choose_boundary(task, driver, root=os.geteuid() == 0)
    _check_model(task, driver)
    program = locate_program(driver, env, avoid=boundary.exposed)
    if task.strict:
        refuse_untested(driver, program)
    trusted = {**env, "PATH": strip_path(env.get("PATH", ""), avoid=boundary.exposed)} if boundary.private else env
    way_in = resolve_credential(task, driver, trusted)
    refuse_without_access(task, driver, program, way_in, env)
    if task.allowed_tools or task.ask or task.mcp_servers:
        from .file_tools import check_file_tools  # Start-up time: most tasks grant no single command.

        check_file_tools(task, env, avoid=boundary.exposed)
    route = choose_route(task, driver, way_in, env)
    address = find_provider_url(task, driver, way_in, env, route) if task.net else ""
    network = choose_network(task, route, private=boundary.private, provider_url=address)
    method = choose_containment(boundary, task, network, env)
    if boundary.sandbox.boundary and driver.program.unpack_variable:
        from .shared_cache import fill_shared_cache  # Start-up time: few programs unpack themselves.

        fill_shared_cache(driver, program, env)
    choice = Choice(
        task=task,
        driver=driver,
        program=program,
        credential=way_in,
        route=route,
        provider=provider,
        sandbox=boundary.sandbox,
        place=choose_place(boundary.place, task, driver, env),
        containment=method,
        root=boundary.root,
        private=boundary.private,
        network=network,
        exposed=boundary.exposed,
        attachments=attachments,
        attachment_text=texts,
    )
    if task.channel or not (task.converses or task.tools) or not choice.route.uses_gateway:
        return choice  # It was named; a plain prompt is not sent twice; without a gateway nobody sees a model call.
    return msgspec.structs.replace(choice, alternatives=tuple(_resolve_alternatives(choice, whole, env)))


def _select_driver(task: Task, whole: Driver, env: Mapping[str, str]) -> tuple[Task, Driver, str]:
    """The agent by one channel and one provider, of whose names the last is given; raises where it cannot do this."""
    driver = select_channel(whole, choose_channel(whole, task))
    check_channel(driver, task)
    task = msgspec.structs.replace(task, model=driver.models.get(task.model, task.model))
    provider = choose_provider(driver, task, env)
    driver = select_provider(driver, provider)
    _check_abilities(task, driver, env)
    if driver.program.hosted:  # Its process is ours, and looks for nothing by itself.
        task = msgspec.structs.replace(task, base_url=find_base_url(task, driver, env))
    return task, driver, provider


def _check_abilities(task: Task, driver: Driver, env: Mapping[str, str]) -> None:
    check_support(task, driver)
    check_needs(task, driver, env)
    if driver.channels[0].project_code:
        from .project_code import refuse_project_code  # Start-up time: most agents can be kept from all of it.

        refuse_project_code(task, driver)


def _check_model(task: Task, driver: Driver) -> None:
    check_base_url(task.base_url)
    check_model_from(task.model_from)
    if driver.built_in and not task.model_from.startswith(("script:", "replay:")):
        step = "Use script:FILE or replay:FILE."
        raise BadInput("model_from", task.model_from, f"{driver.title} has no model of its own.", next_step=step)


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
    _check_abilities(task, driver, env)
    obstacle, _ = find_sandbox_need(task, driver, root=choice.root)
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
