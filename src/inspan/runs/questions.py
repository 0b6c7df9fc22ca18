"""What living sessions wait for: every question of this machine's runs that is open, found by its id."""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from inspan.errors import CommandRefused, RunNotFound, StateUnusable
from inspan.folds.session import OpenQuestion, SessionFold
from inspan.protocol.events import PermissionAsked, QuestionAsked
from inspan.stores.event_log import iter_log
from inspan.stores.run_folder import RunFolder, active_runs, is_locked

from .find import find_run_folder


class AskedQuestion(NamedTuple):
    """An open question: whose it is, and since when (seconds since 1970)."""

    folder: RunFolder
    question: OpenQuestion
    asked_at: float


def list_questions(state: str) -> list[AskedQuestion]:
    """Those of all living runs, oldest first; a log that cannot be read has none."""
    found = [each for folder in active_runs(state) if is_locked(folder) for each in _questions_of(folder)]
    return sorted(found, key=lambda each: each.asked_at)


def find_question(state: str, identity: str, *, run: str = "", asked_at: float | None = None) -> AskedQuestion:
    """The open question of exactly this id, of one `run` where that is named, asked at that time where that is given.

    Raises `RunNotFound`; `CommandRefused` where another question of this id stands there by now.
    """
    found = [each for each in _list_asked_by(state, run) if each.question.id == identity]
    if found and asked_at is not None:
        found = [each for each in found if each.asked_at == asked_at]
        if not found:
            step = "Look at what it asks now: `inspan approvals` lists what is open."
            raise CommandRefused(f"Another question {identity!r} is open now than the one answered.", next_step=step)
    return _pick(identity, found)


def match_question(state: str, name: str) -> AskedQuestion:
    """The open question that somebody names by hand: by its id, by the unique beginning of one, or as `RUN/ID`.

    Raises `RunNotFound`.
    """
    found = _match_questions(list_questions(state), name)
    before, _, after = name.rpartition("/")
    if not found and before and after:
        with suppress(RunNotFound):  # An id may have a slash of its own.
            found = _match_questions(_list_asked_by(state, before), after)
    return _pick(name, found)


def _pick(name: str, found: Sequence[AskedQuestion]) -> AskedQuestion:
    if len(found) == 1:
        return found[0]
    if found:
        raise _tell_apart(name, found)
    step = "`inspan approvals` lists those that are open; one that was answered, or has timed out, is closed."
    raise RunNotFound(f"There is no open question {name!r}.", next_step=step)


def _list_asked_by(state: str, run: str) -> list[AskedQuestion]:
    folder = find_run_folder(state, run) if run else None
    return [each for each in list_questions(state) if folder is None or each.folder.run_id == folder.run_id]


def _match_questions(questions: Sequence[AskedQuestion], name: str) -> list[AskedQuestion]:
    same = [each for each in questions if each.question.id == name]
    return same or [each for each in questions if name and each.question.id.startswith(name)]


def _tell_apart(name: str, found: Sequence[AskedQuestion]) -> RunNotFound:
    """Two runs may ask by the same id: a person's node has the name that its blueprint gives it."""
    ids = [each.question.id for each in found]
    if len(set(ids)) == len(ids):
        return RunNotFound(
            f"{name!r} begins more than one question's id.", next_step=f"Add characters: {', '.join(ids)}."
        )
    names = ", ".join(f"{each.folder.run_id}/{each.question.id}" for each in found)
    return RunNotFound(f"More than one run asks {name!r}.", next_step=f"Name the run, too: {names}.")


def _questions_of(folder: RunFolder) -> list[AskedQuestion]:
    fold, asked_at = SessionFold(), dict[str, float]()
    try:
        for record in iter_log(folder.log):
            fold.add(record.event)
            if isinstance(record.event, PermissionAsked | QuestionAsked):
                asked_at[record.event.id] = record.at
    except StateUnusable:
        return []
    return [AskedQuestion(folder, question, asked_at[name]) for name, question in fold.questions.items()]
