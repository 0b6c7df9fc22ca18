"""A start that is cancelled leaves nothing at work."""

import asyncio
from contextlib import suppress

import pytest

from inspan import Client
from tests.cli_env import CliEnv

from .conftest import Tenant

pytestmark = pytest.mark.anyio
HANG = '[[call]]\nrun = "touch started; sleep 600"\n'


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize("turns", [0, 1, 3, 10, 100])
async def test_a_start_that_is_cancelled_ends_what_it_has_started(
    cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", cli_env.sockets)
    tenant = Tenant(Client(state=cli_env.state, env=cli_env.env), cli_env)
    starting = asyncio.create_task(tenant.client.runs.start(tenant.task(HANG)))
    for _ in range(turns):
        await asyncio.sleep(0.001)
    starting.cancel()
    with suppress(asyncio.CancelledError):
        started = await starting  # It was quicker.
        await tenant.client.runs.stop(started.run_id, now=True)
    for run in await tenant.client.runs.list():
        await tenant.client.runs.wait(run.run_id)
    assert [run.outcome for run in await tenant.client.runs.list()] in ([], ["cancelled"])
