"""One harness for every coding agent. Importing this package does nothing; names load when they are first used."""

TYPE_CHECKING = False

__version__ = "0.1.0"

if TYPE_CHECKING:
    from inspan.engine.embed import run as run
    from inspan.errors import InspanError as InspanError
    from inspan.protocol.events import Event as Event
    from inspan.protocol.events import RunEnded as RunEnded
    from inspan.protocol.limits import Limits as Limits
    from inspan.protocol.task import Task as Task
    from inspan.protocol.usage import Usage as Usage

_HOME = {
    "Event": "inspan.protocol.events",
    "InspanError": "inspan.errors",
    "Limits": "inspan.protocol.limits",
    "RunEnded": "inspan.protocol.events",
    "Task": "inspan.protocol.task",
    "Usage": "inspan.protocol.usage",
    "run": "inspan.engine.embed",
}

__all__ = ["Event", "InspanError", "Limits", "RunEnded", "Task", "Usage", "run"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'inspan' has no attribute {name!r}")
    from importlib import import_module  # Start-up time: a supervisor's first import is this package.

    return getattr(import_module(_HOME[name]), name)
