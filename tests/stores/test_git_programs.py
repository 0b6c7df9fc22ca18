"""What git runs by its settings and variables: one table, held against git's own documents and against its settings."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from inspan.stores.git_programs import PROGRAM_SETTINGS, PROGRAM_VARIABLES, find_kind
from inspan.stores.git_settings import read_git_sources
from inspan.stores.git_traces import disarm_git
from inspan.stores.repository import Repository

# Words of which one ends or begins the name of each setting that has git run something.
_SUSPICIOUS = (
    *("askpass", "browser", "clean", "cmd", "command", "driver", "editor", "external", "fsmonitor", "helper", "hook"),
    *("httpd", "modulepath", "pager", "path", "process", "prog", "receivepack", "server", "smudge", "template"),
    *("textconv", "tool", "tunnel", "update", "uploadpack", "vcs", "viewer"),
)
# As git's documents have it, one of them names a tool of a list, a file that is read, a text, a number, yes or no.
_CERTAIN = ("advice.", "color.", "fsck.", "receive.fsck.")
_HARMLESS = {
    "column.clean",
    "commit.cleanup",
    "commit.template",
    "commitgraph.readchangedpaths",
    "completion.commands",
    "core.fsmonitorhookversion",
    "core.logallrefupdates",
    "core.quotepath",
    "credential.usehttppath",
    "diff.driver.cachetextconv",
    "diff.guitool",
    "diff.tool",
    "fetch.showforcedupdates",
    "gitcvs.dbdriver",
    "gui.newbranchtemplate",
    "help.htmlpath",
    "http.sslcapath",
    "include.path",
    "includeif.condition.path",
    "man.viewer",
    "merge.guitool",
    "merge.tool",
    "notes.rewrite.command",
    "rebase.abbreviatecommands",
    "rebase.updaterefs",
    "receive.shallowupdate",
    "receive.updateserverinfo",
    "repack.updateserverinfo",
    "rerere.autoupdate",
    "sendemail.smtpserveroption",
    "sendemail.smtpserverport",
    "sendemail.smtpsslcertpath",
    "status.relativepaths",
}


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def _repository(folder: Path) -> Repository:
    _git(folder, "init", "-q")
    return Repository(top=str(folder), git_dir=str(folder / ".git"), common=str(folder / ".git"))


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for name in PROGRAM_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_each_setting_of_this_git_that_may_name_a_program_is_in_the_table_or_known_to_be_harmless(
    tmp_path: Path,
) -> None:
    documented = _git(tmp_path, "help", "--config").lower().split()
    keys = [key.replace("<", "").replace(">", "") for key in documented if "." in key]
    keys = [key for key in keys if not key.startswith(_CERTAIN)]
    suspicious = [key for key in keys if any(word in key.rpartition(".")[2] for word in _SUSPICIOUS)]
    assert len(keys) > 500
    assert {key for key in suspicious if not find_kind(key)} - _HARMLESS == set()


def test_whatever_the_table_has_is_found_where_a_setting_names_it(tmp_path: Path) -> None:
    repository = _repository(tmp_path)
    (tmp_path / "tools").mkdir()
    wanted: set[str] = set()
    with (tmp_path / ".git/config").open("a") as settings:
        for number, (pattern, kind) in enumerate(PROGRAM_SETTINGS.items()):
            section, _, rest = pattern.replace("*", "x").partition(".")
            middle, _, name = rest.rpartition(".")
            mark = "!" if kind == "marked" else ""
            settings.write(f'[{section} "{middle}"]\n' if middle else f"[{section}]\n")
            settings.write(f'{name} = "{mark}tools/{number}"\n')
            path = tmp_path / "tools" / str(number)
            path.mkdir() if kind in ("folder", "hooks", "template") else path.write_text("")
            wanted.add(str(path))
    found = read_git_sources(repository)
    assert wanted - {*found.files, *found.hooks} == set()


def _list_none(repository: Repository, *, file: str) -> list[str]:
    return []


@pytest.mark.parametrize("name", PROGRAM_VARIABLES)
def test_what_a_variable_names_is_found_and_told_where_it_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    repository = _repository(tmp_path)
    is_folder = PROGRAM_VARIABLES[name] != "command"
    place = tmp_path / "tools/hooks" if PROGRAM_VARIABLES[name] == "template" else tmp_path / "tools"
    place.mkdir(parents=True)
    monkeypatch.setenv(name, "./tools" if is_folder else "sh ./tools/run --fast")
    if name == "GIT_EXEC_PATH":  # Git itself is not there.
        monkeypatch.setattr("inspan.stores.git_settings._list_settings", _list_none)
    since = time.time() + 10
    program = place / "run"
    program.write_text("echo evil")
    program.chmod(0o755)
    os.utime(program)
    sources = read_git_sources(repository)
    assert str(place if is_folder else program) in {*sources.files, *sources.hooks}
    assert disarm_git([str(tmp_path)], since=since) == []
    told = disarm_git([str(tmp_path)], since=time.time() - 1)
    assert any(each.startswith(f"{program} was changed in the run") for each in told)
