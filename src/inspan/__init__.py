"""One harness for every coding agent. Importing this package does nothing; names load when they are first used.

`Client` does whatever the command line can, on this machine or by a server. `run`, `create_agent_runner` and
`open_session` run agents inside a program, with its own functions as tools and callbacks. Public are the names of
`__all__`, and the modules `inspan.errors`, `inspan.protocol`, `inspan.contracts`, `inspan.client.values`,
`inspan.reporters.console` and `inspan.testing`. What inspan logs, it logs below the name `inspan`.
"""

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
    from inspan.api.work import run_blueprint as run_blueprint
    from inspan.api.work import run_loop as run_loop
    from inspan.blueprints.report import BlueprintReport as BlueprintReport
    from inspan.client.client import Client as Client
    from inspan.client.values import OutputPiece as OutputPiece
    from inspan.client.values import RunInfo as RunInfo
    from inspan.client.values import RunRecord as RunRecord
    from inspan.contracts.driver import BASE_ALLOWED_TOOLS as BASE_ALLOWED_TOOLS
    from inspan.contracts.reporter import Reporter as Reporter
    from inspan.contracts.sandbox import ExecResult as ExecResult
    from inspan.errors import InspanError as InspanError
    from inspan.loop.results import LoopResult as LoopResult
    from inspan.protocol.blueprint import AgentNode as AgentNode
    from inspan.protocol.blueprint import ApplyNode as ApplyNode
    from inspan.protocol.blueprint import Blueprint as Blueprint
    from inspan.protocol.blueprint import CheckNode as CheckNode
    from inspan.protocol.blueprint import CommandNode as CommandNode
    from inspan.protocol.blueprint import Input as Input
    from inspan.protocol.blueprint import PersonNode as PersonNode
    from inspan.protocol.blueprint import Repeat as Repeat
    from inspan.protocol.budget import Budget as Budget
    from inspan.protocol.cost import Cost as Cost
    from inspan.protocol.events import Event as Event
    from inspan.protocol.events import RunEnded as RunEnded
    from inspan.protocol.limits import Limits as Limits
    from inspan.protocol.limits import Price as Price
    from inspan.protocol.limits import Rates as Rates
    from inspan.protocol.limits import WatchdogLimits as WatchdogLimits
    from inspan.protocol.loop import LoopPolicy as LoopPolicy
    from inspan.protocol.session import SessionState as SessionState
    from inspan.protocol.task import McpServer as McpServer
    from inspan.protocol.task import Task as Task
    from inspan.protocol.usage import Usage as Usage
    from inspan.protocol.wire import Record as Record
    from inspan.reporters.console import create_console_reporter as create_console_reporter
    from inspan.runs.undo import UndoResult as UndoResult

# Public name → the module it lives in.
_HOME = {
    "Client": "inspan.client.client",
    "RunInfo": "inspan.client.values",
    "RunRecord": "inspan.client.values",
    "OutputPiece": "inspan.client.values",
    "run_blueprint": "inspan.api.work",
    "run_loop": "inspan.api.work",
    "BlueprintReport": "inspan.blueprints.report",
    "LoopResult": "inspan.loop.results",
    "LoopPolicy": "inspan.protocol.loop",
    "AgentNode": "inspan.protocol.blueprint",
    "ApplyNode": "inspan.protocol.blueprint",
    "Blueprint": "inspan.protocol.blueprint",
    "CheckNode": "inspan.protocol.blueprint",
    "CommandNode": "inspan.protocol.blueprint",
    "Input": "inspan.protocol.blueprint",
    "PersonNode": "inspan.protocol.blueprint",
    "Repeat": "inspan.protocol.blueprint",
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
    "WatchdogLimits": "inspan.protocol.limits",
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
    "AgentNode",
    "AgentResult",
    "AgentRunner",
    "AgentSandbox",
    "AgentSession",
    "ApplyNode",
    "Blueprint",
    "BlueprintReport",
    "Budget",
    "CheckNode",
    "Client",
    "CommandNode",
    "CompletionClient",
    "Cost",
    "Decision",
    "Event",
    "ExecResult",
    "FinishedTurn",
    "Input",
    "InspanError",
    "Limits",
    "LoopPolicy",
    "LoopResult",
    "McpServer",
    "OutputPiece",
    "PermissionRequest",
    "PersonNode",
    "Price",
    "Rates",
    "Record",
    "Repeat",
    "Reporter",
    "Run",
    "RunEnded",
    "RunInfo",
    "RunRecord",
    "SessionState",
    "Task",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "UndoResult",
    "Usage",
    "WatchdogLimits",
    "allow",
    "apply_run",
    "attach_session",
    "create_agent_runner",
    "create_console_reporter",
    "declare_tool",
    "deny",
    "find_run",
    "follow",
    "open_sandbox",
    "open_session",
    "run",
    "run_blueprint",
    "run_loop",
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


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
