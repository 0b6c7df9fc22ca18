"""Bad input: the exit code, a sentence with the field and the value, a next step, and nothing left behind."""

import os
import subprocess
from dataclasses import dataclass, field, replace

import pytest

from inspan.agents.modules import agent_names
from inspan.agents.registry import find_driver
from inspan.errors import BadInput
from inspan.planning.prepare import prepare
from inspan.protocol.limits import Limits
from inspan.protocol.task import Task
from tests.cli_env import CliEnv
from tests.conftest import skip

from .refusal import expect_refusal, parse_refusal

NOT_UTF8 = "a\udcff"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A command line, and what its refusal says. `{root}` is the house's folder."""

    name: str
    arguments: tuple[str, ...]
    says: tuple[str, ...]
    next: str = ""
    code: str = "bad_input"
    exit_code: int = 2
    env: dict[str, str] = field(default_factory=dict[str, str])

    def __str__(self) -> str:
        return self.name


def scripted(name: str, *more: str, says: tuple[str, ...], next: str = "", env: dict[str, str] | None = None) -> Row:
    """A run of the built-in agent that would work but for `more`."""
    arguments = ("run", "do it", "-a", "scripted", "--model-from", "script:{root}/good.toml", *more)
    return Row(name=name, arguments=arguments, says=says, next=next, env=env or {})


def codex(name: str, program: str, *, says: tuple[str, ...], next: str, code: str) -> Row:
    """A run of a real agent whose program was named wrongly."""
    arguments = ("run", "do it", "-a", "codex", "--profile", "clean", "--model-from", "script:{root}/good.toml")
    env = {"INSPAN_CODEX_BIN": program}
    return Row(name=name, arguments=arguments, says=(program, *says), next=next, code=code, exit_code=5, env=env)


def as_usage_error(row: Row) -> Row:
    """The row, refused by the parser of the command line."""
    return replace(row, code="usage", next="--help")


TASKS = [
    Row(name="empty prompt", arguments=("run", ""), says=("prompt ''", "empty"), next="inspan run"),
    Row(name="blank prompt", arguments=("run", " \n\t"), says=("prompt ' \\n\\t'", "empty"), next="inspan run"),
    Row(name="empty prompt from stdin", arguments=("run", "-"), says=("prompt ''", "empty"), next="inspan run"),
    Row(
        name="prompt that is not UTF-8",
        arguments=("run", NOT_UTF8, "-a", "scripted", "--model-from", "script:{root}/good.toml"),
        says=("prompt 'a\\udcff'", "UTF-8"),
        next="UTF-8",
    ),
    scripted("missing cwd", "-C", "{root}/gone", says=("cwd '{root}/gone'", "no such folder"), next="--cwd"),
    scripted("cwd that is a file", "-C", "{root}/good.toml", says=("cwd '{root}/good.toml'",), next="--cwd"),
    scripted("cwd that is not UTF-8", "-C", NOT_UTF8, says=("cwd ", "a\\udcff", "UTF-8"), next="UTF-8"),
    scripted("model that is not UTF-8", "-m", NOT_UTF8, says=("model 'a\\udcff'", "UTF-8"), next="UTF-8"),
    scripted("project with a slash", "--project", "a/b", says=("--project 'a/b'", "name of a folder"), next="letters"),
    scripted("project above", "--project", "..", says=("--project '..'", "name of a folder"), next="letters"),
    scripted(
        "project that is too long", "--project", "p" * 121, says=("--project 'ppp", "121 bytes"), next="120 bytes"
    ),
    scripted("project of two lines", "--project", "a\nb", says=("--project 'a\\nb'", "'\\n'"), next="letters"),
    scripted("project that turns text around", "--project", "a\u202eb", says=("'\\u202e'",), next="letters"),
    scripted("project that is not UTF-8", "--project", NOT_UTF8, says=("--project 'a\\udcff'", "UTF-8"), next="UTF-8"),
    scripted("task with a slash", "--task", "a/b", says=("task 'a/b'", "name of a folder"), next="letters"),
    scripted("task in red", "--task", "\x1b[31m", says=("task '\\x1b[31m'", "'\\x1b'"), next="letters"),
    scripted("task that is too long", "--task", "ü" * 61, says=("task 'üüü", "122 bytes"), next="120 bytes"),
    scripted("no turns", "--max-turns", "0", says=("--max-turns 0", "more than 0 turns"), next="off"),
    scripted(
        "more turns than can be written", "--max-turns", "9" * 23, says=("--max-turns 9999", "too large"), next="off"
    ),
    scripted("seed that is too large", "--fault-seed", "9" * 23, says=("--fault-seed 999", "too large"), next="less"),
    as_usage_error(scripted("turns that are no number", "--max-turns", "many", says=("'--max-turns'", "'many'"))),
    scripted(
        "cwd that is a link to itself", "-C", "{root}/loop", says=("cwd '{root}/loop'", "symbolic links"), next="--cwd"
    ),
    scripted("cwd below a file", "-C", "{root}/good.toml/x", says=("cwd '{root}/good.toml/x'",), next="--cwd"),
    *(
        scripted(f"empty {flag}", flag, "", says=(f"{flag} ''", "it is empty"), next="Leave it out")
        for flag in ("--cwd", "--resume", "--sandbox", "--project", "--key-from", "--base-url", "--channel")
    ),
    scripted("empty model-from", "--model-from", "", says=("--model-from ''", "it is empty"), next="Leave it out"),
    *(
        Row(
            name=f"{arguments[0]} with an empty agent",
            arguments=arguments,
            says=("agent ''", "it is empty"),
            next=f"Known agents: {', '.join(agent_names())}.",
            code="unknown_agent",
        )
        for arguments in (
            ("run", "do it", "-a", ""),
            ("matrix", "-a", "", "-s", "answer"),
            ("doctor", ""),
            ("agents", "show", ""),
            ("agents", "install", ""),
        )
    ),
    scripted("empty task", "--task", "", says=("task ''", "name of a folder"), next="letters"),
    scripted("variable without a value", "--env", "LANG", says=("--env 'LANG'", "NAME=VALUE"), next="--env LANG=C"),
    scripted("variable without a name", "--env", "=C", says=("--env '=C'", "NAME=VALUE"), next="--env LANG=C"),
    scripted(
        "variable that is not UTF-8", "--env", f"A={NOT_UTF8}", says=("env A 'A=a\\udcff'", "UTF-8"), next="UTF-8"
    ),
    scripted(
        "unknown sandbox",
        "--sandbox",
        "jail",
        says=("--sandbox 'jail'",),
        next="Known sandboxes: auto, bwrap, docker, none, podman, seatbelt, worktree; worktree+bwrap joins two.",
    ),
    as_usage_error(scripted("unknown profile", "--profile", "mine", says=("'--profile'", "'mine'", "'user', 'clean'"))),
    as_usage_error(scripted("unknown option", "--modle", "x", says=("'--modle'", "'--model'"))),
    as_usage_error(scripted("argument too many", "more", says=("more",))),
    scripted(
        "unknown containment",
        says=("INSPAN_CONTAINMENT 'jail'", "unknown containment"),
        next="bwrap, unshare, reaper",
        env={"INSPAN_CONTAINMENT": "jail"},
    ),
    Row(name="missing prompt", arguments=("run",), says=("prompt ''", "it is empty", "TASK.md"), next="Say what to do"),
    Row(
        name="unknown agent",
        arguments=("run", "do it", "-a", "cdoex"),
        says=("agent 'cdoex'", "unknown agent"),
        next="Did you mean 'codex'?",
        code="unknown_agent",
    ),
    Row(
        name="unknown agent that is near to none",
        arguments=("run", "do it", "-a", "zzz"),
        says=("agent 'zzz'",),
        next=f"Known agents: {', '.join(agent_names())}.",
        code="unknown_agent",
    ),
    Row(
        name="built-in agent without a model",
        arguments=("run", "do it", "-a", "scripted"),
        says=("model_from ''", "no model of its own"),
        next="script:FILE",
    ),
    Row(
        name="no credentials in the profile clean",
        arguments=("run", "do it", "-a", "codex", "--profile", "clean"),
        says=("profile clean", "CODEX_API_KEY", "OPENAI_API_KEY"),
        next="--profile user",
        code="credentials_missing",
        exit_code=4,
    ),
    Row(
        name="no credentials under CI",
        arguments=("run", "do it", "-a", "codex"),
        says=("profile clean", "CODEX_API_KEY"),
        next="--profile user",
        code="credentials_missing",
        exit_code=4,
        env={"CI": "true"},
    ),
]
DURATIONS = [
    as_usage_error(scripted(f"{option} {value}", option, value, says=(f"'{option}'", repr(value))))
    for option in ("--timeout", "--idle-timeout")
    for value in ("-5", "soon", "nan", "inf", "1d", "")
] + [
    scripted(f"{option} of nothing", option, value, says=(f"{option} 0.0", "more than 0"), next="off")
    for option, value in (
        ("--timeout", "0"),
        ("--start-timeout", "0s"),
        ("--idle-timeout", "0m"),
        ("--stall-timeout", "0.0h"),
    )
]
SCENARIOS = [
    Row(
        name=name,
        arguments=("run", "do it", "-a", "scripted", "--model-from", model),
        says=says,
        next=next_step,
        code=code,
    )
    for name, model, code, says, next_step in (
        ("unknown kind", "oracle:x", "bad_input", ("--model-from 'oracle:", "unknown model source"), "script:FILE"),
        ("no kind", "good.toml", "bad_input", ("--model-from 'good.toml'", "unknown model source"), "script:FILE"),
        ("missing file", "script:{root}/gone.toml", "bad_scenario", ("scenario '{root}/gone.toml'",), "path"),
        ("no file", "script:", "bad_input", ("--model-from 'script:'", "unknown model source"), "script:FILE"),
        ("folder", "script:{root}/work", "bad_scenario", ("scenario '{root}/work'", "is not a file"), "path"),
        ("not UTF-8", "script:{root}/latin1.toml", "bad_scenario", ("scenario '{root}/latin1.toml'",), "path"),
        ("no TOML", "script:{root}/broken.toml", "bad_scenario", ("'broken'", "not TOML", "line 1"), "Correct"),
        ("unknown key", "script:{root}/key.toml", "bad_scenario", ("call 1.sya 'hi'",), "Did you mean 'say'?"),
        ("wrong type", "script:{root}/type.toml", "bad_scenario", ("call 1.repeat -1", "cannot be used"), "Correct"),
        ("no call", "script:{root}/empty.toml", "bad_scenario", ("call", "is missing"), "Add 'call'"),
    )
]
NAMED = "INSPAN_CODEX_BIN"
OLDEST = ".".join(str(part) for part in find_driver("codex").program.oldest)
PROGRAMS = [
    codex("missing program", "{root}/gone", says=(NAMED, "does not exist"), next=NAMED, code="agent_missing"),
    codex("program that is a folder", "{root}/work", says=("not an executable",), next=NAMED, code="not_an_agent"),
    codex("program not to be run", "{root}/good.toml", says=("not an executable",), next=NAMED, code="not_an_agent"),
    codex("another program", "{root}/other", says=("'frobnicate 1.2.3'", "Codex"), next=NAMED, code="not_an_agent"),
    codex("silent program", "{root}/silent", says=("printed ''", "Codex"), next=NAMED, code="not_an_agent"),
    codex("only text", "{root}/text", says=("cannot be started",), next="agents install codex", code="not_an_agent"),
    codex("old program", "{root}/old", says=("0.10.0", OLDEST), next="agents install codex", code="agent_too_old"),
]
COMMANDS = [
    *(
        as_usage_error(Row(name=" ".join(arguments), arguments=arguments, says=says))
        for arguments, says in (
            (("rnu", "do it"), ("'rnu'", "Did you mean 'run'?")),
            (("zzz",), ("'zzz'",)),
            (("--jsno", "ps"), ("'--jsno'",)),
            (("agents", "isntall"), ("'isntall'", "Did you mean one of: 'install'")),
            (("ps", "-n", "0"), ("'--limit'", "0")),
            (("ps", "-n", "x"), ("'--limit'", "'x'")),
            (("events", "--from", "0"), ("'--from'", "0")),
            (("wait",), ("RUNS",)),
            (("stop",), ("RUNS",)),
            (("kill",), ("RUNS",)),
            (("rm",), ("RUNS",)),
            (("wait", "@last", "--timeout", "-1"), ("'--timeout'", "'-1'")),
            (("wait", "@last", "--timeout", "nan"), ("'--timeout'", "'nan'")),
            (("schema", "runs"), ("'runs'", "'events'")),
        )
    ),
    Row(
        name="agents install cluade",
        arguments=("agents", "install", "cluade"),
        says=("agent 'cluade'",),
        next="Did you mean 'claude'?",
        code="unknown_agent",
    ),
]
FILES = {
    "good.toml": b"[[call]]\nsay = 'hi'\n",
    "broken.toml": b"[[call\n",
    "key.toml": b"[[call]]\nsya = 'hi'\n",
    "type.toml": b"[[call]]\nsay = 'hi'\nrepeat = -1\n",
    "empty.toml": b"",
    "latin1.toml": b"[[call]]\nsay = 'caf\xe9'\n",
}
PROGRAM_FILES = {
    "other": "#!/bin/sh\necho frobnicate 1.2.3\n",
    "silent": "#!/bin/sh\nexit 0\n",
    "old": "#!/bin/sh\necho codex-cli 0.10.0\n",
    "text": "codex-cli 0.163.0\n",
}


@pytest.fixture(scope="module")
def env_with_files(readonly_env: CliEnv) -> CliEnv:
    """The untouched house with the files that the rows name."""
    for name, content in FILES.items():
        (readonly_env.root / name).write_bytes(content)
    (readonly_env.root / "loop").symlink_to("loop")
    for name, text in PROGRAM_FILES.items():
        (readonly_env.root / name).write_text(text)
        (readonly_env.root / name).chmod(0o755)
    return readonly_env


def command_line(cli_env: CliEnv, row: Row) -> tuple[list[str], dict[str, str]]:
    """The row's arguments and variables in this house."""
    arguments = [_fill_root(cli_env, each) for each in row.arguments]
    return arguments, {name: _fill_root(cli_env, value) for name, value in row.env.items()}


def _fill_root(cli_env: CliEnv, text: str) -> str:
    return text.replace("{root}", str(cli_env.root))


@pytest.mark.parametrize("row", [*TASKS, *DURATIONS, *SCENARIOS, *PROGRAMS, *COMMANDS], ids=str)
def test_bad_input_is_refused_with_a_sentence_and_leaves_nothing_behind(env_with_files: CliEnv, row: Row) -> None:
    arguments, env = command_line(env_with_files, row)
    refusal = expect_refusal(env_with_files, *arguments, env=env)
    assert (refusal.exit_code, refusal.code) == (row.exit_code, row.code), refusal
    assert [words for words in row.says if _fill_root(env_with_files, words) not in refusal.message] == [], refusal
    assert row.next in refusal.next


@pytest.mark.parametrize("row", [TASKS[0], PROGRAMS[0], COMMANDS[0]], ids=str)
def test_the_same_refusal_as_text_is_a_sentence_and_a_next_step(env_with_files: CliEnv, row: Row) -> None:
    arguments, env = command_line(env_with_files, row)
    refusal = expect_refusal(env_with_files, *arguments, env=env)
    done = env_with_files.inspan(*arguments, env=env)
    assert (done.returncode, done.stdout) == (row.exit_code, "")
    assert done.stderr == f"inspan: {refusal.message}\n  → {refusal.next}\n"


def test_a_working_folder_that_cannot_be_written_is_refused(user_cli_env: CliEnv) -> None:
    model = user_cli_env.scenario("[[call]]\nsay = 'hi'\n")
    locked = user_cli_env.root / "locked"
    locked.mkdir(mode=0o500)
    refusal = expect_refusal(user_cli_env, "run", "do it", "-a", "scripted", "--model-from", model, "-C", str(locked))
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")
    assert f"cwd '{locked}'" in refusal.message
    assert "--cwd" in refusal.next


def test_a_working_folder_that_cannot_be_entered_is_named_and_no_file_in_it(user_cli_env: CliEnv) -> None:
    model = user_cli_env.scenario("[[call]]\nsay = 'hi'\n")
    locked = user_cli_env.root / "locked"
    locked.mkdir(mode=0o600)
    refusal = expect_refusal(user_cli_env, "run", "do it", "-a", "scripted", "--model-from", model, "-C", str(locked))
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")
    assert refusal.message == f"cwd '{locked}': it cannot be entered."
    assert refusal.next == "Change its mode, or name another."


def test_the_demo_is_not_shown_with_an_agent_without_a_name(env_with_files: CliEnv) -> None:
    done = env_with_files.inspan("demo", "-a", "")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("inspan: agent '': it is empty.\n  → Known agents: ")


def test_an_agent_that_refuses_to_be_root_is_not_started_unrestricted_as_root(readonly_env: CliEnv) -> None:
    model = readonly_env.scenario("[[call]]\nsay = 'hi'\n")
    become_root = ["unshare", "--user", "--map-root-user", "--"] if os.geteuid() else []
    if become_root and subprocess.run([*become_root, "true"], check=False).returncode:
        skip("no-namespaces")
    readonly_env.prefix = become_root
    try:
        refusal = expect_refusal(
            readonly_env,
            "run",
            "do it",
            "-a",
            "claude",
            "--sandbox",
            "none",
            "--profile",
            "clean",
            "--model-from",
            model,
        )
    finally:
        readonly_env.prefix = []
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")
    assert "sandbox 'none'" in refusal.message
    assert "--sandbox bwrap" in refusal.next


@pytest.mark.parametrize(
    "field",
    [{"model": "a\0b"}, {"project": "a\0b"}, {"task": "a\0b"}, {"cwd": "/a\0b"}, {"env": {"A": "a\0b"}}],
    ids=lambda field: next(iter(field)),
)
def test_a_nul_byte_in_a_field_is_refused(readonly_env: CliEnv, field: dict[str, object]) -> None:
    fields = {"prompt": "do it", "cwd": str(readonly_env.work), "agent": "scripted", **field}
    with pytest.raises(BadInput) as refusal:
        prepare(Task(**fields), env=readonly_env.env)  # pyright: ignore[reportArgumentType]  the field under test
    assert "NUL" in refusal.value.message
    assert refusal.value.message.startswith(next(iter(field)))
    assert not readonly_env.state.exists()


def test_a_limit_that_is_no_number_is_refused(readonly_env: CliEnv) -> None:
    task = Task(prompt="do it", cwd=str(readonly_env.work), agent="scripted", limits=Limits(timeout_s=float("nan")))
    with pytest.raises(BadInput, match="timeout_s nan"):
        prepare(task, env=readonly_env.env)


def test_a_prompt_from_stdin_that_is_not_utf8_is_refused(env_with_files: CliEnv) -> None:
    argv = env_with_files.argv(
        "run", "-", "-a", "scripted", "--model-from", f"script:{env_with_files.root}/good.toml", "--json"
    )
    # In this locale Python's own stdin is strict.
    env = {**env_with_files.env, "PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(argv, env=env, cwd=env_with_files.work, input=b"caf\xe9", capture_output=True, check=False)
    text = subprocess.CompletedProcess(argv, done.returncode, done.stdout.decode(), done.stderr.decode())
    refusal = parse_refusal(text)
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")
    assert "prompt 'caf\\udce9'" in refusal.message


def test_a_prompt_from_a_stdin_that_is_closed_is_refused(env_with_files: CliEnv) -> None:
    argv = env_with_files.argv("run", "-", "-a", "scripted", "--model-from", f"script:{env_with_files.root}/good.toml")
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *argv],
        env=env_with_files.env,
        cwd=env_with_files.work,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("inspan: prompt ''")
