"""One harness for every coding agent. Importing this package does nothing; names load when they are first used."""

TYPE_CHECKING = False

__version__ = "0.1.0"

if TYPE_CHECKING:
    from inspan.api.completion import CompletionClient as CompletionClient
    from inspan.api.result import Result as Result
    from inspan.api.runner import AgentSession as AgentSession
    from inspan.api.runner import Runner as Runner
    from inspan.api.runner import runner as runner
    from inspan.api.running import Run as Run
    from inspan.api.running import find_run as find_run
    from inspan.api.running import follow as follow
    from inspan.api.running import run as run
    from inspan.api.running import run_sync as run_sync
    from inspan.api.running import start as start
    from inspan.contracts.driver import BASE_ALLOWED_TOOLS as BASE_ALLOWED_TOOLS
    from inspan.contracts.reporter import Reporter as Reporter
    from inspan.engine.validation import validate as validate_environment
    from inspan.errors import InspanError as InspanError
    from inspan.protocol.budget import Budget as Budget
    from inspan.protocol.events import Event as Event
    from inspan.protocol.events import RunEnded as RunEnded
    from inspan.protocol.limits import Limits as Limits
    from inspan.protocol.limits import Price as Price
    from inspan.protocol.limits import Rates as Rates
    from inspan.protocol.task import McpServer as McpServer
    from inspan.protocol.task import Task as Task
    from inspan.protocol.usage import Usage as Usage

# Public name → the module it lives in, and its name there where that is another.
_HOME = {
    "AgentSession": "inspan.api.runner",
    "BASE_ALLOWED_TOOLS": "inspan.contracts.driver",
    "Budget": "inspan.protocol.budget",
    "CompletionClient": "inspan.api.completion",
    "Event": "inspan.protocol.events",
    "InspanError": "inspan.errors",
    "Limits": "inspan.protocol.limits",
    "McpServer": "inspan.protocol.task",
    "Price": "inspan.protocol.limits",
    "Rates": "inspan.protocol.limits",
    "Reporter": "inspan.contracts.reporter",
    "Result": "inspan.api.result",
    "Run": "inspan.api.running",
    "RunEnded": "inspan.protocol.events",
    "Runner": "inspan.api.runner",
    "Task": "inspan.protocol.task",
    "Usage": "inspan.protocol.usage",
    "find_run": "inspan.api.running",
    "follow": "inspan.api.running",
    "run": "inspan.api.running",
    "run_sync": "inspan.api.running",
    "runner": "inspan.api.runner",
    "start": "inspan.api.running",
    "validate_environment": "inspan.engine.validation:validate",
}

__all__ = [
    "BASE_ALLOWED_TOOLS",
    "AgentSession",
    "Budget",
    "CompletionClient",
    "Event",
    "InspanError",
    "Limits",
    "McpServer",
    "Price",
    "Rates",
    "Reporter",
    "Result",
    "Run",
    "RunEnded",
    "Runner",
    "Task",
    "Usage",
    "find_run",
    "follow",
    "run",
    "run_sync",
    "runner",
    "start",
    "validate_environment",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'inspan' has no attribute {name!r}")
    from importlib import import_module  # Start-up time: a supervisor's first import is this package.

    module, _, there = _HOME[name].partition(":")
    return getattr(import_module(module), there or name)
