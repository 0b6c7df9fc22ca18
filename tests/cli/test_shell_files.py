"""`completion --install`: files where a shell and man look for them, written once, and taken away again."""

import json
import os
import pwd
import subprocess
from pathlib import Path

import click
import pytest

from inspan.cli.main import inspan
from inspan.cli.man_pages import MARK, PACKAGE_MARK, build_man_pages
from tests.cli_env import WAIT_S, CliEnv

from .refusal import expect_refusal

SHELLS = ("bash", "zsh", "fish")


def paths(cli_env: CliEnv) -> dict[str, Path]:
    data = cli_env.root / "data"
    return {
        "bash": data / "bash-completion" / "completions" / "inspan",
        "zsh": data / "zsh" / "site-functions" / "_inspan",
        "fish": Path(cli_env.env["HOME"]) / ".config" / "fish" / "completions" / "inspan.fish",
    }


def list_pages(cli_env: CliEnv) -> list[str]:
    folder = cli_env.root / "data" / "man" / "man1"
    return sorted(os.listdir(folder)) if folder.exists() else []


@pytest.mark.parametrize("shell", SHELLS)
def test_it_is_written_once_and_taken_away_again(cli_env: CliEnv, shell: str) -> None:
    path = paths(cli_env)[shell]
    dry = cli_env.inspan("completion", "--install", shell, "--dry-run")
    assert (dry.returncode, dry.stderr, path.exists(), list_pages(cli_env)) == (0, "", False, [])
    assert dry.stdout.startswith(f"{path} would be written\n")
    done = cli_env.inspan("completion", "--install", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == f"{path} written"
    assert done.stdout.splitlines()[-1].startswith("next: ")
    assert MARK in path.read_text()
    assert {"inspan.1", "inspan-run.1", "inspan-agents-install.1"} < set(list_pages(cli_env))
    stamp = path.stat().st_mtime_ns
    again = cli_env.inspan("completion", shell, "--install", "--json")
    assert json.loads(again.stdout)["files"] == []
    assert path.stat().st_mtime_ns == stamp
    assert "would be deleted" in cli_env.inspan("completion", "--uninstall", "--dry-run").stdout
    pages = list_pages(cli_env)
    gone = cli_env.inspan("completion", "--uninstall")
    man = cli_env.root / "data" / "man" / "man1"
    assert gone.stdout.splitlines() == [f"{path} deleted", f"{man} deleted: {len(pages)} pages"]
    assert (path.exists(), list_pages(cli_env)) == (False, [])
    assert cli_env.inspan("completion", "--uninstall").stdout == "nothing to delete\n"


def test_the_shell_is_that_of_the_user(cli_env: CliEnv) -> None:
    done = cli_env.inspan("completion", "--install", "--json", env={"SHELL": "/usr/bin/fish"})
    assert json.loads(done.stdout)["completion"] == str(paths(cli_env)["fish"])
    for value in ("", "/bin/tcsh"):
        refusal = expect_refusal(cli_env, "completion", "--install", env={"SHELL": value})
        assert (refusal.exit_code, refusal.code) == (2, "usage")
        assert "Name one of bash, zsh, fish." in refusal.message


@pytest.mark.parametrize(
    "arguments", [(), ("--install", "--uninstall", "bash"), ("tcsh",), ("--install", "tcsh")], ids=" ".join
)
def test_bad_input_writes_nothing(cli_env: CliEnv, arguments: tuple[str, ...]) -> None:
    refusal = expect_refusal(cli_env, "completion", *arguments)
    assert (refusal.exit_code, refusal.code) == (2, "usage")


def test_a_file_of_the_users_own_is_neither_overwritten_nor_deleted(cli_env: CliEnv) -> None:
    path = paths(cli_env)["bash"]
    path.parent.mkdir(parents=True)
    path.write_text("# mine\n")
    refusal = expect_refusal(cli_env, "completion", "--install", "bash")
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")
    assert str(path) in refusal.message
    assert cli_env.inspan("completion", "--uninstall").stdout == "nothing to delete\n"
    assert path.read_text() == "# mine\n"


def test_what_a_package_brought_is_left_as_it_is(cli_env: CliEnv) -> None:
    """Here as pipx leaves it: links into the folder of its tool."""
    script, folder = paths(cli_env)["bash"], cli_env.root / "data" / "man" / "man1"
    brought = {script: "share/inspan", folder / "inspan.1": "share/inspan.1", folder / "inspan-run.1": "share/old.1"}
    for path, name in brought.items():
        target = cli_env.root / "tool" / name
        for each in (target, path):
            each.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"# {MARK if 'old' in name else PACKAGE_MARK}\n")
        path.symlink_to(target)
    refusal = expect_refusal(cli_env, "completion", "--install", "bash")
    assert str(folder / "inspan-run.1") in refusal.message
    (folder / "inspan-run.1").unlink()
    done = cli_env.inspan("completion", "--install", "bash")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, f"{script} is up to date")
    assert "inspan-run.1" in list_pages(cli_env)
    (folder / "inspan-gone.1").symlink_to(cli_env.root / "tool" / "share" / "old.1")
    assert cli_env.inspan("completion", "--uninstall").returncode == 0
    assert list_pages(cli_env) == ["inspan-gone.1", "inspan.1"]
    assert script.is_symlink()


def test_a_page_of_a_command_that_is_gone_goes_with_the_next_installation(cli_env: CliEnv) -> None:
    cli_env.inspan("completion", "--install", "bash")
    folder = cli_env.root / "data" / "man" / "man1"
    (folder / "inspan-gone.1").write_text(f'.\\" {MARK}\n')
    (folder / "inspan-mine.1").write_text("a page of somebody else's\n")
    cli_env.inspan("completion", "--install", "bash")
    assert "inspan-gone.1" not in list_pages(cli_env)
    assert "inspan-mine.1" in list_pages(cli_env)


def test_where_nothing_can_be_written_it_is_told(user_cli_env: CliEnv) -> None:
    data = user_cli_env.root / "data"
    data.chmod(0o555)
    try:
        done = user_cli_env.inspan("completion", "--install", "bash")
    finally:
        data.chmod(0o755)
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot be written: Permission denied." in done.stderr


def test_without_a_home_of_its_own_the_users_is_found(cli_env: CliEnv) -> None:
    """The password file has it; nothing is written there by a test."""
    env = {name: value for name, value in cli_env.env.items() if name not in ("HOME", "XDG_DATA_HOME")}
    done = subprocess.run(
        cli_env.argv("completion", "--install", "bash", "--dry-run", "--json"),
        env=env,
        cwd=cli_env.work,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    home = pwd.getpwuid(os.getuid()).pw_dir
    assert json.loads(done.stdout)["completion"] == f"{home}/.local/share/bash-completion/completions/inspan"


def test_the_installed_script_completes_in_bash(cli_env: CliEnv) -> None:
    cli_env.inspan("completion", "--install", "bash")
    ask = 'source "$0"; COMP_WORDS=(inspan comple) COMP_CWORD=1; _inspan_words inspan; echo "${COMPREPLY[@]}"'
    programs = str(Path(cli_env.argv()[0]).parent)
    done = subprocess.run(
        ["bash", "--norc", "-c", ask, str(paths(cli_env)["bash"])],
        env={**cli_env.env, "PATH": f"{programs}{os.pathsep}{cli_env.env['PATH']}"},
        cwd=cli_env.work,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("completion\n", "")


def test_zsh_gets_a_file_for_its_folder_of_functions(cli_env: CliEnv) -> None:
    cli_env.inspan("completion", "--install", "zsh")
    assert paths(cli_env)["zsh"].read_text().startswith("#compdef inspan\n")


def test_every_command_has_a_page_with_all_its_options() -> None:
    pages = build_man_pages(inspan)
    context = click.Context(inspan, info_name="inspan")
    assert pages.keys() >= {f"inspan-{name}.1" for name in inspan.list_commands(context)}
    text = pages["inspan-run.1"]
    assert '.TH "INSPAN-RUN" "1"' in text
    for word in ("\\-\\-budget", "\\-a, \\-\\-agent", "\\-h, \\-\\-help", ".SH SYNOPSIS", "\\fBinspan\\fR(1)"):
        assert word in text, word
    assert ".SH EXIT CODES" in pages["inspan.1"]
    assert "inspan\\-agents\\-update" in pages["inspan-agents.1"]


def test_pages_keep_lines_that_belong_together_and_escape_what_man_would_obey() -> None:
    @click.group(context_settings={"help_option_names": ["--help"]})
    def root() -> None:
        """A tool.

        \b
        .one  'two
        'x \\ y…
        """

    text = build_man_pages(root)["inspan.1"]
    assert ".nf\n\\&.one  'two\n\\&'x \\e y\\[u2026]\n.fi" in text
