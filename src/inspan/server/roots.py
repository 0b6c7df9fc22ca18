"""What may be started from afar: a task that stays below the roots, and that names nothing of this machine's own."""

import os
import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from inspan.client.values import BlueprintRequest
from inspan.client.works import fill_blueprint
from inspan.errors import BadInput
from inspan.planning.resume import resolve_session
from inspan.protocol.blueprint import AgentNode, Blueprint
from inspan.protocol.loop import LoopPolicy
from inspan.protocol.plan import DIRECT
from inspan.protocol.task import McpServer, Task
from inspan.runs.find import find_run_folder
from inspan.stores.worktree import find_worktree, read_run_cwd
from inspan.system.paths import expand_home, is_within

from .problems import Refusal

_HERE = "only a program on the server's own machine can give it."
_REFUSED = {
    "tools": "the calls would have nobody to answer them.",
    "hooks": "the calls would have nobody to answer them.",
    "control_groups": _HERE,
    "key_from": "it would have this machine read a secret; set keys in the server's environment or configuration.",
    "base_url": "it would send this machine's keys to another address; set it in the server's configuration.",
    "preset": "it names a program of this machine; define the agent in the server's configuration.",
    "options": "they are words for the agent's own program, which may name any file, address or setting.",
    "parent": "only inspan itself says which run belongs to which.",
    "continues": "only inspan itself says which run goes on in which.",
}
# No program takes an address, a key, a path or a piece of code from these; of all others nobody knows that.
# TASK_FOLDER is inspan's own: it says where the agent's runs of this task keep what they share.
_PLAIN_VARIABLE = re.compile(r"TASK_(?!FOLDER$)[A-Z0-9_]+|CI|FORCE_COLOR|NO_COLOR")
# Agents put variables and files of this machine into the place of these.
_PLACEHOLDER = re.compile(r"[${%]")
_FILE_SOURCES = ("record:", "replay:", "script:")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class Roots:
    """`admit` raises `BadInput` for what may not be, and gives back the parameters with every link resolved."""

    def __init__(self, roots: tuple[str, ...], env: Mapping[str, str], *, allows_direct: bool = False) -> None:
        self._roots = roots
        self._env = env
        self._allows_direct = allows_direct

    def admit(self, params: Any) -> Any:
        """The parameters of an operation that starts something."""
        task = self._admit_task(params.task)
        if isinstance(blueprint := getattr(params, "blueprint", None), Blueprint):
            params = msgspec.structs.replace(params, blueprint=self._admit_blueprint(blueprint, task.cwd))
        elif isinstance(blueprint, str) and (os.sep in blueprint or blueprint.startswith(".")):
            raise BadInput("blueprint", blueprint, "it is no name.", next_step="Send the blueprint itself.")
        if isinstance(params, BlueprintRequest):
            _check_filled_agents(params)
        if isinstance(policy := getattr(params, "policy", None), LoopPolicy):
            _check_agents("policy.agents", *policy.agents)
            _check_agents("policy.verify", policy.verify)
        return msgspec.structs.replace(params, task=task)

    def check_run(self, state: str, name: str) -> None:
        """Raises `Refusal` for a run that worked outside of the roots: its files are not to be touched from afar."""
        folder = find_run_folder(state, name)
        cwd = read_run_cwd(folder)
        worktree = find_worktree(state, cwd) if cwd else None
        # A worktree lies in the state folder; it is the checkout from which it was made that counts.
        real = os.path.realpath((worktree.folder or worktree.checkout) if worktree else cwd) if cwd else ""
        if not real or not self._is_inside(real):
            raise Refusal(
                403,
                "outside_of_roots",
                f"The run worked in {cwd or 'a folder that is not known'}, outside of what this server works in.",
                next_step="Do it on its own machine, or start the server with that folder as a root.",
                field="run",
                value=name,
            )

    def _admit_task(self, task: Task) -> Task:
        for field, problem in _REFUSED.items():
            if value := getattr(task, field):
                raise BadInput(f"task.{field}", value, problem, next_step="Leave it out.")
        _check_agents("task.agent", task.agent)
        if task.watchdog:
            _check_agents("task.watchdog.triage", task.watchdog.triage)
        _check_variables(task.env)
        for name, server in task.mcp_servers.items():
            _check_mcp_server(f"task.mcp_servers.{name}", server)
        _refuse_foreign_schemas(task.output_schema)
        cwd = self._resolve("task.cwd", task.cwd or self._roots[0], self._roots[0])
        task = msgspec.structs.replace(
            task,
            cwd=cwd,
            extra_dirs=self._resolve_all("task.extra_dirs", task.extra_dirs, cwd),
            attachments=self._resolve_all("task.attachments", task.attachments, cwd),
            read=self._resolve_all("task.read", task.read, cwd),
            model_from=self._resolve_source(task.model_from, cwd),
        )
        if task.resume:
            self._check_session(task)
        return task

    def _check_session(self, task: Task) -> None:
        """A session goes on where it worked before."""
        resolved, record = resolve_session(task, self._env)
        for folder in (resolved.cwd, record.cwd if record else resolved.cwd):
            if not self._is_inside(os.path.realpath(folder)):
                step = "Resume it on its own machine, or start the server with that folder as a root."
                raise BadInput("task.resume", task.resume, f"the session works in {folder}.", next_step=step)

    def _admit_blueprint(self, blueprint: Blueprint, cwd: str) -> Blueprint:
        nodes = dict(blueprint.nodes)
        for name, node in blueprint.nodes.items():
            if isinstance(node, AgentNode):
                _refuse_foreign_schemas(node.schema)
                for path in node.read:
                    _refuse_late_path(f"blueprint.nodes.{name}.read", path, "{{")
                read = self._resolve_all(f"blueprint.nodes.{name}.read", node.read, cwd)
                nodes[name] = msgspec.structs.replace(node, read=read)
        return msgspec.structs.replace(blueprint, nodes=nodes)

    def _resolve_all(self, field: str, paths: tuple[str, ...], cwd: str) -> tuple[str, ...]:
        return tuple(self._resolve(field, path, cwd) for path in paths)

    def _resolve_source(self, model_from: str, cwd: str) -> str:
        kind, colon, path = model_from.partition(":")
        if model_from == DIRECT and not self._allows_direct:
            problem = "it would hand this machine's key to the agent."
            step = "Leave it out, or start the server with --allow-direct."
            raise BadInput("task.model_from", model_from, problem, next_step=step)
        if not model_from.startswith(_FILE_SOURCES):
            _refuse_late_path("task.model_from", model_from, "{")
            return model_from
        for braces in ("{node}", "{round}"):
            _refuse_late_path("task.model_from", path, braces)
        return f"{kind}{colon}{self._resolve('task.model_from', path, cwd)}"

    def _resolve(self, field: str, path: str, cwd: str) -> str:
        """The real path, without the links that are in it now. Whoever works in a root can put one there until the run
        has begun: this keeps from slips, and the guide says so."""
        real = os.path.realpath(os.path.join(cwd, expand_home(path, self._env)))
        if not self._is_inside(real):
            raise BadInput(
                field,
                path,
                "it is outside of the folders that this server works in.",
                next_step=f"Those are: {', '.join(self._roots)}. `inspan serve --root DIR` adds one.",
            )
        return real

    def _is_inside(self, real: str) -> bool:
        return any(is_within(real, root) for root in self._roots)


def is_plain_variable(name: str) -> bool:
    """Whether a task may set this variable from afar."""
    return bool(_PLAIN_VARIABLE.fullmatch(name))


def _check_variables(env: Mapping[str, str]) -> None:
    """Keys go where a variable says, and programs load what one names: so only those are taken that do neither."""
    for name in env:
        if not is_plain_variable(name):
            problem = "it might lead this machine's keys elsewhere, or a program to other code."
            step = "Name it TASK_…, or set it in the server's environment."
            raise BadInput("task.env", name, problem, next_step=step)


def _check_agents(field: str, *names: str) -> None:
    for name in names:
        if ":" in name:
            raise BadInput(field, name, _REFUSED["preset"], next_step="Name an agent.")


def _check_filled_agents(request: BlueprintRequest) -> None:
    """The agents of a blueprint, as they are named once its inputs stand in their places."""
    for name, node in fill_blueprint(request).nodes.items():
        if isinstance(node, AgentNode):
            _check_agents(f"blueprint.nodes.{name}.agent", node.agent)
            _check_agents(f"blueprint.nodes.{name}.agents", *node.agents)
            _check_agents(f"blueprint.nodes.{name}.verify", node.verify)


def _check_mcp_server(field: str, server: McpServer) -> None:
    if server.command or server.args or server.env:
        problem = "it names a program of this machine."
        raise BadInput(field, server.command, problem, next_step="Name the `url` of a server, or leave it out.")
    for text in (server.url, *server.headers, *server.headers.values()):
        if _PLACEHOLDER.search(text):
            problem = "an agent might put a secret of this machine into it."
            raise BadInput(field, text, problem, next_step="Write it without $, % and {.")


def _refuse_late_path(field: str, path: str, braces: str) -> None:
    """It is looked at before anything stands in the place of its braces."""
    if braces in path:
        raise BadInput(field, path, "from afar it is known as a whole.", next_step=f"Write it without {braces}.")


def _refuse_foreign_schemas(schema: Any) -> None:
    """A schema is looked at here: it must not have this machine fetch another from a file or an address."""
    waiting: list[Any] = [schema]
    while waiting:
        part: Any = waiting.pop()
        if isinstance(part, dict):
            named = cast(dict[str, Any], part)
            waiting += named.values()
            for key in _REFERENCES:
                reference = named.get(key)
                if isinstance(reference, str) and not reference.startswith("#"):
                    raise BadInput("output_schema", reference, "it refers to another document.", next_step="Inline it.")
        elif isinstance(part, list):
            waiting += cast(list[Any], part)
