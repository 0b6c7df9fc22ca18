"""Servers of tools and prices as a task names them: every slip is found before anything is written."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from inspan.errors import BadInput
from inspan.planning.checks import check_task, describe_idle_limits
from inspan.protocol.limits import Limits, Price
from inspan.protocol.task import McpServer, Task

_BAD: dict[str, tuple[str, dict[str, Any], str, object]] = {
    "no-name": ("", {"command": "x"}, "mcp_servers", ""),
    "a-dot": ("a.b", {"command": "x"}, "mcp_servers", "a.b"),
    "a-space": ("a b", {"command": "x"}, "mcp_servers", "a b"),
    "two-underscores": ("a__b", {"command": "x"}, "mcp_servers", "a__b"),
    "too-long": ("a" * 65, {"command": "x"}, "mcp_servers", "a" * 65),
    "nothing": ("a", {}, "mcp_servers a", {"command": "", "url": ""}),
    "both": ("a", {"command": "x", "url": "http://y"}, "mcp_servers a", {"command": "x", "url": "http://y"}),
    "no-url": ("a", {"url": "ftp://y"}, "mcp_servers a", "ftp://y"),
    "nul-in-command": ("a", {"command": "x\0"}, "mcp_servers a", "x\0"),
    "nul-in-words": ("a", {"command": "x", "args": ("\0",)}, "mcp_servers a", "\0"),
    "nul-in-value": ("a", {"command": "x", "env": {"A": "\0"}}, "mcp_servers a", "\0"),
    "nul-in-header": ("a", {"url": "http://y", "headers": {"A": "\0"}}, "mcp_servers a", "\0"),
    "no-variable": ("a", {"command": "x", "env": {"A-B": "x"}}, "mcp_servers a", "A-B"),
    "a-command-as-variable": ("a", {"command": "x", "env": {"A=1; rm": "x"}}, "mcp_servers a", "A=1; rm"),
}


@pytest.mark.parametrize(("name", "server", "field", "value"), _BAD.values(), ids=_BAD)
def test_a_server_that_cannot_be_used_is_refused(
    tmp_path: Path, name: str, server: dict[str, Any], field: str, value: object
) -> None:
    with pytest.raises(BadInput) as caught:
        check_task(_task(tmp_path, {name: McpServer(**server)}))
    assert (caught.value.field, caught.value.value) == (field, value)
    assert caught.value.next_step


def test_servers_of_either_kind_are_accepted(tmp_path: Path) -> None:
    check_task(
        _task(
            tmp_path,
            {
                "A-b_1": McpServer(command="x", args=("",), env={"_A1": "é\n"}),
                "w": McpServer(url="https://y", headers={"Authorization": "Bearer x"}),
            },
        )
    )


def _task(folder: Path, servers: dict[str, McpServer]) -> Task:
    return Task(prompt="x", cwd=str(folder), mcp_servers=servers)


@pytest.mark.parametrize("field", ["input", "output", "cache_read", "cache_write"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), -0.000001])
def test_what_is_no_price_is_named_with_its_model_and_field(tmp_path: Path, field: str, value: float) -> None:
    price = msgspec.structs.replace(Price(input=1.0, output=1.0), **{field: value})
    with pytest.raises(BadInput) as caught:
        check_task(Task(prompt="x", cwd=str(tmp_path), agent="codex", prices={"m": price}))
    assert str(caught.value).startswith(f"prices m {{'{field}': {value}}}: it is not a price. Give dollars")


def test_a_price_of_zero_is_a_price(tmp_path: Path) -> None:
    check_task(Task(prompt="x", cwd=str(tmp_path), agent="codex", prices={"m": Price(input=0.0, output=0.0)}))


def test_more_processors_than_there_are_is_told_to_limit_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert describe_idle_limits(Limits(cpus=5000)) == ["--cpus 5000 limits nothing: this machine has 2 processors."]
    assert not any(describe_idle_limits(Limits(cpus=cpus)) for cpus in (None, 0.5, 2))
