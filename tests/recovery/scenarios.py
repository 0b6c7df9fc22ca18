"""What is done while processes are killed, by what it is gone on with, and what has to be true in the end."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec

from .house import House

_TURN = "exec 9>turn; flock -n 9 || echo overlap >> EFFECTS; echo $JRUN_ID >> EFFECTS; echo 1 > n"
SCRIPT = f"""
[[call]]
run = "{_TURN}"
[[call]]
say = "Done."
"""
_CHECK = 'test "$(wc -l < effects)" -ge 2'
_BLUEPRINT = f"""
[nodes.before]
kind = "command"
run = "echo seen"
[nodes.work]
kind = "agent"
agent = "scripted"
prompt = "count: {{{{before}}}}"
[nodes.test]
kind = "check"
run = '''{_CHECK}'''
after = ["work"]
[loops.again]
nodes = ["work", "test"]
until = "test"
"""
_ROUND_RED = {("work", 1): "success", ("test", 1): "failed", ("work", 2): "success", ("test", 2): "success"}
# Where the first attempt was killed after its turn, and made again, nothing is left for a second round.
_ROUNDS = (_ROUND_RED, {("work", 1): "success", ("test", 1): "success"})
_CELLS = 2
_RECOVER = ("recover", "--yes", "--all")


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of work of an agent, with at least so many events at which it can be killed.

    `start` begins it in the background, `again` goes on with what was lost of it. `find_last` gives the id of its last
    run or loop, by which it is judged, or nothing where it never began. `judge` says what is wrong in the end, after so
    many kills, beyond what is wrong with any single run. Who survives a kill is waited for where it is `exclusive`.
    """

    agent: str
    start: Callable[[House], list[str]]
    again: Callable[[House], tuple[tuple[str, ...], ...]] = lambda _house: (_RECOVER,)
    victims: tuple[str, ...] = ("supervisor", "owner", "everybody")
    find_last: Callable[[House], str]
    judge: Callable[[House, int], list[str]]
    least_events: int
    exclusive: bool = False


def _start_loop(agent: str) -> Callable[[House], list[str]]:
    def build(house: House) -> list[str]:
        model = house.write_script(SCRIPT)
        words = ("--profile", "clean", "--delay", "0.01s", "--model-from", model, "--check", _CHECK)
        return ["loop", "-d", "count", "-a", agent, *words]

    return build


def _start_run(agent: str) -> Callable[[House], list[str]]:
    def build(house: House) -> list[str]:
        return ["run", "-d", "count", "-a", agent, "--profile", "clean", "--model-from", house.write_script(SCRIPT)]

    return build


def _start_blueprint(house: House) -> list[str]:
    path = house.root / "blueprint.toml"
    path.write_text(_BLUEPRINT)
    return ["blueprint", "run", "-d", str(path), "--profile", "clean", "--model-from", house.write_script(SCRIPT)]


def _start_comparison(house: House) -> list[str]:
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.com")
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "First commit")):
        subprocess.run(["git", *identity, *words], cwd=house.work, env=house.env, check=True)
    house.effects = house.root / "effects"  # Each cell works in a folder of its own.
    model = house.write_script(SCRIPT)
    words = ("--profile", "clean", "--model-from", model, "--check", "test -e n", "--times", str(_CELLS), "--json")
    return ["compare", "count", "-a", "scripted", *words]


def _resume_comparison(house: House) -> tuple[tuple[str, ...], ...]:
    return (("compare", "--resume", "@last", "--json"), _RECOVER) if _list_comparisons(house) else (_RECOVER,)


def _list_comparisons(house: House) -> list[Path]:
    return list(house.state.glob("comparisons/*/comparison.json"))


def _find_last_cell(house: House) -> str:
    """The loop of the cell that has none after it, once every cell has its result; until then nothing is over."""
    loops = house.list_works("loop")
    return loops[-1] if loops else ""


def _judge_comparison(house: House, kills: int) -> list[str]:
    """Each cell has one result, and passed; of every lost loop there is one that goes on with it."""
    (path,) = _list_comparisons(house)
    lines = [json.loads(line) for line in (path.parent / "results.jsonl").read_text().splitlines()]
    ended = [line for line in lines if line["kind"] == "cell_ended"]
    problems = [] if sorted(each["repeat"] for each in ended) == [1, 2] else [f"the cells are {ended}"]
    problems += [f"a cell ended as {each}" for each in ended if not each["passed"] or not each["runs"]]
    done = house.count_effects().total()
    return problems if _CELLS <= done <= _CELLS * (1 + kills) else [*problems, f"{done} turns after {kills} kills"]


def _find_last_loop(house: House) -> str:
    return house.find_last_of_chain(house.list_works("loop"))


def _find_last_blueprint(house: House) -> str:
    return house.find_last_of_chain(house.list_works("blueprint"))


def _judge_blueprint(house: House, kills: int) -> list[str]:
    """Every node has ended once in each of its rounds, in one of the blueprints that go on in each other."""
    chain = house.list_chain(house.list_works("blueprint"))
    problems = _judge_chain(house, chain)
    ended = [event for each in chain for event in house.read_events(each) if event["kind"] == "node_ended"]
    found = [((event["node"], event.get("round", 1)), event["status"]) for event in ended]
    expected = [sorted({("before", 1): "success", **each}.items()) for each in _ROUNDS[: 1 + min(1, kills)]]
    if sorted(found) not in expected:
        problems.append(f"the nodes ended as {found}")
    done = house.count_effects().total()
    return problems if 2 <= done <= 2 + kills else [*problems, f"{done} turns after {kills} kills"]


def _find_last_run(house: House) -> str:
    return house.find_last_of_chain(house.list_works(""))


def _judge_loop(house: House, kills: int) -> list[str]:
    """Every attempt is of one loop, is one run, and is judged once it completed; the check says that it is done."""
    chain = house.list_chain(house.list_works("loop"))
    problems = _judge_chain(house, chain)
    events = [event for loop in chain for event in house.read_events(loop)]
    started = [(event["attempt"], event["run_id"]) for event in events if event["kind"] == "attempt_started"]
    if [number for number, _ in started] != list(range(1, len(started) + 1)):
        problems.append(f"attempts are not counted on: {started}")
    if len({run for _, run in started}) != len(started):
        problems.append(f"a run is two attempts: {started}")
    unknown = {run for run, count in house.count_effects().items() if count} - {run for _, run in started}
    if unknown:
        problems.append(f"runs were at work that the loop does not know: {unknown}")
    done = house.count_effects().total()
    if not 2 <= done <= 2 + kills:
        problems.append(f"{done} turns after {kills} kills")
    completed = [event for event in events if event["kind"] == "attempt_ended" and event["reason"] == "done"]
    checked = [event for event in events if event["kind"] == "check_ended"]
    if len(completed) != len(checked) or [event["passed"] for event in checked][-1:] != [True]:
        problems.append(f"{len(completed)} attempts completed, {len(checked)} checks ended, of which the last passes")
    return problems


def _judge_run(house: House, kills: int) -> list[str]:
    chain = house.list_chain(house.list_works(""))
    problems = _judge_chain(house, chain)
    done = house.count_effects().total()
    if not 1 <= done <= 1 + kills:
        problems.append(f"{done} turns after {kills} kills")
    return problems


def _judge_chain(house: House, chain: list[str]) -> list[str]:
    """Each goes on in one other, and all but the last were lost."""
    ends = [house.read_end(each) for each in chain]
    problems = [] if ends[-1] == ("completed", "done") else [f"the end is {ends[-1]}"]
    problems += [f"one that goes on was {outcome}" for outcome, _ in ends[:-1] if outcome != "lost"]
    works = house.list_works(house.runs[chain[0]].get("work", ""))
    if sorted(works) != sorted(chain):
        problems.append(f"these are {works}, and the chain is {chain}")
    return problems


_ALONE = ("supervisor", "everybody")  # A run has no other owner.
SCENARIOS = {
    "compare": Scenario(
        agent="scripted",
        start=_start_comparison,
        again=_resume_comparison,
        find_last=_find_last_cell,
        judge=_judge_comparison,
        least_events=30,
        exclusive=True,
    ),
    "blueprint": Scenario(
        agent="scripted",
        start=_start_blueprint,
        find_last=_find_last_blueprint,
        judge=_judge_blueprint,
        least_events=40,
    ),
    **{
        name: Scenario(
            agent=agent, start=_start_loop(agent), find_last=_find_last_loop, judge=_judge_loop, least_events=27
        )
        for name, agent in (("loop", "scripted"), ("loop-codex", "codex"), ("loop-claude", "claude"))
    },
    **{
        name: Scenario(
            agent=agent,
            start=_start_run(agent),
            find_last=_find_last_run,
            judge=_judge_run,
            victims=_ALONE,
            least_events=11,
        )
        for name, agent in (("run", "scripted"), ("run-codex", "codex"), ("run-claude", "claude"))
    },
}
