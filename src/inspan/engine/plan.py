"""From a task to all that a supervisor needs: checked first, then claimed, so that bad input leaves nothing behind."""

import os
import socket
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress

import msgspec

from inspan import __version__
from inspan.contracts.driver import Driver, Endpoint, Launch, Place
from inspan.contracts.sandbox import Box
from inspan.contracts.wording import worded
from inspan.errors import BudgetSpent, StateUnusable
from inspan.protocol.events import RunStarted
from inspan.protocol.task import Task
from inspan.protocol.usage import Told
from inspan.protocol.wire import SCHEMA
from inspan.redaction import Gate, SecretSet
from inspan.stores.folder import (
    RunFolder,
    claim,
    mark_active,
    take_lock,
    unmark_active,
    write_bytes,
    write_json,
    write_text,
)
from inspan.stores.paths import cache_home, private_folder, runtime_home, state_home

from .catalogue import neighbours
from .checks import check
from .choice import Choice, choose
from .environment import agent_environment, known_secrets
from .route import Route
from .sessions import Taken, config_folder, correct_told, release, take, told_before, with_session
from .tested import doubt


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One run, decided to the last argument. It holds secrets: it is passed on in memory and never stored."""

    run_id: str
    created_at: float
    folder: str
    state: str
    task: Task
    agent: str
    agent_version: str
    channel: str
    way: str
    project: str
    session: str
    session_id: str
    told: Told
    sandbox: str
    containment: str
    depth: int
    argv: list[str]
    env: dict[str, str]
    stdin: bytes
    keeps_stdin: bool
    life_line: bool
    token: str
    route: Route
    places: dict[str, str]
    secrets: dict[str, str]
    litter: list[str]
    warnings: list[str] = []

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
            resumes=self.task.resume,
            forks=self.task.fork,
            profile=self.task.profile,
            sandbox=self.sandbox,
            containment=self.containment,
            model_from=self.route.model_from,
            warnings=self.warnings,
            inspan=__version__,
        )


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A claimed run: its plan, its lock and its session's, and the gateway's listener where it has one.

    Whoever gets it closes them.
    """

    plan: Plan
    folder: RunFolder
    lock: int
    session_lock: int
    listener: socket.socket | None

    def close(self) -> None:
        """Lets go of what was not handed on."""
        os.close(self.session_lock)
        os.close(self.lock)


class _Ground(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run was claimed."""

    state: str
    project: str
    task_folder: str
    folder: RunFolder


def prepare(task: Task, *, env: Mapping[str, str] = os.environ) -> Prepared:
    """Checks the task, claims a run folder and decides what to start. Raises `InspanError` and then leaves no trace."""
    env = dict(env)  # Each look into `os.environ` itself decodes what it finds.
    task, record = with_session(task, env)
    if not task.prompt.strip():
        task = _prompted(task, env)
    check(task)
    choice = choose(task, env)
    ground = _claimed(task, env)
    lock, taken, listener = -1, None, None
    try:
        lock = take_lock(ground.folder)
        taken = take(ground.state, task, record=record, run_id=ground.folder.run_id, agent=choice.driver.name)
        listener = _listen() if choice.route.uses_gateway else None
        plan = _plan(choice, ground, taken, env, listener)
        if task.budgets:
            _enter(plan)
        correct_told(ground.state, taken, plan.told)
        _describe(plan, ground.folder)
        mark_active(ground.state, ground.folder)
    except BaseException:
        if listener:
            listener.close()
        try:
            _erase(ground.state, ground.folder, taken.record.key if taken else "")
        finally:
            for fd in (taken.lock if taken else -1, lock):
                if fd >= 0:
                    os.close(fd)
        raise
    return Prepared(plan=plan, folder=ground.folder, lock=lock, session_lock=taken.lock, listener=listener)


def discard(prepared: Prepared) -> None:
    """Undoes a prepared run that is not to be started after all."""
    if prepared.listener:
        prepared.listener.close()
    _erase(prepared.plan.state, prepared.folder, prepared.plan.session)
    prepared.close()


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


def _prompted(task: Task, env: Mapping[str, str]) -> Task:
    from .prompts import GO_ON, missing_prompt  # Start-up time: few runs leave the prompt out.

    check(msgspec.structs.replace(task, prompt=GO_ON))  # Where its task folder lies follows from the other fields.
    files = os.path.join(_task_folder(state_home(env), task), "files")
    return msgspec.structs.replace(task, prompt=missing_prompt(task, files=files))


def _task_folder(state: str, task: Task) -> str:
    return os.path.join(state, "projects", task.project or project_of(task.cwd), task.task)


def _listen() -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    return listener


def _claimed(task: Task, env: Mapping[str, str]) -> _Ground:
    state = private_folder(state_home(env))
    task_folder = _task_folder(state, task)
    folder = claim(os.path.join(task_folder, "runs"), pid=os.getpid())
    project = os.path.basename(os.path.dirname(task_folder))
    return _Ground(state=state, project=project, task_folder=task_folder, folder=folder)


def _plan(
    choice: Choice, ground: _Ground, taken: Taken, env: Mapping[str, str], listener: socket.socket | None
) -> Plan:
    task, driver, folder = choice.task, choice.driver, ground.folder
    place = _place(choice, ground, taken, env, listener)
    launch = driver.channels[0].launch(worded(task, driver.capabilities, texts=choice.texts), place)
    added = _added(choice, ground, launch, place, env)
    token = place.endpoint.token if place.endpoint else ""
    argv = _held(choice, ground, place, launch.argv, added)
    environment = agent_environment(
        env,
        driver=driver,
        others=neighbours(env),
        clean=task.profile == "clean",
        gateway=place.endpoint is not None,
        login=task.login,
        added=added,
        key=choice.access.key,
    )
    return Plan(
        run_id=folder.run_id,
        created_at=time.time(),
        folder=folder.path,
        state=ground.state,
        task=task,
        agent=driver.name,
        agent_version=choice.program.version,
        channel=driver.channels[0].name,
        way=choice.way,
        project=ground.project,
        session=taken.record.key,
        session_id=place.session_id or ("" if task.fork else place.resume),
        told=told_before(driver, taken, config=place.config, env=env),
        sandbox=choice.sandbox.name,
        containment=choice.containment.name,
        depth=choice.containment.depth,
        argv=list(argv),
        env=environment,
        stdin=launch.stdin,
        keeps_stdin=launch.keeps_stdin,
        life_line=choice.containment.pipe,
        token=token,
        route=choice.route,
        places=_places(ground, place, environment, cwd=task.cwd),
        secrets=known_secrets(
            env,
            {**added, **_key_of(choice), **task.env},
            credentials=(*driver.credentials, *driver.withheld),
            token=token,
            servers=task.mcp_servers.values(),
        ),
        litter=[name for name in driver.litter if not os.path.lexists(os.path.join(task.cwd, name))],
        warnings=[sentence for sentence in (doubt(driver, choice.program),) if sentence],
    )


def _place(
    choice: Choice, ground: _Ground, taken: Taken, env: Mapping[str, str], listener: socket.socket | None
) -> Place:
    presets = choice.driver.capabilities.presets_session_id and (not taken.resumed or choice.task.fork)
    return Place(
        program=choice.program.path,
        version=tuple(int(part) for part in choice.program.version.split(".") if part.isdigit()),
        cwd=choice.task.cwd,
        scratch=ground.folder.agent,
        has_key=_is_given_key(choice),
        config=config_folder(ground.state, taken.record) if choice.task.profile == "clean" else "",
        endpoint=_endpoint(choice.route, listener) if listener else None,
        session_id=_new_session_id() if presets else "",
        resume=taken.resumed,
        attachments=choice.attachments,
        way=choice.way,
        wire=choice.driver.wire,
        cache=_shared_cache(choice.driver, env) if choice.driver.shares_cache else "",
    )


def _shared_cache(driver: Driver, env: Mapping[str, str]) -> str:
    return private_folder(os.path.join(cache_home(env), "agents", driver.program))


def _places(ground: _Ground, place: Place, environment: Mapping[str, str], *, cwd: str) -> dict[str, str]:
    """The folders of this run that are others in the next, by the names that a cassette has for them."""
    found = {
        "cwd": cwd,
        "run": ground.folder.path,
        "task": environment["TASK_FOLDER"],
        "config": place.config,
        "home": environment.get("HOME", ""),
    }
    return {name: path for name, path in found.items() if len(path) > 1}


def _endpoint(route: Route, listener: socket.socket) -> Endpoint:
    url, token = f"http://127.0.0.1:{listener.getsockname()[1]}", os.urandom(20).hex()
    if route.variable:
        return Endpoint(url=url, token=token, variable=route.variable)
    from inspan.gateway.door import pass_through_url  # Start-up time: few runs pass a login on.

    return Endpoint(url=pass_through_url(url, token), token=token)


def _is_given_key(choice: Choice) -> bool:
    """Whether a key, or the run's token in its place, stands in the first of the agent's variables for one."""
    held = choice.route.variable if choice.route.uses_gateway else choice.access.variable
    return held in choice.driver.credentials[:1]


def _missing_key(choice: Choice, env: Mapping[str, str]) -> dict[str, str]:
    """The key, where the agent would not find it by itself."""
    return {name: key for name, key in _key_of(choice).items() if env.get(name) != key}


def _key_of(choice: Choice) -> dict[str, str]:
    return {choice.access.variable: choice.access.key} if choice.access.key else {}


def _added(choice: Choice, ground: _Ground, launch: Launch, place: Place, env: Mapping[str, str]) -> dict[str, str]:
    task, driver = choice.task, choice.driver
    for path, content in launch.files.items():
        private_folder(os.path.dirname(path))
        write_bytes(path, content)
    added = {
        "TASK_FOLDER": private_folder(os.path.join(ground.task_folder, "files")),
        "RUN_FOLDER": ground.folder.agent,
        "JRUN_PROJECT_ID": ground.project,
        "JRUN_TASK_ID": task.task,
        "JRUN_ID": ground.folder.run_id,
        "INSPAN_AGENT_NAME": driver.name,
        "INSPAN_WORKTREE_PATH": task.cwd,
    }
    # Settings that the user keeps elsewhere are the user's all the same.
    if driver.config_variable and (config := place.config or env.get(driver.config_variable)):
        added[driver.config_variable] = config
    if place.endpoint:
        added["BASE_URL"] = place.endpoint.url
    if task.model:
        added["MODEL"] = task.model
    if choice.sandbox.boundary:
        added["TMPDIR"] = "/tmp"
        if place.config:
            added["HOME"] = private_folder(_home_of(place.config))
    if not choice.route.uses_gateway:
        return {**added, **launch.env, **_missing_key(choice, env), **task.env}
    replaced = (*driver.credentials, *driver.withheld, *driver.base_url_variables)
    return {**added, **launch.env, **{name: value for name, value in task.env.items() if name not in replaced}}


def _held(
    choice: Choice, ground: _Ground, place: Place, argv: tuple[str, ...], added: Mapping[str, str]
) -> tuple[str, ...]:
    """The command line inside what holds it: the box that was chosen, or containment alone."""
    if not choice.sandbox.boundary:
        return choice.containment.wrap(argv, Box(cwd=choice.task.cwd, root=choice.root))
    # Beside its config lies the session's record, which decides where its next run works: not for the agent to write.
    kept = [place.config, _home_of(place.config)] if place.config else list(_own_state(choice.driver, added))
    kept += [place.cache] if place.cache else []
    box = Box(
        cwd=choice.task.cwd,
        read_only=choice.task.mode != "exec",
        writable=(
            *(path for path in kept if os.path.exists(path)),
            *(choice.task.extra_dirs if choice.task.mode == "exec" else ()),
            ground.folder.agent,
            added["TASK_FOLDER"],
        ),
        hidden=(ground.state, private_folder(runtime_home())),  # Made now: what is not there yet cannot be hidden.
        readable=(*_beside(choice.program.path), *(choice.task.extra_dirs if choice.task.mode != "exec" else ())),
        root=choice.root,
    )
    return choice.sandbox.wrap(argv, box)


def _home_of(config: str) -> str:
    """The HOME of a session that has a config folder of its own, in a box."""
    return os.path.join(os.path.dirname(config), "home")


def _own_state(driver: Driver, added: Mapping[str, str]) -> Iterator[str]:
    """Where the agent keeps its sessions and settings; its folder is made, as the agent itself would at first use."""
    if named := added.get(driver.config_variable):
        yield named
        return
    for path in map(os.path.expanduser, driver.state_paths):
        if not os.path.splitext(path)[1]:
            private_folder(path)
        yield path


def _beside(program: str) -> tuple[str, ...]:
    """The folders that a program needs when a private /tmp would hide it: its own and the one above."""
    # By both of its names: the link of a virtual environment is what is started.
    paths = dict.fromkeys((os.path.realpath(program), os.path.abspath(program)))
    return tuple(dict.fromkeys(_with_folder(path) for path in paths if path.startswith("/tmp/")))


def _with_folder(program: str) -> str:
    own, above = os.path.dirname(program), os.path.dirname(os.path.dirname(program))
    return next((folder for folder in (above, own) if folder not in ("/", "/tmp")), program)


def _describe(plan: Plan, folder: RunFolder) -> None:
    gate = Gate(SecretSet.shared(plan.secrets))
    write_text(folder.file("prompt.md"), gate.text(plan.task.prompt))
    write_json(
        folder.file("run.json"),
        gate.described(
            {
                "schema": SCHEMA,
                "run_id": plan.run_id,
                "created_at": plan.created_at,
                "agent": plan.agent,
                "channel": plan.channel,
                "way": plan.way,
                "project": plan.project,
                "argv": plan.argv,
                "session": plan.session,
                "told": msgspec.to_builtins(plan.told),
                "session_id": plan.session_id,
                "task": msgspec.to_builtins(plan.task),
            }
        ),
    )


def _enter(plan: Plan) -> None:
    """Opens the run's account; raises `BudgetSpent` where a budget has nothing left."""
    from inspan.stores.ledger import Ledger  # Start-up time: few runs have a budget.

    from .money.account import spender

    ledger = Ledger(plan.state)
    try:
        denial = ledger.open_run(spender(plan, started_at=plan.created_at), plan.task.budgets)
    finally:
        ledger.close()
    if denial:
        raise BudgetSpent(denial.sentence, next_step="Raise the budget; `inspan budget` shows what was spent.")


def _erase(state: str, folder: RunFolder, session: str) -> None:
    """Deletes what was claimed for a run that never started."""
    import shutil  # Start-up time: only a start that fails needs it.

    unmark_active(state, folder.run_id)
    shutil.rmtree(folder.path, ignore_errors=True)
    with suppress(StateUnusable):  # What keeps a run from starting may keep it from this, too, and is told already.
        release(state, session or folder.run_id, folder.run_id)


def _new_session_id() -> str:
    """A random UUID, version 4."""
    number = bytearray(os.urandom(16))
    number[6] = number[6] & 0x0F | 0x40
    number[8] = number[8] & 0x3F | 0x80
    text = number.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
