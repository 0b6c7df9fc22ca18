"""Bad input: the exit code, a sentence with the field and the value, a next step, and nothing left behind."""

import os
import subprocess
from dataclasses import dataclass, field, replace

import pytest

from inspan.engine.plan import prepare
from inspan.engine.registry import agent_names, driver
from inspan.errors import BadInput
from inspan.protocol.limits import Limits
from inspan.protocol.task import Task
from tests.conftest import skip
from tests.house import House

from .refusal import refusal_of, told

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


def misused(row: Row) -> Row:
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
    scripted("project with a slash", "--project", "a/b", says=("project 'a/b'", "name of a folder"), next="letters"),
    scripted("project above", "--project", "..", says=("project '..'", "name of a folder"), next="letters"),
    scripted("project that is too long", "--project", "p" * 121, says=("project 'ppp", "folder"), next="letters"),
    scripted("project that is not UTF-8", "--project", NOT_UTF8, says=("project 'a\\udcff'", "UTF-8"), next="UTF-8"),
    scripted("task with a slash", "--task", "a/b", says=("task 'a/b'", "name of a folder"), next="letters"),
    scripted("empty task", "--task", "", says=("task ''", "name of a folder"), next="letters"),
    scripted("variable without a value", "--env", "LANG", says=("--env 'LANG'", "NAME=VALUE"), next="--env LANG=C"),
    scripted("variable without a name", "--env", "=C", says=("--env '=C'", "NAME=VALUE"), next="--env LANG=C"),
    scripted(
        "variable that is not UTF-8", "--env", f"A={NOT_UTF8}", says=("env A 'A=a\\udcff'", "UTF-8"), next="UTF-8"
    ),
    scripted("unknown sandbox", "--sandbox", "jail", says=("sandbox 'jail'",), next="Known sandboxes: bwrap, none."),
    misused(scripted("unknown profile", "--profile", "mine", says=("'--profile'", "'mine'", "'user', 'clean'"))),
    misused(scripted("unknown option", "--modle", "x", says=("'--modle'", "'--model'"))),
    misused(scripted("argument too many", "more", says=("more",))),
    scripted(
        "unknown containment",
        says=("INSPAN_CONTAINMENT 'jail'", "no such containment"),
        next="bwrap, unshare, reaper",
        env={"INSPAN_CONTAINMENT": "jail"},
    ),
    Row(name="missing prompt", arguments=("run",), says=("prompt ''", "it is empty", "TASK.md"), next="Say what to do"),
    Row(
        name="unknown agent",
        arguments=("run", "do it", "-a", "cdoex"),
        says=("agent 'cdoex'", "no such agent"),
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
    misused(scripted(f"{option} {value}", option, value, says=(f"'{option}'", repr(value))))
    for option in ("--timeout", "--idle-timeout")
    for value in ("-5", "soon", "nan", "inf", "1d", "")
] + [
    scripted(f"{option} of nothing", option, value, says=(field, "0.0", "more than 0"), next="off")
    for option, field, value in (
        ("--timeout", "timeout_s", "0"),
        ("--start-timeout", "start_timeout_s", "0s"),
        ("--idle-timeout", "idle_timeout_s", "0m"),
        ("--stall-timeout", "stall_timeout_s", "0.0h"),
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
        ("unknown kind", "oracle:x", "bad_input", ("model_from 'oracle:", "no such source"), "script:FILE"),
        ("no kind", "good.toml", "bad_input", ("model_from 'good.toml'", "no such source"), "script:FILE"),
        ("missing file", "script:{root}/gone.toml", "bad_scenario", ("scenario '{root}/gone.toml'",), "path"),
        ("no file", "script:", "bad_scenario", ("scenario", "cannot be read"), "path"),
        ("folder", "script:{root}/work", "bad_scenario", ("scenario '{root}/work'", "directory"), "path"),
        ("not UTF-8", "script:{root}/latin1.toml", "bad_scenario", ("scenario '{root}/latin1.toml'",), "path"),
        ("no TOML", "script:{root}/broken.toml", "bad_scenario", ("'broken'", "not TOML", "line 1"), "Correct"),
        ("unknown key", "script:{root}/key.toml", "bad_scenario", ("call 1.sya 'hi'",), "Did you mean 'say'?"),
        ("wrong type", "script:{root}/type.toml", "bad_scenario", ("call 1.repeat -1", "cannot be used"), "Correct"),
        ("no call", "script:{root}/empty.toml", "bad_scenario", ("call", "is missing"), "Add 'call'"),
    )
]
NAMED = "INSPAN_CODEX_BIN"
OLDEST = ".".join(str(part) for part in driver("codex").oldest)
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
        misused(Row(name=" ".join(arguments), arguments=arguments, says=says))
        for arguments, says in (
            (("rnu", "do it"), ("'rnu'", "Did you mean 'run'?")),
            (("zzz",), ("'zzz'",)),
            (("--jsno", "ps"), ("'--jsno'",)),
            (("agents", "isntall"), ("'isntall'", "Did you mean 'install'?")),
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
def furnished(untouched: House) -> House:
    """The untouched house with the files that the rows name."""
    for name, content in FILES.items():
        (untouched.root / name).write_bytes(content)
    for name, text in PROGRAM_FILES.items():
        (untouched.root / name).write_text(text)
        (untouched.root / name).chmod(0o755)
    return untouched


def command_line(house: House, row: Row) -> tuple[list[str], dict[str, str]]:
    """The row's arguments and variables in this house."""
    arguments = [_in(house, each) for each in row.arguments]
    return arguments, {name: _in(house, value) for name, value in row.env.items()}


def _in(house: House, text: str) -> str:
    return text.replace("{root}", str(house.root))


@pytest.mark.parametrize("row", [*TASKS, *DURATIONS, *SCENARIOS, *PROGRAMS, *COMMANDS], ids=str)
def test_bad_input_is_refused_with_a_sentence_and_leaves_nothing_behind(furnished: House, row: Row) -> None:
    arguments, env = command_line(furnished, row)
    refusal = refusal_of(furnished, *arguments, env=env)
    assert (refusal.exit_code, refusal.code) == (row.exit_code, row.code), refusal
    assert [words for words in row.says if _in(furnished, words) not in refusal.message] == [], refusal
    assert row.next in refusal.next


@pytest.mark.parametrize("row", [TASKS[0], PROGRAMS[0], COMMANDS[0]], ids=str)
def test_the_same_refusal_as_text_is_a_sentence_and_a_next_step(furnished: House, row: Row) -> None:
    arguments, env = command_line(furnished, row)
    refusal = refusal_of(furnished, *arguments, env=env)
    done = furnished.inspan(*arguments, env=env)
    assert (done.returncode, done.stdout) == (row.exit_code, "")
    assert done.stderr == f"inspan: {refusal.message}\n  → {refusal.next}\n"


def test_a_working_folder_that_cannot_be_written_is_refused(user_house: House) -> None:
    model = user_house.scenario("[[call]]\nsay = 'hi'\n")
    locked = user_house.root / "locked"
    locked.mkdir(mode=0o500)
    refusal = refusal_of(user_house, "run", "do it", "-a", "scripted", "--model-from", model, "-C", str(locked))
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")
    assert f"cwd '{locked}'" in refusal.message
    assert "--cwd" in refusal.next


def test_an_agent_that_refuses_to_be_root_is_not_started_unrestricted_as_root(untouched: House) -> None:
    model = untouched.scenario("[[call]]\nsay = 'hi'\n")
    become_root = ["unshare", "--user", "--map-root-user", "--"] if os.geteuid() else []
    if become_root and subprocess.run([*become_root, "true"], check=False).returncode:
        skip("no-namespaces")
    untouched.prefix = become_root
    try:
        refusal = refusal_of(
            untouched, "run", "do it", "-a", "claude", "--sandbox", "none", "--profile", "clean", "--model-from", model
        )
    finally:
        untouched.prefix = []
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")
    assert "sandbox 'none'" in refusal.message
    assert "--sandbox bwrap" in refusal.next


@pytest.mark.parametrize(
    "field",
    [{"model": "a\0b"}, {"project": "a\0b"}, {"task": "a\0b"}, {"cwd": "/a\0b"}, {"env": {"A": "a\0b"}}],
    ids=lambda field: next(iter(field)),
)
def test_a_nul_byte_in_a_field_is_refused(untouched: House, field: dict[str, object]) -> None:
    fields = {"prompt": "do it", "cwd": str(untouched.work), "agent": "scripted", **field}
    with pytest.raises(BadInput) as refusal:
        prepare(Task(**fields), env=untouched.env)  # pyright: ignore[reportArgumentType]  the field under test
    assert "NUL" in refusal.value.message
    assert refusal.value.message.startswith(next(iter(field)))
    assert not untouched.state.exists()


def test_a_limit_that_is_no_number_is_refused(untouched: House) -> None:
    task = Task(prompt="do it", cwd=str(untouched.work), agent="scripted", limits=Limits(timeout_s=float("nan")))
    with pytest.raises(BadInput, match="timeout_s nan"):
        prepare(task, env=untouched.env)


def test_a_prompt_from_stdin_that_is_not_utf8_is_refused(furnished: House) -> None:
    argv = furnished.argv("run", "-", "-a", "scripted", "--model-from", f"script:{furnished.root}/good.toml", "--json")
    # In this locale Python's own stdin is strict.
    env = {**furnished.env, "PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(argv, env=env, cwd=furnished.work, input=b"caf\xe9", capture_output=True, check=False)
    text = subprocess.CompletedProcess(argv, done.returncode, done.stdout.decode(), done.stderr.decode())
    refusal = told(text)
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")
    assert "prompt 'caf\\udce9'" in refusal.message


def test_a_prompt_from_a_stdin_that_is_closed_is_refused(furnished: House) -> None:
    argv = furnished.argv("run", "-", "-a", "scripted", "--model-from", f"script:{furnished.root}/good.toml")
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *argv],
        env=furnished.env,
        cwd=furnished.work,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("inspan: prompt ''")
