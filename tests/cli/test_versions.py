"""Versions of an agent: those that were tried, those that were not, and one that is asked for by its number."""

import json
from pathlib import Path
from typing import Any

import pytest

from inspan.agents.program import fill_platform
from inspan.agents.registry import find_driver
from tests.cli_env import CliEnv
from tests.npm_registry import Registry
from tests.running.fake_agent import PRELUDE, Fake

from .refusal import expect_refusal

_HELP = 'if sys.argv[1:] == ["exec", "--help"]: print({words!r}); sys.exit()\n'
_TRIED = find_driver("codex").program.install.version


def _codex(
    fake: Fake, version: str, *, names: tuple[str, ...] = find_driver("codex").program.required_flags
) -> dict[str, str]:
    """A house in which Codex says that it is of this version, and names these options in its help."""
    head, begin = PRELUDE.replace("0.163.0", version).split("prompt = ", 1)
    acts = f"{head}{_HELP.format(words=' '.join(names))}prompt = {begin}begin(); say('hello'); finish()\n"
    return {"INSPAN_CODEX_BIN": fake("codex", acts), "CODEX_API_KEY": "sk-none-at-all"}


def _run(*more: str) -> list[str]:
    return ["run", "do it", "-a", "codex", "--profile", "user", "--model-from", "direct", *more]


def _finding(cli_env: CliEnv, agent: str, env: dict[str, str], *more: str, code: int = 0) -> dict[str, Any]:
    done = cli_env.inspan("doctor", agent, "--json", *more, env=env)
    assert (done.returncode, done.stderr) == (code, "")
    found = {each["subject"]: each for each in json.loads(done.stdout)["findings"]}
    assert [name for name in found if name.startswith("agent ")] == [f"agent {agent}"]
    return found[f"agent {agent}"]


@pytest.mark.parametrize("version", ["0.150.0", "0.999.0"])
def test_a_version_that_was_never_tried_works_with_a_warning(cli_env: CliEnv, fake: Fake, version: str) -> None:
    env = _codex(fake, version)
    done = cli_env.inspan(*_run(), env=env)
    sentence = f"Codex {version} was not tested: the matrix was run on {_TRIED}."
    assert (done.returncode, cli_env.events()[0]["warnings"]) == (0, [sentence]), done.stderr
    assert f"! {sentence}\n" in done.stdout + done.stderr


def test_a_version_that_was_tried_is_not_warned_of(cli_env: CliEnv, fake: Fake) -> None:
    env = _codex(fake, _TRIED)
    done = cli_env.inspan(*_run("--strict"), env=env)
    assert (done.returncode, cli_env.events()[0].get("warnings", [])) == (0, []), done.stderr


def test_strict_refuses_a_version_that_was_never_tried_and_names_those_that_were(cli_env: CliEnv, fake: Fake) -> None:
    env = _codex(fake, "0.999.0")
    refusal = expect_refusal(cli_env, *_run("--strict"), env=env)
    assert (refusal.exit_code, refusal.code) == (5, "agent_untested")
    assert refusal.message == f"Codex 0.999.0 was not tested: the matrix was run on {_TRIED}."
    tried = f"codex@{_TRIED}"
    assert refusal.next == (
        f"Leave --strict out, or use one that was tested: `inspan agents install {tried}`, then `-a {tried}`."
    )


def test_a_version_below_the_oldest_that_works_is_refused_in_any_case(cli_env: CliEnv, fake: Fake) -> None:
    env = _codex(fake, "0.148.0")
    refusal = expect_refusal(cli_env, *_run(), env=env)
    assert (refusal.exit_code, refusal.code) == (5, "agent_too_old")
    assert "the oldest supported version is 0.149.0" in refusal.message
    found = _finding(cli_env, "codex", env, code=5)
    assert (found["state"], found["remedy"]) == ("problem", "install codex")


def test_the_doctor_names_the_versions_that_were_tried_and_the_key(cli_env: CliEnv, fake: Fake) -> None:
    env = _codex(fake, _TRIED)
    program = f"{env['INSPAN_CODEX_BIN']} (INSPAN_CODEX_BIN)"
    assert _finding(cli_env, "codex", env) == {
        "subject": "agent codex",
        "state": "ok",
        "detail": f"Codex {_TRIED} at {program}; tried on {_TRIED}; key in CODEX_API_KEY",
        "next_step": "",
        "remedy": "",
    }


def test_the_doctor_doubts_what_was_never_tried_and_options_that_its_help_does_not_name(
    cli_env: CliEnv, fake: Fake
) -> None:
    env = _codex(fake, "0.999.0", names=find_driver("codex").program.required_flags[2:])
    found = _finding(cli_env, "codex", env)
    first, second = find_driver("codex").program.required_flags[:2]
    sentence = (
        f"Codex 0.999.0 was not tested: the matrix was run on {_TRIED}. its help does not name {first}, {second}."
    )
    assert (found["state"], found["remedy"]) == ("warning", "install codex")
    assert f"; {sentence}; key in CODEX_API_KEY" in found["detail"]
    assert "inspan matrix --agent codex@0.999.0" in found["next_step"]


def test_a_help_that_did_not_come_is_asked_for_again(cli_env: CliEnv, fake: Fake) -> None:
    env = _codex(fake, _TRIED)
    program, busy = Path(env["INSPAN_CODEX_BIN"]), cli_env.root / "busy"
    program.write_text(program.read_text().replace("print('--", f"os.path.exists({str(busy)!r}) or print('--"))
    busy.touch()
    assert _finding(cli_env, "codex", env)["state"] == "warning"
    busy.unlink()
    assert _finding(cli_env, "codex", env)["state"] == "ok"
    busy.touch()
    assert _finding(cli_env, "codex", env)["state"] == "ok"


@pytest.mark.parametrize(("agent", "code"), [("scripted", 0), ("xai", 0), ("codex", 5)])
def test_the_doctor_of_named_agents_answers_for_those(cli_env: CliEnv, agent: str, code: int) -> None:
    env = {"INSPAN_CODEX_BIN": "/nonexistent/codex", "XAI_API_KEY": "xai-0123456789abcdef"}
    assert (_finding(cli_env, agent, env, code=code)["state"] == "problem") == bool(code)


def test_the_doctor_looks_at_every_name_once_and_refuses_one_that_there_is_not(cli_env: CliEnv) -> None:
    done = cli_env.inspan("doctor", "scripted", "codex", "scripted", "--json")
    subjects = [each["subject"] for each in json.loads(done.stdout)["findings"]]
    assert [name for name in subjects if name.startswith("agent ")] == ["agent scripted", "agent codex"]
    refusal = expect_refusal(cli_env, "doctor", "codex", "codx")
    assert (refusal.exit_code, refusal.code) == (2, "unknown_agent")


def test_the_doctor_of_an_agent_with_many_providers_finds_the_key_that_a_run_would_use(
    cli_env: CliEnv, fake: Fake
) -> None:
    pi = fake("pi", f"print({find_driver('pi').program.install.version!r})")
    found = _finding(cli_env, "pi", {"INSPAN_PI_BIN": pi, "XAI_API_KEY": "xai-0123456789abcdef"})
    assert found["detail"].endswith("; key in XAI_API_KEY")


def test_a_version_is_put_in_place_by_the_doctor_and_used_by_its_number(
    cli_env: CliEnv, node: Path, npm_registry: Registry
) -> None:
    """Claude Code in a version of which no wheel is known: npm has it, one package for each platform."""
    (cli_env.root / "data" / "inspan").mkdir()
    (cli_env.root / "data" / "inspan" / "node").symlink_to(node)
    package = fill_platform("@anthropic-ai/claude-code-{platform}")
    npm_registry.publish(package, "2.1.300", {"claude": "#!/bin/sh\necho '2.1.300 (Claude Code)'\n"})
    env = {**npm_registry.env, "ANTHROPIC_API_KEY": "sk-ant-0123456789abcdef"}
    missing = _finding(cli_env, "claude@2.1.300", env, code=5)
    assert (missing["state"], missing["remedy"]) == ("problem", "install claude@2.1.300")
    program = cli_env.root / "data/inspan/agents/claude/2.1.300/node_modules" / package / "claude"
    fixed = _finding(cli_env, "claude@2.1.300", env, "--fix")
    assert fixed["detail"] == f"installed 2.1.300 at {program}"
    assert _finding(cli_env, "claude@2.1.300", env)["detail"].startswith(f"Claude Code 2.1.300 at {program} ")
    again = cli_env.inspan("agents", "install", "claude@2.1.300", env=env)
    assert again.stdout == f"claude@2.1.300 2.1.300 at {program}\n"
    refusal = expect_refusal(cli_env, "agents", "install", "claude@2.1.200", env=env)
    assert (refusal.exit_code, refusal.code) == (5, "agent_too_old")


def test_a_fix_that_fails_is_told_with_the_next_step(cli_env: CliEnv, node: Path, npm_registry: Registry) -> None:
    (cli_env.root / "data" / "inspan").mkdir()
    (cli_env.root / "data" / "inspan" / "node").symlink_to(node)
    found = _finding(cli_env, "claude@2.1.300", npm_registry.env, "--fix", code=5)
    assert found["state"] == "problem"
    assert "E404" in found["detail"]
    assert "INSPAN_CLAUDE_BIN" in found["next_step"]
