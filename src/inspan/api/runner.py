"""One agent, three modes, whatever the agent is: and its sessions, and the driver contract beside them."""

import asyncio
from collections.abc import Sequence
from typing import Any, NoReturn, Unpack

import msgspec

from inspan.contracts.driver import BASE_ALLOWED_TOOLS
from inspan.engine import registry
from inspan.engine.answers import REPAIRS, repair_prompt
from inspan.engine.validation import Environment, validate
from inspan.errors import BadInput, Unsupported
from inspan.protocol.limits import Limits
from inspan.protocol.task import Mode

from .options import Options, SharedOptions, check_names, task_of
from .result import Result, together
from .running import run


class Runner:
    """Runs prompts with one agent. Keeps no state but its defaults: every call starts a fresh session, none retries."""

    def __init__(self, agent: str, defaults: Options) -> None:
        check_names(defaults)
        self.agent = registry.driver(agent).name
        self._defaults = defaults

    def __repr__(self) -> str:
        return f"Runner({self.agent!r})"

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
        check_repairs(repairs)
        result = await self._run("complete", prompt, options, output_schema=output_schema)
        for _ in range(repairs):
            if result.reason != "unfit_answer":
                break
            words, again = f"{prompt}\n\n{repair_prompt(result.error)}", Options(**options)
            if result.session_id:  # It knows the rest.
                words = repair_prompt(result.error)
                again |= {"resume": result.run_id, "cwd": "", "fork": False, "attachments": ()}
            asked = await self._run("complete", words, again, output_schema=output_schema)
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
        **options: Unpack[SharedOptions],
    ) -> Result:
        """The driver contract: an agent that may use `BASE_ALLOWED_TOOLS` and the tools added here, and nothing else.

        `system_prompt` is appended to the agent's own. Tools and a prompt that the runner has by default are added too.
        """
        check_names(options, SharedOptions.__optional_keys__)
        limits = options.get("limits", self._defaults.get("limits", Limits()))
        prompts = (self._defaults.get("append_system_prompt", ""), system_prompt)
        tools = (*BASE_ALLOWED_TOOLS, *(self._defaults.get("allowed_tools") or ()), *allowed_tools)
        given: Options = {
            **options,
            "append_system_prompt": "\n\n".join(filter(None, prompts)),
            "allowed_tools": tuple(dict.fromkeys(tools)),
            "resume": session_id,
            "limits": msgspec.structs.replace(limits, timeout_s=timeout_s),
        }
        return await self._run("exec", prompt, given)

    def validate_environment(self, **options: Unpack[Options]) -> Environment:
        """Looks at program, version, helpers, access and permissions; raises `InspanError` with the next step."""
        return validate(task_of(self.agent, "exec", "validate", {**self._defaults, **options}))

    def create_session(self, **options: Unpack[Options]) -> "AgentSession":
        """A conversation that begins with its first message."""
        check_names(options)
        return AgentSession(self, options)

    def resume_session(self, session_id: str, **options: Unpack[Options]) -> "AgentSession":
        """A conversation that goes on: by run id, `@last` or the agent's own session id."""
        check_names(options)
        return AgentSession(self, options, session_id=session_id)

    async def _run(
        self, mode: Mode, prompt: str, options: Options, *, output_schema: dict[str, Any] | None = None
    ) -> Result:
        given: Options = {**self._defaults, **options}
        task = msgspec.structs.replace(task_of(self.agent, mode, prompt, given), output_schema=output_schema)
        result = await run(task, on_event=given.get("on_event"), reporter=given.get("reporter"))
        if given.get("record_tokens"):
            await asyncio.to_thread(result.record_tokens)
        return result


class AgentSession:
    """One conversation with an agent: each message is a run of its own, and goes on where the last one ended.

    `session_id` is the agent's own once it has answered. Messages that are sent at once wait for one another.
    """

    def __init__(self, runner: Runner, options: Options, *, session_id: str = "") -> None:
        self.session_id = session_id
        self._runner = runner
        self._options = options
        self._resume = session_id
        self._turn = asyncio.Lock()

    async def send_message(self, prompt: str, *, mode: Mode = "exec", **options: Unpack[Options]) -> Result:
        """Says something and waits for the whole answer."""
        modes = {"exec": self._runner.exec, "review": self._runner.review, "complete": self._runner.complete}
        async with self._turn:
            given: Options = {**self._options, **options}
            if self._resume:
                # The folder is the session's own, whatever the runner's is.
                given |= {"resume": self._resume, "cwd": ""}
            result = await modes[mode](prompt, **given)
            if result.session_id:
                self.session_id, self._resume = result.session_id, result.run_id
                self._options.pop("fork", None)  # It was for the beginning: from now on the copy goes on.
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


def check_repairs(repairs: int) -> None:
    """Raises `BadInput` for a number of repairs that makes no sense."""
    if repairs < 0:
        raise BadInput("repairs", repairs, "it cannot be less than 0.", next_step="Use 0 to ask only once.")
