// A yes is to what was seen: a question takes an answer once it has stood in its place on the screen for a moment.
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

const SEEN_MS = 700;
const LOOK_MS = 100;
// Of what lies on half a pixel a hair may be cut.
const HAIR_PX = 1;

export interface Seen {
  /** For what is drawn: whether an answer counts by now. */
  isSeen: boolean;
  /** For what is done: the same at this moment, also where something has moved since it was drawn. */
  check: () => boolean;
}

interface Sight {
  place: string;
  /** Since when it has been whole in sight; nothing while it is not. */
  since: number | null;
  seen: boolean;
}

/**
 * Whether each part of a box that is marked with `data-seen` has been whole in sight for a moment, where it is now, the
 * last of them up to now. Nothing tells of every move, so it is looked at again and again.
 */
export function useSeen(box: RefObject<HTMLElement | null>): Seen {
  const [isSeen, setSeen] = useState(false);
  const sights = useRef(new WeakMap<HTMLElement, Sight>());
  const check = (): boolean => {
    const parts = [...(box.current?.querySelectorAll<HTMLElement>("[data-seen]") ?? [])];
    // Each is looked at, also where one before it was not seen.
    const seen = parts.map((part) => lookAt(part, sights.current));
    const last = parts.at(-1);
    return last !== undefined && seen.every(Boolean) && sights.current.get(last)?.since !== null;
  };
  useEffect(() => {
    const look = (): void => setSeen(check());
    look();
    const timer = window.setInterval(look, LOOK_MS);
    return () => window.clearInterval(timer);
  }, []);
  return { isSeen, check };
}

function lookAt(part: HTMLElement, sights: WeakMap<HTMLElement, Sight>): boolean {
  const [place, now] = [placeOf(part), performance.now()];
  const before = sights.get(part);
  const held = before?.place === place ? before : { place, since: null, seen: false };
  const since = isInSight(part) ? (held.since ?? now) : null;
  // What was read may be scrolled away; what moves, or stood there while nobody looked, is to be read again.
  const seen = !document.hidden && (held.seen || (since !== null && now - since >= SEEN_MS));
  sights.set(part, { place, since, seen });
  return seen;
}

/** Whether all of it is within the window and within everything around it that scrolls or cuts. */
function isInSight(part: HTMLElement): boolean {
  if (document.hidden) return false;
  const { top, bottom, left, right } = part.getBoundingClientRect();
  if (bottom <= top || right <= left) return false;
  const isWithin = (area: { top: number; bottom: number; left: number; right: number }): boolean =>
    top >= area.top - HAIR_PX && bottom <= area.bottom + HAIR_PX && left >= area.left - HAIR_PX && right <= area.right + HAIR_PX;
  for (let at = part.parentElement; at && at !== document.body; at = at.parentElement) {
    if (getComputedStyle(at).overflow !== "visible" && !isWithin(at.getBoundingClientRect())) return false;
  }
  return isWithin({ top: 0, bottom: window.innerHeight, left: 0, right: window.innerWidth });
}

/** Where it is on the page, however far that is scrolled. */
function placeOf(part: HTMLElement): string {
  let [x, y] = [0, 0];
  for (let at: HTMLElement | null = part; at; at = at.offsetParent instanceof HTMLElement ? at.offsetParent : null) {
    x += at.offsetLeft;
    y += at.offsetTop;
  }
  return `${x} ${y}`;
}
