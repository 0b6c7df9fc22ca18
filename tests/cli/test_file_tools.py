"""`inspan file-tools` as it is typed: arguments, JSON, stdin, exit codes, help; and it starts without the rest."""

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from inspan.cli.commands.file_tools import command
from inspan.cli.file_tools import SERVE
from inspan.file_tools.operations import OPERATIONS
from tests.cli_env import CliEnv

# What no call of an agent's may wait for.
_HEAVY = ("click", "msgspec", "typing", "re", "json", "asyncio", "signal", "enum")


class Typed:
    """The command with its ROOT, the working folder."""

    def __init__(self, cli_env: CliEnv) -> None:
        self._env = cli_env
        self.root = cli_env.work

    def __call__(self, *words: str, stdin: str = "", before: tuple[str, ...] = ()) -> tuple[int, str, str]:
        done = self._env.inspan("file-tools", *before, str(self.root), *words, stdin=stdin)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def typed(cli_env: CliEnv) -> Typed:
    return Typed(cli_env)


def test_a_file_is_written_changed_and_read(typed: Typed) -> None:
    assert typed("write", "a/b.txt", "--content", "one\ntwo\n") == (0, "created a/b.txt (8 bytes)\n", "")
    assert typed("edit", "a/b.txt", "--old=two", "--new", "-2") == (0, "edited a/b.txt (1 place)\n", "")
    assert typed("read", "a/b.txt") == (0, "one\n-2\n", "")
    assert typed("read", "--offset", "2", "a/b.txt", "--limit=1") == (0, "-2\n", "")
    assert typed("list", "--recursive") == (0, "a/\na/b.txt\n", "")
    assert typed("search", "n.") == (0, "a/b.txt:1: one\n", "")
    assert typed("search", "nothing") == (0, "no match\n", "")


def test_each_answer_can_be_json(typed: Typed) -> None:
    answers: list[dict[str, object]] = []
    for words in (
        ("write", "a.txt", "--content", "x"),
        ("edit", "a.txt", "--old", "x", "--new", "y"),
        ("read", "a.txt"),
        ("list",),
        ("search", "y"),
        ("stat", "a.txt"),
    ):
        code, out, _ = typed(*words, "--json")
        assert code == 0
        answers.append(json.loads(out))
    assert {answer["schema"] for answer in answers} == {1}
    assert answers[0] == {"schema": 1, "path": "a.txt", "bytes": 1, "created": True}
    assert answers[4]["matches"] == [{"path": "a.txt", "line": 1, "text": "y"}]
    code, out, err = typed("read", "none", "--json")
    assert (code, out, json.loads(err)["error"]["code"]) == (1, "", "file_refused")


def test_arguments_come_as_one_object_too(typed: Typed) -> None:
    text = '# it\'s\n{"a": `b` $(c)}\n'
    given = json.dumps({"path": "a.py", "content": text})
    assert typed("write", "--input", given)[0] == 0
    assert (typed.root / "a.py").read_text() == text
    assert typed("edit", "a.py", f"--input={json.dumps({'old': 'it', 'new': 'that'})}")[0] == 0
    assert typed("read", "--input", "-", stdin='{"path": "a.py", "limit": 1}') == (0, "# that's\n", "")
    odd = b"odd\xff\n"
    (typed.root / os.fsdecode(odd)).write_text("odd\n")
    listed = json.loads(typed("list", "--json")[1])["entries"]
    assert typed("read", "--input", json.dumps({"path": listed[1]["path"]})) == (0, "odd\n", "")
    assert typed("list")[1] == "a.py\nodd\\udcff\\u000a\n"


def test_content_comes_by_stdin_where_it_is_not_given(typed: Typed) -> None:
    assert typed("write", "a.txt", stdin="from stdin\n")[0] == 0
    assert typed("write", "a.txt", "--append", stdin="more\n")[0] == 0
    assert (typed.root / "a.txt").read_text() == "from stdin\nmore\n"


def test_names_that_begin_with_a_dash(typed: Typed) -> None:
    assert typed("write", "./-x", "--content", "--json")[0] == 0
    assert typed("read", "--", "-x") == (0, "--json", "")
    code, _, err = typed("read", "-x")
    assert (code, err) == (
        2,
        "inspan: read '-x': there is no such option.\n"
        "  → See `inspan file-tools --help`. A name that begins with a dash is written ./-x.\n",
    )


def test_who_grants_the_command_sets_its_limits_before_root(typed: Typed) -> None:
    (typed.root / "a.txt").write_text("words\n")
    os.link(typed.root / "a.txt", typed.root / "b.txt")
    assert typed("read", "b.txt")[0] == 1
    assert typed("read", "b.txt", before=("--hard-links",)) == (0, "words\n", "")
    assert typed("write", "c.txt", "--content", "x", before=("--read-only",))[0] == 2
    assert typed("write", "c.txt", "--content", "1234567", before=("--max-bytes", "6"))[0] == 1
    assert typed("read", "c.txt", "--hard-links")[0] == 2
    assert not (typed.root / "c.txt").exists()


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ((), "inspan: file-tools '/ROOT': it needs ROOT and an operation."),
        (("remove", "x"), "inspan: file-tools 'remove': there is no such operation."),
        (("serve", "now"), "inspan: file-tools 'serve': it takes nothing more."),
        (("read",), "inspan: read []: it needs path."),
        (("read", "a", "b"), "inspan: read 'b': it takes no more arguments."),
        (("read", "a", "--offset"), "inspan: file-tools '--offset': it needs a value."),
        (("read", "a", "--offset", "-1"), "inspan: --offset '-1': it is not a whole number."),
        (("read", "a", "--numbers=yes"), "inspan: file-tools '--numbers': it takes no value."),
        (("read", "--input", "{"), "inspan: --input '{': it is not JSON: "),
        (("read", "--input", "[1]"), "inspan: --input '[1]': it is not a JSON object."),
        (("search", "("), "inspan: pattern '(': it is not a regular expression: "),
    ],
)
def test_a_line_that_is_no_command_is_refused(typed: Typed, words: tuple[str, ...], first: str) -> None:
    code, out, err = typed(*words)
    assert (code, out) == (2, "")
    assert err.replace(str(typed.root), "/ROOT").startswith(first)
    assert "\n  → " in err


def test_a_reader_that_leaves_is_no_failure_and_a_full_one_is(typed: Typed, cli_env: CliEnv) -> None:
    (typed.root / "a.txt").write_text("line\n" * 30_000)
    words = cli_env.argv("file-tools", str(typed.root), "read", "a.txt")
    done = subprocess.run(
        ["sh", "-c", '"$@" | head -1; "$@" > /dev/full; echo $?', "sh", *words],
        env=cli_env.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "line\n1\n"
    assert done.stderr.startswith("inspan: Cannot write to stdout: No space left on device.")


def test_closed_streams_are_no_reason_to_break(typed: Typed, cli_env: CliEnv) -> None:
    words = cli_env.argv("file-tools", str(typed.root), "write", "a.txt", "--content", "x")
    done = subprocess.run(["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *words], env=cli_env.env, check=False)
    assert (done.returncode, (typed.root / "a.txt").read_text()) == (0, "x")


def test_help_is_there_where_an_agent_may_ask_for_it(typed: Typed) -> None:
    for words in (("--help",), ("read", "--help"), ("write", "-h"), ("serve", "--help")):
        code, out, err = typed(*words)
        assert (code, err) == (0, "")
        assert out.startswith("Usage: inspan file-tools ")


def test_the_help_has_every_argument_of_the_table() -> None:
    assert sorted(command.commands) == sorted((*OPERATIONS, SERVE))
    for name, operation in OPERATIONS.items():
        shown = {each.name for each in command.commands[name].params}
        assert shown == {*operation.parameters, "input", "as_json"}
    settings = {each.name for each in command.params if isinstance(each, click.Option)}
    assert settings == {"read_only", "hard_links", "max_bytes"}


def test_a_line_in_click_does_the_same(typed: Typed, cli_env: CliEnv) -> None:
    (typed.root / "a.txt").write_text("words\n")
    start = "import sys; from inspan.cli.main import run; sys.exit(run(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", start, "file-tools", str(typed.root), "read", "a.txt"],
        env=cli_env.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "words\n", "")


@pytest.mark.parametrize("words", [("read", "a.txt"), ("write", "b.txt", "--content", "x"), ("list",)])
def test_it_loads_nothing_that_the_other_commands_need(typed: Typed, words: tuple[str, ...]) -> None:
    (typed.root / "a.txt").write_text("words\n")
    # It leaves without taking Python apart, so the look is put before the leaving.
    start = (
        "import os, sys\n"
        "before = set(sys.modules)\n"
        "def leave(code):\n"
        "    sys.stderr.write(' '.join(sorted(set(sys.modules) - before)))\n"
        "    sys.stderr.flush()\n"
        "    true(code)\n"
        "true, os._exit = os._exit, leave\n"
        "from inspan.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", start, "file-tools", str(typed.root), *words],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    loaded = done.stderr.split()
    assert "inspan.file_tools.root" in loaded
    assert [name for name in _HEAVY if name in loaded] == []
    assert len(loaded) < 30, loaded


def test_every_line_of_the_reference_is_made_from_the_table() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()
    for name in (*OPERATIONS, SERVE):
        assert f"## inspan file-tools ROOT {name}\n" in text
