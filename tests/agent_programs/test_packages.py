"""A channel that goes through a Python package: refused where there is none, and named where it is another version."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import inspan
from inspan.agents.program import Program
from inspan.agents.registry import find_driver, load_drivers
from inspan.agents.select import select_channel
from inspan.agents.version_support import refuse_untested, untested_warning
from inspan.errors import AgentUntested
from tests.cli_env import WAIT_S, CliEnv

_PACKAGES = {
    driver.name: channel.package for driver in load_drivers() for channel in driver.channels if channel.package
}
_SITE = Path(pytest.__file__).parent.parent
_EXTRAS = ("claude_agent_sdk", "openai_codex")
each_agent = pytest.mark.parametrize("agent", _PACKAGES)


@pytest.fixture
def bare_python(tmp_path: Path) -> dict[str, str]:
    """The variables by which this Python has all packages but those of the extras."""
    folder = tmp_path / "packages"
    folder.mkdir()
    for path in _SITE.iterdir():
        if not path.name.startswith(_EXTRAS) and path.suffix != ".pth":
            (folder / path.name).symlink_to(path)
    return {"PYTHONPATH": os.pathsep.join((str(Path(inspan.__file__).parent.parent), str(folder)))}


def test_two_agents_have_such_a_channel() -> None:
    assert list(_PACKAGES) == ["claude", "codex"]


def _run_python(cli_env: CliEnv, *words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        env={**cli_env.env, **(env or {})},
        cwd=cli_env.work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


@each_agent
def test_the_package_is_found_and_not_imported(cli_env: CliEnv, agent: str) -> None:
    package = _PACKAGES[agent]
    script = (
        "import sys\n"
        "from inspan.agents.program import locate_program\n"
        "from inspan.agents.registry import find_driver\n"
        "from inspan.agents.select import select_channel\n"
        f"found = locate_program(select_channel(find_driver({agent!r}), 'sdk'))\n"
        f"print(found.package_version, found.package.endswith('/__init__.py'), {package.module!r} in sys.modules)\n"
    )
    done = _run_python(cli_env, "-c", script)
    assert done.stdout.split() == [package.version, "True", "False"], done.stderr


@each_agent
def test_without_the_package_only_its_channel_is_refused(
    cli_env: CliEnv, agent: str, bare_python: dict[str, str]
) -> None:
    package, model = _PACKAGES[agent], cli_env.scenario('[[call]]\nsay = "Good."\n')
    words = ("-S", "-m", "inspan", "run", "hello", "-a", agent, "--profile", "clean", "--model-from", model)
    refused = _run_python(cli_env, *words, "--channel", "sdk", env=bare_python)
    assert (refused.returncode, refused.stdout) == (5, ""), refused.stderr
    assert f"needs the Python package {package.name}, which {sys.executable} does not have." in refused.stderr
    assert f"pip install 'inspan[{package.extra}]'" in refused.stderr
    assert not list(cli_env.state.glob("projects/*/*/runs/*"))
    done = _run_python(cli_env, *words, "--channel", "rpc", env=bare_python)
    assert (done.returncode, done.stdout) == (0, "Good.\n"), done.stderr


@each_agent
@pytest.mark.parametrize("version", ["9.9.9", ""])
def test_another_version_of_the_package_is_named_and_refused_where_that_was_asked_for(agent: str, version: str) -> None:
    driver, package = select_channel(find_driver(agent), "sdk"), _PACKAGES[agent]
    program = Program(path="p", version=driver.program.install.version, source="test", package="/lib/__init__.py")
    tested = msgspec.structs.replace(program, package_version=package.version)
    other = msgspec.structs.replace(program, package_version=version)
    assert untested_warning(driver, tested) == ""
    refuse_untested(driver, tested)
    assert untested_warning(driver, other).startswith(f"{package.name} {version or 'of an unknown version'} was not")
    with pytest.raises(AgentUntested, match="was not tested") as caught:
        refuse_untested(driver, other)
    assert f"inspan[{package.extra}]" in caught.value.next_step
