// Numbers as the command line spells them.
import type { Money, Usage } from "../api/values.ts";

export function formatDuration(seconds: number): string {
  const s = Math.max(0, seconds);
  if (s < 0.05) return "0 s";
  if (s < 9.95) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  const whole = Math.floor(s);
  if (s < 3600) return `${Math.floor(whole / 60)}:${pad(whole % 60)}`;
  if (s < 86400) return `${Math.floor(whole / 3600)}:${pad(Math.floor((whole % 3600) / 60))}:${pad(whole % 60)}`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

/** The same for someone who listens: "1 minute 12 seconds". */
export function speakDuration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const parts = [
    [Math.floor(whole / 3600), "hour"],
    [Math.floor((whole % 3600) / 60), "minute"],
    [whole % 60, "second"],
  ] as const;
  const said = parts.filter(([count]) => count > 0).map(([count, unit]) => plural(count, unit));
  return said.join(" ") || "0 seconds";
}

export function plural(count: number, word: string): string {
  return `${formatCount(count)} ${word}${count === 1 ? "" : "s"}`;
}

export function formatCount(count: number): string {
  return Math.round(count).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

export function formatTokens(count: number): string {
  if (count < 1000) return String(Math.round(count));
  if (count < 1_000_000) return `${trim(count / 1000)}k`;
  return `${trim(count / 1_000_000)}M`;
}

export function formatUsd(usd: number): string {
  if (usd === 0) return "$0";
  if (usd < 0.0005) return "<$0.001";
  if (usd < 0.1) return `$${usd.toFixed(3)}`;
  if (usd < 1000) return `$${usd.toFixed(2)}`;
  return `$${formatCount(usd)}`;
}

/** What something cost, as a word where it is no sum of dollars. */
export function formatCost(money: Money): string {
  const { cost_usd: usd, cost_kind: kind } = money;
  if (kind === "not_paid") return "not paid";
  if (usd === null || usd === undefined) return kind === "unknown" ? "unknown" : "–";
  return kind === "partial" ? `≥ ${formatUsd(usd)}` : formatUsd(usd);
}

/** What the word of `formatCost` means, in a sentence. */
export function explainCost(money: Money): string {
  const priced = money.not_paid_usd;
  if (money.cost_kind === "not_paid")
    return `A script or a cassette answered: nobody was paid${priced ? `. It would have cost ${formatUsd(priced)}` : ""}.`;
  if (money.cost_kind === "unknown") return "Nobody could tell what it cost.";
  if (money.cost_kind === "partial") return "A part of it: of some calls nobody could tell the cost.";
  return "At list prices.";
}

export function totalTokens(usage: Usage | null | undefined): number {
  if (!usage) return 0;
  return (usage.input ?? 0) + (usage.output ?? 0) + (usage.cache_read ?? 0) + (usage.cache_write ?? 0);
}

export function formatAgo(seconds: number): string {
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

export function formatClock(at: number): string {
  const date = new Date(at * 1000);
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/** A folder as people write it: the home as ~, and long ones shortened in the middle. */
export function shortenPath(path: string, most = 40): string {
  const home = path.replace(/^\/(?:home\/[^/]+|root)(?=\/|$)/, "~");
  if (home.length <= most) return home;
  const half = Math.floor((most - 1) / 2);
  return `${home.slice(0, half)}…${home.slice(-half)}`;
}

/** The name of a project without the digits that part it from its namesakes. */
export function projectName(project: string): string {
  return project.replace(/-[0-9a-f]{8}$/, "");
}

function pad(value: number): string {
  return String(value).padStart(2, "0");
}

function trim(value: number): string {
  return value < 10 ? value.toFixed(1).replace(/\.0$/, "") : String(Math.round(value));
}
