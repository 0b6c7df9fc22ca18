"""Open sessions: the next message against the vendors' SDKs, questions and tools, and what many idle sessions hold."""

import os
import statistics
import sys
from typing import Any

from bench.completing import codex_overrides, serve_model, set_up_programs
from bench.stage.place import Place, place
from bench.stage.processes import side
from bench.stage.rows import Row, at_most, at_most_alone

_WALL_BAR = 1.1
_CPU_BAR = 0.6
_ASK_BAR_MS = 5.0
_TOOL_BAR_MS = 3.0


def measure(*, quick: bool = False) -> list[Row]:
    """Rounds of ours and the SDK's, one after the other; the least CPU and the median wall are taken."""
    return [*_against_sdks(quick=quick), *_alone(quick=quick)]


def _against_sdks(*, quick: bool) -> list[Row]:
    messages, rounds = (5, 1) if quick else (30, 3)
    with place() as here, serve_model(here) as port:
        url = f"http://127.0.0.1:{port}"
        programs = set_up_programs(here, url)
        overrides = codex_overrides(url)
        words = [word for each in overrides for word in ("-c", each)]
        sides = {
            "claude": (("claude",), "converse_claude_sdk", (programs["claude"],)),
            "codex": (("codex", *words), "converse_codex_sdk", (programs["codex"], *overrides)),
        }
        spent = {name: _take_rounds(here, messages, rounds, *given) for name, given in sides.items()}
    note = f"{messages} messages one after the other in one session, direct as the SDK's; {rounds} rounds"
    return [row for name, each in spent.items() for row in _rows(f"next_message_vs_{name}_sdk", each, messages, note)]


def _take_rounds(
    here: Place, messages: int, rounds: int, ours: tuple[str, ...], peer: str, given: tuple[str, ...]
) -> dict[str, list[dict[str, Any]]]:
    spent: dict[str, list[dict[str, Any]]] = {"ours": [], "peer": []}
    for _ in range(rounds):
        spent["ours"].append(side("converse_ours", str(messages), *ours, env=here.env, cwd=here.path("work")))
        spent["peer"].append(side(peer, str(messages), *given, env=here.env, cwd=here.path("work")))
    return spent


def _rows(name: str, spent: dict[str, list[dict[str, Any]]], messages: int, note: str) -> list[Row]:
    def first_ms(whose: str) -> float:
        return statistics.median(value for each in spent[whose] for value in each["first_s"]) * 1000

    def least(whose: str, figure: str) -> float:
        return min(each[figure] for each in spent[whose]) / messages * 1000

    wall, cpu = ((least("ours", figure), least("peer", figure)) for figure in ("wall_s", "cpu_s"))
    return [
        at_most(
            f"{name}_first_text", first_ms("ours"), first_ms("peer"), bar=_WALL_BAR, unit="ms", note=f"{note}; median"
        ),
        at_most(f"{name}_wall", *wall, bar=_WALL_BAR, unit="ms/message", note=f"{note}; to the answer's end; least"),
        at_most(f"{name}_cpu", *cpu, bar=_CPU_BAR, unit="ms/message", note=f"{note}; calling process alone; least"),
    ]


def _alone(*, quick: bool) -> list[Row]:
    count = 5 if quick else 100
    with place() as here:
        path = here.path("agent", "puppet")
        source = os.path.join(os.path.dirname(__file__), "sides", "asking_puppet.py")
        with open(path, "w", encoding="utf-8") as file, open(source, encoding="utf-8") as puppet:
            file.write(f"#!{os.path.realpath(sys.executable)} -IS\n{puppet.read()}")
        os.chmod(path, 0o755)
        scenario = here.path("agent", "unused.toml")
        with open(scenario, "w", encoding="utf-8") as file:
            file.write('[[call]]\nsay = "unused"\nrepeat = "always"\n')
        agent, cwd = f"acp:{path}", here.path("work")
        trips = side("sessions", "ask", agent, scenario, env=here.env, cwd=cwd)
        held = {
            what: side("sessions", what, agent, str(count), env=here.env, cwd=cwd) for what in ("here", "supervised")
        }
    rows = [
        at_most_alone(
            f"{name}_round_trip",
            statistics.median(trips[field]) * 1000,
            bar=bar,
            unit="ms",
            note=f"median of {len(trips[field])}, as the agent sees it, a coroutine function in the same loop",
        )
        for name, field, bar in (("approval", "ask_s", _ASK_BAR_MS), ("tool", "tool_s", _TOOL_BAR_MS))
    ]
    for what, figures in held.items():
        note = f"{count} open sessions of a puppet, {figures['processes']} processes of ours"
        memory = figures["memory_mb"] / count
        title = "in_process" if what == "here" else what
        rows.append(at_most_alone(f"idle_session_memory_{title}", memory, bar=None, unit="MB each", note=note))
        share = figures["cpu_share"] * 100 / count
        rows.append(at_most_alone(f"idle_session_cpu_{title}", share, bar=None, unit="% of a core each", note=note))
    return rows
