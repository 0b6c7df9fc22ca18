// Reading fields of events that another version of inspan may have written: what is not there is empty, never an error.
import type { LogEvent, Usage } from "../api/values.ts";

export function text(event: LogEvent, field: string): string {
  const value = event[field];
  return typeof value === "string" ? value : "";
}

export function number(event: LogEvent, field: string): number | null {
  const value = event[field];
  return typeof value === "number" ? value : null;
}

export function flag(event: LogEvent, field: string): boolean {
  return event[field] === true;
}

export function texts(event: LogEvent, field: string): string[] {
  const value = event[field];
  return Array.isArray(value) ? value.filter((each): each is string => typeof each === "string") : [];
}

export function record(event: LogEvent, field: string): Record<string, unknown> {
  const value = event[field];
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

export function usage(event: LogEvent, field = "usage"): Usage | null {
  const value = event[field];
  return typeof value === "object" && value !== null ? (value as Usage) : null;
}
