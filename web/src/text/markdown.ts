// Markdown as agents write it, read into a tree of plain values: whoever draws it makes elements and sets text, so that
// nothing in it can become HTML. It knows what agents use, and leaves everything else as it was written.

export type Inline =
  | { type: "text"; text: string }
  | { type: "code"; text: string }
  | { type: "strong" | "emphasis" | "deleted"; children: Inline[] }
  | { type: "link"; href: string; children: Inline[] };

export type Block =
  | { type: "paragraph"; children: Inline[] }
  | { type: "heading"; level: number; children: Inline[] }
  | { type: "code"; language: string; text: string }
  | { type: "list"; ordered: boolean; start: number; items: ListItem[] }
  | { type: "quote"; children: Block[] }
  | { type: "table"; head: Inline[][]; rows: Inline[][][] }
  | { type: "rule" };

export interface ListItem {
  done: boolean | null;
  children: Block[];
}

// Each of these is done in one pass, whatever the line: what begins a line is matched from its start, and what ends it is
// looked for from its end.
const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HEADING = /^ {0,3}(#{1,6})\s/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^( {0,7})([-*+]|\d{1,9}[.)])(\s+|$)(.*)$/s;
const QUOTE = /^ {0,3}> ?(.*)$/s;
const TABLE_CELL = /^:?-+:?$/;
// Deeper than anybody reads: what a hostile text would nest further is left as it is.
const MAX_DEPTH = 8;
const MAX_INLINE = 20_000;

export function parseMarkdown(source: string, depth = 0): Block[] {
  const lines = source.replace(/\r\n?/g, "\n").split("\n");
  const blocks: Block[] = [];
  let paragraph: string[] = [];
  const flush = (): void => {
    if (paragraph.length) blocks.push({ type: "paragraph", children: parseInline(paragraph.join("\n")) });
    paragraph = [];
  };
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    const fence = readFence(line);
    if (fence) {
      flush();
      const end = findFence(lines, at + 1, fence.mark);
      blocks.push({ type: "code", language: fence.language, text: lines.slice(at + 1, end).join("\n") });
      at = end + 1;
      continue;
    }
    if (!line.trim()) {
      flush();
      at += 1;
      continue;
    }
    const heading = HEADING.exec(line);
    if (heading) {
      flush();
      const words = trimHashes(line.slice(heading[0].length));
      blocks.push({ type: "heading", level: heading[1]?.length ?? 1, children: parseInline(words) });
      at += 1;
      continue;
    }
    if (RULE.test(line)) {
      flush();
      blocks.push({ type: "rule" });
      at += 1;
      continue;
    }
    if (QUOTE.test(line) && depth < MAX_DEPTH) {
      flush();
      const quoted: string[] = [];
      for (let match = QUOTE.exec(lines[at] ?? ""); match && at < lines.length; match = QUOTE.exec(lines[++at] ?? "")) {
        quoted.push(match[1] ?? "");
      }
      blocks.push({ type: "quote", children: parseMarkdown(quoted.join("\n"), depth + 1) });
      continue;
    }
    const item = ITEM.exec(line);
    // A number in the middle of a paragraph begins a list only where it is the first.
    if (item && depth < MAX_DEPTH && (!paragraph.length || !/^\d/.test(item[2] ?? "") || /^1[.)]/.test(item[2] ?? ""))) {
      flush();
      const [list, next] = parseList(lines, at, depth);
      blocks.push(list);
      at = next;
      continue;
    }
    if (line.includes("|") && isTableRule(lines[at + 1] ?? "")) {
      const head = splitRow(line);
      if (head.length > 1 || line.trim().startsWith("|")) {
        flush();
        const rows: Inline[][][] = [];
        at += 2;
        while (at < lines.length && (lines[at] ?? "").includes("|") && (lines[at] ?? "").trim()) {
          rows.push(splitRow(lines[at] ?? "").slice(0, head.length).map((cell) => parseInline(cell)));
          at += 1;
        }
        blocks.push({ type: "table", head: head.map((cell) => parseInline(cell)), rows });
        continue;
      }
    }
    paragraph.push(line.trim());
    at += 1;
  }
  flush();
  return blocks;
}

/** The line that begins a block of code: its mark, and the language that it names. */
function readFence(line: string): { mark: string; language: string } | null {
  const begin = FENCE.exec(line);
  const rest = line.slice(begin?.[0].length);
  if (!begin || rest.includes("`")) return null;
  return { mark: begin[1] ?? "```", language: (rest.trim().split(/\s/, 1)[0] ?? "").toLowerCase() };
}

/** A heading without the spaces around it and the marks that close it. */
function trimHashes(words: string): string {
  const trimmed = words.trim();
  let end = trimmed.length;
  while (end && trimmed[end - 1] === "#") end -= 1;
  return trimmed.slice(0, end).trimEnd();
}

function isTableRule(line: string): boolean {
  return splitCells(line).every((cell) => TABLE_CELL.test(cell.trim()));
}

function findFence(lines: readonly string[], from: number, fence: string): number {
  const mark = fence[0] ?? "`";
  for (let at = from; at < lines.length; at++) {
    const line = (lines[at] ?? "").trim();
    if (line.length >= fence.length && line.split("").every((character) => character === mark)) return at;
  }
  return lines.length;
}

function parseList(lines: readonly string[], from: number, depth: number): [Block, number] {
  const first = ITEM.exec(lines[from] ?? "");
  const indent = first?.[1]?.length ?? 0;
  const ordered = /\d/.test(first?.[2] ?? "");
  const items: ListItem[] = [];
  let at = from;
  while (at < lines.length) {
    const match = ITEM.exec(lines[at] ?? "");
    if (!match || (match[1]?.length ?? 0) > indent + 1 || (match[1]?.length ?? 0) < indent || /\d/.test(match[2] ?? "") !== ordered) break;
    const inner = [match[4] ?? ""];
    const content = indent + (match[2]?.length ?? 1) + 1;
    at += 1;
    while (at < lines.length) {
      const line = lines[at] ?? "";
      const leading = line.length - line.trimStart().length;
      if (!line.trim()) {
        const next = lines[at + 1] ?? "";
        if (!next.trim() || next.length - next.trimStart().length < content) break;
      } else if (leading <= indent && (ITEM.test(line) || HEADING.test(line) || readFence(line) || QUOTE.test(line))) break;
      else if (leading < indent) break;
      inner.push(line.slice(Math.min(leading, content)));
      at += 1;
    }
    const task = /^\[([ xX])\]\s+/.exec(inner[0] ?? "");
    if (task) inner[0] = (inner[0] ?? "").slice(task[0].length);
    items.push({ done: task ? task[1] !== " " : null, children: parseMarkdown(inner.join("\n"), depth + 1) });
    // Items may be apart by one empty line.
    if (!(lines[at] ?? "x").trim() && ITEM.test(lines[at + 1] ?? "") && !RULE.test(lines[at + 1] ?? "")) at += 1;
  }
  const start = ordered ? Number.parseInt(first?.[2] ?? "1", 10) : 1;
  return [{ type: "list", ordered, start, items }, Math.max(at, from + 1)];
}

function splitCells(line: string): string[] {
  return line.trim().replace(/^\|/, "").replace(/\|$/, "").split(/(?<!\\)\|/);
}

function splitRow(line: string): string[] {
  return splitCells(line).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

const INLINE =
  /(?<escape>\\[\\`*_{}[\]()#+\-.!|~<>])|(?<code>(?<ticks>`+)(?<coded>[^`]|[^`][\s\S]{0,4000}?[^`])\k<ticks>(?!`))|(?<link>\[(?<label>(?:[^[\]\\]|\\.)+)\]\((?<target><[^<>\n]*>|[^\s()<>]+)(?:\s+"[^"\n]*")?\))|(?<url>https?:\/\/[^\s<>"'`)\]}]+[^\s<>"'`)\]}.,;:!?*_])|(?<strong>\*\*(?=\S)(?<bold>[\s\S]{0,2000}?\S)\*\*|(?<![\w_])__(?=\S)(?<bold2>[\s\S]{0,2000}?\S)__(?![\w_]))|(?<em>\*(?=[^\s*])(?<italic>[^*\n]*?[^\s*])\*(?!\*)|(?<![\w_])_(?=[^\s_])(?<italic2>[^_\n]*?[^\s_])_(?![\w_]))|(?<del>~~(?=\S)(?<gone>[^~\n]*?\S)~~)/gu;

export function parseInline(source: string, depth = 0): Inline[] {
  if (depth > 4 || source.length > MAX_INLINE) return [{ type: "text", text: source }];
  const parts: Inline[] = [];
  let end = 0;
  const say = (text: string): void => {
    const last = parts.at(-1);
    if (!text) return;
    if (last?.type === "text") last.text += text;
    else parts.push({ type: "text", text });
  };
  for (const match of source.matchAll(INLINE)) {
    say(source.slice(end, match.index));
    end = match.index + match[0].length;
    const found = match.groups ?? {};
    if (found["escape"]) say(found["escape"].slice(1));
    else if (found["code"]) parts.push({ type: "code", text: (found["coded"] ?? "").replace(/^ (.*) $/s, "$1") });
    else if (found["link"]) {
      const href = safeAddress((found["target"] ?? "").replace(/^<|>$/g, ""));
      // An address that is not followed is shown, so that nobody believes the label.
      if (href) {
        const label = found["label"] ?? "";
        parts.push({ type: "link", href, children: parseInline(label, depth + 1) });
        const { host } = new URL(href);
        if (namesOtherHost(label, host)) say(` (${host})`);
      } else say(match[0]);
    } else if (found["url"]) {
      const href = safeAddress(found["url"]);
      if (href) parts.push({ type: "link", href, children: [{ type: "text", text: found["url"] }] });
      else say(match[0]);
    } else if (found["strong"]) {
      parts.push({ type: "strong", children: parseInline(found["bold"] ?? found["bold2"] ?? "", depth + 1) });
    } else if (found["em"]) {
      parts.push({ type: "emphasis", children: parseInline(found["italic"] ?? found["italic2"] ?? "", depth + 1) });
    } else parts.push({ type: "deleted", children: parseInline(found["gone"] ?? "", depth + 1) });
  }
  say(source.slice(end));
  return parts;
}

// What a reader takes for the dot of an address.
const DOT = /[^\s.][.\u2024\u3002\uff0e\uff61][^\s.]/u;

/** Whether a label looks like an address that leads elsewhere. */
function namesOtherHost(label: string, host: string): boolean {
  return label.split(/\s/).some((word) => {
    if (!DOT.test(word)) return false;
    const named = word.replace(/^https?:\/\//i, "").split(/[/?#]/, 1)[0] ?? "";
    return ![host, `www.${host}`].includes(named.toLowerCase()) && `www.${named.toLowerCase()}` !== host;
  });
}

/** An address that may be a link: of the web, without a name or password in it; else nothing. */
export function safeAddress(address: string): string {
  try {
    const url = new URL(address);
    const isWeb = url.protocol === "https:" || url.protocol === "http:";
    return isWeb && !url.username && !url.password ? url.href : "";
  } catch {
    return "";
  }
}
