"""Rules that a program gives: what cannot be used is refused with its field, before anything is made."""

import math
from pathlib import Path
from typing import Any

import pytest

from inspan.errors import BadInput
from inspan.loop.policy import check_policy, read_policy
from inspan.protocol.loop import LoopPolicy
from inspan.protocol.task import Task


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("max_restarts", each) for each in (1.5, "3", True, 10**30)),
        *(("checks", each) for each in ("false", ("\udcff",), ("a\0b",), (3,))),
        *(("time_limit_s", each) for each in (math.nan, math.inf, 0.0)),
        *(("delay_s", math.nan), ("longest_delay_s", -1.0), ("check_timeout_s", math.nan)),
        *(("rate_limit_backoff_s", each) for each in ((-1.0,), (math.nan,), 3.0)),
        *(("until", "text"), ("agents", "a,b"), ("nonce", 7), ("nonce", "\udcff")),
    ],
)
def test_a_rule_that_cannot_be_used_is_named(tmp_path: Path, field: str, value: Any) -> None:
    with pytest.raises(BadInput) as refused:
        check_policy(read_policy(LoopPolicy(**{field: value})), Task(prompt="do it", cwd=str(tmp_path)))
    flags = {"checks": "--check", "time_limit_s": "--max-time", "check_timeout_s": "--check-timeout"}
    flag = flags.get(field, f"--{field.removesuffix('_s')}".replace("_", "-"))
    assert refused.value.field.partition("[")[0] in (field, flag)


def test_what_is_no_policy_is_refused_and_lists_stand_for_tuples() -> None:
    assert read_policy(LoopPolicy(checks=["true"])) == LoopPolicy(checks=("true",))  # pyright: ignore[reportArgumentType]
    for value in (3, "text", {"no_such_rule": 1}):
        with pytest.raises(BadInput):
            read_policy(value)
