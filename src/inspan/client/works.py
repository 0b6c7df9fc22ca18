"""Loops and blueprints of a place: started, and looked at."""

from functools import partial

import msgspec

from inspan.blueprints.drawing import describe_node
from inspan.blueprints.files import list_ready, read_ready
from inspan.blueprints.graph import build_graph, complete_inputs, kind_of
from inspan.blueprints.prepare import prepare_blueprint
from inspan.blueprints.process import start_blueprint
from inspan.blueprints.report import load_report, to_dict
from inspan.errors import BadInput
from inspan.loop.history import load_before
from inspan.loop.prepare import prepare_loop
from inspan.loop.start import start_loop
from inspan.planning.settings import collect_explicit
from inspan.protocol.blueprint import Blueprint
from inspan.protocol.task import Task
from inspan.runs.find import find_run_folder, refresh_run
from inspan.runs.relations import read_relation, read_work
from inspan.stores.event_log import iter_log
from inspan.stores.run_folder import RunFolder
from inspan.system.children import reap

from .place import Place
from .runs import describe_started, resolve_cwd
from .values import (
    BlueprintDetails,
    BlueprintListing,
    BlueprintRequest,
    LoopAttempt,
    LoopDetails,
    LoopRequest,
    NodeInfo,
    Nothing,
    RunName,
    StartedRun,
)


def start_loop_of(place: Place, request: LoopRequest) -> StartedRun:
    """Starts a loop in a process of its own."""
    task = _name_budgets(resolve_cwd(request.task))
    prepared = prepare_loop(task, request.policy, explicit=collect_explicit(task), env=place.env)
    reap(start_loop(prepared))
    return describe_started(prepared.folder.run_id, task)


def get_loop(place: Place, request: RunName) -> LoopDetails:
    """Where a loop stands: its attempts, their checks, and what was said of them."""
    folder = _find_work(place, request.run, "loop")
    summary, live = refresh_run(place.state, folder)
    fold = load_before(place.state, read_relation(folder, "continues"))
    for record in iter_log(folder.log):
        fold.add(record)
    attempts = [
        LoopAttempt(started=each.started, ended=each.ended, checks=list(each.checks), verdicts=list(each.verdicts))
        for each in fold.state.attempts
    ]
    return LoopDetails(run_id=folder.run_id, attempts=attempts, state=live, ended=summary.ended)


def list_blueprints(_: Place, __: Nothing) -> BlueprintListing:
    """The blueprints that come with inspan."""
    return BlueprintListing(blueprints=list_ready())


def start_blueprint_of(place: Place, request: BlueprintRequest) -> StartedRun:
    """Starts a blueprint in a process of its own. A name is that of one that comes with inspan."""
    chosen = _choose_blueprint(request)
    chosen = msgspec.structs.replace(chosen, name=chosen.name or "blueprint")
    task = _name_budgets(msgspec.structs.replace(resolve_cwd(request.task), prompt="blueprint"))
    prepare = partial(prepare_blueprint, chosen, task, inputs=request.inputs, explicit=collect_explicit(task))
    prepared = prepare(jobs=request.jobs, env=place.env)
    reap(start_blueprint(prepared))
    return describe_started(prepared.folder.run_id, task)


def fill_blueprint(request: BlueprintRequest) -> Blueprint:
    """The blueprint with its inputs in their places, as far as these are known before it starts; raises `BadInput`."""
    chosen = _choose_blueprint(request)
    return build_graph(chosen, complete_inputs(chosen, request.inputs)).blueprint


def get_blueprint(place: Place, request: RunName) -> BlueprintDetails:
    """The graph of a blueprint that was started, and what became of each node."""
    report, graph, statuses = load_report(place.state, _find_work(place, request.run, "blueprint"))
    nodes = graph.blueprint.nodes
    return BlueprintDetails(
        run_id=report.run_id,
        order=list(graph.order),
        needs={name: list(needs) for name, needs in graph.needs.items()},
        nodes={name: NodeInfo(kind=kind_of(nodes[name]), does=describe_node(nodes[name])) for name in graph.order},
        statuses=statuses,
        report=to_dict(report),
    )


def _choose_blueprint(request: BlueprintRequest) -> Blueprint:
    given = request.blueprint
    return given if isinstance(given, Blueprint) else read_ready(given)


def _find_work(place: Place, name: str, work: str) -> RunFolder:
    folder = find_run_folder(place.state, name)
    if read_work(folder) != work:
        raise BadInput("run", name, f"it is no {work}.", next_step="`inspan ps -a` says what each run is.")
    return folder


def _name_budgets(task: Task) -> Task:
    """As at the command line: a budget without a name is for all runs together, which have a task of their own."""
    budgets = {"task" if node == "run" else node: budget for node, budget in task.budgets.items()}
    return msgspec.structs.replace(task, budgets=budgets)
