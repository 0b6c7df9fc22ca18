"""The agents that are an API: how each is asked, and a house that needs none of the vendors' programs."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli_env import CliEnv, FinishedRun

KEY = "sk-given-Qw8Zr5Tn2Lx9Vk4Hd7Pj"


@dataclass(frozen=True, kw_only=True)
class Api:
    """An API agent; `more` is what has to be said with every real call to it."""

    name: str
    wire: str
    variable: str
    model: str
    more: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


XAI = Api(name="xai", wire="responses", variable="XAI_API_KEY", model="grok-4.7")
PERPLEXITY = Api(name="perplexity", wire="responses", variable="PERPLEXITY_API_KEY", model="perplexity/sonar")
COMPATIBLE = Api(
    name="openai-compatible",
    wire="chat",
    variable="OPENAI_COMPATIBLE_API_KEY",
    model="llama",
    more=("-m", "llama"),
)
APIS = (XAI, PERPLEXITY, COMPATIBLE)
each_api = pytest.mark.parametrize("api", APIS, ids=str)
each_language = pytest.mark.parametrize("api", [XAI, COMPATIBLE], ids=str)


@pytest.fixture
def env_without_agents(tmp_path: Path) -> Iterator[CliEnv]:
    """A house without any agent's program."""
    (tmp_path / "house").mkdir()
    made = CliEnv(tmp_path / "house")
    yield made
    made.close()


def run_scripted(
    cli_env: CliEnv, api: Api, scenario: str, *more: str, env: dict[str, str] | None = None
) -> FinishedRun:
    """Asks for a completion from a scripted model, to the end."""
    return cli_env.run(api.name, scenario, "--mode", "complete", *api.more, *more, env=env)


def run_on_loopback(cli_env: CliEnv, api: Api, url: str, *more: str, env: dict[str, str] | None = None) -> FinishedRun:
    """Asks a provider on loopback, with a key in the usual variable."""
    keys = {api.variable: KEY} if env is None else env
    words = ["run", "do it", "-a", api.name, "--profile", "clean", "--base-url", f"{url}/v1", *api.more, *more]
    return FinishedRun(cli_env, cli_env.inspan(*words, *([] if "--mode" in more else ["--mode", "complete"]), env=keys))


def agent_events(run: FinishedRun) -> list[dict[str, Any]]:
    """What the agent itself told, without what inspan and its gateway add."""
    ours = ("run_started", "model_call_ended", "rate_limited", "ending_began", "run_ended")
    return [event for event in run.events if event["kind"] not in ours]
