"""Starting the supervisor of a prepared run; what the caller does next, it does beside it."""

import marshal
import os
import sys
from collections.abc import Mapping

import msgspec

from inspan.transports.spawn import DEFAULTS

from .plan import Plan, Prepared


def start(prepared: Prepared) -> int:
    """Starts the supervisor of a prepared run and hands it the lock and the listener; the run goes on without us.

    Gives its pid: a program that stays has to reap it. 0 where it could not be started: the log says why.
    """
    plan, listener = prepared.plan, prepared.listener
    inherited = [prepared.lock, prepared.session_lock, *([listener.fileno()] if listener else [])]
    given = os.memfd_create("plan")
    with open(given, "wb", closefd=False) as file:
        marshal.dump(_blob(prepared), file)
    os.lseek(given, 0, os.SEEK_SET)
    for fd in (given, *inherited):
        os.set_inheritable(fd, True)
    script = os.path.join(os.path.dirname(__file__), "boot.py")
    try:
        argv = [sys.executable, "-I", "-S", script, str(given)]
        return _spawn(argv, _without_secrets(plan.secrets), os.path.join(plan.folder, "supervisor.log"))
    except OSError as error:
        # Start-up time: only a failure needs the log here.
        from inspan.stores.log import RunLog

        from .closing import fail_to_start

        problem = f"the supervisor cannot be started with {sys.executable}: {error.strerror}"
        fail_to_start(plan, prepared.folder, RunLog(prepared.folder.log), problem)
        return 0
    finally:
        os.close(given)
        prepared.close()
        if listener:
            listener.close()


def _blob(prepared: Prepared) -> dict[str, object]:
    """What the boot script reads before it can import anything: plain values only."""
    plan = prepared.plan
    return {
        "path": [path for path in sys.path if path],
        "argv": plan.argv,
        "env": plan.env,
        "stdin": None if plan.keeps_stdin else plan.stdin,
        "life_line": plan.life_line,
        # Beside the plan: what comes from the environment need not be UTF-8, which msgpack insists on.
        "secrets": plan.secrets,
        "plan": msgspec.msgpack.encode(_unspoken(plan)),
        "tls": plan.route.needs_tls,
        "lock": prepared.lock,
        "session_lock": prepared.session_lock,
        "listener": prepared.listener.fileno() if prepared.listener else -1,
    }


def _unspoken(plan: Plan) -> Plan:
    """The plan without what the agent has got already; an opening is still to be said."""
    return msgspec.structs.replace(plan, env={}, secrets={}, stdin=plan.stdin if plan.keeps_stdin else b"")


def _without_secrets(secrets: Mapping[str, str]) -> dict[str, str]:
    """Our environment for a process that needs none of its secrets: whoever has our powers can read it there."""
    values = set(secrets.values())
    return {name: value for name, value in os.environ.items() if value not in values}


def _spawn(argv: list[str], env: Mapping[str, str], log: str) -> int:
    """Starts a process in a session of its own that keeps nothing of ours but the descriptors it is meant to have."""
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, log, append, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    return os.posix_spawn(argv[0], argv, env, file_actions=actions, setsid=True, setsigdef=DEFAULTS)
