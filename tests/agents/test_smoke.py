"""The thinnest path through the real agents."""

import pytest

from tests.house import House, processes_of


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_real_agent_says_what_its_model_says(house: House, agent: str) -> None:
    run = house.run(agent, '[[call]]\nsay = "hello there"\n')
    assert run.verdict == ("completed", "done", 0)
    assert [event["text"] for event in run.of("text_said")] == ["hello there"]
    assert run.stdout.strip() == "hello there"
    assert processes_of(run.run_id) == []


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_real_agent_says_so_to_an_ordinary_user(user_house: House, agent: str) -> None:
    run = user_house.run(agent, '[[call]]\nsay = "hello there"\n')
    assert run.verdict == ("completed", "done", 0), run.stderr
