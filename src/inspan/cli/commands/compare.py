"""Compare agents on tasks of this repository, by checks."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from inspan.cli.commands.run import command as run_command
from inspan.cli.commands.run import name_budgets, read_budgets, read_task
from inspan.cli.durations import Duration
from inspan.cli.lost_work import report_lost
from inspan.cli.output import Column, format_table
from inspan.compare.page import build_page, describe_untracked, format_mean, format_total_cost
from inspan.compare.prepare import find_passed_before, prepare_comparison
from inspan.compare.standings import Standing, find_winner, rank
from inspan.compare.store import CompareStore, create_store, open_store
from inspan.compare.tasks import read_tasks
from inspan.compare.values import CellResult, CellStarted, CompareTask, Comparison
from inspan.compare.worker import CompareWorker
from inspan.errors import BadInput, InspanError
from inspan.protocol.loop import LoopPolicy
from inspan.protocol.task import Task
from inspan.redaction import Gate
from inspan.reporters.costs import format_cost_cell, format_count
from inspan.reporters.text import one_line
from inspan.reporters.width import find_width
from inspan.runs.find import find_run_folder
from inspan.stores.git import SnapshotError
from inspan.stores.paths import state_home
from inspan.stores.run_folder import write_text
from inspan.stores.snapshot import patch_between
from inspan.system.atomic_file import replace_file

_HELP = """Compare agents on tasks of this repository.

Each agent gets the same task in a git worktree of its own that begins at the same commit; what it did counts once every
--check passes. Several are at it at a time; a budget is for each of them. `ps`, `logs -f` and `stop` take the loop that
each cell is. Stopped or killed, the comparison goes on with --resume: what has ended is not run again.
"""
_NOT_HERE = (
    *("agent", "keep_open", "idle_close", "schema", "fork", "resume", "continue_last", "detach", "name", "task"),
    *("as_json", "quiet", "verbose", "mode"),
)
# What may be said anew of a comparison that goes on.
_WITH_RESUME = ("resumed", "jobs", "report", "as_json", "budget")
_LEFT_OUT: dict[str, Any] = {
    "agent": None,
    "keep_open": False,
    "idle_close": None,
    "schema": None,
    "fork": False,
    "resume": "",
    "continue_last": False,
    "detach": True,
    "name": "",
    "task": "default",
    "mode": None,
    "as_json": False,
    "quiet": False,
    "verbose": False,
}
_OWN = (
    click.Option(["-a", "--agents"], metavar="A,B,…", help="The agents; `inspan agents` lists them."),
    click.Option(["--check"], multiple=True, metavar="COMMAND", help="A command that must pass; repeatable."),
    click.Option(["--check-timeout"], type=Duration(), help="Longest that a check may take. [default: 600s]"),
    click.Option(["--tasks"], metavar="PATH", help="A folder of tasks, or a file of SWE-bench instances."),
    click.Option(
        ["--start"], default="", metavar="COMMIT", help="Where the task begins. [default: HEAD, all committed]"
    ),
    click.Option(["--times"], type=int, default=1, show_default=True, help="How often each agent tries each task."),
    click.Option(["--jobs"], type=int, help="How many at a time. [default: one for each processor]"),
    click.Option(["--max-restarts"], type=int, default=0, show_default=True, help="Further attempts after a check."),
    click.Option(["--report"], metavar="FILE", help="Where the HTML page goes. [default: beside the results]"),
    click.Option(["--resume", "resumed"], metavar="ID", help="Go on with this comparison, or @last."),
    click.Option(["--json", "as_json"], is_flag=True, help="One JSON line for each cell as it ends."),
)
_COLUMNS = (
    Column("AGENT", lead=True),
    Column("PASSED", lead=True),
    Column("ATTEMPTS", drop=3, named=True),
    Column("WALL"),
    Column("TOKENS", drop=5, named=True),
    Column("COST", drop=7),
    Column("PER ACCEPTED", drop=6, named=True),
    Column("LINES", drop=4, named=True),
    Column("FILES", drop=2, named=True),
    Column("DENIED", drop=1, named=True),
)


def _compare(**options: Any) -> int:
    state, env = state_home(), dict(os.environ)
    own = {param.name: options.pop(param.name) for param in _OWN if param.name}
    _refuse_contradictions(own)
    if own["resumed"]:
        _refuse_changes(click.get_current_context(), {**own, **options})
        store = open_store(state, own["resumed"], env=env)
    else:
        store = _create(own, options, state=state, env=env)
    try:
        if own["resumed"]:
            store.comparison = _add_budgets(store.comparison, options["budget"])
        return asyncio.run(_run(store, own, state=state, env=env))
    finally:
        store.close()


def _refuse_contradictions(own: Mapping[str, Any]) -> None:
    if own["jobs"] is not None and own["jobs"] < 1:
        raise BadInput("--jobs", own["jobs"], "nothing would ever run.", next_step="Give 1 or more, or leave it out.")
    if own["tasks"] and own["start"]:
        step = "Write `start` into the files, or leave one of them out."
        raise BadInput("--start", own["start"], "the tasks of --tasks have their own.", next_step=step)


def _refuse_changes(context: click.Context, given: Mapping[str, Any]) -> None:
    for param in context.command.params:
        is_said = param.name and context.get_parameter_source(param.name) is ParameterSource.COMMANDLINE
        if is_said and param.name not in _WITH_RESUME:
            field = param.opts[-1] if isinstance(param, click.Option) else "PROMPT"
            problem = "a comparison that goes on is the one that was asked for."
            step = "Leave it out, or start a new one without --resume."
            raise BadInput(field, given[str(param.name)], problem, next_step=step)


def _add_budgets(comparison: Comparison, given: tuple[str, ...]) -> Comparison:
    """With these in the place of what was asked for: a larger one helps where it kept cells from being run."""
    task = comparison.task
    more = name_budgets(read_budgets(given))
    task = msgspec.structs.replace(task, budgets={**task.budgets, **more})
    return msgspec.structs.replace(comparison, task=task)


def _create(own: Mapping[str, Any], options: Mapping[str, Any], *, state: str, env: dict[str, str]) -> CompareStore:
    task, explicit = read_task(click.get_current_context(), {**options, **_LEFT_OUT})
    policy = LoopPolicy(max_restarts=own["max_restarts"], no_progress=0)
    if own["check_timeout"] is not None:
        policy = msgspec.structs.replace(policy, check_timeout_s=own["check_timeout"])
    comparison = prepare_comparison(
        msgspec.structs.replace(task, budgets=name_budgets(task.budgets)),
        policy,
        tasks=_read_tasks(own, task),
        agents=_read_agents(own["agents"]),
        times=own["times"],
        explicit=explicit,
        env=env,
        jobs=own["jobs"] or 0,
    )
    return create_store(state, comparison, env=env)


def _read_tasks(own: Mapping[str, Any], task: Task) -> Sequence[CompareTask]:
    if own["tasks"]:
        if task.prompt:
            step = "Leave one of them out."
            raise BadInput("PROMPT", task.prompt, "the tasks of --tasks have their own.", next_step=step)
        return read_tasks(own["tasks"], cwd=task.cwd, checks=own["check"])
    if not task.prompt.strip():
        step = "inspan compare 'fix the failing test' -a ONE,OTHER --check 'make test'"
        raise BadInput("PROMPT", "", "there is no task.", next_step=f"For example: {step}")
    return [CompareTask(name="task", prompt=task.prompt, cwd=task.cwd, start=own["start"], checks=own["check"])]


def _read_agents(text: str | None) -> list[str]:
    names = [name.strip() for name in (text or "").split(",")]
    if not all(names):
        problem = "a name is missing." if text else "nobody is to be compared."
        raise BadInput("--agents", text or "", problem, next_step="For example -a ONE,OTHER.")
    return names


async def _run(store: CompareStore, own: Mapping[str, Any], *, state: str, env: dict[str, str]) -> int:
    comparison, as_json = store.comparison, own["as_json"]
    store.comparison = comparison = await _look_before(comparison, state=state, env=env)
    worker = CompareWorker(
        store,
        state=state,
        env=env,
        jobs=own["jobs"] or comparison.jobs or os.cpu_count() or 1,
        on_started=lambda started: _show_started(started),
        on_result=lambda result: _show_result(result, gate=store.gate, as_json=as_json),
    )
    click.echo(f"inspan: comparison {comparison.id}, {format_count(len(comparison.cells), 'cell')}", err=True)
    if not as_json and not own["resumed"]:  # What was lost of its own cells goes on by itself.
        report_lost(state)
    try:
        await worker.run()
    except asyncio.CancelledError:
        click.echo(f"inspan: stopped; `inspan compare --resume {comparison.id}` goes on", err=True)
        raise
    _show_all(store, state=state, report=own["report"], as_json=as_json)
    if count := sum(bool(each.problem) for each in store.list_results()):
        what = "1 cell was" if count == 1 else f"{count} cells were"
        click.echo(f"inspan: {what} not judged; `inspan compare --resume {comparison.id}` tries that again", err=True)
    return 1 if count else 0


async def _look_before(comparison: Comparison, *, state: str, env: dict[str, str]) -> Comparison:
    """With the checks that pass before anything was done, of which somebody should know before paying for more."""
    tasks: list[CompareTask] = []
    for words in describe_untracked(comparison.tasks):
        click.echo(f"inspan: {words}", err=True)
    for task in comparison.tasks:
        passed = await find_passed_before(task, comparison, state=state, env=env)
        for check in passed:
            said = f"{task.name}: `{one_line(check)}` passes before anything was done: that it passes proves nothing"
            click.echo(f"inspan: {said}", err=True)
        if not task.checks:
            click.echo(f"inspan: {task.name}: without --check, an agent passes by saying that it is done", err=True)
        tasks.append(msgspec.structs.replace(task, passed_before=tuple(passed)))
    return msgspec.structs.replace(comparison, tasks=tuple(tasks))


def _show_started(started: CellStarted) -> None:
    click.echo(f"▸ {started.task} · {started.agent} {started.repeat} · loop {started.loop}", err=True)


def _show_result(result: CellResult, *, gate: Gate, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(gate.encode_event(result).decode() + "\n")
        sys.stdout.flush()
    glyph = "✔ passed" if result.passed else "– not judged" if result.problem else "✘ not passed"
    why = "" if result.passed else f" · {one_line(result.problem or result.message or result.reason)}"
    said = f"{result.wall_s:.1f} s · {format_cost_cell(result.cost)}"
    click.echo(f"{glyph} · {result.task} · {result.agent} {result.repeat} · {said}{why}", err=True)


def _show_all(store: CompareStore, *, state: str, report: str | None, as_json: bool) -> None:
    comparison, results = store.comparison, store.list_results()
    if not as_json:
        rows = [_build_row(each) for each in rank(results, comparison.agents)]
        sys.stdout.write(format_table(_COLUMNS, rows, width=find_width(sys.stdout)) + "\n")
    path = report or os.path.join(store.path, "report.html")
    page = build_page(comparison, results, _read_patches(state, results), gate=store.gate)
    if report:
        _write_report(path, page)
    else:
        write_text(path, page)
    click.echo(f"results: {store.results_path}\nreport:  {path}", err=True)
    for task in comparison.tasks:
        if winner := find_winner(results, comparison.agents, task=task.name):
            commands = " && ".join(f"inspan apply {run}" for run in winner.runs)
            click.echo(f"{task.name}: {winner.agent} did it best. To take its changes: {commands}", err=True)
            if winner.ignored:
                what = "1 file or folder" if winner.ignored == 1 else f"{winner.ignored} files or folders"
                click.echo(f"{task.name}: git ignores {what} that its checks could use, and apply leaves out", err=True)


def _write_report(path: str, page: str) -> None:
    try:
        replace_file(path, page.encode())
    except OSError as error:
        step = "The results are stored; name another file with --resume and --report."
        raise BadInput("--report", path, f"it cannot be written: {error.strerror}.", next_step=step) from error


def _build_row(standing: Standing) -> tuple[str, ...]:
    usage, rate = standing.usage, standing.rate
    sure = "" if rate.low is None or rate.high is None else f" ({rate.low * 100:.0f}–{rate.high * 100:.0f} %)"
    return (
        standing.agent + (f" ({standing.problems} not judged)" if standing.problems else ""),
        f"{standing.passed}/{standing.cells}{sure}",
        format_mean(standing.attempts, digits=1),
        format_mean(standing.wall_s, digits=1, unit=" s"),
        f"{usage.input + usage.cache_read + usage.cache_write + usage.output:,}",
        format_total_cost(standing),
        "–" if standing.per_accepted is None else format_cost_cell(standing.per_accepted),
        format_mean(standing.lines, digits=0),
        format_mean(standing.files, digits=1),
        str(standing.denied_calls),
    )


def _read_patches(state: str, results: Sequence[CellResult]) -> dict[str, str]:
    patches: dict[str, str] = {}
    for run in (run for result in results for run in result.runs):
        try:
            folder = find_run_folder(state, run)
            patches[run] = b"".join(patch_between(folder.path)).decode(errors="replace")
        except (InspanError, SnapshotError):
            continue  # What was deleted since is not shown.
    return patches


command = click.Command(
    "compare",
    callback=_compare,
    params=[*(each for each in run_command.params if each.name not in _NOT_HERE), *_OWN],
    help=_HELP,
    short_help=_HELP.partition("\n")[0],
)
