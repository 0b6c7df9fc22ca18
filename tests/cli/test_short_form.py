"""`inspan "prompt"`: what counts as a prompt, what stays a mistake, and that the long form does the same."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from inspan.cli.short_form import expand_short_form
from tests.cli_env import CliEnv

from .refusal import Refusal, expect_refusal, parse_refusal
from .scenarios import SAYS_HELLO

COMMANDS = ("logs", "ps", "run", "show")
RUNS = [
    ["fix the test"],
    ["fix\nit"],
    ["fix it", "-a", "codex"],
    ["-a", "codex", "fix it"],
    ["-a", "codex", "-q", "fix it", "--timeout", "5m"],
    ["--model=fast", "fix it", "--json"],
    ["--json", "fix it"],
    ["-C", "ps", "fix it"],
    ["--", "fix it"],
    ["-"],
    [""],
    [" "],
    # Mistakes in the options of a run are told by `run`, which knows them.
    ["fix it", "more"],
    ["fix it", "--modle", "x"],
    ["--modle", "x", "fix it"],
    ["-a", "codex"],
    ["-a"],
]
NO_RUNS = [
    ["ps"],
    ["ps", "-a"],
    ["show", "fix it"],
    ["-a", "codex", "ps"],
    ["--", "ps"],
    ["rnu"],
    ["rnu", "fix it"],
    ["fix"],
    ["fix", "--json"],
    ["fix", "-q", "--json"],
    ["fix", "the", "test"],
    ["fix", "-a", "codex", "the test"],
    ["fix", "-a", "codex"],
    ["fix", "--env", "A=b c"],
    ["test", "-a", "codex"],
    ["refactor", "-a", "codex"],
    ["pss", "-a"],
    ["pss", "-a", "codex"],
    ["lgos", "-f"],
    ["--jsno", "ps"],
    ["--json"],
]


@pytest.mark.parametrize("arguments", RUNS, ids=repr)
def test_a_prompt_is_a_run(arguments: list[str]) -> None:
    assert expand_short_form(arguments, COMMANDS) == ["run", *arguments]


@pytest.mark.parametrize("arguments", NO_RUNS, ids=repr)
def test_anything_else_is_a_command_or_a_mistake_as_before(arguments: list[str]) -> None:
    assert expand_short_form(arguments, COMMANDS)[0] == arguments[0]


@pytest.mark.parametrize("word", ["fix", "rnu"])
@pytest.mark.parametrize("options", [["--json"], ["-a", "codex"]], ids=" ".join)
def test_a_single_word_behind_options_is_what_is_told_of(options: list[str], word: str) -> None:
    assert expand_short_form([*options, word], COMMANDS) == [word]


@pytest.mark.parametrize("before", [True, False], ids=["options before", "options after"])
def test_a_prompt_alone_does_what_run_does(cli_env: CliEnv, before: bool) -> None:
    options = ["-a", "scripted", "--profile", "clean", "--model-from", cli_env.scenario(SAYS_HELLO)]
    arguments = [*options, "say hello"] if before else ["say hello", *options]
    done = cli_env.inspan(*arguments)
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
    assert json.loads((cli_env.folder() / "run.json").read_text())["task"]["prompt"] == "say hello"


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_behind_a_prompt_is_that_of_run(readonly_env: CliEnv, flag: str) -> None:
    done = readonly_env.inspan("say hello", flag)
    assert (done.returncode, done.stdout) == (0, readonly_env.inspan("run", flag).stdout), done.stderr


def test_a_prompt_is_read_from_stdin(cli_env: CliEnv) -> None:
    done = cli_env.inspan("-", "-a", "scripted", "--model-from", cli_env.scenario(SAYS_HELLO), stdin="say hello\n")
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
    assert (cli_env.folder() / "prompt.md").read_text() == "say hello\n"


@pytest.mark.parametrize(
    "arguments", [("fix it", "-a", "cdoex"), ("-a", "cdoex", "fix it"), ("fix it", "more"), ("fix it", "--modle", "x")]
)
def test_a_refused_prompt_is_refused_as_run_refuses_it(readonly_env: CliEnv, arguments: tuple[str, ...]) -> None:
    assert expect_refusal(readonly_env, *arguments) == expect_refusal(readonly_env, "run", *arguments)


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("rnu",), "No such command 'rnu'. Did you mean 'run'?", "`inspan run rnu` runs it as a prompt."),
        (("rnu", "fix it"), "No such command 'rnu'. Did you mean 'run'?", "`inspan run rnu` runs it as a prompt."),
        (
            ("-a", "codex", "rnu"),
            "No such command 'rnu'. Did you mean 'run'?",
            "`inspan run -a codex rnu` runs it as a prompt.",
        ),
        (
            ("-a", "codex", "fix", "it"),
            "No such command 'fix'.",
            "A prompt of several words is quoted: `inspan 'fix it' -a codex`.",
        ),
        (("test", "-a", "codex"), "No such command 'test'.", "`inspan run test -a codex` runs it as a prompt."),
        (("-a", "codex", "test"), "No such command 'test'.", "`inspan run -a codex test` runs it as a prompt."),
        (("zzz",), "No such command 'zzz'.", "`inspan run zzz` runs it as a prompt."),
        (("it's",), 'No such command "it\'s".', "`inspan run 'it'\"'\"'s'` runs it as a prompt."),
        (
            ("fix", "the", "test"),
            "No such command 'fix'.",
            "A prompt of several words is quoted: `inspan 'fix the test'`.",
        ),
    ],
    ids=repr,
)
def test_an_unknown_word_is_refused_with_the_way_to_write_a_prompt(
    readonly_env: CliEnv, arguments: tuple[str, ...], message: str, hint: str
) -> None:
    refused = parse_refusal(readonly_env.inspan(*arguments, "--json"))
    # The advice is the line as it was typed, with this option.
    refused = replace(refused, next=refused.next.replace(" --json", ""))
    assert refused == Refusal(exit_code=2, code="usage", message=message, next=f"{hint} Try `inspan --help`.")
    assert readonly_env.inspan(*arguments).stderr == f"inspan: {message}\n  → {hint} Try `inspan --help`.\n"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("run", "fix", "the", "test"), 'A prompt of several words is quoted: inspan run "fix the test".'),
        (("run", "-x fix it"), 'A prompt that begins with - comes last, after --: inspan run -- "- fix it".'),
        (("-x fix it", "-a", "codex"), 'A prompt that begins with - comes last, after --: inspan run -- "- fix it".'),
        (("run", "fix it", "--nothing"), ""),
    ],
    ids=repr,
)
def test_a_prompt_that_is_taken_for_something_else_is_refused_with_the_way_to_write_it(
    readonly_env: CliEnv, arguments: tuple[str, ...], hint: str
) -> None:
    refusal = parse_refusal(readonly_env.inspan(*arguments, "--json"))
    assert (refusal.exit_code, refusal.next) == (2, f"{hint} Try `inspan run --help`.".strip())


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ("--version",), ("-V",), ("rnu",)], ids=" ".join)
def test_help_and_mistakes_import_no_command_but_run(readonly_env: CliEnv, arguments: tuple[str, ...]) -> None:
    script = "import sys; from inspan.cli.main import run; run(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    printed = run_script(readonly_env, script, *arguments)
    loaded = {name.rpartition(".")[2] for name in printed.split() if name.startswith("inspan.cli.commands.")}
    assert loaded == ({"run"} if arguments == ("rnu",) else set())


def run_script(cli_env: CliEnv, script: str, *arguments: str) -> str:
    """What a Python script prints on stderr."""
    argv = [sys.executable, "-c", script, *arguments]
    return subprocess.run(argv, env=cli_env.env, capture_output=True, text=True, check=True).stderr
