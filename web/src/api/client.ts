// Requests to the server. What it refuses is a `Problem`: what happened, and what to do next.
import { Cell } from "../cell.ts";
import { read, write } from "../settings.ts";
import type { Info } from "./values.ts";

export const BASE = "/api/v1";
const KEY = "inspan-key";
// For a browser that keeps nothing.
let held = "";

export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  readonly next: string;
  readonly field: string;

  constructor(status: number, body: Record<string, unknown>, fallback: string) {
    const text = (name: string): string => (typeof body[name] === "string" ? body[name] : "");
    super(text("detail") || text("title") || fallback);
    this.status = status;
    this.code = text("code");
    this.next = text("next");
    this.field = text("field");
  }
}

/** Who we are to the server: not known yet, let in, or not. */
export const entry = new Cell<"asking" | "in" | "out">("asking");
export const serverInfo = new Cell<Info | null>(null);
/** False while the server does not answer. */
export const reachable = new Cell(true);

type Query = Record<string, string | number | boolean | undefined | null>;

export function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return request<T>("GET", `${path}${formatQuery(query)}`, undefined, signal);
}

export function post<T>(path: string, body: unknown = {}, headers: Record<string, string> = {}): Promise<T> {
  return request<T>("POST", path, body, undefined, headers);
}

/** For what creates something: sent again, it is not created again. */
export function create<T>(path: string, body: unknown, key: string): Promise<T> {
  return post<T>(path, body, { "Idempotency-Key": key });
}

async function request<T>(
  method: string,
  path: string,
  body: unknown,
  signal?: AbortSignal,
  headers: Record<string, string> = {},
): Promise<T> {
  if (method !== "GET") headers = { "X-Inspan-Key": readKey(), ...headers };
  let answer: Response;
  try {
    answer = await fetch(`${BASE}${path}`, {
      method,
      credentials: "same-origin",
      headers: body === undefined ? headers : { "Content-Type": "application/json", ...headers },
      body: body === undefined ? null : JSON.stringify(body),
      signal: signal ?? null,
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    reachable.value = false;
    throw new Problem(0, {}, "The server does not answer. Is `inspan serve` still running?");
  }
  reachable.value = true;
  if (answer.status === 401 && path !== "/login") entry.value = "out";
  if (!answer.ok) {
    const problem = new Problem(answer.status, await readProblem(answer), `The server answered ${answer.status}.`);
    if (problem.code === "key_missing") entry.value = "out";
    throw problem;
  }
  return (answer.status === 204 ? undefined : await answer.json()) as T;
}

async function readProblem(answer: Response): Promise<Record<string, unknown>> {
  try {
    const body: unknown = await answer.json();
    return typeof body === "object" && body !== null ? (body as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

export function formatQuery(query: Query): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString()}` : "";
}

/** Changes a token into a cookie, which reads, and the key for what changes something. Other servers on this machine
 * get the cookie as well; what this page stores is its own, port included. */
export async function logIn(token: string): Promise<void> {
  const { key } = await post<{ key: string }>("/login", { token });
  held = key;
  write(KEY, key);
}

export async function logOut(): Promise<void> {
  await post("/logout");
  held = "";
  write(KEY, "");
}

function readKey(): string {
  return read(KEY) || held;
}

/** Takes the token out of the address, logs in with it, and sees whether the server lets us in. */
export async function enter(): Promise<void> {
  const token = takeToken();
  try {
    if (token) await logIn(token);
  } catch (error) {
    if (!(error instanceof Problem) || error.status === 0) throw error;
    entry.value = "out";
    return;
  }
  try {
    serverInfo.value = await get<Info>("/info");
    entry.value = "in";
  } catch (error) {
    if (error instanceof Problem && error.status === 401) entry.value = "out";
    else throw error;
  }
}

function takeToken(): string {
  const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
  if (token) history.replaceState(history.state, "", location.pathname + location.search);
  return token;
}

export function describe(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
