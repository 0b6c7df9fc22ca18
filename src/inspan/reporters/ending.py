"""How a run ended, as a terminal tells it: one line for a success, one failure told once with its next step. Pure."""

from collections.abc import Iterator, Sequence

from inspan.contracts.reporter import NodeResult
from inspan.protocol.outcome import Reason
from inspan.protocol.usage import Usage

from .costs import format_cost
from .live_screen import Span
from .prose import wrap_words
from .text import Style, format_duration, truncate
from .width import measure_width

_WORDS: dict[Reason, str] = {
    "authentication": "the key or login was not accepted",
    "rate_limit": "the provider's rate limit is reached",
    "overloaded": "the provider is overloaded",
    "network": "the provider cannot be reached",
    "invalid_response": "the model's answer could not be read",
    "environment": "the agent could not work here",
    "tool_permission": "a tool that it needed was not allowed",
    "context_too_long": "the conversation is too long for the model",
    "model_not_found": "the provider does not know this model",
    "refused": "the model refused the task",
    "crashed": "the agent's program crashed",
    "max_turns": "the limit on turns is reached",
    "session_not_found": "the agent does not know this session",
    "unfit_answer": "the answer does not fit the schema",
    "script": "the script and the agent's calls do not fit",
    "store": "the run could not be recorded",
    "harness": "inspan has a fault",
    "interrupted": "stopped by you",
    "stopped": "stopped on request",
    "killed": "killed on request",
    "run_timeout": "the run took too long",
    "idle_timeout": "the agent was silent for too long",
    "start_timeout": "the agent did not start in time",
    "model_stall": "the model stopped answering",
    "stuck": "it was stuck",
    "budget": "the budget has no room for the next model call",
    "guard": "a guard stopped it",
    "unanswered": "nobody answered its question",
    "supervisor_lost": "its supervisor is gone",
}
_GLYPHS = {"completed": "✔", "cancelled": "■"}
_STYLES: dict[str, Style] = {"completed": "green", "cancelled": "yellow"}


def format_ending(result: NodeResult, *, has_words: bool, commands: Sequence[str], columns: int) -> Iterator[Span]:
    """The lines at the end of a run. `has_words`: the agent has said more than is shown; `commands` are what can be
    typed next."""
    outcome = result.outcome or result.status
    glyph, style = _GLYPHS.get(outcome, "✘"), _STYLES.get(outcome, "red")
    if outcome == "completed":
        head = f"{glyph} completed in {format_duration(result.duration_s)}"
        yield wrap_segments([head, *_list_figures(result)], columns=columns), style
    else:
        reason = result.reason or "unknown"
        words = _WORDS.get(reason, "")
        head = f"{glyph} {outcome.replace('_', ' ')}{f': {words}' if words else ''} ({reason})"
        yield wrap_words(head, columns=columns), style
        yield from _explain(result.error, result.next_step, columns=columns)
        took = format_duration(result.duration_s)
        yield wrap_segments([f"  {took}", *_list_figures(result)], columns=columns), "dim"
        if has_words:
            yield "  What the agent said: inspan logs --raw", "dim"
    if commands:
        yield wrap_segments([f"  {commands[0]}", *commands[1:]], columns=columns), "dim"


def _explain(problem: str, next_step: str, *, columns: int) -> Iterator[Span]:
    for line in truncate(problem).split("\n") if problem else ():
        yield wrap_words(f"  {line}", columns=columns), ""
    if next_step:
        yield wrap_words(f"  → {truncate(next_step)}", columns=columns), ""


def _list_figures(result: NodeResult) -> Iterator[str]:
    count = len(result.files_changed)
    if result.files_unknown:
        yield "files changed: unknown" if not count else f"{count} or more files changed"
    elif count:
        yield f"{count} file{'s' if count > 1 else ''} changed"
    if result.usage is not None:
        yield format_token_count(result.usage)
    if result.cost is None:
        return
    if result.cost.kind != "unknown":
        yield format_cost(result.cost)
    elif result.usage is not None and result.usage.total:
        yield f"cost {format_cost(result.cost)}"


def format_token_count(usage: Usage) -> str:
    """All tokens, and how many of them came from a cache."""
    cached = f" ({format_count(usage.cache_read)} cached)" if usage.cache_read else ""
    return f"{format_count(usage.total)} tokens{cached}"


def format_count(number: int) -> str:
    """A number in as few characters as tell its size: 812, 4.8k, 48k, 1.2M."""
    if number < 1000:
        return str(number)
    for size, letter in ((1_000, "k"), (1_000_000, "M")):
        if number < size * 9.95:
            return f"{number / size:.1f}{letter}"
        if number < size * 999.5:
            return f"{number / size:.0f}{letter}"
    return f"{number / 1_000_000_000:.1f}G"


def wrap_segments(segments: Sequence[str], *, columns: int) -> str:
    """Facts in a row, with a dot between them; where they do not fit, the next ones go below."""
    text = line = segments[0]
    for segment in segments[1:]:
        joined = f"{line} · {segment}"
        if measure_width(joined) < columns:
            text, line = f"{text} · {segment}", joined
        else:
            line = f"  {segment}"
            text = f"{text}\n{line}"
    return text
