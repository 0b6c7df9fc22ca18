"""A channel in this protocol, declared in one line by a driver. Imports next to nothing: few runs take it."""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from inspan.contracts.dialect import Dialect
from inspan.contracts.driver import Capabilities, Channel, Install, Launch, LaunchContext, ProjectCode, SessionSupport
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals

if TYPE_CHECKING:
    from .profile import AcpAgent


def build_acp_channel(
    load_agent: "Callable[[], AcpAgent]",
    capabilities: Capabilities,
    *,
    name: str = "acp",
    program: str | None = None,
    install: Install | None = None,
    version_pattern: re.Pattern[str] | None = None,
    oldest: tuple[int, ...] | None = None,
    unsupported_scenarios: Mapping[str, str] | None = None,
    event_differences: Mapping[str, str] | None = None,
    project_code: tuple[ProjectCode, ...] = (),
    session: SessionSupport = SessionSupport(messages=True, interrupt=True),  # noqa: B008  a frozen value
) -> Channel:
    """The channel of an agent that `load_agent` describes; that is called by the first run that needs it.

    A review is held by inspan's sandbox: what the agent asks to run in one is allowed.
    """

    def launch(task: Task, context: LaunchContext) -> Launch:
        agent = load_agent()
        setup = agent.build_setup(task, context)
        if task.converses:  # The first block is the prompt, which is sent as a message.
            setup = msgspec.structs.replace(setup, prompt=setup.prompt[1:])
        words = msgspec.json.encode(setup)
        usual = agent.launch(task, context)
        return msgspec.structs.replace(usual, keeps_stdin=True, stdin=words, conversation=task.converses)

    def build_dialect(task: Task, reported: SessionTotals) -> Dialect:
        from .dialect import AcpDialect  # Start-up time, as above.

        return AcpDialect(task, reported, profile=load_agent().profile)

    def scrub(line: bytes) -> bytes:
        from .scrubber import scrub_line  # Start-up time, as above.

        return scrub_line(line)

    return Channel(
        name=name,
        kind="rpc",
        launch=launch,
        dialect=build_dialect,
        program=program,
        install=install,
        version_pattern=version_pattern,
        oldest=oldest,
        capabilities=msgspec.structs.replace(capabilities, review_needs_sandbox=True),
        project_code=project_code,
        unsupported_scenarios=unsupported_scenarios,
        scrub_line=scrub,
        event_differences=event_differences or {},
        session=session,
    )
