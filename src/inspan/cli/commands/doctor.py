"""Check what works on this machine."""

import sys
from dataclasses import asdict

import click

from inspan.agents.registry import find_driver
from inspan.cli.output import apply_style, print_json, print_words, wants_colour
from inspan.cli.progress import Progress
from inspan.cli.run_names import AgentName
from inspan.planning.doctor import INSTALL, Finding, examine, has_agent, is_blocked, repair
from inspan.protocol.reasons import AGENT, FAILED
from inspan.reporters.prose import fit_words

_MARKS = {"ok": ("✔", "green"), "warning": ("!", "yellow"), "problem": ("✘", "red")}


@click.command()
@click.argument("agents", nargs=-1, metavar="[AGENT]...", type=AgentName())
@click.option(
    "--fix",
    is_flag=True,
    help="Install what can be installed (the agents named, else the default one), delete what killed programs left.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(agents: tuple[str, ...], fix: bool, as_json: bool) -> int:
    """Check what works on this machine: folders, helper programs, containment, the gateway, each agent and its login.

    With names, only those agents are looked at.
    """
    with Progress("checking") as progress:
        findings = examine(agents=agents, report=progress.show)
    if fix:
        findings = [_fix(each, agents) for each in findings]
    if as_json:
        print_json(findings=[asdict(each) for each in findings])
        return _exit_code(findings, agents)
    colour = wants_colour(sys.stdout)
    for each in findings:
        mark, style = _MARKS[each.state]
        words = fit_words(f"{mark} {each.subject}: {each.detail}", sys.stdout)
        click.echo(apply_style(mark, style, colour=colour) + words.removeprefix(mark), color=colour)
        if each.next_step:
            print_words(f"    → {each.next_step}")
    return _exit_code(findings, agents)


def _fix(finding: Finding, agents: tuple[str, ...]) -> Finding:
    """The finding put right where it can be and was asked for; what others are missing is left alone."""
    wanted = {f"agent {name}" for name in agents} or {f"agent {find_driver('').name}"}
    if not finding.remedy or (finding.remedy.startswith(INSTALL) and finding.subject not in wanted):
        return finding
    with Progress("installing") as progress:
        return repair(finding, report=progress.show_install)


def _exit_code(findings: list[Finding], agents: tuple[str, ...]) -> int:
    if is_blocked(findings):
        return FAILED
    return 0 if has_agent(findings, agents=agents) else AGENT
