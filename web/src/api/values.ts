// What the server's answers look like. Fields that are empty are left out, so nearly everything may be missing.

export type Status = "starting" | "idle" | "working" | "waiting" | "rate_limited" | "stuck" | "error" | "closed";
export type WaitsFor = "" | "model" | "tool" | "person" | "limit";
export type CostKind = "paid" | "not_paid" | "unknown" | "partial";

export interface Usage {
  input?: number;
  output?: number;
  cache_read?: number;
  cache_write?: number;
  reasoning?: number;
}

export interface LiveState {
  status: Status;
  tool?: string;
  subject?: string;
  since?: number;
  asks_for?: string;
  output?: string;
  waits_for?: WaitsFor;
  heard_at?: number;
  questions?: string[];
  queued?: string[];
  message?: string;
  resets_at?: number | null;
  error?: string;
  model?: string;
}

export interface Money {
  cost_usd?: number | null;
  cost_kind?: CostKind | null;
  not_paid_usd?: number | null;
}

export interface RunInfo extends Money {
  run_id: string;
  short: string;
  name?: string;
  project: string;
  task: string;
  agent: string;
  started_at: number;
  duration_s: number;
  outcome: string;
  reason?: string;
  prompt: string;
  tokens?: number;
  session_id?: string;
  cwd: string;
  work?: "" | "loop" | "blueprint";
  continues?: string;
  alive: boolean;
  state?: LiveState | null;
}

export interface RunPage {
  runs: RunInfo[];
  next?: string | null;
  total?: number | null;
}

/** An event as it was logged: a kind, and fields by that kind. Read with care: a newer server may tell more. */
export interface LogEvent {
  kind: string;
  [field: string]: unknown;
}

export interface LogRecord {
  n: number;
  t: number;
  event: LogEvent;
}

export interface EventPage {
  run_id: string;
  events: LogRecord[];
  last: number;
  ended: boolean;
}

export interface RunDetails extends Money {
  run_id: string;
  short: string;
  name?: string;
  run: { task?: { prompt?: string; cwd?: string; session?: boolean; agent?: string; [field: string]: unknown }; [field: string]: unknown };
  folder?: string;
  started?: LogEvent | null;
  ended?: LogEvent | null;
  output?: string;
  calls?: unknown;
  state?: LiveState | null;
  undo?: unknown[];
}

export interface ChangedFile {
  path: string;
  change: "added" | "modified" | "deleted";
  added?: number | null;
  removed?: number | null;
}

export interface RunDiff {
  run_id: string;
  top: string;
  files: ChangedFile[];
  /** Missing where there were no snapshots: then the files are those of which the agent told. */
  patch?: string | null;
  notes?: string[];
}

export interface ModelCall extends Money {
  call: number;
  wire?: string;
  model?: string;
  status?: number | null;
  usage?: Usage | null;
  duration_s?: number;
  problem?: string;
  message?: string;
  role?: string;
}

export interface RunCost extends Money {
  run_id: string;
  usage?: Usage | null;
}

export interface OneQuestion {
  text: string;
  options?: string[];
  several?: boolean;
  secret?: boolean;
}

export interface AskedPermission {
  kind: "permission_asked";
  id: string;
  tool: string;
  input?: unknown;
  reason?: string;
}

export interface AskedQuestion {
  kind: "question_asked";
  id: string;
  questions: OneQuestion[];
}

export type Asked = AskedPermission | AskedQuestion;

export interface OpenQuestion {
  run_id: string;
  asked_at: number;
  question: Asked;
}

export interface Approvals {
  questions: OpenQuestion[];
  kept?: { project: string; tool: string; subject: string; at: number }[];
}

export interface Answer {
  allowed: boolean;
  always?: boolean;
  reason?: string;
  input?: unknown;
  answers?: Record<string, string>;
}

export interface AgentInfo {
  agent: string;
  title?: string;
  version?: string;
  /** Not empty for the agent that is taken where none is named. */
  default?: string;
  /** Where its program lies, or why it cannot be used. */
  program?: string;
  /** What it can do: "yes", "asked" or "no" for each mode, among others. */
  capabilities?: Record<string, unknown>;
}

export interface Info {
  version: string;
  schema: number;
  read_only: boolean;
  roots: string[];
  pid: number;
  started_at: number;
}

export interface CostGroup extends Money {
  name: string;
  runs?: number;
  calls?: number;
  input?: number | null;
  output?: number | null;
  cache_read?: number | null;
  cache_write?: number | null;
  reasoning?: number | null;
}

export interface CostSums {
  by: string;
  groups: CostGroup[];
  total: CostGroup;
}

export interface Amounts {
  usd?: number | null;
  tokens?: number | null;
  calls?: number | null;
  seconds?: number | null;
  restarts?: number | null;
}

export interface BudgetNode extends Money {
  node: "project" | "task" | "run";
  project: string;
  task?: string | null;
  run_id?: string | null;
  scripted?: boolean;
  limits: Amounts & { per?: string | null };
  spent: Amounts;
  reserved: Amounts;
  since?: number | null;
  unpriced_calls?: number;
}

export interface Budgets {
  nodes: BudgetNode[];
  refusals?: { run_id?: string; message?: string; next_step?: string }[];
}

export interface CheckResult {
  check: string;
  passed: boolean;
  exit_code?: number | null;
  timed_out?: boolean;
  output?: string;
  duration_s?: number;
}

export interface BlueprintGraph {
  run_id: string;
  order: string[];
  needs: Record<string, string[]>;
  nodes: Record<string, { kind: string; does?: string }>;
  statuses: Record<string, string>;
}

export interface NewRun {
  run_id: string;
  short: string;
  name?: string;
}
