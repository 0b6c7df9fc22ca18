"""Results and reports that several tests tell of."""

from inspan.contracts.reporter import NodeReport, NodeResult, RunReport
from inspan.protocol.outcome import Status
from inspan.protocol.usage import Usage

FIXED = NodeResult(
    status="success",
    output="It is fixed.",
    duration_s=62.0,
    usage=Usage(input=200, output=14, cache_read=40, cache_write=20, reasoning=6),
    cost_usd=0.0125,
    session_id="s-1",
    outcome="completed",
    reason="done",
    files_changed=("a.py", "b.py"),
)
LIMITED = NodeResult(
    status="failed",
    error="too many requests",
    duration_s=2.0,
    usage=Usage(input=10, output=1),
    outcome="limited",
    reason="rate_limit",
    next_step="Wait.",
)
BUILT = NodeResult(status="success", output="built", duration_s=0.25)
BROKEN = NodeResult(status="failed", error="exit code 2", duration_s=0.5)
SKIPPED = NodeResult(status="skipped")


def node(name: str, result: NodeResult) -> NodeReport:
    return NodeReport(name=name, type="agent" if result.outcome else "command", result=result)


def report(*nodes: NodeReport, status: Status = "success", duration_s: float = 65.0) -> RunReport:
    return RunReport(nodes=nodes, status=status, duration_s=duration_s)
