"""The events of a run, one of each kind that has something to say, and what is told of them."""

from inspan.protocol.events import (
    AnswerGiven,
    AttemptEnded,
    AttemptStarted,
    ChannelChanged,
    CheckEnded,
    Citation,
    CitationsGiven,
    EndingBegan,
    ErrorReported,
    Event,
    FileChanged,
    HookAnswered,
    McpServerFailed,
    MessageEnded,
    MessageSent,
    ModelCallEnded,
    NodeEnded,
    NodeOutput,
    NodeStarted,
    PermissionAnswered,
    PermissionAsked,
    PlanChanged,
    PlanStep,
    Question,
    QuestionAnswered,
    QuestionAsked,
    RateLimited,
    ReasoningSaid,
    RunEnded,
    RunStarted,
    SessionConfigured,
    TextDelta,
    TextSaid,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
    TurnFailed,
    Unrecognized,
    UsageDiffers,
    VerdictGiven,
    VerifierStarted,
    WaitStarted,
    WorktreeLeft,
)
from inspan.protocol.usage import Usage
from inspan.reporters.narration import Kind


def run_started(*, model_from: str = "", sandbox: str = "none") -> RunStarted:
    return RunStarted(
        schema=1,
        run_id="20260101-000000000-1",
        agent="anyone",
        agent_version="1.2",
        mode="exec",
        project="p",
        task="default",
        cwd="/w",
        profile="clean",
        sandbox=sandbox,
        containment="reaper",
        model_from=model_from,
        inspan="0",
    )


ENDED = RunEnded(
    outcome="completed",
    reason="done",
    duration_s=1.5,
    session_id="s-1",
    usage=Usage(input=3, output=2),
    cost_usd=0.5,
    files_changed=["/w/a"],
)

NARRATED: list[tuple[Event, list[tuple[Kind, str]]]] = [
    (run_started(), [("start", "▶ anyone 1.2 · /w\n  run hkb3 (20260101-000000000-1)\n")]),
    (
        run_started(sandbox="bwrap", model_from="script:/s.toml"),
        [("start", "▶ anyone 1.2 · /w · scripted model s.toml\n  run hkb3 (20260101-000000000-1)\n")],
    ),
    (TextSaid(text="two\nlines"), [("text", "two\nlines\n")]),
    (AnswerGiven(text='{"a":1}'), [("text", '{"a":1}\n')]),
    (TextDelta(block="1", text="pie"), [("piece", "pie")]),
    (
        CitationsGiven(
            citations=[Citation(url="https://a.example", title="A", number=1), Citation(url="https://b.example")]
        ),
        [("note", "  [1] A https://a.example\n"), ("note", "  - https://b.example\n")],
    ),
    (ReasoningSaid(text="hm"), [("reasoning", "hm\n")]),
    (ReasoningSaid(text=""), []),
    (ToolStarted(id="1", name="bash", input={"description": "d", "command": "a\nb"}), [("tool", "● bash  a\nb\n")]),
    (ToolStarted(id="1", name="patch", input=["/a", "/b"]), [("tool", "● patch  ['/a', '/b']\n")]),
    (
        ToolStarted(id="1", name="odd", input={"k": [1, None, 'it\'s "\\so"']}),
        [("tool", "● odd  {'k': [1, None, 'it's \"\\so\"']}\n")],
    ),
    (ToolCompleted(id="1", output="out\nput\n\n"), [("output", "out\nput\n")]),
    (ToolCompleted(id="1", output=" \n"), []),
    (ToolFailed(id="1", output="no"), [("failure", "  failed\n"), ("output", "no\n")]),
    (ToolFailed(id="1", denied=True), [("failure", "  denied\n")]),
    (FileChanged(path="/a", change="added"), [("change", "  added /a\n")]),
    (
        PlanChanged(steps=[PlanStep(text="a", state="done"), PlanStep(text="b", state="active"), PlanStep(text="c")]),
        [("plan", "  [x] a\n"), ("plan", "  [>] b\n"), ("plan", "  [ ] c\n")],
    ),
    (
        PermissionAsked(id="1", tool="bash", input={"command": "rm x"}),
        [("question", "? permission for bash  rm x\n")],
    ),
    (
        HookAnswered(id="h", hook="before_tool", allowed=False, reason="not here"),
        [("failure", "  denied by before_tool: not here\n")],
    ),
    (
        PermissionAnswered(id="1", allowed=False, by="person", reason="not now"),
        [("failure", "  denied by person: not now\n")],
    ),
    (
        QuestionAsked(id="2", questions=[Question(text="Which?", options=["a", "b"]), Question(text="Why?")]),
        [("question", "? Which? (a / b)\n"), ("question", "? Why?\n")],
    ),
    (QuestionAnswered(id="2", reason="nobody answered"), [("failure", "  no answer: nobody answered\n")]),
    (MessageSent(id="m", text="go on", queued=True), [("question", "› … go on\n")]),
    (
        MessageEnded(id="m", outcome="timed_out", reason="run_timeout", message="too long"),
        [("warning", "! timed_out (run_timeout): too long\n")],
    ),
    (SessionConfigured(model="m", mode="review"), [("note", "  model m, mode review\n")]),
    (
        ChannelChanged(before="rpc", after="acp", reason="it has ended"),
        [("warning", "! channel rpc cannot be used, acp is: it has ended\n")],
    ),
    (McpServerFailed(name="db"), [("warning", "! the tool server db cannot be used\n")]),
    (McpServerFailed(name="db", message="gone"), [("warning", "! the tool server db cannot be used: gone\n")]),
    (RateLimited(message="slow down"), [("warning", "! rate limited: slow down\n")]),
    (
        RateLimited(message="slow down", resets_at=1700000000.5, held=True),
        [("warning", "! rate limited with another run: slow down, until 2023-11-14 22:13:20 UTC\n")],
    ),
    (
        RateLimited(message="slow down", resets_at=1e30),
        [("warning", "! rate limited: slow down, until an unknown time\n")],
    ),
    (
        UsageDiffers(told=Usage(input=90), measured=Usage(input=100), percent=10.0),
        [("warning", "! the agent counted 90 tokens, the gateway 100: 10% apart\n")],
    ),
    (
        WorktreeLeft(path="/w/20261118-010203004-5", kept=False),
        [("note", "  worktree removed: nothing was changed in it\n")],
    ),
    (
        AttemptStarted(attempt=2, run_id="20261118-010203004-5", agent="a", resumes="20261118-010203004-6"),
        [("start", "↻ attempt 2 · a · run pqkv · goes on with rgc9\n")],
    ),
    (
        AttemptEnded(attempt=2, run_id="20261118-010203004-5", outcome="completed", reason="done"),
        [("note", "  attempt 2: ✔ completed\n")],
    ),
    (
        AttemptEnded(attempt=2, run_id="20261118-010203004-5", outcome="limited", reason="rate_limit"),
        [("failure", "  attempt 2: ✘ limited (rate_limit)\n")],
    ),
    (
        CheckEnded(attempt=1, check="make test", passed=True, exit_code=0, duration_s=1.5),
        [("note", "✔ check make test (1.5s)\n")],
    ),
    (
        CheckEnded(attempt=1, check="make test", passed=False, exit_code=2, output="E  no\n", duration_s=1.5),
        [("failure", "✘ check make test failed with exit code 2 (1.5s)\n"), ("output", "  E  no\n")],
    ),
    (
        CheckEnded(attempt=1, check="make test", passed=False, exit_code=137, timed_out=True, duration_s=600),
        [("failure", "✘ check make test took too long (10m00s)\n")],
    ),
    (
        VerifierStarted(attempt=1, run_id="20261118-010203004-5", agent="v"),
        [("start", "↻ v verifies attempt 1 · run pqkv\n")],
    ),
    (
        VerdictGiven(attempt=1, run_id="20261118-010203004-5", agent="v", agreed=True),
        [("note", "✔ v agrees that the task is done\n")],
    ),
    (
        VerdictGiven(attempt=1, run_id="20261118-010203004-5", agent="v", agreed=False, text="no"),
        [("failure", "✘ v says that the task is not done\n")],
    ),
    (
        VerdictGiven(attempt=1, run_id="20261118-010203004-5", agent="v", reason="crashed"),
        [("failure", "✘ v gave no verdict (crashed)\n")],
    ),
    (
        WaitStarted(attempt=1, until=0.0, why="before the next attempt", agent="a"),
        [("note", "◷ waits: before the next attempt\n")],
    ),
    (
        NodeStarted(node="fix", type="agent", run_id="20261118-010203004-5"),
        [("start", "▸ fix (agent) · loop pqkv\n")],
    ),
    (NodeStarted(node="test", type="check", round=2), [("start", "▸ test, round 2 (check)\n")]),
    (NodeOutput(node="test", text="one\ntwo\n"), [("output", "  one\n"), ("output", "  two\n")]),
    (
        NodeEnded(node="test", type="check", status="success", duration_s=1.5),
        [("note", "✔ test: success in 1.5s\n")],
    ),
    (
        NodeEnded(node="test", type="check", round=2, status="failed", error="It failed.", duration_s=1.5),
        [("failure", "✘ test, round 2: failed in 1.5s: It failed.\n")],
    ),
    (
        NodeEnded(node="fix", type="agent", status="skipped", error="It needs test, which did not succeed."),
        [("note", "– fix: skipped: It needs test, which did not succeed.\n")],
    ),
    (WorktreeLeft(path="/w/1", kept=True, problem="git is odd"), [("warning", "! git is odd\n")]),
    (
        WorktreeLeft(path="/w/20261118-010203004-5", kept=True, branch="inspan/b", files=2, commits=1, ignored=1),
        [
            (
                "note",
                "  worktree kept on branch inspan/b: 2 uncommitted files, 1 commit, 1 ignored, "
                "in /w/20261118-010203004-5\n",
            ),
            (
                "note",
                "  → `inspan apply pqkv` brings its changes here, `git merge inspan/b` its commits; "
                "`inspan worktrees rm pqkv` removes it\n",
            ),
        ],
    ),
    (ErrorReported(message="odd"), [("warning", "! odd\n")]),
    (TurnFailed(failure="network", message="cut"), [("failure", "! turn failed (network): cut\n")]),
    (ModelCallEnded(call=1, wire="chat", status=200), []),
    (ModelCallEnded(call=2, wire="chat", status=503, message="busy"), [("warning", "! model call 2: 503 busy\n")]),
    (ModelCallEnded(call=3, wire="chat", problem="cut"), [("warning", "! model call 3: - cut\n")]),
    (Unrecognized(raw="{}", note="new"), [("note", "  (new)\n")]),
    (EndingBegan(reason="stopped"), [("ending", "■ ending: stopped\n")]),
    (EndingBegan(reason="run_timeout", message="too long"), [("ending", "■ ending: too long\n")]),
    (ENDED, []),
]
