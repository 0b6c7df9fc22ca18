// Glyphs of states and signs of buttons, drawn on a grid of 16.
import type { JSX } from "preact";
import type { Glyph } from "../folds/state_words.ts";

type Shape = JSX.Element | JSX.Element[];

const line = (d: string): JSX.Element => <path d={d} fill="none" stroke="currentColor" stroke-width="1.75" stroke-linecap="round" stroke-linejoin="round" />;

const GLYPHS: Readonly<Record<Glyph, Shape>> = {
  working: <circle cx="8" cy="8" r="4.5" fill="currentColor" />,
  model: <circle cx="8" cy="8" r="4" fill="none" stroke="currentColor" stroke-width="2" />,
  person: <path d="M8 2.4 14.4 13.4H1.6Z" fill="currentColor" stroke="currentColor" stroke-linejoin="round" />,
  limit: [line("M8 4.6V8l2.3 1.6"), <circle cx="8" cy="8" r="5.6" fill="none" stroke="currentColor" stroke-width="1.75" />],
  done: line("m3 8.6 3.2 3.2L13 4.8"),
  failed: line("m4.2 4.2 7.6 7.6m0-7.6-7.6 7.6"),
  stopped: <rect x="4" y="4" width="8" height="8" rx="1" fill="currentColor" />,
  idle: <circle cx="8" cy="8" r="2.2" fill="currentColor" />,
  pending: <circle cx="8" cy="8" r="4" fill="none" stroke="currentColor" stroke-width="1.5" stroke-dasharray="2 2" />,
  skipped: line("M4 8h8"),
};

const SIGNS = {
  sun: [<circle cx="8" cy="8" r="3" fill="currentColor" />, line("M8 1.5v1.2M8 13.3v1.2M1.5 8h1.2M13.3 8h1.2M3.4 3.4l.8.8M11.8 11.8l.8.8M3.4 12.6l.8-.8M11.8 4.2l.8-.8")],
  moon: <path d="M13 9.8A5.6 5.6 0 0 1 6.2 3a5.6 5.6 0 1 0 6.8 6.8Z" fill="currentColor" />,
  auto: [<circle cx="8" cy="8" r="5.5" fill="none" stroke="currentColor" stroke-width="1.75" />, <path d="M8 2.5a5.5 5.5 0 0 1 0 11Z" fill="currentColor" />],
  bell: line("M4 11V7.2a4 4 0 0 1 8 0V11l1.2 1.4H2.8ZM6.8 14.2h2.4"),
  bellOff: line("M4 11V7.2a4 4 0 0 1 8 0V11l1.2 1.4H2.8ZM2.2 2.2l11.6 11.6"),
  keys: line("M2 4.5h12v7H2ZM4.6 7h.1M7 7h.1M9.4 7h.1M11.6 7h.1M5.5 9.4h5"),
  chevron: line("m6 4 4 4-4 4"),
  down: line("m4 6 4 4 4-4"),
  menu: line("M2.5 4.5h11M2.5 8h11M2.5 11.5h11"),
  facts: [<circle cx="8" cy="8" r="5.8" fill="none" stroke="currentColor" stroke-width="1.5" />, line("M8 7.4v3.4M8 5.1v.1")],
  close: line("m4 4 8 8m0-8-8 8"),
  copy: line("M5.5 5.5h7v8h-7ZM3.5 10.5v-8h7"),
  plus: line("M8 3v10M3 8h10"),
  search: [<circle cx="7" cy="7" r="4.2" fill="none" stroke="currentColor" stroke-width="1.75" />, line("m10.3 10.3 3.2 3.2")],
  play: <path d="M5 3.2 12.6 8 5 12.8Z" fill="currentColor" />,
  pause: <path d="M4.5 3.5h2.4v9H4.5ZM9.1 3.5h2.4v9H9.1Z" fill="currentColor" />,
  stop: <rect x="4" y="4" width="8" height="8" rx="1" fill="currentColor" />,
  replay: line("M3 8a5 5 0 1 0 1.6-3.7M3 2.6v2.6h2.6"),
} satisfies Record<string, Shape>;

export type Sign = keyof typeof SIGNS;

export function GlyphIcon({ glyph, spin = false }: { glyph: Glyph; spin?: boolean }) {
  return (
    <svg class={`icon ${spin ? "pulse" : ""}`} viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
      {GLYPHS[glyph]}
    </svg>
  );
}

export function SignIcon({ sign, size = 16 }: { sign: Sign; size?: number }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" width={size} height={size} aria-hidden="true">
      {SIGNS[sign]}
    </svg>
  );
}
