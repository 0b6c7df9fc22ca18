"""One agent, three modes, whatever the agent is: and its sessions, and the driver contract beside them."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

import msgspec

from inspan.agents import registry
from inspan.contracts.driver import BASE_ALLOWED_TOOLS
from inspan.errors import BadInput, UnknownAgent
from inspan.planning.validate import Environment
from inspan.protocol.limits import Limits
from inspan.protocol.task import Mode, Task
from inspan.running.answers import MAX_REPAIRS, Repairs
from inspan.stores.run_folder import read_json

from .hooks import AfterTool, BeforeTool, OnStop
from .in_process import OnClaim, require_loop
from .options import (
    Options,
    Path,
    SessionOptions,
    SharedOptions,
    build_task,
    check_count,
    check_names,
    check_text,
    resolve_cwd,
    to_tuple,
    without_session_options,
)
from .permissions import OnPermission, OnQuestion
from .result import AgentResult, merge_results
from .run import locate_run, run_task, validate_environment
from .session import AgentSession, build_responder

if TYPE_CHECKING:
    from .connection import Connection
    from .tools import Tool

_DEFAULT = "the default agent"


class AgentRunner:
    """Runs prompts with one agent. Keeps no state but its defaults: every call starts a fresh session, none retries."""

    def __init__(self, agent: str, defaults: Options, *, on_claim: OnClaim | None = None) -> None:
        check_names(defaults)
        self.agent = registry.find_driver(_name(agent)).name
        self.defaults = defaults
        self._on_claim = on_claim

    def __repr__(self) -> str:
        return f"AgentRunner({self.agent!r})"

    async def exec(self, prompt: str, **options: Unpack[Options]) -> AgentResult:
        """Full tools, file edits, commands; with `allowed_tools`, only these."""
        return await self._run("exec", prompt, options)

    async def review(self, prompt: str, **options: Unpack[Options]) -> AgentResult:
        """Reads and runs what changes nothing; cannot edit. `allowed_tools` are added to that."""
        return await self._run("review", prompt, options)

    async def complete(
        self,
        prompt: str,
        *,
        output_schema: dict[str, Any] | None = None,
        repairs: int = MAX_REPAIRS,
        **options: Unpack[Options],
    ) -> AgentResult:
        """One answer, without tools unless some are allowed.

        With a schema the answer is checked, and asked for again in the same session at most `repairs` times; what then
        still does not fit is a result with the reason `unfit_answer`.
        """
        check_repairs(repairs)
        options["cwd"] = self.folder(options)  # The same for all, wherever the program goes.
        given: Options = {**self.defaults, **options}
        task = msgspec.structs.replace(build_task(self.agent, "complete", prompt, given), output_schema=output_schema)
        result = await self._run_task(task, given)
        asking = Repairs(task, most=repairs, resumes=self._can("resume"))
        last = result
        while again := asking.plan_next(last.reason, last.error, run_id=last.run_id, session_id=last.session_id):
            last = await self._run_task(again, given)
            result = merge_results(result, last)
        return result

    async def execute(
        self,
        prompt: str,
        *,
        system_prompt: str = "",
        allowed_tools: Sequence[str] = (),
        session_id: str = "",
        timeout_s: float = 600.0,
        **options: Unpack[SharedOptions],
    ) -> AgentResult:
        """The driver contract: an agent that may use `BASE_ALLOWED_TOOLS` and the tools added here, and nothing else.

        `system_prompt` is appended to the agent's own. Tools and a prompt that the runner has by default are added too.
        """
        check_names(options, SharedOptions.__optional_keys__)
        limits = options.get("limits", self.defaults.get("limits", Limits()))
        if not isinstance(cast(object, limits), Limits):
            raise BadInput("limits", limits, "they are not limits.", next_step="Give inspan.Limits(…).")
        prompts = (self.defaults.get("append_system_prompt", ""), system_prompt)
        for each in prompts:
            check_text("system_prompt", each)
        usual = to_tuple("allowed_tools", self.defaults.get("allowed_tools") or ())
        tools = (*BASE_ALLOWED_TOOLS, *usual, *to_tuple("allowed_tools", allowed_tools))
        given: Options = {
            **options,
            "append_system_prompt": "\n\n".join(filter(None, prompts)),
            "allowed_tools": tuple(dict.fromkeys(tools)),
            "resume": session_id,
            "limits": msgspec.structs.replace(limits, timeout_s=timeout_s),
        }
        return await self._run("exec", prompt, given)

    def validate_environment(self, **options: Unpack[Options]) -> Environment:
        """Looks at program, version, helpers, access and permissions; raises `InspanError` with the next step.

        The same as `inspan.validate_environment` for a task with these options.
        """
        return validate_environment(
            build_task(self.agent, self._widest_mode(), "validate", {**self.defaults, **options})
        )

    def create_session(self, **options: Unpack[SessionOptions]) -> AgentSession:
        """A conversation that begins with its first message, each a run of its own; in `async with` it is open: one run
        for all of them."""
        check_names(options, SessionOptions.__optional_keys__)
        return self._build_session(options)

    def resume_session(self, session_id: str, **options: Unpack[SessionOptions]) -> AgentSession:
        """A conversation that goes on: by run id, `@last` of the project of `cwd`, or the agent's own session id.

        Where `cwd`, by default the current folder, is not the one in which it began, its first message is refused with
        `BadInput`.
        """
        check_names(options, SessionOptions.__optional_keys__)
        check_text("session_id", session_id)
        if not session_id:
            step = "Use create_session for a new one."
            raise BadInput("session_id", session_id, "it is empty.", next_step=step)
        return self._build_session(options, session_id=session_id)

    async def run_mode(self, mode: Mode, prompt: str, options: Options) -> AgentResult:
        """One prompt in a mode by its name."""
        modes = {"exec": self.exec, "review": self.review, "complete": self.complete}
        return await modes[mode](prompt, **options)

    def _build_session(self, options: SessionOptions, *, session_id: str = "") -> AgentSession:
        runner = AgentRunner(self.agent, self.defaults, on_claim=lambda folder: session.remember_claim(folder))
        given: SessionOptions = {**self.defaults, **options}
        session = AgentSession(
            runner,
            without_session_options(options),
            session_id=session_id,
            connect=lambda: self._connect(given, session_id),
            responder=build_responder(given),
        )
        return session

    async def _connect(self, given: SessionOptions, session_id: str) -> "Connection":
        from .connection import LocalConnection, start_supervised  # Start-up time: few programs open sessions.

        require_loop("inspan.open_session")
        if session_id:
            given = {**given, "resume": session_id}
        task = build_task(self.agent, given.get("mode") or self._widest_mode(), "", given, session=True)
        return await start_supervised(task) if given.get("supervised") else LocalConnection(task)

    def folder(self, options: Options) -> Any:
        """The working folder of a run with these options."""
        return resolve_cwd({**self.defaults, **options})

    def _widest_mode(self) -> Mode:
        return "exec" if self._can("exec") else "complete"

    def _can(self, capability: str) -> bool:
        """Whether the agent can do this; an unknown agent is refused by what comes next, with the known ones."""
        try:
            return getattr(registry.find_driver(self.agent).capabilities, capability) != "no"
        except UnknownAgent:
            return True

    async def _run(self, mode: Mode, prompt: str, options: Options) -> AgentResult:
        given: Options = {**self.defaults, **options}
        return await self._run_task(build_task(self.agent, mode, prompt, given), given)

    async def _run_task(self, task: Task, given: Options) -> AgentResult:
        result = await run_task(
            task,
            on_event=given.get("on_event"),
            reporter=given.get("reporter"),
            on_claim=self._on_claim,
            responder=build_responder(given),
        )
        if given.get("record_tokens"):
            await asyncio.to_thread(result.record_tokens)
        return result


def create_agent_runner(agent: str = _DEFAULT, **defaults: Unpack[Options]) -> AgentRunner:
    """A runner for the agent of this name, or for the default one where none is given; raises `UnknownAgent` with the
    known ones. An empty name, as an unset variable gives it, is no agent's."""
    return AgentRunner(registry.find_driver("").name if agent is _DEFAULT else agent, defaults)


def check_repairs(repairs: int) -> None:
    """Raises `BadInput` for a number of repairs that makes no sense."""
    check_count("repairs", repairs)
    if repairs < 0:
        raise BadInput("repairs", repairs, "it cannot be less than 0.", next_step="Use 0 to ask only once.")


def _name(agent: object) -> str:
    if isinstance(agent, str) and agent:
        return agent
    if agent == "":
        raise registry.unknown_agent_error("", registry.all_agent_names())
    step = f"Known agents: {', '.join(registry.all_agent_names())}."
    raise UnknownAgent("agent", agent, "it is not a name.", next_step=step)


def open_session(agent: str = _DEFAULT, **options: Unpack[SessionOptions]) -> AgentSession:
    """A conversation over one process: `async with inspan.open_session(agent=…) as session`.

    With `supervised` it has a supervisor of its own and outlives this program until it is closed; `attach_session`
    takes it up again. `on_permission` decides what the agent asks about, `on_question` answers its questions.
    """
    return create_agent_runner(agent).create_session(**options)


def attach_session(
    run: str,
    *,
    cwd: Path = "",
    on_permission: OnPermission | None = None,
    on_question: OnQuestion | None = None,
    before_tool: BeforeTool | None = None,
    after_tool: AfterTool | None = None,
    on_stop: OnStop | None = None,
    tools: "Sequence[Tool | Callable[..., Any]]" = (),
) -> AgentSession:
    """An open session, taken up by the name of its run, as `find_run` takes it; the end of the `async with` block
    leaves it open. Hooks and tools are called if the session was opened with such. Raises `RunNotFound` where there
    is none that is open."""
    folder, state = locate_run(run, cwd=cwd)
    options: Options = {
        "on_permission": on_permission,
        "on_question": on_question,
        "before_tool": before_tool,
        "after_tool": after_tool,
        "on_stop": on_stop,
        "tools": tools,
    }

    async def connect() -> "Connection":
        from .connection import attach  # Start-up time: few programs open sessions.

        return await attach(folder, state)

    runner = AgentRunner(str(read_json(folder.file("run.json"))["agent"]), {})
    return AgentSession(runner, options, connect=connect, responder=build_responder(options), detaches=True)
