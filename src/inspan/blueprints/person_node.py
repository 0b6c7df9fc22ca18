"""A node that waits for a person: its question is open like an agent's, for `approvals`, `approve` and `deny`."""

import asyncio
from collections.abc import Callable

from inspan.protocol.blueprint import PersonNode
from inspan.protocol.commands import ACCEPTED, Answer, Reply, refuse
from inspan.protocol.events import Event, NodeEnded, NodeStarted, Question, QuestionAnswered, QuestionAsked
from inspan.protocol.outcome import Reason

from .decide import StartNode
from .graph import list_outputs, read_duration
from .node_context import NodeContext


class OpenQuestions:
    """The questions that wait, each with whoever waits for its answer."""

    def __init__(self, record: Callable[[Event], None]) -> None:
        self._record = record
        self._open: dict[str, tuple[QuestionAsked, asyncio.Future[Answer]]] = {}

    def ask(self, identity: str, question: Question) -> "asyncio.Future[Answer]":
        """Opens a question; its answer comes by `answer`."""
        asked = QuestionAsked(id=identity, questions=[question])
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[identity] = asked, answered
        self._record(asked)
        return answered

    def answer(self, answer: Answer) -> Reply:
        """Takes somebody's answer, or refuses one that is none."""
        if answer.id not in self._open:
            return refuse(f"no question {answer.id!r} is open")
        asked, answered = self._open[answer.id]
        if answer.allowed and (problem := _find_problem(asked.questions[0], answer)):
            return refuse(problem)
        self.close(answer.id, by=answer.by, reason=answer.reason, answers=answer.answers if answer.allowed else {})
        answered.set_result(answer)
        return ACCEPTED

    def close(self, identity: str, *, by: str = "", reason: str = "", answers: dict[str, str] | None = None) -> None:
        """A question is over; does nothing for one that was answered."""
        if self._open.pop(identity, None):
            self._record(QuestionAnswered(id=identity, answers=answers or {}, by=by, reason=reason))


async def run_person_node(
    node: PersonNode, questions: OpenQuestions, context: NodeContext, step: StartNode
) -> NodeEnded:
    """Waits for the answer, for as long as the node may take, or until the blueprint is to end."""
    field = f"nodes.{step.node}"
    question = Question(text=context.fill(node.question, field=f"{field}.question"), options=list(node.options))
    context.record(NodeStarted(node=step.node, type="person", round=step.round))
    identity = f"{step.node}-{step.round}" if step.round > 1 else step.node
    answered = questions.ask(identity, question)
    timeout_s = read_duration(node.timeout, field=f"{field}.timeout")
    await asyncio.wait({answered, context.ending}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    if answered.done():
        answer = answered.result()
        if answer.allowed:
            return _build_end(node, step, answer=answer.answers[question.text])
        return _build_end(node, step, error=f"Somebody said no{f': {answer.reason}' if answer.reason else ''}.")
    if context.ending.done():
        reason = context.ending.result().reason
        questions.close(identity, reason=reason)
        return _build_end(node, step, error="It was stopped before it had ended.", reason=reason)
    questions.close(identity, reason="nobody answered in time")
    return _build_end(node, step, error="Nobody answered in time.", reason="unanswered")


def _find_problem(question: Question, answer: Answer) -> str:
    text = answer.answers.get(question.text)
    if text is None:
        return "it is a question: answer it with --answer TEXT"
    if question.options and text not in question.options:
        return f"{text!r} is none of {', '.join(question.options)}"
    return ""


def _build_end(
    node: PersonNode, step: StartNode, *, answer: str = "", error: str = "", reason: Reason | None = None
) -> NodeEnded:
    return NodeEnded(
        node=step.node,
        type="person",
        round=step.round,
        status="failed" if error else "success",
        error=error,
        reason=reason,
        outputs={} if error else dict.fromkeys(list_outputs(step.node, node), answer),
    )
