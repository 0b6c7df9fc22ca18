"""A run's cost is one value: the same in its summary, `show`, `ps`, `cost`, `budget`, their JSON and Python."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inspan.gateway.scripts.scenario import Use
from inspan.protocol.cost import Cost, CostKind
from inspan.protocol.ids import make_short_name
from inspan.protocol.usage import Usage
from inspan.reporters.costs import format_cost, format_cost_cell
from tests.cli_env import WAIT_S, CliEnv

from .fake_provider import KEY, FakeProvider, PlannedAnswer, ReceivedCall
from .gateway_runs import KEY_VARIABLE, QUIET

Json = dict[str, Any]
Fake = Callable[[str, str], str]
HELLO = "[[call]]\nsay = 'hello'\n"
UNLISTED = "nobody-lists-this"
TABLES = (("ps", "-a"), ("cost", "--by", "run"), ("budget",))
# Makes one call and dies.
CRASHES = """
import http.client, json, os, sys
if sys.argv[1:] == ["--version"]:
    print("2.1.325 (Claude Code)")
    sys.exit()
print(json.dumps({"type": "system", "subtype": "init", "session_id": "0"}), flush=True)
body = {"model": "claude-opus-5-5", "max_tokens": 100, "messages": [{"role": "user", "content": "more"}],
        "tools": [], "stream": True}
gate = http.client.HTTPConnection(os.environ["ANTHROPIC_BASE_URL"].removeprefix("http://"))
gate.request("POST", "/v1/messages", json.dumps(body), {"x-api-key": os.environ["ANTHROPIC_API_KEY"]})
gate.getresponse().read()
sys.exit(3)
"""
DELEGATES = {"description": "d", "prompt": "look around", "subagent_type": "general-purpose", "model": "haiku"}
ASK_PYTHON = """
import asyncio, inspan, json, sys
async def main():
    costs = {name: (await inspan.find_run(name).wait()) for name in sys.argv[1:]}
    print(json.dumps({name: [r.cost.usd, r.cost.kind, r.cost.not_paid_usd, r.cost_cents] for name, r in costs.items()}))
asyncio.run(main())
"""

TALK = """
import asyncio, inspan, json, sys
async def main():
    budgets = {"run": inspan.Budget(usd=9)}
    async with inspan.open_session("claude", profile="clean", model_from=sys.argv[1], budgets=budgets) as session:
        told = [await session.send_message("one"), await session.send_message("two"), await session.close()]
    print(json.dumps([[each.cost.kind, each.cost.usd, each.cost.not_paid_usd] for each in told]))
asyncio.run(main())
"""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of run: who works, where its model is, and what is to be known of its cost."""

    agent: str
    cost: CostKind
    priced: bool = False
    words: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict[str, str])
    live: bool = False


def _list_kinds(script: str, tape: str, crashing: str) -> dict[str, Kind]:
    """The cassette is recorded by one of them and played by a later one."""
    scripted = ("--model-from", script)
    unlisted = {"ANTHROPIC_DEFAULT_HAIKU_MODEL": UNLISTED}
    alone = ("--sandbox", "none", "--allow-tool", "Bash")
    return {
        "scripted": Kind(agent="scripted", cost="not_paid", words=scripted),
        "claude-scripted": Kind(agent="claude", cost="not_paid", words=scripted),
        "codex-scripted": Kind(agent="codex", cost="not_paid", words=scripted),
        "tried-budget": Kind(agent="codex", cost="not_paid", priced=True, words=(*scripted, "--budget", "9usd")),
        "refused": Kind(agent="scripted", cost="not_paid", words=(*scripted, "--budget", "9usd")),
        "live-claude": Kind(agent="claude", cost="paid", live=True),
        "live-codex": Kind(agent="codex", cost="paid", live=True),
        "record": Kind(agent="codex", cost="paid", live=True, words=("--model-from", f"record:{tape}")),
        "replay": Kind(agent="codex", cost="not_paid", words=("--model-from", f"replay:{tape}")),
        "unlisted": Kind(agent="claude", cost="unknown", live=True, words=("-m", UNLISTED)),
        "subagent": Kind(agent="claude", cost="partial", live=True, words=_variables(unlisted)),
        "direct-claude": Kind(agent="claude", cost="paid", live=True, words=("--direct",)),
        "direct-codex": Kind(agent="codex", cost="unknown", live=True, words=("--direct",)),
        "crash": Kind(agent="claude", cost="paid", live=True, words=alone, env={"INSPAN_CLAUDE_BIN": crashing}),
    }


def _variables(env: dict[str, str]) -> tuple[str, ...]:
    return tuple(word for name, value in env.items() for word in ("--env", f"{name}={value}"))


def test_a_run_of_each_kind_costs_the_same_wherever_it_is_told(cli_env: CliEnv, fake: Fake) -> None:
    tape = cli_env.root / "tape.jsonl"
    kinds = _list_kinds(cli_env.scenario(HELLO), str(tape), fake("crashes", CRASHES))
    summaries: dict[str, str] = {}
    with FakeProvider(_plan, cwd=cli_env.work) as provider:
        for name, kind in kinds.items():
            summaries[name] = _run(cli_env, provider, name, kind)
    costs = {name: _read_end(cli_env, name) for name in kinds}
    assert {name: cost.kind for name, cost in costs.items()} == {name: kind.cost for name, kind in kinds.items()}
    assert {name: cost.not_paid_usd is not None for name, cost in costs.items()} == {
        name: kind.priced for name, kind in kinds.items()
    }
    tables = {words[0]: cli_env.inspan(*words).stdout.splitlines() for words in TABLES}
    for name, cost in costs.items():
        assert _collect_texts(cli_env, name, summaries[name], tables) == _expect_texts(cost), name
    assert _collect_json(cli_env, costs) == {name: _expect_json(cost) for name, cost in costs.items()}


def _plan(asked: ReceivedCall) -> PlannedAnswer:
    """An agent that may delegate does so once, where its subagent's model is the unlisted one."""
    delegates = UNLISTED in asked.text and not asked.results and asked.ask.model != UNLISTED
    uses = (Use(tool="Agent", input=DELEGATES),) if delegates else ()
    return PlannedAnswer(words="" if uses else "hello", uses=uses, usage=Usage(input=1000, output=100))


def _run(cli_env: CliEnv, provider: FakeProvider, name: str, kind: Kind) -> str:
    address = f"{provider.url}/v1" if kind.agent == "codex" else provider.url
    live = ("--base-url", address) if kind.live else ()
    keys = {KEY_VARIABLE[kind.agent]: KEY} if kind.live else {}
    prompt = f"work as {UNLISTED}" if name == "subagent" else "do it"
    words = ("run", prompt, "-a", kind.agent, "--profile", "clean", "--project", name, *live, *kind.words)
    done = cli_env.inspan(*words, env={**QUIET, **keys, **kind.env})
    assert " · cost: " in done.stderr, (name, done.stderr)
    return done.stderr


def _find_run(cli_env: CliEnv, name: str) -> str:
    (folder,) = cli_env.state.glob(f"projects/{name}/*/runs/*")
    return folder.name


def _read_end(cli_env: CliEnv, name: str) -> Cost:
    ended = cli_env.events(_find_run(cli_env, name))[-1]
    return Cost(
        kind=ended["cost_kind"],
        usd=ended.get("cost_usd"),
        not_paid_usd=ended.get("not_paid_usd"),
        unknown_calls=ended.get("calls_without_cost", 0),
    )


def _collect_texts(cli_env: CliEnv, name: str, summary: str, tables: dict[str, list[str]]) -> Json:
    """What people read, of one run: the end of the lines that have the cost in them."""
    run_id = _find_run(cli_env, name)
    shown = cli_env.inspan("show", run_id).stdout.splitlines()
    (sources,) = [line for line in shown if line.startswith("  cost: ")] or ["  cost: -"]
    heads = {
        "ps": (make_short_name(run_id), run_id),
        "cost": (make_short_name(run_id), run_id),
        "budget": (f"project {name} ",),
    }
    cells = {table: _split(_find_line(tables[table], head)) for table, head in heads.items()}
    return {
        "summary": _read_cost(summary),
        "show": _read_cost("\n".join(shown)),
        "show sources": sources.partition(": ")[2].partition(" · ")[0],
        "ps": cells["ps"][6],
        "cost": cells["cost"][-1],
        "budget": cells["budget"][2],
    }


def _read_cost(text: str) -> str:
    (line,) = [line for line in text.splitlines() if " · cost: " in line]
    return line.rpartition(" · cost: ")[2]


def _find_line(lines: list[str], heads: tuple[str, ...]) -> str:
    (found,) = [line for line in lines if line.startswith(heads)]
    return found


def _split(line: str) -> list[str]:
    """The cells of a table."""
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def _expect_texts(cost: Cost) -> Json:
    whole, faces = format_cost(cost), ("summary", "show", "show sources", "cost", "budget")
    return {**dict.fromkeys(faces, whole), "ps": format_cost_cell(cost)}


def _collect_json(cli_env: CliEnv, costs: dict[str, Cost]) -> dict[str, Json]:
    """What programs read, of all runs."""
    runs = {name: _find_run(cli_env, name) for name in costs}
    listed = {row["run_id"]: row for row in _load(cli_env, "ps", "-a")["runs"]}
    by_run = {group["name"]: group for group in _load(cli_env, "cost", "--by", "run")["groups"]}
    by_project = {group["name"]: group for group in _load(cli_env, "cost", "--by", "project")["groups"]}
    kept = {node["project"]: node for node in _load(cli_env, "budget")["nodes"] if node["node"] == "project"}
    python = _run_python(cli_env, ASK_PYTHON, *runs.values())
    return {
        name: {
            "show": _select(_load(cli_env, "show", run_id)),
            "ps": _select(listed[run_id]),
            "cost": _select(by_run[run_id]),
            "cost of the project": _select(by_project[name]),
            "budget": _select(kept[name]),
            "python": python[run_id],
        }
        for name, run_id in runs.items()
    }


def _load(cli_env: CliEnv, *words: str) -> Json:
    return json.loads(cli_env.inspan(*words, "--json").stdout)


def _select(found: Json) -> list[Any]:
    return [found["cost_usd"], found["cost_kind"], found["not_paid_usd"]]


def _run_python(cli_env: CliEnv, program: str, *words: str) -> Any:
    """What a program of a user's prints, as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        env=cli_env.env,
        cwd=cli_env.work,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _expect_json(cost: Cost) -> Json:
    faces = ("show", "ps", "cost", "cost of the project", "budget")
    fields = [cost.usd, cost.kind, cost.not_paid_usd]
    cents = None if cost.usd is None else round(cost.usd * 100, 7)
    return {**dict.fromkeys(faces, fields), "python": [*fields, cents]}


def test_a_refusal_has_the_same_words_in_events_summary_show_budget_and_python(cli_env: CliEnv) -> None:
    script = cli_env.scenario(HELLO)
    cases = {
        "short": ("claude", "10cents", "Model call 1 would reserve up to $", "Use --budget 0."),
        "unlisted": ("scripted", "2usd", "No price is known for the model 'scripted'", "Set its price, as in `inspan"),
    }
    for name, (agent, budget, words, step) in cases.items():
        run = ("run", "do it", "-a", agent, "--profile", "clean", "--project", name, "--model-from", script)
        done = cli_env.inspan(*run, "--budget", budget)
        events = cli_env.events(_find_run(cli_env, name))
        (refused,) = [event for event in events if event["kind"] == "budget_refused"]
        ended = events[-1]
        assert (done.returncode, ended["reason"]) == (6, "budget")
        assert (refused["message"], refused["next"]) == (ended["message"], ended["next"])
        assert refused["message"].startswith(words)
        assert refused["next"].startswith(step)
        faces = {"summary": done.stderr, "show": cli_env.inspan("show", _find_run(cli_env, name)).stdout}
        faces["budget"] = cli_env.inspan("budget").stdout
        run_id = _find_run(cli_env, name)
        for text in faces.values():
            # People read short names.
            message = ended["message"]
            assert any(f"  {each}\n" in text for each in (message, message.replace(run_id, make_short_name(run_id))))
            assert f"  → {ended['next']}\n" in text
    told = [(each["project"], each["next_step"]) for each in _load(cli_env, "budget")["refusals"]]
    assert [project for project, _ in told] == ["unlisted", "short"]


def test_a_price_of_zero_is_a_cost_of_zero_and_spends_no_budget(cli_env: CliEnv) -> None:
    _configure(cli_env, f'[prices."{UNLISTED}"]\ninput = 0\noutput = 0\n')
    kind = Kind(agent="claude", cost="paid", live=True, words=("-m", UNLISTED, "--budget", "1cents"))
    with FakeProvider(_plan, cwd=cli_env.work) as provider:
        summary = _run(cli_env, provider, "free", kind)
    assert _read_end(cli_env, "free") == Cost(kind="paid", usd=0.0)
    assert _read_cost(summary) == "$0.00"


def _configure(cli_env: CliEnv, text: str) -> None:
    path = Path(cli_env.env["HOME"]) / ".config" / "inspan" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)


def test_each_message_of_a_session_has_a_cost_of_its_own_and_the_session_their_sum(cli_env: CliEnv) -> None:
    script = cli_env.scenario("[[call]]\nsay = 'one'\n[[call]]\nsay = 'two'\n")
    first, second, whole = _run_python(cli_env, TALK, script)
    assert [kind for kind, *_ in (first, second, whole)] == ["not_paid"] * 3
    assert (first[1], whole[1]) == (None, None)
    assert first[2] == second[2] > 0
    assert whole[2] == round(first[2] + second[2], 9)
    assert _select(_load(cli_env, "cost")["total"]) == [None, "not_paid", whole[2]]
