// All runs: those that need a person first, then everything else, one dense line each.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { serverInfo } from "../api/client.ts";
import type { OpenQuestion, RunInfo } from "../api/values.ts";
import { memo, useCell } from "../cell.ts";
import { useNow } from "../clock.ts";
import { describeRun, needsPerson } from "../folds/state_words.ts";
import { useKeys } from "../keys.ts";
import { go } from "../navigate.ts";
import { SignIcon } from "../parts/icons.tsx";
import { keyOfQuestion, QuestionBox } from "../parts/question.tsx";
import { Command, Cost, Duration, Elapsed, Empty, SpentBar, State, Trouble } from "../parts/small.tsx";
import { type Filters, formatRoute, NO_FILTERS, runAddress } from "../routes.ts";
import { loadMore, questions, refreshSoon, runList, setFilters } from "../runs_store.ts";
import { formatAgo, formatCount, projectName } from "../text/format.ts";
import { oneLine } from "../text/visible.ts";

const STATES = [
  ["waiting", "needs you"],
  ["living", "living"],
  ["completed", "completed"],
  ["failed", "failed"],
  ["limited", "limited"],
  ["timed_out", "timed out"],
  ["denied", "denied"],
  ["cancelled", "stopped"],
  ["lost", "lost"],
] as const;

export function RunsPage({ filters }: { filters: Filters }) {
  const list = useCell(runList);
  const asked = useCell(questions);
  const info = useCell(serverInfo);
  const [chosen, setChosen] = useState("");
  const [marked, setMarked] = useState<readonly string[]>([]);
  useEffect(() => setFilters(filters), [filters]);

  const needs = useKeptOrder(list.runs.filter(needsPerson));
  const rest = filters.state === "waiting" ? [] : list.runs.filter((run) => !needsPerson(run));
  const shown = [...needs, ...rest];
  const at = shown.findIndex((run) => run.run_id === chosen);
  const current = shown[at];
  const mark = (id: string): void => {
    const next = marked.includes(id) ? marked.filter((each) => each !== id) : [...marked.slice(-1), id];
    setMarked(next);
  };
  const move = (by: number): void => {
    const next = shown[Math.max(0, Math.min(shown.length - 1, at < 0 ? 0 : at + by))];
    if (!next) return;
    setChosen(next.run_id);
    const row = document.getElementById(`run-${next.run_id}`);
    row?.focus({ preventScroll: true });
    // With what it asks, which takes an answer where it can be seen.
    (row?.closest(".need") ?? row)?.scrollIntoView({ block: "nearest" });
  };
  const question = current && asked.find((each) => each.run_id === current.run_id);
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    Enter: () => current && go(runAddress(current.run_id)),
    c: () => current && mark(current.run_id),
    // What is more than a yes is answered where there is room for it; a yes or no is the card's own.
    ...(question?.question.kind === "question_asked" ? { a: () => go(runAddress(question.run_id)) } : {}),
  });

  const isFiltered = Object.values(filters).some(Boolean);
  const pair = marked.length === 2 ? formatRoute({ place: "compare", a: marked[0] ?? "", b: marked[1] ?? "" }) : "";
  return (
    <div class="runs">
      <h1 class="unseen" tabIndex={-1}>
        Runs
      </h1>
      <FilterBar filters={filters} runs={list.runs} />
      {list.problem && !list.loaded ? <Trouble error={list.problem} again={() => refreshSoon(0)} /> : null}
      {needs.length ? (
        <section class="needs" aria-labelledby="needs-title">
          <h2 id="needs-title">
            Needs you <span class="count">{needs.length}</span>
          </h2>
          <ul class="rows">
            {needs.map((run) => (
              <NeedsRow
                key={run.run_id}
                run={run}
                asked={asked.filter((each) => each.run_id === run.run_id)}
                chosen={run.run_id === chosen}
                readOnly={info?.read_only ?? false}
              />
            ))}
          </ul>
        </section>
      ) : null}
      {!list.loaded && !list.problem ? <Waiting /> : null}
      {list.loaded && rest.length ? (
        <section aria-labelledby="all-title">
          <h2 id="all-title">
            {needs.length ? "Others" : "All"} <span class="count">{countOf(list, needs.length)}</span>
          </h2>
          <ul class="rows rows-all">
            {rest.map((run) => (
              <Row key={run.run_id} run={run} chosen={run.run_id === chosen} marked={marked.includes(run.run_id)} onMark={mark} />
            ))}
          </ul>
          {list.next ? (
            <button type="button" class="button more" onClick={() => void loadMore()}>
              Show older runs
            </button>
          ) : null}
        </section>
      ) : null}
      {list.loaded && !shown.length ? <NothingHere filtered={isFiltered} readOnly={info?.read_only ?? false} /> : null}
      {marked.length ? (
        <div class="tray" role="status">
          <span>{marked.length === 1 ? "Choose one more to compare" : "Two runs chosen"}</span>
          {pair ? (
            <a class="button button-main" href={pair}>
              Compare
            </a>
          ) : null}
          <button type="button" class="button" onClick={() => setMarked([])}>
            Clear
          </button>
        </div>
      ) : null}
    </div>
  );
}

/** Who has waited longest stands first, and whoever comes later below those that are there, which stay where they are. */
function useKeptOrder(runs: readonly RunInfo[]): RunInfo[] {
  const places = useRef<readonly string[]>([]);
  const found = new Map(runs.map((run) => [run.run_id, run]));
  const kept = places.current.filter((id) => found.has(id));
  const fresh = runs.filter((run) => !kept.includes(run.run_id)).sort((a, b) => (a.state?.since ?? 0) - (b.state?.since ?? 0));
  places.current = [...kept, ...fresh.map((run) => run.run_id)];
  return places.current.flatMap((id) => found.get(id) ?? []);
}

/** How many stand below; where the server does not say, those that are loaded, and whether there are more. */
function countOf({ total, runs, next }: { total: number | null; runs: readonly RunInfo[]; next: string | null }, above: number): string {
  return `${formatCount((total ?? runs.length) - above)}${total === null && next ? "+" : ""}`;
}

function FilterBar({ filters, runs }: { filters: Filters; runs: readonly RunInfo[] }) {
  const set = (change: Partial<Filters>): void => go({ place: "runs", filters: { ...filters, ...change } }, { replace: true });
  const [typed, setTyped] = useState(filters.search);
  useEffect(() => setTyped(filters.search), [filters.search]);
  useEffect(() => {
    if (typed === filters.search) return;
    const timer = window.setTimeout(() => set({ search: typed }), 250);
    return () => window.clearTimeout(timer);
  }, [typed]);
  const projects = useNames(runs, filters.project, (run) => run.project);
  const agents = useNames(runs, filters.agent, (run) => run.agent);
  return (
    <div class="filters" role="search">
      <label class="search">
        <SignIcon sign="search" size={14} />
        <span class="unseen">Search prompts</span>
        <input
          type="search"
          placeholder="Search prompts"
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
          onKeyDown={(event) => event.key === "Enter" && event.currentTarget.blur()}
        />
        <kbd>/</kbd>
      </label>
      <Chip label="project" value={filters.project} values={projects.map((name) => [name, projectName(name)] as const)} onPick={(project) => set({ project })} />
      <Chip label="agent" value={filters.agent} values={agents.map((name) => [name, name] as const)} onPick={(agent) => set({ agent })} />
      <Chip label="state" value={filters.state} values={STATES} onPick={(state) => set({ state })} />
      {Object.values(filters).some(Boolean) ? (
        <a class="clear" href={formatRoute({ place: "runs", filters: NO_FILTERS })}>
          clear
        </a>
      ) : null}
    </div>
  );
}

/** Every name that was seen since the page was opened: a filter must not hide the others to choose. */
function useNames(runs: readonly RunInfo[], chosen: string, read: (run: RunInfo) => string): string[] {
  const seen = useMemo(() => new Set<string>(), []);
  for (const run of runs) seen.add(read(run));
  if (chosen) seen.add(chosen);
  return [...seen].filter(Boolean).sort();
}

function Chip(props: { label: string; value: string; values: readonly (readonly [string, string])[]; onPick: (value: string) => void }) {
  return (
    <label class={`chip ${props.value ? "chip-on" : ""}`}>
      <span>{props.label}</span>
      <select value={props.value} onChange={(event) => props.onPick(event.currentTarget.value)}>
        <option value="">any</option>
        {props.values.map(([value, words]) => (
          <option key={value} value={value}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
}

const WORKS = { loop: "loop", blueprint: "blueprint", "": "" } as const;

const Row = memo(({ run, chosen, marked, onMark }: { run: RunInfo; chosen: boolean; marked: boolean; onMark: (id: string) => void }) => {
  const words = describeRun(run);
  const work = WORKS[run.work ?? ""];
  return (
    <li class={`row ${chosen ? "chosen" : ""} ${run.alive ? "row-living" : ""}`}>
      <label class="row-mark" title="Choose, to compare two">
        <input type="checkbox" checked={marked} aria-label={`Choose ${run.short ?? ""} ${oneLine(run.prompt).slice(0, 60)} to compare`} onChange={() => onMark(run.run_id)} />
      </label>
      <a id={`run-${run.run_id}`} class="row-link" href={runAddress(run.run_id)}>
        <span class="row-state">
          <State words={{ ...words, about: "" }} />
        </span>
        <span class="row-prompt">
          {run.name ? <b class="row-name">{oneLine(run.name)}</b> : null}
          {work ? <span class="tag">{work}</span> : null}
          <span class="prompt">{oneLine(run.prompt) || <i class="dim">no prompt</i>}</span>
          {words.about ? <span class="row-about">{words.about}</span> : null}
        </span>
        <span class="row-agent">{run.agent}</span>
        <span class="row-project">{projectName(run.project)}</span>
        <span class="row-when">
          <When at={run.started_at} />
        </span>
        <span class="row-time">
          {run.alive ? <Elapsed since={run.started_at} /> : <Duration seconds={run.duration_s} />}
          {"spent_s" in run ? <SpentBar spent={run.spent_s as never} /> : null}
        </span>
        <span class="row-cost">
          <Cost money={run} />
        </span>
      </a>
    </li>
  );
});

function NeedsRow(props: { run: RunInfo; asked: readonly OpenQuestion[]; chosen: boolean; readOnly: boolean }) {
  const { run } = props;
  return (
    <li class={`need ${props.chosen ? "chosen" : ""}`}>
      <a id={`run-${run.run_id}`} class="need-head" href={runAddress(run.run_id)}>
        <span class="prompt">{oneLine(run.prompt)}</span>
        <span class="dim">
          {run.agent} · {projectName(run.project)}
        </span>
      </a>
      {props.asked.map((each, index) => (
        <QuestionBox key={keyOfQuestion(each)} asked={each} agent={run.agent} readOnly={props.readOnly} keys={props.chosen && index === 0} />
      ))}
      {props.asked.length ? null : <State words={describeRun(run)} />}
    </li>
  );
}

function When({ at }: { at: number }) {
  const now = useNow();
  return <span title={new Date(at * 1000).toLocaleString()}>{formatAgo(now - at)}</span>;
}

function Waiting() {
  return (
    <ul class="rows" aria-label="Loading" aria-busy="true">
      {Array.from({ length: 6 }, (_, index) => (
        <li key={index} class="row row-waiting" />
      ))}
    </ul>
  );
}

function NothingHere({ filtered, readOnly }: { filtered: boolean; readOnly: boolean }) {
  if (filtered) {
    return (
      <Empty title="No run is like that">
        <p>
          Ended runs that were removed are not found. <a href={formatRoute({ place: "runs", filters: NO_FILTERS })}>Show all runs</a>
        </p>
      </Empty>
    );
  }
  return (
    <Empty title="No runs yet">
      <p>Whatever is started on this machine appears here by itself. Type one of these in a project of yours:</p>
      <ul class="commands">
        <li>
          <Command text="inspan demo" /> <span class="dim">a real agent fixes a test: no key, no account</span>
        </li>
        <li>
          <Command text={'inspan "explain what this project does"'} /> <span class="dim">with your own agent</span>
        </li>
        <li>
          <Command text="inspan doctor" /> <span class="dim">what works on this machine, and what is missing</span>
        </li>
      </ul>
      {readOnly ? null : (
        <p>
          Or <a href="/start">start one here</a> <kbd>n</kbd>
        </p>
      )}
    </Empty>
  );
}
