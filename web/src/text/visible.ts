// Words of agents, files and tools are shown and never obeyed: what would move a cursor, turn the direction of a text or
// be invisible is written out. HTML needs no care here, since nothing in the page is ever set as HTML.

// C0 and C1 controls but tab and line feed, separators of lines, marks and overrides of direction, and what has no width.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]/gu;
const TAGS = /[\u{e0000}-\u{e007f}]/gu;
// Colours of a terminal say nothing here. What else a terminal would do stays to be seen.
const COLOURS = /\u001b\[[0-9;:]*m/g;

// More than fits on any screen.
const MOST_OF_A_LINE = 2000;

/** A text in which nothing is hidden. */
export function visible(text: string): string {
  return text.replace(HIDDEN, spell).replace(TAGS, spell);
}

/** What a tool has put out, without line ends at its end: those of other systems and colours are taken out first. */
export function visibleOutput(text: string): string {
  const plain = text.replace(COLOURS, "").replace(/\r\n/g, "\n");
  let end = plain.length;
  while (end && plain[end - 1] === "\n") end -= 1;
  return visible(plain.slice(0, end));
}

/** On one line, as in a list: where a line of it ends can be seen. Of a long text, the beginning. */
export function oneLine(text: string): string {
  const lines = text.trimStart().slice(0, MOST_OF_A_LINE).split("\n").map((line) => line.trim());
  return visible(lines.filter(Boolean).join(" ␊ ").replace(/[ \t]+/g, " "));
}

function spell(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "␡";
  return `[U+${code.toString(16).toUpperCase().padStart(4, "0")}]`;
}
