// The timeline draws only what is in sight, however long the run is. What is being read does not move: what comes is put
// at the end, and when rows above turn out to be higher than was guessed, the page scrolls along.
import { useCallback, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import type { Item } from "../folds/items.ts";
import { Heights } from "../heights.ts";
import { useKeys } from "../keys.ts";
import { SignIcon } from "./icons.tsx";
import { ItemPart } from "./items.tsx";

const GUESS_PX = 34;
const MARGIN_PX = 600;
const NEAR_END_PX = 48;

export interface TimelineProps {
  items: readonly Item[];
  living: boolean;
  /** What can be typed about it once it has ended. */
  commands: readonly string[];
  cwd: string;
  /** Begins at the end and stays there, until somebody scrolls away. */
  follow: boolean;
  label: string;
  /** A line that is to be shown; counted, so that the same one can be asked for twice. */
  jump?: { index: number; count: number } | null;
  keys?: boolean;
}

export function Timeline({ items, living, commands, cwd, follow, label, jump = null, keys = true }: TimelineProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const heights = useMemo(() => new Heights(GUESS_PX), []);
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  const [atEnd, setAtEnd] = useState(follow);
  const [opened, setOpened] = useState<ReadonlySet<number>>(new Set());
  const [cursor, setCursor] = useState(-1);
  const following = useRef(follow);
  const seenCount = useRef(items.length);
  const view = useRef({ top: 0, height: 800 });

  heights.resize(items.length);

  const toEnd = useCallback(() => {
    const { current } = scroller;
    if (current) current.scrollTop = current.scrollHeight;
  }, []);

  const setFollowing = useCallback(
    (next: boolean) => {
      following.current = next;
      setAtEnd(next);
      if (next) toEnd();
    },
    [toEnd],
  );

  const observer = useMemo(
    () =>
      new ResizeObserver((entries) => {
        const { current } = scroller;
        if (!current) return;
        let moved = 0;
        let changed = false;
        for (const { target } of entries) {
          const index = Number((target as HTMLElement).dataset["index"]);
          if (!target.isConnected || Number.isNaN(index) || index >= heights.count) continue;
          const top = heights.offset(index);
          const grown = heights.set(index, (target as HTMLElement).offsetHeight);
          changed ||= grown !== 0;
          if (top < current.scrollTop && grown !== 0) moved += grown;
        }
        if (!changed) return;
        redraw(undefined as never);
        if (following.current) requestAnimationFrame(toEnd);
        else if (moved) {
          // Drawn first: the place to scroll to may not be there before.
          requestAnimationFrame(() => current.scrollBy(0, moved));
        }
      }),
    [],
  );
  useEffect(() => () => observer.disconnect(), []);

  // --- What is in sight ---
  const first = heights.indexAt(Math.max(0, view.current.top - MARGIN_PX));
  const last = Math.min(items.length, heights.indexAt(view.current.top + view.current.height + MARGIN_PX) + 1);

  useLayoutEffect(() => {
    const { current } = scroller;
    if (!current) return;
    const look = (): void => {
      const { scrollTop, clientHeight, scrollHeight } = current;
      const near = scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
      const far = Math.abs(scrollTop - view.current.top) > MARGIN_PX / 3 || clientHeight !== view.current.height;
      if (near !== following.current && (near || scrollTop < view.current.top || !following.current)) {
        following.current = near;
        setAtEnd(near);
      }
      if (far) {
        view.current = { top: scrollTop, height: clientHeight };
        redraw(undefined as never);
      }
    };
    view.current = { top: current.scrollTop, height: current.clientHeight };
    const sizes = new ResizeObserver(() => {
      look();
      if (following.current) toEnd();
    });
    sizes.observe(current);
    current.addEventListener("scroll", look, { passive: true });
    redraw(undefined as never);
    return () => {
      sizes.disconnect();
      current.removeEventListener("scroll", look);
    };
  }, []);

  useEffect(() => {
    // That it lives may be known only after its beginning is shown.
    if (follow && (scroller.current?.scrollTop ?? 0) === 0) setFollowing(true);
  }, [follow]);

  useLayoutEffect(() => {
    if (following.current) {
      seenCount.current = items.length;
      toEnd();
    }
  }, [items.length, heights.total]);

  // --- Moving in it ---
  const show = (index: number, { focus = false } = {}): void => {
    const { current } = scroller;
    if (!current || index < 0 || index >= items.length) return;
    setFollowing(false);
    const top = heights.offset(index);
    const isSeen = top >= current.scrollTop && top < current.scrollTop + current.clientHeight - 80;
    if (!isSeen) current.scrollTop = Math.max(0, top - 24);
    view.current = { top: current.scrollTop, height: current.clientHeight };
    setCursor(index);
    redraw(undefined as never);
    if (focus) requestAnimationFrame(() => current.querySelector<HTMLElement>(`[data-index="${index}"]`)?.focus({ preventScroll: true }));
  };
  useEffect(() => {
    if (jump) show(jump.index, { focus: true });
  }, [jump]);
  const seen = (): number => heights.indexAt((scroller.current?.scrollTop ?? 0) + 4);
  const step = (by: number): void => {
    const from = cursor >= 0 ? cursor : seen() - (by > 0 ? 1 : 0);
    show(Math.max(0, Math.min(items.length - 1, from + by)), { focus: true });
  };
  const toggle = useCallback((n: number) => {
    setOpened((before) => {
      const next = new Set(before);
      if (!next.delete(n)) next.add(n);
      return next;
    });
  }, []);
  useKeys(
    keys
      ? {
          j: () => step(1),
          k: () => step(-1),
          Enter: () => {
            const item = items[cursor];
            if (item) toggle(item.n);
          },
          f: () => setFollowing(true),
          G: () => setFollowing(true),
          "g g": () => show(0, { focus: true }),
        }
      : {},
  );

  // Of one that had ended before, nothing is new however late it is loaded.
  const followed = useRef(follow);
  followed.current ||= follow;
  const fresh = followed.current ? items.length - seenCount.current : 0;
  return (
    <div class="timeline-box">
      <div class="timeline" ref={scroller} tabIndex={0} role="region" aria-label={label}>
        <div class="timeline-all" style={{ height: `${heights.total}px` }}>
          <div class="timeline-seen" role="feed" aria-label="Events" aria-busy={living} style={{ transform: `translateY(${heights.offset(first)}px)` }}>
            {items.slice(first, last).map((item, place) => (
              <Row key={item.n} index={first + place} count={items.length} observer={observer} chosen={first + place === cursor}>
                <ItemPart item={item} open={opened.has(item.n)} toggle={toggle} living={living} commands={commands} cwd={cwd} />
              </Row>
            ))}
          </div>
        </div>
      </div>
      {!atEnd && followed.current && (living || fresh > 0) ? (
        <button type="button" class="pill" onClick={() => setFollowing(true)}>
          <SignIcon sign="down" size={14} /> follow{fresh > 0 ? ` · ${fresh} new` : ""} <kbd>f</kbd>
        </button>
      ) : null}
    </div>
  );
}

function Row(props: { index: number; count: number; observer: ResizeObserver; chosen: boolean; children: preact.ComponentChildren }) {
  const row = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    const { current } = row;
    if (!current) return;
    props.observer.observe(current);
    return () => props.observer.unobserve(current);
  }, []);
  return (
    <article
      ref={row}
      class={`row-item ${props.chosen ? "chosen" : ""}`}
      data-index={props.index}
      tabIndex={-1}
      aria-posinset={props.index + 1}
      aria-setsize={props.count}
    >
      {props.children}
    </article>
  );
}
