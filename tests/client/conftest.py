"""A client of a tenant: of this machine, and of a server that runs there; the tests do not know which."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inspan import Client, Task
from tests.cli_env import CliEnv
from tests.server.server_process import ServerProcess


class Tenant:
    """A client, the place that it is for, and tasks for the scripted agent."""

    def __init__(self, client: Client, cli_env: CliEnv) -> None:
        self.client = client
        self.cli_env = cli_env

    def task(self, scenario: str, **more: Any) -> Task:
        path = self.cli_env.work / "scenario.toml"
        path.write_text(scenario)
        given: dict[str, Any] = {
            "cwd": str(self.cli_env.work),
            "agent": "scripted",
            "profile": "clean",
            "prompt": "do it",
            **more,
        }
        return Task(model_from=f"script:{path}", **given)


@pytest.fixture(params=["local", "remote"])
def tenant(request: pytest.FixtureRequest, cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tenant]:
    """With a state folder that this process does not name."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", cli_env.sockets)
    if request.param == "local":
        yield Tenant(Client(state=cli_env.state, env=cli_env.env), cli_env)
        return
    server = ServerProcess(cli_env)
    yield Tenant(Client(f"http://127.0.0.1:{server.port}", token=server.token), cli_env)
    server.close()


def start_repository(folder: Path, cli_env: CliEnv) -> None:
    """Makes the folder a repository with one commit."""
    import subprocess

    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *identity, *words], cwd=folder, env=cli_env.env, check=True)
