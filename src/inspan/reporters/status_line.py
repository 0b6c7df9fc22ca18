"""The words of the status line below a run: what it does, since when, what it has used, which limit is near. Pure."""

from typing import NamedTuple

from inspan.folds.live_state import LiveState

from .ending import format_count
from .live_screen import Span
from .run_clock import LAST_MINUTE_S
from .text import Style, one_line
from .tool_lines import shorten_path, unwrap_command
from .width import cut_to_width, measure_width

WORKING, _SPINNER = "●", "◐◓◑◒"
_NEAR = 0.8
# The subject takes what the facts leave; its tool's line stands above, and has all of it.
_AROUND_SUBJECT, _LEAST_SUBJECT = 20, 18
# What the tool puts out stands behind the clock; where the facts leave it less than this, some of them make room.
_OUTPUT_COLUMNS, _LEAST_OUTPUT = 24, 12


class RunFigures(NamedTuple):
    """What has been used of what there is; `None` where nobody has told, or where there is no limit."""

    began_at: float
    tokens: int | None = None
    cost_usd: float | None = None
    calls: int = 0
    ends_at: float | None = None
    budget_usd: float | None = None
    budget_tokens: int | None = None
    budget_calls: int | None = None


def format_status(
    state: LiveState,
    figures: RunFigures,
    *,
    now: float,
    columns: int,
    cwd: str = "",
    ending: bool = False,
    stoppable: bool = True,
    turn: int | None = None,
) -> list[Span]:
    """The line, in pieces. What matters most stands first; a fact that does not fit is left out, and so are those
    behind it. With `turn`, the glyph of a run that works is the spinner at that turn."""
    facts: list[Span] = [(format_clock(now - figures.began_at), "")]
    remaining_s = None if state.status == "waiting" else _remaining_s(figures, now=now)
    if remaining_s is not None and not ending:
        facts.insert(0, (f"ends in {format_clock(remaining_s, colon=True)}", "yellow"))
    share = _largest_share(figures)
    if share > _NEAR:
        facts.append((f"budget {min(share, 1.0):.0%}", "yellow"))
    if figures.tokens:
        facts.append((f"{format_count(figures.tokens)} tokens", ""))
    if figures.cost_usd:
        facts.append((f"${figures.cost_usd:.2f}", ""))
    if stoppable:
        facts.append(("Ctrl-C again kills" if ending else "Ctrl-C stops", "dim"))
    gap: Span = (" · ", "dim")
    taken = sum(measure_width(gap[0] + text) for text, _ in facts)
    room = max(_LEAST_SUBJECT, columns - 1 - _AROUND_SUBJECT - taken)
    subject = _shorten(shorten_path(unwrap_command(state.subject), cwd) or state.tool, columns=room)
    head, style = _describe_state(state, subject, now=now, ending=ending)
    if turn is not None and head.startswith(WORKING):
        head = _SPINNER[turn % len(_SPINNER)] + head.removeprefix(WORKING)
    spans: list[Span] = [(head, style)]
    room = columns - 1 - measure_width(head)
    if state.output and not ending and state.status == "working":
        facts = _insert_output(facts, state.output, room=room)
    for fact in facts:
        room -= measure_width(gap[0] + fact[0])
        if room < 0:
            break
        spans += gap, fact
    return spans


def _insert_output(facts: list[Span], output: str, *, room: int) -> list[Span]:
    """The facts with the end of a tool's output behind the clock, where there is room to read it."""
    gap = measure_width(" · ")
    place = next(number for number, (_, style) in enumerate(facts, 1) if not style)
    before, behind = (sum(gap + measure_width(text) for text, _ in part) for part in (facts[:place], facts[place:]))
    columns = max(room - before - behind - gap, min(room - before - gap, _OUTPUT_COLUMNS))
    if columns < min(_LEAST_OUTPUT, measure_width(output)):
        return facts
    return [*facts[:place], (_shorten(output, columns=columns), "dim"), *facts[place:]]


def _describe_state(state: LiveState, subject: str, *, now: float, ending: bool) -> tuple[str, Style]:
    if ending:
        return "■ ending", "yellow"
    if state.status == "waiting":
        return f"▲ needs you: {f'allow {subject}?' if state.asks_for == 'permission' else subject}", "yellow"
    if state.status == "rate_limited":
        if state.resets_at is not None and state.resets_at > now:
            return f"◷ limit lifts in {format_clock(state.resets_at - now, colon=True)}", "yellow"
        return "◷ rate limited", "yellow"
    if state.status in ("starting", "idle", "error", "closed"):
        return f"{WORKING if state.status == 'starting' else '·'} {state.status}", "cyan"
    if state.status == "stuck":
        return f"▲ stuck{f' · {subject}' if subject else ''} ({format_clock(now - state.since)})", "yellow"
    if subject:
        return f"{WORKING} working · {subject} ({format_clock(now - state.since)})", "cyan"
    if state.waits_for == "model":
        return f"○ waiting for the model ({format_clock(now - state.heard_at)})", "cyan"
    return f"{WORKING} working", "cyan"


def _remaining_s(figures: RunFigures, *, now: float) -> float | None:
    if figures.ends_at is None:
        return None
    remaining_s = figures.ends_at - now
    return max(0.0, remaining_s) if remaining_s <= LAST_MINUTE_S else None


def _largest_share(figures: RunFigures) -> float:
    pairs = (
        (figures.cost_usd, figures.budget_usd),
        (figures.tokens, figures.budget_tokens),
        (figures.calls, figures.budget_calls),
    )
    return max((used / limit for used, limit in pairs if used and limit), default=0.0)


def format_clock(seconds: float, *, colon: bool = False) -> str:
    """A length of time in whole seconds, so that it changes once a second: 12s, 1m04s; or 0:12, 1:04."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if colon:
        return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"


def _shorten(text: str, *, columns: int) -> str:
    return cut_to_width(one_line(" ".join(text.split())), columns)
