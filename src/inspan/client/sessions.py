"""Open sessions of a place, and what waits for somebody's answer."""

import os
import uuid
from typing import Any

from inspan.errors import BadInput, StateUnusable
from inspan.folds.session import OpenQuestion
from inspan.protocol.commands import Answer, CloseSession, Command, Configure, Interrupt, SendMessage
from inspan.protocol.events import QuestionAsked
from inspan.runs.control_client import command_session
from inspan.runs.find import find_run_folder
from inspan.runs.list_all import list_active
from inspan.runs.questions import find_question, list_questions
from inspan.stores.approvals import list_approvals
from inspan.stores.run_folder import read_json

from .place import Place
from .run_info import build_run_info
from .values import (
    AnsweredQuestion,
    ApprovalAnswer,
    ApprovalListing,
    AskedQuestion,
    CommandedRun,
    ConfigureRequest,
    KeptAnswer,
    Message,
    Nothing,
    RunListing,
    RunName,
    SentMessage,
)


def list_sessions(place: Place, _: Nothing) -> RunListing:
    """The open sessions of every project, newest first."""
    active = [run for run in list_active(place.state, ended=False) if run.state]
    infos = [build_run_info(place.state, run.entry.row, run.state) for run in active]
    return RunListing(runs=[each for each in infos if _stays_open(each.path)])


def send_message(place: Place, message: Message) -> SentMessage:
    """Says something to an open session; what comes of it is in its events."""
    identity = message.id or uuid.uuid4().hex[:12]
    folder = find_run_folder(place.state, message.run)
    command_session(folder, SendMessage(id=identity, text=message.text, when=message.when))
    return SentMessage(run_id=folder.run_id, id=identity)


def interrupt_session(place: Place, request: RunName) -> CommandedRun:
    """Ends the turn that is running; the session stays."""
    return _command(place, request.run, Interrupt())


def close_session(place: Place, request: RunName) -> CommandedRun:
    """Ends an open session once what was sent to it is done."""
    return _command(place, request.run, CloseSession())


def configure_session(place: Place, request: ConfigureRequest) -> CommandedRun:
    """Sets model, effort or mode, from the next turn on."""
    return _command(place, request.run, Configure(model=request.model, effort=request.effort, mode=request.mode))


def list_open_approvals(place: Place, _: Nothing) -> ApprovalListing:
    """What waits for an answer, and what was allowed for good."""
    questions = [
        AskedQuestion(run_id=each.folder.run_id, asked_at=each.asked_at, question=each.question)
        for each in list_questions(place.state)
    ]
    kept = [KeptAnswer(**each._asdict()) for each in list_approvals(place.state)]
    return ApprovalListing(questions=questions, kept=kept)


def answer_question(place: Place, answer: ApprovalAnswer) -> AnsweredQuestion:
    """Allows or denies what an agent asks for, or answers its question."""
    asked = find_question(place.state, answer.id, run=answer.run, asked_at=answer.asked_at)
    _check_answers(asked.question, answer)
    command = Answer(
        id=asked.question.id,
        allowed=answer.allowed,
        always=answer.always,
        reason=answer.reason,
        input=answer.input,
        answers=answer.answers,
    )
    command_session(asked.folder, command)
    return AnsweredQuestion(run_id=asked.folder.run_id, id=asked.question.id, allowed=answer.allowed)


def _check_answers(question: OpenQuestion, answer: ApprovalAnswer) -> None:
    if not isinstance(question, QuestionAsked):
        if answer.answers:
            raise BadInput("answers", answer.answers, "it asks for a permission.", next_step="Leave answers out.")
        return
    wanted = [each.text for each in question.questions]
    if answer.allowed and set(answer.answers) != set(wanted):
        step = f"Give one for each: {'; '.join(wanted)}"
        raise BadInput("answers", answer.answers, "they are not those of the questions.", next_step=step)


def _stays_open(path: str) -> bool:
    try:
        task: Any = read_json(os.path.join(path, "run.json")).get("task")
        return bool(task.get("session"))
    except (StateUnusable, AttributeError):
        return False  # It was deleted meanwhile, or somebody else wrote it.


def _command(place: Place, name: str, command: Command) -> CommandedRun:
    folder = find_run_folder(place.state, name)
    command_session(folder, command)
    return CommandedRun(run_id=folder.run_id)
