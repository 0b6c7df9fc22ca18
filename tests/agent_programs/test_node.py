"""The Node of a user's own: looked at before a program of the user's own is started by it."""

from pathlib import Path

import pytest

from inspan.agents.program import locate_program
from inspan.errors import NotAnAgent
from tests.npm_registry import tiny


@pytest.fixture(autouse=True)
def private_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def _node(folder: Path, version: str) -> None:
    """A Node that says it is of that version, and answers for whatever script it is given."""
    says = f'[ "$1" = --version ] && echo {version} || echo tiny 1.2.3'
    _write(folder / "node", f"#!/bin/sh\n{says}\n")


@pytest.mark.parametrize(
    "first", ["#!/usr/bin/env node", "#!{bin}/node", "#!/usr/bin/env -S node --no-warnings", "#! /usr/bin/env  node "]
)
@pytest.mark.parametrize(("version", "found"), [("v20.19.1", "the one on PATH is v20.19.1"), ("", "there is none")])
def test_a_program_that_the_users_node_is_too_old_for_is_refused(
    tmp_path: Path, first: str, version: str, found: str
) -> None:
    own = _write(tmp_path / "bin" / "tiny", first.format(bin=tmp_path / "bin") + "\n")
    if version:
        _node(tmp_path / "bin", version)
    with pytest.raises(NotAnAgent) as caught:
        locate_program(tiny(), {"PATH": str(own.parent), "INSPAN_TINY_BIN": str(own)})
    assert caught.value.message.startswith(f"Tiny at {own} needs Node 22 or newer, and {found}")
    assert caught.value.next_step == "`inspan agents install tiny` brings its own; then unset INSPAN_TINY_BIN."


@pytest.mark.parametrize("version", ["v22.0.0", "v24.1.0-nightly"])
def test_a_node_that_is_new_enough_is_used(tmp_path: Path, version: str) -> None:
    _node(tmp_path / "bin", version)
    own = _write(tmp_path / "bin" / "tiny", f"#!{tmp_path}/bin/node\n")
    assert locate_program(tiny(), {"PATH": f"{tmp_path}/bin"}).path == str(own)


def test_a_program_that_is_no_script_for_node_needs_none(tmp_path: Path) -> None:
    own = _write(tmp_path / "bin" / "tiny", "#!/bin/sh\necho tiny 1.2.3\n")
    assert locate_program(tiny(), {"PATH": str(own.parent)}).version == "1.2.3"


def test_what_was_installed_is_used_in_place_of_one_on_the_path_that_cannot_be(tmp_path: Path) -> None:
    _write(tmp_path / "bin" / "tiny", "#!/usr/bin/env node\n")
    env = {"PATH": str(tmp_path / "bin")}
    with pytest.raises(NotAnAgent) as caught:
        locate_program(tiny(), env)
    assert caught.value.next_step == "`inspan agents install tiny` brings its own."
    installed = tmp_path / "XDG_DATA_HOME" / "inspan" / "agents" / "tiny" / "1.2.3" / "bin" / "tiny"
    _write(installed, "#!/bin/sh\necho tiny 1.2.3\n")
    assert locate_program(tiny(), env).path == str(installed)
    with pytest.raises(NotAnAgent):
        locate_program(tiny(), {**env, "INSPAN_TINY_BIN": str(tmp_path / "bin" / "tiny")})
