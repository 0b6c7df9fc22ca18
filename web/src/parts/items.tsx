// One line of the timeline for each thing that happened.
import type { ComponentChildren } from "preact";
import { memo } from "../cell.ts";
import type { FileNote, Item, NodeItem, PermissionItem, QuestionItem, ToolItem } from "../folds/items.ts";
import { describeOutcome, type Glyph, type Tone } from "../folds/state_words.ts";
import { subjectOf } from "../folds/subject.ts";
import { runAddress } from "../routes.ts";
import { formatClock, formatDuration, formatTokens, plural, totalTokens } from "../text/format.ts";
import { languageOf } from "../text/highlight.ts";
import { diffTexts } from "../text/patch.ts";
import { oneLine, visible } from "../text/visible.ts";
import { Code, Output, PatchLines } from "./code.tsx";
import { GlyphIcon, SignIcon } from "./icons.tsx";
import { Markdown } from "./markdown.tsx";
import { Command, Cost, Countdown, Duration, Elapsed } from "./small.tsx";

export interface ItemProps {
  item: Item;
  open: boolean;
  toggle: (n: number) => void;
  /** Whether what is open goes on: in a replay, and after the end, no clock runs. */
  living: boolean;
  commands: readonly string[];
  cwd: string;
}

export const ItemPart = memo((props: ItemProps) => {
  const { item } = props;
  switch (item.type) {
    case "text":
      return (
        <div class="said">
          <Markdown text={item.text} />
        </div>
      );
    case "thinking":
      return (
        <Folded {...props} label="thought" preview={oneLine(item.text)}>
          <div class="thought">
            <Markdown text={item.text} />
          </div>
        </Folded>
      );
    case "tool":
      return <Tool {...props} item={item} />;
    case "file":
      return <Files files={item.files} cwd={props.cwd} />;
    case "plan":
      return (
        <ol class="plan" aria-label="Plan">
          {item.steps.map((step, index) => (
            <li key={index} class={`plan-${step.state}`}>
              <GlyphIcon glyph={step.state === "done" ? "done" : step.state === "active" ? "working" : "pending"} />
              <span>{visible(step.text)}</span>
              <span class="unseen"> ({step.state})</span>
            </li>
          ))}
        </ol>
      );
    case "permission":
    case "question":
      return <Asked item={item} />;
    case "message":
      return (
        <div class="message">
          <span class="label">
            {item.how === "prompt" ? "prompt" : item.how === "queued" ? "you said · waits for its turn" : item.how === "steered" ? "you said · into the running turn" : "you said"}
          </span>
          <div class="message-text">{visible(item.text)}</div>
        </div>
      );
    case "turn": {
      const words = describeOutcome(item.outcome, item.reason);
      const fine = item.outcome === "completed";
      return (
        <Line glyph={words.glyph} tone={fine ? "muted" : words.tone} what={fine ? "answered" : `${words.word}${words.about ? ` (${words.about})` : ""}`} side={item.seconds === null ? null : <Duration seconds={item.seconds} />}>
          {item.message ? <span>{visible(item.message)}</span> : null}
          {item.next ? <p class="next">{visible(item.next)}</p> : null}
        </Line>
      );
    }
    case "note":
      return (
        <Line glyph={NOTE_GLYPHS[item.tone]} tone={item.tone === "quiet" ? "muted" : item.tone} what={item.what}>
          {item.text ? <span class="note-text">{visible(item.text)}</span> : null}
          {item.detail ? <p class="next">{visible(item.detail)}</p> : null}
          {item.run ? <RunLink run={item.run} /> : null}
        </Line>
      );
    case "limit":
      return (
        <Line glyph="limit" tone="attention" what="rate limited" side={item.resetsAt && props.living ? <Countdown until={item.resetsAt} /> : null}>
          {visible(item.text)}
        </Line>
      );
    case "check": {
      const { result } = item;
      const tone = !result ? "accent" : result.passed ? "success" : "failure";
      return (
        <div>
          <Line
            glyph={!result ? "working" : result.passed ? "done" : "failed"}
            tone={tone}
            what="check"
            side={!result ? (props.living ? <Elapsed since={item.t} /> : null) : <><Exit code={result.passed ? 0 : (result.exit_code ?? null)} failed={!result.passed} /><Duration seconds={result.duration_s ?? 0} /></>}
          >
            <code class="subject">{oneLine(item.check)}</code>
            {result?.timed_out ? <span> ran out of time</span> : null}
          </Line>
          {result?.output && !result.passed ? <Output text={result.output} open={props.open} failed onToggle={() => props.toggle(item.n)} /> : null}
        </div>
      );
    }
    case "attempt": {
      const words = item.endedAt === null ? null : describeOutcome(item.outcome, item.reason);
      return (
        <div class="milestone">
          <Line glyph={words?.glyph ?? "working"} tone={words?.tone ?? "accent"} what={`attempt ${item.attempt}`} side={item.endedAt ? <Duration seconds={item.endedAt - item.t} /> : props.living ? <Elapsed since={item.t} /> : null}>
            <span>{visible(item.agent)}</span> {words ? <span>{words.word}{words.about ? ` (${words.about})` : ""}</span> : null}{" "}
            <RunLink run={item.run} />
            {item.message ? <p class="next">{visible(item.message)}</p> : null}
          </Line>
        </div>
      );
    }
    case "node":
      return <Node {...props} item={item} />;
    case "end": {
      const words = describeOutcome(item.outcome, item.reason);
      return (
        <section class="end" aria-label="End of the run">
          <p class="end-head">
            <b class={`tone-${words.tone}`}>
              <GlyphIcon glyph={words.glyph} /> {words.word}
              {words.about ? `: ${words.about}` : ""}
            </b>
            <span>in {formatDuration(item.seconds)}</span>
            <span>{plural(item.files.length, "file")} changed</span>
            {item.usage ? <span>{formatTokens(totalTokens(item.usage))} tokens</span> : null}
            <Cost money={{ cost_usd: item.costUsd, cost_kind: item.costKind, not_paid_usd: item.notPaidUsd }} />
          </p>
          {item.message ? <p class="end-message">{visible(item.message)}</p> : null}
          {item.next ? <p class="next">{visible(item.next)}</p> : null}
          {props.commands.length ? (
            <p class="end-commands">
              {props.commands.map((each) => (
                <Command key={each} text={each} />
              ))}
            </p>
          ) : null}
        </section>
      );
    }
  }
});

const NOTE_GLYPHS = { quiet: "idle", attention: "person", failure: "failed", success: "done" } as const;

function Line(props: {
  glyph: Glyph;
  tone: Tone;
  what: string;
  side?: ComponentChildren;
  children?: ComponentChildren;
}) {
  return (
    <div class="line">
      <span class={`tone-${props.tone} line-glyph`}>
        <GlyphIcon glyph={props.glyph} />
      </span>
      <div class="line-body">
        <b class="what">{visible(props.what)}</b> {props.children}
      </div>
      {props.side ? <span class="line-side">{props.side}</span> : null}
    </div>
  );
}

function Folded({ item, open, toggle, label, preview, children }: ItemProps & { label: string; preview: string; children: ComponentChildren }) {
  return (
    <div class="folded">
      <button type="button" class="fold-line" aria-expanded={open} onClick={() => toggle(item.n)}>
        <SignIcon sign={open ? "down" : "chevron"} size={12} />
        <span class="label">{label}</span>
        {open ? null : <span class="preview">{preview}</span>}
      </button>
      {open ? children : null}
    </div>
  );
}

const TOOL_STATES = {
  running: ["working", "accent", "running"],
  ok: ["done", "success", ""],
  failed: ["failed", "failure", "failed"],
  denied: ["stopped", "attention", "denied"],
} as const;

function Tool({ item, open, toggle, living, cwd }: ItemProps & { item: ToolItem }) {
  const [glyph, tone, word] = TOOL_STATES[item.state];
  const edit = readEdit(item.input);
  const subject = oneLine(shorten(item.subject, cwd));
  return (
    <div class={`tool tool-${item.state} ${item.parent ? "tool-nested" : ""}`}>
      <button type="button" class="tool-line" aria-expanded={open} onClick={() => toggle(item.n)}>
        <span class={`tone-${tone} line-glyph`}>
          <GlyphIcon glyph={glyph} spin={item.state === "running" && living} />
        </span>
        <span class="tool-name">{visible(item.name)}</span>
        <code class="subject">{subject}</code>
        {item.files.length ? <ChangeCounts item={item} /> : null}
        <span class="line-side">
          {item.state === "running" ? (
            living ? <Elapsed since={item.t} /> : null
          ) : (
            <>
              {item.exitCode !== null && item.exitCode !== 0 ? <Exit code={item.exitCode} failed /> : word ? <span class={`tone-${tone}`}>{word}</span> : item.exitCode === 0 ? <span class="tone-success">ok</span> : null}
              {item.endedAt !== null && item.endedAt - item.t >= 0.05 ? <Duration seconds={item.endedAt - item.t} /> : null}
            </>
          )}
        </span>
      </button>
      {open ? <ToolInput item={item} /> : null}
      {edit && item.state !== "denied" ? <PatchLines lines={edit.lines} language={languageOf(edit.path)} numbers={false} /> : null}
      {item.output && !(edit && item.state === "ok" && !open) ? (
        <Output text={item.output} open={open} failed={item.state === "failed"} onToggle={() => toggle(item.n)} />
      ) : null}
    </div>
  );
}

function ToolInput({ item }: { item: ToolItem }) {
  const whole = typeof item.input === "string" ? item.input : JSON.stringify(item.input ?? {}, null, 2);
  const isCommand = item.subject && item.subject === subjectOf(item.input);
  return (
    <div class="tool-input">
      <p class="dim num">
        {formatClock(item.t)} · event {item.n}
      </p>
      <Code text={isCommand && item.subject.includes("\n") ? item.subject : whole} language={isCommand ? "shell" : "data"} label="input" />
      {item.files.length ? <Files files={item.files} cwd="" /> : null}
    </div>
  );
}

function ChangeCounts({ item }: { item: ToolItem }) {
  const edit = readEdit(item.input);
  if (!edit) return <span class="counts">{plural(item.files.length, "file")}</span>;
  const added = edit.lines.filter((line) => line.kind === "added").length;
  const removed = edit.lines.filter((line) => line.kind === "removed").length;
  return <Counts added={added} removed={removed} />;
}

export function Counts({ added, removed }: { added: number; removed: number }) {
  return (
    <span class="counts num">
      {added ? <span class="tone-success">+{added}</span> : null} {removed ? <span class="tone-failure">−{removed}</span> : null}
    </span>
  );
}

function Exit({ code, failed }: { code: number | null; failed: boolean }) {
  if (!failed) return <span class="tone-success">ok</span>;
  return <span class="tone-failure num">{code === null ? "failed" : `exit ${code}`}</span>;
}

const CHANGES = { added: ["+", "success"], modified: ["~", "attention"], deleted: ["−", "failure"] } as const;

function Files({ files, cwd }: { files: readonly FileNote[]; cwd: string }) {
  return (
    <ul class="files">
      {files.map((file, index) => {
        const [mark, tone] = CHANGES[file.change as keyof typeof CHANGES] ?? ["·", "muted"];
        return (
          <li key={index}>
            <span class={`tone-${tone}`} aria-hidden="true">
              {mark}
            </span>
            <span class="dim">{visible(file.change)}</span> <code>{visible(shorten(file.path, cwd))}</code>
          </li>
        );
      })}
    </ul>
  );
}

function Asked({ item }: { item: PermissionItem | QuestionItem }) {
  const open = item.answer === null;
  const subject = item.type === "permission" ? subjectOf(item.input) || item.tool : item.questions.map((each) => each.text).join(" / ");
  const said =
    item.type === "permission"
      ? item.answer && (item.answer.allowed ? `allowed${item.answer.always ? " for good" : ""}${item.answer.changed ? ", changed to" : ""}` : "denied")
      : item.answer && (Object.keys(item.answer.answers).length ? "answered" : "not answered");
  const fine = item.answer && ("allowed" in item.answer ? item.answer.allowed : Object.keys(item.answer.answers).length > 0);
  return (
    <div class={`asked ${open ? "asked-open" : ""}`}>
      <Line glyph={open ? "person" : fine ? "done" : "stopped"} tone={open ? "attention" : fine ? "success" : "muted"} what={item.type === "permission" ? `asks to use ${item.tool}` : "asks"}>
        <code class="subject-whole">{visible(subject)}</code>
        {item.type === "permission" && item.reason ? <p class="next">{visible(item.reason)}</p> : null}
        {item.answer ? (
          <p class="next">
            {said}
            {item.type === "permission" && item.answer.allowed && item.answer.changed ? <code class="subject-whole"> {visible(item.answer.changed)}</code> : null}
            {item.answer.by ? ` by ${visible(item.answer.by)}` : ""}
            {item.answer.reason ? `: ${visible(item.answer.reason)}` : ""}
          </p>
        ) : (
          <p class="next">waits for an answer, below</p>
        )}
        {item.type === "question" && item.answer ? (
          <dl class="answers">
            {Object.entries(item.answer.answers).map(([question, answer]) => (
              <div key={question}>
                <dt>{visible(question)}</dt>
                <dd>{item.questions.find((each) => each.text === question)?.secret ? "•••" : visible(answer)}</dd>
              </div>
            ))}
          </dl>
        ) : null}
      </Line>
    </div>
  );
}

const NODE_WORDS: Readonly<Record<string, readonly [Glyph, Tone]>> = {
  running: ["working", "accent"],
  success: ["done", "success"],
  failed: ["failed", "failure"],
  skipped: ["skipped", "muted"],
};

function Node({ item, open, toggle, living }: ItemProps & { item: NodeItem }) {
  const [glyph, tone] = NODE_WORDS[item.status] ?? ["pending", "muted"];
  return (
    <div class="milestone">
      <Line
        glyph={glyph}
        tone={tone}
        what={item.node}
        side={item.seconds !== null ? <Duration seconds={item.seconds} /> : item.endedAt === null && living ? <Elapsed since={item.t} /> : null}
      >
        <span class="dim">{visible(item.kind)}{item.round > 1 ? `, round ${item.round}` : ""}</span> <span>{item.status}</span>{" "}
        {item.run ? <RunLink run={item.run} /> : null}
        {item.error ? <p class="next">{visible(item.error)}</p> : null}
      </Line>
      {item.output ? <Output text={item.output} open={open} failed={item.status === "failed"} onToggle={() => toggle(item.n)} /> : null}
    </div>
  );
}

export function RunLink({ run, text }: { run: string; text?: string }) {
  return (
    <a class="run-link" href={runAddress(run)}>
      {text ?? "open the run"}
    </a>
  );
}

function shorten(path: string, cwd: string): string {
  return cwd && path.startsWith(`${cwd}/`) ? path.slice(cwd.length + 1) : path;
}

/** An edit or a new file that the input of a tool states. */
function readEdit(input: unknown): { path: string; lines: ReturnType<typeof diffTexts> } | null {
  const fields = typeof input === "object" && input !== null ? (input as Record<string, unknown>) : {};
  const pick = (...names: string[]): string | null => {
    for (const name of names) if (typeof fields[name] === "string") return fields[name];
    return null;
  };
  const path = pick("file_path", "path", "filePath") ?? "";
  const before = pick("old_string", "old_str", "oldString", "old", "old_text");
  const after = pick("new_string", "new_str", "newString", "new", "new_text");
  const content = pick("content", "contents");
  if (path && before !== null && after !== null) return { path, lines: limit(diffTexts(before, after)) };
  if (path && content !== null) return { path, lines: limit(diffTexts("", content.replace(/\n$/, ""))) };
  return null;
}

const MOST_LINES = 40;

function limit(lines: ReturnType<typeof diffTexts>): ReturnType<typeof diffTexts> {
  if (lines.length <= MOST_LINES) return lines;
  const rest = lines.length - MOST_LINES;
  return [...lines.slice(0, MOST_LINES), { kind: "note", before: null, after: null, text: `${rest} more lines: the tab Diff has them`, from: 0, to: 0 }];
}
