// A patch of git, read into files, parts and lines.

export type LineKind = "same" | "added" | "removed" | "note";

export interface PatchLine {
  kind: LineKind;
  before: number | null;
  after: number | null;
  text: string;
  /** Where the text differs from its counterpart of the other side; empty where it has none. */
  from: number;
  to: number;
}

export interface Hunk {
  /** How many lines between this part and the one before are not in the patch, as they did not change. */
  skipped: number;
  heading: string;
  lines: PatchLine[];
}

export interface FilePatch {
  path: string;
  before: string;
  change: "added" | "modified" | "deleted" | "renamed";
  binary: boolean;
  modes: string;
  added: number;
  removed: number;
  hunks: Hunk[];
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$/;

export function parsePatch(patch: string): FilePatch[] {
  const files: FilePatch[] = [];
  const lines = patch.split("\n");
  if (lines.at(-1) === "") lines.pop();
  let file: FilePatch | null = null;
  let hunk: Hunk | null = null;
  let [before, after, leftBefore, leftAfter, endBefore] = [0, 0, 0, 0, 1];
  for (const line of lines) {
    // Inside a part its counts say what belongs to it: a removed line may begin with "-- a/file".
    if (hunk && file && (leftBefore > 0 || leftAfter > 0 || line.startsWith("\\"))) {
      const mark = line[0] ?? " ";
      const text = line.slice(1);
      if (mark === "+") {
        hunk.lines.push({ kind: "added", before: null, after: after++, text, from: 0, to: 0 });
        leftAfter -= 1;
        file.added += 1;
      } else if (mark === "-") {
        hunk.lines.push({ kind: "removed", before: before++, after: null, text, from: 0, to: 0 });
        leftBefore -= 1;
        file.removed += 1;
      } else if (mark === "\\") hunk.lines.push({ kind: "note", before: null, after: null, text: line.slice(2), from: 0, to: 0 });
      else {
        hunk.lines.push({ kind: "same", before: before++, after: after++, text, from: 0, to: 0 });
        leftBefore -= 1;
        leftAfter -= 1;
      }
      endBefore = before;
      continue;
    }
    if (line.startsWith("diff --git ")) {
      file = startFile(line);
      files.push(file);
      hunk = null;
      endBefore = 1;
      continue;
    }
    if (!file) continue;
    const head = HUNK.exec(line);
    if (head) {
      before = Number(head[1]);
      leftBefore = Number(head[2] ?? 1);
      after = Number(head[3]);
      leftAfter = Number(head[4] ?? 1);
      hunk = { skipped: Math.max(0, before - endBefore), heading: head[5] ?? "", lines: [] };
      file.hunks.push(hunk);
    } else readHead(file, line);
  }
  for (const each of files) for (const part of each.hunks) markWords(part.lines);
  return files;
}

function startFile(line: string): FilePatch {
  const names = /^diff --git ("?)a\/(.*?)\1 ("?)b\/(.*?)\3$/.exec(line);
  const path = unquote(names?.[4] ?? line.slice("diff --git ".length), Boolean(names?.[3]));
  return { path, before: path, change: "modified", binary: false, modes: "", added: 0, removed: 0, hunks: [] };
}

function readHead(file: FilePatch, line: string): void {
  if (line.startsWith("new file")) file.change = "added";
  else if (line.startsWith("deleted file")) file.change = "deleted";
  else if (line.startsWith("rename from ")) [file.change, file.before] = ["renamed", line.slice("rename from ".length)];
  else if (line.startsWith("rename to ")) file.path = line.slice("rename to ".length);
  else if (line.startsWith("old mode ")) file.modes = line.slice("old mode ".length);
  else if (line.startsWith("new mode ")) file.modes = `${file.modes} → ${line.slice("new mode ".length)}`;
  else if (line.startsWith("Binary files") || line.startsWith("GIT binary patch")) file.binary = true;
  else if (line.startsWith("+++ ") && !line.endsWith("/dev/null")) file.path = nameOf(line) || file.path;
  else if (line.startsWith("--- ") && line.endsWith("/dev/null")) file.change = "added";
  else if (line.startsWith("+++ ")) file.change = "deleted";
}

function nameOf(line: string): string {
  const name = line.slice(4).replace(/\t$/, "");
  const quoted = name.startsWith('"');
  return unquote(quoted ? name.slice(1, -1) : name, quoted).replace(/^[ab]\//, "");
}

/** Git writes bytes that are no printable ASCII as octal numbers in quotes. */
function unquote(name: string, quoted: boolean): string {
  if (!quoted) return name;
  const bytes: number[] = [];
  const plain: Record<string, number> = { n: 10, t: 9, r: 13, '"': 34, "\\": 92, a: 7, b: 8, f: 12, v: 11 };
  const encoder = new TextEncoder();
  for (let at = 0; at < name.length; at++) {
    const octal = /^\\([0-7]{3})/.exec(name.slice(at, at + 4));
    if (octal) {
      bytes.push(Number.parseInt(octal[1] ?? "0", 8));
      at += 3;
    } else if (name[at] === "\\") bytes.push(plain[name[++at] ?? ""] ?? 63);
    else bytes.push(...encoder.encode(name[at]));
  }
  return new TextDecoder().decode(new Uint8Array(bytes));
}

/** Marks what differs within lines that were replaced one by one. */
function markWords(lines: PatchLine[]): void {
  for (let at = 0; at < lines.length; ) {
    const removed = takeWhile(lines, at, "removed");
    const added = takeWhile(lines, at + removed.length, "added");
    if (removed.length && removed.length === added.length) removed.forEach((line, index) => markPair(line, added[index]));
    at += Math.max(1, removed.length + added.length);
  }
}

function takeWhile(lines: readonly PatchLine[], from: number, kind: LineKind): PatchLine[] {
  const found: PatchLine[] = [];
  for (let at = from; lines[at]?.kind === kind; at++) found.push(lines[at] as PatchLine);
  return found;
}

function markPair(one: PatchLine, other: PatchLine | undefined): void {
  if (!other) return;
  const least = Math.min(one.text.length, other.text.length);
  let same = 0;
  while (same < least && one.text[same] === other.text[same]) same += 1;
  let tail = 0;
  while (tail < least - same && one.text.at(-1 - tail) === other.text.at(-1 - tail)) tail += 1;
  // Two lines that have hardly anything in common are two lines, and no change of one.
  if (same + tail < 0.3 * Math.max(one.text.length, other.text.length)) return;
  for (const line of [one, other]) [line.from, line.to] = [same, line.text.length - tail];
}

/** The lines of an edit that a tool call states, without the rest of the file. */
export function diffTexts(before: string, after: string): PatchLine[] {
  const [old, fresh] = [before ? before.split("\n") : [], after ? after.split("\n") : []];
  let same = 0;
  while (same < old.length && same < fresh.length && old[same] === fresh[same]) same += 1;
  let tail = 0;
  while (tail < Math.min(old.length, fresh.length) - same && old.at(-1 - tail) === fresh.at(-1 - tail)) tail += 1;
  const make = (kind: LineKind, text: string): PatchLine => ({ kind, before: null, after: null, text, from: 0, to: 0 });
  const lines = [
    ...old.slice(Math.max(0, same - 1), same).map((text) => make("same", text)),
    ...old.slice(same, old.length - tail).map((text) => make("removed", text)),
    ...fresh.slice(same, fresh.length - tail).map((text) => make("added", text)),
    ...fresh.slice(fresh.length - tail, fresh.length - tail + 1).map((text) => make("same", text)),
  ];
  markWords(lines);
  return lines;
}
