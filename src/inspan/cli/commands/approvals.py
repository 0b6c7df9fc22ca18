"""Show what waits for an answer, and what was allowed for good."""

import sys
import time

import click

from inspan.cli.output import Column, find_width, format_duration, format_table, one_line, print_json, print_words
from inspan.contracts.permissions import KeptApproval, subject_of
from inspan.contracts.tool_grants import split_pattern
from inspan.errors import BadInput
from inspan.protocol.events import PermissionAsked
from inspan.runs.names import name_runs
from inspan.runs.projects import current_scope
from inspan.runs.questions import AskedQuestion, list_questions
from inspan.stores.approvals import StoredApproval, list_approvals, revoke_approval
from inspan.stores.paths import state_home

_COLUMNS = (
    Column("ID", lead=True),
    Column("RUN", drop=2),
    Column("SINCE", drop=1),
    Column("TOOL", lead=True),
    Column("WHAT"),  # All of it, in several rows if need be: a yes is to what is seen.
)
_KEPT_COLUMNS = (
    Column("PROJECT", cut="middle", least=12, lead=True),
    Column("ALLOWED FOR GOOD", cut="end", least=16),
    Column("SINCE", drop=1),
)


@click.command()
@click.option("--revoke", metavar="TOOL(SUBJECT)", help="Forget what was allowed for good in this folder's project.")
@click.option("--dry-run", is_flag=True, help="With --revoke, forget nothing, only say what would be.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(revoke: str | None, dry_run: bool, as_json: bool) -> None:
    """Show what waits for an answer, and what was allowed for good.

    `inspan approve ID` and `inspan deny ID` answer; approve --always keeps the answer for the project.
    """
    state = state_home()
    if dry_run and revoke is None:
        raise click.UsageError("--dry-run needs --revoke: nothing else here changes anything.")
    if revoke is not None:
        _revoke(state, revoke, dry_run=dry_run)
    questions, kept = list_questions(state), list_approvals(state)
    if as_json:
        print_json(
            questions=[_to_dict(each) for each in questions],
            kept=[each._asdict() for each in kept],
        )
        return
    width = find_width(sys.stdout)
    if questions or not kept:
        names = name_runs(state, [each.folder.run_id for each in questions])
        cells = [_cells(each, names[each.folder.run_id]) for each in questions]
        sys.stdout.write(format_table(_COLUMNS, cells, width=width) + "\n")
    if not questions:
        print_words("inspan: nothing waits for an answer", err=True)
    if kept:
        gap = "\n" if questions else ""
        sys.stdout.write(gap + format_table(_KEPT_COLUMNS, [_format_kept(each) for each in kept], width=width) + "\n")


def _revoke(state: str, pattern: str, *, dry_run: bool) -> None:
    tool, subject = split_pattern(pattern)
    project = current_scope().project
    if dry_run:
        found = any(
            (each.project, each.tool, each.subject) == (project, tool, subject) for each in list_approvals(state)
        )
    else:
        found = revoke_approval(state, project, KeptApproval(tool=tool, subject=subject))
    if not found:
        step = "`inspan approvals` shows what is kept, as TOOL(SUBJECT); change to the folder of its project."
        raise BadInput("--revoke", pattern, f"nothing like it is kept for project {project}.", next_step=step)
    if dry_run:
        click.echo(f"{one_line(pattern)} would be forgotten for project {project}", err=True)


def _cells(asked: AskedQuestion, name: str) -> tuple[str, ...]:
    ago = format_duration(time.time() - asked.asked_at)
    return (asked.question.id, name, ago, *_describe(asked))


def _describe(asked: AskedQuestion) -> tuple[str, str]:
    question = asked.question
    if isinstance(question, PermissionAsked):
        return question.tool, subject_of(question.input)
    return "question", " / ".join(each.text for each in question.questions)


def _to_dict(asked: AskedQuestion) -> dict[str, object]:
    return {"run_id": asked.folder.run_id, "asked_at": asked.asked_at, "question": asked.question}


def _format_kept(kept: StoredApproval) -> tuple[str, ...]:
    return kept.project, f"{kept.tool}({kept.subject})", format_duration(time.time() - kept.at)
