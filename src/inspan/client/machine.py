"""What a machine has and can do: its agents, and what its doctor finds."""

import os
from collections.abc import Mapping
from dataclasses import asdict

from inspan.agents.program import locate_program
from inspan.contracts.driver import Capabilities
from inspan.errors import AgentUnusable
from inspan.planning.doctor import examine
from inspan.planning.known_agents import AgentEntry, find_agent_driver, list_agents
from inspan.planning.resume import current_folder
from inspan.system.programs import list_exposed_folders

from .place import Place
from .values import AgentInfo, AgentListing, AgentName, DoctorFinding, DoctorQuery, DoctorReport, Nothing


def list_known_agents(place: Place, _: Nothing) -> AgentListing:
    """Every agent that can be named, with the version of its program here."""
    return AgentListing(
        agents=[describe_agent(each, env=place.env) for each in list_agents(current_folder(), place.env)]
    )


def get_agent(place: Place, request: AgentName) -> AgentInfo:
    """One agent, and what it can do."""
    driver = find_agent_driver(request.agent, cwd=current_folder(), env=place.env)
    return describe_agent(AgentEntry(name=request.agent, driver=driver), env=place.env)


def describe_agent(each: AgentEntry, *, env: Mapping[str, str] = os.environ) -> AgentInfo:
    """An agent, or why it cannot be used."""
    driver, version, path = each.driver, "-", each.problem.message if each.problem else ""
    if driver:
        try:
            program = locate_program(driver, env, avoid=list_exposed_folders(current_folder()))
            version, path = program.version or "-", program.path
        except AgentUnusable as error:
            path = error.next_step
    return AgentInfo(
        agent=each.name,
        title=driver.title if driver else each.name,
        version=version,
        default="yes" if driver and driver.default else "",
        program=path,
        capabilities=driver.capabilities if driver else Capabilities(),
    )


def examine_machine(place: Place, query: DoctorQuery) -> DoctorReport:
    """What works on this machine and what does not, each with its next step."""
    findings = examine(place.env, agents=query.agent)
    return DoctorReport(findings=[DoctorFinding(**asdict(each)) for each in findings])
