// What runs have cost, by day, agent, model and project: small pictures, each with its numbers under it, and budgets.
import { useEffect, useState } from "preact/hooks";
import { get } from "../api/client.ts";
import type { BudgetNode, Budgets, CostGroup, CostSums } from "../api/values.ts";
import { CopyButton, Cost, Empty, Trouble } from "../parts/small.tsx";
import { runAddress } from "../routes.ts";
import { formatCost, formatCount, formatTokens, formatUsd, projectName } from "../text/format.ts";
import { visible } from "../text/visible.ts";
import { useTitle } from "../title.ts";

const BY = ["day", "agent", "model", "project"] as const;
type By = (typeof BY)[number];
type Measure = "dollars" | "tokens";

const SPANS = [
  ["7", "7 days"],
  ["30", "30 days"],
  ["", "ever"],
] as const;

export function CostPage() {
  const [sums, setSums] = useState<Partial<Record<By, CostSums>>>({});
  const [budgets, setBudgets] = useState<Budgets | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  const [measure, setMeasure] = useState<Measure | null>(null);
  const [days, setDays] = useState("30");
  useTitle("cost");
  useEffect(() => {
    const asking = new AbortController();
    const since = days ? Math.floor(Date.now() / 1000 - Number(days) * 86400) : undefined;
    Promise.all(BY.map((by) => get<CostSums>("/cost", { by, since }, asking.signal))).then(
      (found) => setSums(Object.fromEntries(BY.map((by, index) => [by, found[index]]))),
      (error: unknown) => asking.signal.aborted || setProblem(error),
    );
    return () => asking.abort();
  }, [days]);
  useEffect(() => {
    get<Budgets>("/budgets").then(setBudgets, setProblem);
  }, []);
  const total = sums.day?.total;
  const shown: Measure = measure ?? (total?.cost_usd ? "dollars" : "tokens");
  return (
    <div class="page cost-page">
      <header class="page-head">
        <h1 tabIndex={-1}>Cost</h1>
        <div class="choices" role="group" aria-label="Since">
          {SPANS.map(([value, words]) => (
            <button key={value} type="button" aria-pressed={days === value} onClick={() => setDays(value)}>
              {words}
            </button>
          ))}
        </div>
        <div class="choices" role="group" aria-label="Measure">
          {(["dollars", "tokens"] as const).map((each) => (
            <button key={each} type="button" aria-pressed={shown === each} onClick={() => setMeasure(each)}>
              {each}
            </button>
          ))}
        </div>
      </header>
      {problem ? <Trouble error={problem} /> : null}
      {total ? <Totals total={total} /> : problem ? null : <p class="dim">Adding up…</p>}
      {total && !total.runs ? (
        <Empty title="Nothing was spent yet">
          <p>Every call that goes through the gateway is counted here, with its tokens and its price.</p>
        </Empty>
      ) : null}
      <div class="multiples">
        {BY.map((by) => {
          const found = sums[by];
          return found?.groups.length ? <Multiple key={by} by={by} sums={found} measure={shown} span={Number(days)} /> : null;
        })}
      </div>
      {budgets ? <BudgetList budgets={budgets} /> : null}
    </div>
  );
}

function tokensOf(group: CostGroup): number {
  return (group.input ?? 0) + (group.output ?? 0) + (group.cache_read ?? 0) + (group.cache_write ?? 0);
}

function Totals({ total }: { total: CostGroup }) {
  return (
    <dl class="totals">
      <div>
        <dt>paid</dt>
        <dd>
          <Cost money={total.cost_usd || total.cost_kind !== "not_paid" ? total : { cost_usd: 0, cost_kind: "paid" }} />
        </dd>
      </div>
      {total.not_paid_usd ? (
        <div>
          <dt>not paid: answered by scripts, would have cost</dt>
          <dd class="num dim-figure">{formatUsd(total.not_paid_usd)}</dd>
        </div>
      ) : null}
      <div>
        <dt>tokens</dt>
        <dd class="num">{formatTokens(tokensOf(total))}</dd>
      </div>
      <div>
        <dt>runs</dt>
        <dd class="num">{formatCount(total.runs ?? 0)}</dd>
      </div>
      <div>
        <dt>model calls</dt>
        <dd class="num">{formatCount(total.calls ?? 0)}</dd>
      </div>
    </dl>
  );
}

const COLUMNS = ["runs", "calls", "input", "cached", "output", "cost"] as const;

function Multiple({ by, sums, measure, span }: { by: By; sums: CostSums; measure: Measure; span: number }) {
  const value = (group: CostGroup): number => (measure === "dollars" ? (group.cost_usd ?? 0) : tokensOf(group));
  const named = (name: string): string => (by === "project" ? projectName(name) : name || "unknown");
  const groups = by === "day" ? [...sums.groups].sort((a, b) => a.name.localeCompare(b.name)) : [...sums.groups].sort((a, b) => value(b) - value(a));
  const most = Math.max(...groups.map(value), 0);
  const format = (amount: number): string => (measure === "dollars" ? formatUsd(amount) : formatTokens(amount));
  // Read from the top: the newest day, the most expensive model.
  const listed = by === "day" ? groups.toReversed() : groups;
  const rows = listed.map((group) => [named(group.name), ...cellsOf(group)]);
  const table = [[by, ...COLUMNS].join("\t"), ...rows.map((cells) => cells.join("\t"))].join("\n");
  const words = (group: CostGroup): string => (measure === "dollars" ? formatCost(group) : format(value(group)));
  return (
    <figure class={`multiple multiple-${by}`}>
      <figcaption>
        <h2>by {by}</h2>
        <CopyButton text={table} what={`the table by ${by}`} />
      </figcaption>
      {by === "day" ? (
        <Days groups={groups} value={value} most={most} format={format} words={words} span={span} />
      ) : (
        <Bars groups={groups} value={value} most={most} named={named} words={words} />
      )}
      <div class="table-scroll" tabIndex={0} role="region" aria-label={`Numbers by ${by}`}>
        <table class="numbers">
          <thead>
            <tr>
              <th scope="col">{by}</th>
              {COLUMNS.map((name) => (
                <th key={name} scope="col">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((cells, index) => (
              <tr key={listed[index]?.name}>
                <th scope="row">{visible(cells[0] ?? "")}</th>
                {cells.slice(1).map((cell, place) => (
                  <td key={place}>{cell}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </figure>
  );
}

function cellsOf(group: CostGroup): string[] {
  return [
    formatCount(group.runs ?? 0),
    formatCount(group.calls ?? 0),
    formatCount(group.input ?? 0),
    formatCount((group.cache_read ?? 0) + (group.cache_write ?? 0)),
    formatCount(group.output ?? 0),
    formatCost(group),
  ];
}

interface Drawn {
  groups: readonly CostGroup[];
  value: (group: CostGroup) => number;
  most: number;
  words: (group: CostGroup) => string;
}

const DAY_HEIGHT = 96;
const DAY_MS = 86_400_000;

/** A column for each day, those without runs too. */
function Days({ groups, value, most, format, words, span }: Drawn & { format: (amount: number) => string; span: number }) {
  const days = fillDays(groups, new Date().toISOString().slice(0, 10), span || 7);
  const step = 100 / Math.max(days.length, 1);
  return (
    <div class="days">
      <svg viewBox={`0 0 100 ${DAY_HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`A column for each of ${days.length} days; the most is ${format(most)}`}>
        {days.map(({ day, group }, index) => {
          const height = group && most ? Math.max(1, (value(group) / most) * DAY_HEIGHT) : 0;
          return (
            <rect key={day} class={group && group.cost_usd === null ? "bar-unpaid" : "bar-paid"} x={index * step + step * 0.12} width={step * 0.76} y={DAY_HEIGHT - height} height={height}>
              <title>
                {day}: {group ? words(group) : "nothing"}
              </title>
            </rect>
          );
        })}
      </svg>
      <div class="days-scale">
        <span>{days[0]?.day}</span>
        <span class="num">most: {format(most)}</span>
        <span>{days.at(-1)?.day}</span>
      </div>
    </div>
  );
}

/** Every day from the first with a run, or from the beginning of the span where that is earlier, up to today. */
function fillDays(groups: readonly CostGroup[], today: string, span: number): { day: string; group: CostGroup | null }[] {
  const named = new Map(groups.map((group) => [group.name, group]));
  const parse = (day: string): number => Date.parse(`${day}T00:00:00Z`);
  const end = Math.max(parse(today), parse(groups.at(-1)?.name ?? today));
  const begin = Math.min(parse(groups[0]?.name ?? today), end - (span - 1) * DAY_MS);
  const count = Math.min(400, Math.round((end - begin) / DAY_MS) + 1);
  return Array.from({ length: count }, (_, index) => {
    const day = new Date(end - (count - 1 - index) * DAY_MS).toISOString().slice(0, 10);
    return { day, group: named.get(day) ?? null };
  });
}

const MOST_BARS = 8;

function Bars({ groups, value, most, named, words }: Drawn & { named: (name: string) => string }) {
  return (
    <ul class="bars" aria-hidden="true">
      {groups.slice(0, MOST_BARS).map((group) => (
        <li key={group.name}>
          <span class="bar-name">{visible(named(group.name))}</span>
          <svg viewBox="0 0 100 8" preserveAspectRatio="none">
            <rect class="bar-back" width="100" height="8" />
            <rect class={group.cost_kind === "not_paid" ? "bar-unpaid" : "bar-paid"} width={most ? (value(group) / most) * 100 : 0} height="8" />
          </svg>
          <span class="bar-value num">{words(group)}</span>
        </li>
      ))}
    </ul>
  );
}

function BudgetList({ budgets }: { budgets: Budgets }) {
  const limited = budgets.nodes.filter((node) => measuresOf(node).length > 0);
  return (
    <section class="budgets" aria-labelledby="budgets-title">
      <h2 id="budgets-title">Budgets</h2>
      {limited.length ? (
        <>
          <p class="legend">
            <span>
              <i class="swatch bar-spent" /> spent
            </span>
            <span>
              <i class="swatch bar-reserved" /> reserved for calls that are under way
            </span>
          </p>
          <ul>
            {limited.map((node, index) => (
              <Budget key={index} node={node} />
            ))}
          </ul>
        </>
      ) : (
        <p class="dim">
          No budget is set. One for this project: <code>inspan init --budget 20usd/day</code>, for one run: <code>--budget 2usd</code>
        </p>
      )}
      {budgets.refusals?.length ? (
        <>
          <h3>Ended by a budget</h3>
          <ul class="refusals">
            {budgets.refusals.map((each, index) => (
              <li key={index}>
                {each.run_id ? <a href={runAddress(each.run_id)}>run</a> : null} {visible(each.message ?? "")}
              </li>
            ))}
          </ul>
        </>
      ) : null}
    </section>
  );
}

const UNITS = [
  ["usd", (amount: number) => formatUsd(amount)],
  ["tokens", (amount: number) => `${formatTokens(amount)} tokens`],
  ["calls", (amount: number) => `${formatCount(amount)} calls`],
  ["seconds", (amount: number) => `${formatCount(amount)} s`],
  ["restarts", (amount: number) => `${formatCount(amount)} restarts`],
] as const;

interface Measured {
  unit: string;
  format: (amount: number) => string;
  limit: number;
  spent: number;
  reserved: number;
}

function measuresOf(node: BudgetNode): Measured[] {
  return UNITS.flatMap(([unit, format]) => {
    const limit = node.limits[unit];
    return typeof limit === "number" ? [{ unit, format, limit, spent: node.spent[unit] ?? 0, reserved: node.reserved[unit] ?? 0 }] : [];
  });
}

function Budget({ node }: { node: BudgetNode }) {
  const name = node.node === "project" ? projectName(node.project) : node.node === "task" ? `${projectName(node.project)} / ${node.task}` : `${projectName(node.project)} / run`;
  return (
    <li class="budget">
      <div class="budget-name">
        <b>{node.run_id ? <a href={runAddress(node.run_id)}>{visible(name)}</a> : visible(name)}</b>{" "}
        <span class="dim">
          {node.node}
          {node.limits.per ? `, each ${node.limits.per}` : ""}
          {node.scripted ? ", scripted" : ""}
          {node.unpriced_calls ? `, ${node.unpriced_calls} calls of unknown cost` : ""}
        </span>
      </div>
      {measuresOf(node).map(({ unit, format, limit, spent, reserved }) => {
        const part = (amount: number): number => Math.max(0, Math.min(100, limit ? (amount / limit) * 100 : 100));
        const said = `${format(spent)} spent${reserved ? `, ${format(reserved)} reserved` : ""}, of ${format(limit)}`;
        return (
          <div key={unit} class={`budget-measure ${spent + reserved >= limit ? "budget-full" : ""}`}>
            <svg viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={said}>
              <rect class="bar-back" width="100" height="8" />
              <rect class="bar-spent" width={part(spent)} height="8" />
              <rect class="bar-reserved" x={part(spent)} width={Math.min(100 - part(spent), part(reserved))} height="8" />
            </svg>
            <span class="num">
              {format(spent)}
              {reserved ? <span class="dim"> + {format(reserved)}</span> : null} <span class="dim">of {format(limit)}</span>
            </span>
          </div>
        );
      })}
    </li>
  );
}
