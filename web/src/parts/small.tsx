// Small parts that every place uses.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { announce } from "../announce.ts";
import { describe, Problem, reachable } from "../api/client.ts";
import type { Money } from "../api/values.ts";
import { memo, useCell } from "../cell.ts";
import { useNow } from "../clock.ts";
import type { Spent } from "../folds/run_view.ts";
import type { StateWords } from "../folds/state_words.ts";
import { explainCost, formatCost, formatDuration, speakDuration } from "../text/format.ts";
import { visible } from "../text/visible.ts";
import { GlyphIcon, type Sign, SignIcon } from "./icons.tsx";

export function State({ words, about = true }: { words: StateWords; about?: boolean }) {
  return (
    <span class={`state tone-${words.tone}`}>
      <GlyphIcon glyph={words.glyph} spin={words.glyph === "working"} />
      <span class="word">{words.word}</span>
      {about && words.about ? <span class="about">{words.about}</span> : null}
    </span>
  );
}

export function Elapsed({ since, until }: { since: number; until?: number | null }) {
  return until ? <Duration seconds={until - since} /> : <Ticking since={since} />;
}

function Ticking({ since }: { since: number }) {
  const now = useNow();
  const seconds = Math.max(0, now - since);
  return <span class="num">{seconds < 10 ? `${Math.floor(seconds)} s` : formatDuration(seconds)}</span>;
}

export function Countdown({ until }: { until: number }) {
  const left = until - useNow();
  return <span class="num">{left > 0 ? `lifts in ${formatDuration(left)}` : "should have lifted"}</span>;
}

export function Duration({ seconds }: { seconds: number }) {
  return (
    <span class="num" title={speakDuration(seconds)}>
      {formatDuration(seconds)}
    </span>
  );
}

export function Cost({ money }: { money: Money }) {
  const said = formatCost(money);
  const isNumber = said.includes("$");
  return (
    <span class={`cost num ${isNumber ? "" : "cost-word"}`} title={explainCost(money)}>
      {said}
    </span>
  );
}

const SPENT = [
  ["model", "the model"],
  ["tool", "tools"],
  ["person", "you"],
  ["limit", "limits"],
] as const;

/** What the time went to, as one thin line; its words say the same. */
export function SpentBar({ spent, legend = false }: { spent: Spent; legend?: boolean }) {
  const sum = spent.model + spent.tool + spent.person + spent.limit;
  if (sum <= 0) return null;
  const shown = SPENT.filter(([name]) => spent[name] > 0);
  const said = shown.map(([name, words]) => `${words} ${formatDuration(spent[name])}`).join(", ");
  return (
    <>
      <span class="spent" role="img" aria-label={`Time went to: ${said}`} title={said}>
        {shown.map(([name]) => (
          <i key={name} class={`spent-${name}`} style={{ flexGrow: spent[name] / sum }} />
        ))}
      </span>
      {legend ? (
        <span class="legend">
          {shown.map(([name, words]) => (
            <span key={name}>
              <i class={`swatch spent-${name}`} /> {words} <b class="num">{formatDuration(spent[name])}</b>
            </span>
          ))}
        </span>
      ) : null}
    </>
  );
}

export function IconButton(props: {
  sign: Sign;
  label: string;
  onClick: () => void;
  pressed?: boolean;
  expanded?: boolean;
  class?: string;
}) {
  return (
    <button
      type="button"
      class={`icon-button ${props.class ?? ""}`}
      aria-label={props.label}
      title={props.label}
      aria-pressed={props.pressed}
      aria-expanded={props.expanded}
      onClick={props.onClick}
    >
      <SignIcon sign={props.sign} />
    </button>
  );
}

export function CopyButton({ text, what }: { text: string; what: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      announce(`${what} copied`);
      window.setTimeout(() => setCopied(false), 1500);
    } catch {
      announce("The browser does not allow copying here.");
    }
  };
  return (
    <button type="button" class="copy" aria-label={`Copy ${what}`} title={`Copy ${what}`} onClick={() => void copy()}>
      <SignIcon sign={copied ? "facts" : "copy"} size={14} />
      <span>{copied ? "copied" : "copy"}</span>
    </button>
  );
}

/** A command to type, which can be copied. */
export function Command({ text }: { text: string }) {
  return (
    <span class="command">
      <code>{visible(text)}</code>
      <CopyButton text={text} what="command" />
    </span>
  );
}

/** What went wrong; that the server did not answer is forgotten once it does. */
export function useProblem(): [unknown, (problem: unknown) => void] {
  const [problem, setProblem] = useState<unknown>(null);
  const answers = useCell(reachable);
  const isOver = answers && problem instanceof Problem && problem.status === 0;
  return [isOver ? null : problem, setProblem];
}

/** What is done one at a time: whether it is being done, as drawn, and what begins it unless it is, also within a tick. */
export function useBusy(): [boolean, (act: () => Promise<unknown>) => void] {
  const [busy, setBusy] = useState(false);
  const isBusy = useRef(false);
  const mark = (value: boolean): void => {
    isBusy.current = value;
    setBusy(value);
  };
  const begin = (act: () => Promise<unknown>): void => {
    if (isBusy.current) return;
    mark(true);
    void act().finally(() => mark(false));
  };
  return [busy, begin];
}

export function Trouble({ error, again }: { error: unknown; again?: () => void }) {
  const next = error instanceof Problem ? error.next : "";
  return (
    <div class="trouble" role="alert">
      <GlyphIcon glyph="failed" />
      <div>
        <p>{visible(describe(error))}</p>
        {next ? <p class="next">{visible(next)}</p> : null}
      </div>
      {again ? (
        <button type="button" class="button" onClick={again}>
          Try again
        </button>
      ) : null}
    </div>
  );
}

export function Empty({ title, first = false, children }: { title: string; first?: boolean; children?: ComponentChildren }) {
  return (
    <div class="empty">
      {first ? <h1 tabIndex={-1}>{title}</h1> : <h2>{title}</h2>}
      {children}
    </div>
  );
}

/** Grows with what is typed into it. */
export function TextArea(props: {
  value: string;
  onInput: (value: string) => void;
  label: string;
  id?: string;
  rows?: number;
  mono?: boolean;
  placeholder?: string;
  onKeyDown?: (event: KeyboardEvent) => void;
  describedBy?: string;
  invalid?: boolean;
  focus?: boolean;
}) {
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    const { current } = area;
    if (!current) return;
    current.style.height = "auto";
    current.style.height = `${Math.min(current.scrollHeight + 2, 320)}px`;
  }, [props.value]);
  // Before anything else can be typed: what comes after the key that opened it belongs here, and is no key of the page.
  useLayoutEffect(() => {
    if (props.focus) area.current?.focus();
  }, []);
  return (
    <textarea
      ref={area}
      id={props.id}
      class={props.mono ? "mono" : ""}
      rows={props.rows ?? 1}
      value={props.value}
      aria-label={props.id ? undefined : props.label}
      aria-describedby={props.describedBy}
      aria-invalid={props.invalid}
      placeholder={props.placeholder}
      spellcheck={!props.mono}
      onInput={(event) => props.onInput(event.currentTarget.value)}
      onKeyDown={props.onKeyDown}
    />
  );
}

export const Words = memo(({ text }: { text: string }) => <>{visible(text)}</>);
