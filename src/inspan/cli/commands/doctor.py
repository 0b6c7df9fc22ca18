"""Check what works on this machine."""

import sys
from dataclasses import asdict

import click

from inspan.cli.exit_codes import AGENT, FAILED
from inspan.cli.output import print_json, styled, wants_colour
from inspan.engine.doctor import Finding, blocked, examine, has_agent

_MARKS = {"ok": ("✔", "green"), "warning": ("!", "yellow"), "problem": ("✘", "red")}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(as_json: bool) -> int:
    """Check what works on this machine: folders, helper programs, containment, each agent and its login."""
    findings = examine()
    if as_json:
        print_json(findings=[asdict(each) for each in findings])
        return _code(findings)
    colour = wants_colour(sys.stdout)
    for each in findings:
        mark, style = _MARKS[each.state]
        click.echo(f"{styled(mark, style, colour=colour)} {each.subject}: {each.detail}", color=colour)
        if each.next_step:
            click.echo(f"    → {each.next_step}")
    return _code(findings)


def _code(findings: list[Finding]) -> int:
    if blocked(findings):
        return FAILED
    return 0 if has_agent(findings) else AGENT
