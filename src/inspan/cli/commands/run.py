"""Run a task with an agent, and follow it."""

import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from inspan.cli.durations import Duration
from inspan.cli.run_names import AgentName, RunName
from inspan.engine.configured import Configured, configured
from inspan.engine.plan import Prepared, prepare
from inspan.engine.start import start
from inspan.errors import BadInput
from inspan.protocol.budget import BUDGET_HINT, Budget, Node, budgets_of
from inspan.protocol.task import McpServer, Mode, Profile, Task

_TIMES = ("timeout", "start_timeout", "idle_timeout", "stall_timeout")


class _Given(msgspec.Struct, frozen=True, kw_only=True):
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
    profile: Profile | None
    timeout: float | None
    start_timeout: float | None
    idle_timeout: float | None
    stall_timeout: float | None
    max_turns: int | None
    project: str
    task: str
    env: tuple[str, ...]
    option: tuple[str, ...]
    partial: bool
    strict: bool
    detach: bool
    as_json: bool
    quiet: bool


@click.command()
@click.argument("prompt", default="")
@click.option("-a", "--agent", type=AgentName(), help="Which agent; `inspan agents` lists them.")
@click.option("--mode", type=click.Choice(["exec", "review", "complete"]), help="What it may do. [default: exec]")
@click.option("-C", "--cwd", help="The working folder. [default: this one; the session's with --resume]")
@click.option("-m", "--model", help="The model, as the agent calls it, or an alias.")
@click.option("--effort", help="How hard the model thinks, in the agent's words.")
@click.option("--system-prompt", metavar="TEXT", help="In place of the agent's own; @FILE reads it.")
@click.option("--append-system-prompt", metavar="TEXT", help="Behind the agent's own; @FILE reads it.")
@click.option("-r", "--resume", default="", type=RunName(), help="Go on with the session of this run, or session id.")
@click.option("--fork", is_flag=True, help="With --resume: go on in a copy of the session.")
@click.option("--schema", metavar="FILE", help="JSON Schema that the answer must fit.")
@click.option("--allow-tool", multiple=True, metavar="TOOL", help="A tool it may use; repeatable. exec: only these.")
@click.option("--deny-tool", multiple=True, metavar="TOOL", help="A tool it may not use; repeatable.")
@click.option("--add-dir", multiple=True, metavar="DIR", help="Another folder it may work in; repeatable.")
@click.option("--mcp", multiple=True, metavar="NAME=COMMAND|URL", help="A server of tools; repeatable.")
@click.option("--attach", multiple=True, metavar="FILE", help="An image or file for the prompt; repeatable.")
@click.option("--channel", default="", metavar="NAME", help="The way into the agent. [default: its usual one]")
@click.option("--login", is_flag=True, help="Use your subscription login where it lies, and no key.")
@click.option("--key-from", default="", metavar="WHERE", help="env:NAME, file:PATH, cmd:WORDS or keyring:SERVICE/USER.")
@click.option("--model-from", default="", metavar="WHERE", help="live, record:FILE, replay:FILE or script:FILE.")
@click.option("--direct", is_flag=True, help="Straight to the provider: no gateway, no budget, the agent has the key.")
@click.option("--base-url", default="", metavar="URL", help="The provider's address, in place of the usual one.")
@click.option("--budget", multiple=True, metavar="[NODE=]LIMIT", help="2usd, 200ktok, task=50calls; repeatable.")
@click.option("--fault", multiple=True, metavar="'WHICH: WHAT'", help="Spoil model calls: 'call 3: 529'; repeatable.")
@click.option("--fault-seed", type=int, default=0, help="Which calls a fault of 5% meets.", show_default=True)
@click.option("--sandbox", help="none or bwrap. [default: none; bwrap where the agent needs it as root]")
@click.option("--profile", type=click.Choice(["user", "clean"]), help="Whose settings. [default: user; clean under CI]")
@click.option("--timeout", type=Duration(), help="Longest the whole run may take. [default: 600s]")
@click.option("--start-timeout", type=Duration(), help="Longest until the first event. [default: 60s]")
@click.option("--idle-timeout", type=Duration(), help="Longest without any output. [default: off]")
@click.option("--stall-timeout", type=Duration(), help="Longest silence of a model call. [default: 120s]")
@click.option("--max-turns", type=int, help="Most model calls that the agent may make. [default: no limit]")
@click.option("--project", default="", help="Project name. [default: from the git repository]")
@click.option("--task", default="default", help="Task name.", show_default=True)
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable for the agent; repeatable.")
@click.option("--option", multiple=True, metavar="WORD", help="An argument for the agent's own program; repeatable.")
@click.option("--partial", is_flag=True, help="Also record text piece by piece, where the agent streams it.")
@click.option("--strict", is_flag=True, help="Refuse a version of the agent that was never tried.")
@click.option("-d", "--detach", is_flag=True, help="Print the run id and leave.")
@click.option("--json", "as_json", is_flag=True, help="Print every event as a line of JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the answer.")
@click.pass_context
def command(context: click.Context, **options: Any) -> int:
    """Run a task with an agent, and follow it. PROMPT of - reads it from stdin.

    The run belongs to a supervisor of its own: closing this command does not end it, Ctrl-C does.
    """
    given = _Given(**options)
    whole = configured(_task(given), said=_said(given, context))
    prepared = prepare(whole.task, env=whole.env)
    start(prepared)
    if given.detach:
        _print_id(prepared.plan.run_id, as_json=given.as_json)
        return 0
    # A Ctrl-C from here on is meant for the run; it waits until `_follow` has taken over.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    return _follow(whole, prepared, given)


def _said(given: _Given, context: click.Context) -> Mapping[str, Any]:
    """What this command line says of mode, profile and limits; a limit that is off has been said too."""
    named = {"mode": given.mode, "profile": given.profile, "max_turns": given.max_turns}
    said: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    for name in _TIMES:
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            said[f"{name}_s"] = getattr(given, name)
    return said


def _follow(whole: Configured, prepared: Prepared, given: _Given) -> int:
    """Follows the run to its end, and those that ask again for an answer that does not fit; gives the exit code."""
    # Start-up time: the supervisor is starting already while this loads.
    from inspan.cli.exit_codes import of_run
    from inspan.cli.following import Followed, follow_as_json, follow_as_text, print_answer, stop_on_signals

    signals = stop_on_signals(prepared.folder)
    way = follow_as_json if given.as_json else follow_as_text

    def follow(prepared: Prepared) -> Followed:
        return way(prepared.plan.state, prepared.folder, quiet=given.quiet)

    followed = follow(prepared)
    if whole.task.output_schema is not None:
        from inspan.cli.repairing import repaired

        followed = repaired(whole, prepared.plan.run_id, followed, follow=follow, signals=signals, silent=given.as_json)
    print_answer(followed, quiet=given.quiet)
    return of_run(followed.ended)


def _task(given: _Given) -> Task:
    return Task(
        prompt=_from_stdin() if given.prompt == "-" else given.prompt,
        cwd=_folder(given),
        agent=given.agent or "",
        mode=given.mode or "exec",
        model=given.model or "",
        effort=given.effort or "",
        system_prompt=_text("--system-prompt", given.system_prompt),
        append_system_prompt=_text("--append-system-prompt", given.append_system_prompt),
        resume=given.resume,
        fork=given.fork,
        output_schema=_schema(given.schema),
        allowed_tools=given.allow_tool or None,
        disallowed_tools=given.deny_tool,
        extra_dirs=tuple(map(os.path.realpath, given.add_dir)),
        mcp_servers=dict(map(_server, given.mcp)),
        attachments=tuple(map(os.path.abspath, given.attach)),
        channel=given.channel,
        login=given.login,
        key_from=given.key_from,
        model_from=_model_from(given),
        base_url=given.base_url,
        budgets=_budgets(given.budget),
        faults=given.fault,
        fault_seed=given.fault_seed,
        sandbox=given.sandbox or "",
        profile=given.profile or ("clean" if os.environ.get("CI") else "user"),
        project=given.project,
        task=given.task,
        env=dict(_pair(each) for each in given.env),
        options=given.option,
        partial=given.partial,
        strict=given.strict,
    )


def _folder(given: _Given) -> str:
    if given.cwd is None and given.resume:
        return ""
    return os.path.realpath(given.cwd or ".")


def _text(flag: str, value: str | None) -> str:
    if not value or not value.startswith("@"):
        return value or ""
    return _read(flag, value[1:])


def _read(flag: str, path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BadInput(flag, path, f"{reason}.", next_step="Give a text file that can be read.") from error


def _schema(path: str | None) -> dict[str, Any] | None:
    if path is None:
        return None
    try:
        return msgspec.json.decode(_read("--schema", path).encode(), type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise BadInput("--schema", path, f"it is no JSON object: {error}.", next_step="Correct the file.") from error


def _server(text: str) -> tuple[str, McpServer]:
    import shlex  # Start-up time: few runs name a server.

    name, value = _pair(text, flag="--mcp", example="docs=uvx some-server")
    if value.startswith(("http://", "https://")):
        return name, McpServer(url=value)
    try:
        words = shlex.split(value)
    except ValueError as error:
        raise BadInput("--mcp", text, f"{error}.", next_step="Quote the command as for a shell.") from error
    if not words:
        raise BadInput("--mcp", text, "there is no command.", next_step="For example --mcp docs='uvx some-server'.")
    return name, McpServer(command=words[0], args=tuple(words[1:]))


def _from_stdin() -> str:
    return sys.stdin.buffer.read().decode(errors="surrogateescape") if sys.stdin else ""


def _print_id(run_id: str, *, as_json: bool) -> None:
    if as_json:
        # Start-up time: nothing else of this command prints JSON before the run has been started.
        from inspan.cli.output import print_json

        print_json(run_id=run_id)
    else:
        click.echo(run_id)


def _pair(text: str, *, flag: str = "--env", example: str = "LANG=C") -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise BadInput(flag, text, "no NAME=VALUE.", next_step=f"For example {flag} {example}.")
    return name, value


def _model_from(given: _Given) -> str:
    if given.direct and given.model_from:
        step = "Use --direct or --model-from, not both."
        raise BadInput("--direct", given.model_from, "a source of the model is given too.", next_step=step)
    return "direct" if given.direct else _absolute(given.model_from)


def _budgets(given: tuple[str, ...]) -> dict[Node, Budget]:
    try:
        return budgets_of(given)
    except ValueError as error:
        raise BadInput("--budget", ", ".join(given), str(error), next_step=BUDGET_HINT) from error


def _absolute(model_from: str) -> str:
    kind, colon, path = model_from.partition(":")
    return f"{kind}:{os.path.abspath(path)}" if colon and path else model_from
