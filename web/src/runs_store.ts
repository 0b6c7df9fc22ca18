// The list of runs and the questions that wait, kept fresh by one stream of all runs and by a slow look for what it missed.
import { announce } from "./announce.ts";
import { BASE, formatQuery, get } from "./api/client.ts";
import { browserParts } from "./api/browser.ts";
import { LIST_KINDS } from "./api/kinds.ts";
import { type Connection, Stream } from "./api/stream.ts";
import type { Approvals, LogRecord, OpenQuestion, RunInfo, RunPage } from "./api/values.ts";
import { Cell } from "./cell.ts";
import { describeOutcome, needsPerson } from "./folds/state_words.ts";
import { subjectOf } from "./folds/subject.ts";
import { subjectOfQuestion } from "./folds/run_view.ts";
import { go } from "./navigate.ts";
import { type Filters, NO_FILTERS, runAddress } from "./routes.ts";
import { notify } from "./settings.ts";
import { oneLine } from "./text/visible.ts";
import { Turn } from "./turn.ts";

const PAGE = 100;
const SOON_MS = 400;
const LATER_MS = 20_000;
const CHANNEL = "inspan.stream";
// Says of a stream of many runs that one of them is over, also where its log has no end.
const LEFT = "left";

export interface RunList {
  runs: RunInfo[];
  next: string | null;
  total: number | null;
  loaded: boolean;
  problem: unknown;
}

export const runList = new Cell<RunList>({ runs: [], next: null, total: null, loaded: false, problem: null });
export const questions = new Cell<OpenQuestion[]>([]);
export const connection = new Cell<Connection>("connecting");

let filters: Filters = NO_FILTERS;
// What is shown was found by other filters, and goes once the new answer is there.
let filtered = false;
let timer: number | null = null;
let loading: AbortController | null = null;
let cursor = "";
let leads = false;
let seenQuestions: Set<string> | null = null;
let living = new Map<string, RunInfo>();

/** Begins to follow all runs. Called once, after the server let us in. */
export function followRuns(): void {
  lead();
  window.setInterval(() => refreshSoon(0), LATER_MS);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) refreshSoon(0);
  });
  refreshSoon(0);
}

export function setFilters(next: Filters): void {
  if (JSON.stringify(next) === JSON.stringify(filters)) return;
  filters = next;
  filtered = true;
  void refresh();
}

export async function loadMore(): Promise<void> {
  const { next, runs } = runList.value;
  if (!next) return;
  const page = await get<RunPage>("/runs", { ...toQuery(filters), limit: PAGE, before: next });
  const known = new Set(runs.map((run) => run.run_id));
  const all = [...runs, ...page.runs.filter((run) => !known.has(run.run_id))];
  runList.value = { ...runList.value, runs: all, next: page.next ?? null };
}

export function refreshSoon(ms = SOON_MS): void {
  if (timer !== null) return;
  // While nobody looks at it, once in a while is enough; a question is told of by the stream.
  const wait = document.hidden ? Math.max(ms, 2000) : ms;
  timer = window.setTimeout(() => {
    timer = null;
    void refresh();
  }, wait);
}

async function refresh(): Promise<void> {
  loading?.abort();
  const asking = new AbortController();
  loading = asking;
  try {
    const [page, asked] = await Promise.all([
      get<RunPage>("/runs", { ...toQuery(filters), limit: PAGE }, asking.signal),
      get<Approvals>("/approvals", {}, asking.signal),
    ]);
    if (asking.signal.aborted) return;
    // Older pages that somebody has asked for stay below the fresh one.
    const known = new Set(page.runs.map((run) => run.run_id));
    const { runs, next } = runList.value;
    const older = runs.length > PAGE && !filtered ? runs.filter((run) => !run.alive && !known.has(run.run_id)) : [];
    filtered = false;
    runList.value = {
      runs: [...page.runs, ...older],
      next: older.length ? next : (page.next ?? null),
      total: page.total ?? null,
      loaded: true,
      problem: null,
    };
    questions.value = asked.questions;
    tellQuestions(asked.questions);
    rememberLiving(page.runs);
  } catch (problem) {
    if (!asking.signal.aborted) runList.value = { ...runList.value, problem };
  }
}

function toQuery({ project, agent, state, search }: Filters): Record<string, string> {
  const living = state === "living" || state === "waiting";
  return { project, agent, search, outcome: living ? "" : state, ended: living ? "false" : "true" };
}

/** Of several tabs one holds the stream: a browser opens only six connections to a server. */
function lead(): void {
  const channel = new BroadcastChannel(CHANNEL);
  channel.addEventListener("message", (event: MessageEvent<unknown>) => {
    const told = event.data as { record?: LogRecord & { run_id: string }; state?: Connection };
    if (leads) return;
    if (told.state) setConnection(told.state);
    if (told.record) onRecord(told.record);
  });
  const open = (): Stream => {
    leads = true;
    return new Stream(browserParts, {
      kinds: [...LIST_KINDS, LEFT],
      address: () => `${BASE}/stream${formatQuery({ kinds: LIST_KINDS.join(","), after: cursor })}`,
      onData: (data, id) => {
        cursor = id || cursor;
        onRecord(data as LogRecord & { run_id: string });
        channel.postMessage({ record: data });
      },
      onEnd: () => refreshSoon(),
      onState: (state) => {
        setConnection(state);
        channel.postMessage({ state });
      },
    });
  };
  if (!navigator.locks) {
    // Where a browser does not trust the address it has no locks: whoever was looked at last holds the stream.
    let stream: Stream | null = null;
    new Turn(`${CHANNEL}.turn`, (isMine) => {
      if (isMine) stream ??= open();
      else {
        stream?.stop();
        [stream, leads] = [null, false];
      }
    });
  } else {
    void navigator.locks.request(CHANNEL, () => {
      open();
      return new Promise<never>(() => undefined);
    });
    window.setTimeout(() => {
      if (!leads && connection.value === "connecting") connection.value = "open";
    }, 1000);
  }
}

/** A loss is looked into at once: whoever is no longer let in is told by an answer, not by the stream. */
function setConnection(state: Connection): void {
  const before = connection.value;
  connection.value = state;
  if (state === "lost" || before === "lost") refreshSoon(0);
}

function onRecord({ run_id: id, t, event }: LogRecord & { run_id: string }): void {
  if (!event) {
    refreshSoon();
    return;
  }
  if (event.kind === "tool_started") {
    // The most frequent change by far needs no request.
    const { runs } = runList.value;
    const at = runs.findIndex((run) => run.run_id === id);
    const run = runs[at];
    if (run?.state && run.state.status !== "waiting") {
      const name = typeof event["name"] === "string" ? event["name"] : "";
      const state = { ...run.state, status: "working" as const, tool: name, subject: subjectOf(event["input"]), since: t };
      runList.value = { ...runList.value, runs: runs.with(at, { ...run, state }) };
      return;
    }
  }
  if (event.kind === "run_ended") tellEnd(id, String(event["outcome"] ?? ""), String(event["reason"] ?? ""));
  refreshSoon();
}

function tellQuestions(open: readonly OpenQuestion[]): void {
  const first = seenQuestions === null;
  // Runs may ask by the same id.
  const keyOf = (each: OpenQuestion) => `${each.run_id}/${each.question.id}`;
  const fresh = open.filter((each) => !seenQuestions?.has(keyOf(each)));
  seenQuestions = new Set(open.map(keyOf));
  if (first) return;
  for (const { run_id: run, question } of fresh) {
    const what = oneLine(subjectOfQuestion(question)).slice(0, 200);
    const said = question.kind === "permission_asked" ? `allow ${what}?` : what;
    announce(`Needs you: ${said}`, { urgent: true });
    show(`Needs you: ${findPrompt(run)}`, said, `question ${run}/${question.id}`, run);
  }
}

function rememberLiving(runs: readonly RunInfo[]): void {
  const next = new Map(runs.filter((run) => run.alive).map((run) => [run.run_id, run]));
  for (const [id, run] of living) if (!next.has(id)) next.set(id, run);
  for (const run of runs) if (!run.alive) next.delete(run.run_id);
  living = next;
}

function tellEnd(id: string, outcome: string, reason: string): void {
  const run = living.get(id);
  living.delete(id);
  if (!run) return;
  const words = describeOutcome(outcome, reason);
  const said = `${words.word}${words.about ? `: ${words.about}` : ""}`;
  announce(`${oneLine(run.prompt).slice(0, 80)}: ${said}`);
  // The runs of a loop end all the time: the loop is what somebody waits for.
  show(`Done: ${oneLine(run.prompt).slice(0, 80)}`, `${run.agent} ${said}`, `end ${id}`, id);
}

function show(title: string, body: string, tag: string, run: string): void {
  if (!notify.value || !leads || (!document.hidden && document.hasFocus())) return;
  const shown = new Notification(title, { body, tag, icon: "/icon.svg" });
  shown.onclick = () => {
    window.focus();
    go(runAddress(run));
    shown.close();
  };
}

function findPrompt(id: string): string {
  return oneLine(runList.value.runs.find((run) => run.run_id === id)?.prompt ?? id).slice(0, 80);
}

/** How many runs wait for a person: what the title says first. */
export function countNeeds(): number {
  return Math.max(new Set(questions.value.map((each) => each.run_id)).size, runList.value.runs.filter(needsPerson).length);
}
