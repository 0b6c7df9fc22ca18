// A yes is to what was seen: a question takes an answer once it has stood in its place on the screen for a moment.
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

const SEEN_MS = 700;
const LOOK_MS = 100;

export interface Seen {
  /** For what is drawn: whether an answer counts by now. */
  isSeen: boolean;
  /** For what is done: the same at this moment, also where something has moved since it was drawn. */
  check: () => boolean;
}

/** How long a part has been in sight where it is now. Nothing tells of every move, so it is looked at again and again. */
export function useSeen(part: RefObject<HTMLElement | null>): Seen {
  const [isSeen, setSeen] = useState(false);
  const held = useRef({ place: "", since: 0 });
  const check = (): boolean => {
    const place = placeOf(part.current);
    if (place !== held.current.place) held.current = { place, since: performance.now() };
    return place !== "" && performance.now() - held.current.since >= SEEN_MS;
  };
  useEffect(() => {
    const look = (): void => setSeen(check());
    look();
    const timer = window.setInterval(look, LOOK_MS);
    return () => window.clearInterval(timer);
  }, []);
  return { isSeen, check };
}

/** Where it is on the page, however far that is scrolled; nothing for what is out of sight. */
function placeOf(part: HTMLElement | null): string {
  if (!part || document.hidden) return "";
  const { top, bottom } = part.getBoundingClientRect();
  if (bottom <= 0 || top >= window.innerHeight) return "";
  let [x, y] = [0, 0];
  for (let at: HTMLElement | null = part; at; at = at.offsetParent instanceof HTMLElement ? at.offsetParent : null) {
    x += at.offsetLeft;
    y += at.offsetTop;
  }
  return `${x} ${y}`;
}
