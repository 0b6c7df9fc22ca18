"""Programs that an agent in a box leaves where somebody outside might look for one: nobody starts them."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.cli_env import CliEnv
from tests.running.fake_agent import Fake, fake_agent_env, run_fake_agent
from tests.sandboxes.inside import ACTS, run_in_box

pytestmark = pytest.mark.usefixtures("bubblewrap")

_NAMES = ("git", "bwrap", "unshare", "setpriv", "true", "ps", "codex", "claude", "node", "uv", "inspan", "show-key")
_FOLDERS = (".venv/bin", "node_modules/.bin", "tools")


@pytest.fixture
def project(each_user_env: CliEnv) -> Path:
    """A repository whose own folders stand before all others on PATH, as whoever has activated it has them."""
    work, outside = each_user_env.work, each_user_env.root / "outside"
    subprocess.run([*each_user_env.prefix, "git", "init", "-q"], cwd=work, env=each_user_env.env, check=True)
    for folder in (*(work / name for name in _FOLDERS), outside):
        folder.mkdir(parents=True)
    (outside / "linked").symlink_to(work / "tools")
    (outside / "show-key").write_text("#!/bin/sh\necho sk-0123456789abcdef\n")
    (outside / "show-key").chmod(0o755)
    if each_user_env.prefix:
        owner = str(each_user_env.root.stat().st_uid)
        subprocess.run(["chown", "-R", owner, str(work), str(outside)], check=True)
    # The test's own way to be an ordinary user is not what is tried here.
    each_user_env.prefix = [shutil.which(word) or word for word in each_user_env.prefix]
    entries = [*(str(work / name) for name in _FOLDERS), ".", str(outside / "linked"), str(outside)]
    each_user_env.env["PATH"] = os.pathsep.join((*entries, each_user_env.env["PATH"]))
    return work


def test_no_program_that_a_box_has_left_on_path_is_started_outside(
    each_user_env: CliEnv, fake: Fake, project: Path
) -> None:
    marker = each_user_env.root / "started-outside"
    script = f"#!/bin/sh\necho $0 $* >> {marker}\nexit 1\n"
    places = [os.path.join(folder, name) for folder in (*_FOLDERS, ".") for name in _NAMES]
    found = run_in_box(
        each_user_env,
        fake,
        "--key-from",
        "cmd:show-key",
        planted=f"[open(path, 'w').write({script!r}) and os.chmod(path, 0o755) for path in {places!r}] and 'planted'",
    )
    assert found == {"planted": "planted"}
    assert subprocess.run([str(project / "git")], check=False).returncode == 1 and marker.exists()
    marker.unlink()
    env = fake_agent_env(fake, ACTS)
    for more in (("--sandbox", "bwrap", "--key-from", "cmd:show-key"), ("--sandbox", "none")):
        code, _, stderr = run_fake_agent(each_user_env, env, *more, prompt="{}")
        assert code == 0, stderr
    each_user_env.inspan("diff", "@3")
    each_user_env.inspan("agents", "show", "codex")
    each_user_env.inspan("doctor", "codex", "claude")
    assert not marker.exists(), marker.read_text()


def test_an_agents_program_that_only_the_working_folder_has_is_refused(each_user_env: CliEnv, project: Path) -> None:
    program = project / "node_modules" / ".bin" / "goose"
    program.write_text("#!/bin/sh\ntouch ../started\necho 1.50.0\n")
    program.chmod(0o755)
    refused = each_user_env.inspan("run", "x", "-a", "goose", "--sandbox", "bwrap", "--direct")
    assert refused.returncode != 0
    assert f"found at {program} alone" in refused.stderr and f"INSPAN_GOOSE_BIN={program}" in refused.stderr
    assert not (project.parent / "started").exists()


def test_no_module_that_a_box_has_left_is_imported_by_inspan(each_user_env: CliEnv, fake: Fake, project: Path) -> None:
    marker = each_user_env.root / "imported-outside"
    module = f"open({str(marker)!r}, 'a').write(__name__ + chr(10))\nraise ImportError\n"
    names = sorted({*sys.stdlib_module_names, "msgspec", "httptools", "click", "rich", "claude_agent_sdk"} - {"sys"})
    found = run_in_box(
        each_user_env,
        fake,
        env={"PYTHONPATH": str(project / "tools")},
        planted=f"[open(at + name + '.py', 'w').write({module!r}) for name in {names!r} for at in ('', 'tools/')]",
    )
    assert len(found["planted"]) == 2 * len(names)
    assert not marker.exists(), marker.read_text()


def test_inspan_itself_cannot_be_changed_where_it_lies_in_the_working_folder(
    each_user_env: CliEnv, fake: Fake, project: Path
) -> None:
    own = project / "deep" / "own"
    venv.create(own, symlinks=True)
    (packages,) = own.glob("lib/python*/site-packages")
    (packages / "inspan.pth").write_text("\n".join(path for path in sys.path if path.endswith(("-packages", "src"))))
    if each_user_env.prefix:
        subprocess.run(["chown", "-R", str(each_user_env.root.stat().st_uid), str(own)], check=True)
    each_user_env.python = str(own / "bin" / "python")
    found = run_in_box(
        each_user_env,
        fake,
        program=f"os.unlink('{own}/bin/python')",
        package=f"write('{packages}/other.pth')",
        moved=f"os.rename('{own}', 'moved')",
        moved_around=f"os.rename('{own.parent}', 'moved')",
        beside=f"write('{own.parent}/beside')",
    )
    assert found.pop("beside") == "written"
    assert set(found.values()) <= {"OSError", "PermissionError"}, found
