"""What living sessions wait for: every question of this machine's runs that is open, found by its id."""

from typing import NamedTuple

from inspan.errors import RunNotFound, StateUnusable
from inspan.folds.session import OpenQuestion, SessionFold
from inspan.stores.event_log import iter_log
from inspan.stores.run_folder import RunFolder, active_runs, is_locked


class AskedQuestion(NamedTuple):
    """An open question: whose it is, and since when (seconds since 1970)."""

    folder: RunFolder
    question: OpenQuestion
    asked_at: float


def list_questions(state: str) -> list[AskedQuestion]:
    """Those of all living runs, oldest first; a log that cannot be read has none."""
    found = [each for folder in active_runs(state) if is_locked(folder) for each in _questions_of(folder)]
    return sorted(found, key=lambda each: each.asked_at)


def find_question(state: str, name: str) -> AskedQuestion:
    """The open question of this id, or unique part of one; raises `RunNotFound`."""
    questions = list_questions(state)
    found = [each for each in questions if each.question.id == name]
    found = found or [each for each in questions if name and name in each.question.id]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(each.question.id for each in found)
        raise RunNotFound(f"{name!r} is part of more than one question's id.", next_step=f"Add characters: {names}.")
    step = "`inspan approvals` lists those that are open; one that was answered, or has timed out, is closed."
    raise RunNotFound(f"There is no open question {name!r}.", next_step=step)


def _questions_of(folder: RunFolder) -> list[AskedQuestion]:
    fold, asked_at = SessionFold(), dict[str, float]()
    try:
        for record in iter_log(folder.log):
            fold.add(record.event)
            for identity in fold.questions:
                asked_at.setdefault(identity, record.at)
    except StateUnusable:
        return []
    return [AskedQuestion(folder, question, asked_at[name]) for name, question in fold.questions.items()]
