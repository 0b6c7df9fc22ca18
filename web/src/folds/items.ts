// The lines of a timeline: what a person reads of a run, in the order in which it happened.
import type { CheckResult, CostKind, OneQuestion, Usage } from "../api/values.ts";

interface Common {
  /** The number of the event that began it: also its name in the list. */
  n: number;
  t: number;
  /** The tool call of another agent (a subagent) that it belongs to. */
  parent?: string;
}

export interface FileNote {
  path: string;
  change: string;
}

export type ToolState = "running" | "ok" | "failed" | "denied";

export interface TextItem extends Common {
  type: "text";
  text: string;
  block: string;
}
export interface ThinkingItem extends Common {
  type: "thinking";
  text: string;
}
export interface ToolItem extends Common {
  type: "tool";
  id: string;
  name: string;
  input: unknown;
  subject: string;
  state: ToolState;
  output: string;
  endedAt: number | null;
  exitCode: number | null;
  files: FileNote[];
}
export interface FileItem extends Common {
  type: "file";
  files: FileNote[];
}
export interface PlanItem extends Common {
  type: "plan";
  steps: { text: string; state: string }[];
}
export interface PermissionItem extends Common {
  type: "permission";
  id: string;
  tool: string;
  input: unknown;
  reason: string;
  /** `changed` is what was allowed in place of what was asked for; empty where that is the same. */
  answer: { allowed: boolean; by: string; reason: string; changed: string; always: boolean } | null;
}
export interface QuestionItem extends Common {
  type: "question";
  id: string;
  questions: OneQuestion[];
  answer: { answers: Record<string, string>; by: string; reason: string } | null;
}
export interface MessageItem extends Common {
  type: "message";
  id: string;
  text: string;
  how: "prompt" | "sent" | "queued" | "steered";
}
export interface TurnItem extends Common {
  type: "turn";
  outcome: string;
  reason: string;
  message: string;
  next: string;
  seconds: number | null;
}
export interface NoteItem extends Common {
  type: "note";
  tone: "quiet" | "attention" | "failure" | "success";
  what: string;
  text: string;
  detail: string;
  /** A run that the note is about. */
  run: string;
}
export interface LimitItem extends Common {
  type: "limit";
  text: string;
  resetsAt: number | null;
}
export interface CheckItem extends Common {
  type: "check";
  attempt: number;
  check: string;
  result: CheckResult | null;
}
export interface AttemptItem extends Common {
  type: "attempt";
  attempt: number;
  run: string;
  agent: string;
  outcome: string;
  reason: string;
  message: string;
  endedAt: number | null;
}
export interface NodeItem extends Common {
  type: "node";
  node: string;
  kind: string;
  round: number;
  run: string;
  status: string;
  output: string;
  error: string;
  endedAt: number | null;
  seconds: number | null;
}
export interface EndItem extends Common {
  type: "end";
  outcome: string;
  reason: string;
  message: string;
  next: string;
  seconds: number;
  files: string[];
  usage: Usage | null;
  costUsd: number | null;
  costKind: CostKind | null;
  notPaidUsd: number | null;
}

export type Item =
  | TextItem
  | ThinkingItem
  | ToolItem
  | FileItem
  | PlanItem
  | PermissionItem
  | QuestionItem
  | MessageItem
  | TurnItem
  | NoteItem
  | LimitItem
  | CheckItem
  | AttemptItem
  | NodeItem
  | EndItem;
