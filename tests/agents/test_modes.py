"""What each mode lets an agent do, on the real programs: the model orders everything, and the disk is looked at."""

from typing import Any

import pytest

from inspan.contracts.driver import BASE_ALLOWED_TOOLS
from tests.house import Finished, House

from .ground import Ground, calls, run, say, use
from .hostile import Hostile
from .proof import DONE, prove
from .styles import CLASSIC, CLAUDE, CODE_MODE, PER_CALL, Style, each_style

READERS = ("--allow-tool", "Read", "--allow-tool", "Grep", "--allow-tool", "Glob")
BASE = tuple(word for tool in BASE_ALLOWED_TOOLS for word in ("--allow-tool", tool))
# What a model hears of a tool that was taken away: the program itself, its calls one by one, its JavaScript.
NO_TOOL = {
    CLAUDE: "No such tool available: Bash",
    CLASSIC: "unsupported call: exec_command",
    CODE_MODE: "is not a function",
}
SHELL = {CLAUDE: ("Bash", "command"), CLASSIC: ("exec_command", "cmd"), CODE_MODE: ("exec_command", "cmd")}


@pytest.fixture(params=["root", "user"])
def anyone(request: pytest.FixtureRequest) -> House:
    """The house of whoever runs the tests, and that of an ordinary user."""
    return request.getfixturevalue("house" if request.param == "root" else "user_house")


@each_style
def test_a_review_reads_and_changes_nothing_whatever_is_ordered(anyone: House, style: Style) -> None:
    ground = Ground(anyone)
    writes = _orders_to_write(ground)
    edits = _orders_to_edit(style, ground)
    scenario = calls(
        run("cat kept.txt"),
        run("git log --oneline", expect="original words"),
        run("git status --short", expect="the first commit"),
        *map(run, writes),
        *edits,
        run("grep -rn words kept.txt"),
        say("Reviewed.", expect="1:original words"),
    )
    done = anyone.run(style.agent, scenario, *style.arguments, "--mode", "review")
    assert done.verdict == ("completed", "done", 0), done.stderr
    assert ground.changes() == []
    assert done.events[0]["sandbox"] == "none"
    assert [event["text"] for event in done.of("text_said")] == ["Reviewed."]
    if style is CLAUDE:
        assert _denied(done) == [*writes, "Write", "Edit", "NotebookEdit", "Task"]
    else:
        # Of commands that its sandbox stops only the model is told: the note of the capability says so.
        assert done.ended["denied"] == ["apply_patch", "apply_patch"]
    assert not [event for event in done.of("command_executed") if event.get("exit_code") == 0 and _is_in(event, writes)]


@each_style
def test_a_review_in_the_box_finds_its_folder_read_only(house: House, style: Style) -> None:
    ground = Ground(house)
    with (ground.work / ".git" / "config").open("a") as config:
        config.write(f'[core]\nfsmonitor = "touch {ground.work}/by-git.txt"\n')
    ground.settle()
    # The agent itself would let these run, so that only the box is left to stop them.
    allowed = ("--allow-tool", "Bash(touch *)") if style is CLAUDE else ()
    scenario = calls(
        run("cat kept.txt"),
        run("git status --short", expect="original words"),
        run("touch new.txt"),
        say("Done.", expect="Read-only file system"),
    )
    done = house.run(style.agent, scenario, *style.arguments, "--mode", "review", "--sandbox", "bwrap", *allowed)
    assert done.verdict == ("completed", "done", 0), done.stderr
    assert done.events[0]["sandbox"] == "bwrap"
    assert ground.changes() == []


@pytest.mark.parametrize("profile", ["clean", "user"])
@pytest.mark.parametrize("mode", ["review", "complete"])
@each_style
def test_no_settings_of_a_repository_or_user_loosen_a_mode(house: House, style: Style, mode: str, profile: str) -> None:
    _stays_held(house, style, "--mode", mode, profile=profile)


@pytest.mark.parametrize("profile", ["clean", "user"])
def test_no_settings_of_a_repository_or_user_add_to_a_list_of_tools(anyone: House, profile: str) -> None:
    _stays_held(anyone, CLAUDE, "--allow-tool", "Read", profile=profile)


@each_style
def test_no_settings_loosen_the_review_of_an_ordinary_user(user_house: House, style: Style) -> None:
    _stays_held(user_house, style, "--mode", "review", profile="user")


def test_a_list_of_tools_is_all_that_may_be_used(anyone: House) -> None:
    ground = Ground(anyone)
    _add_program(anyone, "pnpm")
    new, kept = str(ground.work / "new.txt"), str(ground.work / "kept.txt")
    refused = [
        "touch no.txt",
        "git commit -q --allow-empty -m no",
        "git status; touch no.txt",
        "pnpm test > no.txt",
        "npm test",
        f"echo x >> {ground.neighbour}/kept.txt",
    ]
    scenario = calls(
        run("pnpm test"),
        run("git status --short", expect="pnpm test"),
        use("Read", file_path=kept),
        use("Edit", expect="original words", file_path=kept, old_string="original", new_string="changed"),
        use("Write", file_path=new, content="new words\n"),
        use("Glob", pattern="*.txt"),
        use("Grep", expect="new.txt", pattern="changed", output_mode="content"),
        run("git diff --stat", expect="changed words"),
        *map(run, refused),
        use("WebFetch", url="http://127.0.0.1:9/", prompt="x"),
        use("NotebookEdit", notebook_path=str(ground.work / "no.ipynb"), new_source="x"),
        say("Done.", expect="No such tool available: NotebookEdit"),
    )
    done = anyone.run("claude", scenario, *BASE)
    assert done.verdict == ("completed", "done", 0), done.stderr
    assert done.events[0]["sandbox"] == "none"
    assert done.of("thread_started")[0]["tools"] == ["Bash", "Edit", "Glob", "Grep", "Read", "Write"]
    assert [path for path in ground.changes() if not path.endswith("/.git/index")] == [kept, new]
    assert _denied(done) == [*refused, "WebFetch", "NotebookEdit"]
    assert done.ended["files_changed"] == [kept, new]


def test_a_list_of_one_command_is_that_command_alone(anyone: House) -> None:
    ground = Ground(anyone)
    _add_program(anyone, "file-tools")
    refused = [
        "touch no.txt",
        "file-tools x; touch no.txt",
        "file-tools x > no.txt",
        "file-tools $(touch no.txt)",
        "file-toolsx",
        'python3 -c \'open("no.txt", "w")\'',
    ]
    scenario = calls(
        run("file-tools list one"),
        run("file-tools two | sort", expect="file-tools list one"),
        *map(run, refused),
        use("Read", file_path=str(ground.work / "kept.txt")),
        use("Write", file_path=str(ground.work / "no.txt"), content="x"),
        say("Done.", expect="No such tool available: Write"),
    )
    done = anyone.run("claude", scenario, "--allow-tool", "Bash(file-tools *)")
    assert done.verdict == ("completed", "done", 0), done.stderr
    assert (done.events[0]["sandbox"], done.of("thread_started")[0]["tools"]) == ("none", ["Bash"])
    assert ground.changes() == []
    assert _denied(done) == [*refused, "Read", "Write"]


def test_what_is_denied_is_taken_from_everything(anyone: House) -> None:
    ground = Ground(anyone)
    scenario = calls(
        run("touch new.txt"),
        run("rm kept.txt"),
        run("true; rm kept.txt"),
        use("Write", file_path=str(ground.work / "no.txt"), content="x"),
        say("Done.", expect="No such tool available: Write"),
    )
    done = anyone.run("claude", scenario, "--deny-tool", "Bash(rm *)", "--deny-tool", "Write")
    assert done.verdict == ("completed", "done", 0), done.stderr
    assert ground.changes() == [str(ground.work / "new.txt")]
    assert _denied(done) == ["rm kept.txt", "true; rm kept.txt", "Write"]
    assert "Write" not in done.of("thread_started")[0]["tools"]


@pytest.mark.parametrize("style", [CODE_MODE, CLASSIC], ids=str)
@pytest.mark.parametrize("option", ["--allow-tool", "--deny-tool"])
def test_an_agent_without_a_list_of_tools_refuses_one(house: House, style: Style, option: str) -> None:
    done = house.inspan(
        "run", "do it", "-a", style.agent, *style.arguments, option, "Read", "--model-from", house.scenario(_DONE)
    )
    field = "allowed_tools" if option == "--allow-tool" else "disallowed_tools"
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"inspan: {field} ('Read',): Codex has no way to do this.\n  → ")
    assert not house.state.exists()


@each_style
def test_a_completion_has_no_tools_and_gives_one_answer(anyone: House, style: Style) -> None:
    ground = Ground(anyone)
    tool, field = SHELL[style]
    scenario = calls(use(tool, **{field: "touch new.txt"}), say("The answer.", expect=NO_TOOL[style]))
    done = anyone.run(style.agent, scenario, *style.arguments, "--mode", "complete")
    prove(anyone, done.run_id, end=DONE, usage=PER_CALL + PER_CALL)
    assert ground.changes() == []
    assert done.stdout == "The answer.\n"
    assert done.of("thread_started")[0].get("tools", []) == []
    assert done.of("tool_completed") == done.of("command_executed") == []
    # JavaScript that names a function which is not there is told to the model alone.
    assert done.ended.get("denied", []) == ([] if style is CODE_MODE else [tool])


@each_style
def test_a_completion_that_may_read_cannot_write(house: House, style: Style) -> None:
    ground = Ground(house)
    kept, new = str(ground.work / "kept.txt"), str(ground.work / "new.txt")
    if style is CLAUDE:
        steps = [
            use("Read", file_path=kept),
            use("Grep", expect="original words", pattern="words", output_mode="content"),
            use("Glob", expect="original words", pattern="*.txt"),
            use("Write", expect="kept.txt", file_path=new, content="x"),
            use("Bash", expect="No such tool available: Write", command="touch new.txt"),
        ]
        denied, last = ["Write", "Bash"], NO_TOOL[CLAUDE]
    else:
        patch = "write = {path = 'new.txt', content = 'x\\n'}"
        steps = [run("cat kept.txt"), run("echo x > new.txt", expect="original words"), patch, run("cat kept.txt")]
        denied, last = ["apply_patch"], "original words"
    done = house.run(
        style.agent, calls(*steps, say("Read.", expect=last)), *style.arguments, "--mode", "complete", *READERS
    )
    assert done.verdict == ("completed", "done", 0), done.stderr
    assert ground.changes() == []
    assert (done.stdout, done.ended["denied"]) == ("Read.\n", denied)


@pytest.mark.parametrize("tool", ["Write", "Bash(touch *)", "Edit"])
def test_an_agent_that_cannot_be_granted_a_single_tool_says_so(house: House, tool: str) -> None:
    model = house.scenario(_DONE)
    done = house.inspan(
        "run", "do it", "-a", "codex", "--mode", "complete", "--allow-tool", tool, "--model-from", model
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"inspan: allowed_tools '{tool}': Codex has no way to do this.\n  → It has no list")


_DONE = calls(say("Done."))


def _orders_to_write(ground: Ground) -> list[str]:
    return [
        "echo x > new.txt",
        "sed -i s/original/changed/ kept.txt",
        "python3 -c \"open('new.txt', 'w').write('x')\"",
        "git -c user.name=x -c user.email=x@localhost commit -q --allow-empty -m no",
        "git branch new",
        "rm kept.txt",
        "touch ~/new.txt",
        f"cp kept.txt {ground.home}/new.txt",
        f"echo x >> {ground.neighbour}/kept.txt",
        "cat kept.txt | tee new.txt",
    ]


def _orders_to_edit(style: Style, ground: Ground) -> list[str]:
    """Orders to the tools that edit, which one agent has lost and the other may not use."""
    if style is not CLAUDE:
        return [
            "write = {path = 'new.txt', content = 'x\\n'}",
            "edit = {path = 'kept.txt', old = 'original', new = 'changed'}",
        ]
    kept, new = str(ground.work / "kept.txt"), str(ground.work / "new.txt")
    return [
        use("Write", file_path=new, content="x"),
        use("Edit", file_path=kept, old_string="original", new_string="changed"),
        use("NotebookEdit", notebook_path=new, new_source="x"),
        use("Task", description="x", prompt="write it", subagent_type="general-purpose"),
    ]


def _stays_held(house: House, style: Style, *mode: str, profile: str) -> None:
    hostile = Hostile(house)
    hostile.in_repository()
    hostile.of_user()
    ground = Ground(house)
    tool, field = SHELL[style]
    scenario = calls(
        use(tool, **{field: "touch new.txt"}), use(tool, **{field: f"touch {ground.neighbour}/new.txt"}), say("Done.")
    )
    quiet = ("--env", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
    done = house.run(style.agent, scenario, *style.arguments, *mode, *quiet, "--profile", profile)
    assert done.verdict == ("completed", "done", 0), done.stderr
    assert hostile.marks == []
    assert [path for path in ground.changes() if path.endswith("new.txt")] == []
    if style is CLAUDE:
        assert done.ended["denied"] == ["Bash", "Bash"]


def _denied(done: Finished) -> list[str]:
    """Every denied call in order: the command of a shell, else the tool's name."""
    started = {event["id"]: event for event in done.of("tool_started")}
    ids = [event["id"] for event in done.of("tool_failed") if event.get("denied")]
    assert done.ended["denied"] == [started[each]["name"] for each in ids]
    return [_command(started[each]) or started[each]["name"] for each in ids]


def _command(event: dict[str, Any]) -> str:
    return event["input"].get("command", "")


def _is_in(event: dict[str, Any], commands: list[str]) -> bool:
    return any(command in event["command"] for command in commands)


def _add_program(house: House, name: str) -> None:
    """A program on PATH that prints how it was called."""
    folder = house.root / "bin"
    folder.mkdir()
    path = folder / name
    path.write_text(f"#!/bin/sh\necho {name} $@\n")
    path.chmod(0o755)
    house.env["PATH"] = f"{folder}:{house.env['PATH']}"
