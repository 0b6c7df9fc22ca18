"""Run a task with an agent, and follow it."""

import os
import re
import sys
from typing import Any

import click
import msgspec

from inspan.cli.console import Console
from inspan.cli.exit_codes import of_run
from inspan.cli.following import print_record, stop_on_signals, watch
from inspan.engine.plan import prepare
from inspan.engine.start import start
from inspan.errors import BadInput
from inspan.folds.summary import Summary
from inspan.protocol.events import RunEnded
from inspan.protocol.limits import Limits
from inspan.protocol.task import Profile, Task
from inspan.protocol.wire import Record
from inspan.stores.folder import RunFolder

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


class _Duration(click.ParamType[float | None]):
    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        if value in ("off", None):
            return None
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", str(value))
        if not match:
            self.fail(f"{value!r} is no duration: use 90, 90s, 10m, 1h or off.", param, ctx)
        return float(match[1]) * _UNITS[match[2]]


class _Given(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one call, as click collects them."""

    prompt: str
    agent: str
    cwd: str
    model: str
    model_from: str
    sandbox: str
    profile: Profile | None
    timeout: float | None
    start_timeout: float | None
    idle_timeout: float | None
    stall_timeout: float | None
    project: str
    task: str
    env: tuple[str, ...]
    partial: bool
    detach: bool
    as_json: bool
    quiet: bool


@click.command()
@click.argument("prompt")
@click.option("-a", "--agent", default="", help="Which agent; `inspan agents` lists them.")
@click.option("-C", "--cwd", default=".", help="The working folder.")
@click.option("-m", "--model", default="", help="The model, as the agent calls it.")
@click.option("--model-from", default="", metavar="script:FILE", help="Answer the model calls from a scenario file.")
@click.option("--sandbox", default="", help="none or bwrap. [default: none; bwrap where the agent needs it as root]")
@click.option("--profile", type=click.Choice(["user", "clean"]), help="Whose settings. [default: user; clean under CI]")
@click.option("--timeout", type=_Duration(), default=600.0, help="Longest the whole run may take. [default: 600s]")
@click.option("--start-timeout", type=_Duration(), default=60.0, help="Longest until the first event. [default: 60s]")
@click.option("--idle-timeout", type=_Duration(), default=None, help="Longest without any output. [default: off]")
@click.option(
    "--stall-timeout", type=_Duration(), default=120.0, help="Longest silence of a model call. [default: 120s]"
)
@click.option("--project", default="", help="Project name. [default: from the git repository]")
@click.option("--task", default="default", help="Task name.", show_default=True)
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable for the agent; repeatable.")
@click.option("--partial", is_flag=True, help="Also record text piece by piece, where the agent streams it.")
@click.option("-d", "--detach", is_flag=True, help="Print the run id and leave.")
@click.option("--json", "as_json", is_flag=True, help="Print every event as a line of JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the answer.")
def command(**options: Any) -> int:
    """Run a task with an agent, and follow it. PROMPT of - reads it from stdin.

    The run belongs to a supervisor of its own: closing this command does not end it, Ctrl-C does.
    """
    given = _Given(**options)
    prepared = prepare(_task(given))
    start(prepared)
    if given.detach:
        click.echo(prepared.plan.run_id)
        return 0
    stop_on_signals(prepared.folder)
    if given.as_json:
        return of_run(watch(prepared.plan.state, prepared.folder, show=print_record))
    return _follow_as_text(prepared.plan.state, prepared.folder, quiet=given.quiet)


def _task(given: _Given) -> Task:
    return Task(
        prompt=sys.stdin.read() if given.prompt == "-" else given.prompt,
        cwd=os.path.realpath(given.cwd),
        agent=given.agent,
        model=given.model,
        model_from=_absolute(given.model_from),
        sandbox=given.sandbox,
        profile=given.profile or ("clean" if os.environ.get("CI") else "user"),
        project=given.project,
        task=given.task,
        env=dict(_pair(each) for each in given.env),
        partial=given.partial,
        limits=Limits(
            timeout_s=given.timeout,
            start_timeout_s=given.start_timeout,
            idle_timeout_s=given.idle_timeout,
            stall_timeout_s=given.stall_timeout,
        ),
    )


def _follow_as_text(state: str, folder: RunFolder, *, quiet: bool) -> int:
    console, summary = Console(), Summary()

    def show(record: Record) -> None:
        summary.add(record.event)
        if not quiet or (isinstance(record.event, RunEnded) and record.event.outcome != "completed"):
            console.show(record.event)

    ended = watch(state, folder, show=show)
    if quiet or not sys.stdout.isatty():
        click.echo(summary.text)
    return of_run(ended)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise BadInput("--env", text, "no NAME=VALUE.", next_step="For example --env LANG=C.")
    return name, value


def _absolute(model_from: str) -> str:
    kind, colon, path = model_from.partition(":")
    return f"{kind}:{os.path.abspath(path)}" if colon and path else model_from
