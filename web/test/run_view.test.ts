import assert from "node:assert/strict";
import { test } from "node:test";
import type { LogEvent, LogRecord, RunInfo } from "../src/api/values.ts";
import { foldRun, RunFold } from "../src/folds/run_view.ts";
import { isWorking } from "../src/folds/state_words.ts";

function log(...events: (LogEvent | [number, LogEvent])[]): LogRecord[] {
  return events.map((each, index) => {
    const [t, event] = Array.isArray(each) ? each : [100 + index, each];
    return { n: index + 1, t, event };
  });
}

const started = { kind: "run_started", run_id: "r", agent: "codex", cwd: "/shop", mode: "exec" };
const thread = { kind: "thread_started", session_id: "s", model: "m" };
const tool = { kind: "tool_started", id: "1", name: "Bash", input: { command: "pytest -q" } };

test("a tool is one line from its beginning to its end, with exit code, output and files", () => {
  const fold = foldRun(
    log(started, thread, tool, { kind: "tool_output", id: "1", text: "half" }, { kind: "tool_failed", id: "1", name: "Bash", output: "E" },
      { kind: "command_executed", id: "1", command: "pytest -q", exit_code: 1 }, { kind: "file_changed", id: "1", path: "/shop/a", change: "added" }),
  );
  assert.deepEqual(fold.items, [
    { type: "tool", n: 3, t: 102, id: "1", name: "Bash", input: { command: "pytest -q" }, subject: "pytest -q", state: "failed",
      output: "E", endedAt: 104, exitCode: 1, files: [{ path: "/shop/a", change: "added" }], parent: "" },
  ]);
  assert.deepEqual([...fold.files], [["/shop/a", "added"]]);
  assert.deepEqual([fold.totals.tools, fold.totals.failedTools], [1, 1]);
});

test("an event that came before is not taken twice", () => {
  const records = log(started, thread, tool);
  const fold = foldRun(records);
  assert.equal(fold.add(records[2]!), false);
  assert.equal(fold.items.length, 1);
});

test("a replay up to an event is what the page showed then, and the same again when fed on", () => {
  const records = log(started, thread, { kind: "text_said", text: "one" }, tool, { kind: "tool_completed", id: "1", output: "ok" },
    { kind: "run_ended", outcome: "completed", reason: "done" });
  const half = foldRun(records, 4);
  assert.equal(half.status, "working");
  assert.equal(half.tool?.subject, "pytest -q");
  for (const record of records) half.add(record);
  assert.deepEqual(JSON.stringify(half.items), JSON.stringify(foldRun(records).items));
});

test("pieces of a text become the whole in their place", () => {
  const fold = foldRun(log(started, { kind: "text_delta", block: "b", text: "I loo" }, { kind: "text_delta", block: "b", text: "k." }, { kind: "text_said", text: "I look." }));
  assert.deepEqual(fold.items.map((item) => item.type === "text" && [item.text, item.block]), [["I look.", ""]]);
});

test("a changed line is another object, so that only it is drawn anew", () => {
  const records = log(started, thread, { kind: "text_said", text: "one" }, tool, { kind: "tool_completed", id: "1", output: "ok" });
  const fold = foldRun(records, 4);
  const [said, before] = fold.items;
  fold.add(records[4]!);
  assert.ok(fold.items[0] === said);
  assert.ok(fold.items[1] !== before);
});

test("states follow the log as at the terminal", () => {
  const state = (...events: LogEvent[]): string => foldRun(log(...events)).status;
  const session = { ...started, session: true };
  const sent = { kind: "message_sent", id: "first", text: "hello" };
  const asked = { kind: "permission_asked", id: "q", tool: "Bash", input: { command: "git push" } };
  assert.equal(state(started), "starting");
  assert.equal(state(started, thread), "working");
  assert.equal(state(session, thread), "idle");
  assert.equal(state(session, thread, sent), "working");
  assert.equal(state(session, thread, sent, asked), "waiting");
  assert.equal(state(session, thread, sent, { ...asked, settled: true }), "working");
  assert.equal(state(session, thread, sent, asked, { kind: "permission_answered", id: "q", allowed: true }), "working");
  assert.equal(state(session, thread, sent, { kind: "message_ended", id: "first", outcome: "completed", reason: "done" }), "idle");
  assert.equal(state(session, thread, sent, { kind: "message_ended", id: "first", outcome: "failed", reason: "network" }), "error");
  assert.equal(state(started, thread, { kind: "rate_limited", resets_at: 5 }), "rate_limited");
  assert.equal(state(started, thread, { kind: "rate_limited", resets_at: 5 }, { kind: "model_call_ended", call: 1, status: 200 }), "working");
  assert.equal(state(started, thread, { kind: "watchdog_acted", step: "nudge", cause: "model_silent" }), "stuck");
  assert.equal(state(started, thread, { kind: "run_ended", outcome: "completed", reason: "done" }), "closed");
});

test("a permission keeps what was allowed in place of what was asked for", () => {
  const fold = foldRun(log(started, { kind: "permission_asked", id: "q", tool: "Bash", input: { command: "git push" } },
    { kind: "permission_answered", id: "q", allowed: true, by: "person", input: { command: "git push --dry-run" } }));
  assert.deepEqual(fold.items.map((item) => item.type === "permission" && item.answer),
    [{ allowed: true, by: "person", reason: "", changed: "git push --dry-run", always: false }]);
});

test("time goes to what was waited for", () => {
  const fold = foldRun(log([0, started], [1, thread], [4, tool], [9, { kind: "tool_completed", id: "1", output: "" }],
    [10, { kind: "permission_asked", id: "q", tool: "Bash" }], [30, { kind: "permission_answered", id: "q", allowed: true }]));
  assert.deepEqual(fold.spent, { model: 4, tool: 5, person: 20, limit: 0 });
});

test("a question is open until it is answered or the run ends", () => {
  const asked = { kind: "question_asked", id: "q", questions: [{ text: "Which?", options: ["a", "b"] }] };
  const open = foldRun(log(started, thread, asked));
  assert.deepEqual([...open.questions.keys()], ["q"]);
  assert.equal(open.state.subject, "Which?");
  const done = foldRun(log(started, thread, asked, { kind: "question_answered", id: "q", answers: { "Which?": "a" }, by: "person" }));
  assert.equal(done.questions.size, 0);
  assert.deepEqual(done.items.map((item) => item.type === "question" && item.answer), [{ answers: { "Which?": "a" }, by: "person", reason: "" }]);
  assert.equal(foldRun(log(started, asked, { kind: "run_ended", outcome: "lost", reason: "supervisor_lost" })).questions.size, 0);
});

test("what it cost is added up, and a call of which nobody knows is counted", () => {
  const call = { kind: "model_call_ended", call: 1, status: 200, usage: { input: 5, output: 2 } };
  const fold = foldRun(log(started, { ...call, cost_usd: 0.5 }, { ...call, cost_usd: 0.25 }, call));
  assert.deepEqual([fold.totals.costUsd, fold.totals.unpriced, fold.totals.usage.input], [0.75, 1, 15]);
});

test("a loop has attempts and their checks, a blueprint its nodes", () => {
  const loop = foldRun(log({ ...started, work: "loop" }, { kind: "attempt_started", attempt: 1, run_id: "a", agent: "codex" },
    { kind: "attempt_ended", attempt: 1, run_id: "a", outcome: "completed", reason: "done", model_calls: 2 },
    { kind: "check_started", attempt: 1, check: "true" }, { kind: "check_ended", attempt: 1, check: "true", passed: true }));
  assert.deepEqual(loop.items.map((item) => item.type), ["attempt", "check"]);
  assert.equal(loop.totals.calls, 2);
  assert.equal(loop.waitsFor, "");
  const work = foldRun(log({ ...started, work: "blueprint" }, { kind: "node_started", node: "fix", type: "agent", run_id: "l" },
    { kind: "node_ended", node: "skip", type: "agent", status: "skipped" }));
  assert.deepEqual([...work.nodes], [["fix", "running"], ["skip", "skipped"]]);
  assert.equal(work.state.subject, "fix");
});

test("kinds that a newer inspan tells are shown by their name, and never break the page", () => {
  const fold = foldRun(log(started, { kind: "something_new", much: { of: "it" } }, { kind: "tool_started" }, { kind: "plan_changed", steps: "no list" }));
  assert.deepEqual(fold.items.map((item) => (item.type === "note" ? item.what : item.type)), ["something_new", "tool", "plan"]);
});

test("an ended run took as long as its end says, whatever was heard around it", () => {
  const end = { kind: "run_ended", outcome: "completed", reason: "done", duration_s: 0.3 };
  assert.equal(foldRun(log([0, started], [1, thread])).seconds, 1);
  const fold = foldRun(log([0, started], [1, thread], [5, end]));
  assert.deepEqual([fold.seconds, fold.items.map((item) => item.type === "end" && item.seconds)], [0.3, [0.3]]);
});

test("a session is gone on with where the agent keeps one and the run has ended", () => {
  const end = { kind: "run_ended", outcome: "completed", reason: "done" };
  const canResume = (...events: LogEvent[]): boolean => foldRun(log(...events)).isResumable;
  assert.equal(canResume(started, thread), false);
  assert.equal(canResume(started, thread, end), true);
  assert.equal(canResume(started, { ...thread, session_id: "r" }, end), false);
  assert.equal(canResume(started, { ...thread, session_id: "" }, end), false);
  assert.equal(canResume({ ...started, work: "loop" }, thread, end), false);
});

test("nobody is paid for the answers of a script or a cassette", () => {
  const isPaidFor = (model_from: string): boolean => foldRun(log({ ...started, model_from })).isPaidFor;
  assert.deepEqual(["script:a.toml", "replay:c", "record:c", "", "scripted"].map(isPaidFor), [false, false, true, true, true]);
});

test("who waits for a person or for a message is not at work", () => {
  const run = (status: string, alive = true): RunInfo => ({ alive, state: { status } }) as RunInfo;
  const states = ["starting", "working", "rate_limited", "stuck", "idle", "waiting", "error", "closed"];
  assert.deepEqual(states.filter((each) => isWorking(run(each))), ["starting", "working", "rate_limited", "stuck"]);
  assert.equal(isWorking(run("working", false)), false);
});

test("time that is waited for grows until it ends", () => {
  const fold = foldRun(log([0, started], [1, thread], [4, { kind: "permission_asked", id: "q", tool: "Bash" }]));
  assert.deepEqual([fold.spentUntil(10), fold.spent], [{ model: 3, tool: 0, person: 6, limit: 0 }, { model: 3, tool: 0, person: 0, limit: 0 }]);
});

test("an outline drops the marks of writing and nothing else, and names an end as every place does", () => {
  const say = (text: string): LogEvent => ({ kind: "text_said", text });
  const fold = foldRun(log(started, say("## **Done**: `a_b` > 3"), say("<script>x</script> | #2"), { kind: "run_ended", outcome: "cancelled", reason: "stopped" }));
  assert.deepEqual(fold.outline.map((entry) => entry.label), ["Done: a_b > 3", "<script>x</script> | #2", "stopped"]);
});

test("ten thousand events are folded in a fraction of a second", () => {
  const fold = new RunFold();
  const begin = Date.now();
  for (let n = 1; n <= 10_000; n += 2) {
    fold.add({ n, t: n, event: { ...tool, id: String(n) } });
    fold.add({ n: n + 1, t: n, event: { kind: "tool_completed", id: String(n), output: "ok" } });
  }
  assert.equal(fold.items.length, 5000);
  assert.ok(Date.now() - begin < 1000);
});
