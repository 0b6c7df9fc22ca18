"""Answers that must fit a schema: given, repaired in the same session, given up; on the command line and in Python."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.house import House, until

from .ground import calls, say
from .program import in_python
from .styles import CLASSIC, CLAUDE, CODE_MODE, PER_CALL, Style, each_agent, each_style

Json = dict[str, Any]
NUMBER: Json = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
LOOSE: Json = {"type": "object", "properties": {"n": {"type": "integer"}}}
IN_WORDS = "Answer with exactly one JSON value"
GIVES = "answer = {n = 1}"
REFUSES = "say = 'I would rather not.'\nrepeat = 'always'"
REPAIRS = f"[[call]]\nwhen = 'could not be used'\n{GIVES}\n"
MISFIT = "the answer does not fit its schema: it is not one JSON value"
ASKS_AGAIN = "↻ the answer does not fit: asking again (1 of 2)\n"


@each_style
def test_an_answer_that_fits_is_printed_as_json(house: House, style: Style) -> None:
    code, stdout, stderr = _run(house, style, NUMBER, calls(GIVES))
    assert (code, stdout) == (0, '{"n":1}\n'), stderr
    assert len(_runs(house)) == 1
    assert (house.folder() / "output.md").read_text() == '{"n":1}'


@each_style
def test_an_answer_that_does_not_fit_is_asked_for_again_in_the_same_session(house: House, style: Style) -> None:
    code, stdout, stderr = _run(house, style, NUMBER, calls(REFUSES) + REPAIRS)
    assert (code, stdout) == (0, '{"n":1}\n'), stderr
    first, second = _runs(house)
    assert [house.events(run)[-1]["reason"] for run in (first, second)] == ["unfit_answer", "done"]
    started = house.events(second)[0]
    assert (started["resumes"], started["mode"]) == (first, "complete")
    assert _session(house, first) == _session(house, second)
    assert stderr.count(ASKS_AGAIN) == stderr.count("↻") == 1
    asked = (house.folder(second) / "prompt.md").read_text()
    assert asked.startswith(f"Your answer could not be used: {MISFIT}")


@each_style
def test_a_program_gets_the_repaired_answer_and_what_all_of_it_cost(house: House, style: Style) -> None:
    model = {"model": style.arguments[1]} if style.arguments else {}
    scenario = calls(REFUSES) + REPAIRS
    result = in_python(house, style.agent, "complete", scenario, output_schema=NUMBER, **model)
    assert (result["outcome"], result["reason"], result["answer"]) == ("completed", "done", {"n": 1})
    assert result["attempts"] == _runs(house)
    # One agent reminds its model once, before it gives up.
    made = 3 if style is CLAUDE else 2
    assert (result["model_calls"], result["tokens"]["input"]) == (made, made * PER_CALL.input)


def test_every_record_of_every_attempt_is_printed_as_json(house: House) -> None:
    code, stdout, stderr = _run(house, CODE_MODE, NUMBER, calls(REFUSES) + REPAIRS, "--json")
    assert (code, stderr) == (0, "")
    told = [json.loads(line)["event"] for line in stdout.splitlines()]
    first, second = _runs(house)
    assert told == house.events(first) + house.events(second)


@each_style
def test_an_answer_that_never_fits_is_given_up_after_two_more_tries(house: House, style: Style) -> None:
    code, stdout, stderr = _run(house, style, NUMBER, calls(REFUSES))
    assert (code, stdout) == (1, "")
    runs = _runs(house)
    ends = [house.events(run)[-1] for run in runs]
    assert [(end["outcome"], end["reason"]) for end in ends] == [("failed", "unfit_answer")] * 3
    assert [house.events(run)[0].get("resumes", "") for run in runs] == ["", *runs[:2]]
    assert all(end["message"].startswith(MISFIT) for end in ends)
    assert stderr.count("✘ failed (unfit_answer)") == 3
    assert stderr.count("↻") == 2


def test_a_program_is_told_why_no_answer_fits(house: House) -> None:
    result = in_python(house, "codex", "complete", calls(REFUSES), output_schema=NUMBER)
    assert (result["outcome"], result["reason"], result["answer"]) == ("failed", "unfit_answer", None)
    assert result["error"].startswith(MISFIT)
    assert result["attempts"] == _runs(house)
    assert len(result["attempts"]) == 3


def test_an_agent_that_gives_up_on_its_own_is_asked_again_all_the_same(house: House) -> None:
    code, stdout, _ = _run(house, CLAUDE, NUMBER, calls("answer = {n = 'x'}\nrepeat = 'always'"))
    assert (code, stdout) == (1, "")
    ends = [house.events(run)[-1] for run in _runs(house)]
    assert [(end["reason"], end["model_calls"]) for end in ends] == [("unfit_answer", 5)] * 3
    assert "/n: must be integer" in ends[-1]["message"]


@pytest.mark.parametrize("style", [CODE_MODE, CLASSIC], ids=str)
def test_a_schema_that_its_provider_would_refuse_is_said_in_words_and_still_holds(house: House, style: Style) -> None:
    wrong = f"say = '{{\"n\": \"one\"}}'\nexpect_anywhere = '{IN_WORDS}'\nrepeat = 'always'"
    code, stdout, _ = _run(house, style, LOOSE, calls(wrong) + REPAIRS)
    assert (code, stdout) == (0, '{"n":1}\n')
    first, _ = _runs(house)
    assert house.events(first)[-1]["message"].startswith("the answer does not fit its schema: at n: ")


@pytest.mark.parametrize("style", [CODE_MODE, CLASSIC], ids=str)
def test_a_strict_schema_goes_to_the_provider(house: House, style: Style) -> None:
    code, _, stderr = _run(house, style, NUMBER, calls(f"{GIVES}\nexpect_anywhere = 'codex_output_schema'"))
    assert code == 0, stderr


@each_style
@pytest.mark.parametrize(
    ("schema", "step", "answer"),
    [
        pytest.param({"type": "array", "items": {"type": "integer"}}, "say = '[1, 2]'", "[1, 2]", id="array"),
        pytest.param(
            {"$schema": "https://json-schema.org/draft/2020-12/schema", **NUMBER}, GIVES, '{"n":1}', id="draft"
        ),
        # One agent wants its answers by a tool, and reminds its model of it.
        pytest.param(NUMBER, "say = '''```json\n{\"n\": 1}\n```'''\nrepeat = 'always'", '{"n": 1}', id="fenced"),
        pytest.param(
            {**NUMBER, "properties": {"n": {"type": "integer", "description": "many words " * 20_000}}},
            f"{GIVES}\nexpect_anywhere = 'many words many words'",
            '{"n":1}',
            id="200-KB",
        ),
    ],
)
def test_schemas_and_answers_of_other_shapes(house: House, style: Style, schema: Json, step: str, answer: str) -> None:
    code, stdout, stderr = _run(house, style, schema, calls(step))
    assert (code, stdout) == (0, f"{answer}\n"), stderr
    assert len(_runs(house)) == 1


@each_agent
def test_a_very_large_answer_is_checked_and_given_whole(house: House, style: Style) -> None:
    schema = {**NUMBER, "properties": {"n": {"type": "integer"}, "text": {"type": "string"}}}
    text = "many words " * 900_000
    given = calls(f"answer = {{n = 1, text = '{text}'}}")
    code, stdout, stderr = _run(house, style, {**schema, "required": ["n", "text"]}, given, "--quiet")
    assert code == 0, stderr
    assert json.loads(stdout) == json.loads((house.folder() / "output.md").read_text()) == {"n": 1, "text": text}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"type": "nonsense"}', "output_schema {'type': 'nonsense'}: it is no JSON Schema: "),
        ('{"$ref": "#/$defs/gone"}', "output_schema {'$ref': '#/$defs/gone'}: it is no JSON Schema: "),
        ('{"$ref": "http://127.0.0.1:9/s.json"}', "output_schema {'$ref': 'http://127.0.0.1:9/s.json'}: it is no JSON"),
        ("[1]", "--schema 'schema.json': it is no JSON object: "),
        ("{", "--schema 'schema.json': it is no JSON object: "),
        (None, "--schema 'schema.json': No such file or directory."),
    ],
    ids=["type", "dangling", "remote", "list", "torn", "missing"],
)
def test_what_is_no_schema_is_refused_before_anything_starts(house: House, content: str | None, problem: str) -> None:
    if content is not None:
        (house.work / "schema.json").write_text(content)
    model = house.scenario(calls(say("Done.")))
    done = house.inspan("run", "do it", "-a", "codex", "--schema", "schema.json", "--model-from", model)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"inspan: {problem}")
    assert not house.state.exists()


@each_agent
def test_an_interrupt_ends_the_run_that_asks_again(house: House, style: Style) -> None:
    again = "[[call]]\nwhen = 'could not be used'\nstall = 'before-headers'\n"
    process = house.start(*_command(house, style, NUMBER, calls(REFUSES) + again))
    second = until(lambda: _begun(house, 2), "second run")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert house.events(second)[-1]["reason"] == "interrupted"
    assert len(_runs(house)) == 2
    assert b"stopping; press Ctrl-C again to kill" in stderr


def test_a_detached_run_is_not_asked_again(house: House) -> None:
    command = _command(house, CODE_MODE, NUMBER, calls(REFUSES))
    run_id = house.inspan(*command, "--detach").stdout.strip()
    assert house.inspan("wait", run_id).returncode == 1
    assert _runs(house) == [run_id]


def _run(house: House, style: Style, schema: Json, scenario: str, *more: str) -> tuple[int, str, str]:
    done = house.inspan(*_command(house, style, schema, scenario), *more)
    return done.returncode, done.stdout, done.stderr


def _command(house: House, style: Style, schema: Json, scenario: str) -> list[str]:
    path = house.root / "schema.json"
    path.write_text(json.dumps(schema))
    model = house.scenario(scenario)
    agent = ("-a", style.agent, *style.arguments, "--profile", "clean", "--model-from", model)
    return ["run", "do it", *agent, "--mode", "complete", "--schema", str(path)]


def _runs(house: House) -> list[str]:
    """The ids of all runs, in the order in which they were started."""
    return sorted(path.name for path in house.state.glob("projects/*/*/runs/*"))


def _begun(house: House, number: int) -> str:
    """The id of this run once its agent has begun to work; empty before that."""
    runs = _runs(house)
    log = Path(house.folder(runs[-1])) / "events.jsonl" if len(runs) == number else None
    return runs[-1] if log and log.exists() and b'"turn_started"' in log.read_bytes() else ""


def _session(house: House, run: str) -> str:
    return house.events(run)[-1]["session_id"]
