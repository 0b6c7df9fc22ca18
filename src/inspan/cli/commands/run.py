"""Run a task with an agent, and follow it."""

import os
import signal
import sys
from typing import Any

import click
import msgspec

from inspan.cli.durations import Duration
from inspan.engine.plan import prepare
from inspan.engine.start import start
from inspan.errors import BadInput
from inspan.protocol.limits import Limits
from inspan.protocol.task import Profile, Task


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
@click.option("--timeout", type=Duration(), default=600.0, help="Longest the whole run may take. [default: 600s]")
@click.option("--start-timeout", type=Duration(), default=60.0, help="Longest until the first event. [default: 60s]")
@click.option("--idle-timeout", type=Duration(), default=None, help="Longest without any output. [default: off]")
@click.option(
    "--stall-timeout", type=Duration(), default=120.0, help="Longest silence of a model call. [default: 120s]"
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
        _print_id(prepared.plan.run_id, as_json=given.as_json)
        return 0
    # A Ctrl-C from here on is meant for the run; it waits until `following` has taken over.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    # Start-up time: the supervisor is starting already while this loads.
    from inspan.cli.following import follow_as_json, follow_as_text

    follow = follow_as_json if given.as_json else follow_as_text
    return follow(prepared.plan.state, prepared.folder, quiet=given.quiet)


def _task(given: _Given) -> Task:
    return Task(
        prompt=_from_stdin() if given.prompt == "-" else given.prompt,
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


def _from_stdin() -> str:
    return sys.stdin.buffer.read().decode(errors="surrogateescape") if sys.stdin else ""


def _print_id(run_id: str, *, as_json: bool) -> None:
    if as_json:
        # Start-up time: nothing else of this command prints JSON before the run has been started.
        from inspan.cli.output import print_json

        print_json(run_id=run_id)
    else:
        click.echo(run_id)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise BadInput("--env", text, "no NAME=VALUE.", next_step="For example --env LANG=C.")
    return name, value


def _absolute(model_from: str) -> str:
    kind, colon, path = model_from.partition(":")
    return f"{kind}:{os.path.abspath(path)}" if colon and path else model_from
