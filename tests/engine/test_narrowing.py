"""One channel and one provider out of those that an agent has."""

import re
from typing import Any

import msgspec
import pytest

from inspan.contracts.driver import Capabilities, Channel, Driver, Install, Way
from inspan.engine import registry
from inspan.engine.narrowing import by_channel, by_way, narrowed, way_of
from inspan.errors import BadInput
from inspan.protocol.task import Task

_SCRIPTED = registry.driver("scripted").channels[0]
_WAYS = (
    Way(
        name="first",
        wire="messages",
        provider="one",
        base_url="https://one",
        credentials=("ONE_KEY", "SHARED_KEY"),
        base_url_variables=("ONE_URL",),
    ),
    Way(name="second", wire="chat", provider="two", base_url="https://two", credentials=("TWO_KEY", "SHARED_KEY")),
    Way(
        name="third",
        wire="responses",
        provider="three",
        base_url="https://three",
        credentials=("THREE_KEY",),
        key_aliases=("THREE_KEY",),
    ),
)


def _channel(**fields: Any) -> Channel:
    return Channel(kind="rpc", launch=_SCRIPTED.launch, dialect=_SCRIPTED.dialect, **fields)


_OTHER = _channel(
    name="other",
    program="other-program",
    install=Install(source="npm", package="other", version="9.9.9"),
    version_words=re.compile("other (.*)"),
    oldest=(9,),
    capabilities=Capabilities(review="yes"),
    cannot={"fork": "It has none."},
)
_DRIVER = Driver(
    name="many",
    title="Many",
    program="many",
    wire="chat",
    channels=(_channel(name="usual"), _OTHER, _channel(name="plain")),
    ways=_WAYS,
    cannot={"resume": "It forgets."},
    install=Install(package="many", version="1.0.0"),
)


def test_the_first_channel_is_the_usual_one() -> None:
    assert by_channel(_DRIVER, "") == msgspec.structs.replace(_DRIVER, channels=_DRIVER.channels[:1])


def test_what_a_channel_says_of_itself_holds_in_place_of_the_drivers_own() -> None:
    assert by_channel(_DRIVER, "other") == msgspec.structs.replace(
        _DRIVER,
        channels=(_OTHER,),
        program="other-program",
        install=Install(source="npm", package="other", version="9.9.9"),
        version_words=re.compile("other (.*)"),
        oldest=(9,),
        capabilities=Capabilities(review="yes"),
        cannot={"fork": "It has none."},
    )
    assert by_channel(_DRIVER, "plain").cannot == _DRIVER.cannot
    assert by_channel(_DRIVER, "other").program_variable == "INSPAN_MANY_OTHER_BIN"
    assert by_channel(_DRIVER, "plain").program_variable == "INSPAN_MANY_BIN"


def test_a_version_that_was_asked_for_is_that_of_the_channels_own_program() -> None:
    held = msgspec.structs.replace(_DRIVER, pinned=True, install=Install(package="many", version="8.8.8"))
    assert by_channel(held, "other").install == Install(source="npm", package="other", version="8.8.8")
    assert by_channel(held, "plain").install == held.install


@pytest.mark.parametrize("name", ["acp", "USUAL", " usual"])
def test_a_channel_that_there_is_not_is_refused_with_those_that_there_are(name: str) -> None:
    with pytest.raises(BadInput, match="Many has no such channel") as caught:
        by_channel(_DRIVER, name)
    assert caught.value.next_step == "Its channels: usual, other, plain."


@pytest.mark.parametrize(
    ("fields", "env", "way"),
    [
        ({}, {}, "first"),
        ({"model": "second/model-2"}, {"ONE_KEY": "k", "THREE_KEY": "k"}, "second"),
        ({"model": "third/a/b"}, {}, "third"),
        ({"model": "second"}, {}, "first"),
        ({"model": "unknown/model"}, {"TWO_KEY": "k"}, "second"),
        ({"model": "model"}, {"THREE_KEY": "k"}, "third"),
        ({}, {"THREE_KEY": "k", "TWO_KEY": "k"}, "second"),
        ({}, {"TWO_KEY": ""}, "first"),
        ({}, {"SHARED_KEY": "k"}, "first"),
        ({"env": {"THREE_KEY": "k"}}, {}, "third"),
        ({"env": {"THREE_KEY": "k"}}, {"ONE_KEY": "k"}, "third"),
        ({"key_from": "env:TWO_KEY"}, {}, "second"),
        ({"key_from": "env:TWO_KEY"}, {"ONE_KEY": "k", "TWO_KEY": "k"}, "second"),
        ({"key_from": "env: TWO_KEY "}, {}, "second"),
        ({"key_from": "env:MY_KEY"}, {"THREE_KEY": "k"}, "third"),
        ({"key_from": "file:/TWO_KEY"}, {}, "first"),
        ({"key_from": "env:TWO_KEY", "model": "first/model"}, {}, "first"),
    ],
)
def test_the_provider_is_the_one_that_the_model_names_else_the_one_that_has_a_key(
    fields: dict[str, Any], env: dict[str, str], way: str
) -> None:
    assert way_of(_DRIVER, Task(prompt="x", cwd="/", **fields), env) == way


def test_a_chosen_provider_takes_the_place_of_all_and_the_keys_of_the_others_are_withheld() -> None:
    assert by_way(_DRIVER, "second") == msgspec.structs.replace(
        _DRIVER,
        wire="chat",
        provider="two",
        base_url="https://two",
        credentials=("TWO_KEY", "SHARED_KEY"),
        withheld=("ONE_KEY", "THREE_KEY"),
    )
    third = by_way(_DRIVER, "third")
    assert (third.key_aliases, third.withheld) == (("THREE_KEY",), ("ONE_KEY", "SHARED_KEY", "TWO_KEY"))
    assert by_way(_DRIVER, "first").base_url_variables == ("ONE_URL",)


def test_an_agent_with_one_provider_is_left_as_it_is() -> None:
    codex = registry.driver("codex")
    assert way_of(codex, Task(prompt="x", cwd="/", model="openai/gpt"), {}) == ""
    assert by_way(codex, "") == codex
    assert by_way(_DRIVER, "gone") == _DRIVER


def test_both_are_narrowed_by_their_names() -> None:
    assert narrowed(_DRIVER, channel="other", way="third") == by_way(by_channel(_DRIVER, "other"), "third")


@pytest.mark.parametrize("agent", [driver.name for driver in registry.drivers() if driver.ways])
def test_the_ways_of_every_agent_can_be_told_apart(agent: str) -> None:
    driver = registry.driver(agent)
    assert len({way.name for way in driver.ways}) == len(driver.ways)
    assert [way for way in driver.ways if not way.credentials] == []
    first = by_way(driver, driver.ways[0].name)
    assert (first.wire, first.credentials) == (driver.ways[0].wire, driver.ways[0].credentials)
