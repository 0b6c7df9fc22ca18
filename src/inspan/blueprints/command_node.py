"""A command or a check of a blueprint: a command of the shell, with its output in the log up to a limit."""

import asyncio
import codecs
from collections.abc import Collection

import msgspec

from inspan.contracts.sandbox import ExecResult
from inspan.loop.checks import join_output, run_shell
from inspan.planning.boundary import drop_place
from inspan.protocol.blueprint import CommandNode
from inspan.protocol.events import NodeEnded, NodeOutput, NodeStarted
from inspan.protocol.ids import RunId
from inspan.protocol.outcome import Reason

from .confinement import confine_task
from .decide import StartNode
from .graph import kind_of, list_outputs, read_duration
from .node_context import NodeContext
from .prepare import default_command_timeout_s

_MOST_SHOWN = 50_000
# A variable holds no more.
_MOST_GIVEN = 131_072
_FLUSH_S = 0.2


async def run_command_node(node: CommandNode, context: NodeContext, step: StartNode) -> NodeEnded:
    """Runs it to its end, or kills it with all that it started where the blueprint is to end."""
    field = f"nodes.{step.node}"
    env = {name: context.fill(text, field=f"{field}.env.{name}") for name, text in node.env.items()}
    cwd = await asyncio.to_thread(context.open_cwd, node.where)
    task = confine_task(step.node, context.graph, context.plan.task)
    if cwd != task.cwd:
        task = msgspec.structs.replace(task, sandbox=drop_place(task.sandbox))
    task = msgspec.structs.replace(task, cwd=cwd, env={**task.env, **env})
    timeout_s = read_duration(node.timeout, field=f"{field}.timeout") or default_command_timeout_s()
    context.record(NodeStarted(node=step.node, type=kind_of(node), round=step.round))
    shown = _ShownOutput(context, step.node)
    running = asyncio.ensure_future(
        run_shell(
            node.run,
            task,
            run_id=RunId(context.plan.run_id),
            env=context.plan.env,
            cwd=cwd,
            timeout_s=timeout_s,
            on_output=shown.add,
        )
    )
    try:
        await asyncio.wait({running, context.ending}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            running.cancel()
            await asyncio.wait({running})
            return _build_stopped(node, step, context.ending.result().reason)
        return _build_end(node, step, running.result())
    finally:
        running.cancel()
        shown.close()


class _ShownOutput:
    """Writes what a command puts out into the log: its beginning, a few times a second, and never half a secret."""

    def __init__(self, context: NodeContext, node: str) -> None:
        self._context = context
        self._node = node
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._waiting = ""
        self._kept = 0
        self._dropped = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, chunk: bytes) -> None:
        """Takes a chunk in."""
        text = self._decode(chunk)
        kept = text[: max(0, _MOST_SHOWN - self._kept)]
        self._kept += len(kept)
        self._dropped += len(text) - len(kept)
        self._waiting += kept
        if self._waiting and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_FLUSH_S, self._flush)

    def close(self) -> None:
        """Writes what is left, and how much was left out."""
        self._flush()
        rest = self._context.gate.end_block(self._node)
        if self._dropped:
            rest += f"\n[{self._dropped} characters more; the end is in the node's result]\n"
        if rest:
            self._context.record(NodeOutput(node=self._node, text=rest))

    def _flush(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        text, self._waiting = self._waiting, ""
        if text and (shown := self._context.gate.redact_delta(self._node, text)):
            self._context.record(NodeOutput(node=self._node, text=shown))


def _build_stopped(node: CommandNode, step: StartNode, reason: Reason) -> NodeEnded:
    return NodeEnded(
        node=step.node,
        type=kind_of(node),
        round=step.round,
        status="failed",
        error="It was stopped before it had ended.",
        reason=reason,
    )


def _build_end(node: CommandNode, step: StartNode, done: ExecResult) -> NodeEnded:
    sources = {
        # What a check says is for an agent to read; what a command gives may be JSON, which is whole or worth nothing.
        "output": join_output(done, most=_MOST_GIVEN) if kind_of(node) == "command" else join_output(done),
        "stdout": done.stdout.decode(errors="replace").rstrip("\n"),
        "exit_code": str(done.exit_code),
    }
    outputs = list_outputs(step.node, node)
    problem = _find_problem(done, given=outputs.values())
    return NodeEnded(
        node=step.node,
        type=kind_of(node),
        round=step.round,
        status="failed" if problem else "success",
        error=problem,
        reason="run_timeout" if done.timed_out else None,
        outputs={name: sources[source] for name, source in outputs.items()},
        exit_code=done.exit_code,
        timed_out=done.timed_out,
    )


def _find_problem(done: ExecResult, *, given: Collection[str]) -> str:
    if done.timed_out:
        return "It took too long: give it longer with `timeout`."
    if done.out_of_memory:
        return "It needed more memory than it may have."
    if done.exit_code:
        return f"It failed with exit code {done.exit_code}."
    if done.dropped_bytes and "stdout" in given:
        return f"It printed {done.dropped_bytes} bytes more than are kept: a part of its `stdout` would be wrong."
    return ""
