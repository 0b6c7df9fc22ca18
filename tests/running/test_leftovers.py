"""Files with a secret that were written for an agent, at the end of its run: whatever the agent has put there since."""

import subprocess
import sys
from pathlib import Path

import pytest

_LOOK = """
import sys
from inspan.redaction.secret_set import SecretSet
from inspan.running.execution import _holds
try:
    print(_holds(sys.argv[1], SecretSet({"KEY": "of-the-user-0815"})))
except OSError:
    print("refused")
"""


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("echo of-the-user-0815 > file", "True"),
        ("echo nothing > file", "False"),
        ("mkfifo file", "False"),
        ("echo of-the-user-0815 > other; ln -s other file", "refused"),
    ],
)
def test_nobody_waits_for_a_pipe_or_follows_a_link(tmp_path: Path, command: str, answer: str) -> None:
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True)
    argv = [sys.executable, "-c", _LOOK, str(tmp_path / "file")]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=20)
    assert done.stdout.strip() == answer
