"""An agent out of npm, fetched by the real npm from a registry on loopback: whole, as asked for, or not at all."""

import json
import os
import shlex
import stat
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from inspan.agents import registry
from inspan.agents.install import install
from inspan.agents.node import REQUIREMENT
from inspan.agents.program import Program, fill_platform
from inspan.agents.unpack import BadArchive, unpack
from inspan.contracts.driver import ProgramSpec
from inspan.errors import AgentMissing, AgentTooOld, UnknownAgent
from tests.conftest import skip
from tests.npm_registry import PACKAGE, TOUCHES, Registry, pack_archive, program, tiny

_NODE = REQUIREMENT.partition("==")[2]


@pytest.fixture
def data(tmp_path: Path, node: Path, npm_registry: Registry, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with Node in it and no agent; npm knows the test's own registry and nothing else."""
    for name in [name for name in os.environ if name.lower().startswith("npm_config_")]:
        monkeypatch.delenv(name)
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for name, value in npm_registry.env.items():
        monkeypatch.setenv(name, value)
    return _with_node(tmp_path / "XDG_DATA_HOME", node)


def _with_node(data: Path, node: Path) -> Path:
    (data / "inspan").mkdir(parents=True)
    (data / "inspan" / "node").symlink_to(node)
    return data / "inspan"


def _put(npm_registry: Registry) -> None:
    npm_registry.publish(PACKAGE, "1.2.3", {"cli.js": program()})


def _answer(found: Program, *words: str) -> dict[str, object]:
    done = subprocess.run([found.path, *words], env={}, capture_output=True, text=True, timeout=240, check=True)
    return json.loads(done.stdout)


def _list_files(data: Path) -> list[str]:
    """Every file that was put into the data folder, but for Node."""
    return sorted(str(path.relative_to(data)) for path in (data / "agents").rglob("*") if not path.is_dir())


def test_an_agent_of_npms_is_run_by_inspans_own_node(data: Path, npm_registry: Registry) -> None:
    npm_registry.publish("left", "1.9.0", {"index.js": "module.exports = 'an old one'"})
    npm_registry.publish("left", "1.4.0", {"index.js": "module.exports = 'the left one'"})
    npm_registry.publish(PACKAGE, "1.2.3", {"cli.js": program(needs="require('left')")}, dependencies={"left": "1.4.0"})
    found = install(tiny())
    wanted = data / "agents" / "tiny" / "1.2.3" / "bin" / "tiny"
    assert found == Program(path=str(wanted), version="1.2.3", source="inspan agents install")
    assert _answer(found, "a b", "'c'") == {"node": _NODE, "words": ["a b", "'c'"], "needs": "the left one"}
    assert os.listdir(wanted.parent.parent.parent) == ["1.2.3"]


def test_without_dependencies_only_the_package_and_its_companions_are_fetched(
    data: Path, npm_registry: Registry
) -> None:
    npm_registry.publish("other", "2.0.0", {"index.js": "module.exports = 'a companion'"})
    npm_registry.publish("absent", "1.0.0", {"index.js": ""})
    needs = "require('other')"
    npm_registry.publish(PACKAGE, "1.2.3", {"cli.js": program(needs=needs)}, dependencies={"absent": "1.0.0"})
    found = install(tiny(dependencies=False, extra_packages=("other@2.0.0",)))
    assert _answer(found)["needs"] == "a companion"
    assert not [path for path in npm_registry.asked if "absent" in path]
    assert not list(Path(found.path).parents[1].glob("*.tgz"))


@pytest.mark.parametrize("dependencies", [True, False])
def test_a_package_named_after_the_platform_is_the_one_of_this_machine(
    data: Path, npm_registry: Registry, dependencies: bool
) -> None:
    name = fill_platform("tiny-{platform}")
    npm_registry.publish(name, "1.2.3", {"tiny": "#!/bin/sh\necho tiny 1.2.3\n"})
    npm_registry.publish(fill_platform("extra-{platform}"), "1.0.0", {"index.js": ""})
    recipe = {"package": "tiny-{platform}", "program": "node_modules/tiny-{platform}/tiny", "node": ()}
    found = install(tiny(**recipe, dependencies=dependencies, extra_packages=("extra-{platform}@1.0.0",)))
    assert found.path == str(data / "agents" / "tiny" / "1.2.3" / "node_modules" / name / "tiny")


def test_the_launcher_stands_any_name_of_the_data_folder(
    tmp_path: Path, node: Path, data: Path, npm_registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / 'it\'s a "folder" $HOME `id` \\ ü'
    _with_node(odd, node)
    monkeypatch.setenv("XDG_DATA_HOME", str(odd))
    _put(npm_registry)
    found = install(tiny())
    assert found.path.startswith(str(odd))
    assert _answer(found, "x")["words"] == ["x"]


@pytest.mark.parametrize("dependencies", [True, False])
def test_no_script_of_a_package_is_ever_run(data: Path, npm_registry: Registry, dependencies: bool) -> None:
    npm_registry.publish("other", "2.0.0", {"index.js": ""}, scripts=TOUCHES, hasInstallScript=True)
    described: dict[str, Any] = {"scripts": TOUCHES, "hasInstallScript": True, "dependencies": {"other": "2.0.0"}}
    npm_registry.publish(PACKAGE, "1.2.3", {"cli.js": program()}, **described)
    install(tiny(dependencies=dependencies, extra_packages=("other@2.0.0",)))
    assert (data / "agents" / "tiny" / "1.2.3" / "node_modules" / "other").is_dir()
    assert [path for path in _list_files(data) if path.endswith("ran-a-script")] == []


@pytest.mark.parametrize("dependencies", [True, False])
def test_a_version_that_was_not_asked_for_is_refused_and_nothing_is_left(
    data: Path, npm_registry: Registry, dependencies: bool
) -> None:
    npm_registry.publish(PACKAGE, "1.2.3", {"cli.js": program("1.1.9")}, holds="1.1.9")
    with pytest.raises(AgentMissing) as caught:
        install(tiny(dependencies=dependencies))
    said = "version 1.2.3 was asked for and npm gave 1.1.9"
    assert caught.value.message == f"Tiny could not be installed as {PACKAGE}@1.2.3: {said}."
    assert caught.value.next_step == "Check the package index, or install it by hand and set INSPAN_TINY_BIN."
    assert _list_files(data) == []


def _no_such_version(npm_registry: Registry) -> None:
    npm_registry.publish(PACKAGE, "1.2.2", {"cli.js": program("1.2.2")})


def _no_such_package(npm_registry: Registry) -> None:
    pass


def _no_program(npm_registry: Registry) -> None:
    npm_registry.publish(PACKAGE, "1.2.3", {"index.js": program()})


def _no_archive(npm_registry: Registry) -> None:
    npm_registry.publish(PACKAGE, "1.2.3", {}, archive=b"this is no archive")


def _close_registry(npm_registry: Registry) -> None:
    npm_registry.close()


@pytest.mark.parametrize("dependencies", [True, False])
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (_no_such_version, "ETARGET"),
        (_no_such_package, "E404"),
        (_no_program, "the package does not hold its program"),
        (_no_archive, "archive"),
        (_close_registry, "ECONNREFUSED"),
    ],
)
def test_what_cannot_be_had_is_told_and_the_old_install_stays(
    data: Path, make: object, says: str, dependencies: bool, npm_registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = data / "agents" / "tiny" / "1.2.3" / "bin" / "tiny"
    old.parent.mkdir(parents=True)
    old.write_text("the old one")
    assert callable(make)
    monkeypatch.setattr(npm_registry, "close", _once(npm_registry.close))  # The fixture closes it, too.
    make(npm_registry)
    with pytest.raises(AgentMissing) as caught:
        install(tiny(dependencies=dependencies))
    assert caught.value.message.startswith(f"Tiny could not be installed as {PACKAGE}@1.2.3: ")
    assert says.casefold() in caught.value.message.casefold()
    assert "Traceback" not in caught.value.message
    assert (_list_files(data), old.read_text()) == (["agents/tiny/1.2.3/bin/tiny"], "the old one")


def _once(close: object) -> object:
    done: list[bool] = []

    def closing() -> None:
        assert callable(close)
        if not done:
            done.append(True)
            close()

    return closing


def _package_files() -> dict[str, str]:
    described = json.dumps({"name": PACKAGE, "version": "1.2.3"})
    return {"package/package.json": described, "package/cli.js": program()}


@pytest.mark.parametrize("path", ["../../outside", "package/../../outside", "{outside}", "//{outside}"])
def test_an_archive_that_reaches_out_of_its_folder_is_refused(
    tmp_path: Path, data: Path, npm_registry: Registry, path: str
) -> None:
    outside = tmp_path / "outside"
    npm_registry.publish(
        PACKAGE, "1.2.3", {}, archive=pack_archive({**_package_files(), path.format(outside=outside): "out"})
    )
    _refuses_to_unpack(data)
    assert list(tmp_path.rglob("outside")) == []


@pytest.mark.parametrize("target", ["{outside}", "../../../outside", "cli.js"])
@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE], ids=str)
def test_an_archive_with_a_link_or_a_device_in_it_is_refused(
    tmp_path: Path, data: Path, npm_registry: Registry, kind: bytes, target: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    link = tarfile.TarInfo("package/link")
    link.type, link.linkname = kind, target.format(outside=outside)
    archive = pack_archive({**_package_files(), "package/link/planted": "out"}, before=[link])
    npm_registry.publish(PACKAGE, "1.2.3", {}, archive=archive)
    _refuses_to_unpack(data)
    assert list(outside.iterdir()) == []


def _refuses_to_unpack(data: Path) -> None:
    with pytest.raises(AgentMissing, match="its archive cannot be unpacked") as caught:
        install(tiny(dependencies=False))
    assert caught.value.next_step
    assert _list_files(data) == []


@pytest.mark.parametrize("cut", [40, 200])
def test_an_archive_that_ends_in_the_middle_is_refused(tmp_path: Path, cut: int) -> None:
    (tmp_path / "a.tgz").write_bytes(pack_archive(_package_files())[:-cut])
    with pytest.raises(BadArchive):
        unpack(str(tmp_path / "a.tgz"), str(tmp_path / "made"))


def test_a_file_may_be_told_twice_and_keeps_no_dangerous_mode(tmp_path: Path) -> None:
    tool = tarfile.TarInfo("package/bin/tool")
    tool.mode = 0o6777
    (tmp_path / "a.tgz").write_bytes(pack_archive({"./package/bin/tool": "second", "package/b": "x"}, before=[tool]))
    unpack(str(tmp_path / "a.tgz"), str(tmp_path / "made"))
    made = tmp_path / "made" / "package" / "bin" / "tool"
    assert (made.read_text(), stat.S_IMODE(made.stat().st_mode) & 0o7000) == ("second", 0)
    assert os.access(made, os.X_OK)
    assert not os.access(made.parent.parent / "b", os.X_OK) or os.geteuid() == 0


_SMALL = """
import sys
from inspan.agents.install import install
from inspan.errors import InspanError
from tests.npm_registry import tiny
try: install(tiny(dependencies=sys.argv[1] == "True"))
except InspanError as error: print(error)
"""


@pytest.mark.parametrize("dependencies", [True, False])
def test_a_full_disk_is_told_and_the_old_install_stays(
    tmp_path: Path, data: Path, node: Path, npm_registry: Registry, dependencies: bool
) -> None:
    alone = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    if subprocess.run([*alone, "true"], check=False).returncode:
        skip("no-namespaces")
    npm_registry.publish(PACKAGE, "1.2.3", {"cli.js": program(), "large": os.urandom(8_000_000)})
    small, old = shlex.quote(str(data.parent)), shlex.quote(str(data / "agents" / "tiny" / "1.2.3"))
    script = f"""
        mount -t tmpfs -o size=4m small {small} || exit 99
        mkdir -p {old} && echo 'the old one' > {old}/kept && ln -s {shlex.quote(str(node))} {small}/inspan/node
        {shlex.join([sys.executable, "-c", _SMALL, str(dependencies)])}
        find {small}/inspan/agents -type f
    """
    done = subprocess.run(
        [*alone, "sh", "-c", script],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    told, *left = done.stdout.splitlines()
    assert told.startswith(("Tiny could", "Tiny cannot")), told
    assert "ENOSPC" in told or "No space left on device" in told
    assert left == [str(data / "agents" / "tiny" / "1.2.3" / "kept")]


def test_two_installs_at_once_end_in_one_whole_install(data: Path, npm_registry: Registry) -> None:
    _put(npm_registry)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(install, [tiny(), tiny()])
    assert first == second
    assert _answer(first, "x")["words"] == ["x"]
    assert os.listdir(data / "agents" / "tiny") == ["1.2.3"]
    # Whoever had to wait found it there, and did not fetch it again.
    assert len([path for path in npm_registry.asked if path.endswith(".tgz")]) == 1


def test_an_install_again_replaces_what_is_there_and_what_a_killed_one_left(data: Path, npm_registry: Registry) -> None:
    _put(npm_registry)
    folder = data / "agents" / "tiny"
    for name in ("1.2.3", "1.2.3.draft", "1.2.3.old"):
        (folder / name / "bin").mkdir(parents=True)
        (folder / name / "bin" / "tiny").write_text("broken")
    assert _answer(install(tiny()), "x")["words"] == ["x"]
    assert os.listdir(folder) == ["1.2.3"]


def test_the_project_that_one_stands_in_has_no_say_in_where_agents_come_from(
    data: Path, npm_registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = "http://127.0.0.1:9"
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "package.json").write_text("{}")
    (tmp_path / "project" / ".npmrc").write_text(f"registry={elsewhere}\n@loop:registry={elsewhere}\nglobal=true\n")
    monkeypatch.chdir(tmp_path / "project")
    _put(npm_registry)
    assert _answer(install(tiny(dependencies=False)))["node"] == _NODE
    assert _answer(install(tiny()))["node"] == _NODE
    assert sorted(os.listdir()) == [".npmrc", "package.json"]


def test_a_version_that_is_too_old_to_work_is_not_even_fetched(data: Path, npm_registry: Registry) -> None:
    with pytest.raises(AgentTooOld, match=r"Tiny 0\.9\.0 is too old; the oldest supported version is 1\.0\.0"):
        install(tiny(version="0.9.0"))
    assert (npm_registry.asked, (data / "agents").exists()) == ([], False)


def test_an_agent_without_a_package_is_installed_by_its_user(data: Path) -> None:
    bare = msgspec.structs.replace(tiny(), program=ProgramSpec(command="tiny"))
    with pytest.raises(AgentMissing, match="Tiny cannot be installed by inspan") as caught:
        install(bare)
    assert caught.value.next_step == "Install 'tiny', or set INSPAN_TINY_BIN to the program."


def test_an_agent_in_a_version_is_that_version_alone() -> None:
    plain, held = registry.find_driver("codex"), registry.find_driver("codex@0.160.1")
    recipe = msgspec.structs.replace(plain.program.install, version="0.160.1")
    program = msgspec.structs.replace(plain.program, pinned=True, install=recipe)
    assert held == msgspec.structs.replace(plain, program=program)
    same = registry.find_driver(f"codex@{plain.program.install.version}")
    assert same == msgspec.structs.replace(plain, program=msgspec.structs.replace(plain.program, pinned=True))


def test_a_version_whose_package_is_numbered_otherwise_comes_from_elsewhere() -> None:
    plain, held = registry.find_driver("claude"), registry.find_driver("claude@2.1.300")
    assert plain.program.install.alternative
    assert held.program.install == msgspec.structs.replace(plain.program.install.alternative, version="2.1.300")
    assert registry.find_driver(f"claude@{plain.program.install.version}").program.install == plain.program.install


@pytest.mark.parametrize(
    "name", ["codex@", "codex@latest", "codex@1", "codex@1.2", "codex@../1.2.3", "codex@1.2.3/..", "scripted@1.2.3"]
)
def test_what_is_no_version_is_refused(name: str) -> None:
    with pytest.raises(UnknownAgent, match="unknown version"):
        registry.find_driver(name)
