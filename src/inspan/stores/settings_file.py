"""What one file of git's settings says, as git reads it: what it names is neither read nor run for that."""

import os
import re
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

from inspan.system.programs import helper_path

from .git import find_git

_LONGEST_S = 10.0
_MOST_BYTES = 1024 * 1024
# What git itself writes of most settings, and nobody can read otherwise: no quotes, comments or lines that go on.
_PLAIN_VALUE = r'[^"\\;#\x00-\x20\x7f](?:[^"\\;#\x00-\x1f\x7f]*[^"\\;#\x00-\x20\x7f])?'
_PLAIN_HEADER = r'\[[a-zA-Z][a-zA-Z0-9-]*(?: "[^"\\\x00-\x1f]*")?\]'
_PLAIN = re.compile(rf"(?:{_PLAIN_HEADER}\n|\t[a-zA-Z][a-zA-Z0-9-]*(?: = {_PLAIN_VALUE})?\n)*", re.ASCII)


class FileSetting(NamedTuple):
    """A setting by its whole key, as git spells it, and its value."""

    key: str
    value: str

    @property
    def kind(self) -> str:
        """The key without what stands between section and name."""
        return f"{self.key.partition('.')[0]}.{self.key.rpartition('.')[2]}"


class UnreadableSettings(Exception):
    """Why git cannot tell what a file says: a few words."""


def list_file_settings(path: str, *, avoid: Sequence[str] = ()) -> list[FileSetting]:
    """Asks git, whose own program is taken from none of the folders to `avoid`; raises `UnreadableSettings`.

    A file that is named there to be included is not: its name is a setting like any other.
    """
    _require_readable(path)
    env = {name: value for name, value in os.environ.items() if name == "HOME"}
    env |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_DIR": os.devnull, "LC_ALL": "C"}
    env["PATH"] = helper_path(avoid=avoid)
    argv = ["config", "--file", path, "--no-includes", "--null", "--list"]
    try:
        done = subprocess.run(
            [find_git(os.path.dirname(path)), *argv],
            cwd=os.sep,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LONGEST_S,
            check=False,
        )
    except FileNotFoundError:
        return []  # Nobody uses git here.
    except subprocess.TimeoutExpired:
        raise UnreadableSettings(f"no answer within {_LONGEST_S:g} s") from None
    except OSError as error:
        raise UnreadableSettings(error.strerror or str(error)) from None
    if done.returncode:
        raise UnreadableSettings(done.stderr.decode(errors="replace").strip().removeprefix("fatal: "))
    words = (word.partition("\n") for word in os.fsdecode(done.stdout).split("\0") if word)
    return [FileSetting(key, value) for key, _, value in words]


def find_file_setting(path: str, key: str) -> str:
    """The value of one setting; empty where there is none or it cannot be read. For a file in which everything is as
    git writes it, no program is started.
    """
    try:
        text = _require_readable(path)
        settings = _read_plain(text) if _PLAIN.fullmatch(text) else list_file_settings(path)
    except UnreadableSettings:
        return ""
    return next((each.value for each in reversed(settings) if each.key == key), "")


def _require_readable(path: str) -> str:
    """What stands in a file, after all: one without end is not read, and no pipe is waited for."""
    try:
        if not os.path.isfile(path):
            raise UnreadableSettings("no file")
        with open(path, "rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UnreadableSettings(error.strerror or str(error)) from None
    if len(content) > _MOST_BYTES:
        raise UnreadableSettings(f"more than {_MOST_BYTES} bytes")
    return os.fsdecode(content)


def _read_plain(text: str) -> list[FileSetting]:
    found: list[FileSetting] = []
    section = ""
    for line in text.split("\n")[:-1]:
        if line.startswith("["):
            name, _, inner = line[1:-1].partition(" ")
            section = ".".join((name.lower(), *([inner[1:-1]] if inner else [])))
        else:
            name, _, value = line[1:].partition(" = ")
            found.append(FileSetting(f"{section}.{name.lower()}", value))
    return found
