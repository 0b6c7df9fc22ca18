"""A channel in this protocol, declared in one line by a driver. Imports next to nothing: few runs take it."""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from inspan.contracts.dialect import Dialect
from inspan.contracts.driver import Capabilities, Channel, Install, Launch, Place
from inspan.protocol.task import Task
from inspan.protocol.usage import Told

if TYPE_CHECKING:
    from .speaker import Speaker


def acp_channel(
    speaker: "Callable[[], Speaker]",
    capabilities: Capabilities,
    *,
    name: str = "acp",
    program: str | None = None,
    install: Install | None = None,
    version_words: re.Pattern[str] | None = None,
    oldest: tuple[int, ...] | None = None,
    cannot: Mapping[str, str] | None = None,
    differs: Mapping[str, str] | None = None,
) -> Channel:
    """The channel of an agent whose ways in this protocol `speaker` knows; called by the first run that needs them.

    A review is held by inspan's box: what the agent asks to run in one is allowed.
    """

    def launch(task: Task, place: Place) -> Launch:
        agent = speaker()
        words = msgspec.json.encode(agent.opening(task, place))
        return msgspec.structs.replace(agent.launch(task, place), keeps_stdin=True, stdin=words)

    def dialect(task: Task, told: Told) -> Dialect:
        from .dialect import AcpDialect  # Start-up time, as above.

        return AcpDialect(task, told, habits=speaker().habits)

    def recordable(line: bytes) -> bytes:
        from .recordable import recordable  # Start-up time, as above.

        return recordable(line)

    return Channel(
        name=name,
        kind="rpc",
        launch=launch,
        dialect=dialect,
        program=program,
        install=install,
        version_words=version_words,
        oldest=oldest,
        capabilities=msgspec.structs.replace(capabilities, review_needs_box=True),
        cannot=cannot,
        recordable=recordable,
        differs=differs or {},
    )
