"""One agent, three modes, whatever the agent is: and its sessions, and the driver contract beside them."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict, Unpack

import msgspec

from inspan.contracts.driver import BASE_ALLOWED_TOOLS
from inspan.engine import registry
from inspan.engine.answers import REPAIRS, repair_prompt
from inspan.engine.telling import Teller
from inspan.engine.validation import Environment, validate
from inspan.errors import Unsupported
from inspan.protocol.limits import Limits
from inspan.protocol.task import McpServer, Mode, Profile, Task

from .result import Result, together
from .running import run

if TYPE_CHECKING:
    from inspan.contracts.reporter import Reporter


class Options(TypedDict, total=False):
    """What every mode takes, with the meaning of the fields of `Task`; `cwd` is the current folder by default."""

    cwd: str
    model: str
    effort: str
    system_prompt: str
    append_system_prompt: str
    max_turns: int | None
    allowed_tools: Sequence[str] | None
    disallowed_tools: Sequence[str]
    extra_dirs: Sequence[str]
    mcp_servers: Mapping[str, McpServer]
    attachments: Sequence[str]
    resume: str
    fork: bool
    project: str
    task: str
    profile: Profile
    login: bool
    key_from: str
    sandbox: str
    model_from: str
    partial: bool
    limits: Limits
    env: Mapping[str, str]
    options: Sequence[str]
    on_event: Teller | None
    reporter: "Reporter | None"


_TUPLES = ("disallowed_tools", "extra_dirs", "attachments", "options")


class Runner:
    """Runs prompts with one agent. Keeps no state but its defaults: every call starts a fresh session."""

    def __init__(self, agent: str, defaults: Options) -> None:
        self.agent = registry.driver(agent).name
        self._defaults = defaults

    async def exec(self, prompt: str, **options: Unpack[Options]) -> Result:
        """Full tools, file edits, commands; with `allowed_tools`, only these."""
        return await self._run("exec", prompt, options)

    async def review(self, prompt: str, **options: Unpack[Options]) -> Result:
        """Reads and runs what changes nothing; cannot edit. `allowed_tools` are added to that."""
        return await self._run("review", prompt, options)

    async def complete(
        self,
        prompt: str,
        *,
        output_schema: dict[str, Any] | None = None,
        repairs: int = REPAIRS,
        **options: Unpack[Options],
    ) -> Result:
        """One answer, without tools unless some are allowed.

        With a schema the answer is checked, and asked for again in the same session at most `repairs` times; what then
        still does not fit is a result with the reason `unfit_answer`.
        """
        result = await self._run("complete", prompt, options, output_schema=output_schema)
        for _ in range(repairs):
            if result.reason != "unfit_answer":
                break
            again: Options = {**options, "resume": result.run_id, "fork": False, "attachments": ()}
            again.pop("cwd", None)
            asked = await self._run("complete", repair_prompt(result.error), again, output_schema=output_schema)
            result = together(result, asked)
        return result

    async def execute(
        self,
        prompt: str,
        *,
        system_prompt: str = "",
        allowed_tools: Sequence[str] = (),
        session_id: str = "",
        timeout_s: float = 600.0,
        **options: Unpack[Options],
    ) -> Result:
        """The driver contract: an agent that may use `BASE_ALLOWED_TOOLS` and the tools added here, and nothing else.

        `system_prompt` is appended to the agent's own.
        """
        limits = msgspec.structs.replace(options.get("limits", Limits()), timeout_s=timeout_s)
        given: Options = {
            **options,
            "append_system_prompt": system_prompt,
            "allowed_tools": tuple(dict.fromkeys((*BASE_ALLOWED_TOOLS, *allowed_tools))),
            "resume": session_id,
            "limits": limits,
        }
        return await self._run("exec", prompt, given)

    def validate_environment(self, **options: Unpack[Options]) -> Environment:
        """Looks at program, version, helpers, access and permissions; raises `InspanError` with the next step."""
        return validate(self._task("exec", "validate", options))

    def create_session(self, **options: Unpack[Options]) -> "AgentSession":
        """A conversation that begins with its first message."""
        return AgentSession(self, {**self._defaults, **options})

    def resume_session(self, session_id: str, **options: Unpack[Options]) -> "AgentSession":
        """A conversation that goes on: by run id, `@last` or the agent's own session id."""
        return AgentSession(self, {**self._defaults, **options}, session_id=session_id)

    async def _run(self, mode: Mode, prompt: str, options: Options, **more: Any) -> Result:
        given: Options = {**self._defaults, **options}
        task = msgspec.structs.replace(self._task(mode, prompt, options), **more)
        return await run(task, on_event=given.get("on_event"), reporter=given.get("reporter"))

    def _task(self, mode: Mode, prompt: str, options: Options) -> Task:
        given: dict[str, Any] = {**self._defaults, **options}
        for name in ("on_event", "reporter"):
            given.pop(name, None)
        if "max_turns" in given:
            given["limits"] = msgspec.structs.replace(given.get("limits", Limits()), max_turns=given.pop("max_turns"))
        if given.get("allowed_tools") is not None:
            given["allowed_tools"] = tuple(given["allowed_tools"])
        given |= {name: tuple(given[name]) for name in _TUPLES if name in given}
        given |= {name: dict(given[name]) for name in ("mcp_servers", "env") if name in given}
        given.setdefault("cwd", "" if given.get("resume") else os.getcwd())
        return Task(prompt=prompt, agent=self.agent, mode=mode, **given)


class AgentSession:
    """One conversation with an agent: each message is a run of its own, and goes on where the last one ended."""

    def __init__(self, runner: Runner, options: Options, *, session_id: str = "") -> None:
        self._runner = runner
        self._options = options
        self._resume = session_id
        self.session_id = session_id

    async def send_message(self, prompt: str, *, mode: Mode = "exec", **options: Unpack[Options]) -> Result:
        """Says something and waits for the whole answer."""
        given: Options = {**self._options, **options}
        if self._resume:
            given["resume"] = self._resume
            given.pop("cwd", None)
        modes = {"exec": self._runner.exec, "review": self._runner.review, "complete": self._runner.complete}
        result = await modes[mode](prompt, **given)
        if result.session_id:
            self.session_id, self._resume = result.session_id, result.run_id
        return result

    def submit_tool_results(self, results: Sequence[object]) -> NoReturn:
        """Refused: through this channel the agents run their own tools."""
        raise Unsupported(
            "submit_tool_results",
            len(results),
            f"{self._runner.agent} runs its tools itself on this channel.",
            next_step="Give it tools by mcp_servers instead.",
        )


def runner(agent: str = "", **defaults: Unpack[Options]) -> Runner:
    """A runner for the agent of this name, or for the default one; raises `UnknownAgent` with the known ones."""
    return Runner(agent, defaults)
