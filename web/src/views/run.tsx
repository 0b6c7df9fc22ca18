// One run: its timeline as it grows, what it changed and cost, and everything that can be said to it.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { announce } from "../announce.ts";
import { post, reachable, serverInfo } from "../api/client.ts";
import type { OpenQuestion } from "../api/values.ts";
import { memo, useCell } from "../cell.ts";
import { useNow } from "../clock.ts";
import { text } from "../folds/fields.ts";
import type { Item } from "../folds/items.ts";
import type { OutlineEntry, RunFold } from "../folds/run_view.ts";
import { describeLive, describeOutcome, type Glyph, sayState, type StateWords } from "../folds/state_words.ts";
import { useKeys } from "../keys.ts";
import { go } from "../navigate.ts";
import { GlyphIcon, SignIcon } from "../parts/icons.tsx";
import { RunLink } from "../parts/items.tsx";
import { keyOfQuestion, QuestionBox } from "../parts/question.tsx";
import { Command, Cost, Countdown, Duration, Elapsed, IconButton, SpentBar, State, TextArea, Trouble, useBusy, useProblem } from "../parts/small.tsx";
import { Timeline } from "../parts/timeline.tsx";
import { formatRoute, NO_FILTERS, type RunTab } from "../routes.ts";
import { RunModel } from "../run_model.ts";
import { connection as listConnection, questions, runList } from "../runs_store.ts";
import { formatClock, formatCount, formatTokens, formatUsd, projectName, shortenPath, totalTokens } from "../text/format.ts";
import { oneLine, visible } from "../text/visible.ts";
import { useTitle } from "../title.ts";
import { CallsTab, DiffTab } from "./run_tabs.tsx";
import { WorkGraph } from "./work.tsx";

const TABS: readonly (readonly [RunTab, string])[] = [
  ["timeline", "Timeline"],
  ["diff", "Diff"],
  ["cost", "Cost"],
];

export function RunPage({ run, tab, at }: { run: string; tab: RunTab; at: number | null }) {
  const model = useMemo(() => new RunModel(run), [run]);
  useEffect(() => () => model.stop(), [model]);
  useCell(model.version);
  const loaded = useCell(model.loaded);
  const details = useCell(model.details);
  const problem = useCell(model.problem);
  const replay = useCell(model.replay);
  const connection = useCell(model.connection);
  // Where nothing answers, the bar at the top says so.
  const [list, answers] = [useCell(listConnection), useCell(reachable)];
  const info = useCell(serverInfo);
  const asked = useCell(questions);
  const [drawer, setDrawer] = useState<"" | "outline" | "facts">("");
  const [jump, setJump] = useState<{ index: number; count: number } | null>(null);
  const fold = model.fold;
  const living = !model.newest.ended;
  const readOnly = info?.read_only ?? true;
  const short = details?.short ?? run;
  const prompt = details?.run.task?.prompt ?? "";
  const words = stateOf(fold, details?.started !== undefined && !loaded);
  const isWork = fold.work !== "";
  const tabs = isWork ? [TABS[0]!, ["graph", fold.work === "loop" ? "Attempts" : "Graph"] as const, ...TABS.slice(1)] : TABS;
  // The prompt of a run that is no session is no event of its log.
  const items = useMemo(() => {
    const isTold = fold.items.some((item) => item.type === "message" && item.how === "prompt") || fold.isSession;
    // Its place is there before its words are: what is below does not move.
    if (isTold || !fold.started || (details && !prompt)) return fold.items;
    return [{ type: "message", n: 0, t: fold.startedAt, id: "first", text: prompt || "…", how: "prompt" } as Item, ...fold.items];
  }, [fold, fold.last, prompt, details !== null]);
  const before = items.length - fold.items.length;
  // One that lives is followed; one that has ended is read from its beginning.
  const listed = runList.value.runs.find((each) => each.run_id === run || each.short === run);
  const isLiving = living && (details ? !details.ended : (listed?.alive ?? false));
  const commands = useMemo(() => (fold.work ? NONE : [`inspan diff ${short}`]), [fold.work, short]);
  const open = replay ? [] : openQuestions(fold, model, asked);

  useTitle(loaded ? `${replay ? "replay" : sayState(words)} · ${oneLine(prompt).slice(0, 40)}` : "");
  useSpokenState(words, Boolean(replay));
  useEffect(() => {
    if (loaded && at && !model.replay.value) model.startReplay(at);
  }, [loaded]);

  const show = (next: RunTab): void => go({ place: "run", run, tab: next, at: null });
  const toggleReplay = (): void => {
    if (replay) model.endReplay();
    else {
      model.startReplay(1);
      model.play();
      if (tab !== "timeline") show("timeline");
    }
  };
  const onJump = useRef<(index: number) => void>(() => undefined);
  const onFiles = useRef<() => void>(() => undefined);
  onJump.current = (index) => {
    setDrawer("");
    if (tab !== "timeline") show("timeline");
    setJump({ index: index + before, count: (jump?.count ?? 0) + 1 });
  };
  onFiles.current = () => {
    setDrawer("");
    show("diff");
  };
  useKeys({
    ...Object.fromEntries(tabs.map(([name], index) => [String(index + 1), () => show(name)])),
    r: toggleReplay,
    ...(drawer ? { Escape: () => setDrawer("") } : {}),
  });

  if (problem && !loaded) {
    return (
      <div class="center">
        <h1 tabIndex={-1}>This run cannot be shown</h1>
        <Trouble error={problem} />
        <p>
          <a href="/">All runs</a>
        </p>
      </div>
    );
  }
  return (
    <div class={`run ${drawer ? `drawer-${drawer}` : ""}`}>
      <header class="run-head">
        <div class="crumbs">
          <IconButton sign="menu" label="Outline" class="only-narrow" expanded={drawer === "outline"} onClick={() => setDrawer(drawer === "outline" ? "" : "outline")} />
          <a href={formatRoute({ place: "runs", filters: { ...NO_FILTERS, project: text(fold.started ?? { kind: "" }, "project") } })} class="crumb">
            {projectName(text(fold.started ?? { kind: "" }, "project")) || "runs"}
          </a>
          <span class="slash" aria-hidden="true">
            /
          </span>
          <h1 tabIndex={-1} title={prompt}>
            {oneLine(prompt) || (isWork ? fold.work : short)}
          </h1>
          <IconButton sign="facts" label="Facts" class="only-narrow" expanded={drawer === "facts"} onClick={() => setDrawer(drawer === "facts" ? "" : "facts")} />
        </div>
        <div class="run-status">
          <State words={words} />
          {fold.status === "rate_limited" && fold.state.resets_at ? <Countdown until={fold.state.resets_at} /> : null}
          <span class="run-clock">
            {fold.startedAt ? fold.ended || replay ? <Duration seconds={fold.seconds} /> : <Elapsed since={fold.startedAt} /> : null}
          </span>
          <Spending fold={fold} />
          {connection === "lost" && list !== "lost" && answers ? <span class="lost" role="status">connection lost, trying again</span> : null}
          {living && !readOnly ? <StopButton run={run} /> : null}
        </div>
      </header>
      <div class="tab-bar">
        <nav class="tabs" aria-label="Views of this run">
          {tabs.map(([name, words], index) => (
            <a key={name} href={formatRoute({ place: "run", run, tab: name, at: null })} aria-current={tab === name ? "page" : undefined} title={`${words} (${index + 1})`}>
              {words}
              {name === "diff" && fold.files.size ? <span class="count">{fold.files.size}</span> : null}
            </a>
          ))}
        </nav>
        <button type="button" class={`button button-quiet ${replay ? "on" : ""}`} aria-pressed={Boolean(replay)} onClick={toggleReplay} disabled={!loaded}>
          <SignIcon sign="replay" size={14} /> Replay
        </button>
      </div>
      <div class="run-body">
        <aside class="outline" aria-label="Outline">
          <Outline fold={fold} size={`${fold.outline.length} ${fold.files.size} ${[...fold.nodes.values()].join()}`} onJump={onJump} onFiles={onFiles} />
        </aside>
        <div class="run-main">
          {tab === "timeline" ? (
            <>
              {loaded ? (
                <Timeline
                  key={replay ? "replay" : "live"}
                  items={items}
                  living={living && !replay}
                  commands={replay ? NONE : commands}
                  cwd={text(fold.started ?? { kind: "" }, "cwd")}
                  follow={isLiving || Boolean(replay)}
                  label={replay ? "Timeline up to this event" : "Timeline"}
                  jump={jump}
                />
              ) : (
                <div class="timeline-box" aria-busy="true" />
              )}
              {replay ? <ReplayBar model={model} /> : null}
              {open.map((each, index) => (
                <QuestionBox key={keyOfQuestion(each)} asked={each} agent={text(fold.started ?? { kind: "" }, "agent")} readOnly={readOnly} keys={index === 0} />
              ))}
              {replay ? null : <Composer model={model} fold={fold} short={short} readOnly={readOnly} />}
            </>
          ) : null}
          {tab === "diff" ? <DiffTab run={run} fold={model.newest} short={short} /> : null}
          {tab === "cost" ? <CallsTab run={run} fold={fold} /> : null}
          {tab === "graph" ? <WorkGraph run={run} fold={fold} /> : null}
        </div>
        <aside class="facts" aria-label="Facts">
          <Facts model={model} fold={fold} short={short} living={isLiving && !replay} />
        </aside>
        {drawer ? <button type="button" class="drawer-back" aria-label="Close the drawer" onClick={() => setDrawer("")} /> : null}
      </div>
    </div>
  );
}

const NONE: readonly string[] = [];

function stateOf(fold: RunFold, loading: boolean): StateWords {
  if (!fold.started && loading) return { glyph: "pending", tone: "muted", word: "loading", about: "", since: 0 };
  if (fold.ended) return describeOutcome(text(fold.ended, "outcome"), text(fold.ended, "reason"));
  return describeLive(fold.state);
}

/** What the log says is asked, where the server still waits for it; in the server's own words where they are there. */
function openQuestions(fold: RunFold, model: RunModel, asked: readonly OpenQuestion[]): OpenQuestion[] {
  const id = model.details.value?.run_id ?? model.run;
  const own = [...fold.questions.values()].map(({ question, askedAt }) => ({ run_id: id, asked_at: askedAt, question }));
  const keys = new Set(own.map(keyOfQuestion));
  const known = asked.filter((each) => keys.has(keyOfQuestion(each)));
  const told = new Set(known.map(keyOfQuestion));
  return [...known, ...own.filter((each) => !told.has(keyOfQuestion(each)))];
}

function useSpokenState(words: StateWords, silent: boolean): void {
  const before = useRef("");
  useEffect(() => {
    const key = words.word;
    if (!silent && before.current && before.current !== key && key !== "loading") announce(sayState(words));
    before.current = key;
  }, [words.word, silent]);
}

function Spending({ fold }: { fold: RunFold }) {
  const ended = fold.ended;
  const money = ended
    ? { cost_usd: ended["cost_usd"] as number | null, cost_kind: ended["cost_kind"] as never, not_paid_usd: ended["not_paid_usd"] as number | null }
    : { cost_usd: fold.totals.costUsd, cost_kind: kindOf(fold), not_paid_usd: fold.totals.notPaidUsd };
  const limit = budgetOf(fold);
  return (
    <span class="spending">
      <Cost money={money} />
      {limit ? <span class="dim num">{money.cost_kind === "not_paid" ? `, budget ${limit}` : ` of ${limit}`}</span> : null}
    </span>
  );
}

function kindOf(fold: RunFold): never {
  if (!fold.isPaidFor) return "not_paid" as never;
  if (fold.totals.costUsd !== null) return (fold.totals.unpriced ? "partial" : "paid") as never;
  return (fold.totals.calls ? "unknown" : null) as never;
}

function budgetOf(fold: RunFold): string {
  const budgets = fold.started?.["budgets"];
  const own = typeof budgets === "object" && budgets !== null ? (budgets as Record<string, unknown>)["run"] : null;
  return typeof own === "string" ? own.replace(/^([\d.]+)usd\b/, "$$$1") : "";
}

function StopButton({ run }: { run: string }) {
  const [asked, setAsked] = useState(false);
  const [problem, setProblem] = useState("");
  const stop = (): void => {
    setProblem("");
    post(`/runs/${encodeURIComponent(run)}/stop`, { now: asked }).catch((error: unknown) => setProblem(String((error as Error).message)));
    setAsked(true);
    announce(asked ? "Stopping by force" : "Asked to stop");
  };
  return (
    <>
      {problem ? <span class="field-problem" role="alert">{problem}</span> : null}
      <button type="button" class="button button-stop" onClick={stop} title={asked ? "It was asked politely: end it by force" : "Ask it to end"}>
        <SignIcon sign="stop" size={12} /> {asked ? "Stop by force" : "Stop"}
      </button>
    </>
  );
}

const OUTLINE_GLYPHS = { message: "idle", question: "person", failure: "failed", attempt: "idle", node: "idle", end: "stopped", text: "idle" } as const;
const NODE_GLYPHS: Readonly<Record<string, Glyph>> = { running: "working", success: "done", failed: "failed", skipped: "skipped" };
const MOST_ENTRIES = 300;

interface OutlineProps {
  fold: RunFold;
  /** What it is drawn from, counted: only what is new is a reason to draw it again. */
  size: string;
  onJump: { current: (index: number) => void };
  onFiles: { current: () => void };
}

const Outline = memo(({ fold, onJump, onFiles }: OutlineProps) => {
  const entries = useMemo(() => pickEntries(fold.outline), [fold, fold.outline.length]);
  const cwd = text(fold.started ?? { kind: "" }, "cwd");
  const files = [...fold.files].slice(0, MOST_ENTRIES);
  return (
    <>
      <h2>Outline</h2>
      {entries.length ? (
        <ol>
          {entries.map((entry) => (
            <li key={entry.n} class={`outline-${entry.type}`}>
              <button type="button" onClick={() => onJump.current(entry.index)}>
                <GlyphIcon glyph={entry.type === "node" ? (NODE_GLYPHS[fold.nodes.get(entry.label) ?? ""] ?? "idle") : OUTLINE_GLYPHS[entry.type]} />
                <span>{oneLine(entry.label).slice(0, 120)}</span>
              </button>
            </li>
          ))}
        </ol>
      ) : (
        <p class="dim">Nothing yet.</p>
      )}
      {files.length ? (
        <>
          <h2>
            Files <span class="count">{fold.files.size}</span>
          </h2>
          <ul>
            {files.map(([path, change]) => (
              <li key={path}>
                <button type="button" onClick={() => onFiles.current()} title={path}>
                  <span class={`change change-${change}`} aria-hidden="true" />
                  <code>{visible(path.startsWith(`${cwd}/`) ? path.slice(cwd.length + 1) : path)}</code>
                  <span class="unseen"> {change}</span>
                </button>
              </li>
            ))}
          </ul>
        </>
      ) : null}
    </>
  );
});

/** Of a long run what stands out, and now and then what was said: an outline has an end. */
function pickEntries(outline: readonly OutlineEntry[]): readonly OutlineEntry[] {
  if (outline.length <= MOST_ENTRIES) return [...outline];
  const marked = outline.filter((entry) => entry.type !== "text").slice(-MOST_ENTRIES);
  const said = outline.filter((entry) => entry.type === "text");
  const every = Math.ceil(said.length / Math.max(1, MOST_ENTRIES - marked.length));
  return [...marked, ...said.filter((_, index) => index % every === 0)].sort((a, b) => a.n - b.n);
}

const ACCESS: Readonly<Record<string, string>> = {
  full: "everything that you may do",
  allowed_tools: "the tools that it was given",
  sandbox: "what its sandbox allows",
  read_only: "read only",
  read_only_sandbox: "read only, in a sandbox",
  no_tools: "no tools",
  remote: "as a remote service decides",
};

function Facts({ model, fold, short, living }: { model: RunModel; fold: RunFold; short: string; living: boolean }) {
  const details = model.details.value;
  const start = fold.started ?? { kind: "" };
  const read = (name: string): string => text(start, name);
  const used = fold.usage;
  const budgets = Object.entries((start["budgets"] as Record<string, string> | undefined) ?? {});
  const asks = Array.isArray(start["ask"]) ? (start["ask"] as string[]) : [];
  return (
    <>
      <h2>Facts</h2>
      <dl>
        <Fact name="agent">
          {read("agent")} <span class="dim">{read("agent_version")}</span>
        </Fact>
        <Fact name="model">{fold.model}</Fact>
        <Fact name="mode">{read("mode") === "exec" ? "" : read("mode")}</Fact>
        <Fact name="folder">
          <code title={read("cwd")}>{shortenPath(read("cwd"), 34)}</code>
        </Fact>
        <Fact name="worktree of">{read("worktree_of") ? <code>{shortenPath(read("worktree_of"), 34)}</code> : null}</Fact>
        <Fact name="branch">{read("branch")}</Fact>
        <Fact name="may use">{ACCESS[read("access")] ?? read("access")}</Fact>
        <Fact name="sandbox">{read("sandbox") && read("sandbox") !== "none" ? read("sandbox") : ""}</Fact>
        <Fact name="network">{read("net")}</Fact>
        <Fact name="asks about">{asks.join(" ")}</Fact>
        <Fact name={read("credential").startsWith("model from ") ? "model by" : "key"}>{read("credential").replace(/^model from /, "")}</Fact>
        <Fact name="budget">{budgets.map(([node, limit]) => `${limit} (${node})`).join(", ")}</Fact>
        <Fact name="ends after">{typeof start["timeout_s"] === "number" ? (
            <>
              <Duration seconds={start["timeout_s"]} /> {asks.length || fold.spent.person ? <span class="dim">waiting for you not counted</span> : null}
            </>
          ) : null}</Fact>
      </dl>
      <h2>Used</h2>
      <dl>
        <Fact name="tokens">
          {totalTokens(used) ? (
            <span class="num" title={`${formatCount(totalTokens(used))} tokens`}>
              {formatTokens(totalTokens(used))}
              <span class="dim">
                {" "}
                {formatTokens(used.input ?? 0)} in, {formatTokens(used.cache_read ?? 0)} cached, {formatTokens(used.output ?? 0)} out
              </span>
            </span>
          ) : null}
        </Fact>
        <Fact name="would have cost">{fold.totals.notPaidUsd ? <span class="num">{formatUsd(fold.totals.notPaidUsd)}</span> : null}</Fact>
        <Fact name="model calls">{fold.totals.calls ? <span class="num">{formatCount(fold.totals.calls)}</span> : null}</Fact>
        <Fact name="tools">
          {fold.totals.tools ? (
            <span class="num">
              {formatCount(fold.totals.tools)}
              {fold.totals.failedTools ? <span class="dim">, {formatCount(fold.totals.failedTools)} failed</span> : null}
            </span>
          ) : null}
        </Fact>
      </dl>
      <Spent fold={fold} living={living} />
      <h2>Run</h2>
      <dl>
        <Fact name="name">{details?.name}</Fact>
        <Fact name="run">
          <code title={details?.run_id}>{short}</code>
        </Fact>
        <Fact name="started">{fold.startedAt ? <span class="num">{new Date(fold.startedAt * 1000).toLocaleDateString()} {formatClock(fold.startedAt)}</span> : null}</Fact>
        <Fact name="session">{fold.sessionId ? <code class="long" title={fold.sessionId}>{fold.sessionId}</code> : null}</Fact>
        <Fact name="resumes">{read("resumes") ? <code class="long">{read("resumes")}</code> : null}</Fact>
        <Fact name="part of">{read("parent") ? <RunLink run={read("parent")} text={read("parent").slice(0, 8)} /> : null}</Fact>
        <Fact name="continues">{read("continues") ? <RunLink run={read("continues")} text="an earlier run" /> : null}</Fact>
        <Fact name="events">
          <span class="num">{formatCount(fold.last)}</span>
        </Fact>
      </dl>
      <div class="facts-commands">
        <Command text={`inspan logs ${short}`} />
      </div>
    </>
  );
}

/** What the time went to, up to now. */
function Spent({ fold, living }: { fold: RunFold; living: boolean }) {
  const now = useNow();
  return <SpentBar spent={living ? fold.spentUntil(now) : fold.spent} legend />;
}

function Fact({ name, children }: { name: string; children?: preact.ComponentChildren }) {
  if (children === null || children === undefined || children === "") return null;
  return (
    <div>
      <dt>{name}</dt>
      <dd>{typeof children === "string" ? visible(children) : children}</dd>
    </div>
  );
}

const SPEEDS = [1, 4, 16, 64] as const;

function ReplayBar({ model }: { model: RunModel }) {
  const replay = useCell(model.replay);
  const newest = model.newest;
  useKeys({
    " ": () => (model.replay.value?.playing ? model.pause() : model.play()),
    ArrowLeft: () => move(-1),
    ArrowRight: () => move(1),
    Escape: () => model.endReplay(),
  });
  const move = (by: number): void => {
    model.pause();
    model.seek((model.replay.value?.at ?? 1) + by);
  };
  if (!replay) return null;
  const record = model.records[replay.at - 1];
  return (
    <section class="replay" aria-label="Replay">
      <IconButton sign={replay.playing ? "pause" : "play"} label={replay.playing ? "Pause" : "Play"} onClick={() => (replay.playing ? model.pause() : model.play())} />
      <input
        type="range"
        min={1}
        max={Math.max(1, newest.last)}
        value={replay.at}
        aria-label="Event"
        aria-valuetext={`event ${replay.at} of ${newest.last}${record ? `, ${record.event.kind.replaceAll("_", " ")}` : ""}`}
        onInput={(event) => {
          model.pause();
          model.seek(Number(event.currentTarget.value));
        }}
      />
      <span class="replay-at num">
        {formatCount(replay.at)} / {formatCount(newest.last)}
        <span class="dim replay-clock"> {record ? formatClock(record.t) : ""}</span>
      </span>
      <label class="chip">
        <span class="unseen">Speed</span>
        <select value={replay.speed} onChange={(event) => model.setSpeed(Number(event.currentTarget.value))}>
          {SPEEDS.map((speed) => (
            <option key={speed} value={speed}>
              {speed}×
            </option>
          ))}
        </select>
      </label>
      <button type="button" class="button" onClick={() => model.endReplay()}>
        {newest.ended ? "Done" : "Back to live"}
      </button>
    </section>
  );
}

function Composer({ model, fold, short, readOnly }: { model: RunModel; fold: RunFold; short: string; readOnly: boolean }) {
  const [said, setSaid] = useState("");
  const [busy, begin] = useBusy();
  const [problem, setProblem] = useProblem();
  const base = `/runs/${encodeURIComponent(model.run)}`;
  if (fold.work || !fold.started) return null;
  if (fold.ended) {
    return readOnly ? null : (
      <div class="composer composer-note">
        <span class="dim">It has ended. {fold.isResumable ? "Go on in its session, or give the task again:" : "The same task can be given again:"}</span>
        {fold.isResumable ? <Command text={`inspan resume ${short} "…"`} /> : null}
        <a class="button" href={formatRoute({ place: "start", from: model.run })}>
          Start again
        </a>
      </div>
    );
  }
  if (!fold.isSession) {
    return (
      <div class="composer composer-note">
        <span class="dim">This run has one prompt and takes no messages. A session does: start one with “keep it open”.</span>
      </div>
    );
  }
  if (readOnly) return <div class="composer composer-note dim">This server is read-only.</div>;
  const idle = fold.status === "idle" || fold.status === "error";
  const act = (path: string, body: unknown, done: string): void => {
    begin(() => {
      setProblem(null);
      return post(`${base}/${path}`, body)
        .then(() => announce(done))
        .catch(setProblem);
    });
  };
  const send = (when: "queue" | "steer"): void => {
    if (!said.trim()) return;
    begin(() => {
      setProblem(null);
      return post(`${base}/messages`, { text: said, when, id: makeId() })
        .then(() => setSaid(""))
        .catch(setProblem);
    });
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send("queue");
      }}
    >
      {problem ? <Trouble error={problem} /> : null}
      <TextArea
        label="Message to the agent"
        placeholder={idle ? "Say something to the agent" : "Say something: it waits for its turn, or steers the running one"}
        value={said}
        onInput={setSaid}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            send("queue");
          }
        }}
      />
      <div class="buttons">
        <button type="submit" class="button button-main" disabled={busy || !said.trim()}>
          {idle ? "Send" : "Queue"}
        </button>
        {idle ? null : (
          <button type="button" class="button" disabled={busy || !said.trim()} title="Into the running turn, where the agent can hear it" onClick={() => send("steer")}>
            Steer
          </button>
        )}
        <span class="grow" />
        {fold.state.queued?.length ? <span class="dim">{fold.state.queued.length} waiting</span> : null}
        {idle ? null : (
          <button type="button" class="button" disabled={busy} title="End the running turn; the session stays" onClick={() => act("interrupt", {}, "Interrupted")}>
            Interrupt
          </button>
        )}
        <button type="button" class="button" disabled={busy} title="End the session once every message is answered" onClick={() => act("close", {}, "Closing")}>
          Close
        </button>
      </div>
    </form>
  );
}

/** An id that is our own, so that a message that is sent again is known. */
export function makeId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  return `web-${[...bytes].map((each) => each.toString(16).padStart(2, "0")).join("")}`;
}
