"""Run a task that is a graph of nodes: commands, agents, checks and people."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

import click
import msgspec

from inspan.blueprints.drawing import describe_node, draw_lines, draw_svg
from inspan.blueprints.files import list_ready, read_blueprint
from inspan.blueprints.follow import follow_blueprint
from inspan.blueprints.graph import Graph, build_graph, complete_inputs, kind_of
from inspan.blueprints.prepare import PreparedBlueprint, check_blueprint, check_jobs, prepare_blueprint
from inspan.blueprints.process import start_blueprint
from inspan.blueprints.recover import prepare_resumed
from inspan.blueprints.report import build_report_page, format_report, load_report, to_dict
from inspan.cli.commands.run import command as run_command
from inspan.cli.commands.run import name_budgets, read_budgets, read_task, report_id
from inspan.cli.console import LINES
from inspan.cli.follow import print_record, stop_on_signals
from inspan.cli.inside_run import wait_if_inside
from inspan.cli.lost_work import report_lost
from inspan.cli.output import format_columns, print_json
from inspan.cli.run_names import RunName, print_run
from inspan.cli.start_run import ENDINGS
from inspan.contracts.reporter import Reporter
from inspan.errors import BadInput, RunNotFound
from inspan.planning.environment import collect_secrets
from inspan.protocol.blueprint import Blueprint
from inspan.protocol.reasons import REASONS
from inspan.protocol.task import Task
from inspan.redaction import Gate, SecretSet
from inspan.reporters.console import ConsoleReporter
from inspan.reporters.quiet import QuietReporter
from inspan.reporters.text import one_line
from inspan.runs.find import find_run_folder
from inspan.runs.projects import LAST, current_scope
from inspan.runs.relations import read_relation
from inspan.runs.works import find_last_work
from inspan.stores.paths import state_home
from inspan.stores.run_folder import RunFolder
from inspan.system.atomic_file import replace_file

_JOBS = 4
# What a node says for itself, or what a graph has no use for.
_NOT_HERE = (
    *("prompt", "mode", "resume", "continue_last", "fork", "schema", "attach", "ask", "answer_timeout", "keep_open"),
    *("idle_close", "system_prompt", "append_system_prompt", "allow_tool", "deny_tool", "effort", "channel"),
)
_LEFT_OUT: dict[str, Any] = {
    **dict.fromkeys(("mode", "schema", "answer_timeout", "idle_close", "system_prompt", "append_system_prompt")),
    **dict.fromkeys(("prompt", "resume", "channel"), ""),
    **dict.fromkeys(("attach", "ask", "allow_tool", "deny_tool"), ()),
    **dict.fromkeys(("continue_last", "fork", "keep_open"), False),
    "effort": None,
    "detach": True,
    **dict.fromkeys(("quiet", "verbose"), False),
}
_BLUEPRINT = click.Argument(["blueprint"], metavar="BLUEPRINT")
_INPUT = click.Option(["-i", "--input", "inputs"], multiple=True, metavar="NAME=VALUE", help="An input; repeatable.")
_OWN = (
    _BLUEPRINT,
    _INPUT,
    click.Option(["--jobs"], type=int, default=_JOBS, show_default=True, help="How many nodes at a time."),
)
_RUN_OPTIONS = [each for each in run_command.params if each.name not in _NOT_HERE]
_OUTPUT = ("detach", "as_json", "quiet", "verbose")


@click.group()
def command() -> None:
    """Run a task that is a graph of nodes: commands, agents, checks and people.

    A BLUEPRINT is a file in TOML, a file of Python that defines BLUEPRINT, or one that comes with inspan (`list`).
    `ps`, `logs -f`, `wait`, `stop` and `approve` take a blueprint that runs as they take a run.
    """


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def list_command(as_json: bool) -> None:
    """The blueprints that come with inspan, and their inputs."""
    found = list_ready()
    if as_json:
        print_json(blueprints=found)
        return
    rows = [(name, ", ".join(_describe_inputs(each)) or "-", one_line(each.about)) for name, each in found.items()]
    click.echo(format_columns(("BLUEPRINT", "INPUTS", "WHAT IT DOES"), rows))


def _run(**options: Any) -> int:
    own = {param.name: options.pop(param.name) for param in _OWN if param.name}
    blueprint = read_blueprint(own["blueprint"])
    task, explicit = read_task(click.get_current_context(), {**_LEFT_OUT, **options})
    prepared = prepare_blueprint(
        blueprint,
        _name_budgets(task),
        inputs=_parse_inputs(own["inputs"]),
        explicit=explicit,
        jobs=own["jobs"],
        env=dict(os.environ),
    )
    return _start(prepared, {name: options[name] for name in _OUTPUT})


def _start(prepared: PreparedBlueprint, output: Mapping[str, Any]) -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)  # From here on, a signal is meant for the blueprint.
    start_blueprint(prepared)
    if not (output["as_json"] or output["quiet"]):
        report_lost(prepared.plan.state)
    if output["detach"]:
        report_id(prepared.plan.run_id, as_json=output["as_json"])
        return wait_if_inside(prepared.plan.state, prepared.folder)
    stop_on_signals(prepared.folder)
    return _follow(prepared.plan.state, prepared.folder, output)


def _follow(state: str, folder: RunFolder, output: Mapping[str, Any]) -> int:
    if not (output["as_json"] or output["quiet"]):
        click.echo(f"blueprint {folder.run_id}", err=True)
    show: Callable[[Any], None] = print_record if output["as_json"] else (lambda record: None)
    ended = asyncio.run(follow_blueprint(state, folder, _choose_reporter(output), on_record=show))
    if not output["as_json"] and ended.message:
        click.echo(f"inspan: {one_line(ended.message)}", err=True)
        if ended.next:
            click.echo(f"  → {ended.next.replace('RUN', str(folder.run_id))}", err=True)
    return REASONS[ended.reason].exit_code


def _choose_reporter(output: Mapping[str, Any]) -> Reporter | None:
    if output["as_json"]:
        return None
    return QuietReporter() if output["quiet"] else ConsoleReporter(lines=None if output["verbose"] else LINES)


def _plan(**options: Any) -> None:
    """What would run, in order, once everything was found to be right; nothing is started."""
    own = {param.name: options.pop(param.name) for param in _OWN if param.name}
    blueprint = read_blueprint(own["blueprint"])
    task, explicit = read_task(click.get_current_context(), {**_LEFT_OUT, **options})
    inputs = complete_inputs(blueprint, _parse_inputs(own["inputs"]))
    check_jobs(own["jobs"])
    graph = check_blueprint(blueprint, _name_budgets(task), inputs=inputs, explicit=explicit, env=dict(os.environ))
    if options["as_json"]:
        print_json(order=graph.order, needs=graph.needs, nodes=_nodes_to_dict(graph), inputs=inputs)
        return
    click.echo("\n".join(draw_lines(graph, {})))


@command.command("show")
@click.argument("blueprint", metavar="BLUEPRINT|RUN", default="@last")
@click.option("--svg", metavar="FILE", help="The graph as a picture; - is stdout.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def show_command(blueprint: str, svg: str | None, as_json: bool) -> None:
    """The graph, in the terminal or as SVG; of a blueprint that was run, with what became of each node.

    RUN is a name that `ps` shows, an id, or @last: the last blueprint of this folder's project.
    """
    graph, statuses = _find_graph(blueprint)
    if svg:
        _write(svg, draw_svg(graph, statuses), field="--svg")
    elif as_json:
        print_json(order=graph.order, needs=graph.needs, nodes=_nodes_to_dict(graph), statuses=statuses)
    else:
        for name, given in graph.blueprint.inputs.items():
            default = "" if given.default is None else f" [default: {given.default}]"
            click.echo(f"input {name}{default}  {given.about}".rstrip())
        click.echo("\n".join(draw_lines(graph, statuses)))


@command.command("report")
@click.argument("run", default="@last", type=RunName())
@click.option("--html", metavar="FILE", help="One page with timeline, changes and cost; - is stdout.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def report_command(run: str, html: str | None, as_json: bool) -> None:
    """What a blueprint came to: text, JSON, or one HTML page. It can be made again at any time.

    RUN is a name that `ps` shows, an id, or @last: the last blueprint of this folder's project.
    """
    state = state_home()
    folder = _pick_blueprint(state, run, as_json=as_json)
    report, graph, statuses = load_report(state, folder)
    if html:
        gate = Gate(SecretSet.get_shared(collect_secrets(os.environ, credentials=(), token="")))
        _write(html, build_report_page(state, report, graph, statuses, gate=gate), field="--html")
    elif as_json:
        print_json(**to_dict(report))
    else:
        click.echo(format_report(report), nl=False)


@command.command("resume")
@click.argument("run", default="@last", type=RunName("ended"))
@click.option("--budget", multiple=True, metavar="[NODE=]LIMIT", help="In place of its own, where that was spent.")
@click.option("-d", "--detach", is_flag=True, help="Print the id and return.")
@click.option("--json", "as_json", is_flag=True, help="Its own records as JSON lines.")
@click.option("-q", "--quiet", is_flag=True, help="Only failures.")
@click.option("-v", "--verbose", is_flag=True, help="All output of tools.")
def resume_command(run: str, budget: tuple[str, ...], **output: Any) -> int:
    """Go on with a blueprint that failed, was stopped or was lost: nodes that have finished are not run again."""
    state = state_home()
    folder = _pick_blueprint(state, run, as_json=output["as_json"])
    budgets = name_budgets(read_budgets(budget))
    return _start(prepare_resumed(state, folder, env=dict(os.environ), budgets=budgets), output)


def _find_graph(name: str) -> tuple[Graph, dict[str, str]]:
    """That of a file or of one that comes with inspan; else of a run with that name."""
    try:
        blueprint = read_blueprint(name)
    except BadInput as error:
        if os.path.lexists(name):
            raise
        state = state_home()
        try:
            folder = _pick_blueprint(state, name, as_json=False)
        except RunNotFound:
            raise error from None
        _, graph, statuses = load_report(state, folder)
        return graph, statuses
    # Inputs that nobody gave stand for themselves.
    stand_ins = {name: each.default or f"<{name}>" for name, each in blueprint.inputs.items()}
    return build_graph(blueprint, stand_ins), {}


def _pick_blueprint(state: str, name: str, *, as_json: bool) -> RunFolder:
    """The run of this name, or the blueprint that it belongs to; `@last` is the last blueprint, whatever was started
    since."""
    folder = find_last_work(state, "blueprint", scope=current_scope()) if name == LAST else find_run_folder(state, name)
    while parent := read_relation(folder, "parent"):
        folder = find_run_folder(state, parent)
    if name.startswith("@") and not as_json:
        print_run(folder)
    return folder


def _describe_inputs(blueprint: Blueprint) -> list[str]:
    return [name if each.default is None else f"[{name}]" for name, each in blueprint.inputs.items()]


def _nodes_to_dict(graph: Graph) -> dict[str, Any]:
    nodes = graph.blueprint.nodes
    return {name: {"kind": kind_of(nodes[name]), "does": describe_node(nodes[name])} for name in graph.order}


def _parse_inputs(texts: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise BadInput("--input", text, "it has no name.", next_step="For example --input check='pytest -q'.")
        if name in found:
            raise BadInput("--input", text, f"{name} is given twice.", next_step="Leave one of them out.")
        found[name] = value
    return found


def _name_budgets(task: Task) -> Task:
    return msgspec.structs.replace(task, budgets=name_budgets(task.budgets))


def _write(path: str, text: str, *, field: str) -> None:
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        replace_file(path, text.encode())
    except OSError as error:
        problem = f"it cannot be written: {error.strerror}."
        raise BadInput(field, path, problem, next_step="Name another file.") from error
    click.echo(path, err=True)


command.add_command(
    click.Command(
        "run",
        callback=_run,
        params=[*_OWN, *_RUN_OPTIONS],
        help="""Run a blueprint to its end.

        What a node does not say for itself is as the options here say, else as the configuration says. Each agent is
        a loop; a budget is for all of them together. Closing this command does not end it, Ctrl-C does.
        """,
        short_help="Run a blueprint to its end.",
    )
)
command.add_command(
    click.Command(
        "plan",
        callback=_plan,
        params=[*_OWN, *(each for each in _RUN_OPTIONS if each.name not in ("detach", "quiet", "verbose"))],
        help="What would run, in order, once everything was found to be right; nothing is started.",
    )
)
