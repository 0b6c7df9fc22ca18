"""One channel and one provider out of those that an agent has."""

import re
from typing import Any

import msgspec
import pytest

from inspan.agents import registry
from inspan.agents.select import choose_provider, narrow_driver, select_channel, select_provider
from inspan.contracts.driver import Access, Capabilities, Channel, Driver, Install, ProgramSpec, Provider, Trials
from inspan.errors import BadInput
from inspan.protocol.task import Task

_SCRIPTED = registry.find_driver("scripted").channels[0]
_WAYS = (
    Provider(
        name="first",
        wire="messages",
        vendor="one",
        base_url="https://one",
        credentials=("ONE_KEY", "SHARED_KEY"),
        base_url_variables=("ONE_URL",),
    ),
    Provider(name="second", wire="chat", vendor="two", base_url="https://two", credentials=("TWO_KEY", "SHARED_KEY")),
    Provider(
        name="third",
        wire="responses",
        vendor="three",
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
    version_pattern=re.compile("other (.*)"),
    oldest=(9,),
    capabilities=Capabilities(review="yes"),
    unsupported_scenarios={"fork": "It has none."},
)
_DRIVER = Driver(
    name="many",
    title="Many",
    program=ProgramSpec(
        command="many",
        install=Install(package="many", version="1.0.0"),
    ),
    provider=Provider(
        wire="chat",
    ),
    channels=(_channel(name="usual"), _OTHER, _channel(name="plain")),
    providers=_WAYS,
    trials=Trials(
        unsupported_scenarios={"resume": "It forgets."},
    ),
)


def test_the_first_channel_is_the_usual_one() -> None:
    assert select_channel(_DRIVER, "") == msgspec.structs.replace(_DRIVER, channels=_DRIVER.channels[:1])


def test_what_a_channel_says_of_itself_holds_in_place_of_the_drivers_own() -> None:
    assert select_channel(_DRIVER, "other") == msgspec.structs.replace(
        _DRIVER,
        channels=(_OTHER,),
        program=ProgramSpec(
            command="other-program",
            install=Install(source="npm", package="other", version="9.9.9"),
            version_pattern=re.compile("other (.*)"),
            oldest=(9,),
        ),
        capabilities=Capabilities(review="yes"),
        trials=Trials(unsupported_scenarios={"fork": "It has none."}),
    )
    assert select_channel(_DRIVER, "plain").trials.unsupported_scenarios == _DRIVER.trials.unsupported_scenarios
    assert select_channel(_DRIVER, "other").program_variable == "INSPAN_MANY_OTHER_BIN"
    assert select_channel(_DRIVER, "plain").program_variable == "INSPAN_MANY_BIN"


def test_a_version_that_was_asked_for_is_that_of_the_channels_own_program() -> None:
    program = ProgramSpec(command="many", pinned=True, install=Install(package="many", version="8.8.8"))
    held = msgspec.structs.replace(_DRIVER, program=program)
    assert select_channel(held, "other").program.install == Install(source="npm", package="other", version="8.8.8")
    assert select_channel(held, "plain").program.install == held.program.install


@pytest.mark.parametrize("name", ["acp", "USUAL", " usual"])
def test_a_channel_that_there_is_not_is_refused_with_those_that_there_are(name: str) -> None:
    with pytest.raises(BadInput, match="Many has no such channel") as caught:
        select_channel(_DRIVER, name)
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
    assert choose_provider(_DRIVER, Task(prompt="x", cwd="/", **fields), env) == way


def test_a_chosen_provider_takes_the_place_of_all_and_the_keys_of_the_others_are_withheld() -> None:
    assert select_provider(_DRIVER, "second") == msgspec.structs.replace(
        _DRIVER, provider=_WAYS[1], access=Access(withheld_credentials=("ONE_KEY", "THREE_KEY"))
    )
    third = select_provider(_DRIVER, "third")
    assert (third.provider.key_aliases, third.access.withheld_credentials) == (
        ("THREE_KEY",),
        ("ONE_KEY", "SHARED_KEY", "TWO_KEY"),
    )
    assert select_provider(_DRIVER, "first").provider.base_url_variables == ("ONE_URL",)


def test_an_agent_with_one_provider_is_left_as_it_is() -> None:
    codex = registry.find_driver("codex")
    assert choose_provider(codex, Task(prompt="x", cwd="/", model="openai/gpt"), {}) == ""
    assert select_provider(codex, "") == codex
    assert select_provider(_DRIVER, "gone") == _DRIVER


def test_both_are_narrowed_by_their_names() -> None:
    assert narrow_driver(_DRIVER, channel="other", provider="third") == select_provider(
        select_channel(_DRIVER, "other"), "third"
    )


@pytest.mark.parametrize("agent", [driver.name for driver in registry.load_drivers() if driver.providers])
def test_the_ways_of_every_agent_can_be_told_apart(agent: str) -> None:
    driver = registry.find_driver(agent)
    assert len({way.name for way in driver.providers}) == len(driver.providers)
    assert [way for way in driver.providers if not way.credentials] == []
    first = select_provider(driver, driver.providers[0].name)
    assert (first.provider.wire, first.provider.credentials) == (
        driver.providers[0].wire,
        driver.providers[0].credentials,
    )
