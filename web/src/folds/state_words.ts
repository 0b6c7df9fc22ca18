// The states of a run in words: the same table as at the terminal. Colour never stands alone, so each has a glyph, too.
import type { LiveState, RunInfo } from "../api/values.ts";
import { oneLine } from "../text/visible.ts";
import { formatDuration } from "../text/format.ts";

export type Glyph = "working" | "model" | "person" | "limit" | "done" | "failed" | "stopped" | "idle" | "pending" | "skipped";
export type Tone = "accent" | "dim" | "attention" | "success" | "failure" | "muted";

export interface StateWords {
  glyph: Glyph;
  tone: Tone;
  /** The state itself: "working", "needs you", "completed". */
  word: string;
  /** What it is about: a command, a reason. */
  about: string;
  /** Seconds since 1970 since when it is so; 0 where that says nothing. */
  since: number;
}

const SUBJECT_CHARACTERS = 120;

export function describeLive(state: LiveState): StateWords {
  const since = state.since ?? 0;
  const about = shorten(state.subject || state.tool || "");
  switch (state.status) {
    case "starting":
      return { glyph: "working", tone: "accent", word: "starting", about: "", since };
    case "idle":
      return { glyph: "idle", tone: "muted", word: "idle", about: "", since };
    case "working":
      if (!about && state.waits_for === "model")
        return { glyph: "model", tone: "accent", word: "waiting for the model", about: "", since };
      return { glyph: "working", tone: "accent", word: "working", about, since };
    case "waiting":
      return {
        glyph: "person",
        tone: "attention",
        word: "needs you",
        about: state.asks_for === "permission" ? `allow ${about}?` : about,
        since,
      };
    case "rate_limited":
      return { glyph: "limit", tone: "attention", word: "rate limited", about: "", since };
    case "stuck":
      return { glyph: "person", tone: "attention", word: "stuck", about: about || (state.waits_for ?? ""), since };
    case "error":
      return { glyph: "failed", tone: "failure", word: "error", about: shorten(state.error ?? ""), since };
    case "closed":
      return { glyph: "stopped", tone: "muted", word: "closed", about: "", since: 0 };
  }
}

const OUTCOMES: Readonly<Record<string, string>> = { timed_out: "timed out" };

export function describeOutcome(outcome: string, reason: string): StateWords {
  const word = OUTCOMES[outcome] ?? (outcome || "running");
  const why = reason && reason !== "done" && reason !== outcome ? reason.replaceAll("_", " ") : "";
  if (outcome === "completed") return { glyph: "done", tone: "success", word, about: "", since: 0 };
  if (outcome === "cancelled") return { glyph: "stopped", tone: "muted", word: "stopped", about: why === "interrupted" || why === "stopped" ? "" : why, since: 0 };
  if (outcome === "running" || outcome === "") return { glyph: "working", tone: "accent", word: "running", about: "", since: 0 };
  return { glyph: "failed", tone: "failure", word, about: why, since: 0 };
}

export function describeRun(run: RunInfo): StateWords {
  return run.alive && run.state ? describeLive(run.state) : describeOutcome(run.outcome, run.reason ?? "");
}

export function needsPerson(run: RunInfo): boolean {
  return run.alive && run.state?.status === "waiting";
}

/** Whether something is being done for it now; who waits for a person, or for a message, does nothing. */
export function isWorking(run: RunInfo): boolean {
  return run.alive && !["idle", "error", "waiting", "closed"].includes(run.state?.status ?? "");
}

/** For a title or someone who listens. */
export function sayState(words: StateWords, now = 0): string {
  const elapsed = now && words.since ? ` (${formatDuration(now - words.since)})` : "";
  return `${words.word}${words.about ? `: ${words.about}` : ""}${elapsed}`;
}

function shorten(text: string): string {
  const words = oneLine(text);
  return words.length <= SUBJECT_CHARACTERS ? words : `${words.slice(0, SUBJECT_CHARACTERS - 1)}…`;
}
