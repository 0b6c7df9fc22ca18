"""Runs whose model calls go to a till, and what inspan says of them afterwards."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inspan.protocol.spending import Spending
from inspan.protocol.usage import Usage
from inspan.stores.ledger import read_spendings
from tests.cli.refusal import Refusal, parse_refusal
from tests.cli_env import WAIT_S, CliEnv

from .conversation import list_runs
from .fake_provider import KEY, FakeProvider

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Bill:
    """A run that has ended, by its log; `code` is that of the command."""

    code: int
    events: list[Json]

    @property
    def run_id(self) -> str:
        return self.events[0]["run_id"]

    @property
    def ended(self) -> Json:
        assert self.events[-1]["kind"] == "run_ended"
        return self.events[-1]

    @property
    def verdict(self) -> tuple[str, str, int]:
        return self.ended["outcome"], self.ended["reason"], self.code

    @property
    def usage(self) -> Usage:
        return Usage(**self.ended.get("usage", {}))

    @property
    def calls(self) -> list[Json]:
        """Model calls in the order in which they were made."""
        return sorted(self.select_events("model_call_ended"), key=lambda event: event["call"])

    @property
    def refused(self) -> list[Json]:
        return [call for call in self.calls if call.get("problem", "").startswith("refused")]

    def select_events(self, kind: str) -> list[Json]:
        return [event for event in self.events if event["kind"] == kind]


class Account:
    """Runs agents in a house, with a key of a till's."""

    def __init__(self, cli_env: CliEnv, till: FakeProvider, *always: str) -> None:
        self._cli_env = cli_env
        self._provider = till
        self._always = always

    def run(self, agent: str, *more: str, key: str = KEY) -> Bill:
        """Runs to the end."""
        done = self._cli_env.inspan(*self.command(agent, *more), env=_keys(key))
        assert done.stdout, done.stderr
        return self._load_bill(done.returncode, done.stdout)

    def expect_refusal(self, agent: str, *more: str) -> Refusal:
        """A run that must not start, and must leave none behind; nothing may be asked of the provider either."""
        before = list_runs(self._cli_env), len(self._provider.received)
        done = self._cli_env.inspan(*self.command(agent, *more), env=_keys(KEY))
        assert (list_runs(self._cli_env), len(self._provider.received)) == before
        return parse_refusal(done)

    def detach(self, agent: str, *more: str, key: str = KEY) -> str:
        """Starts a run and gives its id."""
        done = self._cli_env.inspan(*self.command(agent, "-d", *more), env=_keys(key))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["run_id"]

    def start(self, agent: str, *more: str, key: str = KEY) -> "subprocess.Popen[bytes]":
        """Starts a run and follows it, without waiting."""
        return self._cli_env.start(*self.command(agent, *more), env=_keys(key))

    def wait_all(self, started: Sequence["subprocess.Popen[bytes]"]) -> list[Bill]:
        """Waits for runs that were started, which must have begun."""
        said = [process.communicate(timeout=2 * WAIT_S) for process in started]
        assert all(out for out, _ in said), [error.decode() for _, error in said]
        return [
            self._load_bill(process.returncode, out.decode()) for process, (out, _) in zip(started, said, strict=True)
        ]

    def wait_for_run(self, run_id: str) -> Bill:
        """Waits for a run that was detached."""
        code = self._cli_env.inspan("wait", run_id).returncode
        return Bill(code=code, events=self._cli_env.events(run_id))

    @property
    def ledger(self) -> list[Spending]:
        return read_spendings(str(self._cli_env.state))

    def cost(self, *more: str) -> Json:
        """What `inspan cost` says; without the time at which it said it."""
        return json.loads(self._cli_env.inspan("cost", "--json", *more).stdout)

    def budget(self) -> list[Json]:
        """What `inspan budget` says of each node."""
        return json.loads(self._cli_env.inspan("budget", "--json").stdout)["nodes"]

    def node(self, kind: str, name: str = "default") -> Json:
        """The same of one node."""
        (found,) = [each for each in self.budget() if each["node"] == kind and name in (each["task"], each["project"])]
        return found

    @property
    def keys(self) -> dict[str, str]:
        """The environment of its commands."""
        return _keys(KEY)

    def command(self, agent: str, *more: str) -> list[str]:
        """The command line of a run."""
        return [
            *("run", "do it", "--json", "-a", agent, "--profile", "clean", "--base-url", self._provider.url),
            *("--project", "shop", *self._always, *more),
        ]

    def _load_bill(self, code: int, printed: str) -> Bill:
        run_id = json.loads(printed.splitlines()[0])["event"]["run_id"]
        return Bill(code=code, events=self._cli_env.events(run_id))


def configure(cli_env: CliEnv, text: str) -> None:
    """Writes the user's own configuration."""
    path = cli_env.root / "home" / ".config" / "inspan" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _keys(key: str) -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": key, "CODEX_API_KEY": key}
