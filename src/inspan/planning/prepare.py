"""From a task to all that a supervisor needs: checked first, then claimed, so that bad input leaves nothing behind."""

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress

import msgspec

from inspan.agents.driver_cache import agent_summaries
from inspan.agents.version_support import untested_warning
from inspan.contracts.driver import Driver, Endpoint, Launch, LaunchContext
from inspan.contracts.prompt_fallbacks import add_prompt_fallbacks, build_preamble
from inspan.contracts.sandbox import Box
from inspan.errors import BudgetSpent, StateUnusable
from inspan.framing.proxy import proxy_variables
from inspan.protocol.network import NetworkPolicy
from inspan.protocol.plan import AgentChoice, AgentProcess, Alternative, Entry, Leftovers, Plan, Route, SessionChoice
from inspan.protocol.task import Access, Task
from inspan.protocol.wire import SCHEMA
from inspan.redaction import Gate, SecretSet
from inspan.running.prepared_run import PreparedRun
from inspan.runs.projects import project_of
from inspan.stores.event_log import begin_log
from inspan.stores.paths import make_private_folder, runtime_home, state_home
from inspan.stores.run_folder import (
    RunFolder,
    claim_folder,
    lock_run,
    mark_active,
    unmark_active,
    write_bytes,
    write_json,
    write_text,
)
from inspan.stores.sessions import SessionRecord
from inspan.stores.worktree import find_worktree
from inspan.system import file_locks, forking
from inspan.system.standard_streams import fill_standard_fds
from inspan.transports.process import move_fd_up

from .checks import check_task
from .confinement import (
    FIELD,
    Confinement,
    describe_confinement,
    find_weakened,
    inherit_confinement,
    load_confinement,
)
from .environment import (
    build_agent_environment,
    build_container_environment,
    build_outer_environment,
    collect_secrets,
    hosts_without_proxy,
    route_through_box,
    secrets_of_servers,
    select_loader_variables,
)
from .places import RunPlace, bring_back, enter_place, leave_place
from .resolve import Choice, resolve_task
from .resume import (
    LockedSession,
    claim_session,
    config_folder,
    load_reported,
    prepare_config,
    resolve_session,
    unclaim_session,
    update_reported,
)
from .route import find_named_url
from .shared_cache import find_shared_cache
from .tool_server import NAME, add_tool_server, build_tool_bridge

_FIRST_PORT, _LAST_PORT = 49152, 65535


class _ClaimedRun(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run was claimed."""

    state: str
    project: str
    task_folder: str
    folder: RunFolder


class _PreparedProcess(msgspec.Struct, frozen=True, kw_only=True):
    """What is started by one channel, and the variables that are the run's own."""

    launch: Launch
    added: dict[str, str]
    process: AgentProcess


def prepare(
    task: Task,
    *,
    env: Mapping[str, str] = os.environ,
    supervised: bool = True,
    configured: bool = False,
    on_claim: Callable[[], object] | None = None,
) -> PreparedRun:
    """Checks the task, claims a run folder and decides what to start. Raises `InspanError` and then leaves no trace.

    Until `on_claim` is called, nothing has been made but the worktree of a run that has one of its own, which is taken
    away if that is interrupted; after it no program is started, and nothing is waited for but a moment's lock. A run
    that is not supervised does without a socket where there is no place for one. A task that is `configured` has taken
    over already what confined the run that it continues.
    """
    fill_standard_fds()  # Locks and listener are held for long: never where somebody may print.
    env = dict(env)  # Each look into `os.environ` itself decodes what it finds.
    task, record = resolve_session(task, env)
    before = load_confinement(state_home(env), record)
    task = task if configured else inherit_confinement(task, before)
    with bring_back(task, env):
        return _prepare(task, record, before, env, supervised=supervised, on_claim=on_claim or _do_nothing)


def _prepare(
    task: Task,
    record: SessionRecord | None,
    before: Confinement,
    env: Mapping[str, str],
    *,
    supervised: bool,
    on_claim: Callable[[], object],
) -> PreparedRun:
    if not task.prompt.strip() and not task.session:
        task = _fill_prompt(task, env)
    check_task(task)
    choice = resolve_task(task, env)
    if not choice.place:
        on_claim()
    if supervised:
        make_private_folder(runtime_home())  # The run's socket will lie there; it would be too late to refuse it then.
    with _reserve_name(task, env) if task.name else nullcontext():
        return _claim_and_plan(task, choice, record, before, env, on_claim)


def _reserve_name(task: Task, env: Mapping[str, str]) -> AbstractContextManager[None]:
    from .names import reserve_name  # Start-up time: few runs have a name of their own.

    return reserve_name(task, env)


def _do_nothing() -> None:
    """For callers that do not want to know."""


def _claim_and_plan(
    task: Task,
    choice: Choice,
    record: SessionRecord | None,
    before: Confinement,
    env: Mapping[str, str],
    on_claim: Callable[[], object],
) -> PreparedRun:
    claimed = _claim_run(task, env)
    lock, session, listener, place, groups = -1, None, None, None, list[str]()
    try:
        lock = lock_run(claimed.folder)
        with _enter_place(choice, claimed) as place:
            if choice.place:
                on_claim()
            choice = _move_choice(choice, place) if place else choice
            session = claim_session(
                claimed.state, choice.task, record=record, run_id=claimed.folder.run_id, agent=choice.driver.name
            )
            listener = _open_listener() if choice.route.uses_gateway else None
            plan = _build_plan(choice, claimed, session, env, listener, place)
            now = describe_confinement(choice)
            plan = msgspec.structs.replace(plan, weakened=find_weakened(before, now))
            if task.budgets:
                _open_account(plan)
            update_reported(claimed.state, session, plan.session.reported)
            if task.limits.resources or task.control_groups:
                plan = _join_groups(plan, groups := _create_groups(plan.run_id, task))
            _write_description(plan, claimed.folder, now)
    except BaseException:
        _remove_groups(groups)
        if listener:
            listener.close()
        try:
            if place:
                leave_place(place)
            _erase_run(claimed.state, claimed.folder, session.record.key if session else "")
        finally:
            for fd in (session.lock if session else -1, lock):
                if fd >= 0:
                    file_locks.release(fd)
        raise
    return PreparedRun(plan=plan, folder=claimed.folder, lock=lock, session_lock=session.lock, listener=listener)


def discard(prepared: PreparedRun) -> None:
    """Undoes a prepared run that is not to be started after all."""
    entry = prepared.plan.process.entry
    _remove_groups(entry.groups if entry else [])
    if prepared.listener:
        prepared.listener.close()
    worktree = prepared.plan.worktree
    if worktree and (made := find_worktree(prepared.plan.state, worktree.path)):
        leave_place(RunPlace(worktree=made, cwd=worktree.path, is_new=made.id == prepared.folder.run_id))
    _erase_run(prepared.plan.state, prepared.folder, prepared.plan.session.key)
    prepared.release()


def _enter_place(choice: Choice, claimed: _ClaimedRun) -> AbstractContextManager[RunPlace | None]:
    run_id = claimed.folder.run_id
    return enter_place(choice.place, choice.task, state=claimed.state, project=claimed.project, run_id=run_id)


def _move_choice(choice: Choice, place: RunPlace) -> Choice:
    """The same choice in the folder of a worktree, which may bring code that the user's folder does not have."""
    task = msgspec.structs.replace(choice.task, cwd=place.cwd)
    if place.is_new and choice.driver.channels[0].project_code:
        from .project_code import refuse_project_code  # Start-up time: most agents can be kept from all of it.

        refuse_project_code(task, choice.driver)
    others = tuple(_move_choice(each, place) for each in choice.alternatives)
    return msgspec.structs.replace(choice, task=task, alternatives=others)


def _fill_prompt(task: Task, env: Mapping[str, str]) -> Task:
    from .prompts import CONTINUE_PROMPT, default_prompt  # Start-up time: few runs leave the prompt out.

    check_task(
        msgspec.structs.replace(task, prompt=CONTINUE_PROMPT)
    )  # Where its task folder lies follows from the other fields.
    files = os.path.join(_task_folder(state_home(env), task), "files")
    return msgspec.structs.replace(task, prompt=default_prompt(task, files=files))


def _task_folder(state: str, task: Task) -> str:
    return os.path.join(state, "projects", task.project or project_of(task.cwd), task.task)


def _open_listener() -> socket.socket:
    with forking.opening:
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener = forking.own_socket(socket.socket(fileno=move_fd_up(made.detach())))
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    return listener


def _claim_run(task: Task, env: Mapping[str, str]) -> _ClaimedRun:
    state = make_private_folder(state_home(env))
    task_folder = _task_folder(state, task)
    folder = claim_folder(os.path.join(task_folder, "runs"), pid=os.getpid())
    project = os.path.basename(os.path.dirname(task_folder))
    return _ClaimedRun(state=state, project=project, task_folder=task_folder, folder=folder)


def _build_plan(
    choice: Choice,
    claimed: _ClaimedRun,
    session: LockedSession,
    env: Mapping[str, str],
    listener: socket.socket | None,
    place: RunPlace | None,
) -> Plan:
    task, driver, folder = choice.task, choice.driver, claimed.folder
    if task.profile == "clean":
        prepare_config(claimed.state, session, driver)
    context = _build_launch_context(choice, claimed, session, env, listener)
    prepared = _prepare_process(choice, claimed, context, env)
    _write_files(prepared.launch)
    others = [_prepare_alternative(each, claimed, session, env, context) for each in choice.alternatives]
    files = [path for each in (prepared, *others) for path in each.launch.files]
    token = context.endpoint.token if context.endpoint else ""
    return Plan(
        run_id=folder.run_id,
        created_at=time.time(),
        folder=folder.path,
        state=claimed.state,
        task=task,
        project=claimed.project,
        agent=AgentChoice(
            name=driver.name,
            version=choice.program.version,
            channel=driver.channels[0].name,
            provider=choice.provider,
            credential=choice.credential.description,
            base_url=find_named_url(choice.task, driver, env),
        ),
        session=SessionChoice(
            key=session.record.key,
            id=context.session_id or ("" if task.fork else context.resume),
            reported=load_reported(driver, session, config=context.config, env=env),
        ),
        process=prepared.process,
        token=token,
        route=choice.route,
        path_placeholders=_collect_path_placeholders(claimed, context, prepared.process.env, cwd=task.cwd),
        secrets=collect_secrets(
            env,
            prepared.added,
            *(each.added for each in others),
            _key_env(choice),
            task.env,
            credentials=(*driver.provider.credentials, *driver.access.withheld_credentials),
            token=token,
            servers=task.mcp_servers.values(),
            key_from=task.key_from,
        ),
        leftovers=Leftovers(
            folders=[name for name in driver.state.leftover_dirs if not os.path.lexists(os.path.join(task.cwd, name))],
            files=[path for path in files if path.startswith(f"{context.scratch}/")],
        ),
        warnings=[*filter(None, (untested_warning(driver, choice.program),)), *(place.warnings if place else ())],
        approvals=_load_approvals(claimed) if task.ask else [],
        alternatives=[
            Alternative(
                channel=each.driver.channels[0].name,
                version=each.program.version,
                process=other.process,
                files=dict(other.launch.files),
            )
            for each, other in zip(choice.alternatives, others, strict=True)
        ],
        worktree=place.to_plan() if place else None,
    )


def _prepare_alternative(
    choice: Choice, claimed: _ClaimedRun, session: LockedSession, env: Mapping[str, str], first: LaunchContext
) -> _PreparedProcess:
    """The same by another channel: behind the same gateway, and with a session id of its own where it presets one."""
    context = _build_launch_context(choice, claimed, session, env, None)
    context = msgspec.structs.replace(context, endpoint=first.endpoint)
    return _prepare_process(choice, claimed, context, env)


def _prepare_process(
    choice: Choice, claimed: _ClaimedRun, context: LaunchContext, env: Mapping[str, str]
) -> _PreparedProcess:
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
    )
    box = _build_box(choice, claimed, context, launch, added, env)
    entry = _build_entry(choice, context, box, env)
    if entry and entry.isolated:
        environment = route_through_box(environment, entry.ports[1])
    if choice.sandbox.container:
        environment = build_container_environment(environment, driver=driver, run_env=added, home=box.home)
        name = f"inspan-{claimed.folder.run_id}-{driver.channels[0].name}"
        listeners = tuple(entry.ports) if entry else ()
        box = msgspec.structs.replace(box, env=environment, name=name, listeners=listeners)
    elif choice.sandbox.boundary:
        box = msgspec.structs.replace(box, env=select_loader_variables(environment))
    environment = build_outer_environment(environment, sandbox=choice.sandbox, host_env=env)
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
    return _PreparedProcess(launch=launch, added=added, process=process)


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


def _write_files(launch: Launch) -> None:
    for path, content in launch.files.items():
        make_private_folder(os.path.dirname(path))
        write_bytes(path, content)


def _load_approvals(claimed: _ClaimedRun) -> list[tuple[str, str]]:
    from inspan.stores.approvals import list_approvals  # Start-up time: few runs ask.

    return [(each.tool, each.subject) for each in list_approvals(claimed.state, claimed.project)]


def _build_launch_context(
    choice: Choice, claimed: _ClaimedRun, session: LockedSession, env: Mapping[str, str], listener: socket.socket | None
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


def _find_cache(choice: Choice, env: Mapping[str, str]) -> str:
    """The cache that runs share: in a box only where it is filled already, since there it can only be read."""
    program = choice.driver.program
    is_shared = program.unpack_variable if choice.sandbox.boundary else program.shares_cache
    return find_shared_cache(choice.driver, env) if is_shared else ""


def _collect_path_placeholders(
    claimed: _ClaimedRun, context: LaunchContext, environment: Mapping[str, str], *, cwd: str
) -> dict[str, str]:
    """The folders of this run that are others in the next, by the names that a cassette has for them."""
    found = {
        "cwd": cwd,
        "run": claimed.folder.path,
        "task": environment["TASK_FOLDER"],
        "config": context.config,
        "home": environment.get("HOME", ""),
    }
    return {name: path for name, path in found.items() if len(path) > 1}


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


def _key_env_if_unset(choice: Choice, env: Mapping[str, str]) -> dict[str, str]:
    """The key, where the agent would not find it by itself."""
    return {name: key for name, key in _key_env(choice).items() if env.get(name) != key}


def _address_env(choice: Choice, context: LaunchContext) -> dict[str, str]:
    """The address of a direct run, in the variables by which its agent finds it."""
    if not context.base_url or choice.driver.access.direct_address != "variable":
        return {}
    return dict.fromkeys(choice.driver.provider.base_url_variables, context.base_url)


def _key_env(choice: Choice) -> dict[str, str]:
    return {choice.credential.variable: choice.credential.key} if choice.credential.key else {}


def _build_run_env(
    choice: Choice, claimed: _ClaimedRun, launch: Launch, context: LaunchContext, env: Mapping[str, str]
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


def _build_box(
    choice: Choice,
    claimed: _ClaimedRun,
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
    own = (*(path for path in kept if os.path.exists(path)), claimed.folder.agent_folder, added["TASK_FOLDER"])
    from .box import build_box  # Start-up time: few runs have a sandbox.

    box = build_box(choice, env=env, reads=launch.reads, kept=own, state=claimed.state)
    return msgspec.structs.replace(
        box,
        readable=(*box.readable, *filter(None, (context.cache,))),
        ports=(_find_port(context.endpoint),) if context.endpoint else (),
    )


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


def _join_groups(plan: Plan, groups: list[str]) -> Plan:
    """The plan with the control groups that its agent joins, by whichever channel."""

    def join(process: AgentProcess) -> AgentProcess:
        entry = msgspec.structs.replace(process.entry or Entry(), groups=groups)
        return msgspec.structs.replace(process, entry=entry)

    others = [msgspec.structs.replace(each, process=join(each.process)) for each in plan.alternatives]
    return msgspec.structs.replace(plan, process=join(plan.process), alternatives=others)


def _remove_groups(groups: list[str]) -> None:
    if groups:
        from inspan.containment.control_groups import remove_groups  # Start-up time: few runs have such limits.

        remove_groups(groups)


def _create_groups(run_id: str, task: Task) -> list[str]:
    from inspan.containment.control_groups import create_groups  # Start-up time: few runs have such limits.

    return create_groups(run_id, task.limits, within=task.control_groups)


def _choose_ports(context: LaunchContext, network: NetworkPolicy) -> list[int]:
    """Where the agent finds its gateway, the way out, and what of this machine it may reach."""
    local = list(network.local_ports)
    given = [_find_port(context.endpoint)] if context.endpoint else []
    free = (port for port in range(_FIRST_PORT, _LAST_PORT) if port not in (*given, *local))
    return [*(given or [next(free)]), next(free), *local]


def _find_port(endpoint: Endpoint) -> int:
    return int(endpoint.url.rpartition(":")[2].partition("/")[0])


def _session_home(config: str) -> str:
    """The HOME of a session that has a config folder of its own, in a box."""
    return os.path.join(os.path.dirname(config), "home")


def _make_state_paths(driver: Driver, added: Mapping[str, str]) -> Iterator[str]:
    """Where the agent keeps its sessions and settings; its folder is made, as the agent itself would at first use."""
    if named := added.get(driver.state.config_variable):
        yield named
        return
    for path in map(os.path.expanduser, driver.state.state_paths):
        if not os.path.splitext(path)[1]:
            make_private_folder(path)
        yield path


def _write_description(plan: Plan, folder: RunFolder, confinement: Confinement) -> None:
    """Writes what others find the run by. Its description comes last: with it, the folder is a run, and a whole one."""
    gate = Gate(SecretSet.get_shared(plan.secrets))
    begin_log(folder.log, gate.encode_event(plan.started))
    mark_active(plan.state, folder)
    write_text(folder.file("prompt.md"), gate.redact_text(plan.task.prompt))
    write_json(
        folder.file("run.json"),
        gate.redact_json(
            {
                "schema": SCHEMA,
                "run_id": plan.run_id,
                "created_at": plan.created_at,
                "agent": plan.agent.name,
                "channel": plan.agent.channel,
                "way": plan.agent.provider,
                "project": plan.project,
                "argv": plan.process.argv,
                "control_groups": plan.process.entry.groups if plan.process.entry else [],
                FIELD: msgspec.to_builtins(confinement),
                "session": plan.session.key,
                "told": msgspec.to_builtins(plan.session.reported),
                "session_id": plan.session.id,
                "task": msgspec.to_builtins(plan.task),
            }
        ),
    )


def _open_account(plan: Plan) -> None:
    """Opens the run's account; raises `BudgetSpent` where a budget has nothing left."""
    from inspan.spending.account import build_spender  # Start-up time: few runs have a budget.
    from inspan.stores.ledger import Ledger  # Start-up time: few runs have a budget.

    ledger = Ledger(plan.state)
    try:
        denial = ledger.open_run(build_spender(plan, started_at=plan.created_at), plan.task.budgets)
    finally:
        ledger.close()
    if denial:
        raise BudgetSpent(denial.sentence, next_step="Raise the budget; `inspan budget` shows what was spent.")


def _erase_run(state: str, folder: RunFolder, session: str) -> None:
    """Deletes what was claimed for a run that never started."""
    import shutil  # Start-up time: only a start that fails needs it.

    shutil.rmtree(folder.path, ignore_errors=True)
    # What keeps a run from starting may keep it from these, too, and is told already.
    with suppress(StateUnusable):
        unmark_active(state, folder.run_id)
    with suppress(StateUnusable):
        unclaim_session(state, session or folder.run_id, folder.run_id)


def _new_session_id() -> str:
    """A random UUID, version 4."""
    number = bytearray(os.urandom(16))
    number[6] = number[6] & 0x0F | 0x40
    number[8] = number[8] & 0x3F | 0x80
    text = number.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
