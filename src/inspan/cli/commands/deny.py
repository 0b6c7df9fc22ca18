"""Refuse what an agent asks for; it goes on without it."""

import click

from inspan.cli.output import print_json
from inspan.protocol.commands import Answer
from inspan.runs.control_client import command_session
from inspan.runs.questions import match_question
from inspan.stores.paths import state_home


@click.command()
@click.argument("question", metavar="ID")
@click.option("--why", default="the user said no", help="What the agent is told.", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(question: str, why: str, as_json: bool) -> None:
    """Refuse what an agent asks for; it goes on without it.

    ID is that of the question, or its beginning, or RUN/ID: `inspan approvals` lists them.
    """
    asked = match_question(state_home(), question)
    answer = Answer(id=asked.question.id, allowed=False, reason=why)
    command_session(asked.folder, answer)
    if as_json:
        print_json(run_id=asked.folder.run_id, id=asked.question.id, allowed=False)
    else:
        click.echo(f"{asked.question.id} denied")
