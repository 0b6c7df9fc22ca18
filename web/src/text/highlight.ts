// Colours for code, by one small rule for many languages: comments, texts, numbers and words of the language. It does not
// understand code; what it cannot tell it leaves alone.

export type TokenKind = "" | "comment" | "text" | "number" | "keyword" | "name";

export interface Token {
  kind: TokenKind;
  text: string;
}

const WORDS: Readonly<Record<string, string>> = {
  python:
    "and as assert async await break class continue def del elif else except finally for from global if import in is lambda match case None nonlocal not or pass raise return True False try while with yield self",
  c: "as async await break case catch class const continue def default delete do else enum export extends extern false final finally fn for from func function go goto if impl implements import in instanceof interface is let match mod mut namespace new nil null nullptr of override package private protected pub public range readonly return self sizeof static struct super switch this throw throws trait true try type typedef typeof undefined union unsafe use using val var virtual void volatile where while yield int float double char bool boolean string long short unsigned",
  shell:
    "if then else elif fi for in do done while until case esac function return local export set unset echo cd exit source true false",
  sql: "select from where and or not insert into values update set delete create table index view drop alter join left right inner outer on group by order having limit as distinct null is in like union all primary key references default",
  data: "true false null yes no on off",
};

const BY_ENDING: Readonly<Record<string, string>> = {
  py: "python", pyi: "python", python: "python", toml: "data", yaml: "data", yml: "data", json: "data", ini: "data", cfg: "data",
  sh: "shell", bash: "shell", zsh: "shell", shell: "shell", console: "shell", dockerfile: "shell", makefile: "shell", mk: "shell",
  rb: "python", sql: "sql",
};
const PLAIN = new Set(["", "txt", "text", "md", "markdown", "log", "csv", "rst", "lock", "svg", "html", "xml"]);
const MAX_LINE = 2000;

const HASH = /(?<comment>(?<=^|\s)#.*$)|(?<text>[rbf]?"""(?:.*?)"""|[rbfu]?"(?:[^"\\]|\\.)*"|[rbfu]?'(?:[^'\\]|\\.)*')|(?<number>\b(?:0x[\da-f]+|\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?)\b)|(?<word>[A-Za-z_]\w*)(?<call>(?=\())?/giu;
const SLASH = /(?<comment>\/\/.*$|\/\*.*?(?:\*\/|$)|^\s*\*(?:\s.*|\/)?$)|(?<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)|(?<number>\b(?:0x[\da-f]+|\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?)\b)|(?<word>[A-Za-z_$][\w$]*)(?<call>(?=\())?/giu;
const DASH = /(?<comment>--.*$)|(?<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?<number>\b\d[\d_]*(?:\.\d+)?\b)|(?<word>[A-Za-z_]\w*)(?<call>(?=\())?/giu;

/** The language of a file or of a fence, as `highlight` wants it; empty where nothing is to be coloured. */
export function languageOf(name: string): string {
  const base = name.split("/").at(-1)?.toLowerCase() ?? "";
  const ending = base.includes(".") ? (base.split(".").at(-1) ?? "") : base;
  if (PLAIN.has(ending)) return "";
  return BY_ENDING[ending] ?? "c";
}

/** One line of code in tokens. */
export function highlight(line: string, language: string): Token[] {
  if (!language || line.length > MAX_LINE) return [{ kind: "", text: line }];
  const words = wordsOf(language);
  const pattern = language === "c" ? SLASH : language === "sql" ? DASH : HASH;
  const tokens: Token[] = [];
  let end = 0;
  const push = (kind: TokenKind, text: string): void => {
    const last = tokens.at(-1);
    if (!text) return;
    if (last && last.kind === kind) last.text += text;
    else tokens.push({ kind, text });
  };
  for (const match of line.matchAll(pattern)) {
    push("", line.slice(end, match.index));
    end = match.index + match[0].length;
    const found = match.groups ?? {};
    const word = found["word"];
    if (found["comment"] !== undefined) push("comment", match[0]);
    else if (found["text"] !== undefined) push("text", match[0]);
    else if (found["number"] !== undefined) push("number", match[0]);
    else if (word !== undefined && words.has(language === "sql" ? word.toLowerCase() : word)) push("keyword", word);
    else push(found["call"] !== undefined ? "name" : "", match[0]);
  }
  push("", line.slice(end));
  return tokens;
}

const KNOWN = new Map<string, ReadonlySet<string>>();

function wordsOf(language: string): ReadonlySet<string> {
  let words = KNOWN.get(language);
  if (!words) KNOWN.set(language, (words = new Set((WORDS[language] ?? "").split(" "))));
  return words;
}
