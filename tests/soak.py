"""How much of the long rounds is done: a seeded sample in `make test`, all of them and many more in `make soak`."""

import os
from random import Random

import hypothesis
import pytest

SCALE = int(os.environ.get("INSPAN_SOAK") or 0)
"""How many times as many rounds `make soak` does; 0 in `make test`."""


def rounds(usual: int) -> int:
    """How many rounds, examples or kills: so many as usual, or a multiple of it."""
    return usual * max(1, SCALE)


def load_profile() -> None:
    """Generated examples: the same ones each time in `make test`, others each time in `make soak`, by no clock."""
    profile = hypothesis.settings(
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
        database=None,
        derandomize=not SCALE,
        max_examples=rounds(100),
        print_blob=True,
    )
    hypothesis.settings.register_profile("inspan", profile)
    hypothesis.settings.load_profile("inspan")


def choose_sample(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps as many cases of a test as its mark `sample` says, always the same ones; all of them in `make soak`.

    For products of many values, where each value has to be tried and not each pair. Whoever names a test gets it whole.
    """
    named = config.option.keyword or any("::" in word for word in config.args)
    if SCALE or named:
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sample"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    dropped: list[pytest.Item] = []
    for name, found in cases.items():
        mark = found[0].get_closest_marker("sample")
        kept = Random(name).sample(found, min(len(found), mark.args[0] if mark else 0))
        dropped += [item for item in found if item not in kept]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in set(dropped)]
