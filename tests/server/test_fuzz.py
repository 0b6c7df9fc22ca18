"""Every address asked whatever its own description allows, and what it does not: never a fault, and always an answer
as described."""

from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import requests
import schemathesis
from hypothesis import strategies
from schemathesis import checks
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi import checks as openapi_checks

from inspan.client.operations import OPERATIONS
from inspan.server.openapi import build_description
from inspan.server.streams import STREAMS
from tests.cli.scenarios import run_to_end
from tests.cli_env import CliEnv
from tests.soak import rounds

from .living_run import LivingRun
from .server_process import PREFIX, ServerProcess

_DESCRIPTION = build_description(OPERATIONS, STREAMS)
_NAMES = ("status_code", "content_type", "response_headers", "response_schema")
# Its checks are generic in a type that it leaves open.
_CHECKS: list[Any] = [getattr(openapi_checks, f"{name}_conformance") for name in _NAMES]
_CHECKS.append(vars(checks)["not_a_server_error"])
# These look at every agent's program each time; and who tries wrong tokens waits longer each time.
_SLOW = ("/doctor", "/agents", "/agents/{agent}", "/login")
_EXAMPLES, _SLOW_EXAMPLES = 25, 3
_ADDRESSES = [(path, method) for path, methods in _DESCRIPTION["paths"].items() for method in methods]


@pytest.fixture(scope="module")
def names(idle_env: CliEnv) -> Iterator[list[str]]:
    """Runs that there are: one that has ended, and one that lives."""
    living = LivingRun(idle_env)
    living.say("it lives")
    yield [run_to_end(idle_env), living.run_id, "@last-anywhere"]
    living.close()


@pytest.mark.parametrize(("path", "method"), _ADDRESSES, ids=lambda word: word.removeprefix(PREFIX))
def test_no_request_is_a_fault_and_every_answer_is_as_described(
    idle_server: ServerProcess, names: list[str], path: str, method: str
) -> None:
    described: Any = schemathesis.openapi.from_dict(_DESCRIPTION)
    operation = described[path][method]
    modes: list[Any] = [operation.as_strategy(generation_mode=mode) for mode in GenerationMode]
    examples = _SLOW_EXAMPLES if path.removeprefix(PREFIX) in _SLOW else _EXAMPLES
    # What is removed is not there for the next address, and the run that the test owns hears no commands.
    chosen = {"get": names, "post": names[:1], "delete": []}[method]
    real = strategies.sampled_from([None, *chosen])

    @hypothesis.given(case=strategies.one_of(modes), name=real)
    @hypothesis.settings(max_examples=rounds(examples), phases=[hypothesis.Phase.generate])
    def ask(case: Any, name: str | None) -> None:
        if name and "run" in (case.path_parameters or {}):
            case.path_parameters["run"] = name
        _ask(idle_server, case)

    ask()
    assert idle_server.process.poll() is None


def _ask(server: ServerProcess, case: Any) -> None:
    sent: Any = case.as_transport_kwargs(base_url=f"http://127.0.0.1:{server.port}")
    sent["headers"] = {**sent.get("headers", {}), "Authorization": f"Bearer {server.token}"}
    sent.pop("cookies", None)
    with requests.Session() as session, session.request(**sent, timeout=60, stream=True) as response:
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            assert response.status_code == 200  # It has no end.
        else:
            case.validate_response(response, checks=_CHECKS)
