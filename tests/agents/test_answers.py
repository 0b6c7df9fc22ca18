"""Answers that must fit a schema: given, repaired in the same session, given up; on the command line and in Python."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli_env import CliEnv, wait_until

from .protected_folders import build_scenario, say_step
from .python_program import run_in_python
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
def test_an_answer_that_fits_is_printed_as_json(cli_env: CliEnv, style: Style) -> None:
    code, stdout, stderr = _run(cli_env, style, NUMBER, build_scenario(GIVES))
    assert (code, stdout) == (0, '{"n":1}\n'), stderr
    assert len(_runs(cli_env)) == 1
    assert (cli_env.folder() / "output.md").read_text() == '{"n":1}'


@each_style
def test_an_answer_that_does_not_fit_is_asked_for_again_in_the_same_session(cli_env: CliEnv, style: Style) -> None:
    code, stdout, stderr = _run(cli_env, style, NUMBER, build_scenario(REFUSES) + REPAIRS)
    assert (code, stdout) == (0, '{"n":1}\n'), stderr
    first, second = _runs(cli_env)
    assert [cli_env.events(run)[-1]["reason"] for run in (first, second)] == ["unfit_answer", "done"]
    started = cli_env.events(second)[0]
    assert (started["resumes"], started["mode"]) == (first, "complete")
    assert _session(cli_env, first) == _session(cli_env, second)
    assert stderr.count(ASKS_AGAIN) == stderr.count("↻") == 1
    asked = (cli_env.folder(second) / "prompt.md").read_text()
    assert asked.startswith(f"Your answer could not be used: {MISFIT}")


@each_style
def test_a_program_gets_the_repaired_answer_and_what_all_of_it_cost(cli_env: CliEnv, style: Style) -> None:
    model = {"model": style.arguments[1]} if style.arguments else {}
    scenario = build_scenario(REFUSES) + REPAIRS
    result = run_in_python(cli_env, style.agent, "complete", scenario, output_schema=NUMBER, **model)
    assert (result["outcome"], result["reason"], result["answer"]) == ("completed", "done", {"n": 1})
    assert result["attempts"] == _runs(cli_env)
    # One agent reminds its model once, before it gives up.
    made = 3 if style is CLAUDE else 2
    assert (result["model_calls"], result["tokens_used"]["input"]) == (made, made * PER_CALL.input)


def test_every_record_of_every_attempt_is_printed_as_json(cli_env: CliEnv) -> None:
    code, stdout, stderr = _run(cli_env, CODE_MODE, NUMBER, build_scenario(REFUSES) + REPAIRS, "--json")
    assert (code, stderr) == (0, "")
    told = [json.loads(line)["event"] for line in stdout.splitlines()]
    first, second = _runs(cli_env)
    assert told == cli_env.events(first) + cli_env.events(second)


@each_style
def test_an_answer_that_never_fits_is_given_up_after_two_more_tries(cli_env: CliEnv, style: Style) -> None:
    code, stdout, stderr = _run(cli_env, style, NUMBER, build_scenario(REFUSES))
    assert (code, stdout) == (1, "")
    runs = _runs(cli_env)
    ends = [cli_env.events(run)[-1] for run in runs]
    assert [(end["outcome"], end["reason"]) for end in ends] == [("failed", "unfit_answer")] * 3
    assert [cli_env.events(run)[0].get("resumes", "") for run in runs] == ["", *runs[:2]]
    assert all(end["message"].startswith(MISFIT) for end in ends)
    assert stderr.count("✘ failed (unfit_answer)") == 3
    assert stderr.count("↻") == 2


def test_a_program_is_told_why_no_answer_fits(cli_env: CliEnv) -> None:
    result = run_in_python(cli_env, "codex", "complete", build_scenario(REFUSES), output_schema=NUMBER)
    assert (result["outcome"], result["reason"], result["answer"]) == ("failed", "unfit_answer", None)
    assert result["error"].startswith(MISFIT)
    assert result["attempts"] == _runs(cli_env)
    assert len(result["attempts"]) == 3


def test_an_agent_that_gives_up_on_its_own_is_asked_again_all_the_same(cli_env: CliEnv) -> None:
    code, stdout, _ = _run(cli_env, CLAUDE, NUMBER, build_scenario("answer = {n = 'x'}\nrepeat = 'always'"))
    assert (code, stdout) == (1, "")
    ends = [cli_env.events(run)[-1] for run in _runs(cli_env)]
    assert [(end["reason"], end["model_calls"]) for end in ends] == [("unfit_answer", 5)] * 3
    assert "/n: must be integer" in ends[-1]["message"]


@pytest.mark.parametrize("style", [CODE_MODE, CLASSIC], ids=str)
def test_a_schema_that_its_provider_would_refuse_is_said_in_words_and_still_holds(
    cli_env: CliEnv, style: Style
) -> None:
    wrong = f"say = '{{\"n\": \"one\"}}'\nexpect_anywhere = '{IN_WORDS}'\nrepeat = 'always'"
    code, stdout, _ = _run(cli_env, style, LOOSE, build_scenario(wrong) + REPAIRS)
    assert (code, stdout) == (0, '{"n":1}\n')
    first, _ = _runs(cli_env)
    assert cli_env.events(first)[-1]["message"].startswith("the answer does not fit its schema: at n: ")


@pytest.mark.parametrize("style", [CODE_MODE, CLASSIC], ids=str)
def test_a_strict_schema_goes_to_the_provider(cli_env: CliEnv, style: Style) -> None:
    code, _, stderr = _run(cli_env, style, NUMBER, build_scenario(f"{GIVES}\nexpect_anywhere = 'codex_output_schema'"))
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
def test_schemas_and_answers_of_other_shapes(
    cli_env: CliEnv, style: Style, schema: Json, step: str, answer: str
) -> None:
    code, stdout, stderr = _run(cli_env, style, schema, build_scenario(step))
    assert (code, stdout) == (0, f"{answer}\n"), stderr
    assert len(_runs(cli_env)) == 1


@each_agent
def test_a_very_large_answer_is_checked_and_given_whole(cli_env: CliEnv, style: Style) -> None:
    schema = {**NUMBER, "properties": {"n": {"type": "integer"}, "text": {"type": "string"}}}
    text = "many words " * 900_000
    given = build_scenario(f"answer = {{n = 1, text = '{text}'}}")
    code, stdout, stderr = _run(cli_env, style, {**schema, "required": ["n", "text"]}, given, "--quiet")
    assert code == 0, stderr
    assert json.loads(stdout) == json.loads((cli_env.folder() / "output.md").read_text()) == {"n": 1, "text": text}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"type": "nonsense"}', "output_schema {'type': 'nonsense'}: it is not a JSON Schema: "),
        ('{"$ref": "#/$defs/gone"}', "output_schema {'$ref': '#/$defs/gone'}: it is not a JSON Schema: "),
        (
            '{"$ref": "http://127.0.0.1:9/s.json"}',
            "output_schema {'$ref': 'http://127.0.0.1:9/s.json'}: it is not a JSON",
        ),
        ("[1]", "--schema 'schema.json': it is not a JSON object: "),
        ("{", "--schema 'schema.json': it is not a JSON object: "),
        (None, "--schema 'schema.json': No such file or directory."),
    ],
    ids=["type", "dangling", "remote", "list", "torn", "missing"],
)
def test_what_is_no_schema_is_refused_before_anything_starts(
    cli_env: CliEnv, content: str | None, problem: str
) -> None:
    if content is not None:
        (cli_env.work / "schema.json").write_text(content)
    model = cli_env.scenario(build_scenario(say_step("Done.")))
    done = cli_env.inspan("run", "do it", "-a", "codex", "--schema", "schema.json", "--model-from", model)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"inspan: {problem}")
    assert not cli_env.state.exists()


@each_agent
def test_an_interrupt_ends_the_run_that_asks_again(cli_env: CliEnv, style: Style) -> None:
    again = "[[call]]\nwhen = 'could not be used'\nstall = 'before-headers'\n"
    process = cli_env.start(*_command(cli_env, style, NUMBER, build_scenario(REFUSES) + again))
    second = wait_until(lambda: _find_started_run(cli_env, 2), "second run")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    assert cli_env.events(second)[-1]["reason"] == "interrupted"
    assert len(_runs(cli_env)) == 2
    assert b"stopping; press Ctrl-C again to kill" in stderr


def test_a_detached_run_is_not_asked_again(cli_env: CliEnv) -> None:
    command = _command(cli_env, CODE_MODE, NUMBER, build_scenario(REFUSES))
    run_id = cli_env.inspan(*command, "--detach").stdout.strip()
    assert cli_env.inspan("wait", run_id).returncode == 1
    assert _runs(cli_env) == [run_id]


def _run(cli_env: CliEnv, style: Style, schema: Json, scenario: str, *more: str) -> tuple[int, str, str]:
    done = cli_env.inspan(*_command(cli_env, style, schema, scenario), *more)
    return done.returncode, done.stdout, done.stderr


def _command(cli_env: CliEnv, style: Style, schema: Json, scenario: str) -> list[str]:
    path = cli_env.root / "schema.json"
    path.write_text(json.dumps(schema))
    model = cli_env.scenario(scenario)
    agent = ("-a", style.agent, *style.arguments, "--profile", "clean", "--model-from", model)
    return ["run", "do it", *agent, "--mode", "complete", "--schema", str(path)]


def _runs(cli_env: CliEnv) -> list[str]:
    """The ids of all runs, in the order in which they were started."""
    return sorted(path.name for path in cli_env.state.glob("projects/*/*/runs/*"))


def _find_started_run(cli_env: CliEnv, number: int) -> str:
    """The id of this run once its agent has begun to work; empty before that."""
    runs = _runs(cli_env)
    log = Path(cli_env.folder(runs[-1])) / "events.jsonl" if len(runs) == number else None
    return runs[-1] if log and log.exists() and b'"turn_started"' in log.read_bytes() else ""


def _session(cli_env: CliEnv, run: str) -> str:
    return cli_env.events(run)[-1]["session_id"]
