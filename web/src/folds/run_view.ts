// What a run's log comes to: the timeline, what it is doing, what it used. The same for a run that lives, one that has
// ended, and one that is replayed up to some event. Feeding the same events gives the same view: nothing here looks at a
// clock, and an event that was fed before is not taken twice.
import type { Asked, LiveState, LogEvent, LogRecord, ModelCall, OneQuestion, Usage, WaitsFor } from "../api/values.ts";
import { flag, number, record, text, texts, usage } from "./fields.ts";
import type { CheckItem, Item, NodeItem, TextItem, ToolItem } from "./items.ts";
import { describeOutcome } from "./state_words.ts";
import { subjectOf } from "./subject.ts";

export interface Totals {
  usage: Usage;
  costUsd: number | null;
  notPaidUsd: number | null;
  unpriced: number;
  calls: number;
  tools: number;
  failedTools: number;
}

/** Seconds by what was waited for; `person` and `limit` are no work. */
export interface Spent {
  model: number;
  tool: number;
  person: number;
  limit: number;
}

export interface OutlineEntry {
  n: number;
  index: number;
  label: string;
  type: "message" | "question" | "failure" | "attempt" | "node" | "end" | "text";
}

type Handler = (fold: RunFold, event: LogEvent, at: LogRecord) => void;

export class RunFold {
  items: Item[] = [];
  started: LogEvent | null = null;
  ended: LogEvent | null = null;
  model = "";
  sessionId = "";
  tools: string[] = [];
  questions = new Map<string, { question: Asked; askedAt: number }>();
  files = new Map<string, string>();
  calls: ModelCall[] = [];
  totals: Totals = {
    usage: {},
    costUsd: null,
    notPaidUsd: null,
    unpriced: 0,
    calls: 0,
    tools: 0,
    failedTools: 0,
  };
  spent: Spent = { model: 0, tool: 0, person: 0, limit: 0 };
  plan: { text: string; state: string }[] = [];
  outline: OutlineEntry[] = [];
  nodes = new Map<string, string>();
  last = 0;
  startedAt = 0;
  heardAt = 0;

  private openTools = new Map<string, number>();
  private openBlocks = new Map<string, number>();
  private places = new Map<string, number>();
  private running = "";
  private queued = new Map<string, string>();
  private limited: number | null | undefined = undefined;
  private opened = false;
  private stuck = false;
  private error = "";
  private since = 0;
  private stateKey = "";
  private talking = false;
  private told: Usage | null = null;

  /** Takes in one record; says whether it was new. Records come in the order of their numbers. */
  add(at: LogRecord): boolean {
    if (at.n <= this.last) return false;
    if (this.last > 0) this.spent = this.spentUntil(at.t);
    else this.startedAt = at.t;
    this.last = at.n;
    this.heardAt = at.t;
    const handler = HANDLERS[at.event.kind];
    if (handler) handler(this, at.event, at);
    else if (!SILENT.has(at.event.kind)) this.note(at, "quiet", at.event.kind, "", "");
    this.talking = at.event.kind === "text_delta" || at.event.kind.startsWith("turn_");
    const key = `${this.status}|${this.tool?.id ?? ""}|${[...this.questions.keys()][0] ?? ""}`;
    if (key !== this.stateKey) [this.stateKey, this.since] = [key, at.t];
    return true;
  }

  get isSession(): boolean {
    return this.started !== null && flag(this.started, "session");
  }

  /** Empty for the run of one agent. */
  get work(): string {
    return this.started ? text(this.started, "work") : "";
  }

  /** From its beginning to what was heard last; of one that has ended as its end says, which counts no work around it. */
  get seconds(): number {
    return (this.ended && number(this.ended, "duration_s")) ?? this.heardAt - this.startedAt;
  }

  /** Whether somebody is paid for the answers of its model: not for a script's or a cassette's. */
  get isPaidFor(): boolean {
    return !["script", "replay"].includes(text(this.started ?? { kind: "" }, "model_from").split(":", 1)[0] ?? "");
  }

  /** Whether its agent keeps a session that another run can go on in; one that keeps none calls it as the run. */
  get isResumable(): boolean {
    const own = this.started ? text(this.started, "run_id") : "";
    return this.ended !== null && !this.work && this.sessionId !== "" && this.sessionId !== own;
  }

  /** The call that is at work: the last that was begun, of those that have not ended. */
  get tool(): ToolItem | null {
    if (!this.isBusy) return null;
    const index = [...this.openTools.values()].at(-1);
    const item = index === undefined ? undefined : this.items[index];
    return item?.type === "tool" ? item : null;
  }

  get status(): LiveState["status"] {
    if (this.ended) return "closed";
    if (this.questions.size) return "waiting";
    if (this.isBusy) {
      if (this.stuck) return "stuck";
      if (this.limited !== undefined) return "rate_limited";
      return this.opened ? "working" : "starting";
    }
    return this.error ? "error" : "idle";
  }

  get waitsFor(): WaitsFor {
    const status = this.status;
    if (status === "waiting") return "person";
    if (status === "rate_limited") return "limit";
    if (this.work || (status !== "working" && status !== "stuck")) return "";
    return this.openTools.size ? "tool" : this.talking ? "" : "model";
  }

  get state(): LiveState {
    const question = [...this.questions.values()][0]?.question;
    const tool = this.tool;
    return {
      status: this.status,
      tool: tool?.name ?? "",
      subject: question ? subjectOfQuestion(question) : (tool?.subject ?? this.workSubject()),
      asks_for: question ? (question.kind === "permission_asked" ? "permission" : "answer") : "",
      output: tool?.output ?? "",
      waits_for: this.waitsFor,
      since: this.since,
      heard_at: this.heardAt,
      questions: [...this.questions.keys()],
      queued: [...this.queued.keys()],
      message: this.running,
      resets_at: this.limited ?? null,
      error: this.error,
      model: this.model,
    };
  }

  /** Tokens as the gateway counted them, else as the agent tells. */
  get usage(): Usage {
    const ended = this.ended && usage(this.ended);
    return ended ?? (this.totals.calls ? this.totals.usage : (this.told ?? {}));
  }

  private get isBusy(): boolean {
    return !this.isSession || this.running !== "";
  }

  /** What a loop or a blueprint is at. */
  private workSubject(): string {
    if (this.work === "blueprint") {
      return [...this.nodes].flatMap(([node, status]) => (status === "running" ? [node] : [])).join(", ");
    }
    const last = this.work === "loop" ? this.items.findLast((each) => each.type === "attempt" || each.type === "check") : null;
    if (last?.type === "attempt") return `attempt ${last.attempt}`;
    return last?.type === "check" ? `attempt ${last.attempt}, check ${last.check}` : "";
  }

  /** What the time went to, with that since the last event for what is waited for. */
  spentUntil(now: number): Spent {
    const waits = this.waitsFor || (this.status === "working" && !this.work ? "model" : "");
    return waits ? { ...this.spent, [waits]: this.spent[waits] + Math.max(0, now - this.heardAt) } : this.spent;
  }

  private push(item: Item): number {
    return this.items.push(item) - 1;
  }

  /** Puts a changed line in the place of what it was: whoever draws it sees by identity that it changed. */
  private change<T extends Item>(index: number | undefined, changed: Partial<T>): void {
    const item = index === undefined ? undefined : this.items[index];
    if (item && index !== undefined) this.items[index] = { ...item, ...changed } as Item;
  }

  private mark(at: LogRecord, type: OutlineEntry["type"], label: string): void {
    this.outline.push({ n: at.n, index: Math.max(0, this.items.length - 1), label, type });
  }

  note(
    at: LogRecord,
    tone: "quiet" | "attention" | "failure" | "success",
    what: string,
    said: string,
    detail: string,
    run = "",
  ): void {
    this.push({ type: "note", n: at.n, t: at.t, tone, what, text: said, detail, run });
  }

  onStarted(event: LogEvent, at: LogRecord): void {
    this.started = event;
    this.ended = null; // A loop or a blueprint that goes on writes into the same log.
    this.model = text(event, "model") || this.model;
    this.sessionId = text(event, "session_id") || this.sessionId;
    if (text(event, "work")) this.opened = true;
    for (const warning of texts(event, "warnings")) this.note(at, "attention", "warning", warning, "");
  }

  onThread(event: LogEvent): void {
    this.opened = true;
    this.model = text(event, "model") || this.model;
    this.sessionId = text(event, "session_id") || this.sessionId;
    this.tools = texts(event, "tools");
  }

  onTurnStarted(): void {
    this.opened = true;
  }

  onTurnFailed(event: LogEvent, at: LogRecord): void {
    const status = number(event, "status");
    const what = `turn failed${status === null ? "" : ` (${status})`}`;
    this.note(at, "failure", what, text(event, "message") || text(event, "failure").replaceAll("_", " "), "");
    this.mark(at, "failure", "turn failed");
  }

  onMessageSent(event: LogEvent, at: LogRecord): void {
    const id = text(event, "id");
    const said = text(event, "text");
    const queued = flag(event, "queued");
    const steers = flag(event, "steers");
    if (queued) this.queued.set(id, said);
    else if (!steers) [this.running, this.error] = [id, ""];
    const how = id === "first" ? "prompt" : queued ? "queued" : steers ? "steered" : "sent";
    this.places.set(`message ${id}`, this.push({ type: "message", n: at.n, t: at.t, id, text: said, how }));
    this.mark(at, "message", said);
  }

  onMessageStarted(event: LogEvent): void {
    const id = text(event, "id");
    this.queued.delete(id);
    [this.running, this.error] = [id, ""];
    this.change(this.places.get(`message ${id}`), { how: "sent" });
  }

  onMessageEnded(event: LogEvent, at: LogRecord): void {
    const id = text(event, "id");
    this.queued.delete(id);
    if (id === this.running) {
      [this.running, this.limited, this.stuck] = ["", undefined, false];
      const outcome = text(event, "outcome");
      const isFine = outcome === "completed" || outcome === "cancelled";
      this.error = isFine ? "" : text(event, "message") || text(event, "reason");
      this.closeTools(at);
    }
    this.push({
      type: "turn",
      n: at.n,
      t: at.t,
      outcome: text(event, "outcome"),
      reason: text(event, "reason"),
      message: text(event, "message"),
      next: text(event, "next"),
      seconds: number(event, "duration_s"),
    });
  }

  onConfigured(event: LogEvent, at: LogRecord): void {
    this.model = text(event, "model") || this.model;
    const set = ["model", "effort", "mode"].filter((name) => text(event, name));
    this.note(at, "quiet", "set", set.map((name) => `${name} ${text(event, name)}`).join(", "), "");
  }

  onDelta(event: LogEvent, at: LogRecord): void {
    const block = text(event, "block");
    const open = this.openBlocks.get(block);
    if (open === undefined) {
      const item: TextItem = { type: "text", n: at.n, t: at.t, text: text(event, "text"), block };
      this.openBlocks.set(block, this.push(item));
    } else {
      const item = this.items[open] as TextItem;
      this.change<TextItem>(open, { text: item.text + text(event, "text") });
    }
  }

  onText(event: LogEvent, at: LogRecord): void {
    const said = text(event, "text");
    // The whole block follows its pieces: it takes the place of the first that is still open.
    for (const [block, index] of this.openBlocks) {
      this.openBlocks.delete(block);
      this.change<TextItem>(index, { text: said, block: "" });
      this.outline.push({ n: at.n, index, label: firstLine(said), type: "text" });
      return;
    }
    if (!said.trim()) return;
    this.push({ type: "text", n: at.n, t: at.t, text: said, block: "", parent: text(event, "parent") });
    this.mark(at, "text", firstLine(said));
  }

  onReasoning(event: LogEvent, at: LogRecord): void {
    const said = text(event, "text");
    if (said.trim()) this.push({ type: "thinking", n: at.n, t: at.t, text: said, parent: text(event, "parent") });
  }

  onToolStarted(event: LogEvent, at: LogRecord): void {
    const id = text(event, "id");
    const input = event["input"];
    this.totals.tools += 1;
    const index = this.push({
      type: "tool",
      n: at.n,
      t: at.t,
      id,
      name: text(event, "name"),
      input,
      subject: subjectOf(input),
      state: "running",
      output: "",
      endedAt: null,
      exitCode: null,
      files: [],
      parent: text(event, "parent"),
    });
    this.openTools.set(id, index);
    this.places.set(`tool ${id}`, index);
  }

  onToolOutput(event: LogEvent): void {
    const index = this.openTools.get(text(event, "id"));
    this.change<ToolItem>(index, { output: text(event, "text") });
  }

  onToolEnded(event: LogEvent, at: LogRecord, failed: boolean): void {
    const id = text(event, "id");
    let index = this.places.get(`tool ${id}`);
    if (index === undefined) {
      this.onToolStarted(event, at); // It was never told that it began.
      index = this.places.get(`tool ${id}`);
    }
    this.openTools.delete(id);
    const state = !failed ? "ok" : flag(event, "denied") ? "denied" : "failed";
    if (failed) this.totals.failedTools += 1;
    this.change<ToolItem>(index, { state, output: text(event, "output"), endedAt: at.t });
  }

  onCommand(event: LogEvent): void {
    const index = this.places.get(`tool ${text(event, "id")}`);
    const item = index === undefined ? undefined : this.items[index];
    if (item?.type !== "tool") return;
    this.change<ToolItem>(index, {
      exitCode: number(event, "exit_code"),
      subject: text(event, "command") || item.subject,
    });
  }

  onFile(event: LogEvent, at: LogRecord): void {
    const path = text(event, "path");
    const change = text(event, "change");
    const before = this.files.get(path);
    if (before === "added" && change === "deleted") this.files.delete(path);
    else this.files.set(path, before === "added" && change === "modified" ? "added" : change);
    const id = text(event, "id");
    const index = id ? this.places.get(`tool ${id}`) : undefined;
    const item = index === undefined ? undefined : this.items[index];
    if (item?.type === "tool") {
      this.change<ToolItem>(index, { files: [...item.files, { path, change }] });
      return;
    }
    const last = this.items.at(-1);
    if (last?.type === "file") {
      this.change(this.items.length - 1, { files: [...last.files, { path, change }] });
    } else this.push({ type: "file", n: at.n, t: at.t, files: [{ path, change }] });
  }

  onPlan(event: LogEvent, at: LogRecord): void {
    const steps = Array.isArray(event["steps"]) ? (event["steps"] as LogEvent[]) : [];
    this.plan = steps.map((each) => ({ text: text(each, "text"), state: text(each, "state") || "pending" }));
    this.push({ type: "plan", n: at.n, t: at.t, steps: this.plan });
  }

  onAsked(event: LogEvent, at: LogRecord): void {
    const id = text(event, "id");
    if (event.kind === "permission_asked") {
      const [tool, input, reason] = [text(event, "tool"), event["input"], text(event, "reason")];
      if (event["settled"] !== true) this.questions.set(id, { question: { kind: "permission_asked", id, tool, input, reason }, askedAt: at.t });
      const item = { type: "permission", n: at.n, t: at.t, id, tool, input, reason, answer: null } as const;
      this.places.set(`question ${id}`, this.push(item));
      this.mark(at, "question", `allow ${subjectOf(input) || tool}?`);
    } else {
      const questions = (Array.isArray(event["questions"]) ? event["questions"] : []) as OneQuestion[];
      this.questions.set(id, { question: { kind: "question_asked", id, questions }, askedAt: at.t });
      this.places.set(
        `question ${id}`,
        this.push({ type: "question", n: at.n, t: at.t, id, questions, answer: null }),
      );
      this.mark(at, "question", questions.map((each) => each.text).join(" / "));
    }
  }

  onAnswered(event: LogEvent): void {
    const id = text(event, "id");
    this.questions.delete(id);
    const [by, reason] = [text(event, "by"), text(event, "reason")];
    const answer =
      event.kind === "permission_answered"
        ? { allowed: flag(event, "allowed"), by, reason, changed: subjectOf(event["input"]), always: flag(event, "always") }
        : { answers: record(event, "answers") as Record<string, string>, by, reason };
    this.change(this.places.get(`question ${id}`), { answer } as Partial<Item>);
  }

  onCall(event: LogEvent, at: LogRecord): void {
    const call = event as unknown as ModelCall;
    this.calls.push(call);
    const totals = this.totals;
    totals.calls += 1;
    totals.usage = addUsage(totals.usage, call.usage);
    if (typeof call.cost_usd === "number") totals.costUsd = (totals.costUsd ?? 0) + call.cost_usd;
    else totals.unpriced += 1;
    if (typeof call.not_paid_usd === "number") totals.notPaidUsd = (totals.notPaidUsd ?? 0) + call.not_paid_usd;
    if (call.status === 200) this.limited = undefined;
    this.opened = true;
    this.model = this.model || call.model || "";
    if (call.problem || (call.status && call.status >= 400)) {
      const what = `model call ${call.call}${call.status ? `: ${call.status}` : ""}`;
      const said = [call.message, call.problem].find((each) => each) ?? "";
      this.note(at, "attention", what, said.replaceAll("_", " "), "");
    }
  }

  onUsage(event: LogEvent): void {
    this.told = usage(event) ?? this.told;
  }

  onLimited(event: LogEvent, at: LogRecord): void {
    this.limited = number(event, "resets_at");
    const held = flag(event, "held") ? "another run was told to wait, and this one waits with it" : "";
    const said = text(event, "message") || held;
    this.push({ type: "limit", n: at.n, t: at.t, text: said, resetsAt: this.limited });
  }

  onWatchdog(event: LogEvent, at: LogRecord): void {
    const step = text(event, "step");
    this.stuck = step !== "heard" && step !== "wait";
    const skipped = text(event, "skipped");
    const said = text(event, "message") || text(event, "cause").replaceAll("_", " ");
    const detail = [skipped && `not done: ${skipped}`, text(event, "advice")].filter(Boolean).join("\n");
    this.note(at, step === "heard" ? "quiet" : "attention", `watchdog: ${step}`, said, detail);
  }

  onRefused(event: LogEvent, at: LogRecord): void {
    this.note(at, "failure", `budget of the ${text(event, "node")}`, text(event, "message"), text(event, "next"));
    this.mark(at, "failure", "refused by a budget");
  }

  onAttempt(event: LogEvent, at: LogRecord): void {
    const [attempt, run, agent] = [number(event, "attempt") ?? 0, text(event, "run_id"), text(event, "agent")];
    this.places.set(
      `attempt ${attempt}`,
      this.push({
        type: "attempt",
        n: at.n,
        t: at.t,
        attempt,
        run,
        agent,
        outcome: "",
        reason: "",
        message: "",
        endedAt: null,
      }),
    );
    this.mark(at, "attempt", `attempt ${attempt} · ${agent}`);
  }

  onAttemptEnded(event: LogEvent, at: LogRecord): void {
    this.change(this.places.get(`attempt ${number(event, "attempt") ?? 0}`), {
      outcome: text(event, "outcome"),
      reason: text(event, "reason"),
      message: text(event, "message"),
      endedAt: at.t,
    });
    this.addPart(event);
    for (const path of texts(event, "files_changed")) this.files.set(path, this.files.get(path) ?? "modified");
  }

  onCheck(event: LogEvent, at: LogRecord): void {
    const [attempt, check] = [number(event, "attempt") ?? 0, text(event, "check")];
    const index = this.push({ type: "check", n: at.n, t: at.t, attempt, check, result: null });
    this.places.set(`check ${attempt} ${check}`, index);
  }

  onCheckEnded(event: LogEvent, at: LogRecord): void {
    const [attempt, check] = [number(event, "attempt") ?? 0, text(event, "check")];
    if (!this.places.has(`check ${attempt} ${check}`)) this.onCheck(event, at);
    this.change<CheckItem>(this.places.get(`check ${attempt} ${check}`), {
      result: {
        check,
        passed: flag(event, "passed"),
        exit_code: number(event, "exit_code"),
        timed_out: flag(event, "timed_out"),
        output: text(event, "output"),
        duration_s: number(event, "duration_s") ?? 0,
      },
    });
  }

  onVerdict(event: LogEvent, at: LogRecord): void {
    const agreed = event["agreed"];
    const what = agreed === true ? "agrees" : agreed === false ? "does not agree" : "gave no verdict";
    const tone = agreed === true ? "success" : agreed === false ? "attention" : "failure";
    this.note(at, tone, `${text(event, "agent")} ${what}`, text(event, "text"), "", text(event, "run_id"));
    this.addPart(event);
  }

  onNode(event: LogEvent, at: LogRecord): void {
    const node = text(event, "node");
    this.nodes.set(node, "running");
    this.pushNode(event, at, "running");
    this.mark(at, "node", node);
  }

  onNodeOutput(event: LogEvent): void {
    const index = this.places.get(`node ${text(event, "node")}`);
    const item = index === undefined ? undefined : this.items[index];
    if (item?.type === "node") this.change<NodeItem>(index, { output: item.output + text(event, "text") });
  }

  onNodeEnded(event: LogEvent, at: LogRecord): void {
    const [node, status] = [text(event, "node"), text(event, "status")];
    const before = this.nodes.get(node);
    this.nodes.set(node, status);
    if (before !== "running") this.pushNode(event, at, status); // One that is skipped never began.
    this.change<NodeItem>(this.places.get(`node ${node}`), {
      status,
      error: text(event, "error"),
      endedAt: at.t,
      seconds: number(event, "duration_s"),
    });
    this.addPart(event);
    for (const path of texts(event, "files_changed")) this.files.set(path, this.files.get(path) ?? "modified");
  }

  onEnding(event: LogEvent, at: LogRecord): void {
    this.note(at, "quiet", "ending", text(event, "message") || text(event, "reason").replaceAll("_", " "), "");
  }

  onEnded(event: LogEvent, at: LogRecord): void {
    this.ended = event;
    this.questions.clear();
    this.queued.clear();
    this.closeTools(at);
    const files = texts(event, "files_changed");
    for (const path of files) if (!this.files.has(path)) this.files.set(path, "modified");
    this.push({
      type: "end",
      n: at.n,
      t: at.t,
      outcome: text(event, "outcome"),
      reason: text(event, "reason"),
      message: text(event, "message"),
      next: text(event, "next"),
      seconds: this.seconds,
      files,
      usage: usage(event),
      costUsd: number(event, "cost_usd"),
      costKind: (text(event, "cost_kind") || null) as never,
      notPaidUsd: number(event, "not_paid_usd"),
    });
    this.mark(at, "end", describeOutcome(text(event, "outcome"), "").word);
  }

  /** What never came back did not go well, and is at work no more. */
  private closeTools(at: LogRecord): void {
    for (const index of this.openTools.values()) this.change<ToolItem>(index, { state: "failed", endedAt: at.t });
    this.openTools.clear();
    this.openBlocks.clear();
  }

  private pushNode(event: LogEvent, at: LogRecord, status: string): void {
    const node = text(event, "node");
    const item: NodeItem = {
      type: "node",
      n: at.n,
      t: at.t,
      node,
      kind: text(event, "type"),
      round: number(event, "round") ?? 1,
      run: text(event, "run_id"),
      status,
      output: "",
      error: "",
      endedAt: null,
      seconds: null,
    };
    this.places.set(`node ${node}`, this.push(item));
  }

  /** Tokens and calls of a run that is a part of this one. */
  private addPart(event: LogEvent): void {
    this.totals.usage = addUsage(this.totals.usage, usage(event));
    this.totals.calls += number(event, "model_calls") ?? 0;
    const cost = record(event, "cost");
    if (typeof cost["usd"] === "number") this.totals.costUsd = (this.totals.costUsd ?? 0) + cost["usd"];
    if (typeof cost["not_paid_usd"] === "number") {
      this.totals.notPaidUsd = (this.totals.notPaidUsd ?? 0) + cost["not_paid_usd"];
    }
  }
}

/** The view of a whole log, or of its beginning up to the event `upTo`. */
export function foldRun(records: readonly LogRecord[], upTo = Number.POSITIVE_INFINITY): RunFold {
  const fold = new RunFold();
  for (const each of records) {
    if (each.n > upTo) break;
    fold.add(each);
  }
  return fold;
}

export function subjectOfQuestion(question: Asked): string {
  if (question.kind === "permission_asked") return subjectOf(question.input) || question.tool;
  return question.questions.map((each) => each.text).join(" / ");
}

export function addUsage(sum: Usage, more: Usage | null | undefined): Usage {
  if (!more) return sum;
  const add = (name: keyof Usage): number => (sum[name] ?? 0) + (more[name] ?? 0);
  return {
    input: add("input"),
    output: add("output"),
    cache_read: add("cache_read"),
    cache_write: add("cache_write"),
    reasoning: add("reasoning"),
  };
}

/** The beginning of what was said, without the marks of its writing. */
function firstLine(said: string): string {
  const line = said.trimStart().slice(0, 1000).split("\n", 1)[0] ?? "";
  const bare = line.replace(/^(?:#{1,6}|>|[-*+])\s+/, "").replace(/(\*\*|__|`)(.+?)\1/g, "$2");
  return bare.trim().slice(0, 120);
}

// Of these nothing is shown by itself.
const SILENT = new Set(["turn_completed", "turn_interrupted", "tool_requested", "tool_answered", "usage_differs"]);

const HANDLERS: Readonly<Record<string, Handler>> = {
  run_started: (fold, event, at) => fold.onStarted(event, at),
  thread_started: (fold, event) => fold.onThread(event),
  turn_started: (fold) => fold.onTurnStarted(),
  turn_failed: (fold, event, at) => fold.onTurnFailed(event, at),
  turn_interrupted: (fold, _event, at) => fold.note(at, "quiet", "interrupted", "the agent stopped its turn", ""),
  message_sent: (fold, event, at) => fold.onMessageSent(event, at),
  message_started: (fold, event) => fold.onMessageStarted(event),
  message_ended: (fold, event, at) => fold.onMessageEnded(event, at),
  session_configured: (fold, event, at) => fold.onConfigured(event, at),
  channel_changed: (fold, event, at) =>
    fold.note(at, "quiet", "channel", `${text(event, "before")} → ${text(event, "after")}`, text(event, "reason")),
  text_said: (fold, event, at) => fold.onText(event, at),
  text_delta: (fold, event, at) => fold.onDelta(event, at),
  answer_given: (fold, event, at) => fold.note(at, "success", "answer", text(event, "text"), ""),
  citations_given: (fold, event, at) => fold.note(at, "quiet", "sources", listCitations(event), ""),
  reasoning_said: (fold, event, at) => fold.onReasoning(event, at),
  tool_started: (fold, event, at) => fold.onToolStarted(event, at),
  tool_output: (fold, event) => fold.onToolOutput(event),
  tool_completed: (fold, event, at) => fold.onToolEnded(event, at, false),
  tool_failed: (fold, event, at) => fold.onToolEnded(event, at, true),
  command_executed: (fold, event) => fold.onCommand(event),
  file_changed: (fold, event, at) => fold.onFile(event, at),
  plan_changed: (fold, event, at) => fold.onPlan(event, at),
  permission_asked: (fold, event, at) => fold.onAsked(event, at),
  question_asked: (fold, event, at) => fold.onAsked(event, at),
  permission_answered: (fold, event) => fold.onAnswered(event),
  question_answered: (fold, event) => fold.onAnswered(event),
  hook_called: (fold, event, at) =>
    fold.note(at, "quiet", `hook ${text(event, "hook")}`, text(event, "tool") || subjectOf(event["input"]), ""),
  hook_answered: (fold, event, at) => {
    if (event["allowed"] === false) fold.note(at, "attention", "hook refused", text(event, "reason"), "");
    else if (text(event, "text")) fold.note(at, "quiet", "hook says", text(event, "text"), "");
  },
  mcp_server_failed: (fold, event, at) =>
    fold.note(at, "attention", `MCP server ${text(event, "name")}`, text(event, "message") || "could not be used", ""),
  usage_reported: (fold, event) => fold.onUsage(event),
  model_call_ended: (fold, event, at) => fold.onCall(event, at),
  budget_refused: (fold, event, at) => fold.onRefused(event, at),
  rate_limited: (fold, event, at) => fold.onLimited(event, at),
  worktree_left: (fold, event, at) =>
    fold.note(
      at,
      text(event, "problem") ? "attention" : "quiet",
      flag(event, "kept") ? "worktree kept" : "worktree removed",
      text(event, "path"),
      text(event, "problem"),
    ),
  attempt_started: (fold, event, at) => fold.onAttempt(event, at),
  attempt_ended: (fold, event, at) => fold.onAttemptEnded(event, at),
  check_started: (fold, event, at) => fold.onCheck(event, at),
  check_ended: (fold, event, at) => fold.onCheckEnded(event, at),
  verifier_started: (fold, event, at) =>
    fold.note(at, "quiet", "verifier", `${text(event, "agent")} is asked whether it is done`, "", text(event, "run_id")),
  verdict_given: (fold, event, at) => fold.onVerdict(event, at),
  wait_started: (fold, event, at) => fold.note(at, "quiet", "waits", text(event, "why"), ""),
  node_started: (fold, event, at) => fold.onNode(event, at),
  node_output: (fold, event) => fold.onNodeOutput(event),
  node_ended: (fold, event, at) => fold.onNodeEnded(event, at),
  watchdog_acted: (fold, event, at) => fold.onWatchdog(event, at),
  error_reported: (fold, event, at) => fold.note(at, "failure", "error", text(event, "message"), ""),
  unrecognized: (fold, event, at) =>
    fold.note(at, "quiet", "not recognized", text(event, "note") || text(event, "raw").slice(0, 80), text(event, "raw")),
  ending_began: (fold, event, at) => fold.onEnding(event, at),
  run_ended: (fold, event, at) => fold.onEnded(event, at),
};

function listCitations(event: LogEvent): string {
  const citations = Array.isArray(event["citations"]) ? (event["citations"] as LogEvent[]) : [];
  return citations.map((each) => `[${number(each, "number") ?? "·"}] ${text(each, "title")} ${text(each, "url")}`).join("\n");
}
