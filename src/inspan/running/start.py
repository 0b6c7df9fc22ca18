"""Starting the supervisor of a prepared run; what the caller does next, it does beside it."""

import marshal
import os
import sys
from collections.abc import Iterable, Mapping

import msgspec

from inspan.protocol.plan import Plan
from inspan.running.prepared_run import PreparedRun
from inspan.running.spawn_agent import build_setup
from inspan.system.platform import create_memory_file
from inspan.system.programs import list_exposed_folders, list_kept_exposed, list_trusted_modules
from inspan.transports.process import DEFAULT_SIGNALS, ENDING_SIGNALS, move_fd_up


def start_supervisor(prepared: PreparedRun) -> int:
    """Starts the supervisor of a prepared run and hands it the lock and the listener; the run goes on without us.

    Gives its pid: a program that stays has to reap it. 0 where it could not be started: the log says why.
    """
    plan, listener = prepared.plan, prepared.listener
    inherited = [prepared.lock, prepared.session_lock, *([listener.fileno()] if listener else [])]
    given = move_fd_up(create_memory_file("plan"))
    with open(given, "wb", closefd=False) as file:
        marshal.dump(_build_payload(prepared), file)
    os.lseek(given, 0, os.SEEK_SET)
    script = os.path.join(os.path.dirname(__file__), "boot.py")
    try:
        argv = [sys.executable, "-I", "-S", script, str(given)]
        log = os.path.join(plan.folder, "supervisor.log")
        return spawn_detached(argv, environment_without(plan.secrets), log, inherited_fds=[given, *inherited])
    except OSError as error:
        # Start-up time: only a failure needs the log here.
        from inspan.stores.event_log import resume_log

        from .finalize import record_failed_start  # Start-up time: a start seldom fails.

        problem = f"the supervisor cannot be started with {sys.executable}: {error.strerror}"
        record_failed_start(plan, prepared.folder, resume_log(prepared.folder.log), problem)
        return 0
    finally:
        os.close(given)
        prepared.hand_on()
        if listener:
            listener.close()


def _build_payload(prepared: PreparedRun) -> dict[str, object]:
    """What the boot script reads before it can import anything: plain values only."""
    plan, process = prepared.plan, prepared.plan.process
    return {
        "path": _list_module_places(plan),
        "argv": process.argv,
        "env": process.env,
        "stdin": None if process.keeps_stdin else process.stdin,
        "liveness_pipe": process.liveness_pipe,
        "setup": build_setup(process.entry),
        "exposed": list_kept_exposed(),
        # Beside the plan: what comes from the environment need not be UTF-8, which msgpack insists on.
        "secrets": plan.secrets,
        "plan": msgspec.msgpack.encode(_strip_plan(plan)),
        "alternative_envs": [each.process.env for each in plan.alternatives],
        "tls": plan.route.needs_tls,
        "lock": prepared.lock,
        "session_lock": prepared.session_lock,
        "listener": prepared.listener.fileno() if prepared.listener else -1,
    }


def _list_module_places(plan: Plan) -> list[str]:
    """Where the supervisor finds its modules: it loads most of them while the agent works."""
    folders = list_exposed_folders(plan.task.cwd, *plan.task.extra_dirs) if plan.process.private else ()
    return list_trusted_modules(folders)


def _strip_plan(plan: Plan) -> Plan:
    """The plan without what the agent has already; input for a stdin that stays open is still to be sent."""
    opening = plan.process.stdin if plan.process.keeps_stdin else b""
    process = msgspec.structs.replace(plan.process, env={}, stdin=opening)
    others = [
        msgspec.structs.replace(each, process=msgspec.structs.replace(each.process, env={}))
        for each in plan.alternatives
    ]
    return msgspec.structs.replace(plan, process=process, secrets=(), alternatives=others)


def environment_without(secrets: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Our environment for a process that needs none of its secrets: whoever has our powers can read it there."""
    values = {value for _, value in secrets}
    return {name: value for name, value in os.environ.items() if value not in values}


def spawn_detached(argv: list[str], env: Mapping[str, str], log: str, *, inherited_fds: list[int]) -> int:
    """Starts a process in a session of its own that keeps nothing of ours but the descriptors it is meant to have.

    They get there by being copied and copied back. Made inheritable here, they would go to whatever another thread
    starts at the same moment, and a lock that a stranger holds too is never let go.
    """
    append, spare = os.O_WRONLY | os.O_CREAT | os.O_APPEND, max(inherited_fds) + 1
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, log, append, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
        *((os.POSIX_SPAWN_DUP2, *pair) for fd in inherited_fds for pair in ((fd, spare), (spare, fd))),
    ]
    return os.posix_spawn(
        argv[0], argv, env, file_actions=actions, setsid=True, setsigdef=DEFAULT_SIGNALS, setsigmask=ENDING_SIGNALS
    )
