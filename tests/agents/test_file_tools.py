"""`inspan file-tools` as an agent's only tool, on the real programs: it works, and no line of a shell leads past it."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli_env import CliEnv, FinishedRun

from .protected_folders import ProtectedFolders, build_scenario, run_step, say_step, use_step
from .styles import CLASSIC, CODE_MODE, Style

_SECRET = "words of the neighbour"


@pytest.fixture(params=["root", "user"])
def each_user_env(request: pytest.FixtureRequest) -> CliEnv:
    """The house of whoever runs the tests, and that of an ordinary user."""
    return request.getfixturevalue("cli_env" if request.param == "root" else "user_cli_env")


def _install(cli_env: CliEnv) -> ProtectedFolders:
    """Puts the command on PATH, as pip does, and a secret beside ROOT, which is the working folder."""
    folder = cli_env.root / "bin"
    folder.mkdir()
    program = folder / "inspan"
    program.write_text(f"#!{sys.executable}\nfrom inspan.cli import main\nmain()\n")
    program.chmod(0o755)
    cli_env.env["PATH"] = f"{folder}:{cli_env.env['PATH']}"
    ground = ProtectedFolders(cli_env)
    (ground.sibling / "secret.txt").write_text(f"{_SECRET}\n")
    (ground.work / "out").symlink_to(ground.sibling)
    ground.reset_baseline()
    return ground


def _grant(cli_env: CliEnv) -> tuple[str, ...]:
    return ("--allow-tool", f"Bash(inspan file-tools {cli_env.work} *)")


def test_an_agent_does_its_work_by_it_alone(each_user_env: CliEnv) -> None:
    ground = _install(each_user_env)
    tool = f"inspan file-tools {ground.work}"
    code = "# it's a comment\ndef f(x):\n    return {\"a\": [`x`], 'b': $(x)}  # > y; z && w | v\n"
    given = json.dumps({"path": "src/new.py", "content": code}).replace("'", "'\\''")
    scenario = build_scenario(
        run_step(f"{tool} list"),
        run_step(f"{tool} read kept.txt", expect="kept.txt"),
        run_step(f"{tool} edit kept.txt --old 'original words' --new 'changed\nwords'", expect="original words"),
        run_step(f"{tool} write src/new.py --input '{given}'", expect="edited kept.txt"),
        run_step(f"{tool} write notes.md <<'EOF'\n# A title\nby stdin\nEOF", expect="created src/new.py"),
        run_step(f"{tool} search --literal 'return {{' --json", expect="created notes.md"),
        run_step(f"{tool} stat src/new.py", expect='"line": 3'),
        run_step(f"{tool} --help", expect="kind: file"),
        say_step("Done.", expect="Usage: inspan file-tools"),
    )
    done = each_user_env.run("claude", scenario, *_grant(each_user_env))
    assert done.verdict == ("completed", "done", 0), done.stderr
    assert done.ended.get("denied", []) == []
    assert (ground.work / "kept.txt").read_text() == "changed\nwords\n"
    assert (ground.work / "src" / "new.py").read_text() == code
    assert (ground.work / "notes.md").read_text() == "# A title\nby stdin\n"
    assert done.select_events("thread_started")[0]["tools"] == ["Bash"]


def test_no_line_of_a_shell_leads_past_it(each_user_env: CliEnv) -> None:
    ground = _install(each_user_env)
    secret, work = ground.sibling / "secret.txt", ground.work
    tool = f"inspan file-tools {work}"
    denied = [
        f"inspan file-tools {ground.sibling} read secret.txt",
        f"inspan file-tools {work}/../neighbour read secret.txt",
        f"inspan file-tools {work}x list",
        f"inspan file-tools --hard-links {work} list",
        f"inspan file-tools / read {secret}",
        f"{tool} list; cat {secret}",
        f"{tool} list && cat {secret}",
        f"{tool} list || touch no.txt",
        f"{tool} list | tee no.txt",
        f"{tool} list & touch no.txt",
        f"{tool} list\ntouch no.txt",
        f"{tool} list\n cat {secret}",
        f"{tool} read $(cat {secret})",
        f"{tool} read `cat {secret}`",
        f'{tool} write x --content "$(cat {secret})"',
        f"{tool} list > no.txt",
        f"{tool} list >> kept.txt",
        f"{tool} write x < {secret}",
        f"{tool} write x <<EOF\n$(cat {secret})\nEOF",
        f"{tool} write x <<'EOF'\nx\nEOF\ntouch no.txt",
        f"{tool} list <(cat {secret})",
        f"{tool} list >(touch no.txt)",
        f"PYTHONPATH={work} {tool} list",
        f"PATH={work}:$PATH {tool} list",
        f"LD_PRELOAD={work}/x.so {tool} list",
        f"inspan() {{ touch no.txt; }}; {tool} list",
        f"alias inspan=touch; {tool} list",
        f"bash -c '{tool} list; touch no.txt'",
        f"eval {tool} list",
        f"cd {ground.sibling} && {tool} list",
        "inspan run x",
        f"cat {secret}",
        "cat out/secret.txt",
    ]
    scenario = build_scenario(
        *map(run_step, denied),
        use_step("Read", file_path=str(secret)),
        use_step("Write", file_path=str(work / "no.txt"), content="x"),
        use_step("Edit", file_path=str(work / "kept.txt"), old_string="original", new_string="x"),
        say_step("Done.", expect="No such tool available: Edit"),
    )
    done = each_user_env.run("claude", scenario, *_grant(each_user_env))
    assert done.verdict == ("completed", "done", 0), done.stderr
    assert _list_denied(done) == [*denied, "Read", "Write", "Edit"]
    assert ground.changes() == []
    assert not any(_SECRET in str(event.get("output", "")) for event in done.events)


def test_what_the_shell_lets_pass_the_command_refuses(each_user_env: CliEnv) -> None:
    ground = _install(each_user_env)
    secret = ground.sibling / "secret.txt"
    tool = f"inspan file-tools {ground.work}"
    refused = [
        f"{tool} read ../neighbour/secret.txt",
        f"{tool} read {secret}",
        f"{tool} read out/secret.txt",
        f"{tool} read /etc/passwd",
        f"{tool} write out/new.txt --content x",
        f"{tool} write ../no.txt --content x",
        f"{tool} edit out/secret.txt --old words --new x",
        f"{tool} list ~",
        f"{tool} list out",
        f"{tool} search words out",
    ]
    scenario = build_scenario(*map(run_step, refused), say_step("Done."))
    done = each_user_env.run("claude", scenario, *_grant(each_user_env))
    assert done.verdict == ("completed", "done", 0), done.stderr
    failed = done.select_events("tool_failed")
    assert len(failed) == len(refused)
    assert [event for event in failed if event.get("denied") or "inspan: path " not in str(event)] == []
    assert ground.changes() == []
    assert _SECRET not in str(done.events[1:])


def test_denied_lines_are_told_as_a_missing_permission(cli_env: CliEnv) -> None:
    ground = _install(cli_env)
    line = f"inspan file-tools {ground.sibling} read secret.txt"
    done = cli_env.run("claude", build_scenario(run_step(line), say_step("I may not.")), *_grant(cli_env))
    assert (done.code, done.ended["denied"]) == (0, ["Bash"])
    [failed] = done.select_events("tool_failed")
    assert failed["denied"] is True


@pytest.mark.parametrize("style", [CODE_MODE, CLASSIC], ids=str)
def test_an_agent_without_lists_of_tools_uses_it_as_a_server(cli_env: CliEnv, style: Style) -> None:
    _check_server(cli_env, style.agent, *style.arguments)


def test_an_agent_with_a_list_needs_no_shell_at_all(cli_env: CliEnv) -> None:
    ground = _check_server(cli_env, "claude", "--allow-tool", "mcp__files")
    assert not (ground.work / "no.txt").exists()


def _check_server(cli_env: CliEnv, agent: str, *more: str) -> ProtectedFolders:
    ground = _install(cli_env)
    server = f"files=inspan file-tools {ground.work} serve"
    name = "mcp__files__{}" if agent == "claude" else "{}"

    def use(tool: str, *, expect: str = "", **given: str) -> str:
        step = use_step(name.format(tool), expect=expect, **given)
        return step if agent == "claude" else step.replace("use = {", 'use = {server = "files", ')

    scenario = build_scenario(
        use("read", path="kept.txt"),
        use("edit", expect="original words", path="kept.txt", old="original", new="changed"),
        use("write", expect="edited kept.txt", path="src/new.txt", content="# new\n"),
        use("read", expect="created src/new.txt", path="../neighbour/secret.txt"),
        use("read", expect="it leads out of ROOT", path="out/secret.txt"),
        use("list", expect="it leads out of ROOT", path="src"),
        *([use_step("Bash", expect="src/new.txt", command="touch no.txt")] if agent == "claude" else []),
        say_step("Done.", expect="No such tool available: Bash" if agent == "claude" else "src/new.txt"),
    )
    done = cli_env.run(agent, scenario, *more, "--mcp", server)
    assert done.verdict == ("completed", "done", 0), done.stderr
    assert (ground.work / "kept.txt").read_text() == "changed words\n"
    assert (ground.work / "src" / "new.txt").read_text() == "# new\n"
    assert _SECRET not in str(done.events[1:])
    return ground


def test_a_run_whose_agent_could_not_start_it_is_refused(cli_env: CliEnv) -> None:
    ground = ProtectedFolders(cli_env)
    cli_env.env["PATH"] = "/usr/bin:/bin"
    if (Path("/usr/bin/inspan")).exists():
        cli_env.env["PATH"] = str(ground.sibling)
    done = cli_env.inspan(
        "run",
        "do it",
        "-a",
        "claude",
        *_grant(cli_env),
        "--model-from",
        cli_env.scenario(build_scenario(say_step("x"))),
    )
    assert (done.returncode, done.stdout) == (5, "")
    assert "the agent could not start 'inspan', which is not on its PATH" in done.stderr
    assert not cli_env.state.exists()


def _list_denied(done: FinishedRun) -> list[str]:
    """Every denied call in order: the command of a shell, else the tool's name."""
    started: dict[str, dict[str, Any]] = {event["id"]: event for event in done.select_events("tool_started")}
    denied = [event["id"] for event in done.select_events("tool_failed") if event.get("denied")]
    return [started[each]["input"].get("command", "") or started[each]["name"] for each in denied]
