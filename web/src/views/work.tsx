// Runs that are made of runs: a blueprint as its graph, a loop as its attempts.
import { useEffect, useState } from "preact/hooks";
import { get } from "../api/client.ts";
import type { BlueprintGraph, CheckResult } from "../api/values.ts";
import { text } from "../folds/fields.ts";
import type { AttemptItem, CheckItem, NodeItem } from "../folds/items.ts";
import type { RunFold } from "../folds/run_view.ts";
import { describeOutcome, type Glyph, type Tone } from "../folds/state_words.ts";
import { layOut } from "../graph.ts";
import { go } from "../navigate.ts";
import { Output } from "../parts/code.tsx";
import { GlyphIcon } from "../parts/icons.tsx";
import { RunLink } from "../parts/items.tsx";
import { Duration, Elapsed, State, Trouble } from "../parts/small.tsx";
import { runAddress } from "../routes.ts";
import { formatDuration } from "../text/format.ts";
import { oneLine, visible } from "../text/visible.ts";

export function WorkGraph({ run, fold }: { run: string; fold: RunFold }) {
  return fold.work === "blueprint" ? <Blueprint run={run} fold={fold} /> : <Loop fold={fold} />;
}

const WIDTH = 200;
const HEIGHT = 56;
const GAP_X = 40;
const GAP_Y = 20;
const MARGIN = 16;

const NODES: Readonly<Record<string, readonly [Glyph, Tone, string]>> = {
  "": ["pending", "muted", "not begun"],
  running: ["working", "accent", "running"],
  success: ["done", "success", "success"],
  failed: ["failed", "failure", "failed"],
  skipped: ["skipped", "muted", "skipped"],
};

function Blueprint({ run, fold }: { run: string; fold: RunFold }) {
  const [graph, setGraph] = useState<BlueprintGraph | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  const [chosen, setChosen] = useState("");
  useEffect(() => {
    get<BlueprintGraph>(`/blueprints/${encodeURIComponent(run)}`).then(setGraph, setProblem);
  }, [run]);
  if (problem) return <div class="tab"><Trouble error={problem} /></div>;
  if (!graph) return <div class="tab" aria-busy="true" />;
  const layout = layOut(graph.order, graph.needs);
  const x = (column: number): number => MARGIN + column * (WIDTH + GAP_X);
  const y = (row: number): number => MARGIN + row * (HEIGHT + GAP_Y);
  const width = x(layout.columns - 1) + WIDTH + MARGIN;
  const height = y(layout.rows - 1) + HEIGHT + MARGIN;
  const places = new Map(layout.nodes.map((node) => [node.name, node]));
  // What was told since is newer than what the server said at first; in a replay the log alone counts.
  const statusOf = (name: string): string => fold.nodes.get(name) ?? (fold.ended ? (graph.statuses[name] ?? "") : "");
  const items = new Map(fold.items.flatMap((item) => (item.type === "node" ? [[item.node, item] as const] : [])));
  const item = items.get(chosen);
  return (
    <div class="tab">
      <div class="graph-scroll" tabIndex={0} role="region" aria-label="Graph of the blueprint">
        <svg class="graph" width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="group" aria-label={`Blueprint of ${graph.order.length} nodes`}>
          {layout.edges.map(({ from, to, via }) => {
            const [start, end] = [places.get(from), places.get(to)];
            if (!start || !end) return null;
            const middle = (row: number): number => y(row) + HEIGHT / 2;
            let [at, d] = [middle(start.row), `M${x(start.column) + WIDTH} ${middle(start.row)}`];
            for (const stop of [...via, end]) {
              const [left, right, next] = [x(stop.column) - GAP_X, x(stop.column), middle(stop.row)];
              d += `C${left + GAP_X / 2} ${at} ${right - GAP_X / 2} ${next} ${stop === end ? right - 6 : right} ${next}`;
              if (stop !== end) d += `H${right + WIDTH}`;
              at = next;
            }
            const done = statusOf(from) === "success";
            return (
              <g key={`${from} ${to}`} class={done ? "edge edge-done" : "edge"}>
                <path d={d} fill="none" />
                <path class="arrow" d={`M${x(end.column)} ${at}l-7-4v8Z`} />
              </g>
            );
          })}
          {layout.nodes.map((node) => {
            const status = statusOf(node.name);
            const about = graph.nodes[node.name];
            const asks = about?.kind === "person" && status === "running";
            const [glyph, tone, word] = asks ? (["person", "attention", "needs you"] as const) : (NODES[status] ?? NODES[""]!);
            const told = items.get(node.name);
            const tail = `${about?.kind ?? ""} · ${word}${told?.seconds ? ` · ${formatDuration(told.seconds)}` : ""}`;
            return (
              <g
                key={node.name}
                class={`node tone-${tone} ${chosen === node.name ? "chosen" : ""} node-${status || "pending"}`}
                transform={`translate(${x(node.column)} ${y(node.row)})`}
                role="button"
                tabIndex={0}
                aria-pressed={chosen === node.name}
                onClick={() => setChosen(chosen === node.name ? "" : node.name)}
                onKeyDown={(event) => {
                  if (event.key !== "Enter" && event.key !== " ") return;
                  event.preventDefault();
                  event.stopPropagation();
                  setChosen(chosen === node.name ? "" : node.name);
                }}
                onDblClick={() => told?.run && go(runAddress(told.run))}
              >
                <rect width={WIDTH} height={HEIGHT} rx="6" />
                <svg x="12" y="12" width="14" height="14">
                  <GlyphIcon glyph={glyph} />
                </svg>
                <text class="node-name" x="34" y="24">
                  {cut(visible(node.name), 20)}
                </text>{" "}
                <text class="node-does" x="12" y="44">
                  {tail}
                </text>
              </g>
            );
          })}
        </svg>
      </div>
      {chosen ? <NodeFacts name={chosen} graph={graph} item={item} /> : <p class="dim">Choose a node to see what it does and what it gave.</p>}
      <div class="unseen">
        <h2>Nodes in order</h2>
        <ul>
          {graph.order.map((name) => (
            <li key={name}>
              {name}: {graph.nodes[name]?.kind}, {(NODES[statusOf(name)] ?? NODES[""]!)[2]}
              {graph.needs[name]?.length ? `, needs ${graph.needs[name].join(", ")}` : ""}
            </li>
          ))}
        </ul>
      </div>
    </div>
  );
}

function NodeFacts({ name, graph, item }: { name: string; graph: BlueprintGraph; item: NodeItem | undefined }) {
  const about = graph.nodes[name];
  const [open, setOpen] = useState(true);
  return (
    <section class="node-facts" aria-label={`Node ${name}`}>
      <h2>{visible(name)}</h2>
      <p class="dim">
        {about?.kind}
        {graph.needs[name]?.length ? `, needs ${visible(graph.needs[name].join(", "))}` : ""}
        {item?.round && item.round > 1 ? `, round ${item.round}` : ""}
      </p>
      {about?.does ? <pre class="does">{visible(about.does)}</pre> : null}
      {item?.error ? <p class="field-problem">{visible(item.error)}</p> : null}
      {item?.output ? <Output text={item.output} open={open} failed={item.status === "failed"} onToggle={() => setOpen(!open)} /> : null}
      {item?.run ? <RunLink run={item.run} text="open its run" /> : null}
    </section>
  );
}

function cut(words: string, most: number): string {
  return words.length <= most ? words : `${words.slice(0, most - 1)}…`;
}

interface Shown {
  started: AttemptItem;
  checks: CheckItem[];
}

/** Attempts under each other, each with its run, its checks, and what was made of them. */
function Loop({ fold }: { fold: RunFold }) {
  const shown: Shown[] = [];
  for (const item of fold.items) {
    if (item.type === "attempt") shown.push({ started: item, checks: [] });
    else if (item.type === "check") shown.at(-1)?.checks.push(item);
  }
  const ended = fold.ended;
  return (
    <div class="tab">
      {shown.length ? null : <p class="dim">No attempt has begun yet.</p>}
      <ol class="attempts">
        {shown.map(({ started, checks }) => {
          const words = started.endedAt === null ? null : describeOutcome(started.outcome, started.reason);
          const passed = checks.length > 0 && checks.every((each) => each.result?.passed);
          return (
            <li key={started.n} class={`attempt ${passed ? "attempt-passed" : ""}`}>
              <div class="attempt-head">
                <span class="attempt-number num">{started.attempt}</span>
                <b>{visible(started.agent)}</b>
                <State words={words ?? { glyph: "working", tone: "accent", word: "working", about: "", since: started.t }} />
                <span class="grow" />
                {started.endedAt === null ? fold.ended ? null : <Elapsed since={started.t} /> : <Duration seconds={started.endedAt - started.t} />}
                <RunLink run={started.run} />
              </div>
              {started.message ? <p class="next">{visible(started.message)}</p> : null}
              <ul class="checks">
                {checks.map((check) => (
                  <Check key={check.n} check={check.check} result={check.result} />
                ))}
              </ul>
            </li>
          );
        })}
      </ol>
      {ended ? (
        <p class="loop-end">
          <State words={describeOutcome(text(ended, "outcome"), text(ended, "reason"))} /> <span>{visible(text(ended, "message"))}</span>
        </p>
      ) : null}
    </div>
  );
}

function Check({ check, result }: { check: string; result: CheckResult | null }) {
  const [open, setOpen] = useState(false);
  const tone = !result ? "accent" : result.passed ? "success" : "failure";
  return (
    <li>
      <div class="line">
        <span class={`line-glyph tone-${tone}`}>
          <GlyphIcon glyph={!result ? "working" : result.passed ? "done" : "failed"} />
        </span>
        <div class="line-body">
          <code>{oneLine(check)}</code>
        </div>
        <span class="line-side">
          {result ? <span class={`tone-${tone}`}>{result.passed ? "passed" : result.timed_out ? "ran out of time" : `exit ${result.exit_code ?? "?"}`}</span> : "checking"}
          {result ? <Duration seconds={result.duration_s ?? 0} /> : null}
        </span>
      </div>
      {result?.output && !result.passed ? <Output text={result.output} open={open} failed onToggle={() => setOpen(!open)} /> : null}
    </li>
  );
}

