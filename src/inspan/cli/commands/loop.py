"""Run a task again and again until it is done: by checks, a second opinion or a file."""

import os
import signal
from collections.abc import Mapping
from typing import Any

import click
import msgspec

from inspan.cli.commands.run import command as run_command
from inspan.cli.commands.run import name_budgets, read_task, report_id
from inspan.cli.counts import Count
from inspan.cli.durations import Duration
from inspan.cli.follow import stop_on_signals
from inspan.cli.follow_loop import follow_loop
from inspan.cli.inside_run import wait_if_inside
from inspan.cli.lost_work import report_lost
from inspan.cli.run_names import AgentName
from inspan.cli.start_run import ENDINGS
from inspan.errors import BadInput
from inspan.loop.prepare import prepare_loop
from inspan.loop.start import start_loop
from inspan.planning.places import find_origin
from inspan.planning.settings import load_config
from inspan.protocol.loop import LoopPolicy, Until
from inspan.protocol.reasons import REASONS
from inspan.protocol.task import Task

_HELP = """Run a task again and again until it is done.

It is done once a run of it completed, every --check passes, and the agent of --verify agrees; with --until done-file,
once its agent says so in a file, too. Until then the agent is told what is missing and goes on in its session. The loop
has a process of its own: closing this command does not end it, Ctrl-C does. `ps`, `logs -f`, `show`, `wait` and `stop`
take it as they take a run. A budget is for all of its runs together.
"""
_NOT_HERE = ("keep_open", "idle_close", "schema", "fork")
_UNTIL: dict[str, Until] = {"completed": "completed", "done-file": "done_file"}
_OWN = (
    click.Option(
        ["--until"], type=click.Choice(list(_UNTIL)), default="completed", show_default=True, help="What ends a run."
    ),
    click.Option(["--check"], multiple=True, metavar="COMMAND", help="A command that must pass; repeatable."),
    click.Option(["--check-timeout"], type=Duration(), help="Longest that a check may take. [default: 600s]"),
    click.Option(["--verify"], type=AgentName(), help="An agent that must agree that the task is done."),
    click.Option(["--agents"], metavar="A,B", help="Agents in order: the next takes over while one is rate limited."),
    click.Option(["--max-restarts"], type=Count(), help="Most restarts. [default: 100]"),
    click.Option(["--max-time"], type=Duration(), help="Longest for the whole loop. [default: off]"),
    click.Option(["--no-progress"], type=Count(), help="End after so many attempts without any change. [default: 3]"),
    click.Option(["--delay"], type=Duration(), help="Wait before a restart; longer after failures. [default: 1s]"),
    click.Option(["--fresh"], is_flag=True, help="A new session for each attempt."),
)


def _loop(**options: Any) -> int:
    context = click.get_current_context()
    own = {param.name: options.pop(param.name) for param in _OWN if param.name}
    left_out: dict[str, Any] = {"keep_open": False, "idle_close": None, "schema": None, "fork": False}
    task, explicit = read_task(context, {**options, **left_out})
    policy, task = _build_policy(own, task)
    prepared = prepare_loop(task, policy, explicit=explicit)
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)  # From here on, a signal is meant for the loop.
    start_loop(prepared)
    if not (options["as_json"] or options["quiet"]):
        report_lost(prepared.plan.state)
    if options["detach"]:
        report_id(prepared.plan.run_id, as_json=options["as_json"])
        return wait_if_inside(prepared.plan.state, prepared.folder)
    stop_on_signals(prepared.folder)
    ended = follow_loop(
        prepared.plan.state,
        prepared.folder,
        as_json=options["as_json"],
        quiet=options["quiet"],
        verbose=options["verbose"],
    )
    return REASONS[ended.reason].exit_code


def _build_policy(own: Mapping[str, Any], task: Task) -> tuple[LoopPolicy, Task]:
    """The rules that these options say; a budget without a name is for the loop, which has a task of its own."""
    agents = _read_agents(own["agents"], task.agent)
    settings = load_config(find_origin(task.cwd, os.environ), os.environ).settings.loop
    given: dict[str, Any] = {
        "max_restarts": own["max_restarts"] if own["max_restarts"] is not None else settings.max_restarts,
        "no_progress": own["no_progress"],
        "delay_s": own["delay"] if own["delay"] is not None else settings.delay_s,
        "check_timeout_s": own["check_timeout"],
    }
    policy = LoopPolicy(
        until=_UNTIL[own["until"]],
        checks=own["check"],
        verify=own["verify"] or "",
        agents=agents,
        fresh=own["fresh"],
        time_limit_s=own["max_time"],
        rate_limit_backoff_s=settings.rate_limit_backoff_s,
        **{name: value for name, value in given.items() if value is not None},
    )
    budgets = name_budgets(task.budgets)
    return policy, msgspec.structs.replace(task, agent=task.agent or next(iter(agents), ""), budgets=budgets)


def _read_agents(text: str | None, agent: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",")) if text is not None else ()
    if not all(names):
        raise BadInput("--agents", text, "a name is missing.", next_step="For example --agents ONE,OTHER.")
    if agent and names and names[0] != agent:
        step = "Name the agents with --agents alone."
        raise BadInput("--agent", agent, f"--agents begins with {names[0]}.", next_step=step)
    return names


command = click.Command(
    "loop",
    callback=_loop,
    params=[*(each for each in run_command.params if each.name not in _NOT_HERE), *_OWN],
    help=_HELP,
    short_help=_HELP.partition("\n")[0],
)
