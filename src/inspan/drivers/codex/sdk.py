"""Codex through the vendor's Python SDK: a process of ours imports it and speaks as `codex app-server` does."""

import os.path

import msgspec

from inspan.contracts.driver import Launch, LaunchContext
from inspan.protocol.task import Task

from .app_server_launch import launch as launch_rpc

_HOST = os.path.join(os.path.dirname(__file__), "sdk_host.py")


def launch(task: Task, context: LaunchContext) -> Launch:
    """The command line of the channel `rpc`, which the SDK starts."""
    usual = launch_rpc(task, context)
    folder = os.path.dirname(os.path.dirname(context.package))
    return msgspec.structs.replace(
        usual,
        argv=(context.python, "-I", _HOST, folder, *usual.argv),
        reads=(context.python, context.package, _HOST),
    )
