"""`python -m tests.recovery.rounds ROOT SCENARIO VICTIM FIRST STEP [MOST]`: kills at every so-manieth event.

Each round does a scenario in a house of its own, kills processes at one point of it, goes on, and looks at what came of
that. `random SCENARIO SEED COUNT` in place of the words behind ROOT kills at any step, at any time, and again while it
is gone on. Prints a line of JSON for each round; its problems have to be none.
"""

import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from tests.cli_env import wait_until

from . import kill_points
from .house import House
from .scenarios import SCENARIOS, Scenario

_USUAL_S = 2.5
_WAIT_S = 90.0
_STEPS_PER_EVENT = 5


class Kill(msgspec.Struct, frozen=True, kw_only=True):
    """Who is killed, and when: at a point of that number, by events alone or `fine`, or after so many seconds."""

    victim: str
    at: int = 0
    fine: bool = False
    after_s: float = 0.0


class Round:
    """One scenario with its kills, one in each stage: the first while it is started, others while it goes on."""

    def __init__(self, scenario: Scenario, house: House, kills: list[Kill], *, patient: bool) -> None:
        self._scenario = scenario
        self._house = house
        self._kills = kills
        self._patient = patient
        self.said: list[str] = []
        self.problems: list[str] = []

    def run(self) -> None:
        """Does all of it; what is wrong stands in `problems`, and where it was killed in `said`."""
        commands = (tuple(self._scenario.start(self._house)),)
        for stage, kill in enumerate(self._kills):
            commands = self._scenario.again(self._house) if stage else commands
            if not self._run_killed(commands, kill, str(stage)):
                break
        before = {run: self._house.read_log(run) for run in self._house.runs}
        self._go_on()
        self._judge(before)

    def _run_killed(self, commands: tuple[tuple[str, ...], ...], kill: Kill, stage: str) -> bool:
        """Whether somebody was killed before all was done."""
        house, flag = self._house, self._house.root / f"killed-{stage}"
        watched = {
            kill_points.AT: str(kill.at),
            kill_points.VICTIM: kill.victim,
            kill_points.STAGE: stage,
            **({"KILL_FINE": "1"} if kill.fine else {}),
        }
        began = time.monotonic()
        for words in commands:
            pid = house.start(*words, watched=watched)
            while not (kill.after_s and time.monotonic() - began > kill.after_s) and not os.waitpid(pid, os.WNOHANG)[0]:
                time.sleep(0.01)
            if kill.after_s and time.monotonic() - began > kill.after_s:
                break
        self._wait(lambda: flag.exists() or self._is_over() or self._is_due(kill, began), "kill or end")
        pids = kill_points.list_living(house.root, kill.victim)
        if pids and self._is_due(kill, began) and not flag.exists():
            kill_points.kill_all(house.root, pids, f"after {kill.after_s:.2f} s", stage)
        self._reap()
        if not flag.exists():
            return False
        said, pids = flag.read_text().splitlines()
        self.said.append(said)
        dead = set(map(int, pids.split()))
        self._wait(lambda: dead.isdisjoint(kill_points.list_living(house.root, kill_points.EVERYBODY)), "death")
        self._reap()
        for path in (house.root / f"kept-{stage}").iterdir():
            whole = path.read_bytes()
            if not house.read_log(path.name).startswith(whole[: whole.rfind(b"\n") + 1]):
                self.problems.append(f"records of {path.name} are gone")
        if self._patient or self._scenario.exclusive:
            self._wait(lambda: not kill_points.list_living(house.root, kill_points.EVERYBODY), "end of who lives")
        return True

    def _is_due(self, kill: Kill, began: float) -> bool:
        return bool(kill.after_s) and time.monotonic() - began > kill.after_s

    def _go_on(self) -> None:
        """Without any kill, to the end."""
        if self._scenario.exclusive:
            self._wait(lambda: not kill_points.list_living(self._house.root, kill_points.EVERYBODY), "end of who lives")
        for words in self._scenario.again(self._house):
            code = self._house.run(*words)
            if code:
                self.problems.append(f"{words[0]}: {code}: {self._house.read_output('stderr')}")
        self._wait(self._is_over, "end of all")
        self._wait(lambda: not self._house.list_owners(), "end of every owner")
        self._wait(lambda: not self._house.find_processes(), "empty house")

    def _is_over(self) -> bool:
        """Whether all has ended, or nothing began."""
        last = self._scenario.find_last(self._house)
        living = kill_points.list_living(self._house.root, kill_points.EVERYBODY)
        return not living and (not last or bool(self._house.read_end(last)[0]))

    def _judge(self, before: dict[str, bytes]) -> None:
        house = self._house
        for run, log in before.items():
            if not house.read_log(run).startswith(log):
                self.problems.append(f"records of {run} are gone since")
        logs = {run: house.read_log(run) for run in house.runs}
        for words in self._scenario.again(self._house):
            if code := house.run(*words):
                self.problems.append(f"{words[0]} once more: {code}: {house.read_output('stderr')}")
        if house.run("ps", "-a", "--all", "--json"):
            self.problems.append(house.read_output("stderr"))
        else:
            self._judge_list(json.loads(house.read_output("stdout"))["runs"])
        if logs != {run: house.read_log(run) for run in house.runs}:
            self.problems.append("to go on once more changed something")
        if active := list(house.state.glob("active/*/run.json")):
            self.problems.append(f"still active: {[path.parent.name for path in active]}")
        for run in house.runs:
            self._judge_run(run)
        if self._scenario.find_last(house):
            self.problems += self._scenario.judge(house, len(self.said))
        elif house.count_effects():
            self.problems.append("nothing began, and somebody was at work")

    def _judge_list(self, rows: list[dict[str, Any]]) -> None:
        """Every run is listed, as what it is."""
        house = self._house
        if {row["run_id"] for row in rows} != set(house.runs):
            self.problems.append("not every run is listed")
        for row in rows:
            if (row["outcome"], row["reason"]) != house.read_end(row["run_id"]):
                self.problems.append(f"{row['run_id']} is listed as {row['outcome']}")

    def _judge_run(self, run: str) -> None:
        """It was at work once at the most, and completed only where it was; its log has one end."""
        house, events = self._house, self._house.read_events(run)
        kinds, times = [event["kind"] for event in events], house.count_effects()[run]
        if kinds.count("run_ended") != 1 or kinds[-1] != "run_ended" or kinds[:1] != ["run_started"]:
            self.problems.append(f"the log of {run} is {kinds}")
        if "work" in house.runs[run]:
            return
        if times > 1 or (house.read_end(run)[0] == "completed" and times != 1):
            self.problems.append(f"{run} was at work {times} times, and its end is {house.read_end(run)}")

    def _wait(self, look: Any, what: str) -> None:
        try:
            wait_until(lambda: self._reap() or look(), what, seconds=_WAIT_S)
        except AssertionError as error:
            self.problems.append(f"{error}: {self._house.find_processes()}")

    def _reap(self) -> None:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


def run_round(root: Path, name: str, kills: list[Kill], *, patient: bool = False) -> dict[str, Any] | None:
    """What came of one round; nothing where there was nobody to kill any more."""
    house = House(root, os.environ)
    done = Round(SCENARIOS[name], house, kills, patient=patient)
    try:
        done.run()
    except BaseException as error:
        done.problems.append(f"{type(error).__name__}: {error}")
    told = {"kills": msgspec.to_builtins(kills), "said": done.said, "problems": done.problems}
    if done.problems and os.environ.get("KILL_KEEP"):
        return told
    house.close()
    return told if done.said else None


def run_events(root: Path, name: str, victim: str, first: int, step: int, most: int) -> None:
    """Kills at each so-manieth event, until the work ends before it."""
    for number in range(first, first + step * most, step):
        told = run_round(root / str(number), name, [Kill(victim=victim, at=number)])
        if not told:
            break
        print(json.dumps({"number": number, **told}), flush=True)


def run_random(root: Path, name: str, seed: int, count: int) -> None:
    """Kills at random steps and moments, once, twice or three times."""
    for number in range(seed, seed + count):
        chance = Random(number)
        kills = [_choose_kill(chance, SCENARIOS[name], stage) for stage in range(chance.choice((1, 1, 2, 3)))]
        told = run_round(root / str(number), name, kills, patient=chance.random() < 0.2)
        print(json.dumps({"number": number, **(told or {"problems": []})}), flush=True)


def _choose_kill(chance: Random, scenario: Scenario, stage: int) -> Kill:
    victim = chance.choice(scenario.victims if not stage else ("owner", "everybody"))
    if chance.random() < 0.3:
        return Kill(victim=victim, after_s=chance.random() * _USUAL_S)
    return Kill(victim=victim, at=chance.randint(1, _STEPS_PER_EVENT * scenario.least_events), fine=True)


def main() -> None:
    # What the commands need is loaded once, for all that are forked.
    for command in ("compare", "loop", "ps", "recover"):
        import_module(f"inspan.cli.commands.{command}")
    root, name, *words = sys.argv[1:]
    if name == "random":
        run_random(Path(root), words[0], int(words[1]), int(words[2]))
    else:
        run_events(Path(root), name, words[0], int(words[1]), int(words[2]), int((*words, "10000")[3]))


if __name__ == "__main__":
    main()
