"""Where an agent's program is looked for, and what is refused before anything is started."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from inspan.agents import registry
from inspan.agents.program import find_bundled_file, install_folder, locate_program
from inspan.contracts.driver import Driver
from inspan.errors import AgentMissing, AgentTooOld, AgentUnusable, NotAnAgent


@pytest.fixture
def codex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.delenv("INSPAN_CODEX_BIN", raising=False)
    yield registry.find_driver("codex")


def _program(path: Path, says: str = "codex-cli 0.163.0", *, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\necho asked >> {path}.asked\n")
    path.chmod(mode)
    return path


def _times_asked(path: Path) -> int:
    asked = path.with_name(path.name + ".asked")
    return len(asked.read_text().split()) if asked.exists() else 0


def test_places_are_tried_in_order(tmp_path: Path, codex: Driver) -> None:
    named = _program(tmp_path / "named", "codex-cli 0.161.0")
    _program(tmp_path / "bin" / "codex", "codex-cli 0.162.0")
    _program(Path(install_folder(codex)) / codex.program.install.program, "codex-cli 0.163.0")
    env = {"PATH": str(tmp_path / "bin")}
    found = [
        locate_program(codex, {**env, "INSPAN_CODEX_BIN": str(named)}),
        locate_program(codex, env),
        locate_program(codex, {"PATH": ""}),
    ]
    assert [(each.version, each.source) for each in found] == [
        ("0.161.0", "INSPAN_CODEX_BIN"),
        ("0.162.0", "PATH"),
        ("0.163.0", "inspan agents install"),
    ]


def test_one_on_the_path_that_is_too_old_gives_way_to_another_and_one_that_was_installed_does_not(
    tmp_path: Path, codex: Driver, binaries: dict[str, str]
) -> None:
    _program(tmp_path / "bin" / "codex", "codex-cli 0.100.0")
    env = {"PATH": str(tmp_path / "bin")}
    assert locate_program(codex, env).source == "this Python environment"
    _program(Path(install_folder(codex)) / codex.program.install.program, "something else")
    with pytest.raises(NotAnAgent, match="does not answer as Codex: `--version` printed 'something else'"):
        locate_program(codex, env)


def test_the_wheel_of_this_environment_is_the_last_place(codex: Driver, binaries: dict[str, str]) -> None:
    found = locate_program(codex, {"PATH": ""})
    assert (found.path, found.source) == (binaries["INSPAN_CODEX_BIN"], "this Python environment")
    assert find_bundled_file("no/such/file") == ""


def test_a_program_that_is_asked_for_its_version_leaves_nothing_in_the_users_home(
    tmp_path: Path, codex: Driver
) -> None:
    home = tmp_path / "HOME"
    home.mkdir()
    # As the real one does, but not below /tmp.
    program = _program(tmp_path / "bin" / "codex")
    program.write_text(program.read_text() + 'echo lock > "${CODEX_HOME:-$HOME}/lock"\n')
    env = {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(home)}
    assert locate_program(codex, env).version == "0.163.0"
    assert list(home.iterdir()) == []
    assert [path.name for path in (tmp_path / "XDG_CACHE_HOME" / "inspan").glob("probe-*")] == []


def test_a_named_program_that_is_missing_is_not_replaced_by_another(tmp_path: Path, codex: Driver) -> None:
    _program(tmp_path / "bin" / "codex")
    env = {"PATH": str(tmp_path / "bin"), "INSPAN_CODEX_BIN": str(tmp_path / "nowhere")}
    with pytest.raises(AgentMissing, match=f"INSPAN_CODEX_BIN names {tmp_path}/nowhere, which does not exist"):
        locate_program(codex, env)


def test_a_file_on_path_that_cannot_be_run_is_passed_over(tmp_path: Path, codex: Driver) -> None:
    _program(tmp_path / "first" / "codex", mode=0o644)
    second = _program(tmp_path / "second" / "codex")
    assert locate_program(codex, {"PATH": f"{tmp_path}/first:{tmp_path}/second"}).path == str(second)


def test_a_program_named_relative_to_here_is_found_from_anywhere(
    tmp_path: Path, codex: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    _program(tmp_path / "bin" / "codex")
    monkeypatch.chdir(tmp_path)
    assert locate_program(codex, {"INSPAN_CODEX_BIN": "bin/codex"}).path == str(tmp_path / "bin" / "codex")


def _directory(path: Path) -> None:
    path.mkdir()


def _not_executable(path: Path) -> None:
    _program(path, mode=0o644)


def _another_program(path: Path) -> None:
    _program(path, "git version 2.39")


def _make_silent(path: Path) -> None:
    _program(path, "")


def _no_interpreter(path: Path) -> None:
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)


def _binary_garbage(path: Path) -> None:
    path.write_bytes(b"\x7fELF" + bytes(range(256)))
    path.chmod(0o755)


def _too_old(path: Path) -> None:
    _program(path, "codex-cli 0.148.9")


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (_directory, NotAnAgent, "is not an executable file"),
        (_not_executable, NotAnAgent, "is not an executable file"),
        (_another_program, NotAnAgent, "does not answer as Codex: `--version` printed 'git version 2.39'"),
        (_make_silent, NotAnAgent, "does not answer as Codex: `--version` printed ''"),
        (_no_interpreter, NotAnAgent, "cannot be started: No such file or directory"),
        (_binary_garbage, NotAnAgent, "cannot be started: Exec format error"),
        (_too_old, AgentTooOld, r"Codex 0\.148\.9 at .*0\.149\.0"),
    ],
)
def test_what_cannot_do_the_work_is_refused_with_the_next_step(
    tmp_path: Path, codex: Driver, make: object, error: type[AgentUnusable], says: str
) -> None:
    assert callable(make)
    make(tmp_path / "codex")
    with pytest.raises(error, match=says) as caught:
        locate_program(codex, {"INSPAN_CODEX_BIN": str(tmp_path / "codex")})
    assert str(tmp_path / "codex") in caught.value.message
    assert caught.value.next_step


def test_a_version_is_asked_once_until_the_file_changes(tmp_path: Path, codex: Driver) -> None:
    path = _program(tmp_path / "codex", "codex-cli 0.161.0")
    env = {"INSPAN_CODEX_BIN": str(path)}
    assert [locate_program(codex, env).version for _ in range(3)] == ["0.161.0"] * 3
    assert _times_asked(path) == 1
    _program(path, "codex-cli 0.162.0")
    os.utime(path, ns=(1, 1))
    assert locate_program(codex, env).version == "0.162.0"
    assert _times_asked(path) == 2


def test_a_link_that_points_elsewhere_is_asked_again(tmp_path: Path, codex: Driver) -> None:
    link = tmp_path / "codex"
    for version in ("0.161.0", "0.162.0"):
        target = _program(tmp_path / version, f"codex-cli {version}")
        os.utime(target, ns=(1, 1))
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        assert locate_program(codex, {"INSPAN_CODEX_BIN": str(link)}).version == version


def test_what_is_no_agent_is_asked_again_each_time(tmp_path: Path, codex: Driver) -> None:
    path = _program(tmp_path / "codex", "not ready yet")
    for _ in range(2):
        with pytest.raises(NotAnAgent):
            locate_program(codex, {"INSPAN_CODEX_BIN": str(path)})
    assert _times_asked(path) == 2


@pytest.mark.parametrize("spoil", ["{", "[]", '{"a": 1}', "\xff", '{"a": "\xff"}', "[" * 9999])
def test_a_spoilt_cache_costs_a_question_and_nothing_else(tmp_path: Path, codex: Driver, spoil: str) -> None:
    path = _program(tmp_path / "codex")
    cache = tmp_path / "XDG_CACHE_HOME" / "inspan" / "versions.json"
    cache.parent.mkdir(parents=True)
    cache.write_bytes(spoil.encode("latin-1"))
    assert locate_program(codex, {"INSPAN_CODEX_BIN": str(path)}).version == "0.163.0"


def test_a_cache_that_cannot_be_written_costs_a_question_and_nothing_else(tmp_path: Path, codex: Driver) -> None:
    (tmp_path / "XDG_CACHE_HOME").touch()
    path = _program(tmp_path / "codex")
    assert [locate_program(codex, {"INSPAN_CODEX_BIN": str(path)}).version for _ in range(2)] == ["0.163.0"] * 2


def test_an_agent_that_is_nowhere_is_told_with_every_place_that_was_tried(
    tmp_path: Path, codex: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inspan.agents.program.find_bundled_file", lambda path: "")  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]  the wheel is always here
    with pytest.raises(AgentMissing) as caught:
        locate_program(codex, {"PATH": str(tmp_path)})
    message = str(caught.value)
    assert "in: PATH, inspan agents install, this Python environment." in message
    assert "`inspan agents install codex`, or set INSPAN_CODEX_BIN" in message
