// The keyboard. Each place says what its keys do while it is shown; the last that was shown is asked first.
import { useLayoutEffect, useRef } from "preact/hooks";

export type Keys = Record<string, () => void>;

const layers: { current: Keys }[] = [];
// Held down, these go on; whatever else a key does, it does once.
const REPEATED = new Set(["j", "k", "ArrowDown", "ArrowUp", "ArrowLeft", "ArrowRight"]);
const PREFIX = "g";
const PREFIX_MS = 1200;
let prefixedAt = Number.NEGATIVE_INFINITY;

/** Keys for as long as a part is shown: "j", "Enter", "g r". */
export function useKeys(keys: Keys): void {
  const held = useRef(keys);
  held.current = keys;
  useLayoutEffect(() => {
    layers.push(held);
    return () => void layers.splice(layers.indexOf(held), 1);
  }, []);
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey || event.isComposing) return;
  const key = event.key;
  if (document.querySelector("dialog[open]")) return; // It has keys of its own.
  if (isTyping(event.target) && key !== "Escape") return;
  if (key === "Enter" && event.target instanceof Element && event.target.closest("a,button,summary,select")) return;
  const name = performance.now() - prefixedAt < PREFIX_MS ? `${PREFIX} ${key}` : key;
  prefixedAt = Number.NEGATIVE_INFINITY;
  const act = [...layers].reverse().find((layer) => layer.current[name])?.current[name];
  if (act) {
    event.preventDefault();
    if (!event.repeat || REPEATED.has(name)) act();
  } else if (key === PREFIX) prefixedAt = performance.now();
});

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return !["checkbox", "radio", "button", "range"].includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement || target.isContentEditable;
}
