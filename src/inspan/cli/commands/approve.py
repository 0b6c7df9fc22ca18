"""Allow what an agent asks for, or answer its question."""

import click
import msgspec

from inspan.cli.output import print_json
from inspan.errors import BadInput
from inspan.protocol.commands import Answer
from inspan.protocol.events import QuestionAsked
from inspan.protocol.wire import DECODE_ERRORS
from inspan.runs.control_client import command_session
from inspan.runs.questions import AskedQuestion, match_question
from inspan.stores.paths import state_home


@click.command()
@click.argument("question", metavar="ID")
@click.option("--always", is_flag=True, help="For good in this project: this tool with this command or file.")
@click.option("--input", "changed", metavar="JSON", help="Allow it with this input in place of the agent's own.")
@click.option("--answer", "answers", multiple=True, metavar="TEXT", help="To a question; one for each, in order.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(question: str, always: bool, changed: str | None, answers: tuple[str, ...], as_json: bool) -> None:
    """Allow what an agent asks for, or answer its question.

    ID is that of the question, or its beginning, or RUN/ID: `inspan approvals` lists them.
    """
    asked = match_question(state_home(), question)
    answer = Answer(
        id=asked.question.id, always=always, input=_parse_input(changed), answers=_match_answers(asked, answers)
    )
    command_session(asked.folder, answer)
    if as_json:
        print_json(run_id=asked.folder.run_id, id=asked.question.id, allowed=True)
    else:
        click.echo(f"{asked.question.id} allowed")


def _parse_input(text: str | None) -> dict[str, object] | None:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text.encode(), type=dict[str, object])
    except DECODE_ERRORS as error:
        step = """For example --input '{"command": "ls"}'."""
        raise BadInput("--input", text, f"it is not a JSON object: {error}.", next_step=step) from error


def _match_answers(asked: AskedQuestion, answers: tuple[str, ...]) -> dict[str, str]:
    question = asked.question
    if not isinstance(question, QuestionAsked):
        if answers:
            raise BadInput("--answer", list(answers), "it asks for a permission.", next_step="Leave --answer out.")
        return {}
    if len(answers) != len(question.questions):
        wanted = "; ".join(each.text for each in question.questions)
        step = f"Give --answer for each, in order: {wanted}"
        raise BadInput("--answer", list(answers), f"there are {len(question.questions)} questions.", next_step=step)
    return {each.text: text for each, text in zip(question.questions, answers, strict=True)}
