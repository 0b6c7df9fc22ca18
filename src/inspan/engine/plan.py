"""From a task to all that a supervisor needs: checked first, then claimed, so that bad input leaves nothing behind."""

import os
import socket
import time
import zlib
from collections.abc import Iterator, Mapping

import msgspec

from inspan import __version__
from inspan.contracts.driver import Driver, Endpoint, Launch, Place
from inspan.contracts.sandbox import Box, Sandbox
from inspan.errors import BadInput, CredentialsMissing
from inspan.protocol.events import RunStarted
from inspan.protocol.task import Task
from inspan.protocol.wire import SCHEMA
from inspan.redaction import Gate, SecretSet
from inspan.sandboxes import containment, programs
from inspan.stores.folder import (
    RunFolder,
    claim,
    mark_active,
    take_lock,
    unmark_active,
    write_json,
    write_text,
)
from inspan.stores.paths import cache_home, private_folder, runtime_home, state_home

from . import registry
from .environment import agent_environment, known_secrets
from .program import Program, carried, locate

_SCRIPT = "script:"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One run, decided to the last argument. It holds secrets: it is passed on in memory and never stored."""

    run_id: str
    folder: str
    state: str
    task: Task
    agent: str
    agent_version: str
    project: str
    session_id: str
    sandbox: str
    containment: str
    depth: int
    argv: list[str]
    env: dict[str, str]
    stdin: bytes
    life_line: bool
    token: str
    secrets: dict[str, str]
    litter: list[str]

    @property
    def started(self) -> RunStarted:
        """The first event of the run's log."""
        return RunStarted(
            schema=SCHEMA,
            run_id=self.run_id,
            agent=self.agent,
            agent_version=self.agent_version,
            mode=self.task.mode,
            project=self.project,
            task=self.task.task,
            cwd=self.task.cwd,
            model=self.task.model,
            session_id=self.session_id,
            profile=self.task.profile,
            sandbox=self.sandbox,
            containment=self.containment,
            model_from=self.task.model_from,
            inspan=__version__,
        )


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A claimed run: its plan, its lock, and the gateway's listener where it has one. Whoever gets it closes them."""

    plan: Plan
    folder: RunFolder
    lock: int
    listener: socket.socket | None


class _Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What was chosen for a task before anything was written."""

    task: Task
    driver: Driver
    program: Program
    sandbox: Sandbox
    containment: containment.Containment
    root: bool


def prepare(task: Task, *, env: Mapping[str, str] = os.environ) -> Prepared:
    """Checks the task, claims a run folder and decides what to start. Raises `InspanError` and then leaves no trace."""
    choice = _choose(_checked(task), env)
    state = private_folder(state_home(env))
    project = task.project or project_of(task.cwd)
    task_folder = os.path.join(state, "projects", project, task.task)
    folder = claim(os.path.join(task_folder, "runs"), pid=os.getpid())
    lock, listener = -1, None
    try:
        lock = take_lock(folder)
        listener = _listen() if task.model_from else None
        plan = _plan(
            choice,
            env,
            state=state,
            project=project,
            task_folder=task_folder,
            folder=folder,
            listener=listener,
        )
        _describe(plan, folder)
        mark_active(state, folder)
    except BaseException:
        if listener:
            listener.close()
        if lock >= 0:
            os.close(lock)
        _withdraw(state, folder)
        raise
    return Prepared(plan=plan, folder=folder, lock=lock, listener=listener)


def project_of(cwd: str) -> str:
    """The default project: the git top level's name and a short hash of its path, or the folder's own."""
    top = cwd
    while not os.path.exists(os.path.join(top, ".git")):
        parent = os.path.dirname(top)
        if parent == top:
            top = cwd
            break
        top = parent
    return f"{os.path.basename(top) or 'root'}-{zlib.crc32(os.path.realpath(top).encode()):08x}"


def _checked(task: Task) -> Task:
    _check_text(task)
    if not task.prompt.strip():
        raise BadInput("prompt", task.prompt, "it is empty.", next_step='Say what to do: inspan run "fix the test".')
    if not os.path.isabs(task.cwd) or not os.path.isdir(task.cwd):
        problem = "it is no folder." if os.path.exists(task.cwd) else "no such folder."
        raise BadInput("cwd", task.cwd, problem, next_step="Create it, or pass another with --cwd.")
    if not os.access(task.cwd, os.W_OK | os.X_OK):
        raise BadInput("cwd", task.cwd, "it is not writable.", next_step="Change its mode, or pass another with --cwd.")
    if task.project:
        _check_name("project", task.project)
    _check_name("task", task.task)
    for name in task.env:
        if not name or "=" in name or "\0" in name:
            raise BadInput("env", name, "no name of a variable.", next_step="Use --env NAME=VALUE.")
    _check_limits(task)
    return task


def _check_text(task: Task) -> None:
    """The prompt reaches the agent by a pipe and may hold anything that is text; the rest become arguments."""
    arguments = {field: getattr(task, field) for field in ("cwd", "model", "model_from", "project", "task")}
    arguments |= {f"env {name}": f"{name}={value}" for name, value in task.env.items()}
    for field, value in {"prompt": task.prompt, **arguments}.items():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise BadInput(field, value, "it is not UTF-8.", next_step="Write it in UTF-8.") from error
        if "\0" in value and field != "prompt":
            raise BadInput(field, value, "it holds a NUL byte.", next_step="Remove it.")


def _check_name(field: str, value: str) -> None:
    if value in ("", ".", "..") or "/" in value or "\0" in value or len(value.encode()) > 120:
        raise BadInput(field, value, "it must be the name of a folder.", next_step="Use letters, digits, - and _.")


def _check_limits(task: Task) -> None:
    for field in task.limits.__struct_fields__:
        value = getattr(task.limits, field)
        if value is not None and not value > 0:
            raise BadInput(
                field,
                value,
                "a limit must be more than 0 seconds.",
                next_step="Give more; to switch it off, use off on the command line, None in a program.",
            )


def _choose(task: Task, env: Mapping[str, str]) -> _Choice:
    driver = registry.driver(task.agent)
    root = os.geteuid() == 0
    for other in registry.drivers():
        if other.carries_bwrap and (path := carried(other.carries_bwrap)) and os.access(path, os.X_OK):
            programs.offer_bwrap(path)
    sandbox = registry.sandbox(task.sandbox or _default_sandbox(driver, root=root))
    if root and driver.capabilities.root_needs_box and not sandbox.boundary:
        raise BadInput(
            "sandbox",
            sandbox.name,
            f"{driver.title} refuses to run unrestricted as root.",
            next_step="Leave --sandbox out, use --sandbox bwrap, or run as an ordinary user.",
        )
    _check_model_from(task.model_from)
    if driver.built_in and not task.model_from:
        raise BadInput("model_from", "", f"{driver.title} has no model of its own.", next_step="Use script:FILE.")
    program = locate(driver, env)
    _check_credentials(task, driver, env)
    way = containment.choose(cache_home(env), asked=env.get("INSPAN_CONTAINMENT", ""))
    if sandbox.boundary:
        argv = sandbox.wrap(("/bin/true",), Box(cwd="/", root=root))
        containment.probe(argv, name=sandbox.name, cache=cache_home(env))
        way = containment.WAYS[0]
    return _Choice(task=task, driver=driver, program=program, sandbox=sandbox, containment=way, root=root)


def _default_sandbox(driver: Driver, *, root: bool) -> str:
    return "bwrap" if root and driver.capabilities.root_needs_box else "none"


def _check_model_from(model_from: str) -> None:
    if not model_from:
        return
    if not model_from.startswith(_SCRIPT):
        raise BadInput("model_from", model_from, "no such source of a model.", next_step="Use script:FILE.")
    # An extra of this command: only scripted runs need a TOML reader.
    from inspan.gateway import load_scenario

    load_scenario(model_from.removeprefix(_SCRIPT))


def _check_credentials(task: Task, driver: Driver, env: Mapping[str, str]) -> None:
    if task.model_from or task.profile == "user":
        return
    if not any(env.get(name) or task.env.get(name) for name in driver.credentials):
        raise CredentialsMissing(
            f"The profile clean does not use your login, and none of {', '.join(driver.credentials)} is set.",
            next_step=f"Set one of them, or use --profile user ({driver.login_hint}).",
        )


def _listen() -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    return listener


def _plan(
    choice: _Choice,
    env: Mapping[str, str],
    *,
    state: str,
    project: str,
    task_folder: str,
    folder: RunFolder,
    listener: socket.socket | None,
) -> Plan:
    task, driver = choice.task, choice.driver
    session = private_folder(os.path.join(state, "sessions", folder.run_id)) if task.profile == "clean" else ""
    place = _place(choice, session, listener)
    launch = driver.channels[0].launch(task, place)
    added = _added(choice, launch, place, project=project, task_folder=task_folder, folder=folder, session=session)
    token = place.endpoint.token if place.endpoint else ""
    box = _box(choice, state=state, folder=folder, session=session, task_files=added["TASK_FOLDER"])
    wrap = choice.sandbox.wrap if choice.sandbox.boundary else choice.containment.wrap
    environment = agent_environment(
        env,
        driver=driver,
        others=registry.drivers(),
        clean=task.profile == "clean",
        gateway=place.endpoint is not None,
        added=added,
    )
    return Plan(
        run_id=folder.run_id,
        folder=folder.path,
        state=state,
        task=task,
        agent=driver.name,
        agent_version=choice.program.version,
        project=project,
        session_id=place.session_id,
        sandbox=choice.sandbox.name,
        containment=choice.containment.name,
        depth=choice.containment.depth,
        argv=list(wrap(launch.argv, box)),
        env=environment,
        stdin=launch.stdin,
        life_line=choice.containment.pipe,
        token=token,
        secrets=known_secrets(env, added, credentials=driver.credentials, token=token),
        litter=[name for name in driver.litter if not os.path.lexists(os.path.join(task.cwd, name))],
    )


def _place(choice: _Choice, session: str, listener: socket.socket | None) -> Place:
    endpoint = None
    if listener:
        endpoint = Endpoint(url=f"http://127.0.0.1:{listener.getsockname()[1]}", token=os.urandom(20).hex())
    return Place(
        program=choice.program.path,
        cwd=choice.task.cwd,
        config=private_folder(os.path.join(session, "config")) if session else "",
        endpoint=endpoint,
        session_id=_new_session_id() if choice.driver.capabilities.presets_session_id else "",
        boxed=choice.sandbox.boundary,
        root=choice.root,
    )


def _added(
    choice: _Choice,
    launch: Launch,
    place: Place,
    *,
    project: str,
    task_folder: str,
    folder: RunFolder,
    session: str,
) -> dict[str, str]:
    task, driver = choice.task, choice.driver
    for name, content in launch.files.items():
        write_text(os.path.join(place.config, name), content)
    added = {
        "TASK_FOLDER": private_folder(os.path.join(task_folder, "files")),
        "RUN_FOLDER": folder.agent,
        "JRUN_PROJECT_ID": project,
        "JRUN_TASK_ID": task.task,
        "JRUN_ID": folder.run_id,
        "INSPAN_AGENT_NAME": driver.name,
        "INSPAN_WORKTREE_PATH": task.cwd,
    }
    if place.config and driver.config_variable:
        added[driver.config_variable] = place.config
    if place.endpoint:
        added["BASE_URL"] = place.endpoint.url
    if task.model:
        added["MODEL"] = task.model
    if choice.sandbox.boundary:
        added["TMPDIR"] = "/tmp"
        if session:
            added["HOME"] = private_folder(os.path.join(session, "home"))
    return {**added, **launch.env, **task.env}


def _box(choice: _Choice, *, state: str, folder: RunFolder, session: str, task_files: str) -> Box:
    kept = (session,) if session else tuple(_own_state(choice.driver))
    writable = (*(path for path in kept if os.path.exists(path)), folder.agent, task_files)
    return Box(
        cwd=choice.task.cwd,
        writable=writable,
        hidden=(state, private_folder(runtime_home())),  # Made now: what is not there yet cannot be hidden.
        readable=_beside(choice.program.path),
        root=choice.root,
    )


def _own_state(driver: Driver) -> Iterator[str]:
    """Where the agent keeps its sessions and settings; its folder is made, as the agent itself would at first use."""
    for path in map(os.path.expanduser, driver.state_paths):
        if not os.path.splitext(path)[1]:
            private_folder(path)
        yield path


def _beside(program: str) -> tuple[str, ...]:
    """The folders that a program needs when a private /tmp would hide it: its own and the one above."""
    real = os.path.realpath(program)
    if not real.startswith("/tmp/"):
        return ()
    own, above = os.path.dirname(real), os.path.dirname(os.path.dirname(real))
    return (next((folder for folder in (above, own) if folder not in ("/", "/tmp")), real),)


def _describe(plan: Plan, folder: RunFolder) -> None:
    gate = Gate(SecretSet.shared(plan.secrets))
    write_text(folder.file("prompt.md"), gate.text(plan.task.prompt))
    write_json(
        folder.file("run.json"),
        gate.value(
            {
                "schema": SCHEMA,
                "run_id": plan.run_id,
                "created_at": time.time(),
                "agent": plan.agent,
                "project": plan.project,
                "argv": plan.argv,
                "session_id": plan.session_id,
                "task": msgspec.to_builtins(plan.task),
            }
        ),
    )


def _withdraw(state: str, folder: RunFolder) -> None:
    import shutil  # Start-up time: only a start that fails needs it.

    unmark_active(state, folder.run_id)
    shutil.rmtree(folder.path, ignore_errors=True)
    shutil.rmtree(os.path.join(state, "sessions", folder.run_id), ignore_errors=True)


def _new_session_id() -> str:
    """A random UUID, version 4."""
    number = bytearray(os.urandom(16))
    number[6] = number[6] & 0x0F | 0x40
    number[8] = number[8] & 0x3F | 0x80
    text = number.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
