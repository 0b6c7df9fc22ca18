// What stands beside the timeline of a run: its diff, and its model calls.
import { useEffect, useState } from "preact/hooks";
import { get } from "../api/client.ts";
import type { ModelCall, RunCost, RunDiff } from "../api/values.ts";
import type { RunFold } from "../folds/run_view.ts";
import { Diff } from "../parts/diff.tsx";
import { Command, CopyButton, Cost, Empty, Trouble } from "../parts/small.tsx";
import { formatCost, formatCount, formatDuration } from "../text/format.ts";
import { visible } from "../text/visible.ts";

const SETTLED_MS = 1500;

/** Loads the diff again once the files of a living run have not changed for a moment. */
export function DiffTab({ run, fold, short }: { run: string; fold: RunFold; short: string }) {
  const [diff, setDiff] = useState<RunDiff | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  const changes = `${fold.files.size} ${fold.totals.tools} ${fold.ended !== null}`;
  useEffect(() => {
    const asking = new AbortController();
    const load = (): void => {
      get<RunDiff>(`/runs/${encodeURIComponent(run)}/diff`, {}, asking.signal)
        .then((found) => {
          setDiff((before) => (before && before.patch === found.patch ? before : found));
          setProblem(null);
        })
        .catch((error: unknown) => asking.signal.aborted || setProblem(error));
    };
    const timer = window.setTimeout(load, diff ? SETTLED_MS : 0);
    return () => {
      window.clearTimeout(timer);
      asking.abort();
    };
  }, [run, changes]);
  return (
    <div class="tab" tabIndex={0} role="region" aria-label="Diff">
      <h2 class="unseen">Changes</h2>
      {problem ? <Trouble error={problem} /> : null}
      {diff ? <Diff diff={diff} /> : problem ? null : <p class="dim">Comparing the files…</p>}
      {diff?.files.length ? (
        <p class="tab-commands">
          <Command text={`inspan diff ${short}`} />
          <Command text={`inspan undo ${short}`} />
        </p>
      ) : null}
    </div>
  );
}

const COLUMNS = ["call", "model", "role", "in", "cached", "out", "thinking", "time", "answer", "cost"] as const;

/** Every call to the model: of an ended run as the server sums them up, else as the log tells. */
export function CallsTab({ run, fold }: { run: string; fold: RunFold }) {
  const [cost, setCost] = useState<RunCost | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  useEffect(() => {
    get<RunCost>(`/runs/${encodeURIComponent(run)}/cost`).then(setCost, setProblem);
  }, [run, fold.ended !== null]);
  const calls = fold.calls;
  const total = cost ?? { cost_usd: fold.totals.costUsd };
  if (!calls.length) {
    return (
      <div class="tab">
        {problem ? <Trouble error={problem} /> : null}
        <Empty title="No model call was counted">
          <p>{fold.work ? "Its runs have calls of their own: open one of them." : "The calls of this run did not go through the gateway, or none was made yet."}</p>
          {cost ? (
            <p>
              As the agent tells: <Cost money={cost} />
            </p>
          ) : null}
        </Empty>
      </div>
    );
  }
  const rows = calls.map((call) => cellsOf(call, fold.isPaidFor));
  const table = [COLUMNS.join("\t"), ...rows.map((cells) => cells.join("\t"))].join("\n");
  return (
    <div class="tab" tabIndex={0} role="region" aria-label="Model calls">
      <p class="tab-sum">
        {formatCount(calls.length)} model calls, <Cost money={total} /> <CopyButton text={table} what="the table" />
      </p>
      <div class="table-scroll" tabIndex={0} role="region" aria-label="Table of model calls">
        <table class="numbers numbers-calls">
          <thead>
            <tr>
              {COLUMNS.map((name) => (
                <th key={name} scope="col">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((cells, index) => (
              <tr key={index} class={calls[index]?.problem ? "row-problem" : ""}>
                {cells.map((cell, place) => (
                  <td key={place}>{visible(cell)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

function cellsOf(call: ModelCall, isPaidFor: boolean): string[] {
  const used = call.usage ?? {};
  const count = (value: number | undefined): string => (value ? formatCount(value) : "–");
  const priced = call.cost_usd ?? null;
  const kind = !isPaidFor ? "not_paid" : priced !== null ? "paid" : "unknown";
  return [
    String(call.call),
    call.model ?? "",
    call.role && call.role !== "main" ? call.role : "",
    count(used.input),
    count((used.cache_read ?? 0) + (used.cache_write ?? 0)),
    count(used.output),
    count(used.reasoning),
    formatDuration(call.duration_s ?? 0),
    call.problem ? `${call.status ?? ""} ${call.problem.replaceAll("_", " ")}`.trim() : call.status === 200 ? "ok" : String(call.status ?? "–"),
    formatCost({ cost_usd: priced, cost_kind: kind }),
  ];
}
