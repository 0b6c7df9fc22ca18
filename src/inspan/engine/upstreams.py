"""Who answers a run's model calls: the provider, a cassette or a scenario, as its route says."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from .plan import Plan

if TYPE_CHECKING:
    from inspan.gateway.cassettes.recording import RecordUpstream
    from inspan.gateway.cassettes.replaying import ReplayUpstream
    from inspan.gateway.live import LiveUpstream
    from inspan.gateway.scripts.script import ScriptUpstream
    from inspan.gateway.upstream import Upstream

Redact = Callable[[str], str]


class Answering:
    """The upstream of one run, whichever it is: what it complains of at the end, and its closing."""

    def __init__(self, plan: Plan, *, redact: Redact) -> None:
        self._live: LiveUpstream | None = None
        self._record: RecordUpstream | None = None
        self._played: ScriptUpstream | ReplayUpstream | None = None
        self._is_spoiled = bool(plan.task.faults)
        self.upstream: Upstream = self._made(plan, redact)

    @property
    def complaint(self) -> str:
        """A sentence when what was to be played and the agent's calls did not fit."""
        if self._played is None:
            return ""
        return self._played.misfit if self._is_spoiled else self._played.complaint

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

    def _made(self, plan: Plan, redact: Redact) -> "Upstream":
        """Each is loaded by the runs that need it alone; the agent is running already while they load."""
        route = plan.route
        if route.kind == "script":
            from inspan.gateway import ScriptUpstream, load_scenario

            self._played = ScriptUpstream(load_scenario(route.file), cwd=plan.task.cwd, redact=redact)
            return self._played
        if route.kind == "replay":
            from inspan.gateway.cassettes.replaying import ReplayUpstream

            self._played = ReplayUpstream(route.file, places=plan.places, redact=redact)
            return self._played
        from inspan.gateway.live import LiveUpstream

        self._live = LiveUpstream(
            base_url=route.url, token=plan.token, key=route.key, proxies=route.proxies, ca_files=route.ca_files
        )
        if route.kind != "record":
            return self._live
        from inspan.gateway.cassettes.recording import RecordUpstream

        about = {"agent": f"{plan.agent} {plan.agent_version}".strip(), "mode": plan.task.mode}
        self._record = RecordUpstream(self._live, file=route.file, redact=redact, places=plan.places, about=about)
        return self._record
