// One run as the page holds it: its events, the view they come to, and, in a replay, the view up to a chosen event.
import { BASE, formatQuery, get } from "./api/client.ts";
import { browserParts } from "./api/browser.ts";
import { KINDS } from "./api/kinds.ts";
import { type Connection, type How, RunFollower } from "./api/stream.ts";
import type { EventPage, LogRecord, RunDetails } from "./api/values.ts";
import { Cell } from "./cell.ts";
import { foldRun, RunFold } from "./folds/run_view.ts";
import { Turn } from "./turn.ts";

// A short first page, so that something is seen at once.
const FIRST_PAGE = 300;
const PAGE = 5000;
const HIDDEN_MS = 30_000;
// Pauses of a run are not waited for in full: nobody watches an empty minute.
const LONGEST_PAUSE_S = 1.5;
const SHORTEST_STEP_MS = 16;

export interface Replay {
  at: number;
  playing: boolean;
  speed: number;
}

export class RunModel {
  readonly run: string;
  readonly records: LogRecord[] = [];
  readonly details = new Cell<RunDetails | null>(null);
  readonly problem = new Cell<unknown>(null);
  readonly connection = new Cell<Connection>("connecting");
  /** Grows whenever something new is to be drawn. */
  readonly version = new Cell(0);
  readonly loaded = new Cell(false);
  readonly replay = new Cell<Replay | null>(null);

  private live = new RunFold();
  private replayed: RunFold | null = null;
  private follower: RunFollower;
  private how: How = "poll";
  private readonly turn: Turn;
  private frame: number | null = null;
  private hiding: number | null = null;
  private playTimer: number | null = null;
  private paused = false;

  constructor(run: string) {
    this.run = run;
    this.follower = this.makeFollower();
    this.turn = new Turn("inspan.run", (isMine) => {
      this.how = isMine ? "stream" : "poll";
      this.follower.listen(this.how);
    });
    void this.begin();
    document.addEventListener("visibilitychange", this.onVisibility);
  }

  /** What is shown: the run up to now, or up to where its replay stands. */
  get fold(): RunFold {
    return this.replayed ?? this.live;
  }

  get newest(): RunFold {
    return this.live;
  }

  stop(): void {
    this.follower.stop();
    this.turn.stop();
    this.pause();
    document.removeEventListener("visibilitychange", this.onVisibility);
    if (this.hiding !== null) window.clearTimeout(this.hiding);
  }

  async loadDetails(): Promise<void> {
    try {
      this.details.value = await get<RunDetails>(`/runs/${encodeURIComponent(this.run)}`);
    } catch (error) {
      this.problem.value = error;
    }
  }

  // --- Replay ---

  startReplay(at = 1): void {
    this.replayed = null;
    this.replay.value = { at: 0, playing: false, speed: this.replay.value?.speed ?? 4 };
    this.seek(at);
  }

  endReplay(): void {
    this.pause();
    this.replayed = null;
    this.replay.value = null;
    this.version.value += 1;
  }

  seek(number: number): void {
    const replay = this.replay.value;
    if (!replay) return;
    const at = Math.max(1, Math.min(number, this.live.last || 1));
    // Forwards only what is new is taken in; backwards it begins again.
    const fold = this.replayed && this.replayed.last <= at ? this.replayed : new RunFold();
    for (let index = fold.last; index < this.records.length; index++) {
      const record = this.records[index];
      if (!record || record.n > at) break;
      fold.add(record);
    }
    this.replayed = fold;
    this.replay.value = { ...replay, at };
    this.version.value += 1;
  }

  play(): void {
    const replay = this.replay.value;
    if (!replay) return;
    if (replay.at >= this.live.last) this.seek(1);
    this.replay.value = { ...(this.replay.value ?? replay), playing: true };
    this.step();
  }

  pause(): void {
    if (this.playTimer !== null) window.clearTimeout(this.playTimer);
    this.playTimer = null;
    if (this.replay.value?.playing) this.replay.value = { ...this.replay.value, playing: false };
  }

  setSpeed(speed: number): void {
    if (this.replay.value) this.replay.value = { ...this.replay.value, speed };
  }

  private step(): void {
    const replay = this.replay.value;
    if (!replay?.playing) return;
    const from = this.records[replay.at - 1]?.t ?? 0;
    let next = replay.at;
    let wait = 0;
    // Several events of one moment are one step.
    do {
      next += 1;
      const record = this.records[next - 1];
      if (!record) {
        this.pause();
        return;
      }
      wait = (Math.min(record.t - from, LONGEST_PAUSE_S) / replay.speed) * 1000;
    } while (wait < SHORTEST_STEP_MS && next < this.records.length);
    this.playTimer = window.setTimeout(() => {
      this.seek(next);
      if (next >= this.live.last) this.pause();
      else this.step();
    }, Math.max(wait, SHORTEST_STEP_MS));
  }

  // --- Following ---

  private makeFollower(): RunFollower {
    const base = `/runs/${encodeURIComponent(this.run)}`;
    const made = new RunFollower(browserParts, (after) => `${BASE}${base}/stream${formatQuery({ after })}`, KINDS, {
      load: async (after) => {
        const limit = after ? PAGE : FIRST_PAGE;
        const page = await get<EventPage>(`${base}/events`, { after, limit });
        return { ...page, full: page.events.length >= limit };
      },
      onRecords: (records) => this.take(records),
      onState: (state) => {
        this.connection.value = state;
      },
    });
    made.listen(this.how);
    return made;
  }

  private async begin(): Promise<void> {
    void this.loadDetails();
    try {
      await this.follower.start();
      this.loaded.value = true;
    } catch (error) {
      this.problem.value = error;
    }
  }

  private take(records: readonly LogRecord[]): void {
    let ends = false;
    for (const record of records) {
      this.records.push(record);
      this.live.add(record);
      ends ||= record.event.kind === "run_ended";
    }
    if (ends && this.details.value && !this.details.value.ended) void this.loadDetails();
    // However many come at a time, the page is drawn once. A page that nobody sees draws no frames.
    if (this.frame !== null) return;
    const draw = (): void => {
      this.frame = null;
      this.loaded.value = true;
      this.version.value += 1;
    };
    this.frame = document.hidden ? window.setTimeout(draw, 1000) : window.requestAnimationFrame(draw);
  }

  /** A tab that is not looked at gives its connection back, and goes on where it stood. */
  private onVisibility = (): void => {
    if (this.live.ended) return;
    if (document.hidden) {
      this.hiding = window.setTimeout(() => {
        this.paused = true;
        this.follower.stop();
      }, HIDDEN_MS);
      return;
    }
    if (this.hiding !== null) window.clearTimeout(this.hiding);
    this.hiding = null;
    if (!this.paused) return;
    this.paused = false;
    const last = this.follower.last;
    this.follower = this.makeFollower();
    this.follower.last = last;
    void this.follower.start().catch((error: unknown) => {
      this.problem.value = error;
    });
  };
}

/** The whole of an ended or living run at once, as a comparison needs it. */
export async function loadFold(run: string): Promise<RunFold> {
  const records: LogRecord[] = [];
  for (let after = 0; ; ) {
    const page = await get<EventPage>(`/runs/${encodeURIComponent(run)}/events`, { after, limit: PAGE });
    records.push(...page.events);
    after = records.at(-1)?.n ?? 0;
    if (page.ended || page.events.length < PAGE) return foldRun(records);
  }
}
