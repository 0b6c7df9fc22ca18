"""The command of a check, as it reaches the shell."""

import asyncio
import os
import re
from pathlib import Path

import pytest

from inspan.loop.checks import run_check
from inspan.protocol.events import CheckEnded
from inspan.protocol.ids import RunId
from inspan.protocol.task import Task


def check(command: str, cwd: Path) -> CheckEnded:
    async def run() -> CheckEnded:
        task = Task(prompt="", cwd=str(cwd))
        run_id = RunId("20990101-000000000-1")
        env = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(cwd / "cache"), "LANG": "C.UTF-8"}
        return await run_check(command, task, attempt=1, run_id=run_id, env=env, cwd=str(cwd), timeout_s=60)

    return asyncio.run(run())


@pytest.mark.parametrize("line", ["a  'b' * $x \\ ü", "x" * 5000])
def test_a_command_may_be_longer_than_a_word_of_a_process(tmp_path: Path, line: str) -> None:
    text = "\n".join([line] * (400_000 // len(line))) + "\n"
    done = check(f"cat > copy <<'END'\n{text}END\necho \"$# $0\"; false", tmp_path)
    assert (done.exit_code, done.output) == (1, "0 sh")
    assert (tmp_path / "copy").read_text() == text


def test_how_much_of_a_long_output_was_left_out_is_said(tmp_path: Path) -> None:
    done = check("seq 1000000; exit 1", tmp_path)
    head, left_out, tail = re.split(r"\n\[… (\d+) characters left out …\]\n", done.output)
    printed = sum(len(f"{number}\n") for number in range(1, 1_000_001)) - 1  # Without the last end of a line.
    assert int(left_out) == printed - len(head) - len(tail)


def test_a_long_command_splits_words_as_a_short_one_does(tmp_path: Path) -> None:
    done = check(f": {'x' * 200_000}; words='a b  c'; printf '[%s]' $words", tmp_path)
    assert (done.exit_code, done.output) == (0, "[a][b][c]")
