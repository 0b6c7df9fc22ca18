"""What of a node's chunks and results may be shown: redacted, whatever the chunks, and fit for any stream."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from inspan.contracts.reporter import NodeReport, NodeResult, RunReport

from .narration import Passage
from .text import encodable

if TYPE_CHECKING:
    from inspan.redaction import Gate, SecretSet

Secrets: TypeAlias = "Mapping[str, str] | SecretSet | None"
"""An environment, in which the secrets are found by name and look; a set of secrets; or none, for what comes from a
log and is redacted already."""


class Redacted:
    """A gate for reporters. Each node has a stream of its own, in which a secret may be split over chunks."""

    def __init__(self, secrets: Secrets) -> None:
        self._gate = _Open() if secrets is None else _gate(secrets)

    def chunk(self, name: str, chunk: str) -> list[Passage]:
        """What can be shown after one more chunk of a node; what may begin a secret waits for the next."""
        passage = chunk if isinstance(chunk, Passage) else Passage(chunk, "plain")
        if passage.kind in ("plain", "piece"):
            text = encodable(self._gate.delta(name, passage))
            return [passage.saying(text)] if text else []
        # A passage that is whole: the stream before it is over.
        return [*self.rest(name), passage.saying(self.text(passage))]

    def rest(self, name: str) -> list[Passage]:
        """What was held back of a node's stream, which is over."""
        held = self._gate.end_block(name)
        return [Passage(encodable(held), "piece")] if held else []

    def text(self, text: str) -> str:
        """A text that is whole."""
        return encodable(self._gate.text(text))

    def result(self, result: NodeResult) -> NodeResult:
        """The result with all its words redacted."""
        return replace(
            result,
            output=self.text(result.output),
            error=self.text(result.error),
            cost_note=self.text(result.cost_note),
            session_id=self.text(result.session_id),
            files_changed=tuple(map(self.text, result.files_changed)),
            next_step=self.text(result.next_step),
        )

    def report(self, report: RunReport) -> RunReport:
        """The report with all its words redacted."""
        return replace(report, nodes=tuple(map(self._node, report.nodes)))

    def _node(self, node: NodeReport) -> NodeReport:
        return NodeReport(name=self.text(node.name), type=self.text(node.type), result=self.result(node.result))


class _Open:
    """A gate that lets everything through."""

    def text(self, text: str) -> str:
        return text

    def delta(self, block_id: str, text: str) -> str:
        return text

    def end_block(self, block_id: str) -> str:
        return ""


def _gate(secrets: "Mapping[str, str] | SecretSet") -> "Gate":
    # Start-up time: the command line shows what is redacted already and does without the engines.
    from inspan.redaction import Gate, SecretSet, secrets_in

    return Gate(secrets if isinstance(secrets, SecretSet) else SecretSet(secrets_in(secrets)))
