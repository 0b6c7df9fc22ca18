"""Goose in the Agent Client Protocol: `goose acp` (1.52.0)."""

import re

import msgspec

from inspan.contracts.driver import Launch, LaunchContext
from inspan.dialects.acp.command_line import option_value
from inspan.dialects.acp.profile import AcpAgent, AcpProfile
from inspan.dialects.acp.session_setup import SessionSetup, default_setup
from inspan.protocol.task import Task

from .failures import FAILURES
from .launch import launch as usual_launch
from .launch import run_in_scratch

# It asks before every tool then, and inspan answers by the mode of the run.
_MODES = {"exec": "approve", "review": "approve", "complete": "chat"}


def launch(task: Task, context: LaunchContext) -> Launch:
    """As by its usual channel, but that provider and model go by variables: it takes no such options here."""
    plain = msgspec.structs.replace(context, resume="", session_id="")
    usual = usual_launch(msgspec.structs.replace(task, mcp_servers={}, append_system_prompt="", options=()), plain)
    env = {**usual.env, "GOOSE_MODE": _MODES[task.mode]}
    for variable, option in (("GOOSE_PROVIDER", "--provider"), ("GOOSE_MODEL", "--model")):
        if value := option_value(usual.argv, option):
            env[variable] = value
    argv = (context.program, "acp", *task.options)
    return Launch(argv=run_in_scratch(context, argv) if task.mode == "complete" else argv, env=env, files=usual.files)


def build_setup(task: Task, context: LaunchContext) -> SessionSetup:
    """A project's plugins have servers too, which start in the folder of the session."""
    where = context.scratch if task.mode == "complete" else context.cwd
    return default_setup(task, msgspec.structs.replace(context, cwd=where), modes=(_MODES[task.mode],))


ACP_AGENT = AcpAgent(
    launch=launch,
    build_setup=build_setup,
    profile=AcpProfile(
        mcp_prefix="{server}__",
        usage_scope="call",
        failures=FAILURES,
        # In its mode `chat` a call that it skipped counts as completed.
        refusal_pattern=re.compile(r"Let the user know the tool call was skipped"),
    ),
)
