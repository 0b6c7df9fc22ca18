"""Who answers a run's model calls: the provider, a cassette or a scenario, as its route says."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from inspan.protocol.plan import Plan

if TYPE_CHECKING:
    from inspan.gateway.cassettes.record import RecordUpstream
    from inspan.gateway.cassettes.replay import ReplayUpstream
    from inspan.gateway.live import LiveUpstream
    from inspan.gateway.scripts.script import ScriptUpstream
    from inspan.gateway.upstream import Upstream

Redact = Callable[[str], str]


class RunUpstream:
    """The upstream of one run, whichever it is: what did not fit at the end, and its closing."""

    def __init__(self, plan: Plan, *, redact: Redact) -> None:
        self._live: LiveUpstream | None = None
        self._record: RecordUpstream | None = None
        self._playback: ScriptUpstream | ReplayUpstream | None = None
        self._has_faults = bool(plan.task.faults)
        self.upstream: Upstream = self._build(plan, redact)

    @property
    def mismatch(self) -> str:
        """A sentence when what was to be played and the agent's calls did not fit."""
        if self._playback is None:
            return ""
        return self._playback.request_mismatch if self._has_faults else self._playback.mismatch

    @property
    def request_mismatch(self) -> str:
        """The same of the calls so far; those that are still to come are left out."""
        return self._playback.request_mismatch if self._playback else ""

    @property
    def problem(self) -> str:
        """A sentence when the cassette could not be written to its end."""
        return self._record.problem if self._record else ""

    async def close(self) -> None:
        """Idempotent; a cassette gets its last line."""
        if self._record:
            self._record.close()
        if self._live:
            await self._live.close()

    def _build(self, plan: Plan, redact: Redact) -> "Upstream":
        """Each is loaded by the runs that need it alone; the agent is running already while they load."""
        route = plan.route
        if route.kind == "script":
            from inspan.gateway import ScriptUpstream, load_scenario  # Start-up time: a run has one upstream.

            self._playback = ScriptUpstream(load_scenario(route.file), cwd=plan.task.cwd, redact=redact)
            return self._playback
        if route.kind == "replay":
            from inspan.gateway.cassettes.replay import ReplayUpstream  # Start-up time: a run has one upstream.

            self._playback = ReplayUpstream(route.file, folders=plan.path_placeholders, redact=redact)
            return self._playback
        from inspan.gateway.live import LiveUpstream  # Start-up time: a run has one upstream.

        self._live = LiveUpstream(base_url=route.url, key=route.key, proxies=route.proxies, ca_files=route.ca_files)
        if route.kind != "record":
            return self._live
        from inspan.gateway.cassettes.record import RecordUpstream  # Start-up time: a run has one upstream.

        about = {"agent": f"{plan.agent.name} {plan.agent.version}".strip(), "mode": plan.task.mode}
        self._record = RecordUpstream(
            self._live, file=route.file, redact=redact, folders=plan.path_placeholders, about=about
        )
        return self._record
