"""Run a task with an agent, and follow it."""

import os
import re
import sys

import click

from inspan.cli.console import Console
from inspan.cli.exit_codes import of_run
from inspan.cli.following import print_record, stop_on_signals, watch
from inspan.engine.plan import prepare
from inspan.engine.supervisor import start
from inspan.errors import BadInput
from inspan.folds.summary import Summary
from inspan.protocol.events import RunEnded
from inspan.protocol.limits import Limits
from inspan.protocol.task import Task
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


def _timeout(name: str, default: float | None, text: str) -> "click.decorators.FC":  # pyright: ignore[reportPrivateImportUsage]
    shown = "off" if default is None else f"{default:g}s"
    return click.option(name, type=_Duration(), default=default, help=f"{text} [default: {shown}]")  # pyright: ignore[reportReturnType]


@click.command()
@click.argument("prompt")
@click.option("-a", "--agent", default="", help="Which agent; `inspan agents` lists them.")
@click.option("-C", "--cwd", default=".", help="The working folder.")
@click.option("-m", "--model", default="", help="The model, as the agent calls it.")
@click.option("--model-from", default="", metavar="script:FILE", help="Answer the model calls from a scenario file.")
@click.option("--sandbox", default="", help="none or bwrap. [default: none; bwrap where the agent needs it as root]")
@click.option("--profile", type=click.Choice(["user", "clean"]), help="Whose settings. [default: user; clean under CI]")
@_timeout("--timeout", 600.0, "Longest the whole run may take.")
@_timeout("--start-timeout", 60.0, "Longest until the first event.")
@_timeout("--idle-timeout", None, "Longest without any output.")
@_timeout("--stall-timeout", 120.0, "Longest silence of a model call.")
@click.option("--project", default="", help="Project name. [default: from the git repository]")
@click.option("--task", default="default", help="Task name.", show_default=True)
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable for the agent; repeatable.")
@click.option("--partial", is_flag=True, help="Also record text piece by piece, where the agent streams it.")
@click.option("-d", "--detach", is_flag=True, help="Print the run id and leave.")
@click.option("--json", "as_json", is_flag=True, help="Print every event as a line of JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the answer.")
def command(
    prompt: str,
    agent: str,
    cwd: str,
    model: str,
    model_from: str,
    sandbox: str,
    profile: str | None,
    timeout: float | None,
    start_timeout: float | None,
    idle_timeout: float | None,
    stall_timeout: float | None,
    project: str,
    task: str,
    env: tuple[str, ...],
    partial: bool,
    detach: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Run a task with an agent, and follow it. PROMPT of - reads it from stdin.

    The run belongs to a supervisor of its own: closing this command does not end it, Ctrl-C does.
    """
    wanted = Task(
        prompt=sys.stdin.read() if prompt == "-" else prompt,
        cwd=os.path.realpath(cwd),
        agent=agent,
        model=model,
        model_from=_absolute(model_from),
        sandbox=sandbox,
        profile="clean" if (profile or ("clean" if os.environ.get("CI") else "user")) == "clean" else "user",
        project=project,
        task=task,
        env=dict(_pair(each) for each in env),
        partial=partial,
        limits=Limits(
            timeout_s=timeout,
            start_timeout_s=start_timeout,
            idle_timeout_s=idle_timeout,
            stall_timeout_s=stall_timeout,
        ),
    )
    prepared = prepare(wanted)
    start(prepared)
    if detach:
        click.echo(prepared.plan.run_id)
        return 0
    stop_on_signals(prepared.folder)
    if as_json:
        return of_run(watch(prepared.plan.state, prepared.folder, show=print_record))
    return _follow_as_text(prepared.plan.state, prepared.folder, quiet=quiet)


def _follow_as_text(state: str, folder: RunFolder, *, quiet: bool) -> int:
    console, summary = Console(), Summary()

    def show(record: Record) -> None:
        summary.add(record.event)
        if not quiet or isinstance(record.event, RunEnded) and record.event.outcome != "completed":
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
