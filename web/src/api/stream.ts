// A stream of events that survives a lost connection and a server that is restarted: it goes on behind the last event that
// came, and whoever listens gets every event once, in order.
import type { EventPage, LogRecord } from "./values.ts";

/** What is needed of the browser's EventSource. */
export interface Source {
  readyState: number;
  addEventListener(name: string, listener: (event: { data?: unknown; lastEventId?: string }) => void): void;
  close(): void;
}

export type Connection = "connecting" | "open" | "lost" | "ended";

export interface StreamParts {
  open(address: string): Source;
  later(act: () => void, ms: number): number;
  never(timer: number): void;
}

const CLOSED = 2;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 10_000;
const POLL_MS = 1000;

interface Listening {
  kinds: readonly string[];
  address: () => string;
  onData(data: unknown, id: string): void;
  onEnd(): void;
  onState(state: Connection): void;
}

/** Keeps one source open. A browser tries again by itself, but gives up where the server answers with an error. */
export class Stream {
  private source: Source | null = null;
  private timer: number | null = null;
  private wait = FIRST_WAIT_MS;
  private stopped = false;
  private lost = false;
  private readonly parts: StreamParts;
  private readonly listening: Listening;

  constructor(parts: StreamParts, listening: Listening) {
    this.parts = parts;
    this.listening = listening;
    this.connect();
  }

  stop(): void {
    this.stopped = true;
    this.drop();
  }

  /** Drops the connection and makes a new one, behind what came last. */
  restart(): void {
    if (this.stopped) return;
    this.drop();
    this.connect();
  }

  private connect(): void {
    const { listening } = this;
    // Trying again is no news to whoever was told that it is lost.
    if (!this.lost) listening.onState("connecting");
    const source = this.parts.open(listening.address());
    this.source = source;
    const isCurrent = (): boolean => this.source === source && !this.stopped;
    source.addEventListener("open", () => {
      if (!isCurrent()) return;
      this.wait = FIRST_WAIT_MS;
      this.lost = false;
      listening.onState("open");
    });
    source.addEventListener("error", () => {
      if (isCurrent()) this.onError(source);
    });
    source.addEventListener("end", () => {
      if (!isCurrent()) return;
      this.stop();
      listening.onState("ended");
      listening.onEnd();
    });
    for (const kind of ["message", ...listening.kinds]) {
      source.addEventListener(kind, (event) => {
        if (!isCurrent() || typeof event.data !== "string") return;
        try {
          listening.onData(JSON.parse(event.data), event.lastEventId ?? "");
        } catch (error) {
          if (!(error instanceof SyntaxError)) throw error; // Half a line is as good as none: it is seen as a gap.
        }
      });
    }
  }

  private onError(source: Source): void {
    this.lost = true;
    this.listening.onState("lost");
    if (source.readyState !== CLOSED) return;
    this.drop();
    this.timer = this.parts.later(() => this.connect(), this.wait);
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT_MS);
  }

  private drop(): void {
    this.source?.close();
    this.source = null;
    if (this.timer !== null) this.parts.never(this.timer);
    this.timer = null;
  }
}

/** A page is `full` where more may follow it at once. */
export interface Loaded extends EventPage {
  full: boolean;
}

export interface Following {
  load(after: number): Promise<Loaded>;
  onRecords(records: LogRecord[]): void;
  onState(state: Connection): void;
}

/** How to hear of more: by a connection of one's own, or by asking every so often, which needs none in between. */
export type How = "stream" | "poll";

/** The events of one run, each once and in order, by pages first and by a stream, or by asking, from there on. */
export class RunFollower {
  last = 0;
  private how: How = "stream";
  private begun = false;
  private stream: Stream | null = null;
  private timer: number | null = null;
  private filling = false;
  private held: LogRecord[] = [];
  private stopped = false;
  private readonly parts: StreamParts;
  private readonly address: (after: number) => string;
  private readonly kinds: readonly string[];
  private readonly following: Following;

  constructor(parts: StreamParts, address: (after: number) => string, kinds: readonly string[], following: Following) {
    this.parts = parts;
    this.address = address;
    this.kinds = kinds;
    this.following = following;
  }

  /** Loads what there is; follows where the run has not ended. Raises what the first page raised. */
  async start(): Promise<void> {
    const ended = await this.loadPages();
    if (this.stopped) return;
    this.begun = !ended;
    if (ended) this.following.onState("ended");
    else this.follow();
  }

  stop(): void {
    this.stopped = true;
    this.drop();
  }

  /** Goes on in another way, behind the last event that came. */
  listen(how: How): void {
    if (how === this.how) return;
    this.how = how;
    if (this.begun && !this.stopped) this.follow();
  }

  private drop(): void {
    this.stream?.stop();
    this.stream = null;
    if (this.timer !== null) this.parts.never(this.timer);
    this.timer = null;
  }

  private follow(): void {
    this.drop();
    if (this.how === "poll") void this.poll();
    else this.open();
  }

  private async poll(): Promise<void> {
    const state = await this.fill();
    if (this.how !== "poll" || this.stopped || this.timer !== null) return;
    this.following.onState(state);
    if (state === "ended") this.begun = false;
    else {
      this.timer = this.parts.later(() => {
        this.timer = null;
        void this.poll();
      }, POLL_MS);
    }
  }

  private open(): void {
    this.stream = new Stream(this.parts, {
      kinds: this.kinds,
      address: () => this.address(this.last),
      onData: (data) => this.onData(data),
      onEnd: () => void this.fill(),
      onState: (state) => this.following.onState(state),
    });
  }

  private onData(data: unknown): void {
    const record = data as LogRecord;
    if (typeof record?.n !== "number" || typeof record.event?.kind !== "string" || record.n <= this.last) return;
    if (this.filling) {
      this.held.push(record);
    } else if (record.n > this.last + 1) {
      this.held.push(record);
      void this.fill();
    } else this.take([record]);
  }

  /** Loads what is missing between the last event that came and those that are held. */
  private async fill(): Promise<Connection> {
    if (this.filling) return "open";
    this.filling = true;
    let state: Connection = "open";
    try {
      if (await this.loadPages()) state = "ended";
    } catch {
      state = "lost";
      this.stream?.restart(); // It begins behind the last event again.
      this.held = [];
    } finally {
      this.filling = false;
    }
    const held = this.held;
    this.held = [];
    // What the log itself does not have any more is not waited for.
    this.take(held.sort((a, b) => a.n - b.n));
    return state;
  }

  private async loadPages(): Promise<boolean> {
    for (;;) {
      const page = await this.following.load(this.last);
      if (this.stopped) return true;
      this.take(page.events);
      if (page.ended || !page.full || !page.events.length) return page.ended;
    }
  }

  private take(records: LogRecord[]): void {
    const fresh: LogRecord[] = [];
    for (const record of records) {
      if (record.n <= this.last) continue;
      this.last = record.n;
      fresh.push(record);
    }
    if (fresh.length) this.following.onRecords(fresh);
  }
}
