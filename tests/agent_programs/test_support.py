"""What an agent cannot do is refused by name, with what its driver says of it; what it can is let through."""

from typing import Any

import msgspec
import pytest

from inspan.agents import registry
from inspan.agents.support import check_support
from inspan.contracts.driver import Capabilities, Driver
from inspan.errors import BadInput, Unsupported
from inspan.protocol.limits import Limits
from inspan.protocol.task import McpServer, Task

_NOTES = {"review": "It edits.", "max_turns": "It counts none.", "allowed_tools": "It has no list."}
_NOTHING = Capabilities(notes=_NOTES)
_EVERYTHING = Capabilities(
    review="yes",
    complete="asked",
    allowed_tools="yes",
    disallowed_tools="yes",
    resume="yes",
    fork="yes",
    extra_dirs="yes",
    max_turns="yes",
    efforts=("low", "high"),
    mcp=("stdio", "http"),
)
_GENERAL = "`inspan agents --json` shows what it can do; leave this out or choose another agent."
_STDIO, _WEB = McpServer(command="x"), McpServer(url="https://x")
# Task → field, value and next step of the refusal by an agent that can do nothing.
_REFUSED: dict[str, tuple[dict[str, Any], tuple[str, object, str]]] = {
    "review": ({"mode": "review"}, ("mode", "review", "It edits.")),
    "complete": ({"mode": "complete"}, ("mode", "complete", _GENERAL)),
    "list": ({"allowed_tools": ("Read",)}, ("allowed_tools", ("Read",), "It has no list.")),
    "empty-list": ({"allowed_tools": ()}, ("allowed_tools", (), "It has no list.")),
    "denied": ({"disallowed_tools": ("Bash",)}, ("disallowed_tools", ("Bash",), _GENERAL)),
    "folder": ({"extra_dirs": ("/a",)}, ("extra_dirs", ("/a",), _GENERAL)),
    "resume": ({"resume": "x"}, ("resume", "x", _GENERAL)),
    "effort": ({"effort": "high"}, ("effort", "high", _GENERAL)),
    "turns": ({"limits": Limits(max_turns=2), "model_from": "direct"}, ("max_turns", 2, "It counts none.")),
    "stdio": ({"mcp_servers": {"a": _STDIO}}, ("mcp_servers a", "stdio", _GENERAL)),
}


@pytest.mark.parametrize(("fields", "refusal"), _REFUSED.values(), ids=_REFUSED)
def test_what_an_agent_has_not_is_refused(fields: dict[str, Any], refusal: tuple[str, object, str]) -> None:
    with pytest.raises(Unsupported) as caught:
        check_support(_task(**fields), _driver(_NOTHING))
    error = caught.value
    assert (error.field, error.value, error.next_step) == refusal
    assert "Codex does not support this." in error.message


@pytest.mark.parametrize("fields", [row[0] for row in _REFUSED.values()], ids=_REFUSED)
def test_what_an_agent_has_is_let_through(fields: dict[str, Any]) -> None:
    check_support(_task(**fields), _driver(_EVERYTHING))


def test_turns_can_be_counted_where_there_is_a_gateway() -> None:
    check_support(_task(limits=Limits(max_turns=2), model_from="script:/x"), _driver(_NOTHING))


def test_an_effort_is_one_of_those_that_it_knows() -> None:
    with pytest.raises(Unsupported) as caught:
        check_support(_task(effort="medium"), _driver(_EVERYTHING))
    assert caught.value.next_step == "Use one of low, high."


def test_a_server_is_reached_in_a_way_that_the_agent_knows() -> None:
    agent = _driver(msgspec.structs.replace(_EVERYTHING, mcp=("stdio",)))
    with pytest.raises(Unsupported) as caught:
        check_support(_task(mcp_servers={"a": _STDIO, "b": _WEB}), agent)
    assert (caught.value.field, caught.value.next_step) == ("mcp_servers b", "It takes servers by stdio.")


@pytest.mark.parametrize("mode", ["review", "complete"])
@pytest.mark.parametrize(
    ("allowed", "refused"), [(("Read", "mcp__a__b"), ""), (("Read", "Write"), "Write"), (("read",), "read")]
)
def test_an_agent_without_lists_can_be_granted_what_it_names(mode: str, allowed: tuple[str, ...], refused: str) -> None:
    capabilities = Capabilities(review="yes", complete="yes", grants=("Read", "mcp__"))
    task = _task(mode=mode, allowed_tools=allowed)
    if not refused:
        return check_support(task, _driver(capabilities))
    with pytest.raises(Unsupported) as caught:
        check_support(task, _driver(capabilities))
    assert (caught.value.field, caught.value.value) == ("allowed_tools", refused)
    return None


def test_a_completion_without_tools_refuses_servers_of_tools() -> None:
    task = _task(mode="complete", mcp_servers={"a": _STDIO})
    with pytest.raises(BadInput) as caught:
        check_support(task, _driver(_EVERYTHING))
    assert (caught.value.field, caught.value.value) == ("mcp_servers", ["a"])
    check_support(msgspec.structs.replace(task, allowed_tools=("mcp__a",)), _driver(_EVERYTHING))


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_the_notes_of_an_agent_are_about_its_capabilities(agent: str) -> None:
    assert registry.find_driver(agent).capabilities.notes.keys() <= set(Capabilities.__struct_fields__)


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_an_agent_that_does_not_report_every_denial_says_which(agent: str) -> None:
    capabilities = registry.find_driver(agent).capabilities
    assert capabilities.reports_denials == "yes" or capabilities.notes["reports_denials"]


def _driver(capabilities: Capabilities) -> Driver:
    return msgspec.structs.replace(registry.find_driver("codex"), capabilities=capabilities)


def _task(**fields: Any) -> Task:
    return Task(prompt="do it", cwd="/", **fields)
