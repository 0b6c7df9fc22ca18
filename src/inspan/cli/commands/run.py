"""Run a task with an agent, and follow it."""

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from inspan.cli.counts import Count
from inspan.cli.durations import Duration
from inspan.cli.run_names import AgentName, RunName
from inspan.cli.sizes import Processors, Size
from inspan.cli.start_run import start_run
from inspan.cli.streams import is_live
from inspan.cli.watchdog_words import WatchdogWords
from inspan.errors import BadInput, OutputRefused
from inspan.planning.settings import ConfiguredTask, apply_config
from inspan.protocol.budget import BUDGET_HINT, Budget, Node, parse_budgets
from inspan.protocol.task import McpServer, Mode, Profile, Task
from inspan.protocol.wire import DECODE_ERRORS
from inspan.running.prepared_run import PreparedRun

# Flag → the limit that it sets.
_LIMITS = {
    "timeout": "timeout_s",
    "start_timeout": "start_timeout_s",
    "idle_timeout": "idle_timeout_s",
    "stall_timeout": "stall_timeout_s",
    "max_turns": "max_turns",
    "memory": "memory_bytes",
    "cpus": "cpus",
    "pids": "pids",
    "answer_timeout": "answer_timeout_s",
    "idle_close": "idle_close_s",
}
# An unset variable in a script gives an empty word; taken for "none given" it would be another run than was meant.
_NOT_EMPTY = (
    *("cwd", "resume", "sandbox", "net", "image", "project", "name"),
    *("key_from", "model_from", "base_url", "channel"),
)


class _RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one call, as click collects them; `None` was not given."""

    prompt: str
    agent: str | None
    mode: Mode | None
    cwd: str | None
    model: str | None
    effort: str | None
    system_prompt: str | None
    append_system_prompt: str | None
    resume: str
    continue_last: bool
    fork: bool
    schema: str | None
    allow_tool: tuple[str, ...]
    deny_tool: tuple[str, ...]
    add_dir: tuple[str, ...]
    mcp: tuple[str, ...]
    attach: tuple[str, ...]
    channel: str
    login: bool
    key_from: str
    model_from: str
    direct: bool
    base_url: str
    budget: tuple[str, ...]
    fault: tuple[str, ...]
    fault_seed: int
    sandbox: str | None
    net: str
    image: str
    read: tuple[str, ...]
    memory: int | None
    cpus: float | None
    pids: int | None
    profile: Profile | None
    timeout: float | None
    start_timeout: float | None
    idle_timeout: float | None
    stall_timeout: float | None
    watchdog: dict[str, Any] | None
    max_turns: int | None
    ask: tuple[str, ...]
    answer_timeout: float | None
    keep_open: bool
    idle_close: float | None
    project: str
    task: str
    name: str
    env: tuple[str, ...]
    option: tuple[str, ...]
    partial: bool | None
    strict: bool
    detach: bool
    as_json: bool
    quiet: bool
    verbose: bool


@click.command()
@click.argument("prompt", default="")
@click.option("-a", "--agent", type=AgentName(), help="Which agent; `inspan agents` lists them.")
@click.option("--mode", type=click.Choice(["exec", "review", "complete"]), help="What it may do. [default: exec]")
@click.option("-C", "--cwd", help="The working folder. [default: this one]")
@click.option("-m", "--model", help="The model, as the agent calls it, or an alias.")
@click.option("--effort", help="How hard the model thinks, in the agent's words.")
@click.option("--system-prompt", metavar="TEXT", help="In place of the agent's own; @FILE reads it.")
@click.option("--append-system-prompt", metavar="TEXT", help="Behind the agent's own; @FILE reads it.")
@click.option("-r", "--resume", default="", type=RunName(), help="Resume the session of this run, or this session id.")
@click.option("-c", "--continue", "continue_last", is_flag=True, help="Resume the last conversation of this project.")
@click.option("--fork", is_flag=True, help="With --resume: continue in a copy of the session.")
@click.option("--schema", metavar="FILE", help="JSON Schema that the answer must fit.")
@click.option("--allow-tool", multiple=True, metavar="TOOL", help="A tool it may use; repeatable. exec: only these.")
@click.option("--deny-tool", multiple=True, metavar="TOOL", help="A tool it may not use; repeatable.")
@click.option("--add-dir", multiple=True, metavar="DIR", help="Another folder it may work in; repeatable.")
@click.option("--mcp", multiple=True, metavar="NAME=COMMAND|URL", help="An MCP server; repeatable.")
@click.option("--attach", multiple=True, metavar="FILE", help="An image or file for the prompt; repeatable.")
@click.option("--channel", default="", metavar="NAME", help="Which channel. [default: the first]")
@click.option("--login", is_flag=True, help="Use your subscription login instead of a key.")
@click.option("--key-from", default="", metavar="WHERE", help="env:NAME, file:PATH, cmd:WORDS or keyring:SERVICE/USER.")
@click.option("--model-from", default="", metavar="WHERE", help="live, record:FILE, replay:FILE or script:FILE.")
@click.option("--direct", is_flag=True, help="Straight to the provider: no gateway, no budget, the agent has the key.")
@click.option("--base-url", default="", metavar="URL", help="The provider's address, in place of the usual one.")
@click.option("--budget", multiple=True, metavar="[NODE=]LIMIT", help="2usd, 200ktok, task=50calls; repeatable.")
@click.option(
    "--fault", multiple=True, metavar="'WHICH: WHAT'", help="Inject faults into model calls: 'call 3: 529'; repeatable."
)
@click.option("--fault-seed", type=int, default=0, help="Seed for faults given as a percentage.", show_default=True)
@click.option(
    "--sandbox", help="auto, bwrap, docker, none, podman, seatbelt, worktree, worktree+bwrap. [default: auto]"
)
@click.option("--image", default="", metavar="IMAGE", help="What podman or docker makes the container of.")
@click.option("--net", default="", metavar="REACH", help="none, gateway, open or allow=HOST,… in a sandbox.")
@click.option("--read", multiple=True, metavar="PATH", help="What else a sandbox may read; repeatable.")
@click.option("--memory", type=Size(), help="Most memory of all that it starts: 4g. [default: off]")
@click.option("--cpus", type=Processors(), help="Most processors that it keeps busy: 2, 0.5. [default: off]")
@click.option("--pids", type=Count(), help="Most processes and threads at a time. [default: off]")
@click.option("--profile", type=click.Choice(["user", "clean"]), help="Whose settings. [default: user; clean under CI]")
@click.option("--timeout", type=Duration(), help="Longest the run, or a session's message, may take. [default: 600s]")
@click.option("--start-timeout", type=Duration(), help="Longest until the first event. [default: 60s]")
@click.option("--idle-timeout", type=Duration(), help="Longest without any output. [default: off]")
@click.option("--stall-timeout", type=Duration(), help="Longest silence of a model call. [default: 120s]")
@click.option("--watchdog", type=WatchdogWords(), help="on, off or tool=10m,model=5m,step=1m,triage: ends silence.")
@click.option("--max-turns", type=Count(), help="Most model calls that the agent may make. [default: off]")
@click.option("--ask", multiple=True, metavar="TOOL", help="Ask before it uses this, or '*'; repeatable.")
@click.option("--answer-timeout", type=Duration(), help="Longest wait for an answer. [default: 600s; 0 unattended]")
@click.option("--open", "keep_open", is_flag=True, help="Keep the session open for `inspan send`.")
@click.option("--idle-close", type=Duration(), help="Close an open session after so long. [default: 1h]")
@click.option("--project", default="", help="Project name. [default: from the git repository]")
@click.option("--task", default="default", help="Task name.", show_default=True)
@click.option("--name", default="", help="A name for the run, in place of its id; unique in the project.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable for the agent; repeatable.")
@click.option("--option", multiple=True, metavar="WORD", help="An argument for the agent's own program; repeatable.")
@click.option(
    "--partial/--no-partial", default=None, help="Record text piece by piece too. [default: if shown at a terminal]"
)
@click.option("--strict", is_flag=True, help="Refuse a version of the agent that was not tested.")
@click.option("-d", "--detach", is_flag=True, help="Run in the background; print the run id.")
@click.option("--json", "as_json", is_flag=True, help="Print every event as a line of JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the answer.")
@click.option("-v", "--verbose", is_flag=True, help="Print all output of tools, and every warning.")
@click.pass_context
def command(context: click.Context, **options: Any) -> int:
    """Run a task with an agent, and follow it. PROMPT of - reads it from stdin.

    The run belongs to a supervisor of its own: closing this command does not end it, Ctrl-C does.
    """
    return run_task(context, options)


def run_task(context: click.Context, options: Mapping[str, Any]) -> int:
    """Runs what these options of `run` say, and follows it; gives the exit code."""
    given = _RunOptions(**options)
    configured = _configure(given, context)
    if (given.continue_last or given.resume.startswith("@")) and not (given.as_json or given.quiet):
        print_resumed(configured.task.resume)
    prepared = start_run(configured.task, env=configured.env)
    if not (given.as_json or given.quiet):
        from inspan.cli.lost_work import report_lost  # Start-up time: beside the supervisor.

        report_lost(prepared.plan.state)
    if given.detach:
        from inspan.cli.inside_run import wait_if_inside  # Start-up time: beside the supervisor.

        report_id(prepared.plan.run_id, as_json=given.as_json)
        return wait_if_inside(prepared.plan.state, prepared.folder)
    return _follow(configured, prepared, given)


def read_task(context: click.Context, options: Mapping[str, Any]) -> tuple[Task, Mapping[str, Any]]:
    """The task that these options say, before the settings complete it, and what of it stands though it may be a
    default."""
    given = _RunOptions(**options)
    _refuse_empty(given, context)
    return _build_task(given), _collect_explicit(given, context)


def configure_session(context: click.Context, options: Mapping[str, Any]) -> ConfiguredTask:
    """The task of a session with these options, of which those that are no session's may be left out."""
    flags = {"detach": True, "as_json": False, "quiet": False, "verbose": False}
    left_out: dict[str, Any] = {"prompt": "", "schema": None, **flags}
    given: dict[str, Any] = {**left_out, **options, "keep_open": True}
    return _configure(_RunOptions(**given), context)


def _configure(given: _RunOptions, context: click.Context) -> ConfiguredTask:
    _refuse_empty(given, context)
    configured = apply_config(_build_task(given), explicit=_collect_explicit(given, context))
    if given.cwd or given.add_dir:
        _refuse_links(given, configured.task)
    return configured


def _refuse_links(given: _RunOptions, task: Task) -> None:
    """A link in the project decides on no folder of a sandbox: an earlier run may have put it there."""
    # Start-up time: most runs name no folder.
    from inspan.planning.boundary import find_asked_boundary
    from inspan.system.paths import find_home
    from inspan.system.programs import leads_out, list_exposed_folders

    if find_asked_boundary(task) in ("", "none"):
        return
    try:
        here = os.getcwd()
    except OSError:
        return  # Of a folder that is gone there is no link.
    if here == os.path.realpath(find_home(os.environ)):
        return  # That is no project, and its links are the user's.
    exposed = list_exposed_folders(here)
    for flag, path in (("--cwd", given.cwd), *(("--add-dir", each) for each in given.add_dir)):
        if path and leads_out(os.path.abspath(path), exposed):
            step = f"Name {os.path.realpath(path)} itself, if you mean it."
            raise BadInput(flag, path, "it is what a link says that an agent may have written.", next_step=step)


def print_resumed(run_id: str) -> None:
    """Says on stderr whose session is resumed."""
    # Start-up time: few runs go on with the last session.
    from inspan.cli.run_names import print_run
    from inspan.runs.find import find_run_folder
    from inspan.stores.paths import state_home

    print_run(find_run_folder(state_home(), run_id))


def _collect_explicit(given: _RunOptions, context: click.Context) -> Mapping[str, Any]:
    """What this command line says of mode, profile and limits; a limit that is off has been said too."""
    named = {"mode": given.mode, "profile": given.profile}
    said: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    for flag, limit in _LIMITS.items():
        if context.get_parameter_source(flag) is not ParameterSource.DEFAULT:
            said[limit] = getattr(given, flag)
    if given.watchdog is not None:
        said["watchdog"] = given.watchdog
    if given.ask and not given.detach and not (sys.stdin and sys.stdin.isatty()):
        said.setdefault("answer_timeout_s", 0.0)  # Nobody is there to answer.
    return said


def _refuse_empty(given: _RunOptions, context: click.Context) -> None:
    for name in _NOT_EMPTY:
        # Of an option that the command does not have there is no source.
        source = context.get_parameter_source(name)
        if getattr(given, name) == "" and source not in (None, ParameterSource.DEFAULT):
            flag, step = f"--{name.replace('_', '-')}", "Leave it out, or give a value."
            raise BadInput(flag, "", "it is empty.", next_step=step)


def _follow(configured: ConfiguredTask, prepared: PreparedRun, given: _RunOptions) -> int:
    """Follows the run to its end, and those that ask again for an answer that does not fit; gives the exit code."""
    # Start-up time: the supervisor is starting already while this loads.
    from inspan.cli.follow import FollowedRun, follow_as_json, follow_as_text, print_answer, stop_on_signals
    from inspan.protocol.reasons import REASONS

    signals = stop_on_signals(prepared.folder)
    way = follow_as_json if given.as_json else follow_as_text

    def follow(prepared: PreparedRun) -> FollowedRun:
        return way(prepared.plan.state, prepared.folder, quiet=given.quiet, verbose=given.verbose)

    if given.keep_open:
        from inspan.cli.send_message import follow_first_message  # Start-up time: few runs stay open.

        return follow_first_message(
            prepared.plan.state, prepared.folder, as_json=given.as_json, quiet=given.quiet, verbose=given.verbose
        )
    followed = follow(prepared)
    if configured.task.output_schema is not None:
        from inspan.cli.repair import repair_answer  # Start-up time: few tasks have a schema.

        followed = repair_answer(
            configured, prepared.plan.run_id, followed, follow=follow, signals=signals, silent=given.as_json
        )
    print_answer(followed, quiet=given.quiet)
    return REASONS[followed.ended.reason].exit_code


def choose_session(options: Mapping[str, Any]) -> str:
    """The name of the session that these options of `run` resume; empty where it is a new one."""
    resume: str = options["resume"]
    if not options["continue_last"]:
        return resume
    if resume:
        raise BadInput("--continue", True, f"--resume {resume} is given too.", next_step="Use one of them.")
    from inspan.planning.conversations import find_last_conversation  # Start-up time: few runs resume a session.

    return find_last_conversation(cwd=_resolve_cwd(options["cwd"]), project=options["project"]).run_id


def _build_task(given: _RunOptions) -> Task:
    return Task(
        prompt=_read_stdin() if given.prompt == "-" else given.prompt,
        cwd=_resolve_cwd(given.cwd),
        agent=given.agent or "",
        mode=given.mode or "exec",
        model=given.model or "",
        effort=given.effort or "",
        system_prompt=_read_text("--system-prompt", given.system_prompt),
        append_system_prompt=_read_text("--append-system-prompt", given.append_system_prompt),
        resume=choose_session(msgspec.structs.asdict(given)),
        fork=given.fork,
        output_schema=_read_schema(given.schema),
        allowed_tools=given.allow_tool or None,
        disallowed_tools=given.deny_tool,
        extra_dirs=tuple(_whole_path("--add-dir", path, find=os.path.realpath) for path in given.add_dir),
        mcp_servers=dict(map(_parse_server, given.mcp)),
        attachments=tuple(_whole_path("--attach", path) for path in given.attach),
        channel=given.channel,
        login=given.login,
        key_from=given.key_from,
        model_from=_resolve_model_from(given),
        base_url=given.base_url,
        budgets=read_budgets(given.budget),
        faults=given.fault,
        fault_seed=given.fault_seed,
        sandbox=given.sandbox or "",
        net=given.net,
        image=given.image,
        read=tuple(_whole_path("--read", os.path.expanduser(path)) for path in given.read),
        profile=given.profile or ("clean" if os.environ.get("CI") else "user"),
        project=given.project,
        task=given.task,
        name=given.name,
        env=dict(_parse_pair(each) for each in given.env),
        options=given.option,
        partial=_is_watched(given) if given.partial is None else given.partial,
        strict=given.strict,
        ask=given.ask,
        session=given.keep_open,
    )


def _is_watched(given: _RunOptions) -> bool:
    """Whether somebody reads along, for whom text is shown as it comes."""
    return not (given.as_json or given.quiet or given.detach) and is_live(sys.stderr)


def _resolve_cwd(cwd: str | None) -> str:
    step = "Change to one that is there, or name one with --cwd."
    return _whole_path("--cwd", cwd or ".", find=os.path.realpath, next_step=step)


def _whole_path(
    flag: str, path: str, *, find: Callable[[str], str] = os.path.abspath, next_step: str = "", shown: str = ""
) -> str:
    """A path that may count from the current folder; raises `BadInput` where that is gone."""
    try:
        return find(path)
    except OSError as error:
        step = next_step or "Change to one that is there, or give a whole path."
        raise BadInput(flag, shown or path, "the current folder is gone.", next_step=step) from error


def _read_text(flag: str, value: str | None) -> str:
    if not value or not value.startswith("@"):
        return value or ""
    return _read_file(flag, value[1:])


def _read_file(flag: str, path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig") as file:  # Some editors put a byte order mark in front.
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BadInput(flag, path, f"{reason}.", next_step="Give a text file that can be read.") from error


def _read_schema(path: str | None) -> dict[str, Any] | None:
    if path is None:
        return None
    try:
        return msgspec.json.decode(_read_file("--schema", path).encode(), type=dict[str, Any])
    except DECODE_ERRORS as error:
        raise BadInput("--schema", path, f"it is not a JSON object: {error}.", next_step="Correct the file.") from error


def _parse_server(text: str) -> tuple[str, McpServer]:
    import shlex  # Start-up time: few runs name a server.

    name, value = _parse_pair(text, flag="--mcp", example="docs=uvx some-server")
    if value.startswith(("http://", "https://")):
        return name, McpServer(url=value)
    try:
        words = shlex.split(value)
    except ValueError as error:
        raise BadInput("--mcp", text, f"{error}.", next_step="Quote the command as for a shell.") from error
    if not words:
        raise BadInput("--mcp", text, "there is no command.", next_step="For example --mcp docs='uvx some-server'.")
    return name, McpServer(command=words[0], args=tuple(words[1:]))


def _read_stdin() -> str:
    return sys.stdin.buffer.read().decode(errors="surrogateescape") if sys.stdin else ""


def report_id(run_id: str, *, as_json: bool) -> None:
    try:
        _print_id(run_id, as_json=as_json)
        sys.stdout.flush()
    except OutputRefused as error:
        from inspan.cli.output import add_run_id  # Start-up time: this is rare.

        raise add_run_id(error, run_id) from error


def _print_id(run_id: str, *, as_json: bool) -> None:
    if as_json:
        # Start-up time: nothing else of this command prints JSON before the run has been started.
        from inspan.cli.output import print_json

        print_json(run_id=run_id)
    else:
        click.echo(run_id)


def _parse_pair(text: str, *, flag: str = "--env", example: str = "LANG=C") -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise BadInput(flag, text, "no NAME=VALUE.", next_step=f"For example {flag} {example}.")
    return name, value


def _resolve_model_from(given: _RunOptions) -> str:
    if given.direct and given.model_from:
        step = "Use --direct or --model-from, not both."
        raise BadInput("--direct", given.model_from, "a source of the model is given too.", next_step=step)
    return "direct" if given.direct else _resolve_file(given.model_from)


def read_budgets(given: tuple[str, ...]) -> dict[Node, Budget]:
    """The budgets of --budget; raises `BadInput`."""
    try:
        return parse_budgets(given)
    except ValueError as error:
        raise BadInput("--budget", ", ".join(given), str(error), next_step=BUDGET_HINT) from error


def name_budgets(budgets: Mapping[Node, Budget]) -> dict[Node, Budget]:
    """For work that has runs: a budget without a name is for all of these together, which have a task of their own."""
    return {"task" if node == "run" else node: budget for node, budget in budgets.items()}


def _resolve_file(model_from: str) -> str:
    kind, colon, path = model_from.partition(":")
    return f"{kind}:{_whole_path('--model-from', path, shown=model_from)}" if colon and path else model_from
