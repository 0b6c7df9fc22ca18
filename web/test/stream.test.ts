import assert from "node:assert/strict";
import { test } from "node:test";
import { type Connection, type Loaded, RunFollower, type Source, type StreamParts } from "../src/api/stream.ts";
import type { LogRecord } from "../src/api/values.ts";

type Listener = (event: { data?: unknown; lastEventId?: string }) => void;

class FakeSource implements Source {
  readyState = 1;
  closed = false;
  readonly address: string;
  private listeners = new Map<string, Listener>();
  constructor(address: string) {
    this.address = address;
  }
  addEventListener(name: string, listener: Listener): void {
    this.listeners.set(name, listener);
  }
  close(): void {
    this.closed = true;
  }
  tell(name: string, data?: unknown): void {
    this.listeners.get(name)?.({ data: data === undefined ? undefined : JSON.stringify(data) });
  }
}

class Server implements StreamParts {
  log: LogRecord[] = [];
  sources: FakeSource[] = [];
  timers: (() => void)[] = [];
  loads: number[] = [];
  ended = false;
  pageSize = 1000;
  open(address: string): FakeSource {
    const source = new FakeSource(address);
    this.sources.push(source);
    return source;
  }
  later(act: () => void): number {
    return this.timers.push(act);
  }
  never(): void {
    this.timers = [];
  }
  get source(): FakeSource {
    return this.sources.at(-1)!;
  }
  write(count: number, kind = "text_said"): LogRecord[] {
    const fresh = Array.from({ length: count }, () => ({ n: 0, t: 0, event: { kind } }));
    for (const record of fresh) record.n = this.log.push(record);
    return fresh;
  }
  tell(record: LogRecord): void {
    this.source.tell(record.event.kind, record);
  }
  load = (after: number): Promise<Loaded> => {
    this.loads.push(after);
    const events = this.log.filter((each) => each.n > after).slice(0, this.pageSize);
    const last = events.at(-1)?.n ?? after;
    const ended = this.ended && last === this.log.length;
    return Promise.resolve({ run_id: "r", events, last, ended, full: events.length === this.pageSize });
  };
}

async function follow(server: Server): Promise<{ follower: RunFollower; seen: number[]; states: Connection[] }> {
  const seen: number[] = [];
  const states: Connection[] = [];
  const follower = new RunFollower(server, (after) => `after=${after}`, ["text_said", "run_ended"], {
    load: server.load,
    onRecords: (records) => seen.push(...records.map((each) => each.n)),
    onState: (state) => states.push(state),
  });
  await follower.start();
  return { follower, seen, states };
}

const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
};

test("pages come first, then the stream goes on behind the last event", async () => {
  const server = new Server();
  server.pageSize = 2;
  server.write(5);
  const { seen } = await follow(server);
  assert.deepEqual(server.loads, [0, 2, 4]);
  assert.equal(server.source.address, "after=5");
  for (const record of server.write(2)) server.tell(record);
  assert.deepEqual(seen, [1, 2, 3, 4, 5, 6, 7]);
});

test("an ended run is not followed", async () => {
  const server = new Server();
  server.write(3);
  server.ended = true;
  const { states } = await follow(server);
  assert.equal(server.sources.length, 0);
  assert.deepEqual(states, ["ended"]);
});

test("events that a reconnected stream tells again are taken once", async () => {
  const server = new Server();
  server.write(2);
  const { seen } = await follow(server);
  const [third] = server.write(1);
  server.tell(third!);
  server.source.readyState = 0; // The browser reconnects by itself.
  server.source.tell("error");
  server.source.tell("open");
  server.tell(third!);
  server.tell(server.log[0]!);
  assert.deepEqual(seen, [1, 2, 3]);
});

test("a gap is filled from the log before anything behind it is shown", async () => {
  const server = new Server();
  server.write(2);
  const { seen } = await follow(server);
  const [, , fifth] = server.write(3);
  server.tell(fifth!);
  await settle();
  assert.deepEqual(seen, [1, 2, 3, 4, 5]);
});

test("kinds that the page does not know are found by their gap", async () => {
  const server = new Server();
  server.write(1);
  const { seen } = await follow(server);
  const [unknown] = server.write(1, "of_tomorrow");
  server.tell(unknown!);
  assert.deepEqual(seen, [1]);
  const [next] = server.write(1);
  server.tell(next!);
  await settle();
  assert.deepEqual(seen, [1, 2, 3]);
});

test("where the browser gives up, as when the server is restarted, it is tried again behind the last event", async () => {
  const server = new Server();
  server.write(2);
  const { seen, states } = await follow(server);
  server.source.tell("open");
  const [third] = server.write(1);
  server.tell(third!);
  const first = server.source;
  first.readyState = 2;
  first.tell("error");
  assert.ok(first.closed);
  assert.equal(server.timers.length, 1);
  server.timers.pop()!();
  assert.equal(server.sources.length, 2);
  assert.equal(server.source.address, "after=3");
  first.tell("text_said", server.write(1)[0]); // What the old one still says counts for nothing.
  server.source.tell("open");
  server.tell(server.log[3]!);
  assert.deepEqual(seen, [1, 2, 3, 4]);
  assert.deepEqual(states, ["connecting", "open", "lost", "open"]);
});

test("half a line is no event", async () => {
  const server = new Server();
  server.write(1);
  const { seen } = await follow(server);
  server.source.tell("text_said", undefined);
  server.source.tell("text_said", { n: 2 });
  server.source.tell("text_said", "no record");
  assert.deepEqual(seen, [1]);
});

test("the end of the stream is the end, once everything before it was loaded", async () => {
  const server = new Server();
  server.write(1);
  const { seen, states } = await follow(server);
  server.write(2);
  server.ended = true;
  server.source.tell("end", {});
  await settle();
  assert.deepEqual(seen, [1, 2, 3]);
  assert.equal(states.at(-1), "ended");
  assert.equal(server.timers.length, 0);
});

test("whose turn it is not asks every so often, and goes on by a stream behind what it has heard", async () => {
  const server = new Server();
  server.write(2);
  const { follower, seen, states } = await follow(server);
  const first = server.source;
  follower.listen("poll");
  assert.ok(first.closed);
  await settle();
  server.write(2);
  server.timers.pop()!();
  await settle();
  assert.deepEqual(seen, [1, 2, 3, 4]);
  follower.listen("stream");
  assert.deepEqual([server.sources.length, server.source.address, server.timers], [2, "after=4", []]);
  follower.listen("poll");
  server.write(1);
  server.ended = true;
  await settle();
  server.timers.pop()?.();
  await settle();
  assert.deepEqual(seen, [1, 2, 3, 4, 5]);
  assert.equal(states.at(-1), "ended");
  assert.deepEqual(server.timers, []);
});
