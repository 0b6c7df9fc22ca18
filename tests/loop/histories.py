"""The log of a loop, written down in a few words: what happened, one after the other."""

from collections.abc import Iterable, Sequence

from inspan.folds.loop import LoopFold, LoopState
from inspan.protocol.events import (
    AttemptEnded,
    AttemptStarted,
    CheckEnded,
    Event,
    RunStarted,
    VerdictGiven,
    VerifierStarted,
    WaitStarted,
)
from inspan.protocol.outcome import Reason
from inspan.protocol.reasons import REASONS
from inspan.protocol.wire import Record

STARTED = RunStarted(
    schema=1,
    run_id="loop",
    agent="a",
    mode="exec",
    project="p",
    task="t",
    cwd="/w",
    profile="clean",
    sandbox="",
    containment="",
    work="loop",
    inspan="0",
)
BEGAN_AT = 1000.0


def attempt(
    number: int,
    reason: Reason = "done",
    *,
    agent: str = "a",
    resets_at: float | None = None,
    tree: str | None = None,
    can_resume: bool = True,
    message: str = "",
    files_changed: Sequence[str] = (),
) -> list[Event]:
    """A run that started and ended; its id is `run` with the number."""
    return [
        AttemptStarted(attempt=number, run_id=f"run{number}", agent=agent),
        AttemptEnded(
            attempt=number,
            run_id=f"run{number}",
            outcome=REASONS[reason].outcome,
            reason=reason,
            message=message,
            resets_at=resets_at,
            tree=f"tree{number}" if tree is None else tree,
            files_changed=list(files_changed),
            can_resume=can_resume,
        ),
    ]


def check(number: int, passed: bool, *, name: str = "make test", output: str = "") -> Event:
    return CheckEnded(attempt=number, check=name, passed=passed, exit_code=0 if passed else 1, output=output)


def verdict(number: int, agreed: bool | None, *, reason: Reason = "done", text: str = "") -> list[Event]:
    return [
        VerifierStarted(attempt=number, run_id=f"verify{number}", agent="v"),
        VerdictGiven(attempt=number, run_id=f"verify{number}", agent="v", agreed=agreed, reason=reason, text=text),
    ]


def wait(number: int, until: float, *, agent: str = "a") -> Event:
    return WaitStarted(attempt=number, until=until, why="before the next attempt", agent=agent)


def fold(*parts: Event | Iterable[Event], step_s: float = 1.0) -> LoopState:
    """Where a loop stands after these events, a second after each other."""
    events: list[Event] = [STARTED]
    for part in parts:
        events += [part] if isinstance(part, Event) else list(part)
    folded = LoopFold()
    for number, event in enumerate(events):
        folded.add(Record(number + 1, BEGAN_AT + number * step_s, event))
    return folded.state
