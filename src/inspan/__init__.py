"""One harness for every coding agent. Importing this package does nothing; names load when they are first used."""

TYPE_CHECKING = False

__version__ = "0.1.0"

if TYPE_CHECKING:
    from inspan.api.completion import CompletionClient as CompletionClient
    from inspan.api.completion import wrap_agent_as_completion_client as wrap_agent_as_completion_client
    from inspan.api.hooks import FinishedTurn as FinishedTurn
    from inspan.api.hooks import ToolCall as ToolCall
    from inspan.api.permissions import Decision as Decision
    from inspan.api.permissions import PermissionRequest as PermissionRequest
    from inspan.api.permissions import allow as allow
    from inspan.api.permissions import deny as deny
    from inspan.api.result import AgentResult as AgentResult
    from inspan.api.run import Run as Run
    from inspan.api.run import find_run as find_run
    from inspan.api.run import follow as follow
    from inspan.api.run import run as run
    from inspan.api.run import run_sync as run_sync
    from inspan.api.run import start as start
    from inspan.api.run import validate_environment as validate_environment
    from inspan.api.runner import AgentRunner as AgentRunner
    from inspan.api.runner import attach_session as attach_session
    from inspan.api.runner import create_agent_runner as create_agent_runner
    from inspan.api.runner import open_session as open_session
    from inspan.api.sandbox import AgentSandbox as AgentSandbox
    from inspan.api.sandbox import open_sandbox as open_sandbox
    from inspan.api.session import AgentSession as AgentSession
    from inspan.api.session import ToolError as ToolError
    from inspan.api.tools import Tool as Tool
    from inspan.api.tools import ToolContext as ToolContext
    from inspan.api.tools import declare_tool as declare_tool
    from inspan.api.tools import tool as tool
    from inspan.api.undo import apply_run as apply_run
    from inspan.api.undo import undo_run as undo_run
    from inspan.contracts.driver import BASE_ALLOWED_TOOLS as BASE_ALLOWED_TOOLS
    from inspan.contracts.reporter import Reporter as Reporter
    from inspan.contracts.sandbox import ExecResult as ExecResult
    from inspan.errors import InspanError as InspanError
    from inspan.protocol.budget import Budget as Budget
    from inspan.protocol.cost import Cost as Cost
    from inspan.protocol.events import Event as Event
    from inspan.protocol.events import RunEnded as RunEnded
    from inspan.protocol.limits import Limits as Limits
    from inspan.protocol.limits import Price as Price
    from inspan.protocol.limits import Rates as Rates
    from inspan.protocol.session import SessionState as SessionState
    from inspan.protocol.task import McpServer as McpServer
    from inspan.protocol.task import Task as Task
    from inspan.protocol.usage import Usage as Usage
    from inspan.protocol.wire import Record as Record
    from inspan.reporters.console import create_console_reporter as create_console_reporter
    from inspan.runs.undo import UndoResult as UndoResult

# Public name → the module it lives in.
_HOME = {
    "AgentSandbox": "inspan.api.sandbox",
    "ExecResult": "inspan.contracts.sandbox",
    "open_sandbox": "inspan.api.sandbox",
    "ToolError": "inspan.api.session",
    "declare_tool": "inspan.api.tools",
    "tool": "inspan.api.tools",
    "ToolContext": "inspan.api.tools",
    "Tool": "inspan.api.tools",
    "SessionState": "inspan.protocol.session",
    "Record": "inspan.protocol.wire",
    "open_session": "inspan.api.runner",
    "deny": "inspan.api.permissions",
    "FinishedTurn": "inspan.api.hooks",
    "ToolCall": "inspan.api.hooks",
    "attach_session": "inspan.api.runner",
    "allow": "inspan.api.permissions",
    "Decision": "inspan.api.permissions",
    "PermissionRequest": "inspan.api.permissions",
    "AgentSession": "inspan.api.session",
    "BASE_ALLOWED_TOOLS": "inspan.contracts.driver",
    "Budget": "inspan.protocol.budget",
    "CompletionClient": "inspan.api.completion",
    "Cost": "inspan.protocol.cost",
    "Event": "inspan.protocol.events",
    "InspanError": "inspan.errors",
    "Limits": "inspan.protocol.limits",
    "McpServer": "inspan.protocol.task",
    "Price": "inspan.protocol.limits",
    "Rates": "inspan.protocol.limits",
    "Reporter": "inspan.contracts.reporter",
    "AgentResult": "inspan.api.result",
    "Run": "inspan.api.run",
    "RunEnded": "inspan.protocol.events",
    "AgentRunner": "inspan.api.runner",
    "Task": "inspan.protocol.task",
    "UndoResult": "inspan.runs.undo",
    "Usage": "inspan.protocol.usage",
    "apply_run": "inspan.api.undo",
    "undo_run": "inspan.api.undo",
    "find_run": "inspan.api.run",
    "follow": "inspan.api.run",
    "run": "inspan.api.run",
    "run_sync": "inspan.api.run",
    "create_agent_runner": "inspan.api.runner",
    "create_console_reporter": "inspan.reporters.console",
    "wrap_agent_as_completion_client": "inspan.api.completion",
    "start": "inspan.api.run",
    "validate_environment": "inspan.api.run",
}

__all__ = [
    "BASE_ALLOWED_TOOLS",
    "AgentResult",
    "AgentRunner",
    "AgentSession",
    "Budget",
    "CompletionClient",
    "Decision",
    "Event",
    "FinishedTurn",
    "InspanError",
    "Limits",
    "McpServer",
    "PermissionRequest",
    "Price",
    "Rates",
    "Record",
    "Reporter",
    "Run",
    "RunEnded",
    "SessionState",
    "Task",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "UndoResult",
    "Usage",
    "allow",
    "apply_run",
    "attach_session",
    "create_agent_runner",
    "create_console_reporter",
    "declare_tool",
    "deny",
    "find_run",
    "follow",
    "open_session",
    "run",
    "run_sync",
    "start",
    "tool",
    "undo_run",
    "validate_environment",
    "wrap_agent_as_completion_client",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'inspan' has no attribute {name!r}")
    from importlib import import_module  # Start-up time: a supervisor's first import is this package.

    return getattr(import_module(_HOME[name]), name)
