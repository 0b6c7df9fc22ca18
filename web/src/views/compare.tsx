// Two runs beside each other: who did what, in which time, for how much.
import { useEffect, useState } from "preact/hooks";
import { get } from "../api/client.ts";
import type { RunDetails, RunDiff } from "../api/values.ts";
import { text } from "../folds/fields.ts";
import type { RunFold } from "../folds/run_view.ts";
import { describeLive, describeOutcome } from "../folds/state_words.ts";
import { Diff } from "../parts/diff.tsx";
import { Counts } from "../parts/items.tsx";
import { Cost, Duration, Empty, SpentBar, State, Trouble } from "../parts/small.tsx";
import { Timeline } from "../parts/timeline.tsx";
import { runAddress } from "../routes.ts";
import { loadFold } from "../run_model.ts";
import { formatCount, formatTokens, projectName, totalTokens } from "../text/format.ts";
import { oneLine } from "../text/visible.ts";
import { useTitle } from "../title.ts";

interface Side {
  fold: RunFold;
  details: RunDetails;
  diff: RunDiff | null;
}

const PARTS = [
  ["facts", "Facts"],
  ["diff", "Diffs"],
  ["timeline", "Timelines"],
] as const;

export function ComparePage({ a, b }: { a: string; b: string }) {
  const [sides, setSides] = useState<readonly [Side, Side] | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  const [part, setPart] = useState<(typeof PARTS)[number][0]>("diff");
  useTitle("compare");
  useEffect(() => {
    if (!a || !b) return;
    Promise.all([loadSide(a), loadSide(b)]).then(setSides, setProblem);
  }, [a, b]);
  if (!a || !b) {
    return (
      <Empty title="Choose two runs" first>
        <p>
          In the <a href="/">list</a>, mark two runs with their boxes, or with the key <kbd>c</kbd>. To have several
          agents do the same task:
        </p>
        <p>
          <code>inspan compare "…" --check …</code>
        </p>
      </Empty>
    );
  }
  if (problem) return <div class="page"><Trouble error={problem} /></div>;
  if (!sides) return <div class="page" aria-busy="true"><h1 tabIndex={-1}>Compare</h1></div>;
  return (
    <div class="page compare">
      <h1 tabIndex={-1}>Compare</h1>
      <p class="compare-same">{samePrompt(sides) || "These two runs were given different tasks."}</p>
      <Facts sides={sides} />
      <nav class="tabs" aria-label="What is compared">
        {PARTS.slice(1).map(([name, words]) => (
          <button key={name} type="button" aria-pressed={part === name} class={part === name ? "on" : ""} onClick={() => setPart(part === name ? "facts" : name)}>
            {words}
          </button>
        ))}
      </nav>
      {part === "facts" ? null : (
        <div class="beside">
          {sides.map((side) => (
            <section key={side.details.run_id} class="beside-side" aria-label={nameOf(side)}>
              <h2>
                <a href={runAddress(side.details.run_id)}>{nameOf(side)}</a>
              </h2>
              {part === "diff" ? (
                side.diff ? <Diff diff={side.diff} list={false} /> : <p class="dim">Its changes are not known.</p>
              ) : (
                <Timeline items={side.fold.items} living={false} commands={[]} cwd={text(side.fold.started ?? { kind: "" }, "cwd")} follow={false} label={`Timeline of ${nameOf(side)}`} keys={false} />
              )}
            </section>
          ))}
        </div>
      )}
    </div>
  );
}

async function loadSide(run: string): Promise<Side> {
  const path = `/runs/${encodeURIComponent(run)}`;
  const [fold, details, diff] = await Promise.all([
    loadFold(run),
    get<RunDetails>(path),
    get<RunDiff>(`${path}/diff`).catch(() => null),
  ]);
  return { fold, details, diff };
}

function nameOf({ fold, details }: Side): string {
  return `${text(fold.started ?? { kind: "" }, "agent")} · ${details.name || details.short}`;
}

function samePrompt([one, other]: readonly [Side, Side]): string {
  const prompt = one.details.run.task?.prompt ?? "";
  return prompt === (other.details.run.task?.prompt ?? "") ? oneLine(prompt) : "";
}

interface Row {
  name: string;
  cells: readonly [preact.ComponentChildren, preact.ComponentChildren];
  /** What is better, where less or more of it is. */
  values?: readonly [number | null, number | null];
}

function Facts({ sides }: { sides: readonly [Side, Side] }) {
  const both = <T,>(read: (side: Side) => T): readonly [T, T] => [read(sides[0]), read(sides[1])];
  const seconds = ({ fold }: Side): number => fold.seconds;
  const lines = ({ diff }: Side): readonly [number, number] => countLines(diff);
  const rows: Row[] = [
    { name: "state", cells: both((side) => <State words={side.fold.ended ? describeOutcome(text(side.fold.ended, "outcome"), text(side.fold.ended, "reason")) : describeLive(side.fold.state)} />) },
    { name: "agent", cells: both(({ fold }) => `${text(fold.started ?? { kind: "" }, "agent")} ${text(fold.started ?? { kind: "" }, "agent_version")}`) },
    { name: "model", cells: both(({ fold }) => fold.model) },
    { name: "project", cells: both(({ fold }) => projectName(text(fold.started ?? { kind: "" }, "project"))) },
    { name: "time", cells: both((side) => <Duration seconds={seconds(side)} />), values: both(seconds) },
    { name: "time went to", cells: both(({ fold }) => <SpentBar spent={fold.spent} legend />) },
    { name: "cost", cells: both(({ details }) => <Cost money={details} />), values: both(({ details }) => details.cost_usd ?? null) },
    { name: "tokens", cells: both(({ fold }) => formatTokens(totalTokens(fold.usage))), values: both(({ fold }) => totalTokens(fold.usage) || null) },
    { name: "model calls", cells: both(({ fold }) => formatCount(fold.totals.calls)), values: both(({ fold }) => fold.totals.calls) },
    { name: "tools", cells: both(({ fold }) => `${formatCount(fold.totals.tools)}${fold.totals.failedTools ? `, ${formatCount(fold.totals.failedTools)} failed` : ""}`), values: both(({ fold }) => fold.totals.tools) },
    { name: "files changed", cells: both(({ diff, fold }) => formatCount(diff?.files.length ?? fold.files.size)) },
    { name: "lines", cells: both((side) => <Counts added={lines(side)[0]} removed={lines(side)[1]} />) },
  ];
  return (
    <div class="table-scroll" tabIndex={0} role="region" aria-label="Facts of both runs">
      <table class="compare-facts">
        <thead>
          <tr>
            <th scope="col">
              <span class="unseen">what</span>
            </th>
            {sides.map((side) => (
              <th key={side.details.run_id} scope="col">
                <a href={runAddress(side.details.run_id)}>{nameOf(side)}</a>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ name, cells, values }) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              {cells.map((cell, index) => (
                <td key={index}>
                  {cell} {lessOf(values, index) ? <span class="less">{lessOf(values, index)}</span> : null}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** How much less it is than the other, where that says something. */
function lessOf(values: Row["values"], index: number): string {
  const [own, other] = [values?.[index], values?.[1 - index]];
  if (own === null || own === undefined || !other || own >= other * 0.98) return "";
  return `−${Math.round((1 - own / other) * 100)} %`;
}

function countLines(diff: RunDiff | null): readonly [number, number] {
  const lines = (diff?.patch ?? "").split("\n");
  const count = (mark: string): number => lines.filter((line) => line.startsWith(mark) && !line.startsWith(mark.repeat(3))).length;
  return [count("+"), count("-")];
}
