"""What of a node's chunks and results may be shown: redacted, whatever the chunks, and fit for any stream."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from inspan.contracts.reporter import NodeReport, NodeResult, RunReport

from .narration import TextChunk
from .text import replace_surrogates

if TYPE_CHECKING:
    from inspan.redaction import Gate, SecretSet

Secrets: TypeAlias = "Mapping[str, str] | SecretSet | None"
"""An environment, in which the secrets are found by name and look; a set of secrets; or none, for what comes from a
log and is redacted already."""


class ReportRedactor:
    """A gate for reporters. Each node has a stream of its own, in which a secret may be split over chunks."""

    def __init__(self, secrets: Secrets) -> None:
        self._gate = _PassThroughGate() if secrets is None else _make_gate(secrets)

    def redact_chunk(self, name: str, chunk: str) -> list[TextChunk]:
        """What can be shown after one more chunk of a node; what may begin a secret waits for the next."""
        text_chunk = chunk if isinstance(chunk, TextChunk) else TextChunk(chunk, "plain")
        if text_chunk.kind in ("plain", "piece"):
            text = replace_surrogates(self._gate.redact_delta(name, text_chunk))
            return [text_chunk.with_text(text)] if text else []
        # A chunk that is whole: the stream before it is over.
        return [*self.flush(name), text_chunk.with_text(self.redact_text(text_chunk))]

    def flush(self, name: str) -> list[TextChunk]:
        """What was held back of a node's stream, which is over."""
        held = self._gate.end_block(name)
        return [TextChunk(replace_surrogates(held), "piece")] if held else []

    def redact_text(self, text: str) -> str:
        """A text that is whole."""
        return replace_surrogates(self._gate.redact_text(text))

    def redact_result(self, result: NodeResult) -> NodeResult:
        """The result with all its words redacted."""
        return replace(
            result,
            output=self.redact_text(result.output),
            error=self.redact_text(result.error),
            cost_note=self.redact_text(result.cost_note),
            session_id=self.redact_text(result.session_id),
            files_changed=tuple(map(self.redact_text, result.files_changed)),
            next_step=self.redact_text(result.next_step),
        )

    def redact_report(self, report: RunReport) -> RunReport:
        """The report with all its words redacted."""
        return replace(report, nodes=tuple(map(self._redact_node, report.nodes)))

    def _redact_node(self, node: NodeReport) -> NodeReport:
        return NodeReport(
            name=self.redact_text(node.name), type=self.redact_text(node.type), result=self.redact_result(node.result)
        )


class _PassThroughGate:
    """A gate that lets everything through."""

    def redact_text(self, text: str) -> str:
        return text

    def redact_delta(self, block_id: str, text: str) -> str:
        return text

    def end_block(self, block_id: str) -> str:
        return ""


def _make_gate(secrets: "Mapping[str, str] | SecretSet") -> "Gate":
    # Start-up time: the command line shows what is redacted already and does without the engines.
    from inspan.redaction import Gate, SecretSet, find_secrets

    return Gate(secrets if isinstance(secrets, SecretSet) else SecretSet(find_secrets(secrets)))
