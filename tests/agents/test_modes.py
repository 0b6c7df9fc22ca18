"""What each mode lets an agent do, on the real programs: the model orders everything, and the disk is looked at."""

from typing import Any

import pytest

from inspan.contracts.driver import BASE_ALLOWED_TOOLS
from tests.cli_env import CliEnv, FinishedRun

from .hostile_settings import HostileSettings
from .protected_folders import ProtectedFolders, build_scenario, run_step, say_step, use_step
from .run_checks import DONE, check_end
from .styles import CLASSIC, CLAUDE, CODE_MODE, PER_CALL, Style, each_sdk, each_style

READERS = ("--allow-tool", "Read", "--allow-tool", "Grep", "--allow-tool", "Glob")
BASE = tuple(word for tool in BASE_ALLOWED_TOOLS for word in ("--allow-tool", tool))
# What a model hears of a tool that was taken away: the program itself, its calls one by one, its JavaScript.
NO_TOOL = {
    CLAUDE: "No such tool available: Bash",
    CLASSIC: "unsupported call: exec_command",
    CODE_MODE: "is not a function",
}
SHELL = {"claude": ("Bash", "command"), "codex": ("exec_command", "cmd")}


@pytest.fixture(params=["root", "user"])
def each_user_env(request: pytest.FixtureRequest) -> CliEnv:
    """The house of whoever runs the tests, and that of an ordinary user."""
    return request.getfixturevalue("cli_env" if request.param == "root" else "user_cli_env")


@each_style
def test_a_review_reads_and_changes_nothing_whatever_is_ordered(each_user_env: CliEnv, style: Style) -> None:
    ground = ProtectedFolders(each_user_env)
    writes = _orders_to_write(ground)
    edits = _orders_to_edit(style, ground)
    scenario = build_scenario(
        run_step("cat kept.txt"),
        run_step("git log --oneline", expect="original words"),
        run_step("git status --short", expect="the first commit"),
        *map(run_step, writes),
        *edits,
        run_step("grep -rn words kept.txt"),
        say_step("Reviewed.", expect="1:original words"),
    )
    done = each_user_env.run(style.agent, scenario, *style.arguments, "--mode", "review")
    assert done.verdict == ("completed", "done", 0), done.stderr
    assert ground.changes() == []
    assert done.events[0]["sandbox"] == "none"
    assert [event["text"] for event in done.select_events("text_said")] == ["Reviewed."]
    if style is CLAUDE:
        assert _list_denied(done) == [*writes, "Write", "Edit", "NotebookEdit", "Task"]
    else:
        # Of commands that its sandbox stops only the model is told: the note of the capability says so.
        assert done.ended["denied"] == ["apply_patch", "apply_patch"]
    assert not [
        event
        for event in done.select_events("command_executed")
        if event.get("exit_code") == 0 and _is_in(event, writes)
    ]


@each_style
def test_a_review_in_the_box_finds_its_folder_read_only(cli_env: CliEnv, style: Style) -> None:
    ground = ProtectedFolders(cli_env)
    with (ground.work / ".git" / "config").open("a") as config:
        config.write(f'[core]\nfsmonitor = "touch {ground.work}/by-git.txt"\n')
    ground.reset_baseline()
    # The agent itself would let these run, so that only the box is left to stop them.
    allowed = ("--allow-tool", "Bash(touch *)") if style is CLAUDE else ()
    scenario = build_scenario(
        run_step("cat kept.txt"),
        run_step("git status --short", expect="original words"),
        run_step("touch new.txt"),
        say_step("Done.", expect="Read-only file system"),
    )
    done = cli_env.run(style.agent, scenario, *style.arguments, "--mode", "review", "--sandbox", "bwrap", *allowed)
    assert done.verdict == ("completed", "done", 0), done.stderr
    assert done.events[0]["sandbox"] == "bwrap"
    assert ground.changes() == []


@pytest.mark.parametrize("profile", ["clean", "user"])
@pytest.mark.parametrize("mode", ["review", "complete"])
@each_style
def test_no_settings_of_a_repository_or_user_loosen_a_mode(
    cli_env: CliEnv, style: Style, mode: str, profile: str
) -> None:
    _check_mode_holds(cli_env, style, "--mode", mode, profile=profile)


@pytest.mark.parametrize("profile", ["clean", "user"])
def test_no_settings_of_a_repository_or_user_add_to_a_list_of_tools(each_user_env: CliEnv, profile: str) -> None:
    _check_mode_holds(each_user_env, CLAUDE, "--allow-tool", "Read", profile=profile)


@each_style
def test_no_settings_loosen_the_review_of_an_ordinary_user(user_cli_env: CliEnv, style: Style) -> None:
    _check_mode_holds(user_cli_env, style, "--mode", "review", profile="user")


@each_sdk
def test_no_settings_loosen_a_review_by_an_sdk(cli_env: CliEnv, style: Style) -> None:
    _check_mode_holds(cli_env, style, "--mode", "review", profile="user")


def test_a_list_of_tools_is_all_that_may_be_used(each_user_env: CliEnv) -> None:
    ground = ProtectedFolders(each_user_env)
    _add_program(each_user_env, "pnpm")
    new, kept = str(ground.work / "new.txt"), str(ground.work / "kept.txt")
    refused = [
        "touch no.txt",
        "git commit -q --allow-empty -m no",
        "git status; touch no.txt",
        "pnpm test > no.txt",
        "npm test",
        f"echo x >> {ground.sibling}/kept.txt",
    ]
    scenario = build_scenario(
        run_step("pnpm test"),
        run_step("git status --short", expect="pnpm test"),
        use_step("Read", file_path=kept),
        use_step("Edit", expect="original words", file_path=kept, old_string="original", new_string="changed"),
        use_step("Write", file_path=new, content="new words\n"),
        use_step("Glob", pattern="*.txt"),
        use_step("Grep", expect="new.txt", pattern="changed", output_mode="content"),
        run_step("git diff --stat", expect="changed words"),
        *map(run_step, refused),
        use_step("WebFetch", url="http://127.0.0.1:9/", prompt="x"),
        use_step("NotebookEdit", notebook_path=str(ground.work / "no.ipynb"), new_source="x"),
        say_step("Done.", expect="No such tool available: NotebookEdit"),
    )
    done = each_user_env.run("claude", scenario, *BASE)
    assert done.verdict == ("completed", "done", 0), done.stderr
    assert done.events[0]["sandbox"] == "none"
    assert done.select_events("thread_started")[0]["tools"] == ["Bash", "Edit", "Glob", "Grep", "Read", "Write"]
    assert [path for path in ground.changes() if not path.endswith("/.git/index")] == [kept, new]
    assert _list_denied(done) == [*refused, "WebFetch", "NotebookEdit"]
    assert done.ended["files_changed"] == [kept, new]


def test_a_list_of_one_command_is_that_command_alone(each_user_env: CliEnv) -> None:
    ground = ProtectedFolders(each_user_env)
    _add_program(each_user_env, "file-tools")
    refused = [
        "touch no.txt",
        "file-tools x; touch no.txt",
        "file-tools x > no.txt",
        "file-tools $(touch no.txt)",
        "file-toolsx",
        'python3 -c \'open("no.txt", "w")\'',
    ]
    scenario = build_scenario(
        run_step("file-tools list one"),
        run_step("file-tools two | sort", expect="file-tools list one"),
        *map(run_step, refused),
        use_step("Read", file_path=str(ground.work / "kept.txt")),
        use_step("Write", file_path=str(ground.work / "no.txt"), content="x"),
        say_step("Done.", expect="No such tool available: Write"),
    )
    done = each_user_env.run("claude", scenario, "--allow-tool", "Bash(file-tools *)")
    assert done.verdict == ("completed", "done", 0), done.stderr
    assert (done.events[0]["sandbox"], done.select_events("thread_started")[0]["tools"]) == ("none", ["Bash"])
    assert ground.changes() == []
    assert _list_denied(done) == [*refused, "Read", "Write"]


def test_what_is_denied_is_taken_from_everything(each_user_env: CliEnv) -> None:
    ground = ProtectedFolders(each_user_env)
    scenario = build_scenario(
        run_step("touch new.txt"),
        run_step("rm kept.txt"),
        run_step("true; rm kept.txt"),
        use_step("Write", file_path=str(ground.work / "no.txt"), content="x"),
        say_step("Done.", expect="No such tool available: Write"),
    )
    done = each_user_env.run("claude", scenario, "--deny-tool", "Bash(rm *)", "--deny-tool", "Write")
    assert done.verdict == ("completed", "done", 0), done.stderr
    assert ground.changes() == [str(ground.work / "new.txt")]
    assert _list_denied(done) == ["rm kept.txt", "true; rm kept.txt", "Write"]
    assert "Write" not in done.select_events("thread_started")[0]["tools"]


@pytest.mark.parametrize("style", [CODE_MODE, CLASSIC], ids=str)
@pytest.mark.parametrize("option", ["--allow-tool", "--deny-tool"])
def test_an_agent_without_a_list_of_tools_refuses_one(cli_env: CliEnv, style: Style, option: str) -> None:
    done = cli_env.inspan(
        "run", "do it", "-a", style.agent, *style.arguments, option, "Read", "--model-from", cli_env.scenario(_DONE)
    )
    field = "allowed_tools" if option == "--allow-tool" else "disallowed_tools"
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"inspan: {field} ('Read',): Codex does not support this.\n  → ")
    assert not cli_env.state.exists()


@each_style
def test_a_completion_has_no_tools_and_gives_one_answer(each_user_env: CliEnv, style: Style) -> None:
    ground = ProtectedFolders(each_user_env)
    tool, field = SHELL[style.agent]
    scenario = build_scenario(
        use_step(tool, **{field: "touch new.txt"}), say_step("The answer.", expect=NO_TOOL[style])
    )
    done = each_user_env.run(style.agent, scenario, *style.arguments, "--mode", "complete")
    check_end(each_user_env, done.run_id, end=DONE, usage=PER_CALL + PER_CALL)
    assert ground.changes() == []
    assert done.stdout == "The answer.\n"
    assert done.select_events("thread_started")[0].get("tools", []) == []
    assert done.select_events("tool_completed") == done.select_events("command_executed") == []
    # JavaScript that names a function which is not there is told to the model alone.
    assert done.ended.get("denied", []) == ([] if style is CODE_MODE else [tool])


@each_style
def test_a_completion_that_may_read_cannot_write(cli_env: CliEnv, style: Style) -> None:
    ground = ProtectedFolders(cli_env)
    kept, new = str(ground.work / "kept.txt"), str(ground.work / "new.txt")
    if style is CLAUDE:
        steps = [
            use_step("Read", file_path=kept),
            use_step("Grep", expect="original words", pattern="words", output_mode="content"),
            use_step("Glob", expect="original words", pattern="*.txt"),
            use_step("Write", expect="kept.txt", file_path=new, content="x"),
            use_step("Bash", expect="No such tool available: Write", command="touch new.txt"),
        ]
        denied, last = ["Write", "Bash"], NO_TOOL[CLAUDE]
    else:
        patch = "write = {path = 'new.txt', content = 'x\\n'}"
        steps = [
            run_step("cat kept.txt"),
            run_step("echo x > new.txt", expect="original words"),
            patch,
            run_step("cat kept.txt"),
        ]
        denied, last = ["apply_patch"], "original words"
    done = cli_env.run(
        style.agent,
        build_scenario(*steps, say_step("Read.", expect=last)),
        *style.arguments,
        "--mode",
        "complete",
        *READERS,
    )
    assert done.verdict == ("completed", "done", 0), done.stderr
    assert ground.changes() == []
    assert (done.stdout, done.ended["denied"]) == ("Read.\n", denied)


@pytest.mark.parametrize("tool", ["Write", "Bash(touch *)", "Edit"])
def test_an_agent_that_cannot_be_granted_a_single_tool_says_so(cli_env: CliEnv, tool: str) -> None:
    model = cli_env.scenario(_DONE)
    done = cli_env.inspan(
        "run", "do it", "-a", "codex", "--mode", "complete", "--allow-tool", tool, "--model-from", model
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"inspan: allowed_tools '{tool}': Codex does not support this.\n  → It has no list")


_DONE = build_scenario(say_step("Done."))


def _orders_to_write(ground: ProtectedFolders) -> list[str]:
    return [
        "echo x > new.txt",
        "sed -i s/original/changed/ kept.txt",
        "python3 -c \"open('new.txt', 'w').write('x')\"",
        "git -c user.name=x -c user.email=x@localhost commit -q --allow-empty -m no",
        "git branch new",
        "rm kept.txt",
        "touch ~/new.txt",
        f"cp kept.txt {ground.home}/new.txt",
        f"echo x >> {ground.sibling}/kept.txt",
        "cat kept.txt | tee new.txt",
    ]


def _orders_to_edit(style: Style, ground: ProtectedFolders) -> list[str]:
    """Orders to the tools that edit, which one agent has lost and the other may not use."""
    if style is not CLAUDE:
        return [
            "write = {path = 'new.txt', content = 'x\\n'}",
            "edit = {path = 'kept.txt', old = 'original', new = 'changed'}",
        ]
    kept, new = str(ground.work / "kept.txt"), str(ground.work / "new.txt")
    return [
        use_step("Write", file_path=new, content="x"),
        use_step("Edit", file_path=kept, old_string="original", new_string="changed"),
        use_step("NotebookEdit", notebook_path=new, new_source="x"),
        use_step("Task", description="x", prompt="write it", subagent_type="general-purpose"),
    ]


def _check_mode_holds(cli_env: CliEnv, style: Style, *mode: str, profile: str) -> None:
    hostile = HostileSettings(cli_env)
    hostile.plant_in_repository()
    hostile.plant_for_user()
    ground = ProtectedFolders(cli_env)
    tool, field = SHELL[style.agent]
    scenario = build_scenario(
        use_step(tool, **{field: "touch new.txt"}),
        use_step(tool, **{field: f"touch {ground.sibling}/new.txt"}),
        say_step("Done."),
    )
    quiet = ("--env", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
    done = cli_env.run(style.agent, scenario, *style.arguments, *mode, *quiet, "--profile", profile)
    assert done.verdict == ("completed", "done", 0), done.stderr
    assert hostile.marks == []
    assert [path for path in ground.changes() if path.endswith("new.txt")] == []
    if style.agent == "claude":
        assert done.ended["denied"] == ["Bash", "Bash"]


def _list_denied(done: FinishedRun) -> list[str]:
    """Every denied call in order: the command of a shell, else the tool's name."""
    started = {event["id"]: event for event in done.select_events("tool_started")}
    ids = [event["id"] for event in done.select_events("tool_failed") if event.get("denied")]
    assert done.ended["denied"] == [started[each]["name"] for each in ids]
    return [_command(started[each]) or started[each]["name"] for each in ids]


def _command(event: dict[str, Any]) -> str:
    return event["input"].get("command", "")


def _is_in(event: dict[str, Any], commands: list[str]) -> bool:
    return any(command in event["command"] for command in commands)


def _add_program(cli_env: CliEnv, name: str) -> None:
    """A program on PATH that prints how it was called."""
    folder = cli_env.root / "bin"
    folder.mkdir()
    path = folder / name
    path.write_text(f"#!/bin/sh\necho {name} $@\n")
    path.chmod(0o755)
    cli_env.env["PATH"] = f"{folder}:{cli_env.env['PATH']}"
