import assert from "node:assert/strict";
import { test } from "node:test";
import { formatCost, formatCount, formatDuration, formatTokens, formatUsd, projectName, shortenPath } from "../src/text/format.ts";
import { highlight, languageOf } from "../src/text/highlight.ts";
import { type Inline, parseInline, parseMarkdown, safeAddress } from "../src/text/markdown.ts";
import { diffTexts, parsePatch } from "../src/text/patch.ts";
import { oneLine, visible, visibleOutput } from "../src/text/visible.ts";

function plain(parts: readonly Inline[]): string {
  return parts.map((part) => ("text" in part ? part.text : plain(part.children))).join("");
}

test("what would move a cursor, turn a text or be invisible is written out", () => {
  assert.equal(visible("a\u202Etxt.exe"), "a[U+202E]txt.exe");
  assert.equal(visible("\u001b[2J\u0000\u007f"), "␛[2J␀␡");
  assert.equal(visible("a\u200bb\u2066c\ufeff"), "a[U+200B]b[U+2066]c[U+FEFF]");
  assert.equal(visible("a\u{e0041}b"), "a[U+E0041]b");
  assert.equal(visible("tab\tline\nÄ 漢 🙂"), "tab\tline\nÄ 漢 🙂");
  assert.equal(visibleOutput("\u001b[31mred\u001b[0m\r\nnext\r"), "red\nnext␍");
  assert.equal(oneLine("  a\n\n b   c "), "a ␊ b c");
});

test("links are followed only to the web, and an address that is not is shown", () => {
  assert.equal(safeAddress("https://example.com/a"), "https://example.com/a");
  for (const address of ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "//evil", "https://user:pw@example.com", "no address"]) {
    assert.equal(safeAddress(address), "");
  }
  assert.deepEqual(parseInline("[x](javascript:alert(1))"), [{ type: "text", text: "[x](javascript:alert(1))" }]);
  const [link] = parseInline("[docs](https://example.com)");
  assert.deepEqual(link, { type: "link", href: "https://example.com/", children: [{ type: "text", text: "docs" }] });
  assert.deepEqual(parseInline("see https://example.com/a.").map((each) => each.type), ["text", "link", "text"]);
});

test("HTML is text", () => {
  assert.deepEqual(parseMarkdown("<script>alert(1)</script>"), [{ type: "paragraph", children: [{ type: "text", text: "<script>alert(1)</script>" }] }]);
});

test("markdown as agents write it", () => {
  const blocks = parseMarkdown("# Head\n\nSome **bold** and `code`.\n\n1. one\n   - inner\n2. two\n\n```py\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> said\n\n- [x] done\n- [ ] open\n\n---");
  assert.deepEqual(blocks.map((block) => block.type), ["heading", "paragraph", "list", "code", "table", "quote", "list", "rule"]);
  const list = blocks[2];
  assert.ok(list?.type === "list" && list.ordered && list.items.length === 2 && list.items[0]?.children[1]?.type === "list");
  const tasks = blocks[6];
  assert.deepEqual(tasks?.type === "list" && tasks.items.map((item) => item.done), [true, false]);
  assert.deepEqual(blocks[3], { type: "code", language: "py", text: "x = 1" });
});

test("names with underscores and stars of arithmetic stay as they are", () => {
  for (const words of ["some_long_name and other_name", "2 * 3 * 4", "a ** b", "snake_case_"]) {
    assert.equal(plain(parseInline(words)), words);
  }
});

test("a fence that never ends, and texts made to be slow, are read at once", () => {
  assert.deepEqual(parseMarkdown("```\nx"), [{ type: "code", language: "", text: "x" }]);
  const begin = Date.now();
  for (const words of ["**a ".repeat(4000), "[".repeat(9000), "`a".repeat(9000), "> ".repeat(3000), "- ".repeat(3000), "|-".repeat(9000), "_a".repeat(9000)]) {
    parseMarkdown(words);
  }
  assert.ok(Date.now() - begin < 3000, `${Date.now() - begin} ms`);
});

test("a line of 100,000 characters is read in one pass, however it is made", () => {
  const [much, spaces] = [100_000, " ".repeat(100_000)];
  const lines = [
    `# a${spaces}b${spaces}#x`, `#${spaces}x`, `a|b\n|-${spaces}x`, `a|b\n${"-|".repeat(much)}x`, `\`\`\`${spaces}\``, `${"~".repeat(much)}\``,
    `- ${spaces}x\u2028`, `---${spaces}x`, `${"- ".repeat(much)}x`, ">".repeat(much), `> ${spaces}x\u2028`, `1. ${spaces}`,
  ];
  for (const line of lines) assert.ok(took(() => parseMarkdown(line)) < 2000, line.slice(0, 10));
  assert.ok(took(() => oneLine(`a${spaces}b${"\n".repeat(much)}c`)) < 2000);
  assert.ok(took(() => visibleOutput(`${"\n".repeat(much)}x`)) < 2000);
});

test("what ends a line of markdown is no part of it", () => {
  assert.deepEqual(parseMarkdown("##  Two words ##  "), [{ type: "heading", level: 2, children: [{ type: "text", text: "Two words" }] }]);
  assert.deepEqual(parseMarkdown("# "), [{ type: "heading", level: 1, children: [] }]);
  assert.deepEqual(parseMarkdown("#no"), [{ type: "paragraph", children: [{ type: "text", text: "#no" }] }]);
  assert.deepEqual(parseMarkdown("~~~  Py x\n1\n~~~"), [{ type: "code", language: "py", text: "1" }]);
  assert.equal(parseMarkdown("```a`")[0]?.type, "paragraph");
  for (const rule of ["|---|:-:|", " :-- | --: ", "--|--"]) assert.equal(parseMarkdown(`a|b\n${rule}\n1|2`)[0]?.type, "table", rule);
  for (const none of ["|--x|--|", "||", "a|--"]) assert.equal(parseMarkdown(`a|b\n${none}`)[0]?.type, "paragraph", none);
  assert.equal(visibleOutput("a\n\nb\n\n"), "a\n\nb");
  assert.equal(oneLine(" \n a \n \n b\t c \n"), "a ␊ b c");
});

test("a label that looks like another address has the real one beside it", () => {
  const say = (words: string): string => plain(parseInline(words));
  assert.equal(say("[https://bank.example/login](https://evil.example/x)"), "https://bank.example/login (evil.example)");
  assert.equal(say("[at bank.example now](https://evil.example)"), "at bank.example now (evil.example)");
  assert.equal(say("[bank\u3002example](https://evil.example)"), "bank\u3002example (evil.example)");
  assert.equal(say("[https://bank.example@evil.example](https://evil.example)"), "https://bank.example@evil.example (evil.example)");
  for (const fine of ["https://good.example/a", "www.good.example", "good.example", "the docs", "Good. Then"]) {
    assert.equal(say(`[${fine}](https://good.example/b)`), fine);
  }
});

function took(act: () => unknown): number {
  const begin = performance.now();
  act();
  return performance.now() - begin;
}

const PATCH = `diff --git a/new.md b/new.md
new file mode 100644
index 0000000..21371ef
--- /dev/null
+++ b/new.md
@@ -0,0 +1,2 @@
+# New
+-- a/file
diff --git a/basket.py b/basket.py
index 4a370ef..50c566d 100644
--- a/basket.py
+++ b/basket.py
@@ -23,3 +23,3 @@ class Basket:
     a
-    total -= item
+    total += item
     b
@@ -40,2 +40,1 @@
 x
--- y
\\ No newline at end of file
diff --git "a/\\303\\244.bin" "b/\\303\\244.bin"
deleted file mode 100644
Binary files "a/\\303\\244.bin" and /dev/null differ
diff --git a/old b/fresh
similarity index 100%
rename from old
rename to fresh
`;

test("a patch is read into files, parts and lines with their numbers", () => {
  const [fresh, changed, gone, renamed] = parsePatch(PATCH);
  assert.deepEqual([fresh?.path, fresh?.change, fresh?.added, fresh?.removed], ["new.md", "added", 2, 0]);
  assert.deepEqual([changed?.path, changed?.change, changed?.added, changed?.removed], ["basket.py", "modified", 1, 2]);
  assert.deepEqual(changed?.hunks.map((hunk) => [hunk.skipped, hunk.heading, hunk.lines.length]), [[22, "class Basket:", 4], [14, "", 3]]);
  assert.deepEqual(changed?.hunks[0]?.lines[1], { kind: "removed", before: 24, after: null, text: "    total -= item", from: 10, to: 11 });
  assert.deepEqual(changed?.hunks[1]?.lines.map((line) => line.kind), ["same", "removed", "note"]);
  assert.deepEqual([gone?.path, gone?.change, gone?.binary], ["ä.bin", "deleted", true]);
  assert.deepEqual([renamed?.before, renamed?.path, renamed?.change], ["old", "fresh", "renamed"]);
  assert.deepEqual(parsePatch(""), []);
});

test("an edit that a tool states is shown with a line around it", () => {
  const lines = diffTexts("a\nb\nc", "a\nB\nc");
  assert.deepEqual(lines.map((line) => [line.kind, line.text]), [["same", "a"], ["removed", "b"], ["added", "B"], ["same", "c"]]);
  assert.deepEqual(diffTexts("", "x").map((line) => line.kind), ["added"]);
});

test("colours of code lose no character", () => {
  const samples: [string, string][] = [["def f(x): # why", "py"], ["const a = `b` // c", "ts"], ["select * from t -- x", "sql"], ["echo 'a' # b", "sh"], ["plain", "txt"]];
  for (const [line, ending] of samples) assert.equal(highlight(line, languageOf(`a.${ending}`)).map((token) => token.text).join(""), line);
  assert.deepEqual(highlight("def f", "python")[0], { kind: "keyword", text: "def" });
  assert.deepEqual(highlight("x".repeat(5000), "c"), [{ kind: "", text: "x".repeat(5000) }]);
});

test("numbers as people read them", () => {
  assert.deepEqual([0.01, 3.14, 12.7, 72, 3725, 90_000].map(formatDuration), ["0 s", "3.1 s", "12 s", "1:12", "1:02:05", "1 d 1 h"]);
  assert.deepEqual([0, 0.0001, 0.031, 2, 1234].map(formatUsd), ["$0", "<$0.001", "$0.031", "$2.00", "$1\u202f234"]);
  assert.deepEqual([999, 1500, 48_000, 2_500_000].map(formatTokens), ["999", "1.5k", "48k", "2.5M"]);
  assert.equal(formatCount(1_234_567), "1\u202f234\u202f567");
  assert.equal(formatCost({ cost_usd: null, cost_kind: "not_paid", not_paid_usd: 1 }), "not paid");
  assert.equal(formatCost({ cost_usd: null, cost_kind: "unknown" }), "unknown");
  assert.equal(formatCost({ cost_usd: 2, cost_kind: "partial" }), "≥ $2.00");
  assert.equal(shortenPath("/home/ada/shop"), "~/shop");
  assert.equal(projectName("shop-2395966e"), "shop");
});
