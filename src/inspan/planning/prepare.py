"""From a task to all that a supervisor needs: checked first, then claimed, so that bad input leaves nothing behind."""

import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress

import msgspec

from inspan.agents.version_support import untested_warning
from inspan.contracts.driver import Launch, LaunchContext
from inspan.errors import BudgetSpent, StateUnusable
from inspan.protocol.ids import RUN_VARIABLE
from inspan.protocol.plan import (
    AgentChoice,
    AgentProcess,
    Alternative,
    Entry,
    Leftovers,
    Plan,
    SessionChoice,
    TriagePlan,
)
from inspan.protocol.task import Task
from inspan.protocol.wire import SCHEMA
from inspan.redaction import Gate, SecretSet
from inspan.running.prepared_run import PreparedRun
from inspan.runs.projects import project_of
from inspan.stores.deletion import discard_tree
from inspan.stores.event_log import begin_log
from inspan.stores.paths import make_private_folder, runtime_home, state_home
from inspan.stores.run_folder import (
    RunFolder,
    claim_folder,
    lock_run,
    mark_active,
    task_path,
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

from .access import describe_access
from .checks import check_task, describe_idle_limits
from .confinement import (
    FIELD,
    Confinement,
    describe_confinement,
    find_weakened,
    inherit_confinement,
    load_confinement,
)
from .environment import collect_secrets
from .places import RunPlace, bring_back, enter_place, leave_place
from .process import ClaimedRun, build_launch_context, key_env, prepare_alternative, prepare_process
from .resolve import Choice, resolve_task
from .resume import (
    LockedSession,
    claim_session,
    load_reported,
    prepare_config,
    resolve_session,
    unclaim_session,
    update_reported,
)
from .settings_secrets import list_settings_values


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
    with bring_back(task, env) as warnings:
        prepared = _prepare(task, record, before, env, supervised=supervised, on_claim=on_claim or _do_nothing)
    plan = msgspec.structs.replace(prepared.plan, warnings=[*warnings, *prepared.plan.warnings])
    return msgspec.structs.replace(prepared, plan=plan) if warnings else prepared


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
            _write_description(plan, claimed.folder, now, inside=env.get(RUN_VARIABLE, ""))
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


def _enter_place(choice: Choice, claimed: ClaimedRun) -> AbstractContextManager[RunPlace | None]:
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
    return task_path(state, project=task.project or project_of(task.cwd), task=task.task)


def _open_listener() -> socket.socket:
    with forking.opening:
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener = forking.own_socket(socket.socket(fileno=move_fd_up(made.detach())))
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    return listener


def _claim_run(task: Task, env: Mapping[str, str]) -> ClaimedRun:
    state = make_private_folder(state_home(env))
    task_folder = _task_folder(state, task)
    folder = claim_folder(os.path.join(task_folder, "runs"), pid=os.getpid())
    project = os.path.basename(os.path.dirname(task_folder))
    return ClaimedRun(state=state, project=project, task_folder=task_folder, folder=folder)


def _build_plan(
    choice: Choice,
    claimed: ClaimedRun,
    session: LockedSession,
    env: Mapping[str, str],
    listener: socket.socket | None,
    place: RunPlace | None,
) -> Plan:
    task, driver, folder = choice.task, choice.driver, claimed.folder
    if task.profile == "clean":
        prepare_config(claimed.state, session, driver)
    context = build_launch_context(choice, claimed, session, env, listener)
    prepared = prepare_process(choice, claimed, context, env)
    _write_files(prepared.launch)
    others = [prepare_alternative(each, claimed, session, env, context) for each in choice.alternatives]
    files = [path for each in (prepared, *others) for path in each.launch.files]
    token = context.endpoint.token if context.endpoint else ""
    access = describe_access(task, driver, choice.credential, env)
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
            credential=access.description,
            base_url=access.base_url,
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
            key_env(choice),
            task.env,
            credentials=(*driver.provider.credentials, *driver.access.withheld_credentials),
            token=token,
            servers=task.mcp_servers.values(),
            key_from=task.key_from,
            settings=list_settings_values(driver, task.cwd, {**env, **task.env}, clean=task.profile == "clean"),
        ),
        leftovers=Leftovers(
            folders=[name for name in driver.state.leftover_dirs if not os.path.lexists(os.path.join(task.cwd, name))],
            files=[path for path in files if path.startswith(f"{context.scratch}/")],
            stand_ins=prepared.stand_ins,
        ),
        seen=prepared.seen,
        warnings=[
            *filter(None, (untested_warning(driver, choice.program), f"{access.warning} {access.next_step}".strip())),
            *(place.warnings if place else ()),
            *describe_idle_limits(task.limits),
        ],
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
        triage=_plan_triage(task, env, claimed.project) if task.watchdog and task.watchdog.triage else None,
    )


def _plan_triage(task: Task, env: Mapping[str, str], project: str) -> TriagePlan | None:
    from .triage import plan_triage  # Start-up time: few runs ask for it.

    return plan_triage(task, env, project=project)


def _write_files(launch: Launch) -> None:
    for path, content in launch.files.items():
        make_private_folder(os.path.dirname(path))
        write_bytes(path, content)


def _load_approvals(claimed: ClaimedRun) -> list[tuple[str, str]]:
    from inspan.stores.approvals import list_approvals  # Start-up time: few runs ask.

    return [(each.tool, each.subject) for each in list_approvals(claimed.state, claimed.project)]


def _collect_path_placeholders(
    claimed: ClaimedRun, context: LaunchContext, environment: Mapping[str, str], *, cwd: str
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


def _write_description(plan: Plan, folder: RunFolder, confinement: Confinement, *, inside: str) -> None:
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
                "seen": msgspec.to_builtins(plan.seen),
                "control_groups": plan.process.entry.groups if plan.process.entry else [],
                FIELD: msgspec.to_builtins(confinement),
                "session": plan.session.key,
                "inside": inside,
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
    discard_tree(folder.path)
    # What keeps a run from starting may keep it from these, too, and is told already.
    with suppress(StateUnusable):
        unmark_active(state, folder.run_id)
    with suppress(StateUnusable):
        unclaim_session(state, session or folder.run_id, folder.run_id)
