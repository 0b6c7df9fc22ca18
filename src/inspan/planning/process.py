"""What is started for a run: its launch, its environment, its box and the way into it."""

import os
import socket
import sys
from collections.abc import Iterator, Mapping

import msgspec

from inspan.agents.driver_cache import agent_summaries
from inspan.contracts.driver import Driver, Endpoint, Launch, LaunchContext
from inspan.contracts.prompt_fallbacks import add_prompt_fallbacks, build_preamble
from inspan.contracts.sandbox import Box
from inspan.framing.proxy import proxy_variables
from inspan.protocol.network import NetworkPolicy
from inspan.protocol.plan import AgentProcess, Entry, Route, SeenGit
from inspan.protocol.task import Access
from inspan.stores.paths import make_private_folder
from inspan.stores.run_folder import RunFolder, find_task_files
from inspan.system.paths import expand_home

from .environment import (
    build_agent_environment,
    build_container_environment,
    build_outer_environment,
    hosts_without_proxy,
    route_through_box,
    secrets_of_servers,
    select_loader_variables,
)
from .resolve import Choice
from .resume import LockedSession, config_folder
from .shared_cache import find_shared_cache
from .tool_server import NAME, add_tool_server, build_tool_bridge

_FIRST_PORT, _LAST_PORT = 49152, 65535


class ClaimedRun(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run was claimed."""

    state: str
    project: str
    task_folder: str
    folder: RunFolder


class PreparedProcess(msgspec.Struct, frozen=True, kw_only=True):
    """What is started by one channel, the variables that are the run's own, what its box had to make, and what it has
    started with of git data.
    """

    launch: Launch
    added: dict[str, str]
    process: AgentProcess
    stand_ins: list[str] = []
    seen: SeenGit = SeenGit()


def build_launch_context(
    choice: Choice, claimed: ClaimedRun, session: LockedSession, env: Mapping[str, str], listener: socket.socket | None
) -> LaunchContext:
    presets = choice.driver.capabilities.presets_session_id and (not session.resumed or choice.task.fork)
    return LaunchContext(
        program=choice.program.path,
        version=tuple(int(part) for part in choice.program.version.split(".") if part.isdigit()),
        cwd=choice.task.cwd,
        scratch=claimed.folder.agent_folder,
        has_key=_has_key(choice),
        config=config_folder(claimed.state, session.record) if choice.task.profile == "clean" else "",
        endpoint=_build_endpoint(choice.route, listener, {**env, **choice.task.env}) if listener else None,
        session_id=_new_session_id() if presets else "",
        resume=session.resumed,
        attachments=choice.attachments,
        provider=choice.provider,
        wire=choice.driver.provider.wire,
        cache=_find_cache(choice, env),
        base_url="" if choice.route.uses_gateway else choice.route.url,
        secrets=secrets_of_servers(choice.task.mcp_servers.values()),
        python=sys.executable if choice.program.package else "",
        package=choice.program.package,
    )


def prepare_process(
    choice: Choice, claimed: ClaimedRun, context: LaunchContext, env: Mapping[str, str]
) -> PreparedProcess:
    task, driver = choice.task, choice.driver
    offered = task
    if task.tools and context.endpoint:
        offered = add_tool_server(task, context.endpoint, by=driver.capabilities.mcp)
        context = msgspec.structs.replace(context, tool_bridge={NAME: build_tool_bridge(context.endpoint)})
    launch = driver.channels[0].launch(
        add_prompt_fallbacks(offered, driver.capabilities, texts=choice.attachment_text), context
    )
    added = _build_run_env(choice, claimed, launch, context, env)
    environment = build_agent_environment(
        env,
        driver=driver,
        others=agent_summaries(env),
        clean=task.profile == "clean",
        gateway=context.endpoint is not None,
        login=task.login,
        run_env=added,
        key=choice.credential.key,
        private=choice.private,
    )
    box = _build_box(choice, claimed, context, launch, added, env)
    entry = _build_entry(choice, context, box, env)
    if entry and entry.isolated:
        environment = route_through_box(environment, entry.ports[1])
    if choice.sandbox.container:
        environment = build_container_environment(environment, driver=driver, run_env=added, home=box.home)
    box = _add_environment(box, choice, claimed, environment, entry)
    environment = build_outer_environment(environment, sandbox=choice.sandbox, host_env=env)
    stand_ins = _list_stand_ins(box) if choice.sandbox.boundary else []
    argv = choice.sandbox.wrap(launch.argv, box)
    if not (choice.sandbox.boundary and choice.sandbox.holds):
        argv = choice.containment.wrap(argv, box)
    process = AgentProcess(
        argv=list(argv),
        env=environment,
        stdin=launch.stdin,
        keeps_stdin=launch.keeps_stdin,
        conversation=launch.conversation,
        preamble=build_preamble(task, driver.capabilities, texts=choice.attachment_text) if launch.conversation else "",
        liveness_pipe=choice.containment.liveness_pipe,
        agent_depth=choice.sandbox.depth(box) if choice.sandbox.container else choice.containment.agent_depth,
        sandbox=choice.sandbox.name,
        containment=choice.containment.name,
        access=_find_access(choice),
        private=choice.private,
        network=choice.network,
        entry=entry,
    )
    seen = _note_git(box) if choice.sandbox.boundary else SeenGit()
    return PreparedProcess(launch=launch, added=added, process=process, stand_ins=stand_ins, seen=seen)


def _list_stand_ins(box: Box) -> list[str]:
    from inspan.stores.stand_ins import list_stand_ins  # Start-up time: few runs have a box.

    return list_stand_ins(box)


def _note_git(box: Box) -> SeenGit:
    from inspan.stores.git_notes import note_git  # Start-up time: few runs have a box.

    return note_git(box)


def prepare_alternative(
    choice: Choice, claimed: ClaimedRun, session: LockedSession, env: Mapping[str, str], first: LaunchContext
) -> PreparedProcess:
    """The same by another channel: behind the same gateway, and with a session id of its own where it presets one."""
    context = build_launch_context(choice, claimed, session, env, None)
    context = msgspec.structs.replace(context, endpoint=first.endpoint)
    return prepare_process(choice, claimed, context, env)


def _add_environment(
    box: Box, choice: Choice, claimed: ClaimedRun, environment: Mapping[str, str], entry: Entry | None
) -> Box:
    """The box with the variables set in it alone: all of them in a container, those that load code elsewhere."""
    if choice.sandbox.container:
        name = f"inspan-{claimed.folder.run_id}-{choice.driver.channels[0].name}"
        listeners = tuple(entry.ports) if entry else ()
        return msgspec.structs.replace(box, env=dict(environment), name=name, listeners=listeners)
    return msgspec.structs.replace(box, env=select_loader_variables(environment)) if choice.sandbox.boundary else box


def _find_access(choice: Choice) -> Access:
    if choice.driver.program.hosted:
        return "remote"
    if choice.task.mode == "complete":
        return "no_tools"
    if choice.task.mode == "review":
        return "read_only_sandbox" if choice.sandbox.boundary else "read_only"
    if choice.sandbox.boundary:
        return "sandbox"
    return "full" if choice.task.allowed_tools is None else "allowed_tools"


def _find_cache(choice: Choice, env: Mapping[str, str]) -> str:
    """The cache that runs share: in a box only where it is filled already, since there it can only be read."""
    program = choice.driver.program
    is_shared = program.unpack_variable if choice.sandbox.boundary else program.shares_cache
    return find_shared_cache(choice.driver, env) if is_shared else ""


def _build_endpoint(route: Route, listener: socket.socket, env: Mapping[str, str]) -> Endpoint:
    url, token = f"http://127.0.0.1:{listener.getsockname()[1]}", os.urandom(20).hex()
    no_proxy = hosts_without_proxy(env)
    if route.variable:
        return Endpoint(url=url, token=token, variable=route.variable, no_proxy=no_proxy)
    from inspan.gateway.admission import pass_through_url  # Start-up time: few runs pass a login on.

    return Endpoint(url=pass_through_url(url, token), token=token, no_proxy=no_proxy)


def _has_key(choice: Choice) -> bool:
    """Whether a key, or the run's token in its place, stands in the first of the agent's variables for one."""
    held = choice.route.variable if choice.route.uses_gateway else choice.credential.variable
    return held in choice.driver.provider.credentials[:1]


def _build_run_env(
    choice: Choice, claimed: ClaimedRun, launch: Launch, context: LaunchContext, env: Mapping[str, str]
) -> dict[str, str]:
    task, driver = choice.task, choice.driver
    added = {
        "TASK_FOLDER": make_private_folder(os.path.join(claimed.task_folder, "files")),
        "RUN_FOLDER": claimed.folder.agent_folder,
        "JRUN_PROJECT_ID": claimed.project,
        "JRUN_TASK_ID": task.task,
        "JRUN_ID": claimed.folder.run_id,
        "INSPAN_AGENT_NAME": driver.name,
        "INSPAN_WORKTREE_PATH": task.cwd,
    }
    # Settings that the user keeps elsewhere are the user's all the same.
    if driver.state.config_variable and (config := context.config or env.get(driver.state.config_variable)):
        added[driver.state.config_variable] = config
    if context.endpoint:
        added["BASE_URL"] = context.endpoint.url
    if task.model:
        added["MODEL"] = task.model
    if choice.sandbox.boundary:
        added["TMPDIR"] = "/tmp"
        if context.config:
            added["HOME"] = make_private_folder(_session_home(context.config))
    if not choice.route.uses_gateway:
        # One address: what names another one, or another way, gives way to the one that counts.
        replaced = (*driver.provider.base_url_variables, *driver.access.override_variables) if context.base_url else ()
        own = {name: value for name, value in task.env.items() if name not in replaced}
        return {**added, **launch.env, **_key_env_if_unset(choice, env), **own, **_address_env(choice, context)}
    replaced = (*driver.provider.credentials, *driver.access.withheld_credentials, *driver.provider.base_url_variables)
    return {**added, **launch.env, **{name: value for name, value in task.env.items() if name not in replaced}}


def _key_env_if_unset(choice: Choice, env: Mapping[str, str]) -> dict[str, str]:
    """The key, where the agent would not find it by itself."""
    return {name: key for name, key in key_env(choice).items() if env.get(name) != key}


def _address_env(choice: Choice, context: LaunchContext) -> dict[str, str]:
    """The address of a direct run, in the variables by which its agent finds it."""
    if not context.base_url or choice.driver.access.direct_address != "variable":
        return {}
    return dict.fromkeys(choice.driver.provider.base_url_variables, context.base_url)


def key_env(choice: Choice) -> dict[str, str]:
    return {choice.credential.variable: choice.credential.key} if choice.credential.key else {}


def _build_box(
    choice: Choice,
    claimed: ClaimedRun,
    context: LaunchContext,
    launch: Launch,
    added: Mapping[str, str],
    env: Mapping[str, str],
) -> Box:
    if not choice.sandbox.boundary:
        return Box(cwd=choice.task.cwd, root=choice.root)
    # Beside its config lies the session's record, which decides where its next run works: not for the agent to write.
    kept = (
        [context.config, _session_home(context.config)]
        if context.config
        else list(_make_state_paths(choice.driver, added))
    )
    # Not what the variable says, which a task may set to any folder.
    shared = find_task_files(claimed.folder)
    own = (*(path for path in kept if os.path.exists(path)), claimed.folder.agent_folder, shared)
    from .box import build_box  # Start-up time: few runs have a sandbox.

    box = build_box(choice, env=env, reads=launch.reads, kept=own, state=claimed.state)
    return msgspec.structs.replace(
        box,
        readable=(*box.readable, *filter(None, (context.cache,))),
        ports=(_find_port(context.endpoint),) if context.endpoint else (),
    )


def _make_state_paths(driver: Driver, added: Mapping[str, str]) -> Iterator[str]:
    """Where the agent keeps its sessions and settings; its folder is made, as the agent itself would at first use."""
    if named := added.get(driver.state.config_variable):
        yield named
        return
    for path in (expand_home(each, os.environ) for each in driver.state.state_paths):
        if not os.path.splitext(path)[1]:
            make_private_folder(path)
        yield path


def _session_home(config: str) -> str:
    """The HOME of a session that has a config folder of its own, in a box."""
    return os.path.join(os.path.dirname(config), "home")


def _build_entry(choice: Choice, context: LaunchContext, box: Box, env: Mapping[str, str]) -> Entry | None:
    """What has to be set up on the way into a box; nothing, for most runs."""
    isolation = choice.sandbox.isolate(box)
    if isolation is None:
        return None
    return Entry(
        isolated=isolation.network,
        inside=isolation.inside,
        ports=_choose_ports(context, choice.network) if isolation.network else [],
        filter=isolation.filter,
        scoped=isolation.scoped,
        proxies=proxy_variables(env) if isolation.network else {},
    )


def _choose_ports(context: LaunchContext, network: NetworkPolicy) -> list[int]:
    """Where the agent finds its gateway, the way out, and what of this machine it may reach."""
    local = list(network.local_ports)
    given = [_find_port(context.endpoint)] if context.endpoint else []
    free = (port for port in range(_FIRST_PORT, _LAST_PORT) if port not in (*given, *local))
    return [*(given or [next(free)]), next(free), *local]


def _find_port(endpoint: Endpoint) -> int:
    return int(endpoint.url.rpartition(":")[2].partition("/")[0])


def _new_session_id() -> str:
    """A random UUID, version 4."""
    number = bytearray(os.urandom(16))
    number[6] = number[6] & 0x0F | 0x40
    number[8] = number[8] & 0x3F | 0x80
    text = number.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
